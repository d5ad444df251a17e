"""Monte-Carlo study of a chip that is compared with a matrix or a general network, before and after calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.drive import RangeError
from optinc_pdk.matrices.comparison import NoLightError
from optinc_pdk.simulate import Scattering, UnsettledError
from optinc_pdk.tolerance.montecarlo.check_outcome import CheckOutcome, CheckSummary, Quantity
from optinc_pdk.tolerance.montecarlo.sample_study import AFTER, BEFORE, DRIFTED, sample_seed
from optinc_pdk.tolerance.variation.imperfections import Imperfections
from optinc_pdk.tolerance.variation.nominal_chip import NominalChip
from optinc_pdk.tolerance.variation.sampled_response import sample_scattering
from optinc_pdk.tolerance.variation.sampling import ChipSample, aged_sample, draw_sample

Floats = NDArray[np.float64]


class BiasedSetting(Protocol):
    """Setting of a chip: voltages of its heaters, and what belongs to them."""

    @property
    def voltage_v(self) -> Floats:
        """(H,) heater voltages."""
        ...


Setting = TypeVar("Setting", bound=BiasedSetting)


class ChipCheck(Protocol[Setting]):
    """What is measured at the outputs of a sampled chip, and the target that it is compared with."""

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Quantities of the comparison."""
        ...

    @property
    def tuned_stages(self) -> tuple[str, ...]:
        """Names of the stages of a calibration; the last one is ``after``."""
        ...

    def header(self) -> dict[str, Any]:
        """Return what the comparison depends on, as JSON-compatible data."""
        ...

    def stated_setting(self, chip: NominalChip) -> Setting:
        """Return the setting of the bias file."""
        ...

    def calibrated(self, chip: NominalChip, sample: ChipSample, bits: float | None) -> Mapping[str, Setting]:
        """Calibrate a sample on a virtual bench.

        Args:
            chip: The nominal chip.
            sample: Sampled device parameters.
            bits: Effective bits of the drive; None if voltages are not rounded.

        Returns:
            Setting of each of ``tuned_stages``.

        Raises:
            RangeError: The range of the drive or of the electronics is too small.
        """
        ...

    def measured(self, s: Scattering, setting: Setting) -> tuple[bool, Mapping[str, float]]:
        """Compare a biased sample with the target: whether it passes, and the values of the quantities.

        Raises:
            NoLightError: No light of the sample is like the target.
            UnsettledError: Its light does not settle.
        """
        ...


@dataclass(frozen=True, eq=False)
class CheckStudy(Generic[Setting]):
    """Parameters of a yield analysis of a chip that is compared with a target.

    Attributes:
        chip: The nominal chip with its bias.
        check: What is measured, and the target.
        imperfections: Imperfections of the samples.
        seed: Seed of all samples.
        calibrated: Whether samples are calibrated.
    """

    chip: NominalChip
    check: ChipCheck[Setting]
    imperfections: Imperfections
    seed: int
    calibrated: bool = False

    noise = None
    outcome = CheckOutcome

    @property
    def judged_stage(self) -> str:
        """Name of the stage that contributions and tolerances refer to: ``after`` if calibrated, else ``before``."""
        return AFTER if self.calibrated else BEFORE

    @property
    def summary(self) -> CheckSummary:
        """Statistics of the outcomes."""
        return CheckSummary(self.check.quantities)

    def header(self) -> dict[str, Any]:
        """Return what the results depend on besides chip, process and imperfections, as JSON-compatible data."""
        return {"task": self.check.header(), "noise": None, "calibrated": self.calibrated}

    def outcomes(self, imperfections: Imperfections, sample: int) -> dict[str, CheckOutcome]:
        """Sample a chip and compare it with its target at each stage of its calibration.

        Args:
            imperfections: Imperfections of the sample.
            sample: Index of the sample.

        Returns:
            Name of the stage to its outcome: ``before`` (bias file); with calibration those of the check, and
            ``drifted`` (after drift of the resistances).
        """
        parameters = draw_sample(self.chip, imperfections, sample_seed(self.seed, sample))
        bits = imperfections.effective_bits
        found = {BEFORE: self._outcome(parameters, self.check.stated_setting(self.chip), bits)}
        if not self.calibrated:
            return found
        try:
            settings = self.check.calibrated(self.chip, parameters, bits)
        except (RangeError, UnsettledError, np.linalg.LinAlgError) as fault:
            # this sample is unusable but must not end the run
            unusable = CheckOutcome(False, {}, f"calibration failed: {fault}")
            return found | dict.fromkeys((*self.check.tuned_stages, DRIFTED), unusable)
        found |= {stage: self._outcome(parameters, setting, bits) for stage, setting in settings.items()}
        return found | {DRIFTED: self._outcome(aged_sample(parameters), settings[AFTER], bits)}

    def uncalibrated_outcomes(
        self, s: Scattering | ValueError, imperfections: Imperfections, seed: int
    ) -> dict[str, CheckOutcome]:
        """Compare a sample with the bias of the file with its target."""
        return {BEFORE: self._compared(s, self.check.stated_setting(self.chip))}

    def reached(self, outcome: CheckOutcome) -> bool:
        """Return whether a sample keeps all limits."""
        return outcome.passed

    def reached_uncalibrated(self, s: Scattering | ValueError, imperfections: Imperfections, seed: int) -> bool:
        """Return whether a sample with the bias of the file keeps all limits."""
        if isinstance(s, ValueError):
            raise s
        return self._compared(s, self.check.stated_setting(self.chip)).passed

    def _outcome(self, parameters: ChipSample, setting: Setting, bits: float | None) -> CheckOutcome:
        try:
            s: Scattering | ValueError = sample_scattering(self.chip, parameters, setting.voltage_v, bits)
        except RangeError as fault:
            s = fault
        return self._compared(s, setting)

    def _compared(self, s: Scattering | ValueError, setting: Setting) -> CheckOutcome:
        if isinstance(s, RangeError):
            return CheckOutcome(False, {}, str(s))
        if isinstance(s, ValueError):
            raise s
        try:
            return CheckOutcome(*self.check.measured(s, setting))
        except (NoLightError, UnsettledError) as fault:
            return CheckOutcome(False, {}, str(fault))
