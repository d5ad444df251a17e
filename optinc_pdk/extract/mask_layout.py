"""Access to the flat shapes of a layout: polygons and texts by layer, with coordinates in nm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.errors import printable_line
from optinc_pdk.extract.cell_placements import CellPlacements, find_cell_placements
from optinc_pdk.extract.layout_reader import check_layers, check_unit, read_layout
from optinc_pdk.extract.layout_size import GdsError
from optinc_pdk.validation import validate_api

__all__ = ["NM_PER_UM", "GdsError", "Label", "MaskLayout", "read_layout", "read_mask_layout"]
# The database unit of a layout must be 1 nm, because golden polygons have integer coordinates in nm.
NM_PER_UM = 1000


@dataclass(frozen=True)
class Label:
    """A text of a layout.

    Attributes:
        text: Text, with escapes in place of characters that are not printable.
        x: Position in nm.
        y: Position in nm.
    """

    text: str
    x: int
    y: int

    @property
    def position_um(self) -> tuple[float, float]:
        """Position (x, y) in µm."""
        return self.x / NM_PER_UM, self.y / NM_PER_UM


def label_positions(labels: Sequence[Label]) -> Ints:
    """Return the positions of n labels in nm as an array (n, 2)."""
    return np.array([(label.x, label.y) for label in labels], dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class MaskLayout:
    """A layout whose shapes are read without regard to the cells in which they are drawn.

    Attributes:
        layout: KLayout's layout. Regions refer to it, so it must live at least as long as they do.
        top: Its only top cell.
        layers: GDS layer and datatype of each mask layer of the process, by layer name.
    """

    layout: kdb.Layout
    top: kdb.Cell
    layers: Mapping[str, tuple[int, int]]

    def region(self, layer: str, near: kdb.Region | None = None) -> kdb.Region:
        """Return the flat, unmerged shapes of a layer, or only those that overlap a region ``near``."""
        index = self.layout.layer(*self.layers[layer])
        if near is None:
            shapes = self.top.begin_shapes_rec(index)
        else:
            shapes = kdb.RecursiveShapeIterator(self.layout, self.top, index, near, True)
        region = kdb.Region(shapes)
        # KLayout does not merge shapes with different properties
        region.remove_properties()
        return region

    def silicon(self, near: kdb.Region | None = None) -> kdb.Region:
        """Return the merged silicon, layer ``core`` minus layer ``holes``; ``near`` is as for :meth:`region`."""
        core = self.region("core", near).merged()
        holes = self.region("holes", near) if "holes" in self.layers else kdb.Region()
        return core if holes.is_empty() else core - holes

    @cached_property
    def places(self) -> CellPlacements | None:
        """Placements of small cells with silicon, or None if the silicon cannot be read cell by cell.

        It is None if the layout has holes or slabs, which are rare and may extend across cells, or if a cell is
        magnified or rotated by an angle that is not a multiple of 90°.
        """
        if any(not self.region(name).is_empty() for name in ("holes", "slab") if name in self.layers):
            return None
        return find_cell_placements(self.layout, self.top, [self.layout.layer(*self.layers["core"])])

    def labels(self, layer: str) -> list[Label]:
        """Return the texts of a layer, given its name, sorted by text and position."""
        texts = kdb.Texts(self.top.begin_shapes_rec(self.layout.layer(*self.layers[layer])))
        labels = [Label(printable_line(text.string), text.x, text.y) for text in texts.each()]
        return sorted(labels, key=lambda label: (label.text, label.x, label.y))


def read_mask_layout(path: str | Path, layers: Mapping[str, tuple[int, int]]) -> MaskLayout:
    """Read a GDS2 or OASIS file for extraction, given GDS layer and datatype of each mask layer of the process by name.

    Raises:
        GdsError: The file cannot be read (see :func:`read_layout`), its database unit is not 1 nm, or it was drawn for
            another process.
    """
    layout, top = read_layout(path)
    check_unit(layout, 1 / NM_PER_UM, path)
    check_layers(layout, layers, path)
    return MaskLayout(layout, top, dict(layers))


validate_api(__name__)
