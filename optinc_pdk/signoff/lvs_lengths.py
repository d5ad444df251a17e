"""Lengths that must match where fields interfere: arms of interferometers, and paths of trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.extract.gds import NM_PER_UM
from optinc_pdk.extract.golden import read_golden
from optinc_pdk.signoff.lvs_checks import PHASE_SHIFTER, Difference, Pair
from optinc_pdk.signoff.lvs_match import Side

SPLITTER = "mmi1x2"
CROSSING = "crossing"
TERMINATOR = "terminator"
PREPROCESSING, MIXERS, SUMS = "p", "_mix", "_sum"
"""The section of combiner trees; how sections end where oscillators' trees and sums of several blocks are."""


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

    A path leads from the tree's root through splitters, crossings and phase shifters to the first other device, in sums
    of several blocks to the phase shifter in front of them; dark ones, which end in a terminator, do not count.
    """
    limit, ext, back = float(pair.process.guide.length_match_um), pair.ext, pair.map.back
    ref = pair.ref.circuit.instances
    roots = [(i, int(pair.map.device[i])) for i in _roots(pair.ref)]
    roots = [(i, j) for i, j in roots if j != UNCONNECTED]
    if not roots:
        return
    length, sizes = _net_lengths(ext.circuit), _lengths(pair.process)
    for i, j in roots:
        summed = _section(pair.ref, i).endswith(SUMS)
        ways = sorted((way, k) for way, k in _ways(ext, length, sizes, j, summed) if ext.kind[k] != TERMINATOR)
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
    number = [n for n, name in enumerate(circuit.sections) if name == PREPROCESSING or name.endswith((MIXERS, SUMS))]
    nodes = set(np.intersect1d(circuit.of_kind(SPLITTER), np.flatnonzero(np.isin(circuit.grid[:, 0], number))).tolist())

    def above(node: int) -> int:
        """The splitter on whose branch a splitter hangs, or -1."""
        beyond = int(side.partner[side.offset[node]])
        while beyond != UNCONNECTED and side.kind[side.local(beyond)[0]] == CROSSING:
            beyond = int(side.partner[_across(side, beyond)])
        owner, own = side.local(beyond) if beyond != UNCONNECTED else (UNCONNECTED, 0)
        return owner if own and owner in nodes else UNCONNECTED

    return [node for node in sorted(nodes) if above(node) == UNCONNECTED]


def _section(side: Side, instance: int) -> str:
    return side.circuit.sections[int(side.circuit.grid[instance, 0])]


def _across(side: Side, port: int) -> int:
    """The port by which light that enters a crossing leaves it."""
    instance, own = side.local(port)
    return int(side.offset[instance]) + (own + 2) % 4


def _ways(
    side: Side, length: NDArray[np.float64], sizes: Mapping[str, float], root: int, summed: bool
) -> Iterator[tuple[float, int]]:
    """Ways from a tree's root to its leaves in µm, each with the device there."""
    splitter, crossing = sizes[SPLITTER], sizes.get(CROSSING)
    pending, seen = [(root, 0.0)], {root}
    while pending:
        node, before = pending.pop()
        for own in (1, 2):
            found = _follow(side, length, int(side.offset[node]) + own, crossing, summed)
            if found is None:
                continue
            (leaf, entered), way = side.local(found[0]), before + splitter + found[1]
            if side.kind[leaf] == SPLITTER and entered == 0 and leaf not in seen:
                seen.add(leaf)
                pending.append((leaf, way))
            else:
                yield way, leaf


def _lengths(process: Process) -> dict[str, float]:
    """Lengths in µm of the golden splitter and crossing, from a port to those that face away from it."""
    found: dict[str, float] = {}
    for variant in read_golden(process):
        if variant.name in (SPLITTER, CROSSING) and variant.name not in found:
            points = [variant.points[edge] for edge in variant.port_edges.values()]
            away = points[2 if variant.name == CROSSING else 1]
            found[variant.name] = float(abs(away[0] - points[0][0])) / NM_PER_UM
    return found


def _net_lengths(circuit: Circuit) -> NDArray[np.float64]:
    """(P,) length of the net at each port."""
    length = np.zeros(int(circuit.offset[-1]))
    length[circuit.nets] = circuit.net_length_um[:, None]
    return length


def _follow(
    side: Side, length: NDArray[np.float64], port: int, crossing: float | None = None, to_heater: bool = False
) -> tuple[int, float] | None:
    """Where light from a port enters a device other than a phase shifter, and its way there in µm.

    With the length of a crossing, crossings are passed too; ``to_heater`` stops at phase shifters.
    """
    way = 0.0
    for _ in range(len(side.kind)):
        beyond = side.partners[port]
        if beyond == UNCONNECTED:
            return None
        way += float(length[port])
        instance, own = side.local(beyond)
        if side.kind[instance] == PHASE_SHIFTER and not to_heater:
            way += float(side.circuit.settings["length_um"][instance])
            port = side.starts[instance] + 1 - own
        elif side.kind[instance] == CROSSING and crossing is not None:
            way += crossing
            port = _across(side, beyond)
        else:
            return beyond, way
    return None
