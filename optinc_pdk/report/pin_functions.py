"""What the board netlist states about the labels of a chip: which signal a fibre or a pad has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from optinc_pdk.circuit import Board
from optinc_pdk.circuit.board import label_tuple


class BoardFunction(NamedTuple):
    """What a label is for.

    Attributes:
        function: ``carrier``, ``oscillator``, ``supply``, ``monitor``, ``input``, ``output``, ``detector`` or
            ``modulator``.
        signal: Which of them: ``s0_m1`` for server 0 and symbol 1; labels of neurons, for detectors with their sign,
            separated by spaces; or a number from 0. Empty for the carrier.
        number: Place among all detectors or all modulators of the board, from 0; None for other functions.
    """

    function: str
    signal: str
    number: int | None = None


def board_functions(board: Board) -> dict[str, BoardFunction]:
    """Return what each label of a board netlist is for.

    Args:
        board: Board netlist.
    """
    functions = {board.carrier: BoardFunction("carrier", "")}
    rows = (("carrier", board.carriers), ("oscillator", board.oscillators), ("supply", board.supplies))
    for function, labels in (*rows, ("monitor", board.monitors)):
        functions |= {label: BoardFunction(function, str(i)) for i, label in enumerate(labels)}
    for function, servers in (("input", board.inputs), ("output", board.outputs)):
        for s, symbols in enumerate(servers):
            functions |= {label: BoardFunction(function, f"s{s}_m{m}") for m, label in enumerate(symbols)}
    for function, pairs in (("detector", _detectors(board)), ("modulator", _modulators(board))):
        signals: dict[str, list[str]] = {}
        for label, signal in pairs:
            signals.setdefault(label, []).append(signal)
        for i, (label, names) in enumerate(signals.items()):
            functions[label] = BoardFunction(function, " ".join(names), i)
    return functions


def _detectors(board: Board) -> Iterator[tuple[str, str]]:
    """Yield the label of each detector with the label and sign of a neuron that reads it."""
    for neuron in board.neurons:
        for plus, minus in zip(label_tuple(neuron.plus), label_tuple(neuron.minus), strict=True):
            yield plus, f"{neuron.label}+"
            yield minus, f"{neuron.label}-"


def _modulators(board: Board) -> Iterator[tuple[str, str]]:
    """Yield the label of each modulator with that of the neuron that drives it."""
    for neuron in board.neurons:
        for label in label_tuple(neuron.to):
            yield label, neuron.label
