"""Studies of `optinc yield`: of chips that average words, and of chips that are compared with a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optinc_pdk.cli.chip_targets import WordTarget, check_of
from optinc_pdk.cli.symbol_rates import warn_of_rates

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.chip_tasks.sources import CheckedNetwork
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.tolerance import Imperfections
    from optinc_pdk.tolerance.montecarlo.sample_study import AnyStudy
    from optinc_pdk.tolerance.montecarlo.study import YieldStudy


@dataclass(frozen=True)
class LaserOptions:
    """Options of ``--noise``: whether there is noise, optical powers and symbol rate; None for the card's."""

    noise: bool
    laser_w: float | None
    oscillator_w: float | None
    symbol_rate: float | None

    def check(self, card: Process) -> None:
        """Refuse powers and rates that the process does not allow, before the layout is read."""
        from optinc_pdk.simulate.transmission.noise import noise_choices
        from optinc_pdk.simulate.transmission.oscillator_limits import relative_oscillator_power

        if self.noise:
            noise_choices(card, self.laser_w, self.symbol_rate)
            warn_of_rates(card, () if self.symbol_rate is None else [self.symbol_rate])
        if self.oscillator_w is not None:
            relative_oscillator_power(card, self.laser_w, self.oscillator_w)


def word_study(
    found: WordTarget,
    built: ExtractedChip,
    card: Process,
    drawn: Imperfections,
    seed: int,
    target: float,
    calibrate: bool,
    lasers: LaserOptions,
) -> YieldStudy:
    """Return the study of a chip that averages words."""
    from optinc_pdk.tolerance.montecarlo.study import YieldStudy, best_receiver, with_oscillators
    from optinc_pdk.tolerance.variation.nominal_chip import chip_of

    chip = chip_of(built.circuit, built.board, built.bias, card, built.ground)
    if lasers.oscillator_w is not None:
        chip = with_oscillators(chip, lasers.laser_w, lasers.oscillator_w)
    return YieldStudy(
        chip=chip,
        task=found.task,
        imperfections=drawn,
        seed=seed,
        target=target,
        noise=best_receiver(chip, found.task, lasers.laser_w, lasers.symbol_rate) if lasers.noise else None,
        onn=found.onn if calibrate else None,
    )


def check_study(
    found: CheckedNetwork | MatrixTarget,
    built: ExtractedChip,
    card: Process,
    drawn: Imperfections,
    seed: int,
    calibrate: bool,
) -> AnyStudy:
    """Return the study of a chip that is compared with a matrix or a general network."""
    from optinc_pdk.tolerance.montecarlo.check_study import CheckStudy
    from optinc_pdk.tolerance.variation.nominal_chip import chip_of

    chip = chip_of(built.circuit, built.board, built.bias, card, built.ground)
    return CheckStudy[Any](chip, check_of(found, chip), drawn, seed, calibrate)
