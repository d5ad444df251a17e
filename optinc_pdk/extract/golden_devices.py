"""Golden devices: reference polygons and ports from a process's golden files, in all distinct orientations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

import klayout.db as kdb
import numpy as np
from pydantic import Field, StrictBool, StrictInt, StrictStr, ValidationError

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import CardError, Process
from optinc_pdk.cards.device import cell_digest
from optinc_pdk.cards.quantity import Name, PortName, StrictModel, describe_fault
from optinc_pdk.extract.polygons import Contours, contours, pack_points
from optinc_pdk.io.json_files import parse_json
from optinc_pdk.io.reading import GOLDEN, read_bytes

SCHEMA = 1
# A device is far smaller than a die; sums and squares of these coordinates stay in 64 bits.
Coordinate = Annotated[StrictInt, Field(ge=-(10**8), le=10**8)]
Point = tuple[Coordinate, Coordinate]
MIN_POINTS, MAX_POINTS = 3, 100_000
Ring = Annotated[tuple[Point, ...], Field(min_length=MIN_POINTS, max_length=MAX_POINTS)]
# Golden files whose content is cached; a process has about a dozen.
CACHED_FILES = 128
# Rotations come before reflections, so a symmetric device that is placed mirrored is reported as rotated.
ORIENTATIONS = tuple((turns, mirrored) for mirrored in (False, True) for turns in range(4))


class FibrePort(NamedTuple):
    """Port of a golden device to a fibre.

    Attributes:
        at: Position in nm.
        angle_deg: Outward direction in degrees, 0 to 359.
    """

    at: kdb.Point
    angle_deg: int


@dataclass(frozen=True)
class GoldenVariant:
    """A golden device in one of its distinct orientations, about the origin of its cell. Coordinates are in nm.

    Attributes:
        name: Device name.
        core: Silicon polygons.
        etch: Etched polygons.
        points: (n, 2) first points of the silicon's edges, polygon by polygon, with silicon to the right; those of a
            polygon's holes follow those of its hull.
        ends: (n, 2) second points of the edges.
        port_edges: Guide port name to the number of the edge at the port, in the order of the card.
        along_ports: Numbers of the edges that continue the sides of a guide at a port. Such an edge and the side of the
            guide are one edge of a layout's outline.
        pins: Position of each electrical port, at which metal is required, in the order of the card.
        fibre: The device's first port to a fibre; None if it has none.
        surroundings: Cache of the places near the device that are checked for other silicon, by distance in nm.
    """

    name: str
    core: tuple[kdb.Polygon, ...]
    etch: tuple[kdb.Polygon, ...]
    points: Ints
    ends: Ints
    port_edges: Mapping[str, int]
    along_ports: frozenset[int]
    pins: tuple[kdb.Point, ...]
    fibre: FibrePort | None
    surroundings: dict[int, kdb.Region] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def polygons(self) -> Ints:
        """Number of the silicon polygon of each edge."""
        return np.repeat(np.arange(len(self.core)), [polygon.num_points() for polygon in self.core])

    @cached_property
    def sides(self) -> Ints:
        """Numbers of the edges that are neither at guide ports nor along their guides, longest first."""
        ports = {*self.port_edges.values(), *self.along_ports}
        length = np.sum((self.ends - self.points) ** 2, axis=1)
        order = np.argsort(-length, kind="stable")
        return np.array([i for i in order.tolist() if i not in ports], dtype=np.int64)

    @cached_property
    def straight(self) -> Ints:
        """Distinct vectors of the sides parallel to an axis, encoded by :func:`pack_points`.

        A layout contains the device only if the silicon's outline has an edge of each of these vectors.
        """
        sides = self.sides[np.any(self.points[self.sides] == self.ends[self.sides], axis=1)]
        return np.unique(pack_points(self.ends[sides] - self.points[sides]))


def golden_layers(process: Process) -> tuple[str, ...]:
    """Return the names of the layers that golden polygons have."""
    return ("core", process.grating.layer)


def renewal(process: Process) -> str:
    """Return the remedy in messages about golden files that are missing, not valid or out of date."""
    return f"write the polygons with: optinc process golden --process {process.folder}"


def check_golden(process: Process) -> None:
    """Check that a process has device cards and golden files; their content is not read.

    Raises:
        CardError: There are none; the message names the folder and the remedy.
    """
    process.require_devices(())
    if not process.files("golden/*.json"):
        raise CardError(
            f"{process.folder}: no recognition polygons (golden/*.json), by which extraction recognises devices; "
            f"{renewal(process)}"
        )


def read_golden(process: Process) -> tuple[GoldenVariant, ...]:
    """Read the golden devices of a process, each in all orientations in which its polygons differ.

    Raises:
        CardError: The process has no golden files, one of them is not valid, or that of a device with a cell of its own
            is missing or was not made from this cell.
    """
    check_golden(process)
    return tuple(variant for golden in _read(process) for variant in golden.variants)


def golden_variants(process: Process, name: str, text: str, where: str) -> tuple[GoldenVariant, ...]:
    """Return a device in every distinct orientation, from the content of a golden file that is not written yet.

    Raises:
        CardError: The content is not valid; the message begins with ``where``.
    """
    ports = process.device(name).ports
    try:
        return _golden(text, ports.optical, ports.electrical, process.grating.layer).variants
    except ValidationError as fault:
        first = fault.errors()[0]
        raise CardError(f"{where}: {describe_fault(first, '.'.join(map(str, first['loc'])))}") from fault
    except ValueError as fault:
        raise CardError(f"{where}: its polygons cannot be used ({fault}); correct its cell") from fault


@dataclass(frozen=True)
class _Golden:
    """A golden device with its distinct orientations and its symmetries (permutations of optical ports)."""

    name: str
    variants: tuple[GoldenVariant, ...]
    symmetries: tuple[tuple[int, ...], ...]


def _read(process: Process) -> Iterator[_Golden]:
    """Read the golden files of a process."""
    own = {name for name, card in process.devices.items() if card.cell is not None}
    for path in process.files("golden/*.json"):
        try:
            text = read_bytes(path, GOLDEN, CardError).decode("utf-8")
            name = _parsed(text).name
            own.discard(name)
            if name in process.devices:
                _check_cell(process, name, _parsed(text).cell, path)
                ports = process.devices[name].ports
                golden = _golden(text, ports.optical, ports.electrical, process.grating.layer)
        except ValidationError as fault:
            first = fault.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise CardError(f"{path}: {describe_fault(first, key)}; {renewal(process)}") from fault
        except CardError:
            raise
        except ValueError as fault:
            reason = f"{type(fault).__name__} {fault}"
            raise CardError(f"{path}: not a valid golden device: {reason}; {renewal(process)}") from fault
        if name not in process.devices:
            raise CardError(
                f"{path}: process {process.name!r} has no device {name!r}; add devices/{name}.yml or delete this file"
            )
        yield golden
    if own:
        raise CardError(
            f"{process.folder}: device {min(own)!r} has no recognition polygons (golden/{min(own)}.json); "
            f"{renewal(process)}"
        )


def _check_cell(process: Process, name: str, made_from: str, path: Path) -> None:
    """Check that golden polygons were made from the cell that the device's card states."""
    card = process.devices[name]
    gds = (process.layers[layer].gds for layer in golden_layers(process))
    if made_from != ("" if card.cell is None else cell_digest(card, gds)):
        what = "the package draws the device" if card.cell is None else f"the card or {card.cell.text} has changed"
        raise CardError(f"{path}: not the recognition polygons of device {name!r}: {what}; {renewal(process)}")


class _Port(StrictModel):
    """Port of a golden file: position in nm, outward angle in degrees, and whether it meets a fibre."""

    at: Point
    angle: StrictInt
    fibre: StrictBool = False


class _Hole(StrictModel):
    """Hole of a golden file: the number of its polygon in the layer's list, and its points."""

    polygon: Annotated[StrictInt, Field(ge=0)]
    points: Ring


class _GoldenFile(StrictModel):
    """Content of a golden file."""

    schema_: Annotated[StrictInt, Field(alias="schema", ge=SCHEMA, le=SCHEMA)]
    name: Name
    layers: Mapping[Name, tuple[Ring, ...]]
    holes: Mapping[Name, tuple[_Hole, ...]] = {}
    ports: Mapping[PortName, _Port]
    cell: Annotated[StrictStr, Field(max_length=64)] = ""


@lru_cache(CACHED_FILES)
def _parsed(text: str) -> _GoldenFile:
    """Parse a golden file and check its schema."""
    return _GoldenFile.model_validate(parse_json(text))


@lru_cache(CACHED_FILES)
def _golden(text: str, optical: tuple[str, ...], electrical: tuple[str, ...], etched: str) -> _Golden:
    """Build the golden device of a file; cached, because every extraction and comparison needs it again."""
    data = _parsed(text)
    if missing := [name for name in (*optical, *electrical) if name not in data.ports]:
        raise ValueError(f"port {missing[0]!r} of the device's card is missing")
    variants = tuple(_variants(data, optical, electrical, etched))
    return _Golden(data.name, variants, _symmetries(data, optical, etched))


def _variants(
    data: _GoldenFile, optical: tuple[str, ...], electrical: tuple[str, ...], etched: str
) -> list[GoldenVariant]:
    """Return a golden device in its distinct orientations."""
    layers = {name: _polygons(data, name) for name in data.layers}
    if not layers.get("core"):
        raise ValueError("no polygon of silicon, a device has one or more")
    variants: list[GoldenVariant] = []
    seen: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    for turns, mirrored in ORIENTATIONS:
        turn = kdb.Trans(turns, mirrored, 0, 0)
        core = sorted((p.transformed(turn) for p in layers["core"]), key=str)
        etch = sorted((p.transformed(turn) for p in layers.get(etched, [])), key=str)
        # orientations whose polygons are equal up to a shift count as one
        box = bounding_box(core)
        to_origin = kdb.Trans(-box.left, -box.bottom)
        key = (
            tuple(sorted(str(p.transformed(to_origin)) for p in core)),
            tuple(str(p.transformed(to_origin)) for p in etch),
        )
        if key in seen:
            continue
        seen.add(key)
        outline = contours(core)
        points, ends = outline.points, outline.ends
        ports = {name: _port_edge(points, ends, data.ports[name], turn) for name in optical}
        guides = {name: edge for name, edge in ports.items() if edge is not None}
        pins = tuple(turn * kdb.Point(*data.ports[name].at) for name in electrical)
        fibre = next((_fibre_port(data.ports[name], turn) for name in optical if name not in guides), None)
        along = _along(outline, guides.values())
        variants.append(GoldenVariant(data.name, tuple(core), tuple(etch), points, ends, guides, along, pins, fibre))
    return variants


def _along(outline: Contours, ports: Iterable[int]) -> frozenset[int]:
    """Return the numbers of the edges before and after ports that are parallel to the guides there."""
    before = np.argsort(outline.follows)
    legs = outline.ends - outline.points
    return frozenset(
        int(edge) for port in ports for edge in (before[port], outline.follows[port]) if not legs[edge] @ legs[port]
    )


def _polygons(data: _GoldenFile, layer: str) -> list[kdb.Polygon]:
    """Return the polygons of a layer of a golden file, with their holes."""
    polygons = [kdb.Polygon([kdb.Point(x, y) for x, y in points]) for points in data.layers.get(layer, ())]
    for hole in data.holes.get(layer, ()):
        if hole.polygon >= len(polygons):
            raise ValueError(f"a hole of polygon {hole.polygon} of layer {layer}, which has {len(polygons)}")
        polygons[hole.polygon].insert_hole([kdb.Point(x, y) for x, y in hole.points])
    for polygon in polygons:
        rings = polygon.num_points_hull(), *map(polygon.num_points_hole, range(polygon.holes()))
        if min(rings) < MIN_POINTS:
            raise ValueError(f"layer {layer} has a polygon or hole without area")
    return polygons


def bounding_box(polygons: Iterable[kdb.Polygon]) -> kdb.Box:
    """Return the common bounding box of several polygons; it is empty if there are none."""
    box = kdb.Box()
    for polygon in polygons:
        box += polygon.bbox()
    return box


def _port_edge(points: Ints, ends: Ints, port: _Port, turn: kdb.Trans) -> int | None:
    """Return the number of the edge with the port at its middle, or None for a port to a fibre."""
    if port.fibre:
        return None
    place = turn * kdb.Point(*port.at)
    middle = np.flatnonzero(np.all(points + ends == 2 * np.array([place.x, place.y]), axis=1))
    return int(middle[0]) if len(middle) else None


def _fibre_port(port: _Port, turn: kdb.Trans) -> FibrePort:
    """Return a port to a fibre in one orientation of its device."""
    angle = -port.angle if turn.is_mirror() else port.angle
    return FibrePort(turn * kdb.Point(*port.at), (angle + 90 * turn.angle) % 360)


def device_symmetries(process: Process) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Return the symmetries of all golden devices, as permutations of optical ports in the card's order.

    Renaming every port i to p[i] does not change the device.

    Raises:
        CardError: The process has no golden files, or one of them is not valid.
    """
    check_golden(process)
    return {golden.name: golden.symmetries for golden in _read(process)}


def _symmetries(data: _GoldenFile, order: tuple[str, ...], etched: str) -> tuple[tuple[int, ...], ...]:
    """Return the symmetries of the device of a golden file."""
    shapes = [polygon for layer in ("core", etched) for polygon in _polygons(data, layer)]
    corner = bounding_box(shapes).p1
    original = sorted(str(shape) for shape in shapes)
    at = [kdb.Point(*data.ports[name].at) for name in order]
    permutations: set[tuple[int, ...]] = set()
    for turns, mirrored in ORIENTATIONS:
        turn = kdb.Trans(turns, mirrored, 0, 0)
        move = kdb.Trans(corner - bounding_box(shape.transformed(turn) for shape in shapes).p1) * turn
        if sorted(str(shape.transformed(move)) for shape in shapes) == original:
            permutations.add(tuple(at.index(move * point) for point in at))
    return tuple(sorted(permutations))
