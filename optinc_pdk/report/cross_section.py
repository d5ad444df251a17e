"""Cross-section of a process: the films of its card with height and thickness."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from optinc_pdk.cards import Process
from optinc_pdk.cards.technology import LayerCard
from optinc_pdk.errors import InputError
from optinc_pdk.report.rendering import figure_bytes

MARGIN_UM = 0.5
"""Height drawn below the lowest and above the highest film."""
LABEL_SHARE = 0.13
"""Least vertical distance of two labels, as a part of the drawn height."""
CLADDING = "#e9eef2"
WIDTH_IN, HEIGHT_IN = 8.0, 3.7
LINE = 150
"""Characters of a line of the remarks."""


@dataclass(frozen=True)
class Film:
    """A film of a process: name and card of its layer, height of its lower face, and thickness.

    ``width_um`` is the width of guides and heaters; None for films of any width.
    """

    name: str
    layer: LayerCard
    bottom_um: float
    thickness_um: float
    width_um: float | None


def films(process: Process) -> list[Film]:
    """Return the films of a process whose card states their height and thickness, from the lowest.

    Raises:
        InputError: The card states none.
    """
    widths = {"core": float(process.guide.width_um)}
    if "phase_shifter" in process.devices:
        widths["heater"] = process.device("phase_shifter").size("heater_width_um")
    found = [
        Film(name, layer, float(layer.bottom_um), float(layer.thickness_um), widths.get(name))
        for name, layer in process.layers.items()
        if layer.bottom_um is not None and layer.thickness_um is not None
    ]
    if not found:
        raise InputError(
            f"process {process.name!r}: no layer of process.yml has bottom_um and thickness_um, so there is no "
            "cross-section; add both to the layers of the stack"
        )
    return sorted(found, key=lambda film: (film.bottom_um, film.name))


def cross_section_picture(process: Process, file_format: str) -> bytes:
    """Draw the cross-section of a process, ``svg``, ``pdf`` or ``png``.

    Heights, thicknesses and the widths of guide and heater are to scale, with one scale for both directions. Metals are
    drawn beside the guide with a width that is not to scale. Every film is labelled with material, thickness, height
    and the card's sources of both; the layers without a thickness are listed.

    Raises:
        InputError: The card states no height and thickness of any layer.
    """
    stack = films(process)
    bottom = min(film.bottom_um for film in stack) - MARGIN_UM
    top = max(film.bottom_um + film.thickness_um for film in stack) + MARGIN_UM
    high = top - bottom
    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained", facecolor="white")
    axes = figure.subplots()
    left = -0.8 * high
    right = 0.8 * high
    axes.add_patch(Rectangle((left, bottom), right - left, high, facecolor=CLADDING, edgecolor="none"))
    label_y = bottom
    step = LABEL_SHARE * high
    for film in stack:
        at, width = (-film.width_um / 2, film.width_um) if film.width_um else (0.3 * high, 0.35 * high)
        axes.add_patch(
            Rectangle((at, film.bottom_um), width, film.thickness_um, facecolor=film.layer.color, edgecolor="none")
        )
        middle = film.bottom_um + film.thickness_um / 2
        label_y = max(middle, label_y + step)
        axes.annotate(
            _label(film),
            (at + width, middle),
            (right + 0.05 * high, label_y),
            fontsize=8,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "#5c6670", "linewidth": 0.6},
        )
    bar = _round_length(0.3 * high)
    axes.plot([left + 0.05 * high, left + 0.05 * high + bar], [bottom + 0.06 * high] * 2, color="black", linewidth=2)
    axes.text(left + 0.05 * high, bottom + 0.09 * high, f"{bar:g} µm", fontsize=8)
    axes.text(left + 0.05 * high, top - 0.08 * high, "cladding", fontsize=8, color="#5c6670")
    axes.set(xlim=(left, right + 1.6 * high), ylim=(bottom, top), aspect="equal")
    axes.set_title(f"{process.name}: {process.title}", fontsize=9, loc="left", wrap=True)
    axes.set_axis_off()
    figure.supxlabel(_remarks(process, stack), fontsize=7, x=0.01, ha="left")
    return figure_bytes(figure, file_format, f"{process.name}: cross-section")


def _label(film: Film) -> str:
    layer = film.layer
    width = "" if film.width_um is None else f", {film.width_um:g} µm wide"
    size = f"{film.thickness_um:g} µm at {film.bottom_um:g} µm{width}"
    material = layer.material or "material not stated"
    return f"{film.name}, {material}: {size}\n{layer.text} (source: {' and '.join(_sources(film))})"


def _sources(film: Film) -> list[str]:
    """Return the keys of the sources of a film's thickness and height."""
    quantities = (film.layer.thickness_um, film.layer.bottom_um)
    return list(dict.fromkeys(quantity.source for quantity in quantities if quantity is not None))


def _remarks(process: Process, stack: list[Film]) -> str:
    """Return what the drawing does not show."""
    drawn = {film.name for film in stack}
    rest = ", ".join(f"{name} ({layer.text})" for name, layer in process.layers.items() if name not in drawn)
    keys = dict.fromkeys(key for film in stack for key in _sources(film))
    sources = "; ".join(f"{key}: {process.sources[key]}" for key in keys if key in process.sources)
    remarks = [
        "Metals: width and place are not to scale; everything else is. The card states no height of the cladding, "
        "which ends where the drawing ends."
    ]
    if rest:
        remarks.append(f"Layers without thickness in the process card, not drawn: {rest}.")
    return "\n".join(textwrap.fill(line, LINE) for line in [*remarks, f"Sources: {sources}."])


def _round_length(most: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is at most a length."""
    power = 10.0 ** (len(f"{int(most)}") - 1) if most >= 1 else 0.1
    return float(max((digit * power for digit in (1.0, 2.0, 5.0) if digit * power <= most), default=power))
