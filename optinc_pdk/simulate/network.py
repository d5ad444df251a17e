"""Light through the network: the chip by its S-matrix between fibres, the board by its activations.

All sources are phase-locked, with phase 0 at their fibre: the carrier with amplitude 1, every modulator with
its own amplitude of at most 1. A modulator on the chip lets out its drive times the carrier that reaches it.
What a modulator of a later layer sends back into an earlier one is part of the sum too. Noise, where it is asked for,
is that of :mod:`optinc_pdk.simulate.noise`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.circuit import Bias, Board
from optinc_pdk.files import InputError
from optinc_pdk.simulate.layers import Network, network_of
from optinc_pdk.simulate.noise import Draw, Noise, draw
from optinc_pdk.simulate.scatter import Scattering

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOP_LEVEL = 3
"""The highest PAM4 level, which servers send with amplitude 1."""
CHUNK = 8192
SETTLED = 1e-9
MAX_PASSES = 20


class UnsettledError(InputError):
    """The layers' reflections feed each other, so that light never comes to rest."""


@dataclass(frozen=True, eq=False)
class Reception:
    """What the servers receive; B words in.

    Attributes:
        outputs: (B, servers, M) levels before the decision, scale · |field|.
        levels: (B, servers, M) decided levels, 0 … 3.
        hidden: Per hidden layer, (neurons,) largest modulator amplitude over the batch, before saturation.
        saturated: Number of modulator amplitudes above 1, which were cut to 1.
    """

    outputs: Floats
    levels: Ints
    hidden: tuple[Floats, ...]
    saturated: int


def transmit(
    symbols: ArrayLike,
    scattering: Scattering,
    board: Board,
    bias: Bias,
    wavelength: int = 0,
    *,
    noise: Noise | None = None,
    seed: int = 0,
) -> Reception:
    """Send symbols through chip and board.

    Args:
        symbols: (B, servers, M) levels 0 … 3, most significant first; sent with amplitude symbol/3, or that share of
            what the bias gives an input.
        scattering: S-parameters of the whole chip.
        board: What joins its fibres outside.
        bias: Electronics of the neurons and scales of the receivers.
        wavelength: Which of the scattering's wavelengths carries the light.
        noise: Noise of lasers, fibres and receivers; none where left out.
        seed: Equal seeds give the i-th word equal noise, whatever goes with it.

    Raises:
        NetlistError: The bias lacks a neuron or a receiver.
        ValueError: A wrong shape.
        UnsettledError: Light that does not settle because layers feed each other.
    """
    sent = amplitudes(symbols, board, bias)
    network = network_of(scattering, board, bias, wavelength)
    outputs = np.empty((sent.shape[0], network.scale.size))
    peaks = [np.zeros(layer.gain.size) for layer in network.layers]
    saturated = 0
    for start in range(0, sent.shape[0], CHUNK):
        inputs = sent[start : start + CHUNK]
        drawn = None if noise is None else draw(noise, network.feeds, start, inputs.shape[0], seed)
        light, raw = settle(inputs, network, noise, drawn)
        saturated += sum(int((amplitude > 1.0).sum()) for amplitude in raw)
        peaks = [np.maximum(peak, amplitude.max(axis=0)) for peak, amplitude in zip(peaks, raw, strict=True)]
        power = network.receivers.powers(light, noise, None if drawn is None else drawn[-1])
        outputs[start : start + CHUNK] = network.scale * np.sqrt(np.maximum(power, 0.0))
    received = outputs.reshape(-1, len(board.outputs), len(board.outputs[0]))
    levels = np.clip(np.floor(received + 0.5), 0, TOP_LEVEL).astype(np.int64)
    return Reception(received, levels, tuple(peaks), saturated)


def amplitudes(symbols: ArrayLike, board: Board, bias: Bias) -> Floats:
    """(B, servers · M) amplitudes with which servers send symbols (B, servers, M).

    Raises:
        ValueError: A wrong shape.
    """
    sent = np.asarray(symbols, dtype=np.float64)
    servers, count = len(board.inputs), len(board.inputs[0])
    if sent.ndim != 3 or sent.shape[1:] != (servers, count):
        raise ValueError(f"symbols has shape {sent.shape}; give (words, {servers} servers, {count} symbols)")
    full = np.array([bias.inputs.get(label, 1.0) for row in board.inputs for label in row]) / TOP_LEVEL
    found: Floats = sent.reshape(-1, servers * count) * full
    return found


def settle(
    inputs: Floats, network: Network, noise: Noise | None, drawn: list[Draw] | None
) -> tuple[Floats, list[Floats]]:
    """Amplitudes of all sources, (B, sources), and each layer's modulators before saturation.

    One pass is the network itself; reflections let later modulators reach earlier detectors, so passes go on
    until nothing changes.
    """
    light = np.zeros((inputs.shape[0], network.sources))
    light[:, 0] = 1.0
    light[:, 1 : 1 + inputs.shape[1]] = inputs
    raw: list[Floats] = [np.zeros(0)] * len(network.layers)
    for _ in range(MAX_PASSES):
        change = 0.0
        for index, layer in enumerate(network.layers):
            power = layer.sight.powers(light, noise, None if drawn is None else drawn[index])
            raw[index] = layer.drive(power)
            amplitude = np.minimum(raw[index], 1.0)
            change = max(change, float(np.max(np.abs(amplitude - light[:, layer.source]), initial=0.0)))
            light[:, layer.source] = amplitude
        if network.forward or change <= SETTLED:
            return light, raw
    raise UnsettledError(
        f"light does not settle within {MAX_PASSES} passes, its last change is {change:.3g}: the layers' "
        "reflections feed each other; lower the gains or the reflections"
    )
