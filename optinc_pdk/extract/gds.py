"""A written layout as bare flat shapes: polygons and texts by layer, in nanometers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.extract.census import GdsError
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.places import Places, take_apart
from optinc_pdk.extract.reading import check_layers, check_unit, read_layout

__all__ = ["NM_PER_UM", "GdsError", "Label", "Mask", "read_layout", "read_mask"]

# Golden polygons and joints are integers of nanometers, so a layout must be too.
NM_PER_UM = 1000


@dataclass(frozen=True)
class Label:
    """A text record and its position in nm."""

    text: str
    x: int
    y: int

    @property
    def position_um(self) -> tuple[float, float]:
        """Position in µm."""
        return self.x / NM_PER_UM, self.y / NM_PER_UM


def label_points(labels: Sequence[Label]) -> Ints:
    """(n, 2) positions of labels in nm."""
    return np.array([(label.x, label.y) for label in labels], dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class Mask:
    """The shapes of one layout, whatever cells they were drawn in.

    Attributes:
        layout: Kept here because regions refer to it.
        top: Its only top cell.
        layers: Layer name to GDS layer and datatype.
    """

    layout: kdb.Layout
    top: kdb.Cell
    layers: Mapping[str, tuple[int, int]]

    def region(self, layer: str, near: kdb.Region | None = None) -> kdb.Region:
        """A layer's shapes, flat; with ``near``, only the shapes that overlap that region."""
        index = self.layout.layer(*self.layers[layer])
        if near is None:
            shapes = self.top.begin_shapes_rec(index)
        else:
            shapes = kdb.RecursiveShapeIterator(self.layout, self.top, index, near, True)
        region = kdb.Region(shapes)
        # shapes with different properties would not merge
        region.remove_properties()
        return region

    def silicon(self, near: kdb.Region | None = None) -> kdb.Region:
        """The silicon, merged: the core without the holes, where the process has a layer of holes."""
        core = self.region("core", near).merged()
        holes = self.region("holes", near) if "holes" in self.layers else kdb.Region()
        return core if holes.is_empty() else core - holes

    @cached_property
    def places(self) -> Places | None:
        """The cells with silicon as they are placed, None where that cannot be told cell by cell.

        Holes and slabs are rare, and may lie across cells.
        """
        if any(not self.region(name).is_empty() for name in ("holes", "slab") if name in self.layers):
            return None
        return take_apart(self.layout, self.top, [self.layout.layer(*self.layers["core"])])

    def labels(self, layer: str) -> list[Label]:
        """The text records of a layer, sorted by text and position."""
        texts = kdb.Texts(self.top.begin_shapes_rec(self.layout.layer(*self.layers[layer])))
        found = [Label(text.string, text.x, text.y) for text in texts.each()]
        return sorted(found, key=lambda label: (label.text, label.x, label.y))


def read_mask(path: str | Path, layers: Mapping[str, tuple[int, int]]) -> Mask:
    """Read a GDS2 or OASIS file for extraction.

    Raises:
        GdsError: As for :func:`read_layout`, or the database unit is not 1 nm, or no layer is known.
    """
    layout, top = read_layout(path)
    check_unit(layout, 1 / NM_PER_UM, path)
    check_layers(layout, layers, path)
    return Mask(layout, top, dict(layers))
