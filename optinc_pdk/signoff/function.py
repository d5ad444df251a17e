"""The function check: light through the extracted chip and its board, every word against the ideal average."""

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
from optinc_pdk.circuit import Bias, Board, Circuit, labels
from optinc_pdk.drive import Ground
from optinc_pdk.files import InputError, write_atomic
from optinc_pdk.simulate import Scattering, scattering, transmit

SCHEMA = 1
EXHAUSTIVE = 2**20
SEED = 2603


@dataclass(frozen=True, eq=False)
class Inputs:
    """I inputs that a chip is tried with.

    Where all combinations of symbols at the fibres are few enough, they are the inputs; otherwise every point of the
    lattice is one.

    Attributes:
        task: What the chip is to compute.
        symbols: (I, servers, M) symbols at the fibres; for points of the lattice drawn at random.
        ideal: (I,) words that the ideal average gives.
        levels: (I, M) their symbols.
        exhaustive: Whether the inputs are all combinations at the fibres.
    """

    task: Averaging
    symbols: NDArray[np.int64]
    ideal: NDArray[np.int64]
    levels: NDArray[np.int64]
    exhaustive: bool


@dataclass(frozen=True, eq=False)
class FunctionResult:
    """What the chip's servers read, for I inputs tried with A assignments of symbols to servers each.

    Attributes:
        symbols: (A, I, servers, M) symbols at the fibres, uint8.
        ideal: (I,) words that the ideal average gives.
        words: (A, I, servers) words that the servers read.
        outputs: (A, I, servers, M) levels before the decision.
        exact: Inputs for which every server reads the ideal word under every assignment.
        margin: min of 0.5 - |output - ideal level| in levels; below 0 where a symbol is missed.
        saturated: Modulator amplitudes that were cut to full scale.
        loss_db: Loss from a source to the detector it reaches best, for the worst source.
        exhaustive: Whether the inputs are all combinations at the fibres, or all points of the lattice.
        margins: (I, M) the margin of every symbol of an input, over assignments and servers.
        hop_loss_db: Per layer, loss from its modulators to its detectors, of what full scale loses.
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
        """Share of exact inputs."""
        return accuracy(self.exact, self.inputs)

    @property
    def passed(self) -> bool:
        """Whether every word of every server is the ideal average."""
        return self.exact == self.inputs

    @property
    def errors(self) -> dict[int, int]:
        """Error of a word, read minus ideal, to the number of words that have it, over assignments and servers."""
        return error_counts(self.words, self.ideal[:, np.newaxis])


def check_function(
    circuit: Circuit, board: Board, bias: Bias, task: Averaging, process: Process, ground: Ground | None = None
) -> FunctionResult:
    """Run every input through a circuit as the bias file's codes drive it.

    Where all combinations of symbols at the fibres are few enough, they are the inputs. Otherwise every point of the
    lattice is an input, tried with a random assignment of symbols to servers and with the one that suffers most from
    the imbalance of the preprocessing unit.

    Args:
        circuit: The circuit, as extracted.
        board: What joins its fibres outside.
        bias: Codes, electronics and receivers.
        task: What the chip is to compute.
        process: Process of the cards.
        ground: What currents raise the heaters' grounds by; perfect grounds where left out.

    Raises:
        InputError: Circuit, board, bias and task do not belong together.
        ValueError: The circuit cannot be solved.
    """
    refuse_other_board(board, task)
    s = scattering(circuit, bias, float(process.guide.wavelength_nm), process, ground=ground)
    return check_light(s, board, bias, task)


def refuse_other_board(board: Board, task: Averaging) -> None:
    """Refuse a board that is not this task's.

    Raises:
        InputError: It has other servers or symbols.
    """
    board_task = (len(board.inputs), len(board.inputs[0]) if board.inputs else 0)
    if board_task != (task.servers, task.symbols):
        raise InputError(
            f"the board has {board_task[0]} servers of {board_task[1]} symbols, the network {task.servers} of "
            f"{task.symbols}; give weights and netlist of one chip"
        )


def check_light(s: Scattering, board: Board, bias: Bias, task: Averaging) -> FunctionResult:
    """Run every input of :func:`check_function` through a chip whose S-parameters are known.

    Args:
        s: Of the whole chip at one wavelength.
        board: What joins its fibres outside.
        bias: Electronics and receivers.
        task: What the chip is to compute.
    """
    tried = inputs_of(task)
    symbols = assignments(tried, s, board, bias)
    received = [transmit(assignment, s, board, bias) for assignment in symbols]
    outputs = np.stack([reception.outputs for reception in received])
    words = np.stack([task.decode(reception.levels) for reception in received])
    score = score_words(zip(words, outputs, strict=True), tried.ideal, tried.levels)
    margins = (0.5 - np.abs(outputs - tried.levels[:, np.newaxis])).min(axis=(0, 2))
    return FunctionResult(
        symbols=symbols.astype(np.uint8),
        ideal=tried.ideal,
        words=words,
        outputs=outputs,
        exact=score.exact,
        margin=score.margin,
        saturated=sum(reception.saturated for reception in received),
        loss_db=path_loss_db(s, board),
        exhaustive=tried.exhaustive,
        hop_loss_db=hop_losses_db(s, board),
        margins=margins,
    )


def inputs_of(task: Averaging) -> Inputs:
    """The inputs that a chip of a task is tried with."""
    exhaustive = (4**task.symbols) ** task.servers <= EXHAUSTIVE
    symbols = _all_symbols(task) if exhaustive else assign_random(task, _steps(task), SEED)
    ideal = task.ideal(task.decode(symbols))
    return Inputs(task, symbols, ideal, task.encode(ideal), exhaustive)


def assignments(tried: Inputs, s: Scattering, board: Board, bias: Bias) -> NDArray[np.int64]:
    """(A, I, servers, M) symbols at the fibres: those given, and on the lattice those that suffer most on this chip.

    Args:
        tried: The inputs.
        s: S-parameters of the chip.
        board: What joins its fibres outside.
        bias: Electronics of its neurons.
    """
    if tried.exhaustive:
        return tried.symbols[np.newaxis]
    worst = assign_worst(tried.task, _steps(tried.task), server_errors(s, board, bias))
    return np.stack([tried.symbols, worst])


def _steps(task: Averaging) -> NDArray[np.int64]:
    return np.rint(task.lattice() * task.servers).astype(np.int64)


def _all_symbols(task: Averaging) -> NDArray[np.int64]:
    """Every combination of words, (4^(M·servers), servers, M)."""
    count = 4**task.symbols
    index = np.arange(count**task.servers)
    words = index[:, np.newaxis] // count ** np.arange(task.servers - 1, -1, -1) % count
    return np.asarray(task.encode(words), dtype=np.int64)


def server_errors(s: Scattering, board: Board, bias: Bias) -> NDArray[np.float64]:
    """Relative error of each server's weight in the preprocessing unit, (servers, M).

    Compares the servers' small-signal responses at the first layer's detectors with their mean.
    """
    first = [neuron for neuron in board.neurons if neuron.layer == 0]
    inputs = [label for row in board.inputs for label in row]
    flat = np.zeros((len(first), len(inputs)))
    for sign, detectors in ((1.0, [labels(n.plus) for n in first]), (-1.0, [labels(n.minus) for n in first])):
        weight = np.array([1.0 if sign > 0 else bias.activations[n.label].balance for n in first])
        names = [label for pairs in detectors for label in pairs]
        oscillator = s.between(names, board.steady)[0].sum(axis=1, keepdims=True).conj()
        seen = 2 * (oscillator * s.between(names, inputs)[0]).real
        starts = np.cumsum([0, *(len(pairs) for pairs in detectors[:-1])])
        flat += sign * weight[:, np.newaxis] * np.add.reduceat(seen, starts, axis=0)
    flat *= [bias.inputs.get(label, 1.0) for label in inputs]
    response = flat.reshape(len(first), len(board.inputs), -1)
    mean = response.mean(axis=1, keepdims=True)
    power = np.sum(mean**2, axis=0)
    # a symbol that no neuron looks at has no error either
    share = np.sum(response * mean, axis=0) / np.where(power > 0, power, 1.0)
    return np.where(power > 0, share - 1.0, 0.0)


def path_loss_db(s: Scattering, board: Board) -> float:
    """Loss in dB from a source fibre to the detector that it reaches best, for the worst source.

    A modulator on the chip counts from its carrier's fibre. Fibres that only feed modulators and supplies reach no
    detector themselves.
    """
    detectors = [label for n in board.neurons for names in (n.plus, n.minus) for label in labels(names)]
    detectors += [label for row in board.outputs for label in row]
    sources = [
        *(board.oscillators or (board.carrier,)),
        *(label for row in board.inputs for label in row),
        *(label for n in board.neurons for label in labels(n.to)),
    ]
    best = np.max(
        np.abs(s.between(detectors, sources) * s.strength(sources, board.steady)[:, np.newaxis])[0] ** 2, axis=0
    )
    with np.errstate(divide="ignore"):
        return float(np.max(-10 * np.log10(best)))


def hop_losses_db(s: Scattering, board: Board) -> tuple[float, ...]:
    """Loss in dB of each layer, from its modulators to its detectors, beyond what its matrix asks for.

    A layer's light is its matrix over the 2-norm, times what couplers, guides and splitters let through: so the
    largest singular value of its S-parameters is that transmission. Both detectors of a neuron count together.
    The first layer adds the servers' fields, all of which send the same at full scale. Of the last layer's receivers,
    each server has its own; the worst counts.
    """
    losses = []
    for layer in range(board.layers):
        neurons = [neuron for neuron in board.neurons if neuron.layer == layer]
        detectors = [[label for n in neurons for names in (n.plus, n.minus) for label in labels(names)]]
        sources = [[labels(n.to) for n in board.neurons if n.layer == layer - 1]]
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
    """(outs, fields) field at each output from sources that send alike, which is the sum of what each of them sends."""
    sources = [label for names in fields for label in names]
    light = s.between(outs, sources)[0] * s.strength(sources, board.steady)[0]
    starts = np.cumsum([0, *(len(names) for names in fields[:-1])])
    return np.asarray(np.add.reduceat(light, starts, axis=1))


def write_function(result: FunctionResult, path: str | Path) -> None:
    """Write the lattice table, atomically; equal results give equal bytes."""
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        schema=np.array(SCHEMA),
        symbols=result.symbols,
        ideal=result.ideal,
        words=result.words,
        # rounded: the last bits of a sparse solution are no result
        outputs=np.round(result.outputs, 6).astype(np.float32),
        margins=np.round(result.margins, 6).astype(np.float32),
        error_values=np.array(list(result.errors), dtype=np.int64),
        error_counts=np.array(list(result.errors.values()), dtype=np.int64),
    )
    write_atomic(Path(path), stream.getvalue())
