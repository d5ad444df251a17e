"""Gains, offsets and balances of the neurons, and scales of the receivers, fitted to the driven chip.

Programming removes what detectors read without signals. Signals add constants of their own: a modulator of finite
extinction sends light in quadrature, most of it at small amplitudes, and reflections and unequal detectors leave terms
quadratic in the signals. :func:`trim_offsets` removes their means over known inputs, layer by layer, as on a bench.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.drive import RangeError
from optinc_pdk.networks import GeneralNetwork, LayerFactor
from optinc_pdk.networks.layers import activate
from optinc_pdk.networks.requirements import describe_rows
from optinc_pdk.simulate.modulator_drive import Modulator, modulator_of
from optinc_pdk.simulate.programming.detection_jacobian import LinearResponse, SourceFields, linear_response
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.simulate.s_parameters.scattering import Scattering
from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.simulate.transmission.reception import input_amplitudes, transmit_vectors
from optinc_pdk.simulate.transmission.settling import settle_light


def neuron_electronics(
    detect: Callable[[LayerTarget, Floats | None], LinearResponse],
    found: tuple[LayerTarget, ...],
    board: Board,
    process: Process,
) -> dict[str, Activation]:
    """Compute gain, offset and balance of every neuron from the detection coefficients of its layer, by neuron label.

    The gain is a least-squares fit of the detected row to its target, times the drive per field of the modulator.
    The offset removes the detected constant and adds the bias of the network layer. ``detect`` returns a layer's
    detection coefficients, calculated or measured, at a given balance (rows,), or at the best one for None; neurons
    that share detectors have the same.

    Raises:
        RangeError: A neuron needs a gain or offset beyond the card's range.
    """
    card, modulator = process.activation, modulator_of(process)
    bits = int(card.resolution_bits)
    result: dict[str, Activation] = {}
    for target in found[:-1]:
        labels = [neuron.label for neuron in board.neurons if neuron.layer == target.index]
        balance = round_significant(detect(target, None).balance, bits)
        seen = detect(target, balance)
        weight = target.unit_weight[:, target.illuminated]
        detected = target.by_unit(seen.coefficient.real)[:, target.illuminated]
        flat = ~weight.any(axis=1)
        power = (detected**2).sum(axis=1)
        gain = np.divide((detected * weight).sum(axis=1), power, out=np.zeros_like(power), where=~flat)
        # A unit without weights is a constant: a large offset at a small gain dominates what its detectors read.
        gain[flat] = modulator.drive(target.bias[flat]) / float(card.offset_max)
        gain = round_significant(gain, bits)
        offset = np.divide(target.bias, gain, out=np.zeros_like(gain), where=gain > 0.0) - target.by_unit(seen.constant)
        offset[flat] = float(card.offset_max)
        offset = round_significant(offset, bits)
        gain = round_significant(np.where(flat, gain, gain * small_signals(target.factor, modulator)), bits)
        _check(labels, "gain", gain, 0.0, float(card.gain_max), target)
        _check(labels, "offset", offset, -float(card.offset_max), float(card.offset_max), target)
        balances = np.where(target.unit_row >= 0, target.by_unit(balance), 1.0)
        columns = (gain.tolist(), offset.tolist(), balances.tolist())
        result |= {label: Activation(*row) for label, *row in zip(labels, *columns, strict=True)}
    return result


def small_signals(factor: LayerFactor, modulator: Modulator) -> Floats:
    """Return the (out,) drives per field of a layer's units; see `Modulator.small_signal`."""
    swings, which = np.unique(factor.swing, return_inverse=True)
    return np.array([modulator.small_signal(swing) for swing in swings.tolist()])[which]


def output_scales(light: SourceFields, target: LayerTarget, process: Process) -> dict[str, float]:
    """Fit the scale of every receiver, level over field, by least squares, to the resolution of the card."""
    field, weight = _received(light, target)
    scale = np.abs((field * weight).sum(axis=1)) / (np.abs(field) ** 2).sum(axis=1)
    rounded = round_significant(scale, int(process.activation.resolution_bits))
    return dict(zip(target.plus, rounded.tolist(), strict=True))


def _received(light: SourceFields, target: LayerTarget) -> tuple[Complexes, Floats]:
    """(receivers, J) fields of the last layer's sources that are ever on, and their target coefficients."""
    field = np.asarray(linear_response(light, target).coefficient, dtype=np.complex128)[:, target.illuminated]
    return field, np.tile(target.unit_weight, (field.shape[0] // target.weight.shape[0], 1))[:, target.illuminated]


def receiver_phases(light: SourceFields, target: LayerTarget) -> dict[str, float]:
    """Return the phases of the local oscillators of coherent receivers, in rad by receiver label."""
    field, weight = _received(light, target)
    return dict(zip(target.plus, np.angle((field * weight).sum(axis=1)).tolist(), strict=True))


def dark_powers(light: SourceFields, target: LayerTarget, process: Process) -> dict[str, float]:
    """Return the power that receivers subtract: what reaches them while the modulator of their output is at its null.

    It is relative to a field of amplitude 1, by receiver label, and known only where every output is the light of one
    modulator; else, or if modulators leak nothing, the result is empty.
    """
    leak = modulator_of(process).leak
    if not leak or (np.count_nonzero(target.weight, axis=1) > 1).any():
        return {}
    field = np.abs(np.asarray(linear_response(light, target).coefficient)).max(axis=1)
    rounded = round_significant((leak * field) ** 2, int(process.activation.resolution_bits))
    return dict(zip(target.plus, rounded.tolist(), strict=True))


def round_significant(values: Floats, bits: int) -> Floats:
    """Round values to a number of significant bits, as converters whose range is switched."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2.0**bits) / 2.0**bits, exponent)


def check_offsets(labels: list[str], offsets: Floats, process: Process) -> None:
    """Check that the electronics of neurons with these labels reach some offsets; raise RangeError otherwise."""
    limit = float(process.activation.offset_max)
    wrong = np.flatnonzero(np.abs(offsets) > limit)
    if wrong.size:
        raise RangeError(
            f"neuron {labels[wrong[0]]!r} needs offset {offsets[wrong[0]]:.4g}, the card allows {-limit:g} … {limit:g}"
            "; lower the chip's loss or widen the electronics' range"
        )


def output_offsets(target: LayerTarget) -> dict[str, float]:
    """Return the values that receivers of fields add, by receiver label: the bias of the last layer."""
    each = np.tile(target.bias, len(target.plus) // target.bias.size)
    return dict(zip(target.plus, each.tolist(), strict=True))


def _check(labels: list[str], what: str, values: Floats, low: float, high: float, target: LayerTarget) -> None:
    wrong = np.flatnonzero(~((values >= low) & (values <= high)))
    if wrong.size:
        remedy = "lower the chip's loss or widen the electronics' range"
        if what == "gain" and values[wrong[0]] < 0.0:
            remedy = "the chip realises its row with the opposite sign: use more DAC bits, or program it again"
        raise RangeError(
            f"neuron {labels[wrong[0]]!r} needs {what} {values[wrong[0]]:.4g}, "
            f"the card allows {low:g} … {high:g}; layer {target.index}: {describe_rows(target.weight)}; {remedy}"
        )


def trim_offsets(
    scattering: Scattering,
    board: Board,
    bias: Bias,
    network: GeneralNetwork,
    factors: Sequence[LayerFactor],
    process: Process,
) -> Bias:
    """Return a bias whose neurons and receivers have the mean signals of the network.

    The mean of a neuron is over the inputs for which it is positive, and over all if there are none.

    Args:
        scattering: S-parameters of the chip, driven by the codes of the bias.
        board: Board netlist that joins the chip's fibres.
        bias: Bias as programmed.
        network: The network; the inputs are those of its task.
        factors: Factorisation of each layer.
        process: Process of the cards, which gives range and resolution of the offsets.

    Raises:
        RangeError: A neuron needs an offset beyond the card's range.
        UnsettledError: The light on the chip does not settle.
    """
    points = network.task.points
    sent = input_amplitudes(points, board, bias)
    modulator = modulator_of(process)
    for index, signals in enumerate(_signals(sent, factors, network)):
        wanted = signals * small_signals(factors[index], modulator)
        layer_bias = _trimmed(scattering, board, bias, sent, index, wanted)
        values = np.array(list(layer_bias.values()))
        check_offsets(list(layer_bias), values, process)
        rounded = round_significant(values, int(process.activation.resolution_bits)).tolist()
        settings = {
            label: replace(bias.activations[label], offset=offset)
            for label, offset in zip(layer_bias, rounded, strict=True)
        }
        bias = replace(bias, activations={**bias.activations, **settings})
    received = transmit_vectors(points, scattering, board, bias).outputs
    missing = (network.forward(points) - received).mean(axis=0)
    labels = [label for row in board.outputs for label in row]
    offsets = {label: bias.output_offsets[label] + float(m) for label, m in zip(labels, missing, strict=True)}
    return replace(bias, output_offsets=offsets)


def _signals(sent: Floats, factors: Sequence[LayerFactor], network: GeneralNetwork) -> list[Floats]:
    """For each hidden layer, (S, units) pre-activations of the network in modulator amplitudes."""
    signal, found = sent, []
    for factor in factors[:-1]:
        found.append(signal @ factor.weight.T + factor.bias)
        signal = activate(found[-1].copy(), network.activation)
    return found


def _trimmed(
    scattering: Scattering, board: Board, bias: Bias, sent: Floats, index: int, wanted: Floats
) -> dict[str, float]:
    """Offsets of the neurons of a layer, by label; units without detectors are left out."""
    chip = network_of(scattering, board, bias, 0)
    layer = chip.layers[index]
    found = settle_light(sent, chip).differences[index] * layer.gain
    positive = wanted > 0.0
    counted = np.where(positive.any(axis=0), positive, True)
    missing = np.where(counted, wanted - found, 0.0).sum(axis=0) / counted.sum(axis=0)
    labels = [neuron.label for neuron in board.neurons if neuron.layer == index]
    return {
        label: float(layer.offset[unit] + missing[unit] / layer.gain[unit])
        for unit, label in enumerate(labels)
        if layer.row[unit] >= 0 and layer.gain[unit] > 0.0
    }
