"""The board: what is joined outside the chip, by fibre label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Neuron:
    """One off-chip activation: two balanced detectors, electronics, and a modulator on a fresh carrier.

    Attributes:
        label: Key of its gain and offset in the bias file.
        layer: Layer whose output it activates, from 0.
        plus: Fibre to the detector that counts positive.
        minus: Fibre to the detector that counts negative.
        to: Fibre from its modulator into the next layer.
    """

    label: str
    layer: int
    plus: str
    minus: str
    to: str


@dataclass(frozen=True)
class Board:
    """The board netlist of one chip.

    Attributes:
        carrier: Fibre from the laser.
        supplies: Fibres that take the carrier to the servers and to the board's modulators.
        monitors: Fibres to monitor detectors.
        inputs: ``inputs[server][symbol]``, fibres from the servers' modulators.
        neurons: Activations, layer by layer.
        outputs: ``outputs[server][symbol]``, fibres to the servers' receivers.
    """

    carrier: str
    supplies: tuple[str, ...]
    monitors: tuple[str, ...]
    inputs: tuple[tuple[str, ...], ...]
    neurons: tuple[Neuron, ...]
    outputs: tuple[tuple[str, ...], ...]

    @property
    def layers(self) -> int:
        """Number of layers, the last of which has no activation."""
        return max((neuron.layer for neuron in self.neurons), default=-1) + 2

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a file."""
        return {
            "carrier": self.carrier,
            "supplies": list(self.supplies),
            "monitors": list(self.monitors),
            "inputs": [list(row) for row in self.inputs],
            "neurons": [asdict(neuron) for neuron in self.neurons],
            "outputs": [list(row) for row in self.outputs],
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Board:
        """Inverse of :meth:`to_dict`.

        Raises:
            KeyError: A key is missing.
            TypeError: A neuron has unknown or missing keys.
        """
        return Board(
            carrier=str(data["carrier"]),
            supplies=tuple(map(str, data["supplies"])),
            monitors=tuple(map(str, data["monitors"])),
            inputs=tuple(tuple(map(str, row)) for row in data["inputs"]),
            neurons=tuple(Neuron(**neuron) for neuron in data["neurons"]),
            outputs=tuple(tuple(map(str, row)) for row in data["outputs"]),
        )
