"""Highest symbol rate of a chip against the power of its local oscillators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.drive import RangeError
from optinc_pdk.signoff.function import FunctionInputs, oscillator_powers
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import check_oscillator_power
from optinc_pdk.studies.error_estimate import error_margins
from optinc_pdk.studies.highest_rates import ERROR_RATE, highest_rate
from optinc_pdk.studies.oscillator_power import OscillatorLight, oscillator_light, with_oscillator_power

POWERS = 5
"""Number of powers that are tried, each half of the one before."""
ENOUGH = 0.95
"""Share of the highest of all rates that counts as enough."""


@dataclass(frozen=True)
class OscillatorRate:
    """Highest symbol rate at one power of the local oscillators.

    Attributes:
        oscillator_w: Power launched into each fibre that leads to local oscillators, in W.
        symbol_rate_bd: Highest symbol rate in Bd; None if no useful rate is acceptable, or if the electronics cannot be
            set for this power.
    """

    oscillator_w: float
    symbol_rate_bd: float | None


@dataclass(frozen=True)
class OscillatorRates:
    """Highest symbol rates of a chip against the power of its local oscillators.

    Attributes:
        word_error_rate: Accepted word-error rate, estimated.
        light: Light of the local oscillators at the power in use; None for a chip without mixers.
        points: Rates by descending power; none for a chip without mixers.
    """

    word_error_rate: float
    light: OscillatorLight | None
    points: tuple[OscillatorRate, ...]

    @property
    def enough_w(self) -> float | None:
        """Smallest of the powers whose rate is at least ``ENOUGH`` of the highest of all; None without a rate."""
        found = [(one.oscillator_w, one.symbol_rate_bd) for one in self.points if one.symbol_rate_bd is not None]
        best = max((rate for _, rate in found), default=0.0)
        return min((power for power, rate in found if rate >= ENOUGH * best), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the rates as JSON-compatible data."""
        return asdict(self) | {"enough_w": self.enough_w}


def oscillator_rates(
    s: Scattering,
    inputs: FunctionInputs,
    board: Board,
    bias: Bias,
    process: Process,
    laser_w: float | None = None,
    powers_w: Sequence[float] | None = None,
    on_power: Callable[[float], None] | None = None,
) -> OscillatorRates:
    """Search the highest symbol rate of a chip at several powers of its local oscillators.

    At every power, gains and offsets of the neurons are set for it, see
    :func:`optinc_pdk.studies.oscillator_power.with_oscillator_power`.

    Args:
        s: S-parameters of the chip.
        inputs: The inputs, of which some represent all.
        board: Board of the chip.
        bias: Electronics of its neurons and receivers.
        process: Process of the cards.
        laser_w: Power launched into every other waveguide, in W; by default the card's.
        powers_w: Powers in W; by default ``POWERS`` of them, from the largest that a guide carries.
        on_power: Called with each power before it is evaluated.

    Raises:
        InputError: The process has no noise or no budget section, or a power is out of range.
    """
    laser = check_oscillator_power(process, laser_w, board.oscillator_power) / board.oscillator_power
    if powers_w is None:
        most = laser if process.noise is None else float(process.noise.laser_max_w)
        powers_w = [most / 2.0**step for step in range(POWERS)]
    powers = oscillator_powers(s, board)
    if not sum(each.size for each in powers):
        return OscillatorRates(ERROR_RATE, None, ())
    points = []
    for power in powers_w:
        check_oscillator_power(process, laser, power / laser)
        if on_power is not None:
            on_power(power)
        try:
            other = with_oscillator_power(s, board, bias, process, power / laser)
        except RangeError:
            points.append(OscillatorRate(power, None))
            continue
        margins = error_margins(s, inputs, *other)
        points.append(OscillatorRate(power, highest_rate(margins, process, ERROR_RATE, laser)))
    return OscillatorRates(ERROR_RATE, oscillator_light(board, powers, laser), tuple(points))
