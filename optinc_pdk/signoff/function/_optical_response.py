"""Optical response of an extracted chip: errors of the preprocessing unit's weights, and losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.averaging import Averaging, assign_worst
from optinc_pdk.circuit import Bias, Board, detector_groups, label_tuple
from optinc_pdk.signoff.function._word_inputs import FunctionInputs
from optinc_pdk.simulate import Scattering


def symbol_assignments(inputs: FunctionInputs, s: Scattering, board: Board, bias: Bias) -> Ints | Floats:
    """Return the symbols at the fibres for every input and every assignment of symbols to servers.

    Points of the lattice have two assignments: the one of the inputs, and the one that the imbalance of this chip's
    preprocessing unit affects most. Otherwise there is one.

    Args:
        inputs: I inputs of the function check.
        s: S-parameters of the chip.
        bias: Settings of neurons and receivers.

    Returns:
        (A, I, servers, M) symbols, 0 ... 3, with fractions for a finer input.
    """
    if inputs.coverage != "lattice" and not inputs.worst.any():
        return inputs.symbols[np.newaxis]
    errors = server_errors(s, board, bias, inputs.task)
    if inputs.coverage == "lattice":
        return np.array([inputs.symbols, assign_worst(inputs.task, inputs.steps, errors)])
    symbols = inputs.symbols.copy()
    symbols[inputs.worst] = assign_worst(inputs.task, inputs.steps[inputs.worst], errors)
    return symbols[np.newaxis]


def server_errors(s: Scattering, board: Board, bias: Bias, task: Averaging | None = None) -> Floats:
    """Compute the relative error of the weight of each server's symbol in the preprocessing unit.

    A weight is the small-signal response at the first layer's detectors. Its error is relative to the ideal weight
    times the response of the group, fitted by least squares: the mean over servers for groups of one symbol.

    Args:
        s: S-parameters of the chip.
        bias: Settings of neurons and inputs.
        task: Average that the chip computes, with the groups of symbols; None for groups of one symbol.

    Returns:
        (servers, M) errors; 0 for a symbol that no neuron uses.
    """
    first, _ = detector_groups([neuron for neuron in board.neurons if neuron.layer == 0])
    inputs = [label for row in board.inputs for label in row]
    flat = np.zeros((len(first), len(inputs)))
    for sign, detectors in ((1.0, [label_tuple(n.plus) for n in first]), (-1.0, [label_tuple(n.minus) for n in first])):
        weight = np.array([1.0 if sign > 0 else bias.activations[n.label].balance for n in first])
        names = [label for pairs in detectors for label in pairs]
        received = s.between(names, list(board.launched))[0] * list(board.launched.values())
        oscillator = received.sum(axis=1, keepdims=True).conj()
        signal = 2 * (oscillator * s.between(names, inputs)[0]).real
        starts = np.cumsum([0, *(len(pairs) for pairs in detectors[:-1])])
        flat += sign * weight[:, np.newaxis] * np.add.reduceat(signal, starts, axis=0)
    flat *= [bias.inputs.get(label, 1.0) for label in inputs]
    ideal = np.ones(1) if task is None else task.symbol_shares
    grouped = flat.reshape(len(first), len(board.inputs), -1, ideal.size)
    fitted = (grouped * ideal).sum(axis=(1, 3)) / (len(board.inputs) * np.sum(ideal**2))
    response = (grouped / ideal).reshape(len(first), len(board.inputs), -1)
    mean = np.repeat(fitted, ideal.size, axis=1)[:, np.newaxis]
    power = np.sum(mean**2, axis=0)
    # a symbol that no neuron uses has no error
    share = np.sum(response * mean, axis=0) / np.where(power > 0, power, 1.0)
    return np.where(power > 0, share - 1.0, 0.0)


@dataclass(frozen=True, eq=False)
class ChipLight:
    """Losses of a chip, and power of its local oscillators.

    Attributes:
        loss_db: Loss in dB from the worst source fibre to the detector that receives most of its light.
        hop_loss_db: Loss in dB of each layer from its modulators to its detectors, at full scale.
        oscillator_powers: For each hidden layer, (mixers,) power of the local oscillator at each mixer, relative to
            that of a field of amplitude 1.
    """

    loss_db: float
    hop_loss_db: tuple[float, ...]
    oscillator_powers: tuple[Floats, ...]


def chip_light(s: Scattering, board: Board, group_symbols: int = 1) -> ChipLight:
    """Compute the losses of a chip and the power of its local oscillators.

    Args:
        s: S-parameters of the chip at one wavelength.
        group_symbols: Number of consecutive symbols of a server that form one input of the first layer.
    """
    return ChipLight(path_loss_db(s, board), hop_losses_db(s, board, group_symbols), oscillator_powers(s, board))


def path_loss_db(s: Scattering, board: Board) -> float:
    """Compute the loss in dB from the worst source fibre to the detector that receives most of its light.

    For a modulator on the chip, the source is its carrier's fibre. Fibres that only feed modulators are not sources,
    because their light reaches no detector directly.

    Args:
        s: S-parameters of the chip at one wavelength.
    """
    detectors = [label for n in board.neurons for names in (n.plus, n.minus) for label in label_tuple(names)]
    detectors += [label for row in board.outputs for label in row]
    sources = [
        *board.oscillator_fibres,
        *(label for row in board.inputs for label in row),
        *(label for n in board.neurons for label in label_tuple(n.to)),
    ]
    # a loss does not depend on the power
    unit = dict.fromkeys(board.unmodulated, 1.0)
    best = np.max(np.abs(s.between(detectors, sources) * s.strength(sources, unit)[:, np.newaxis])[0] ** 2, axis=0)
    with np.errstate(divide="ignore"):
        return float(np.max(-10 * np.log10(best)))


def oscillator_powers(s: Scattering, board: Board) -> tuple[Floats, ...]:
    """Compute the power of the local oscillator at every mixer: that of both detectors behind it, without signals.

    Args:
        s: S-parameters of the chip at one wavelength.

    Returns:
        For each hidden layer, (mixers,) powers relative to that of a field of amplitude 1.
    """
    powers = []
    for layer in range(board.layers - 1):
        rows, _ = detector_groups([neuron for neuron in board.neurons if neuron.layer == layer])
        plus, minus = ([label for n in rows for label in label_tuple(getattr(n, side))] for side in ("plus", "minus"))
        received = s.between([*plus, *minus], list(board.launched))[0] * list(board.launched.values())
        powers.append(np.square(np.abs(received.sum(axis=1))).reshape(2, -1).sum(axis=0))
    return tuple(powers)


def hop_losses_db(s: Scattering, board: Board, group_symbols: int = 1) -> tuple[float, ...]:
    """Compute the loss of each layer from its modulators to its detectors, excluding the loss that its matrix requires.

    The S-parameters of a layer are its matrix divided by its 2-norm, times the amplitude transmission of couplers,
    guides and splitters. So their largest singular value is that transmission. The two detectors of a neuron count
    together. For the first layer, the fields of the servers and of the symbols of a group are added, because an input
    is at full scale if all of them are. For the last layer, the worst server counts, because each server has its own
    receivers.

    Args:
        s: S-parameters of the chip at one wavelength.
        group_symbols: Number of consecutive symbols of a server that form one input of the first layer.

    Returns:
        Loss in dB by layer; infinite for a layer that transmits no light.
    """
    losses = []
    for layer in range(board.layers):
        neurons = [neuron for neuron in board.neurons if neuron.layer == layer]
        rows, _ = detector_groups(neurons)
        detectors = [[label for n in rows for names in (n.plus, n.minus) for label in label_tuple(names)]]
        sources = [[label_tuple(n.to) for n in board.neurons if n.layer == layer - 1]]
        if not layer:
            firsts = range(0, len(board.inputs[0]), group_symbols)
            sources = [[row[first : first + group_symbols] for first in firsts] for row in board.inputs]
        transmission = min(
            float(np.linalg.norm(sum(_together(s, board, outs, fields) for fields in sources), 2))
            for outs in (detectors if neurons else board.outputs)
        )
        losses.append(float("inf") if transmission == 0.0 else -20.0 * float(np.log10(transmission)))
    return tuple(losses)


def _together(s: Scattering, board: Board, outs: Sequence[str], fields: Sequence[Sequence[str]]) -> Complexes:
    """(outs, fields) field at each output from groups of sources that send equal signals: the sum over the group."""
    sources = [label for names in fields for label in names]
    light = s.between(outs, sources)[0] * s.strength(sources, board.launched)[0]
    starts = np.cumsum([0, *(len(names) for names in fields[:-1])])
    return np.asarray(np.add.reduceat(light, starts, axis=1))
