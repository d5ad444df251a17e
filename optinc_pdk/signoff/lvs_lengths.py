"""Lengths that must match where fields interfere: arms of interferometers, and paths of trees."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.extract.gds import NM_PER_UM
from optinc_pdk.extract.golden import read_golden
from optinc_pdk.signoff.lvs_checks import PHASE_SHIFTER, Difference, Pair
from optinc_pdk.signoff.lvs_match import Side

SPLITTER = "mmi1x2"
TERMINATOR = "terminator"
PREPROCESSING, MIXERS = "p", "_mix"
"""The section of combiner trees, and how sections of mixers end, where the oscillators' trees are."""


def arms(pair: Pair) -> Iterator[Difference]:
    """Arms of interferometers whose lengths differ by more than the process allows."""
    limit = float(pair.process.guide.length_match_um)
    ext, back = pair.ext, pair.map.back
    length = _net_lengths(ext.circuit)
    for j, ports in enumerate(ext.optical):
        # the card orders a 2×2 coupler's ports as left pair, right pair
        for a, b in ((0, 1), (2, 3)) if ports == 4 else ():
            ways = [_follow(ext, length, int(ext.offset[j]) + own) for own in (a, b)]
            if ways[0] is None or ways[1] is None:
                continue
            (k, own), (m, other) = ext.local(ways[0][0]), ext.local(ways[1][0])
            delta = abs(ways[0][1] - ways[1][1])
            if k != m or k < j or ext.optical[k] != 4 or own // 2 != other // 2 or delta <= limit:
                continue
            names = " - ".join(ext.circuit.instances[n] for n in (j, k))
            origin = " - ".join(pair.ref.circuit.instances[back[n]] for n in (j, k) if back[n] != UNCONNECTED)
            text = f"arms differ by {delta:.4f} µm, allowed are {limit:g}"
            x, y = np.mean(ext.circuit.position_um[[j, k]], axis=0).tolist()
            yield Difference("arms", text, origin, names, (x, y))


def trees(pair: Pair) -> Iterator[Difference]:
    """Trees whose fields interfere and whose paths differ by more than the process allows.

    A path leads from the tree's root through splitters and phase shifters to the first other device; dark ones, which
    end in a terminator, do not count.
    """
    limit, ext, back = float(pair.process.guide.length_match_um), pair.ext, pair.map.back
    ref = pair.ref.circuit.instances
    roots = [(i, int(pair.map.device[i])) for i in _roots(pair.ref)]
    roots = [(i, j) for i, j in roots if j != UNCONNECTED]
    if not roots:
        return
    length, splitter = _net_lengths(ext.circuit), _splitter_length(pair.process)
    for i, j in roots:
        ways = sorted((way, k) for way, k in _ways(ext, length, splitter, j) if ext.kind[k] != TERMINATOR)
        if not ways or ways[-1][0] - ways[0][0] <= limit:
            continue
        ends = ways[0], ways[-1]
        names = [f"{ext.circuit.instances[j]} - {ext.circuit.instances[k]}" for _, k in ends]
        origin = [f"{ref[i]} - {ref[back[k]]}" if back[k] != UNCONNECTED else ref[i] for _, k in ends]
        told = " and ".join(f"{name} ({way:.4f} µm)" for (way, _), name in zip(ends, origin, strict=True))
        text = f"paths {told} differ by {ends[1][0] - ends[0][0]:.4f} µm, allowed are {limit:g}"
        middle = ways[len(ways) // 2][0]
        odd = max(ends, key=lambda end: abs(end[0] - middle))[1]
        yield Difference("lengths", text, ", ".join(origin), ", ".join(names), pair.position(odd))


def _roots(side: Side) -> list[int]:
    """The first splitter of every tree whose fields interfere."""
    circuit = side.circuit
    if not len(circuit.grid):
        return []
    number = [n for n, name in enumerate(circuit.sections) if name == PREPROCESSING or name.endswith(MIXERS)]
    nodes = set(np.intersect1d(circuit.of_kind(SPLITTER), np.flatnonzero(np.isin(circuit.grid[:, 0], number))).tolist())

    def above(node: int) -> int:
        """The splitter on whose branch a splitter hangs, or -1."""
        beyond = int(side.partner[side.offset[node]])
        owner, own = side.local(beyond) if beyond != UNCONNECTED else (UNCONNECTED, 0)
        return owner if own and owner in nodes else UNCONNECTED

    return [node for node in sorted(nodes) if above(node) == UNCONNECTED]


def _ways(side: Side, length: NDArray[np.float64], splitter: float, root: int) -> Iterator[tuple[float, int]]:
    """Ways from a tree's root to its leaves in µm, each with the device there."""
    pending, seen = [(root, 0.0)], {root}
    while pending:
        node, before = pending.pop()
        for own in (1, 2):
            found = _follow(side, length, int(side.offset[node]) + own)
            if found is None:
                continue
            (leaf, entered), way = side.local(found[0]), before + splitter + found[1]
            if side.kind[leaf] == SPLITTER and entered == 0 and leaf not in seen:
                seen.add(leaf)
                pending.append((leaf, way))
            else:
                yield way, leaf


def _splitter_length(process: Process) -> float:
    """Length in µm of the golden splitter from its o1 to its branches, which face away from it."""
    golden = next(variant for variant in read_golden(process) if variant.name == SPLITTER)
    start, end, _ = (golden.points[edge] for edge in golden.port_edges.values())
    return float(abs(end[0] - start[0])) / NM_PER_UM


def _net_lengths(circuit: Circuit) -> NDArray[np.float64]:
    """(P,) length of the net at each port."""
    length = np.zeros(int(circuit.offset[-1]))
    length[circuit.nets] = circuit.net_length_um[:, None]
    return length


def _follow(side: Side, length: NDArray[np.float64], port: int) -> tuple[int, float] | None:
    """Where light from a port enters a device other than a phase shifter, and its way there in µm."""
    way = 0.0
    for _ in range(len(side.kind)):
        beyond = int(side.partner[port])
        if beyond == UNCONNECTED:
            return None
        way += float(length[port])
        instance, own = side.local(beyond)
        if side.kind[instance] != PHASE_SHIFTER:
            return beyond, way
        way += float(side.circuit.settings["length_um"][instance])
        port = int(side.offset[instance]) + 1 - own
    return None
