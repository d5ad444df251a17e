"""A layout as the design-rule checks use it: shapes by layer, and quantities derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import klayout.db as kdb

from optinc_pdk.extract.cell_placements import CellPlacements, find_cell_placements
from optinc_pdk.extract.mask_layout import read_layout

T = TypeVar("T")


@dataclass(frozen=True)
class Design:
    """One layout with its layers by name.

    Attributes:
        layout: The layout; kept here because regions refer to it.
        top: Its only top cell.
        layers: Layer name to GDS layer and datatype.
        threads: Number of threads for hierarchical operations.
    """

    layout: kdb.Layout
    top: kdb.Cell
    layers: Mapping[str, tuple[int, int]]
    threads: int

    @cached_property
    def _store(self) -> kdb.DeepShapeStore:
        store = kdb.DeepShapeStore()
        store.threads = self.threads
        return store

    @cached_property
    def _regions(self) -> dict[str, kdb.Region]:
        return {}

    @cached_property
    def _derived(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _places(self) -> dict[tuple[str, ...], CellPlacements | None]:
        return {}

    @cached_property
    def _tilted(self) -> bool:
        """Whether a cell is magnified or rotated by another angle than a multiple of 90°."""
        return any(inst.is_complex() for cell in self.layout.each_cell() for inst in cell.each_inst())

    def places(self, layers: tuple[str, ...]) -> CellPlacements | None:
        """Placements of the cells with shapes on some layers.

        None if a cell is magnified or rotated by another angle than a multiple of 90°.
        """
        if layers not in self._places:
            self._places[layers] = find_cell_placements(self.layout, self.top, [self.index(name) for name in layers])
        return self._places[layers]

    def index(self, layer: str) -> int:
        """A layer's index in the layout."""
        return int(self.layout.layer(*self.layers[layer]))

    def dbu(self, um: float) -> int:
        """A length in µm, converted to database units and rounded."""
        return round(um / self.layout.dbu)

    def shapes(self, layer: str) -> kdb.RecursiveShapeIterator:
        """Iterator over a layer's shapes in all cells."""
        return kdb.RecursiveShapeIterator(self.layout, self.top, self.index(layer))

    def near(self, layer: str, box: kdb.Box) -> kdb.Region:
        """A layer's shapes cut off at a box, flat."""
        index = self.index(layer)
        return kdb.Region(kdb.RecursiveShapeIterator(self.layout, self.top, index, box, True)) & kdb.Region(box)

    def touching(self, layer: str, box: kdb.Box) -> kdb.Region:
        """Shapes of a layer that share at least a point with a box, flat and merged."""
        return kdb.Region(kdb.RecursiveShapeIterator(self.layout, self.top, self.index(layer), box, False)).merged()

    def region(self, layer: str) -> kdb.Region:
        """A layer as a hierarchical region; treat it as read-only.

        It is flat if a polygon crosses itself, because hierarchical checks do not merge such a polygon if it touches no
        other. It is flat too if a cell is rotated by another angle than a multiple of 90°, because hierarchical checks
        measure it before its corners are rounded to the grid.
        """
        if layer not in self._regions:
            cells = list(self.layout.each_cell())
            deep = not self._tilted and all(simple(cell.shapes(self.index(layer))) for cell in cells)
            self._regions[layer] = (
                kdb.Region(self.shapes(layer), self._store) if deep else kdb.Region(self.shapes(layer)).merged()
            )
        return self._regions[layer]

    def bodies(self, layer: str, body_um: float) -> kdb.Region:
        """Shapes that remain after shrinking and growing a layer by `body_um`: couplers, gratings, but no guides."""
        size = self.dbu(body_um)
        return self.derived(f"{layer}, bodies of {body_um} um", lambda: self.region(layer).sized(-size).sized(size))

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """A quantity that several rules use, computed on first use by ``make``; treat it as read-only."""
        if name not in self._derived:
            self._derived[name] = make()
        result: T = self._derived[name]
        return result


def simple(shapes: kdb.Shapes) -> bool:
    """Whether no polygon among the shapes of one cell crosses itself."""
    region = kdb.Region(shapes)
    region.merged_semantics = False
    return bool(region.strange_polygon_check().is_empty())


def read_design(path: str | Path, layers: Mapping[str, tuple[int, int]], threads: int) -> Design:
    """Read a GDS2 or OASIS file for design-rule checks.

    Raises:
        GdsError: As for :func:`optinc_pdk.extract.layout_reader.read_layout`.
    """
    layout, top = read_layout(path)
    return Design(layout, top, dict(layers), threads)
