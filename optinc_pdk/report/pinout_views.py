"""Sheets of a packaging drawing: sizes of texts, and the place of a die on its sheet; positions are in mm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from optinc_pdk.report.label_placement import Box
from optinc_pdk.report.pins import FIBRE, Pin, Pinout

SHEET_MM = (420.0, 297.0)
"""Format A3."""
FIELD: Box = (10.0, 25.0, 410.0, 275.0)
"""Part of the sheet for the die and, below it, for a table; the title is above it and the legend below."""
SIZES_PT = (6.0, 5.0, 4.0)
"""Sizes of labels; those of an edge have the largest at which there is room."""
INNER_PT = 5.0
"""Size of labels within a die and in the table."""
INK, SOFT = "#20262c", "#8a9199"
COLOURS = {
    "heater": "#e0a526",
    "ground": "#8a9199",
    "photodiode": "#8c6bb1",
    "modulator": "#3f8f5f",
    FIBRE: "#2f6fb0",
    "other": "#f4f6f8",
}
"""Colour of pads and bumps by function, and of fibres."""
MOST_LETTERS = 24
"""Longest label that is drawn in full."""
TABLE_MM = 14.0
"""Least height of the table."""
LEADER_MM = 6.0
"""Distance of labels from the edge of a die."""
_LETTERS = {"pad": "P", "bump": "B", FIBRE: "F"}
_MM_PER_PT = 25.4 / 72
# width of a character of a monospaced font, and distance of lines, in ems
_ADVANCE, _LINE = 0.61, 1.15
# room for the dimensions beyond the labels
_DIMENSION_MM = 8.0
_FACET_UM = 1.0


def write_text(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Write a text as it is, in the monospaced font that :func:`text_mm` assumes."""
    axes.text(x, y, text, family="monospace", parse_math=False, **style)


def text_mm(text: str, size_pt: float) -> float:
    """Return the width of a text."""
    return len(text) * size_pt * _MM_PER_PT * _ADVANCE


def line_mm(size_pt: float) -> float:
    """Return the distance of lines of text."""
    return size_pt * _MM_PER_PT * _LINE


def pin_number(pin: Pin) -> str:
    """Return letter and number of a pin."""
    return f"{_LETTERS[pin.kind]}{pin.number}"


def pin_text(pin: Pin) -> str:
    """Return letter, number and label of a pin; a long label is cut off."""
    label = "".join(letter if letter.isprintable() else "?" for letter in pin.label)
    return f"{pin_number(pin)} {label if len(label) <= MOST_LETTERS else f'{label[: MOST_LETTERS - 1]}…'}".rstrip()


def pin_group(pin: Pin) -> str:
    """Return the key of a pin's colour."""
    group = FIBRE if pin.kind == FIBRE else pin.function
    return group if group in COLOURS else "other"


def outer_edge(pin: Pin, pinout: Pinout) -> str:
    """Return the edge outside which a pin is labelled; empty for bumps, and for fibres in the middle of a die."""
    if pin.die is None or not pin.edge or pin.kind != FIBRE:
        return pin.edge
    left, bottom, right, top = pinout.dies[pin.die - 1]
    away = {"left": pin.x_um - left, "bottom": pin.y_um - bottom, "right": right - pin.x_um, "top": top - pin.y_um}
    return pin.edge if away[pin.edge] <= _FACET_UM else ""


@dataclass(frozen=True)
class DieView:
    """Place of a die on the sheet.

    Attributes:
        die: Outline of the die in µm.
        mm_per_um: Scale.
        box: Outline of the die on the sheet.
        cell: Part of the sheet for the die, its labels and dimensions.
    """

    die: Box
    mm_per_um: float
    box: Box
    cell: Box

    def at(self, x_um: float, y_um: float) -> tuple[float, float]:
        """Return the place on the sheet of a position in the layout."""
        return self.box[0] + (x_um - self.die[0]) * self.mm_per_um, self.box[1] + (y_um - self.die[1]) * self.mm_per_um


def die_view(pinout: Pinout, number: int) -> DieView:
    """Place a die on its sheet, at the largest scale at which its labels have room.

    Args:
        pinout: The pinout.
        number: Number of the die, from 1.
    """
    die = pinout.dies[number - 1]
    edges = [(outer_edge(pin, pinout), pin_text(pin)) for pin in pinout.pins if pin.die == number]
    x, y = (_margin(text for edge, text in edges if edge in sides) for sides in (("left", "right"), ("bottom", "top")))
    width, height = die[2] - die[0], die[3] - die[1]
    across, down = FIELD[2] - FIELD[0] - 2 * x, FIELD[3] - FIELD[1] - 2 * y - TABLE_MM
    scale = min(across / width, down / height)
    middle = (FIELD[0] + FIELD[2]) / 2
    left, top = middle - width * scale / 2, FIELD[3] - y
    box = (left, top - height * scale, left + width * scale, top)
    return DieView(die, scale, box, (box[0] - x, box[1] - y, box[2] + x, FIELD[3]))


def _margin(texts: Iterable[str]) -> float:
    """Return the room that labels and dimensions beside a die need."""
    return LEADER_MM + max((text_mm(text, SIZES_PT[0]) for text in texts), default=0.0) + _DIMENSION_MM
