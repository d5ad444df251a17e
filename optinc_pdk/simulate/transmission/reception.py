"""Transmission of words and vectors: the chip is its S-parameters, the board the electronics of its neurons.

All sources are phase-locked, with phase 0 at their fibre: the carrier with amplitude 1, every modulator with an
amplitude of at most 1. The light of a modulator on the chip is its amplitude times the carrier that reaches it.
Reflected light from modulators of later layers at detectors of earlier ones is included. Noise is optional, see
:mod:`optinc_pdk.simulate.transmission.noise`.

A real number is sent with the field amplitude value / scale; a negative amplitude is the phase π. In a cascade, each
output fibre of N equal chips of level 1 is an input fibre of the chip of level 2. Its phase is locked to the carrier of
level 2 while all servers send their largest words; later deviations, which depend on the words, are simulated.
Reflections between the chips are neglected, because isolators suppress them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.averaging import decide_steps
from optinc_pdk.circuit import Bias, Board, NetlistError
from optinc_pdk.errors import InputError
from optinc_pdk.networks.tasks import VectorTask
from optinc_pdk.simulate.s_parameters.scattering import Scattering
from optinc_pdk.simulate.transmission.detection import ChipNetwork, HiddenLayer, network_of
from optinc_pdk.simulate.transmission.noise import Noise, NoiseDraw, draw_noise
from optinc_pdk.simulate.transmission.settling import MAX_PASSES, SETTLED_CHANGE, UnsettledError, settle_light

Amplitudes = TypeVar("Amplitudes", Floats, Complexes)
"""Source amplitudes, complex if the light of another chip is among them."""

TOP_LEVEL = 3
"""The highest PAM4 level, which servers send with amplitude 1."""
CHUNK = 8192
"""Words in one batch."""
WORTHWHILE = 0.8
"""Share of words that still change, below which settled words are left out of further passes."""
ROUNDING = 1e-9
"""Excess of an amplitude over 1 that counts as rounding."""


@dataclass(frozen=True, eq=False)
class Reception:
    """Received levels of B words.

    Attributes:
        outputs: (B, receivers, M) output levels before the decision: receiver scale times field amplitude. There are
            as many receivers as servers, or one if the outputs go to level 2 of a cascade.
        levels: (B, receivers, M) decided levels in steps of 1/``resolution``, which are 0 … 3 without a remainder.
        hidden: For each hidden layer, (neurons,) largest modulator amplitude over all words, before saturation.
        saturated: Number of modulator amplitudes above 1, which were limited to 1.
    """

    outputs: Floats
    levels: Ints
    hidden: tuple[Floats, ...]
    saturated: int


@dataclass(frozen=True, eq=False)
class ReceivedBatch:
    """What B words cause in a chip.

    Attributes:
        words: Position of the words among those that are sent.
        outputs: (B, receivers, M) output levels before the decision.
        differences: For each hidden layer, (B, neurons) detected differences, offsets included.
        layers: The hidden layers.
    """

    words: slice
    outputs: Floats
    differences: list[Floats]
    layers: list[HiddenLayer]

    def amplitudes(self) -> list[Floats]:
        """Return, for each hidden layer, (B, neurons) modulator amplitudes before saturation."""
        return [layer.drive(each) for layer, each in zip(self.layers, self.differences, strict=True)]

    def saturated(self) -> int:
        """Return the number of modulator amplitudes above 1."""
        from optinc_pdk.simulate.transmission._light_kernels import count_saturated

        parts = zip(self.layers, self.differences, strict=True)
        return sum(count_saturated(np.ascontiguousarray(each.T), layer.gain) for layer, each in parts)


def transmit(
    symbols: ArrayLike,
    scattering: Scattering,
    board: Board,
    bias: Bias,
    wavelength: int = 0,
    *,
    noise: Noise | None = None,
    seed: int = 0,
    resolution: ArrayLike = 1,
) -> Reception:
    """Send symbols through chip and board, and return the received levels.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.assemble import assemble
        >>> from optinc_pdk.cards import load_process
        >>> from optinc_pdk.networks import carry_chain
        >>> process, network = load_process(), carry_chain(op.Averaging(2, 2, 1))
        >>> circuit = assemble(network, process, "average")
        >>> bias = op.simulate.program(circuit, circuit.board, network, process).bias
        >>> light = op.simulate.scattering(circuit, bias, 1550.0, process)
        >>> op.simulate.transmit([[[1], [3]]], light, circuit.board, bias).levels.tolist()
        [[[2], [2]]]

    Args:
        symbols: (B, servers, M) levels, most significant first. A symbol is sent with the amplitude symbol / 3 times
            the amplitude of level 3 in ``bias.inputs``, which is 1 for labels that are missing there.
        scattering: S-parameters of the whole chip.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of the neurons and scales of the receivers.
        wavelength: Index of the carrier's wavelength in ``scattering``.
        noise: Noise model of laser, fibres and receivers; None for no noise.
        seed: Seed of the noise. The noise of a word depends only on the seed and the index of the word.
        resolution: Decision steps per level, (M,) or one for all; see ``Averaging.output_resolution``.

    Raises:
        NetlistError: The bias lacks a neuron or a receiver.
        ValueError: ``symbols`` has a wrong shape.
        UnsettledError: Amplitudes do not converge, because reflections couple the layers.
    """
    network = network_of(scattering, board, bias, wavelength)
    outputs, peaks, saturated = [], [np.zeros(layer.gain.size) for layer in network.layers], 0
    for batch in receive_batches(symbols, network, board, bias, noise=noise, seed=seed):
        outputs.append(batch.outputs)
        saturated += batch.saturated()
        peaks = [np.maximum(peak, each.max(axis=0)) for peak, each in zip(peaks, batch.amplitudes(), strict=True)]
    shape = (0, len(board.outputs), len(board.outputs[0]))
    received = np.concatenate(outputs) if outputs else np.zeros(shape)
    return Reception(received, decide_steps(received, resolution), tuple(peaks), saturated)


def receive_batches(
    symbols: ArrayLike, network: ChipNetwork, board: Board, bias: Bias, *, noise: Noise | None = None, seed: int = 0
) -> Iterator[ReceivedBatch]:
    """Send symbols through a chip in batches that fit into the caches of a processor, in the order of the words.

    Arguments and errors are those of :func:`transmit`.
    """
    sent = np.asarray(symbols)
    for start in range(0, len(sent) if sent.ndim else 0, CHUNK):
        words = slice(start, start + CHUNK)
        inputs = server_amplitudes(sent[words], board, bias)
        if noise is None:
            settled = settle_light(inputs, network)
            differences, outputs = settled.differences, network.levels_of_fields(settled.fields)
        else:
            drawn = draw_noise(noise, network.detection_sources, start, inputs.shape[0], seed)
            light, differences = settled_amplitudes(inputs, network, noise, drawn)
            outputs = network.levels(network.receivers.readings(light, noise, drawn[-1]))
        received = outputs.T.reshape(len(board.outputs), len(board.outputs[0]), -1)
        yield ReceivedBatch(words, np.moveaxis(received, -1, 0), differences, network.layers)


def server_amplitudes(symbols: ArrayLike, board: Board, bias: Bias) -> Floats:
    """Convert (B, servers, M) symbols, 0 … 3 and a fraction, to the (B, servers · M) field amplitudes that are sent.

    The amplitude of level 3 of each input is that of the bias; 1 for labels that are missing in ``bias.inputs``.

    Raises:
        ValueError: ``symbols`` has a wrong shape.
    """
    sent = np.asarray(symbols, dtype=np.float64)
    servers, count = len(board.inputs), len(board.inputs[0])
    if sent.ndim != 3 or sent.shape[1:] != (servers, count):
        raise ValueError(f"symbols has shape {sent.shape}; give (words, {servers} servers, {count} symbols)")
    full = np.array([bias.inputs.get(label, 1.0) for row in board.inputs for label in row]) / TOP_LEVEL
    # in column-major order, as all signals of the words
    found: Floats = (np.moveaxis(sent, 0, -1).reshape(servers * count, -1) * full[:, np.newaxis]).T
    return found


def output_fields(inputs: Amplitudes, network: ChipNetwork) -> Complexes:
    """Return the (B, outputs) complex fields in the output fibres of a chip, without noise, for (B, inputs) amplitudes.

    They are complex if their phases differ from that of the carrier.
    """
    light, _ = settled_amplitudes(inputs, network, None, None)
    real, imaginary = np.split(network.receivers.fields(light), 2, axis=1)
    return np.asarray(real + 1j * imaginary)


def settled_amplitudes(
    inputs: Amplitudes, network: ChipNetwork, noise: Noise | None, drawn: list[NoiseDraw] | None
) -> tuple[Amplitudes, list[Floats]]:
    """Calculate the amplitudes of all sources of a chip after its light has settled.

    Without reflections, one pass through the layers is exact. With reflections, light of later modulators reaches
    earlier detectors; passes are then repeated until no amplitude changes by more than ``SETTLED_CHANGE``.

    Args:
        inputs: (B, inputs) amplitudes of the servers' modulators, or complex fields of other chips.
        network: The chip on its board.
        noise: Noise model; None for no noise.
        drawn: Random numbers of the noise for each layer; None for no noise.

    Returns:
        (B, sources) amplitudes after saturation at 1, and for each hidden layer (B, neurons) detected differences,
        offsets included.

    Raises:
        UnsettledError: Amplitudes do not converge.
    """
    if noise is None and not np.iscomplexobj(inputs):
        settled = settle_light(np.asarray(inputs, dtype=np.float64), network)
        amplitudes: Any = settled.amplitudes
        return amplitudes, settled.differences
    light = np.zeros((inputs.shape[0], network.sources), dtype=inputs.dtype, order="F")
    light[:, 0] = 1.0
    light[:, 1 : 1 + inputs.shape[1]] = inputs
    differences: list[Floats] = [np.zeros(0)] * len(network.layers)
    # words whose amplitudes still change, their light, and their noise
    words, now, forward = np.arange(len(light)), light, network.forward
    # where symbols run into each other, every word needs the one before it
    separable = noise is None or noise.shape.negligible
    for number in range(MAX_PASSES):
        change = np.zeros(words.size)
        for index, layer in enumerate(network.layers):
            read = layer.detection.readings(now, noise, None if drawn is None else drawn[index])
            difference = layer.difference(read)
            amplitude = layer.amplitude(difference)
            if number:
                moved = amplitude - now[:, layer.source]
                change = np.maximum(change, np.max(np.abs(moved, out=moved), axis=1))
            now[:, layer.source] = amplitude
            if now is light:
                differences[index] = difference
            else:
                differences[index][words] = difference
        if now is not light:
            light[words] = now
        # in the first pass, amplitudes change from darkness
        moving = change > SETTLED_CHANGE if number else np.ones(words.size, dtype=bool)
        count = np.count_nonzero(moving)
        if forward or not count:
            return light, differences
        if separable and count < WORTHWHILE * words.size:
            words, now = words[moving], np.asfortranarray(now[moving])
            drawn = None if drawn is None else [draw.of_words(np.flatnonzero(moving)) for draw in drawn]
    raise UnsettledError(float(change.max()))


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
    """Check that a board is that of the chip of a general network; raise InputError otherwise."""
    if len(board.inputs) != 1 or not board.coherent:
        raise InputError(
            f"the chip receives words of {len(board.inputs)} servers, and the weights contain no averaging task; "
            "state it with optinc task, which writes a weight file with a task"
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


@dataclass(frozen=True, eq=False)
class LinkedChips:
    """Chips of both levels, joined by fibres.

    Attributes:
        first: Every chip of level 1 on its board; it has one output fibre for each of M symbols.
        second: The chip of level 2 on its board.
        send: (N, M) amplitude of level 3 of the servers of a chip of level 1.
        link: (M,) field at the input of level 2 over the field at the output of level 1: loss and locked phase.
    """

    first: ChipNetwork
    second: ChipNetwork
    send: Floats
    link: Complexes


@dataclass(frozen=True, eq=False)
class CascadeReception:
    """Output levels of a cascade for B sets of words.

    Attributes:
        outputs: (B, receivers, M) output levels of level 2 before the decision.
        between: (B, N, M) output levels of the N chips of level 1: real parts of the locked fields times the scales of
            level 1.
        quadrature: (B, N, M) imaginary parts of the same fields, in levels.
    """

    outputs: Floats
    between: Floats
    quadrature: Floats


def link_chips(first: ChipNetwork, second: ChipNetwork, send: Floats, loss_db: float) -> LinkedChips:
    """Connect the outputs of level 1 with the inputs of level 2 and lock the phases of the fibres.

    ``send`` are (N, M) amplitudes of level 3 of the servers of level 1; the loss of a fibre includes its connectors.

    Raises:
        ValueError: Level 1 has not one output for each symbol.
    """
    if first.scale.size != send.shape[1]:
        raise ValueError(f"level 1 has {first.scale.size} outputs for {send.shape[1]} symbols: give one for each")
    top = output_fields(send.reshape(1, -1), first)[0]
    return LinkedChips(first, second, send, 10.0 ** (-loss_db / 20.0) * np.exp(-1j * np.angle(top)))


def transmit_cascade(symbols: Ints, chips: LinkedChips) -> CascadeReception:
    """Send (B, N, N, M) levels 0 … 3 of N² servers, those of a chip on the third axis, through both levels.

    Raises:
        UnsettledError: Amplitudes do not converge, because reflections couple the layers.
    """
    batch, units, servers, count = symbols.shape
    sent = (symbols * (chips.send / TOP_LEVEL)).reshape(batch * units, servers * count)
    light = output_fields(sent, chips.first) * chips.link
    fields = output_fields(light.reshape(batch, units * count), chips.second)
    outputs = chips.second.levels(chips.second.receivers.detected(np.hstack([fields.real, fields.imag]))).reshape(
        batch, -1, count
    )
    levels = (light / np.abs(chips.link) * chips.first.scale).reshape(batch, units, count)
    return CascadeReception(outputs, levels.real, levels.imag)
