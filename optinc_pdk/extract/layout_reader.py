"""Reader of layout files with checks: file format, damage, size, database unit, and layers of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import load_process, process_names
from optinc_pdk.extract.layout_size import CellSizes, GdsError, check_sizes, read_cell_sizes
from optinc_pdk.io.reading import GDS, LAYOUT, OASIS, read_bytes

GZIP = b"\x1f\x8b"
CONTEXT = "$$$CONTEXT_INFO$$$"
"""Cell in which KLayout keeps parameters of cells; it places all of them, and is not part of a mask."""
# Compressed blocks of an OASIS file can expand by a factor of 1,000. Reading the largest network takes 20 MB.
MAX_MEMORY = 2**30
MAX_LAYERS = 1_000
# 1 m: beyond 2.1 m, coordinates in nm exceed 32 bits and wrap around silently.
MAX_UM = 1e6
UNITS_UM = 1e-6, 1.0
# Names listed in a message.
MAX_LISTED = 5
COVERED = 0.75
"""Share of a layout's layers that a process has if the layout may be drawn for it; others are annotations."""
OTHER_PROCESS = "no bundled process has these layers; give the folder of the layout's process, --process FOLDER"
"""Remedy for a layout of another PDK."""


def read_layout(path: str | Path) -> tuple[kdb.Layout, kdb.Cell]:
    """Read a GDS2 or OASIS file with one top cell; other top cells without shapes and labels are left out.

    Raises:
        GdsError: The file has no or several top cells, or :func:`read_cells` refuses it.
    """
    layout = read_cells(path)
    tops = drawn_tops(layout)
    for cell in layout.top_cells():
        if cell not in tops:
            layout.prune_cell(cell.cell_index(), -1)
    if len(tops) != 1:
        listed = f": {', '.join(cell.name for cell in tops[:MAX_LISTED])}" if tops else ""
        raise GdsError(f"{path}: has {len(tops)} top cells{listed}; write it with exactly one")
    return layout, tops[0]


def top_cell_name(path: str | Path) -> str:
    """Return the name of the top cell of a GDS2 or OASIS file.

    Raises:
        GdsError: :func:`read_layout` refuses the file.
    """
    # the cell is deleted with its layout
    _layout, top = read_layout(path)
    return str(top.name)


def read_cells(path: str | Path) -> kdb.Layout:
    """Read a GDS2 or OASIS file with any number of top cells.

    Raises:
        GdsError: The file is missing, empty, compressed, damaged, or neither GDS2 nor OASIS; a cell contains itself or
            places a cell that is missing; names or labels are not valid text; the database unit, the number of layers,
            cells, shapes or points, a coordinate, or the time to read an OASIS file is out of range.
    """
    path = Path(path)
    data = _checked_bytes(path)
    layout = kdb.Layout()
    if data.startswith(GDS):
        try:
            census = read_cell_sizes(data)
        except GdsError as fault:
            raise GdsError(f"{path}: {fault}") from fault
        check_sizes(census, path)
        _load(layout, data, path)
    else:
        check_reading_time(path, data, MAX_MEMORY)
        with _memory_limit():
            _load(layout, data, path)
        check_sizes(_census(layout, path), path)
    if layout.layers() > MAX_LAYERS:
        raise GdsError(f"{path}: has {layout.layers():,} layers, the limit is {MAX_LAYERS:,}; give a mask layout")
    names = _names(layout, path)
    _check_texts(layout, names, path)
    _check_cells(layout, names, path)
    _check_reach(layout, names, path)
    return layout


def check_unit(layout: kdb.Layout, unit_um: float, path: str | Path) -> None:
    """Check that a layout has the required database unit, in µm.

    Raises:
        GdsError: It has another one; the message names the file ``path``.
    """
    if abs(layout.dbu / unit_um - 1) > 1e-9:
        text = f"the database unit is {layout.dbu:g} µm, needed is {unit_um:g}"
        raise GdsError(f"{path}: {text}; write it with {unit_um * 1e3:g} nm")


def check_layers(layout: kdb.Layout, layers: Mapping[str, tuple[int, int]], path: str | Path) -> None:
    """Check by its layers that a layout was drawn for a process, given its GDS layers and datatypes by name.

    A layout is rejected if more than half of its layers are unknown to the process, and either all are unknown or
    another bundled process has more of them. Shapes on a few unknown layers are not rejected here; the design rules
    report them.

    Raises:
        GdsError: The layout was drawn for another process; the message names the file ``path``.
    """
    drawn = drawn_layers(layout)
    known = drawn & set(layers.values())
    if 2 * len(known) >= len(drawn):
        return
    others = better_processes(drawn, layers)
    if not known or others:
        text = f"of its layers {_layers_text(drawn)} the process has {_layers_text(known) if known else 'none'}"
        remedy = f"give the right one with --process: {' or '.join(others)}" if others else OTHER_PROCESS
        raise GdsError(f"{path}: drawn for another process: {text}; {remedy}")


def better_processes(drawn: set[tuple[int, int]], layers: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return the bundled processes that a layout's layers match best, if they match better than those of its process.

    These have most of the layers ``drawn``: more than its process, and at least ``COVERED`` of all.
    """
    known = {name: len(drawn & set(load_process(name).gds_layers.values())) for name in process_names()}
    most = max(known.values())
    if most <= len(drawn & set(layers.values())) or most < COVERED * len(drawn):
        return []
    return [name for name, count in known.items() if count == most]


def _layers_text(layers: set[tuple[int, int]]) -> str:
    """List some GDS layers."""
    listed = [f"{layer}/{datatype}" for layer, datatype in sorted(layers)]
    return ", ".join(listed if len(listed) <= MAX_LISTED else [*listed[:MAX_LISTED], "..."])


def drawn_tops(layout: kdb.Layout) -> list[kdb.Cell]:
    """Return the top cells of a layout that have shapes or labels; all of them if none has."""
    tops = layout.top_cells()
    return [cell for cell in tops if not cell.bbox().empty()] or tops


def drawn_layers(layout: kdb.Layout) -> set[tuple[int, int]]:
    """Return GDS layer and datatype of every layer of a layout on which a cell has shapes."""
    infos = ((layout.get_info(index), index) for index in layout.layer_indexes())
    cells = list(layout.each_cell())
    return {
        (info.layer, info.datatype) for info, index in infos if any(not cell.shapes(index).is_empty() for cell in cells)
    }


def read_checked(path: str | os.PathLike[str]) -> kdb.Layout:
    """Read a layout that a check has read before, without KLayout's messages on standard output.

    Raises:
        GdsError: The file cannot be read.
    """
    layout = kdb.Layout()
    _load(layout, _checked_bytes(Path(path)), Path(path))
    return layout


def _checked_bytes(path: Path) -> bytes:
    """Return the content of a file that starts as GDS2 or OASIS does."""
    data = read_bytes(path, LAYOUT, GdsError)
    if not data:
        raise GdsError(f"{path}: the file is empty; write it again")
    if data.startswith(GZIP):
        raise GdsError(f"{path}: compressed with gzip; unpack it first")
    if not data.startswith((GDS, OASIS)):
        raise GdsError(f"{path}: neither GDS2 nor OASIS; give a layout file")
    return data


def _load(layout: kdb.Layout, data: bytes, path: Path) -> None:
    """Read the content of a file into a layout."""
    options = kdb.LoadLayoutOptions()
    # KLayout prints warnings, of long records for instance, to stdout, which is reserved for results
    options.warn_level = 0
    # properties are not part of a mask, and KLayout does not merge shapes with different properties
    options.properties_enabled = False
    try:
        with _quiet():
            layout.read_bytes(data, options)
    # UnicodeDecodeError: KLayout's own message contains a damaged name
    except (RuntimeError, UnicodeDecodeError) as fault:
        raise GdsError(f"{path}: {_reason(' '.join(str(fault).split()))}") from fault
    # KLayout removes it only where it is the first cell of the file
    if layout.has_cell(CONTEXT):
        layout.delete_cell(layout.cell(CONTEXT).cell_index())


def _reason(fault: str) -> str:
    """Translate KLayout's message into reason and remedy."""
    if "topological_sort" in fault:
        return "cells contain each other; remove one of these references"
    if "mag > 0" in fault:
        return "a cell is placed with a magnification of 0 or less; draw it at its final size"
    if "bad_alloc" in fault:
        return f"takes more than {MAX_MEMORY // 2**30} GiB of memory to read; check the counts of its arrays"
    return f"damaged ({fault.removesuffix(' in Layout.read_bytes')}); write it again"


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress KLayout's message on stderr; the same message is raised as an exception."""
    saved = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


@contextmanager
def _memory_limit() -> Iterator[None]:
    """Limit the growth of this operating-system process to ``MAX_MEMORY``, where ``/proc`` states its size."""
    status = Path("/proc/self/statm")
    if not status.exists():
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = int(status.read_text().split()[0]) * resource.getpagesize() + MAX_MEMORY
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _census(layout: kdb.Layout, path: Path) -> CellSizes:
    """Count shapes, points and references of the cells in a layout."""
    names, cells = _names(layout, path), list(layout.each_cell())
    number = {cell.cell_index(): i for i, cell in enumerate(cells)}
    shapes, points = np.zeros((2, len(cells)), dtype=np.int64)
    parent: list[int] = []
    child: list[int] = []
    copies: list[int] = []
    for i, cell in enumerate(cells):
        for index in layout.layer_indexes():
            shapes[i] += cell.shapes(index).size()
            points[i] += sum(
                shape.polygon.num_points()
                for shape in cell.shapes(index).each(kdb.Shapes.SPolygons | kdb.Shapes.SPaths)
            )
        for instance in cell.each_inst():
            parent.append(i)
            child.append(number[instance.cell_index])
            copies.append(max(instance.na, 1) * max(instance.nb, 1))
    references = (np.array(ints, dtype=np.int64) for ints in (parent, child, copies))
    return CellSizes(tuple(names[cell.cell_index()] for cell in cells), shapes, points, *references)


def _names(layout: kdb.Layout, path: Path) -> dict[int, str]:
    """Return the names of the cells by cell index."""
    names: dict[int, str] = {}
    for index in layout.each_cell_top_down():
        try:
            names[index] = layout.cell(index).name
        except RuntimeError as fault:
            raise GdsError(
                f"{path}: a cell name is not valid text ({_decoding(fault)}); use letters and digits"
            ) from fault
    return names


def _check_texts(layout: kdb.Layout, names: Mapping[int, str], path: Path) -> None:
    """Check that every label can be decoded."""
    for index in layout.layer_indexes():
        for cell in layout.each_cell():
            for shape in cell.shapes(index).each(kdb.Shapes.STexts):
                try:
                    shape.text_string  # noqa: B018 - decoding it is the check
                except RuntimeError as fault:
                    where = f"the label at ({shape.text_dpos}) in cell {names[cell.cell_index()]!r}"
                    raise GdsError(
                        f"{path}: {where} is not valid text ({_decoding(fault)}); use letters and digits"
                    ) from fault


def _decoding(fault: RuntimeError) -> str:
    """Extract Python's reason from KLayout's message."""
    return str(fault).removeprefix("UnicodeDecodeError: ").rpartition(" in ")[0]


def _check_cells(layout: kdb.Layout, names: Mapping[int, str], path: Path) -> None:
    """Check that every placed cell is defined, and that the database unit is in range."""
    missing = [names[cell.cell_index()] for cell in layout.each_cell() if cell.is_ghost_cell() and not cell.is_top()]
    if missing:
        listed = ", ".join(repr(name) for name in missing[:MAX_LISTED])
        raise GdsError(
            f"{path}: places {len(missing)} cells that it does not define ({listed}); write it with all cells"
        )
    low, high = UNITS_UM
    # NaN fails every comparison
    if not low <= layout.dbu <= high:
        text = f"the database unit is {layout.dbu:g} µm, outside {low:g} to {high:g}"
        raise GdsError(f"{path}: {text}; write it with 0.001, 1 nm")


def _check_reach(layout: kdb.Layout, names: Mapping[int, str], path: Path) -> None:
    """Check that no coordinate exceeds ``MAX_UM``, in floating point, where nothing wraps around."""
    boxes: dict[int, kdb.DBox] = {}
    layers = layout.layer_indexes()
    for index in layout.each_cell_bottom_up():
        cell = layout.cell(index)
        box = cell.bbox().to_dtype(layout.dbu) if cell.is_leaf() else kdb.DBox()
        for shape in () if cell.is_leaf() else (shape for layer in layers for shape in cell.each_shape(layer)):
            box += shape.dbbox()
        for instance in cell.each_inst():
            placed = boxes[instance.cell_index].transformed(instance.dcplx_trans)
            along = instance.da * max(instance.na - 1, 0), instance.db * max(instance.nb - 1, 0)
            for move in (kdb.DVector(), *along, along[0] + along[1]):
                box += placed.moved(move)
        boxes[index] = box
        far = 0.0 if box.empty() else max(abs(edge) for edge in (box.left, box.bottom, box.right, box.top))
        if far > MAX_UM:
            text = f"cell {names[index]!r} reaches to {far:,.0f} µm, the limit is {MAX_UM:,.0f}"
            raise GdsError(f"{path}: {text}; check unit and positions")


MAX_SECONDS = 30
"""Limit of the computing time. The largest network laid out so far is read in one second."""
# Errors of the file are reported by the reading that follows. The limits hold from here on, so that the import counts.
_SCRIPT = """
import sys
try:
    import resource
except ImportError:  # Windows has no such limits
    sys.exit()
seconds, memory = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
import klayout.db as kdb
try:
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
except OSError:  # another system than Linux, or a container without /proc: only the time is limited
    size = 0
if size:
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
options = kdb.LoadLayoutOptions()
options.warn_level = 0
options.properties_enabled = False
try:
    kdb.Layout().read_bytes(sys.stdin.buffer.read(), options)
except (RuntimeError, UnicodeDecodeError):
    pass
"""


def check_reading_time(path: Path, data: bytes, max_memory: int) -> None:
    """Check that KLayout can read an OASIS file within ``MAX_SECONDS``, by a trial in a subprocess.

    Some damaged repetitions keep KLayout's reader busy for hours, and nothing in this process could interrupt it. GDS2
    files need no trial: their records are counted first. The trial may grow by ``max_memory`` bytes.

    Raises:
        GdsError: The trial was ended by the limit, or by a crash of the reader, or could not be made.
    """
    # -P: a file in the current folder must not be imported in place of a package
    command = [sys.executable, "-P", "-c", _SCRIPT, str(MAX_SECONDS), str(max_memory)]
    quiet = subprocess.DEVNULL
    ended = subprocess.run(command, input=data, stdout=quiet, stderr=quiet, check=False).returncode
    if ended:
        how = f"signal {-ended}" if ended < 0 else f"exit code {ended}"
        raise GdsError(
            f"{path}: cannot be read within {MAX_SECONDS} s of computing time and {max_memory // 2**20} MiB ({how}); "
            "check the counts of its arrays, or write it as GDS2"
        )


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def refusing_geometry(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Wrap a function of a layout file, so that failures of KLayout's geometry engine refuse the file.

    The path of the file is its first argument. It raises a :class:`GdsError` in place of the engine's ``RuntimeError``.
    """

    @wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except RuntimeError as fault:
            if not str(fault).startswith("Internal error: "):
                raise
            path = args[0] if args else kwargs.get("gds_path")
            raise GdsError(
                f"{path}: KLayout cannot process its polygons ({fault}); draw again shapes whose coordinates are far "
                "apart, or that cross themselves"
            ) from fault

    return guarded
