"""The layout of the report's page as an application: its data, and the library that shows it."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from optinc_pdk.cards import Process
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.report.layout_guides import LayoutGuides
from optinc_pdk.report.layout_items import LayoutItem
from optinc_pdk.report.layout_light import LayoutLight
from optinc_pdk.report.layout_markers import LayoutMarker
from optinc_pdk.report.layout_pictures import COLORS, HOLLOW
from optinc_pdk.report.layout_shapes import LayoutShapes, read_shapes


@dataclass(frozen=True, eq=False)
class LayoutData:
    """What the application shows.

    Attributes:
        shapes: Polygons.
        layers: For each layer of `shapes` its title and its colour.
        items: Heaters, pads and other parts that can be chosen.
        guides: Guides that can be chosen.
        markers: Places that checks report.
        dies: Left, bottom, right and top in µm of each die.
        light: Optical powers for a few inputs; None if the function was not checked.
        crosstalk: What the process card states about thermal crosstalk; empty if nothing.
    """

    shapes: LayoutShapes
    layers: tuple[tuple[str, str], ...]
    items: tuple[LayoutItem, ...]
    guides: LayoutGuides
    markers: tuple[LayoutMarker, ...]
    dies: tuple[tuple[float, float, float, float], ...]
    light: LayoutLight | None = None
    crosstalk: str = ""

    def to_text(self) -> str:
        """Return the data as base64 of gzip-compressed JSON. Equal data give equal text."""
        data = {
            **self.shapes.to_json(),
            "layers": [
                {"name": name, "title": title, "color": color, "hollow": name in HOLLOW}
                for name, (title, color) in zip(self.shapes.layers, self.layers, strict=True)
            ],
            "items": [item.to_json() for item in self.items],
            "guides": self.guides.to_json(),
            "markers": [marker.to_json() for marker in self.markers],
            "dies": [[round(edge * NM_PER_UM) for edge in die] for die in self.dies],
            "light": None if self.light is None else self.light.to_json(),
            "crosstalk": self.crosstalk,
        }
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def read_process_shapes(gds_path: str | PathLike[str], process: Process) -> LayoutShapes:
    """Read the polygons of a layout on all layers of its process, thin guides and heaters on top.

    Raises:
        ValueError: See :func:`optinc_pdk.report.layout_shapes.read_shapes`.
    """
    parts = _parts(process)
    order = list(COLORS)
    names = sorted(process.layers, key=lambda name: order.index(parts.get(name, name)))
    return read_shapes(gds_path, {name: process.layers[name].gds for name in names})


def layer_titles(shapes: LayoutShapes, process: Process) -> tuple[tuple[str, str], ...]:
    """Return the title and the colour of each layer of a layout."""
    parts = _parts(process)
    return tuple((process.layers[name].text, COLORS[parts.get(name, name)]) for name in shapes.layers)


def crosstalk_text(process: Process) -> str:
    """Return what the process card states about thermal crosstalk, with its source; empty if nothing."""
    if process.imperfections is None:
        return ""
    card = process.imperfections.crosstalk
    law = f"{float(card.share):.3g} of a heater's phase at {float(card.distance_um):g} µm, falling as 1 / distance"
    return f"{law} ({process.sources[card.share.source]})"


def _parts(process: Process) -> Mapping[str, str]:
    """Return the name in `COLORS` of each layer of a process that is not named there: the closest in meaning."""
    parts = {process.metal.layer: "metal", process.grating.layer: "etch70"}
    return parts | {name: "metal" for name in process.layers if name not in COLORS and name not in parts}


def application_parts(data: LayoutData, name: str, show_findings: bool = False) -> dict[str, Any]:
    """Return the variable ``application`` of a page that includes ``layout.html.j2``.

    Args:
        data: What the layout shows.
        name: Name of the layout.
        show_findings: Whether the markers of checks are visible when the page is opened.
    """
    # without bias or powers, there is nothing to choose from
    has_bias, has_light = any(item.values for item in data.items), data.light is not None
    shown = {"name": name, "show_findings": show_findings, "has_bias": has_bias, "has_light": has_light}
    return {"data": data.to_text(), **shown, **_page_parts()}


@cache
def _page_parts() -> Mapping[str, str]:
    """Return what the page needs to show the data: script and style, and those of Leaflet with its licence."""
    vendor, own = Path(__file__).with_name("vendor") / "leaflet", Path(__file__).with_name("templates")
    files = {
        "library_script": vendor / "leaflet.js",
        "library_style": vendor / "leaflet.css",
        "library_licence": vendor / "LICENSE",
        "script": own / "layout.js",
        "tree_script": own / "layout_tree.js",
        "style": own / "layout.css",
        "rules_script": own / "rules.js",
        "matrices_script": own / "matrices.js",
        "eyes_script": own / "eyes.js",
    }
    parts = {part: file.read_text(encoding="utf-8") for part, file in files.items()}
    parts["section_styles"] = "".join(
        (own / name).read_text(encoding="utf-8") for name in ("rules.css", "matrices.css", "eyes.css")
    )
    # there is no source map beside the page
    return parts | {"library_script": parts["library_script"].partition("//# sourceMappingURL=")[0].rstrip()}
