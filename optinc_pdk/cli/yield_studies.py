"""Study of `optinc yield`, from the options of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optinc_pdk.cli.chip_inputs import WordTarget, check_of
from optinc_pdk.cli.symbol_rates import warn_of_rates
from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.studies import Imperfections
    from optinc_pdk.studies.montecarlo.study import YieldStudy


@dataclass(frozen=True)
class LaserOptions:
    """Options of ``--noise``: whether there is noise, optical powers and symbol rate; None for the card's."""

    noise: bool
    laser_w: float | None
    oscillator_w: float | None
    symbol_rate: float | None

    def refuse_without_noise(self) -> None:
        """Refuse powers and rates if there is no noise.

        Raises:
            InputError: One of them is given.
        """
        if not self.noise and (self.laser_w, self.oscillator_w, self.symbol_rate) != (None, None, None):
            raise InputError(
                "--laser-w, --oscillator-w and --symbol-rate have no effect without noise: add --noise, or leave them "
                "out"
            )

    def check(self, card: Process) -> None:
        """Refuse powers and rates that the process does not allow, before the layout is read."""
        from optinc_pdk.simulate.transmission.noise import noise_choices, relative_oscillator_power

        if self.noise:
            noise_choices(card, self.laser_w, self.symbol_rate)
            warn_of_rates(card, () if self.symbol_rate is None else [self.symbol_rate])
        if self.oscillator_w is not None:
            relative_oscillator_power(card, self.laser_w, self.oscillator_w)


@dataclass(frozen=True)
class SampleOptions:
    """What is sampled, and how the samples are judged.

    Attributes:
        imperfections: Imperfections of the samples.
        seed: Seed of all samples.
        target: Share of words that a chip has to compute exactly.
        calibrate: Whether samples are calibrated.
        lasers: Options of the noise.
    """

    imperfections: Imperfections
    seed: int
    target: float
    calibrate: bool
    lasers: LaserOptions


def study_of(
    found: WordTarget | CheckedNetwork | MatrixTarget, built: ExtractedChip, card: Process, options: SampleOptions
) -> YieldStudy:
    """Return the study of a chip, whatever it is for.

    Args:
        found: What the chip computes.
        built: The extracted chip.
        card: Process as the target uses it.
        options: Options of the samples.

    Raises:
        InputError: A power is out of range, or the task is for another chip.
    """
    from optinc_pdk.studies.chip_checks import ChipCheck, WordCheck
    from optinc_pdk.studies.montecarlo.study import YieldStudy, with_oscillators
    from optinc_pdk.studies.variation.nominal_chip import chip_of

    lasers = options.lasers
    chip = chip_of(built.circuit, built.board, built.bias, card, built.ground)
    if lasers.oscillator_w is not None:
        chip = with_oscillators(chip, lasers.laser_w, lasers.oscillator_w)
    check: ChipCheck[Any, Any]
    if isinstance(found, WordTarget):
        check = WordCheck(chip, found.task, found.onn, options.target)
    else:
        check = check_of(found, chip)
    noise = check.operating_noise(lasers.laser_w, lasers.symbol_rate) if lasers.noise else None
    return YieldStudy(check, options.imperfections, options.seed, options.calibrate, noise)
