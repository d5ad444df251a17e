"""A written layout as the checks see it: bare shapes by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import klayout.db as kdb

# The first record of a GDS2 stream (HEADER, six bytes, integers) and the magic of OASIS: KLayout would also
# read DXF, CIF, LEF and others, which are no mask data.
_MAGIC = (b"\x00\x06\x00\x02", b"%SEMI-OASIS")


class GdsError(ValueError):
    """A layout file that cannot be checked; the message names the file and the reason."""


@dataclass(frozen=True)
class Design:
    """One layout with its layers by name.

    Args:
        layout: Kept here because regions refer to it.
        top: Its only top cell.
        layers: Layer name to GDS layer and datatype.
        threads: Threads of hierarchical operations.
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

    def dbu(self, um: float) -> int:
        """A length in database units."""
        return round(um / self.layout.dbu)

    def shapes(self, layer: str) -> kdb.RecursiveShapeIterator:
        """A layer's shapes through the hierarchy."""
        return kdb.RecursiveShapeIterator(self.layout, self.top, self.layout.layer(*self.layers[layer]))

    def near(self, layer: str, box: kdb.Box) -> kdb.Region:
        """What a layer has inside a box, flat."""
        index = self.layout.layer(*self.layers[layer])
        return kdb.Region(kdb.RecursiveShapeIterator(self.layout, self.top, index, box, True)) & kdb.Region(
            box
        )

    def region(self, layer: str) -> kdb.Region:
        """A layer as a hierarchical region; treat it as read-only."""
        if layer not in self._regions:
            self._regions[layer] = kdb.Region(self.shapes(layer), self._store)
        return self._regions[layer]

    def bodies(self, layer: str, body_um: float) -> kdb.Region:
        """What survives a shrink and a growth by `body_um`: couplers, splitters, gratings, but no guide."""
        key = f"{layer}, bodies of {body_um} um"
        if key not in self._regions:
            size = self.dbu(body_um)
            self._regions[key] = self.region(layer).sized(-size).sized(size)
        return self._regions[key]


def read_design(path: Path, layers: Mapping[str, tuple[int, int]], threads: int) -> Design:
    """Read a GDS2 or OASIS file.

    Raises:
        GdsError: The file is missing, empty, cut off or not a layout, or has no or several top cells.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(16)
    except (OSError, ValueError) as fault:
        raise GdsError(f"{path}: cannot be read ({fault}); check the path") from fault
    if not head:
        raise GdsError(f"{path}: the file is empty; write it again")
    if not head.startswith(_MAGIC):
        raise GdsError(f"{path}: neither GDS2 nor OASIS; give a layout file")
    layout = kdb.Layout()
    try:
        layout.read(str(path))
    except RuntimeError as fault:
        raise GdsError(f"{path}: damaged ({' '.join(str(fault).split())}); write it again") from fault
    tops = [cell.name for cell in layout.top_cells()]
    if len(tops) != 1:
        names = f": {', '.join(tops[:5])}" if tops else ""
        raise GdsError(f"{path}: has {len(tops)} top cells{names}; a chip has exactly one")
    return Design(layout, layout.top_cell(), dict(layers), threads)
