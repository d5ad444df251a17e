"""A written layout as bare flat shapes: polygons and texts by layer, in nanometers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.extract.contours import Ints
from optinc_pdk.files import InputError

# Golden polygons and joints are integers of nanometers, so a layout must be too.
NM_PER_UM = 1000
# The first record of a GDS2 stream (HEADER, six bytes, integers) and the magic of OASIS: KLayout would also
# read DXF, CIF, LEF and others, which are no mask data.
_MAGIC = (b"\x00\x06\x00\x02", b"%SEMI-OASIS")


class GdsError(InputError):
    """A layout file that cannot be used; the message names the file and the reason."""


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

    def labels(self, layer: str) -> list[Label]:
        """The text records of a layer, sorted by text and position."""
        texts = kdb.Texts(self.top.begin_shapes_rec(self.layout.layer(*self.layers[layer])))
        found = [Label(text.string, text.x, text.y) for text in texts.each()]
        return sorted(found, key=lambda label: (label.text, label.x, label.y))


def read_layout(path: str | Path) -> tuple[kdb.Layout, kdb.Cell]:
    """Read a GDS2 or OASIS file and its only top cell.

    Raises:
        GdsError: The file is missing, empty, cut off or no layout, or has no or several top cells.
    """
    path = Path(path)
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
    options = kdb.LoadLayoutOptions()
    # long records and the like are warned of on stdout, which belongs to results
    options.warn_level = 0
    # no mask has properties, and shapes whose properties differ would not merge
    options.properties_enabled = False
    try:
        layout.read(str(path), options)
    except RuntimeError as fault:
        raise GdsError(f"{path}: damaged ({' '.join(str(fault).split())}); write it again") from fault
    tops = [cell.name for cell in layout.top_cells()]
    if len(tops) != 1:
        names = f": {', '.join(tops[:5])}" if tops else ""
        raise GdsError(f"{path}: has {len(tops)} top cells{names}; a chip has exactly one")
    return layout, layout.top_cell()


def read_mask(path: str | Path, layers: Mapping[str, tuple[int, int]]) -> Mask:
    """Read a GDS2 or OASIS file for extraction.

    Raises:
        GdsError: As for :func:`read_layout`, or the database unit is not 1 nm.
    """
    layout, top = read_layout(path)
    if abs(layout.dbu * NM_PER_UM - 1) > 1e-9:
        raise GdsError(f"{path}: the database unit is {layout.dbu:g} µm, needed is 0.001; write it with 1 nm")
    return Mask(layout, top, dict(layers))
