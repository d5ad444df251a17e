"""The board netlist: connections outside the chip, by fibre and pad label."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from optinc_pdk.circuit.checked_values import (
    REMEDY,
    NetlistError,
    entries_of,
    index_of,
    list_of,
    name_of,
    names_of,
    number_of,
)

_REQUIRED = ("carrier", "supplies", "monitors", "inputs", "neurons", "outputs")
OPTIONAL = ("oscillators", "carriers")
"""Fields that a file contains only if they are not empty."""
COHERENT, PHOTODIODES = "coherent", "photodiodes"
"""Values of ``receivers`` in a file; photodiodes if there is none."""
MOST_OSCILLATOR_POWER = 1e6
"""Largest ratio, either way, of the power in an oscillators' fibre to that in another guide."""
Labels: TypeAlias = str | tuple[str, ...]
"""One label, or several: a string or a list in a file."""


@dataclass(frozen=True)
class Neuron:
    """One activation: pairs of balanced detectors with added currents, electronics, and modulators with one drive.

    Several neurons of a layer may share detectors: then ``plus`` and ``minus`` of one are equal to those of the others.
    Their amplifier drives the electronics of all of them, which differ in gain and offset. A neuron without detectors
    drives its modulators with a constant.

    Labels are fibre labels if detectors and modulators are off the chip, and pad labels if they are on it. A field with
    one label may be a string. If there are several pairs of detectors, the i-th of ``plus`` and the i-th of ``minus``
    are behind one mixer.

    Attributes:
        label: Key of the neuron's settings in the bias file.
        layer: Number of the layer whose output it activates, from 0.
        plus: Labels of the detectors with positive sign; empty for a constant.
        minus: Labels of the detectors with negative sign; empty for a constant.
        to: Labels of its modulators, one for each block of the next layer that uses the signal.

    Raises:
        ValueError: There is no modulator, or the numbers of positive and negative detectors differ.
    """

    label: str
    layer: int
    plus: Labels
    minus: Labels
    to: Labels

    def __post_init__(self) -> None:
        """Check the labels, and store a single label as a string."""
        for key in ("plus", "minus", "to"):
            names = label_tuple(getattr(self, key))
            if not names and key == "to":
                raise ValueError(f"neuron {self.label!r}: {key} is empty; give a label")
            object.__setattr__(self, key, names[0] if len(names) == 1 else names)
        if len(label_tuple(self.plus)) != len(label_tuple(self.minus)):
            raise ValueError(
                f"neuron {self.label!r} has {len(label_tuple(self.plus))} positive and "
                f"{len(label_tuple(self.minus))} negative detectors; give as many of one as of the other"
            )


def detector_groups(neurons: Sequence[Neuron]) -> tuple[tuple[Neuron, ...], list[int]]:
    """Group the neurons of one layer by their detectors.

    Returns:
        One neuron for each distinct set of detectors, by first occurrence; and for each neuron the number of its set,
        -1 for a neuron without detectors.
    """
    first: dict[tuple[Labels, Labels], int] = {}
    members: list[Neuron] = []
    numbers: list[int] = []
    for neuron in neurons:
        if not label_tuple(neuron.plus):
            numbers.append(-1)
            continue
        key = (neuron.plus, neuron.minus)
        if key not in first:
            first[key] = len(members)
            members.append(neuron)
        numbers.append(first[key])
    return tuple(members), numbers


def label_tuple(names: Labels) -> tuple[str, ...]:
    """Convert one label, or several labels, to a tuple of labels."""
    return (names,) if isinstance(names, str) else tuple(names)


@dataclass(frozen=True)
class Board:
    """The board netlist of one chip. All fields are labels; ``neurons`` may also name pads.

    Attributes:
        carrier: Fibre from the laser.
        supplies: Fibres that lead the carrier from the chip to the servers' modulators and to the board's modulators.
        monitors: Fibres to monitor detectors.
        inputs: ``inputs[server][symbol]``: fibres from the servers' modulators.
        neurons: Activations, layer by layer.
        outputs: ``outputs[server][symbol]``: fibres to the servers' receivers.
        oscillators: Fibres that lead the carrier to local oscillators, if it is split off the chip; otherwise empty.
        carriers: Fibres that lead the carrier to modulators on the chip; empty if there are none.
        coherent: Whether the servers' receivers detect fields with local oscillators, instead of powers.
        oscillator_power: Power launched into each fibre of ``oscillator_fibres``, relative to that of a field of
            amplitude 1. A file contains it only if it is not 1.
    """

    carrier: str
    supplies: tuple[str, ...]
    monitors: tuple[str, ...]
    inputs: tuple[tuple[str, ...], ...]
    neurons: tuple[Neuron, ...]
    outputs: tuple[tuple[str, ...], ...]
    oscillators: tuple[str, ...] = ()
    carriers: tuple[str, ...] = ()
    coherent: bool = False
    oscillator_power: float = 1.0

    @property
    def unmodulated(self) -> tuple[str, ...]:
        """Labels of the fibres through which the chip receives the unmodulated carrier."""
        return (self.carrier, *self.oscillators, *self.carriers)

    @property
    def oscillator_fibres(self) -> tuple[str, ...]:
        """Labels of the fibres that lead light to the local oscillators of the neurons.

        That is the carrier's fibre if the carrier is split on the chip: then its first splitter sends one half to the
        local oscillators, and the other half to the supplies and the monitor.
        """
        return self.oscillators or (self.carrier,)

    @property
    def launched(self) -> dict[str, float]:
        """Field amplitude in each fibre of ``unmodulated``: 1, or that of the local oscillators."""
        strong = math.sqrt(self.oscillator_power)
        return {label: strong if label in self.oscillator_fibres else 1.0 for label in self.unmodulated}

    @property
    def labels(self) -> tuple[str, ...]:
        """All fibre and pad labels in the board netlist; those of detectors that neurons share occur once."""
        readers = {(n.layer, n.plus, n.minus): n for n in reversed(self.neurons)}
        names = ((n.plus, n.minus, n.to) if n is readers[n.layer, n.plus, n.minus] else (n.to,) for n in self.neurons)
        neurons = (label for each in names for one in each for label in label_tuple(one))
        fibres = (label for row in (*self.inputs, *self.outputs) for label in row)
        return (*self.unmodulated, *self.supplies, *self.monitors, *fibres, *neurons)

    @property
    def layers(self) -> int:
        """Number of layers of the network, including the last one, which has no activation."""
        return max((neuron.layer for neuron in self.neurons), default=-1) + 2

    def to_dict(self) -> dict[str, Any]:
        """Return the board netlist as dicts and lists for a YAML file; :meth:`from_dict` is the inverse."""
        return (
            {
                "carrier": self.carrier,
                "supplies": list(self.supplies),
                "monitors": list(self.monitors),
                "inputs": [list(row) for row in self.inputs],
                "neurons": [_plain(neuron) for neuron in self.neurons],
                "outputs": [list(row) for row in self.outputs],
            }
            | {key: list(names) for key in OPTIONAL if (names := getattr(self, key))}
            | ({"receivers": COHERENT} if self.coherent else {})
            | ({} if self.oscillator_power == 1.0 else {"oscillator_power": self.oscillator_power})
        )

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Board:
        """Create a board netlist from dicts and lists as :meth:`to_dict` returns them.

        Raises:
            NetlistError: A key is missing or unknown, or a value is not of its type.
            ValueError: A neuron lacks detectors or modulators.
        """
        board = entries_of("info.board", data, _REQUIRED, (*OPTIONAL, "receivers", "oscillator_power"))
        receivers = board.get("receivers", PHOTODIODES)
        if receivers not in (COHERENT, PHOTODIODES):
            raise NetlistError(f"info.board: receivers is {receivers!r}; give {PHOTODIODES} or {COHERENT}")
        neurons = list_of("info.board: neurons", board["neurons"])
        return Board(
            carrier=name_of("info.board: carrier", board["carrier"]),
            supplies=names_of("info.board: supplies", board["supplies"]),
            monitors=names_of("info.board: monitors", board["monitors"]),
            inputs=_rows("inputs", board["inputs"]),
            # every layer has a neuron
            neurons=tuple(_neuron(number, each, len(neurons)) for number, each in enumerate(neurons)),
            outputs=_rows("outputs", board["outputs"]),
            **{key: names_of(f"info.board: {key}", board.get(key, [])) for key in OPTIONAL},
            coherent=receivers == COHERENT,
            oscillator_power=_oscillator_power(board.get("oscillator_power", 1.0)),
        )


def _oscillator_power(value: Any) -> float:
    power = number_of("info.board: oscillator_power", value)
    if not 1.0 / MOST_OSCILLATOR_POWER <= power <= MOST_OSCILLATOR_POWER:
        raise NetlistError(
            f"info.board: oscillator_power is {power:g}, expected {1.0 / MOST_OSCILLATOR_POWER:g} … "
            f"{MOST_OSCILLATOR_POWER:g}, relative to the power in another guide; {REMEDY}"
        )
    return power


def _rows(key: str, data: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(names_of(f"info.board: {key}", row) for row in list_of(f"info.board: {key}", data))


def _neuron(number: int, data: Any, layers: int) -> Neuron:
    where = f"info.board: neuron {number}"
    values = entries_of(where, data, ("label", "layer", "plus", "minus", "to"))
    labels = {key: _labels(f"{where}: {key}", values[key]) for key in ("plus", "minus", "to")}
    layer = index_of(f"{where}: layer", values["layer"], layers)
    return Neuron(name_of(f"{where}: label", values["label"]), layer, **labels)


def _labels(where: str, value: Any) -> Labels:
    return name_of(where, value) if isinstance(value, str) else names_of(where, value)


def _plain(neuron: Neuron) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(neuron).items()}
