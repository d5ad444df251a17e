"""Transmission of vectors of real numbers through the chip of a general network.

An input is sent with the field amplitude value / scale, where the scale is that of the bias; a negative amplitude is
the phase π. Coherent receivers read signed fields, which their scales and offsets convert to values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats
from optinc_pdk.circuit import Bias, Board, NetlistError
from optinc_pdk.errors import InputError
from optinc_pdk.networks.general_network import VectorTask
from optinc_pdk.simulate.s_parameters.scattering import Scattering
from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.simulate.transmission.reception import CHUNK
from optinc_pdk.simulate.transmission.settling import settle_light

ROUNDING = 1e-9
"""Excess of an amplitude over 1 that counts as rounding."""


@dataclass(frozen=True, eq=False)
class VectorReception:
    """What a chip computes from S inputs.

    Attributes:
        outputs: (S, M) values of the outputs.
        saturated: Number of modulator amplitudes of neurons above 1, which were limited to 1.
    """

    outputs: Floats
    saturated: int


def transmit_vectors(
    inputs: ArrayLike, scattering: Scattering, board: Board, bias: Bias, wavelength: int = 0
) -> VectorReception:
    """Send vectors through chip and board, and return the values of the outputs.

    Args:
        inputs: (S, K) values.
        scattering: S-parameters of the whole chip.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of the neurons, scales of inputs, and scales and offsets of receivers.
        wavelength: Index of the carrier's wavelength in ``scattering``.

    Raises:
        InputError: A value is larger than an input can send.
        NetlistError: The bias lacks a neuron, a receiver or the scale of an input, or the receivers are photodiodes.
        ValueError: ``inputs`` has a wrong shape.
        UnsettledError: Amplitudes do not converge, because reflections couple the layers.
    """
    sent = input_amplitudes(inputs, board, bias)
    network = network_of(scattering, board, bias, wavelength)
    offsets = [bias.output_offsets.get(label, 0.0) for row in board.outputs for label in row]
    outputs = np.empty((len(sent), network.scale.size))
    saturated = 0
    for start in range(0, len(sent), CHUNK):
        part = slice(start, start + CHUNK)
        settled = settle_light(sent[part], network)
        outputs[part] = network.signed_levels(settled.fields) + offsets
        driven = (layer.drive(each) for layer, each in zip(network.layers, settled.differences, strict=True))
        saturated += sum(int(np.count_nonzero(amplitude > 1.0)) for amplitude in driven)
    return VectorReception(outputs, saturated)


def check_vector_board(board: Board, task: VectorTask) -> None:
    """Check that a board is that of the chip of a general network.

    Raises:
        InputError: It is that of a chip for words, or has other numbers of inputs and outputs.
    """
    if len(board.inputs) != 1 or not board.coherent:
        raise InputError(
            f"the chip receives words of {len(board.inputs)} servers, and the weights contain no averaging task; give "
            "bits, servers and groups of the chip (--bits, --servers, --groups)"
        )
    ends = [sum(map(len, rows)) for rows in (board.inputs, board.outputs)]
    if ends != [task.inputs, task.outputs]:
        raise InputError(
            f"the board has {ends[0]} inputs and {ends[1]} outputs, the network {task.inputs} and {task.outputs}; give "
            "weights and netlist of one chip"
        )


def input_amplitudes(inputs: ArrayLike, board: Board, bias: Bias) -> Floats:
    """Convert (S, K) values to the field amplitudes, -1 to 1, with which they are sent.

    Raises:
        InputError: A value is larger than an input can send.
        NetlistError: The bias lacks the scale of an input.
        ValueError: ``inputs`` has a wrong shape.
    """
    values = np.asarray(inputs, dtype=np.float64)
    labels = [label for row in board.inputs for label in row]
    if values.ndim != 2 or values.shape[1] != len(labels):
        raise ValueError(f"inputs has shape {values.shape}; give (samples, {len(labels)} inputs)")
    missing = [label for label in labels if label not in bias.input_scales]
    if missing:
        raise NetlistError(f"the bias has no scale for input {missing[0]!r}; give the bias of a general network's chip")
    scales = np.array([bias.input_scales[label] for label in labels])
    amplitudes = values / scales
    beyond = np.argwhere(np.abs(amplitudes) > 1.0 + ROUNDING)
    if beyond.size:
        row, column = beyond[0].tolist()
        raise InputError(
            f"input {column} of sample {row} is {values[row, column]:g}, the chip sends up to ±{scales[column]:g}; "
            "scale the data, or build the chip with data or an input_range that include it"
        )
    return np.asarray(amplitudes)
