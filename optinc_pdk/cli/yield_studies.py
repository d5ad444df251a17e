"""Studies of `optinc yield`: of chips that average words, and of chips that are compared with a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optinc_pdk.cli.chip_targets import WordTarget, check_of
from optinc_pdk.cli.symbol_rates import warn_of_rates
from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.studies import Imperfections, NominalChip
    from optinc_pdk.studies.montecarlo.sample_study import AnyStudy


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
        from optinc_pdk.simulate.transmission.noise import noise_choices
        from optinc_pdk.simulate.transmission.oscillator_limits import relative_oscillator_power

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
) -> AnyStudy:
    """Return the study of a chip that averages words, or that is compared with a matrix or a general network.

    Args:
        found: What the chip computes.
        built: The extracted chip.
        card: Process as the target uses it.
        options: Options of the samples.

    Raises:
        InputError: A power is out of range, or the task is for another chip.
    """
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.studies.montecarlo.study import with_oscillators
    from optinc_pdk.studies.variation.nominal_chip import chip_of

    lasers = options.lasers
    chip = chip_of(built.circuit, built.board, built.bias, card, built.ground)
    if lasers.oscillator_w is not None and not isinstance(found, MatrixTarget):
        chip = with_oscillators(chip, lasers.laser_w, lasers.oscillator_w)
    return _word_study(found, chip, options) if isinstance(found, WordTarget) else _check_study(found, chip, options)


def _word_study(found: WordTarget, chip: NominalChip, options: SampleOptions) -> AnyStudy:
    from optinc_pdk.studies.montecarlo.study import YieldStudy, best_receiver

    lasers = options.lasers
    return YieldStudy(
        chip=chip,
        task=found.task,
        imperfections=options.imperfections,
        seed=options.seed,
        target=options.target,
        noise=best_receiver(chip, found.task, lasers.laser_w, lasers.symbol_rate) if lasers.noise else None,
        onn=found.onn if options.calibrate else None,
    )


def _check_study(found: CheckedNetwork | MatrixTarget, chip: NominalChip, options: SampleOptions) -> AnyStudy:
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.simulate.transmission.oscillator_limits import check_oscillator_power
    from optinc_pdk.studies.checked_noise import operating_noise
    from optinc_pdk.studies.montecarlo.check_study import CheckStudy

    lasers, noise = options.lasers, None
    if lasers.noise:
        noise = operating_noise(chip.process, lasers.laser_w, lasers.symbol_rate)
        if not isinstance(found, MatrixTarget):
            check_oscillator_power(chip.process, lasers.laser_w, chip.board.oscillator_power)
    check = check_of(found, chip)
    return CheckStudy[Any](chip, check, options.imperfections, options.seed, options.calibrate, noise)
