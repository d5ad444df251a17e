"""Pads, bumps and fibres of a chip as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass, fields

from optinc_pdk.io.writing import csv_text

FIBRE = "fibre"
EDGES = ("left", "bottom", "right", "top")
"""Edges of a die, counter-clockwise."""


@dataclass(frozen=True)
class Pin:
    """A pad, bump or fibre. The fields are the columns of the CSV file, in this order.

    Attributes:
        kind: ``pad``, ``bump`` or ``fibre``.
        number: Number among the pins of its kind, from 1, counter-clockwise around each die.
        die: Number of the die, from 1, from left to right; None outside all dies.
        label: Label in the layout; empty for a bump or coupler without one.
        x_um: x in µm: centre of a pad or bump, place where the fibre meets a grating, or facet on the die's edge.
        y_um: y in µm, likewise.
        edge: ``left``, ``bottom``, ``right`` or ``top``: the nearest edge of the die for a pad, the edge to which its
            light leaves for a fibre; empty for a bump, and for a pad outside all dies.
        array: Number of the fibre's array on the die, from 1; None for pads and bumps.
        channel: From 0: number of a heater in the bias file, number of a photodiode's or modulator's pad in the board
            netlist, place of a fibre in its array. None if there is none.
        function: ``heater``, ``photodiode``, ``modulator`` or ``ground`` for pads and bumps; for fibres ``carrier``,
            ``oscillator``, ``supply``, ``monitor``, ``input``, ``output``, ``detector`` or ``modulator``. Empty if
            neither layout nor board state one.
        signal: Which of them, from the board netlist: ``s0_m1`` for server 0 and symbol 1 of an input or output, labels
            of neurons for modulators and, with sign, for detectors and photodiodes, a number from 0 for supplies,
            monitors, oscillators, and carriers of modulators. Empty if there is none.
        net: Name of the electrical net: the first label on its metal. Empty for fibres, and for metal without label.
        connects_to: Instances of the netlist on the net, or at the other end of the coupler's guide, separated by
            spaces. A device without counterpart in the netlist has its name in the extraction. Empty for grounds.
        voltage_v: Voltage at the bias; 0 for grounds.
        current_ma: Current at the bias, for a ground that of all its pads and bumps together.
        voltage_max_v: Voltage of the highest DAC code.
        current_max_ma: Current at this voltage, for a ground as above.
    """

    kind: str
    number: int
    die: int | None
    label: str
    x_um: float
    y_um: float
    edge: str
    array: int | None = None
    channel: int | None = None
    function: str = ""
    signal: str = ""
    net: str = ""
    connects_to: tuple[str, ...] = ()
    voltage_v: float | None = None
    current_ma: float | None = None
    voltage_max_v: float | None = None
    current_max_ma: float | None = None


@dataclass(frozen=True)
class Pinout:
    """Pinout of a chip.

    Attributes:
        name: Name of the chip.
        dies: Outline (left, bottom, right, top) of each die in µm.
        pins: Pads, bumps and fibres, die by die.
    """

    name: str
    dies: tuple[tuple[float, float, float, float], ...]
    pins: tuple[Pin, ...]

    def to_csv(self) -> str:
        """Return the pinout as CSV: a line with the names of the columns, then a line for each pin."""
        names = [field.name for field in fields(Pin)]
        return csv_text(names, ([_cell(getattr(pin, name)) for name in names] for pin in self.pins))


def _cell(value: object) -> str:
    """Return a value as text of a CSV cell: nothing for None, and at most three decimals, which are nm, mV and µA."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " ".join(value)
    # + 0.0, so that no value is written as -0.000
    return f"{round(value, 3) + 0.0:.3f}" if isinstance(value, float) else str(value)
