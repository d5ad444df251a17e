"""Power of the local oscillators of the neurons: what reaches the mixers, and the same chip at another power.

A neuron reads D = a² C + a X + S + offset, for local oscillators of the field amplitude a relative to those that it is
programmed for: C is what the local oscillator gives alone, X its beat with the signals, and S what the signals give
alone, which the balance of the detectors cancels but for reflections. With gain / a and the offset
a · offset + a (1 - a) C, the neuron drives its modulators as before, with S / a in place of S. A bench sets both with
all signals at zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.drive import RangeError
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.programming.electronics import round_significant
from optinc_pdk.simulate.transmission.detection import HiddenLayer, network_of


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

    Heaters keep their codes. Constant neurons, which a large offset at a small gain drives, stay as they are.

    Args:
        s: S-parameters of the chip.
        board: Board of the chip.
        bias: Electronics for the power that the board states.
        process: Process of the cards, which states range and resolution of the electronics.
        oscillator_power: Power in the fibres that lead to local oscillators, relative to that of a field of amplitude
            1.

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
