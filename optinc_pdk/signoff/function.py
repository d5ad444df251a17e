"""Function check: every word that the extracted chip and its board compute against the ideal average."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging, assign_random, assign_worst, error_counts
from optinc_pdk.averaging.word_score import accuracy, score_words
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, detector_groups, label_tuple
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.file_writing import write_atomic
from optinc_pdk.simulate import Scattering, scattering, transmit

SCHEMA = 1
# Largest number of combinations of symbols that are all tried.
EXHAUSTIVE = 2**20
# Seed of the random assignments of symbols to servers.
SEED = 2603


@dataclass(frozen=True, eq=False)
class FunctionInputs:
    """The I inputs of a function check for M symbols per word.

    If there are at most `EXHAUSTIVE` combinations of symbols at the fibres, the inputs are all of them. Otherwise the
    inputs are the points of the lattice.

    Attributes:
        task: Average that the chip computes.
        symbols: (I, servers, M) symbols at the fibres, 0 ... 3; for points of the lattice, assigned to servers at
            random.
        ideal: (I,) words of the ideal average.
        levels: (I, M) symbols of these words.
        exhaustive: Whether the inputs are all combinations of symbols at the fibres.
    """

    task: Averaging
    symbols: NDArray[np.int64]
    ideal: NDArray[np.int64]
    levels: NDArray[np.int64]
    exhaustive: bool


@dataclass(frozen=True, eq=False)
class FunctionResult:
    """Words that the servers read, for I inputs with A assignments of symbols to servers each.

    Attributes:
        symbols: (A, I, servers, M) symbols at the fibres, uint8.
        ideal: (I,) words of the ideal average.
        words: (A, I, servers) words that the servers read.
        outputs: (A, I, servers, M) output levels before the decision.
        exact: Number of inputs for which every server reads the ideal word under every assignment.
        margin: Smallest 0.5 - |output - ideal level|, in levels; negative if a symbol is wrong.
        saturated: Number of modulator amplitudes that were clipped to full scale.
        loss_db: Loss in dB from the worst source fibre to the detector that receives most of its light.
        exhaustive: Whether the inputs are all combinations of symbols at the fibres, not the points of the lattice.
        margins: (I, M) smallest margin of every symbol over assignments and servers, in levels.
        hop_loss_db: Loss in dB of each layer from its modulators to its detectors, at full scale.
    """

    symbols: NDArray[np.uint8]
    ideal: NDArray[np.int64]
    words: NDArray[np.int64]
    outputs: NDArray[np.float64]
    exact: int
    margin: float
    saturated: int
    loss_db: float
    exhaustive: bool
    margins: NDArray[np.float64]
    hop_loss_db: tuple[float, ...] = ()

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.ideal)

    @property
    def accuracy(self) -> float:
        """Fraction of inputs that are exact."""
        return accuracy(self.exact, self.inputs)

    @property
    def passed(self) -> bool:
        """Whether every server reads the ideal average of every input."""
        return self.exact == self.inputs

    @property
    def errors(self) -> dict[int, int]:
        """Number of words with each error (word read minus ideal word), over assignments and servers."""
        return error_counts(self.words, self.ideal[:, np.newaxis])


def check_function(
    circuit: Circuit, board: Board, bias: Bias, task: Averaging, process: Process, ground: SharedGround | None = None
) -> FunctionResult:
    """Simulate the extracted circuit, driven by the DAC codes of a bias, and read the words of every input.

    If there are at most `EXHAUSTIVE` combinations of symbols at the fibres, the inputs are all of them. Otherwise they
    are the points of the lattice, each with two assignments of symbols to servers: a random one, and the one that the
    imbalance of the preprocessing unit affects most.

    Args:
        circuit: Extracted circuit.
        board: Connections outside the chip.
        bias: DAC codes, and settings of neurons and receivers.
        task: Average that the chip computes.
        process: Process of the circuit.
        ground: Ground rise that results from the heaters' currents; None for no ground rise.

    Raises:
        InputError: Circuit, board, bias and task do not belong together.
        ValueError: The circuit cannot be solved.
    """
    check_board(board, task)
    s = scattering(circuit, bias, float(process.guide.wavelength_nm), process, ground=ground)
    return check_scattering(s, board, bias, task)


def check_board(board: Board, task: Averaging) -> None:
    """Raise an error if a board does not have the servers and symbols of a task.

    Raises:
        InputError: The board has another number of servers or of symbols per server.
    """
    board_task = (len(board.inputs), len(board.inputs[0]) if board.inputs else 0)
    if board_task != (task.servers, task.symbols):
        raise InputError(
            f"the board has {board_task[0]} servers of {board_task[1]} symbols, the network {task.servers} of "
            f"{task.symbols}; give weights and netlist of one chip"
        )


def check_scattering(s: Scattering, board: Board, bias: Bias, task: Averaging) -> FunctionResult:
    """Read the words of every input, as :func:`check_function`, for a chip with known S-parameters.

    Args:
        s: S-parameters of the whole chip at one wavelength.
        board: Connections outside the chip.
        bias: Settings of neurons and receivers; DAC codes are not used.
        task: Average that the chip computes.
    """
    inputs = function_inputs(task)
    symbols = symbol_assignments(inputs, s, board, bias)
    received = [transmit(assignment, s, board, bias) for assignment in symbols]
    outputs = np.stack([reception.outputs for reception in received])
    words = np.stack([task.decode(reception.levels) for reception in received])
    score = score_words(zip(words, outputs, strict=True), inputs.ideal, inputs.levels)
    margins = (0.5 - np.abs(outputs - inputs.levels[:, np.newaxis])).min(axis=(0, 2))
    return FunctionResult(
        symbols=symbols.astype(np.uint8),
        ideal=inputs.ideal,
        words=words,
        outputs=outputs,
        exact=score.exact,
        margin=score.margin,
        saturated=sum(reception.saturated for reception in received),
        loss_db=path_loss_db(s, board),
        exhaustive=inputs.exhaustive,
        hop_loss_db=hop_losses_db(s, board),
        margins=margins,
    )


def function_inputs(task: Averaging) -> FunctionInputs:
    """Generate the inputs of the function check: all combinations of symbols, or else the points of the lattice."""
    exhaustive = (4**task.symbols) ** task.servers <= EXHAUSTIVE
    symbols = _all_symbols(task) if exhaustive else assign_random(task, _steps(task), SEED)
    ideal = task.ideal(task.decode(symbols))
    return FunctionInputs(task, symbols, ideal, task.encode(ideal), exhaustive)


def symbol_assignments(inputs: FunctionInputs, s: Scattering, board: Board, bias: Bias) -> NDArray[np.int64]:
    """Return the symbols at the fibres for every input and every assignment of symbols to servers.

    If the inputs are all combinations of symbols, there is one assignment. Points of the lattice have two: the one of
    the inputs, and the one that the imbalance of this chip's preprocessing unit affects most.

    Args:
        inputs: I inputs of the function check.
        s: S-parameters of the chip.
        board: Connections outside the chip.
        bias: Settings of neurons and receivers.

    Returns:
        (A, I, servers, M) symbols, 0 ... 3.
    """
    if inputs.exhaustive:
        return inputs.symbols[np.newaxis]
    worst = assign_worst(inputs.task, _steps(inputs.task), server_errors(s, board, bias))
    return np.stack([inputs.symbols, worst])


def _steps(task: Averaging) -> NDArray[np.int64]:
    return np.rint(task.lattice() * task.servers).astype(np.int64)


def _all_symbols(task: Averaging) -> NDArray[np.int64]:
    """(4^(M·servers), servers, M) symbols of every combination of words."""
    count = 4**task.symbols
    index = np.arange(count**task.servers)
    words = index[:, np.newaxis] // count ** np.arange(task.servers - 1, -1, -1) % count
    return np.asarray(task.encode(words), dtype=np.int64)


def server_errors(s: Scattering, board: Board, bias: Bias) -> NDArray[np.float64]:
    """Compute the relative error of each server's weight in the preprocessing unit.

    A weight is the small-signal response at the first layer's detectors; its error is relative to the mean over
    servers.

    Args:
        s: S-parameters of the chip.
        board: Connections outside the chip.
        bias: Settings of neurons and inputs.

    Returns:
        (servers, M) errors; 0 for a symbol that no neuron uses.
    """
    first, _ = detector_groups([neuron for neuron in board.neurons if neuron.layer == 0])
    inputs = [label for row in board.inputs for label in row]
    flat = np.zeros((len(first), len(inputs)))
    for sign, detectors in ((1.0, [label_tuple(n.plus) for n in first]), (-1.0, [label_tuple(n.minus) for n in first])):
        weight = np.array([1.0 if sign > 0 else bias.activations[n.label].balance for n in first])
        names = [label for pairs in detectors for label in pairs]
        oscillator = s.between(names, board.unmodulated)[0].sum(axis=1, keepdims=True).conj()
        signal = 2 * (oscillator * s.between(names, inputs)[0]).real
        starts = np.cumsum([0, *(len(pairs) for pairs in detectors[:-1])])
        flat += sign * weight[:, np.newaxis] * np.add.reduceat(signal, starts, axis=0)
    flat *= [bias.inputs.get(label, 1.0) for label in inputs]
    response = flat.reshape(len(first), len(board.inputs), -1)
    mean = response.mean(axis=1, keepdims=True)
    power = np.sum(mean**2, axis=0)
    # a symbol that no neuron uses has no error
    share = np.sum(response * mean, axis=0) / np.where(power > 0, power, 1.0)
    return np.where(power > 0, share - 1.0, 0.0)


def path_loss_db(s: Scattering, board: Board) -> float:
    """Compute the loss in dB from the worst source fibre to the detector that receives most of its light.

    For a modulator on the chip, the source is its carrier's fibre. Fibres that only feed modulators are not sources,
    because their light reaches no detector directly.

    Args:
        s: S-parameters of the chip at one wavelength.
        board: Connections outside the chip.
    """
    detectors = [label for n in board.neurons for names in (n.plus, n.minus) for label in label_tuple(names)]
    detectors += [label for row in board.outputs for label in row]
    sources = [
        *(board.oscillators or (board.carrier,)),
        *(label for row in board.inputs for label in row),
        *(label for n in board.neurons for label in label_tuple(n.to)),
    ]
    best = np.max(
        np.abs(s.between(detectors, sources) * s.strength(sources, board.unmodulated)[:, np.newaxis])[0] ** 2, axis=0
    )
    with np.errstate(divide="ignore"):
        return float(np.max(-10 * np.log10(best)))


def hop_losses_db(s: Scattering, board: Board) -> tuple[float, ...]:
    """Compute the loss of each layer from its modulators to its detectors, excluding the loss that its matrix requires.

    The S-parameters of a layer are its matrix divided by its 2-norm, times the amplitude transmission of couplers,
    guides and splitters. So their largest singular value is that transmission. The two detectors of a neuron count
    together. For the first layer, the fields of the servers are added, because all servers send the same symbols at
    full scale. For the last layer, the worst server counts, because each server has its own receivers.

    Args:
        s: S-parameters of the chip at one wavelength.
        board: Connections outside the chip.

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
            sources = [[(label,) for label in row] for row in board.inputs]
        transmission = min(
            float(np.linalg.norm(sum(_together(s, board, outs, fields) for fields in sources), 2))
            for outs in (detectors if neurons else board.outputs)
        )
        losses.append(float("inf") if transmission == 0.0 else -20.0 * float(np.log10(transmission)))
    return tuple(losses)


def _together(
    s: Scattering, board: Board, outs: Sequence[str], fields: Sequence[Sequence[str]]
) -> NDArray[np.complex128]:
    """(outs, fields) field at each output from groups of sources that send equal signals: the sum over the group."""
    sources = [label for names in fields for label in names]
    light = s.between(outs, sources)[0] * s.strength(sources, board.unmodulated)[0]
    starts = np.cumsum([0, *(len(names) for names in fields[:-1])])
    return np.asarray(np.add.reduceat(light, starts, axis=1))


def write_function(result: FunctionResult, path: str | Path) -> None:
    """Write inputs, words, outputs and margins of a function check as ``.function.npz``, atomically.

    Equal results give equal bytes.
    """
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        schema=np.array(SCHEMA),
        symbols=result.symbols,
        ideal=result.ideal,
        words=result.words,
        # rounded, because the last bits of a sparse solution vary
        outputs=np.round(result.outputs, 6).astype(np.float32),
        margins=np.round(result.margins, 6).astype(np.float32),
        error_values=np.array(list(result.errors), dtype=np.int64),
        error_counts=np.array(list(result.errors.values()), dtype=np.int64),
    )
    write_atomic(Path(path), stream.getvalue())
