"""Golden devices: polygons and ports from the process's data, in all orientations that differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import CardError, Process
from optinc_pdk.extract.contours import Ints

SCHEMA = 1
# Rotations before reflections: a symmetric device placed mirrored is described as rotated.
ORIENTATIONS = tuple((turns, mirrored) for mirrored in (False, True) for turns in range(4))


@dataclass(frozen=True)
class Variant:
    """A golden device in one orientation, at the origin.

    Attributes:
        name: Device name.
        core: Its silicon polygon.
        etch: Its etched polygons.
        points: (n, 2) first points of the silicon's edges, silicon to the right.
        ends: (n, 2) second points.
        port_edges: Name of each guide port to its edge's number, in the order of the card.
    """

    name: str
    core: kdb.Polygon
    etch: tuple[kdb.Polygon, ...]
    points: Ints
    ends: Ints
    port_edges: Mapping[str, int]

    @cached_property
    def sides(self) -> Ints:
        """Numbers of the edges that are no ports, longest first."""
        ports = set(self.port_edges.values())
        length = np.sum((self.ends - self.points) ** 2, axis=1)
        order = np.argsort(-length, kind="stable")
        return np.array([i for i in order.tolist() if i not in ports], dtype=np.int64)


def read_golden(process: Process) -> tuple[Variant, ...]:
    """Every golden device of a process in each orientation in which its polygons differ.

    Raises:
        CardError: A golden file cannot be used.
    """
    etched = process.grating.layer
    return tuple(variant for data, order in _read(process) for variant in _variants(data, order, etched))


def _read(process: Process) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Golden files with the order of their optical ports; checked by turning each into what it describes."""
    for path in process.files("golden/*.json"):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["schema"] != SCHEMA:
                raise ValueError(f"schema {data['schema']}, this version reads {SCHEMA}")
            order = process.device(data["name"]).ports.optical
            _variants(data, order, process.grating.layer)
            _symmetries(data, order, process.grating.layer)
        except (OSError, KeyError, TypeError, ValueError) as fault:
            what = f"{type(fault).__name__} {fault}"
            raise CardError(f"{path}: not a golden device: {what}; write it again") from fault
        yield data, order


def _variants(data: Mapping[str, Any], order: tuple[str, ...], etched: str) -> list[Variant]:
    layers = {name: [_polygon(points) for points in shapes] for name, shapes in data["layers"].items()}
    if len(layers["core"]) != 1:
        raise ValueError(f"{len(layers['core'])} polygons of silicon, a device has one")
    found: list[Variant] = []
    seen: set[tuple[str, ...]] = set()
    for turns, mirrored in ORIENTATIONS:
        turn = kdb.Trans(turns, mirrored, 0, 0)
        core = layers["core"][0].transformed(turn)
        etch = sorted((p.transformed(turn) for p in layers.get(etched, [])), key=str)
        # equal polygons up to a shift are one orientation; the shift makes the placements equal too
        home = kdb.Trans(-core.bbox().left, -core.bbox().bottom)
        key = tuple(str(p.transformed(home)) for p in (core, *etch))
        if key in seen:
            continue
        seen.add(key)
        points = np.array([(p.x, p.y) for p in core.each_point_hull()], dtype=np.int64)
        ends = np.roll(points, -1, axis=0)
        ports = {name: _port_edge(points, ends, data["ports"][name]["at"], turn) for name in order}
        guides = {name: edge for name, edge in ports.items() if edge is not None}
        found.append(Variant(data["name"], core, tuple(etch), points, ends, guides))
    return found


def _polygon(points: list[list[int]]) -> kdb.Polygon:
    return kdb.Polygon([kdb.Point(int(x), int(y)) for x, y in points])


def _port_edge(points: Ints, ends: Ints, at: list[int], turn: kdb.Trans) -> int | None:
    """The edge with the port at its middle; a port above the silicon, to a fibre, has none."""
    place = turn * kdb.Point(int(at[0]), int(at[1]))
    middle = np.flatnonzero(np.all(points + ends == 2 * np.array([place.x, place.y]), axis=1))
    return int(middle[0]) if len(middle) else None


def symmetries(process: Process) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Every golden device's symmetries, as permutations of its optical ports.

    Returns:
        By device name: permutations p such that the device with port i renamed to p[i] is the device.

    Raises:
        CardError: A golden file cannot be used.
    """
    return {data["name"]: _symmetries(data, order, process.grating.layer) for data, order in _read(process)}


def _symmetries(data: Mapping[str, Any], order: tuple[str, ...], etched: str) -> tuple[tuple[int, ...], ...]:
    shapes = [_polygon(points) for layer in ("core", etched) for points in data["layers"].get(layer, [])]
    corner = shapes[0].bbox().p1
    original = sorted(str(shape) for shape in shapes)
    at = [kdb.Point(*data["ports"][name]["at"]) for name in order]
    found: set[tuple[int, ...]] = set()
    for turns, mirrored in ORIENTATIONS:
        turn = kdb.Trans(turns, mirrored, 0, 0)
        move = kdb.Trans(corner - shapes[0].transformed(turn).bbox().p1) * turn
        if sorted(str(shape.transformed(move)) for shape in shapes) == original:
            found.add(tuple(at.index(move * point) for point in at))
    return tuple(sorted(found))
