"""Monte-Carlo study of a chip that is compared with a matrix or a general network, before and after calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.drive import RangeError
from optinc_pdk.matrices.comparison import NoLightError
from optinc_pdk.simulate import Scattering, UnsettledError
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.studies.montecarlo.check_outcome import CheckOutcome, CheckSummary, Quantity
from optinc_pdk.studies.montecarlo.sample_noise import SampleConditions, scaled_noise
from optinc_pdk.studies.montecarlo.sample_study import AFTER, BEFORE, DRIFTED, sample_seed
from optinc_pdk.studies.variation.imperfections import Imperfections
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampled_response import sample_scattering
from optinc_pdk.studies.variation.sampling import ChipSample, aged_sample, draw_sample


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
    def noise_quantities(self) -> tuple[Quantity, ...]:
        """Further quantities where there is noise."""
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

    def calibrated(self, chip: NominalChip, sample: ChipSample, conditions: SampleConditions) -> Mapping[str, Setting]:
        """Calibrate a sample on a virtual bench.

        Args:
            chip: The nominal chip.
            sample: Sampled device parameters.
            conditions: Drive, and noise of the readings.

        Returns:
            Setting of each of ``tuned_stages``.

        Raises:
            RangeError: The range of the drive or of the electronics is too small.
        """
        ...

    def recalibrated(
        self, chip: NominalChip, sample: ChipSample, conditions: SampleConditions, setting: Setting
    ) -> tuple[Setting, int]:
        """Tune a sample that has drifted, from its setting; other arguments as for :meth:`calibrated`.

        Returns:
            The new setting, and the number of heater settings that the bench applied.

        Raises:
            RangeError: The range of the drive or of the electronics is too small.
        """
        ...

    def measured(
        self, s: Scattering, setting: Setting, noise: Noise | None = None, seed: int = 0
    ) -> tuple[bool, Mapping[str, float]]:
        """Compare a biased sample with the target: whether it passes, and the values of the quantities.

        Args:
            s: S-parameters of the sample at the setting.
            setting: The setting.
            noise: Noise of lasers and detectors; None for no noise.
            seed: Seed of the noise.

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
        noise: Noise in operation and in the readings of the calibration; None for no noise.
    """

    chip: NominalChip
    check: ChipCheck[Setting]
    imperfections: Imperfections
    seed: int
    calibrated: bool = False
    noise: Noise | None = None

    outcome = CheckOutcome

    @property
    def judged_stage(self) -> str:
        """Name of the stage that contributions and tolerances refer to: ``after`` if calibrated, else ``before``."""
        return AFTER if self.calibrated else BEFORE

    @property
    def summary(self) -> CheckSummary:
        """Statistics of the outcomes."""
        noisy = scaled_noise(self.noise, self.imperfections) is not None
        return CheckSummary(self.check.quantities + (self.check.noise_quantities if noisy else ()))

    def header(self) -> dict[str, Any]:
        """Return what the results depend on besides chip, process and imperfections, as JSON-compatible data."""
        noise = None if self.noise is None else self.noise.to_json()
        return {"task": self.check.header(), "noise": noise, "calibrated": self.calibrated}

    def conditions(self, imperfections: Imperfections, seed: int) -> SampleConditions:
        """Return drive and noise of a sample with some imperfections and a seed."""
        return SampleConditions(imperfections.effective_bits, scaled_noise(self.noise, imperfections), seed)

    def outcomes(self, imperfections: Imperfections, sample: int) -> dict[str, CheckOutcome]:
        """Sample a chip and compare it with its target at each stage of its calibration.

        Args:
            imperfections: Imperfections of the sample.
            sample: Index of the sample.

        Returns:
            Name of the stage to its outcome: ``before`` (bias file); with calibration those of the check, and
            ``drifted`` (after drift of the resistances).
        """
        seed = sample_seed(self.seed, sample)
        parameters, conditions = draw_sample(self.chip, imperfections, seed), self.conditions(imperfections, seed)
        found = {BEFORE: self.outcome_of(parameters, self.check.stated_setting(self.chip), conditions)}
        if not self.calibrated:
            return found
        try:
            settings = self.check.calibrated(self.chip, parameters, conditions)
        except (RangeError, UnsettledError, np.linalg.LinAlgError) as fault:
            # this sample is unusable but must not end the run
            unusable = CheckOutcome(False, {}, f"calibration failed: {fault}")
            return found | dict.fromkeys((*self.check.tuned_stages, DRIFTED), unusable)
        found |= {stage: self.outcome_of(parameters, setting, conditions) for stage, setting in settings.items()}
        return found | {DRIFTED: self.outcome_of(aged_sample(parameters), settings[AFTER], conditions)}

    def uncalibrated_outcomes(
        self, s: Scattering | ValueError, imperfections: Imperfections, seed: int
    ) -> dict[str, CheckOutcome]:
        """Compare a sample with the bias of the file with its target."""
        stated = self.check.stated_setting(self.chip)
        return {BEFORE: self._compared(s, stated, self.conditions(imperfections, seed))}

    def reached(self, outcome: CheckOutcome) -> bool:
        """Return whether a sample keeps all limits."""
        return outcome.passed

    def reached_uncalibrated(self, s: Scattering | ValueError, imperfections: Imperfections, seed: int) -> bool:
        """Return whether a sample with the bias of the file keeps all limits."""
        if isinstance(s, ValueError):
            raise s
        return self.uncalibrated_outcomes(s, imperfections, seed)[BEFORE].passed

    def outcome_of(self, sample: ChipSample, setting: Setting, conditions: SampleConditions) -> CheckOutcome:
        """Compare a sample at a setting with the target."""
        try:
            s: Scattering | ValueError = sample_scattering(self.chip, sample, setting.voltage_v, conditions.bits)
        except RangeError as fault:
            s = fault
        return self._compared(s, setting, conditions)

    def _compared(self, s: Scattering | ValueError, setting: Setting, conditions: SampleConditions) -> CheckOutcome:
        if isinstance(s, RangeError):
            return CheckOutcome(False, {}, str(s))
        if isinstance(s, ValueError):
            raise s
        try:
            return CheckOutcome(*self.check.measured(s, setting, conditions.noise, conditions.seed))
        except (NoLightError, UnsettledError) as fault:
            return CheckOutcome(False, {}, str(fault))
