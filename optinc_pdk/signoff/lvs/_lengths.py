"""Lengths and gaps that LVS compares: guides, couplers, and paths that must match because fields interfere.

Netlists of drawn circuits state the lengths of guides, those of builds do not. Straights are on the grid. Netlists
round the lengths of bends to 1 nm, and extraction measures a bend to a fraction of that, so that two lengths of one
guide differ by at most 1 nm, and 1 nm for each of its bends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import DeviceCard, Process
from optinc_pdk.cards.device_models import PATH_DIFFERENCE, SETTINGS
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.extract.golden_devices import read_golden
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.signoff.lvs._device_matching import IndexedCircuit, Permutation
from optinc_pdk.signoff.lvs.differences import PHASE_SHIFTER, Difference, MatchedCircuits, grid_um

ROUNDING_UM = 1e-6
"""Rounding of lengths in files and in sums."""
MODEL = "coupled_guides"
# Ports o1 … o4 are numbered clockwise. Two coupled guides are the same device if the ends of both are exchanged, if the
# guides are exchanged, or both; the lengths of the guides are compared by their ports.
EXCHANGES: tuple[Permutation, ...] = ((0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1))
GUIDES = ("guide_1_um", "guide_2_um")
STATED_UM = 0.000501
"""Largest rounding of a setting in a netlist, in µm: gdsfactory states whole nanometres. The rest is that of floats."""
KINDS = {
    "gap_um": "gap",
    "coupled_length_um": "coupled_length",
    PATH_DIFFERENCE: "path_difference",
    **dict.fromkeys(GUIDES, "guide_length"),
}
"""Kind of the difference of each setting."""
SPLITTER = "mmi1x2"
CROSSING = "crossing"
TERMINATOR = "terminator"
# Name of the section of combiner trees, and endings of the sections of local-oscillator trees and of sums over blocks.
PREPROCESSING, MIXERS, SUMS = "p", "_mix", "_sum"


@dataclass(frozen=True)
class ComparedLengths:
    """Lengths of one kind that LVS compared.

    Attributes:
        what: Kind of lengths.
        count: Number of lengths.
        tolerance_um: Smallest and largest tolerance.
        deviation_um: Largest deviation, positive where the layout is longer.
        place: Names at the largest deviation.
        rad_per_um: Phase of light per length at the wavelength of the process.
    """

    what: str
    count: int
    tolerance_um: tuple[float, float]
    deviation_um: float
    place: str
    rad_per_um: float

    def to_json(self) -> dict[str, Any]:
        """Return the lengths in nm and as phases in rad, for JSON."""
        return {
            "what": self.what,
            "count": self.count,
            "tolerance_nm": [round(each * NM_PER_UM, 3) for each in self.tolerance_um],
            "tolerance_rad": [round(each * self.rad_per_um, 4) for each in self.tolerance_um],
            "deviation_nm": round(self.deviation_um * NM_PER_UM, 3),
            "deviation_rad": round(self.deviation_um * self.rad_per_um, 4),
            "at": self.place,
        }


class LengthCheck(NamedTuple):
    """Result of a comparison of lengths: the differences, and the compared lengths, None if there were none."""

    differences: Sequence[Difference]
    compared: ComparedLengths | None


def guide_phase_rad_per_um(process: Process) -> float:
    """Return the phase of light in a guide per length, in rad per µm, at the wavelength of the process."""
    return 2.0 * math.pi * float(process.guide.index) * NM_PER_UM / float(process.guide.wavelength_nm)


def compared_lengths(
    what: str, deviation_um: ArrayLike, tolerance_um: ArrayLike, place: Callable[[int], str], process: Process
) -> ComparedLengths | None:
    """Summarise deviations of lengths.

    Args:
        what: Kind of lengths.
        deviation_um: (n,) lengths in the layout minus those of the reference.
        tolerance_um: Their tolerances, which broadcast to (n,).
        place: Function that returns the names at a length, given its number.

    Returns:
        The summary; None if there are no lengths.
    """
    deviation = np.atleast_1d(np.asarray(deviation_um, dtype=np.float64))
    if not deviation.size:
        return None
    tolerance = np.broadcast_to(tolerance_um, deviation.shape)
    worst = int(np.argmax(np.abs(deviation)))
    limits = float(tolerance.min()), float(tolerance.max())
    return ComparedLengths(
        what, deviation.size, limits, float(deviation[worst]), place(worst), guide_phase_rad_per_um(process)
    )


def length_tolerance_um(circuit: Circuit, process: Process) -> Floats:
    """Return (n,) by how much the guides of a drawn circuit may differ in length from its layout, in µm."""
    bends = circuit.net_bends if circuit.net_bends.size else np.zeros(len(circuit.nets))
    return np.asarray(grid_um(process) * (1.0 + bends))


def guide_lengths(pair: MatchedCircuits) -> LengthCheck:
    """Compare the lengths of guides with those that the reference states.

    A guide is everything between two devices. Guides of unknown length, and guides that lead elsewhere in the layout,
    are left out; other checks report the latter.

    Returns:
        A difference for each guide of another length.
    """
    circuit = pair.ref.circuit
    if not circuit.net_length_um.size:
        return LengthCheck((), None)
    image = pair.map.port[circuit.nets]
    known = np.flatnonzero(~np.isnan(circuit.net_length_um) & np.all(image != UNCONNECTED, axis=1))
    known = known[pair.ext.partner[image[known, 0]] == image[known, 1]]
    nets, ports, stated = circuit.nets[known], image[known], circuit.net_length_um[known]
    found = np.array(pair.ext.lengths)[ports[:, 0]] if len(ports) else stated
    allowed = length_tolerance_um(circuit, pair.process)[known]

    def ends(number: int) -> str:
        a, b = nets[number].tolist()
        return f"{pair.ref_names[a]} - {pair.ref_names[b]}"

    differences = []
    for number in np.flatnonzero(np.abs(found - stated) > allowed + ROUNDING_UM).tolist():
        text = (
            f"guide {ends(number)} is {found[number]:.4f} µm long, in the reference {stated[number]:.4f} µm, "
            f"allowed is ±{allowed[number]:.3f} µm; the deviation shifts the phase by "
            f"{phase_text(found[number] - stated[number], pair.process)}; correct the guide, or the netlist if the "
            "layout is right"
        )
        p, q = ports[number].tolist()
        layout = f"{pair.ext_names[p]} - {pair.ext_names[q]}"
        differences.append(Difference("length", text, ends(number), layout, pair.position(int(pair.ext.owner[p]))))
    return LengthCheck(differences, compared_lengths("guides", found - stated, allowed, ends, pair.process))


def phase_text(deviation_um: float, process: Process) -> str:
    """Return a deviation of a length as a phase with its unit."""
    return f"{abs(deviation_um) * guide_phase_rad_per_um(process):.3f} rad"


def unstated_lengths(pair: MatchedCircuits) -> int:
    """Count the guides whose length a drawn reference does not state."""
    return int(np.isnan(pair.ref.circuit.net_length_um).sum())


def coupler_symmetries(process: Process) -> dict[str, tuple[Permutation, ...]]:
    """Return the permutations of the ports of couplers of any gap and length that map them onto themselves."""
    return {card.name: EXCHANGES for card in _cards(process)}


def couplers(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each setting of a matched coupler that differs from the reference's.

    Settings that the reference does not state are not compared. The card of the coupler states the tolerances.
    """
    for card, i, j in _matched(pair):
        yield from _differences(pair, card, i, j)


def coupler_lengths(pair: MatchedCircuits) -> ComparedLengths | None:
    """Summarise the lengths of both guides of all matched couplers; None if the reference states none."""
    found = [
        (_found(pair, key, i, j) - expected, _tolerance(card, key, expected), i)
        for card, i, j in _matched(pair)
        for key in GUIDES
        if not math.isnan(expected := _expected(pair, key, i))
    ]
    deviation, tolerance = ([each[column] for each in found] for column in (0, 1))
    return compared_lengths(
        "guides of couplers",
        deviation,
        tolerance,
        lambda number: pair.ref.circuit.instances[found[number][2]],
        pair.process,
    )


def unstated_settings(pair: MatchedCircuits) -> int:
    """Count the settings of matched couplers that the reference does not state."""
    return sum(math.isnan(_expected(pair, key, i)) for _, i, _ in _matched(pair) for key in SETTINGS[MODEL])


def _matched(pair: MatchedCircuits) -> Iterator[tuple[DeviceCard, int, int]]:
    """Yield the card, the reference instance and the extracted instance of each matched coupler."""
    for card in _cards(pair.process):
        for i, kind in enumerate(pair.ref.kind):
            j = int(pair.map.device[i])
            if kind == card.name and j != UNCONNECTED:
                yield card, i, j


def _expected(pair: MatchedCircuits, key: str, i: int) -> float:
    """Return a setting of the reference, NaN if it does not state it."""
    column = pair.ref.circuit.settings.get(key)
    return math.nan if column is None else float(column[i])


def _differences(pair: MatchedCircuits, card: DeviceCard, i: int, j: int) -> Iterator[Difference]:
    names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
    for key in SETTINGS[MODEL]:
        expected, found = _expected(pair, key, i), _found(pair, key, i, j)
        tolerance = _tolerance(card, key, expected)
        # a setting that the reference does not state is NaN
        if abs(found - expected) > tolerance:
            text = f"{key} is {found:.4f}, in the reference {expected:.4f}, allowed are ±{tolerance:.4f}"
            yield Difference(KINDS[key], text, *names, pair.position(j))


def _found(pair: MatchedCircuits, key: str, i: int, j: int) -> float:
    """Return an extracted setting: guides have other numbers if port o1 is mapped to the other guide."""
    image = int(pair.map.port[pair.ref.starts[i]]) - pair.ext.starts[j]
    exchanged = image in (1, 2)
    other = {"guide_1_um": "guide_2_um", "guide_2_um": "guide_1_um"}
    found = float(pair.ext.circuit.settings[other.get(key, key) if exchanged else key][j])
    return -found if exchanged and key == PATH_DIFFERENCE else found


def _tolerance(card: DeviceCard, key: str, expected: float) -> float:
    if key == "gap_um":
        return card.size("gap_tolerance_um")
    if key == "coupled_length_um":
        return card.size("coupled_length_tolerance") * abs(expected) + STATED_UM
    if key == PATH_DIFFERENCE:
        return card.size("path_difference_tolerance_um")
    return card.size("guide_tolerance_um")


def _cards(process: Process) -> list[DeviceCard]:
    return [card for card in process.devices.values() if card.model.name == MODEL]


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
