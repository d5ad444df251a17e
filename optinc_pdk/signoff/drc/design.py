"""A layout as the design-rule checks use it: shapes by layer, and quantities derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import klayout.db as kdb

from optinc_pdk.extract.cell_placements import CellInstances, CellPlacements, find_cell_placements
from optinc_pdk.extract.mask_layout import read_layout

T = TypeVar("T")


@dataclass(frozen=True)
class Design:
    """A layout for design-rule checks, with layers by name.

    Attributes:
        layout: The layout; kept here because regions refer to it.
        top: Its only top cell.
        layers: GDS layer and datatype by layer name.
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
    def _instances(self) -> CellInstances:
        return CellInstances()

    @cached_property
    def _tilted(self) -> bool:
        """Whether a cell is magnified or rotated by another angle than a multiple of 90°."""
        return any(inst.is_complex() for cell in self.layout.each_cell() for inst in cell.each_inst())

    def places(self, layers: tuple[str, ...]) -> CellPlacements | None:
        """Return the placements of all cells that have shapes on some layers.

        Returns:
            The placements; None if a cell is magnified or rotated by another angle than a multiple of 90°.
        """
        if layers not in self._places:
            indexes = [self.index(name) for name in layers]
            self._places[layers] = find_cell_placements(self.layout, self.top, indexes, self._instances)
        return self._places[layers]

    def index(self, layer: str) -> int:
        """Return KLayout's index of a layer in the layout."""
        return int(self.layout.layer(*self.layers[layer]))

    def dbu(self, um: float) -> int:
        """Convert a length from µm to database units, rounded to a whole number."""
        return round(um / self.layout.dbu)

    def shapes(self, layer: str) -> kdb.RecursiveShapeIterator:
        """Return an iterator over a layer's shapes in all cells of the hierarchy."""
        return kdb.RecursiveShapeIterator(self.layout, self.top, self.index(layer))

    def near(self, layer: str, box: kdb.Box) -> kdb.Region:
        """Return a layer's shapes within a box, cut off at the box, as a flat region."""
        index = self.index(layer)
        return kdb.Region(kdb.RecursiveShapeIterator(self.layout, self.top, index, box, True)) & kdb.Region(box)

    def touching(self, layer: str, box: kdb.Box) -> kdb.Region:
        """Return the shapes of a layer that share at least a point with a box, whole, flat and merged."""
        return kdb.Region(kdb.RecursiveShapeIterator(self.layout, self.top, self.index(layer), box, False)).merged()

    def region(self, layer: str) -> kdb.Region:
        """Return a layer as a hierarchical region, which must not be modified.

        The region is flat in three cases. If a polygon crosses itself, hierarchical checks do not merge it as long as
        it touches no other. If a cell is rotated by another angle than a multiple of 90°, hierarchical checks measure
        it before its corners are rounded to the grid. If all shapes are in the top cell, hierarchical operations only
        take longer, some of them many times.
        """
        if layer not in self._regions:
            index = self.index(layer)
            cells = [cell for cell in self.layout.each_cell() if not cell.shapes(index).is_empty()]
            nested = any(cell.cell_index() != self.top.cell_index() for cell in cells)
            deep = nested and not self._tilted and all(simple(cell.shapes(index)) for cell in cells)
            self._regions[layer] = (
                kdb.Region(self.shapes(layer), self._store) if deep else kdb.Region(self.shapes(layer)).merged()
            )
        return self._regions[layer]

    def bodies(self, layer: str, body_um: float) -> kdb.Region:
        """Return the parts of a layer that remain if it is shrunk and then grown by a distance.

        These are couplers, gratings and other shapes wider than twice the distance, but no guides.

        Args:
            body_um: The distance in µm.
        """
        size = self.dbu(body_um)
        return self.derived(f"{layer}, bodies of {body_um} um", lambda: self.region(layer).sized(-size).sized(size))

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """Return a quantity that several rules use; it is computed on first use and stored.

        Args:
            name: Key under which the quantity is stored.
            make: Function that computes it.

        Returns:
            The stored quantity, which must not be modified.
        """
        if name not in self._derived:
            self._derived[name] = make()
        result: T = self._derived[name]
        return result


def simple(shapes: kdb.Shapes) -> bool:
    """Return whether all polygons of one cell on one layer are simple, that is, do not cross themselves."""
    region = kdb.Region(shapes)
    region.merged_semantics = False
    return bool(region.strange_polygon_check().is_empty())


def read_design(path: str | Path, layers: Mapping[str, tuple[int, int]], threads: int) -> Design:
    """Read a GDS2 or OASIS file for design-rule checks.

    Args:
        path: Layout file with one top cell.
        layers: GDS layer and datatype by layer name.
        threads: Number of threads for hierarchical operations.

    Raises:
        GdsError: The file cannot be used, as for :func:`optinc_pdk.extract.mask_layout.read_layout`.
    """
    layout, top = read_layout(path)
    return Design(layout, top, dict(layers), threads)
