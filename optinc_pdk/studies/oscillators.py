"""Power of the local oscillators of the neurons: what reaches the mixers, and a chip at other powers.

A neuron reads D = a² C + a X + S + offset, for local oscillators of the field amplitude a relative to those that it is
programmed for: C is what the local oscillator gives alone, X its beat with the signals, and S what the signals give
alone, which the balance of the detectors cancels but for reflections. With gain / a and the offset
a · offset + a (1 - a) C, the neuron drives its modulators as before, with S / a in place of S. A bench sets both with
all signals at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.drive import RangeError
from optinc_pdk.signoff.function import FunctionInputs, oscillator_powers
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.programming.electronics import round_significant
from optinc_pdk.simulate.transmission.detection import HiddenLayer, network_of
from optinc_pdk.simulate.transmission.noise import check_oscillator_power, relative_oscillator_power
from optinc_pdk.studies.error_estimate import error_margins
from optinc_pdk.studies.highest_rates import ERROR_RATE, highest_rate
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampled_response import sample_scattering
from optinc_pdk.studies.variation.sampling import nominal_sample

POWERS = 5
"""Number of powers that are tried, each half of the one before."""
ENOUGH = 0.95
"""Share of the highest of all rates that counts as enough."""


@dataclass(frozen=True)
class OscillatorLight:
    """Light of the local oscillators of the neurons of one chip.

    Attributes:
        fibres: Number of fibres that lead it to the chip.
        fibre_w: Optical power launched into each of them, in W.
        total_w: Optical power launched into all of them, in W.
        mixers: Number of mixers.
        mixer_mean_w: Mean power of a local oscillator at its mixer, in W: what both detectors receive.
        mixer_least_w: The smallest of these powers, in W.
        split_carrier: Whether the fibre is that of the carrier, of which the chip splits off the local oscillators.
    """

    fibres: int
    fibre_w: float
    total_w: float
    mixers: int
    mixer_mean_w: float
    mixer_least_w: float
    split_carrier: bool


def oscillator_light(board: Board, powers: Sequence[Floats], laser_w: float) -> OscillatorLight:
    """Sum up the light of the local oscillators of a chip.

    Args:
        board: Board of the chip.
        powers: For each hidden layer, (mixers,) powers at the mixers, relative to that of a field of amplitude 1, see
            :func:`optinc_pdk.signoff.function.oscillator_powers`; at least one in all.
        laser_w: Power of a field of amplitude 1, in W.
    """
    at_mixers, fibres = laser_w * np.concatenate(powers), len(board.oscillator_fibres)
    fibre_w = board.oscillator_power * laser_w
    return OscillatorLight(
        fibres=fibres,
        fibre_w=fibre_w,
        total_w=fibres * fibre_w,
        mixers=at_mixers.size,
        mixer_mean_w=float(at_mixers.mean()),
        mixer_least_w=float(at_mixers.min()),
        split_carrier=not board.oscillators,
    )


def with_oscillator_power(
    s: Scattering, board: Board, bias: Bias, process: Process, oscillator_power: float
) -> tuple[Board, Bias]:
    """Return board and bias of a chip for another power of its local oscillators, with gains and offsets set for it.

    Heaters keep their codes. Constant neurons, which a large offset at a small gain drives, stay as they are. Powers in
    the fibres that lead to local oscillators are relative to that of a field of amplitude 1; ``bias`` is for that of
    ``board``.

    Raises:
        RangeError: A neuron needs a gain or offset beyond the card's range.
    """
    if oscillator_power == board.oscillator_power:
        return board, bias
    factor = math.sqrt(oscillator_power / board.oscillator_power)
    activations = dict(bias.activations)
    for index, layer in enumerate(network_of(s, board, bias, 0).layers):
        labels = [neuron.label for neuron in board.neurons if neuron.layer == index]
        alone = _oscillator_readings(layer)
        for label, row, reading in zip(labels, layer.row.tolist(), alone.tolist(), strict=True):
            activations[label] = _scaled(activations[label], row, reading, factor, label, process)
    return replace(board, oscillator_power=oscillator_power), replace(bias, activations=activations)


def chip_with_oscillators(chip: NominalChip, laser_w: float | None, oscillator_w: float) -> NominalChip:
    """Return a nominal chip with another power of its local oscillators, and gains and offsets set for it.

    Both powers are those launched into a guide, in W; ``laser_w`` is by default the card's.

    Raises:
        InputError: The process has no noise or no budget section, or a power is out of range.
        RangeError: A neuron needs a gain or offset beyond the card's range.
    """
    ratio = relative_oscillator_power(chip.process, laser_w, oscillator_w)
    s = sample_scattering(chip, nominal_sample(chip), chip.voltage_v)
    board, bias = with_oscillator_power(s, chip.board, chip.bias, chip.process, ratio)
    return replace(chip, board=board, bias=bias)


def _oscillator_readings(layer: HiddenLayer) -> Floats:
    """(n,) detected differences of the neurons of a layer with local oscillators alone, offsets left out."""
    power = layer.detection.power(layer.detection.field[:1].copy())
    found: Floats = layer.difference(power)[0] - layer.offset
    return found


def _scaled(now: Activation, row: int, alone: float, factor: float, label: str, process: Process) -> Activation:
    """Electronics of a neuron for local oscillators of ``factor`` times the field."""
    card, bits = process.activation, int(process.activation.resolution_bits)
    if row < 0 or now.offset >= float(card.offset_max):
        return now
    gain = float(round_significant(np.array(now.gain / factor), bits))
    offset = float(round_significant(np.array(factor * now.offset + factor * (1.0 - factor) * alone), bits))
    for what, value, most in (("gain", gain, float(card.gain_max)), ("offset", offset, float(card.offset_max))):
        if abs(value) > most:
            raise RangeError(
                f"neuron {label!r} needs {what} {value:.4g} at this power of the local oscillators, the card allows at "
                f"most {most:g} (activation.{what}_max); give a power nearer to that of the chip's netlist"
            )
    return replace(now, gain=gain, offset=offset)


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
    """Search the highest symbol rate of a chip at several powers of its local oscillators, with gains and offsets set
    for each.

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
