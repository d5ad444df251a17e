"""Light paths of one layer from its sources to its detectors, for calculations at many heater settings at a time.

A *segment* is a chain of waveguides and devices with two ports, behind a source or a device that branches light
(coupler, splitter, crossing). A *junction* is the passage from one segment to the next through such a device.
Reflections are left out: at a detector, they add light that was reflected twice, about 1e-3 of the fields on the chips
of the bundled networks of comparators. Crosstalk of crossings is left out as well. Without both, segments have an
order, and fields follow from one pass over it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.models import device_s
from optinc_pdk.simulate.circuit_optics import MODULATOR
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.simulate.s_parameters.block_assembly import reachable

MIN_TRANSMISSION = 0.05
"""Smallest field transmission between two ports of a device that is a path; less is a reflection or crosstalk."""
TWO_PORTS = 2


@dataclass(frozen=True, eq=False)
class ForwardPaths:
    """Paths of one layer with W segments, E junctions, D detectors and 1 + J sources: the carrier, then the inputs.

    A last junction with transmission 0 serves as padding; its index is E.

    Attributes:
        segment: (ports,) segment whose light enters a device at each port; -1 for none.
        transmission: (W,) field transmission of each segment of the nominal chip at zero heater phases, from the
            device in front of it to the end of its last waveguide.
        heater: (h,) numbers of the heaters on the segments.
        heated: (h,) segment of each of them.
        tail: (E + 1,) segment in front of each junction.
        head: (E + 1,) segment behind it.
        device: (E, 4) component, instance within the component, outgoing and incoming port of each junction.
        nominal: (E + 1,) field transmission of each junction of the nominal chip.
        levels: Segments in the order of light: each depends on segments of earlier levels only.
        arriving: (W, a) junctions that end at each segment, padded.
        leaving: (W, b) junctions that start at each segment, padded.
        injected: (W, 1 + J) field that each source sends into each segment.
        detected: (D, W) field at each detector over the field at the end of each segment.
    """

    segment: Ints
    transmission: Complexes
    heater: Ints
    heated: Ints
    tail: Ints
    head: Ints
    device: Ints
    nominal: Complexes
    levels: tuple[Ints, ...]
    arriving: Ints
    leaving: Ints
    injected: Complexes
    detected: Complexes


def forward_paths(problem: ProgrammingProblem, target: LayerTarget) -> ForwardPaths:
    """Find the paths of a layer of the nominal chip.

    Raises:
        ValueError: Light runs in a closed ring.
    """
    structure, entries = problem.structure, problem.entries
    dark = entries.at(np.zeros(structure.heater.size))
    carrier = problem.board.launched
    strength = dark.modulator_fields(carrier) | carrier
    device, value, tail, head = _passages(problem)
    entry, source, field = [], [], []
    for column, labels in enumerate((tuple(carrier), *target.inputs)):
        for label, place in zip(labels, structure.label_positions(labels).tolist(), strict=True):
            entry.append(int(entries.entry[place]))
            source.append(column)
            field.append(complex(entries.launched[place]) * strength.get(label, 1.0))
    detecting = dark.leaving[structure.label_positions((*target.plus, *target.minus))].tocoo()
    strong = np.abs(detecting.data) >= MIN_TRANSMISSION
    useful = reachable(tail, head, _mask(structure.ports, entry))
    useful &= reachable(head, tail, _mask(structure.ports, detecting.coords[1][strong]))
    kept = useful[tail] & useful[head]
    device, value, tail, head = device[kept], value[kept], tail[kept], head[kept]
    chained = np.array([structure.devices[i].port.shape[1] == TWO_PORTS for i in device[:, 0].tolist()], dtype=bool)
    segment, transmission = _segments(useful, tail[chained], head[chained], value[chained])
    # the waveguide in front of a segment's first device belongs to the segment
    branching = ~chained
    guide = entries.guides[structure.partner[head[branching]]]
    starts = segment[head[branching]]
    passed = np.ones(transmission.size, dtype=np.complex128)
    passed[starts] = guide
    junction = np.append(value[branching] / guide, 0.0)
    tails, heads = np.append(segment[tail[branching]], 0), np.append(starts, 0)
    count = transmission.size
    injected = np.zeros((count, 1 + len(target.inputs)), dtype=np.complex128)
    reached = useful[entry]
    np.add.at(injected, (segment[np.array(entry)[reached]], np.array(source)[reached]), np.array(field)[reached])
    detected = np.zeros((detecting.shape[0], count), dtype=np.complex128)
    strong &= useful[detecting.coords[1]]
    row, port = (each[strong] for each in detecting.coords)
    detected[row, segment[port]] = detecting.data[strong]
    on_path = useful[structure.heater_port].any(axis=1)
    heater = np.flatnonzero(on_path)
    ports = structure.heater_port[heater]
    return ForwardPaths(
        segment=segment,
        transmission=transmission * passed,
        heater=heater,
        heated=segment[np.where(useful[ports[:, 0]], ports[:, 0], ports[:, 1])],
        tail=tails,
        head=heads,
        device=device[branching],
        nominal=junction,
        levels=_levels(count, tails[:-1], heads[:-1]),
        arriving=_grouped(heads[:-1], count),
        leaving=_grouped(tails[:-1], count),
        injected=injected,
        detected=detected,
    )


def _mask(size: int, places: Ints | list[int]) -> Bools:
    mask = np.zeros(size, dtype=bool)
    mask[places] = True
    return mask


def _passages(problem: ProgrammingProblem) -> tuple[Ints, Complexes, Ints, Ints]:
    """Return all passages of light through devices: (n, 4) component, instance, ports out and in; value; ports.

    The value includes the waveguide behind the device. The last two arrays are the ports at which light enters the
    device, and the next one. Modulators are left out, because they are sources.
    """
    structure, guides = problem.structure, problem.entries.guides
    device, value, tail, head = [], [], [], []
    for number, group in enumerate(structure.devices):
        if group.name == MODULATOR:
            continue
        s = device_s(problem.process, group.name, problem.wavelength_nm)[0]
        for out, into in np.argwhere((np.abs(s) >= MIN_TRANSMISSION) & ~np.eye(len(s), dtype=bool)).tolist():
            member = np.flatnonzero(structure.partner[group.port[:, out]] != UNCONNECTED)
            port = group.port[member, out]
            device.append(np.column_stack([np.full(member.size, number), member, *np.full((2, member.size), 0)]))
            device[-1][:, 2:] = out, into
            value.append(s[out, into] * guides[port])
            tail.append(group.port[member, into])
            head.append(structure.partner[port])
    return np.concatenate(device), np.concatenate(value), np.concatenate(tail), np.concatenate(head)


def _segments(useful: Bools, tail: Ints, head: Ints, value: Complexes) -> tuple[Ints, Complexes]:
    """Join useful ports along devices with two ports: (ports,) segments, -1 for none, and (W,) products of values."""
    following = dict(zip(tail.tolist(), zip(head.tolist(), value.tolist(), strict=True), strict=True))
    segment = np.full(useful.size, UNCONNECTED, dtype=np.int64)
    transmission: list[complex] = []
    for first in np.setdiff1d(np.flatnonzero(useful), head).tolist():
        port, product = first, 1.0 + 0.0j
        segment[port] = len(transmission)
        while port in following:
            port, factor = following[port]
            product *= factor
            segment[port] = len(transmission)
        transmission.append(product)
    return segment, np.array(transmission)


def _levels(count: int, tail: Ints, head: Ints) -> tuple[Ints, ...]:
    """Sort segments: those of a level depend on earlier levels only.

    Raises:
        ValueError: There is a cycle.
    """
    level, waiting = [], np.ones(count, dtype=bool)
    while waiting.any():
        ready = waiting.copy()
        ready[head[waiting[tail]]] = False
        if not ready.any():
            raise ValueError("light runs in a closed ring; calibration needs circuits in which it runs forward only")
        level.append(np.flatnonzero(ready))
        waiting &= ~ready
    return tuple(level)


def _grouped(owner: Ints, count: int) -> Ints:
    """(count, most) indices of the entries of each owner, padded with the number of entries."""
    order = np.argsort(owner, kind="stable")
    number = np.bincount(owner, minlength=count)
    grouped = np.full((count, int(number.max(initial=0))), owner.size, dtype=np.int64)
    rank = np.arange(owner.size) - np.repeat(np.cumsum(number) - number, number)
    grouped[owner[order], rank] = order
    return grouped


def carry_forward(paths: ForwardPaths, transmission: Complexes, junction: Complexes) -> Complexes:
    """Compute the (W, S, 1 + J) fields at the ends of all segments, for every source at amplitude 1.

    Field transmissions are (W, S) of the segments at S settings, and (E + 1,) of the junctions.
    """
    field = transmission[:, :, np.newaxis] * paths.injected[:, np.newaxis]
    for segments in paths.levels[1:]:
        total = field[segments]
        for junctions in paths.arriving[segments].T:
            passed = transmission[segments] * junction[junctions][:, np.newaxis]
            total += passed[:, :, np.newaxis] * field[paths.tail[junctions]]
        field[segments] = total
    return field


def carry_back(paths: ForwardPaths, transmission: Complexes, junction: Complexes) -> Complexes:
    """Compute the (W, S, D) derivatives of the detected fields by the fields at the ends of all segments."""
    shape = (*transmission.shape, len(paths.detected))
    back = np.empty(shape, dtype=np.complex128)
    back[:] = paths.detected.T[:, np.newaxis]
    for segments in reversed(paths.levels[:-1]):
        total = back[segments]
        for junctions in paths.leaving[segments].T:
            behind = paths.head[junctions]
            passed = transmission[behind] * junction[junctions][:, np.newaxis]
            total += passed[:, :, np.newaxis] * back[behind]
        back[segments] = total
    return back
