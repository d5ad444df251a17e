"""Lengths that must match because fields interfere: arms of interferometers, and paths of splitter trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.extract.golden_devices import read_golden
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.signoff.lvs.device_matching import IndexedCircuit
from optinc_pdk.signoff.lvs.differences import PHASE_SHIFTER, Difference, MatchedCircuits
from optinc_pdk.signoff.lvs.guide_lengths import LengthCheck, compared_lengths, phase_text

SPLITTER = "mmi1x2"
CROSSING = "crossing"
TERMINATOR = "terminator"
# Name of the section of combiner trees, and endings of the sections of local-oscillator trees and of sums over blocks.
PREPROCESSING, MIXERS, SUMS = "p", "_mix", "_sum"


def arms(pair: MatchedCircuits) -> LengthCheck:
    """Report interferometers whose arms differ in length by more than ``guide.length_match_um``."""
    limit = float(pair.process.guide.length_match_um)
    ext, back = pair.ext, pair.map.back
    found: list[tuple[float, int, int]] = []
    for j, ports in enumerate(ext.optical):
        # ports of a 2×2 coupler are in the order left pair, right pair
        for a, b in ((0, 1), (2, 3)) if ports == 4 else ():
            paths = [_follow(ext, int(ext.offset[j]) + port) for port in (a, b)]
            if paths[0] is None or paths[1] is None:
                continue
            (k, first), (m, second) = ext.local(paths[0][0]), ext.local(paths[1][0])
            delta = abs(paths[0][1] - paths[1][1])
            if k == m and k >= j and ext.optical[k] == 4 and first // 2 == second // 2:
                found.append((delta, j, k))

    def origin(number: int) -> str:
        pair_of = found[number][1:]
        return " - ".join(pair.ref.circuit.instances[back[n]] for n in pair_of if back[n] != UNCONNECTED)

    differences = []
    for number, (delta, j, k) in enumerate(found):
        if delta > limit:
            text = f"arms differ by {delta:.4f} µm ({phase_text(delta, pair.process)}), allowed are {limit:g}"
            x, y = np.mean(ext.circuit.position_um[[j, k]], axis=0).tolist()
            names = " - ".join(ext.circuit.instances[n] for n in (j, k))
            differences.append(Difference("arms", text, origin(number), names, (x, y)))
    return LengthCheck(
        differences, compared_lengths("arms", [delta for delta, _, _ in found], limit, origin, pair.process)
    )


def trees(pair: MatchedCircuits) -> LengthCheck:
    """Report trees whose paths differ in length by more than ``guide.length_match_um``.

    Only trees whose fields interfere are checked. A path leads from the tree's root through splitters, crossings and
    phase shifters to the first other device. In sums over several blocks it ends at the phase shifter before that
    device. Paths to a terminator carry no light and are ignored.
    """
    limit, ext, back = float(pair.process.guide.length_match_um), pair.ext, pair.map.back
    ref = pair.ref.circuit.instances
    roots = [(i, int(pair.map.device[i])) for i in _roots(pair.ref)]
    roots = [(i, j) for i, j in roots if j != UNCONNECTED]
    if not roots:
        return LengthCheck((), None)
    differences, spread = [], []
    sizes = _lengths(pair.process)
    for i, j in roots:
        summed = _section(pair.ref, i).endswith(SUMS)
        paths = sorted((way, k) for way, k in _paths(ext, sizes, j, summed) if ext.kind[k] != TERMINATOR)
        spread.append(paths[-1][0] - paths[0][0] if paths else 0.0)
        if spread[-1] <= limit:
            continue
        ends = paths[0], paths[-1]
        names = [f"{ext.circuit.instances[j]} - {ext.circuit.instances[k]}" for _, k in ends]
        origin = [f"{ref[i]} - {ref[back[k]]}" if back[k] != UNCONNECTED else ref[i] for _, k in ends]
        described = " and ".join(f"{name} ({way:.4f} µm)" for (way, _), name in zip(ends, origin, strict=True))
        text = (
            f"paths {described} differ by {spread[-1]:.4f} µm ({phase_text(spread[-1], pair.process)}), "
            f"allowed are {limit:g}"
        )
        median = paths[len(paths) // 2][0]
        odd = max(ends, key=lambda end: abs(end[0] - median))[1]
        differences.append(Difference("lengths", text, ", ".join(origin), ", ".join(names), pair.position(odd)))
    compared = compared_lengths("trees", spread, limit, lambda number: ref[roots[number][0]], pair.process)
    return LengthCheck(differences, compared)


def _roots(side: IndexedCircuit) -> list[int]:
    """The first splitter of every tree whose fields interfere."""
    circuit = side.circuit
    if not len(circuit.grid):
        return []
    sections = [n for n, name in enumerate(circuit.sections) if name == PREPROCESSING or name.endswith((MIXERS, SUMS))]
    nodes = set(
        np.intersect1d(circuit.instances_of(SPLITTER), np.flatnonzero(np.isin(circuit.grid[:, 0], sections))).tolist()
    )

    def parent(node: int) -> int:
        """The splitter whose branch leads to this one, or -1."""
        beyond = int(side.partner[side.offset[node]])
        while beyond != UNCONNECTED and side.kind[side.local(beyond)[0]] == CROSSING:
            beyond = int(side.partner[_across(side, beyond)])
        owner, port = side.local(beyond) if beyond != UNCONNECTED else (UNCONNECTED, 0)
        return owner if port and owner in nodes else UNCONNECTED

    return [node for node in sorted(nodes) if parent(node) == UNCONNECTED]


def _section(side: IndexedCircuit, instance: int) -> str:
    return side.circuit.sections[int(side.circuit.grid[instance, 0])]


def _across(side: IndexedCircuit, port: int) -> int:
    """The opposite port of a crossing, by which light that enters at ``port`` leaves it."""
    instance, number = side.local(port)
    return int(side.offset[instance]) + (number + 2) % 4


def _paths(side: IndexedCircuit, sizes: Mapping[str, float], root: int, summed: bool) -> Iterator[tuple[float, int]]:
    """Length in µm of each path from a tree's root to a leaf, with the device at the leaf."""
    splitter, crossing = sizes[SPLITTER], sizes.get(CROSSING)
    pending, visited = [(root, 0.0)], {root}
    while pending:
        node, before = pending.pop()
        for branch in (1, 2):
            end = _follow(side, int(side.offset[node]) + branch, crossing, summed)
            if end is None:
                continue
            (leaf, entered), way = side.local(end[0]), before + splitter + end[1]
            if side.kind[leaf] == SPLITTER and entered == 0 and leaf not in visited:
                visited.add(leaf)
                pending.append((leaf, way))
            else:
                yield way, leaf


def _lengths(process: Process) -> dict[str, float]:
    """Lengths in µm of the golden splitter and crossing, between ports on opposite sides."""
    lengths: dict[str, float] = {}
    for variant in read_golden(process):
        if variant.name in (SPLITTER, CROSSING) and variant.name not in lengths:
            points = [variant.points[edge] for edge in variant.port_edges.values()]
            away = points[2 if variant.name == CROSSING else 1]
            lengths[variant.name] = float(abs(away[0] - points[0][0])) / NM_PER_UM
    return lengths


def _follow(
    side: IndexedCircuit, port: int, crossing: float | None = None, to_heater: bool = False
) -> tuple[int, float] | None:
    """Follow light from a port through phase shifters to the next other device.

    Args:
        side: Circuit.
        port: Port to start from.
        crossing: Length of a crossing, to follow light through crossings too.
        to_heater: Whether to stop at phase shifters.

    Returns:
        The port where light enters the device, and the path length in µm; None if light leads nowhere or in a circle.
    """
    way = 0.0
    for _ in range(len(side.kind)):
        beyond = side.partners[port]
        if beyond == UNCONNECTED:
            return None
        way += side.lengths[port]
        instance, entered = side.local(beyond)
        if side.kind[instance] == PHASE_SHIFTER and not to_heater:
            way += float(side.circuit.settings["length_um"][instance])
            port = side.starts[instance] + 1 - entered
        elif side.kind[instance] == CROSSING and crossing is not None:
            way += crossing
            port = _across(side, beyond)
        else:
            return beyond, way
    return None
