"""Offsets of a general network's electronics, trimmed to the network's mean signals over the inputs of its task.

Programming removes what detectors read without signals. Signals add constants of their own: a modulator of finite
extinction sends light in quadrature, most of it at small amplitudes, and reflections and unequal detectors leave terms
quadratic in the signals. Their means over the inputs are removed here, layer by layer, as on a bench that sends known
inputs and reads the neurons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.networks import GeneralNetwork, LayerFactor
from optinc_pdk.networks.network import activate
from optinc_pdk.simulate.programming.electronics import check_offsets, round_significant
from optinc_pdk.simulate.s_parameters.scattering import Scattering
from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.simulate.transmission.settling import settle_light
from optinc_pdk.simulate.transmission.vector_reception import input_amplitudes, transmit_vectors


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
    for index, wanted in enumerate(_signals(sent, factors, network)):
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
