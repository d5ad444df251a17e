"""Digital twin: a parametric model of the chip, the nominal chip plus unknown parameters that are fitted to readings.

Unknowns are: static phases and efficiencies of heaters; scale of the thermal crosstalk of each layer; coupling angles
and losses of couplers and splitters; losses and phases of the edge waveguides, which lead to fibres, modulators and
photodiodes and stand for everything there. Phases of other waveguides are part of the heaters' static phases, losses of
other devices part of the couplers' losses. Every unknown is in units of its standard deviation by the card: 0 is the
nominal chip, 1 a typical deviation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.cards import DeviceCard, Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.models import net_transmission, sampled_s
from optinc_pdk.models.passives import UM_PER_CM
from optinc_pdk.simulate.circuit_optics import ComponentGroup
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.studies.calibration._forward_paths import ForwardPaths, forward_paths
from optinc_pdk.studies.calibration._heater_model import RANGE_OVERLAP, HeaterModel
from optinc_pdk.studies.calibration._measurement import BenchLayer

ARM_RAD, STATIC_RAD = 0.4, 1.0
"""Expected static phase errors: between the equal arms of an interferometer, and elsewhere."""
FREE_RAD = 2.0 * np.pi
"""Expected static phase errors behind waveguides of different lengths: at local oscillators and at sources."""
NEPER = float(np.log(10.0)) / 20.0
"""Natural logarithm of the amplitude for 1 dB."""
_MAX_ITERATIONS = 20


@dataclass(frozen=True, eq=False)
class TwinCouplers:
    """All I couplers or splitters of one component in a digital twin, with their device card.

    ``reserve_db`` is the largest reduction of the card's loss with which the device, with its reflections, stays
    passive.
    """

    group: ComponentGroup
    card: DeviceCard
    reserve_db: float

    def s(self, process: Process, wavelength_nm: float, angle: Floats, loss_db: Floats) -> Complexes:
        """Return the (I, p, p) S-matrices for (I,) errors of the coupling angle in rad and of the loss in dB."""
        loss = self.card.parameter("loss_db") + np.maximum(loss_db, -self.reserve_db)
        if self.card.model.name == "directional_coupler":
            ratio = {"cross": np.sin(np.arcsin(np.sqrt(self.card.parameter("cross"))) + angle) ** 2}
        else:
            ratio = {"imbalance": np.cos(np.arccos(self.card.parameter("imbalance")) + 2.0 * angle)}
        return np.asarray(sampled_s(process, self.card.name, wavelength_nm, {"loss_db": loss, **ratio})[0])


@dataclass(frozen=True, eq=False)
class DigitalTwin:
    """Parametric model of a chip with H heaters, G edge waveguides and C couplers.

    It has N unknowns, each in units of its standard deviation; zeros describe the nominal chip. An edge waveguide leads
    to a fibre, modulator or photodiode.

    Attributes:
        problem: Programming problem of the nominal chip.
        layers: Layers of the chip, or their parts, in terms of the bench's channels.
        paths: Light paths of each layer.
        heaters: Design model of the heaters.
        efficiency: (H,) measured heater efficiencies; 0 for heaters without effect.
        edge: (G, 2) optical ports at both ends of the edge waveguides.
        source_edges: For each layer and each of its sources, the edge waveguides whose phases are the source's.
        couplers: Couplers and splitters by component.
        spread: (N,) standard deviation of each unknown in the units of :meth:`deviations`.
    """

    problem: ProgrammingProblem
    layers: tuple[BenchLayer, ...]
    paths: tuple[ForwardPaths, ...]
    heaters: HeaterModel
    efficiency: Floats
    edge: Ints
    source_edges: tuple[tuple[Ints, ...], ...]
    couplers: tuple[TwinCouplers, ...]
    spread: Floats

    def parts(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Split (N,) values by type of unknown.

        The types are static phases (H,), efficiencies (H,), crosstalk (layers,), losses (G,) and phases (G,) of the
        edge waveguides, coupling angles (C,) and losses (C,) of the couplers.
        """
        return np.split(values, self.part_starts[1:])

    @property
    def part_starts(self) -> Ints:
        """(7,) index of the first unknown of each type, in the order of :meth:`parts`."""
        heaters, edge = self.efficiency.size, len(self.edge)
        count = sum(each.group.instance.size for each in self.couplers)
        return np.cumsum([0, heaters, heaters, len(self.layers), edge, edge, count])

    def deviations(self, unknown: Floats) -> list[Floats]:
        """Return the deviations from the nominal chip for (N,) unknowns, by type in the order of :meth:`parts`.

        They are in rad for phases and angles, in dB for losses, and ratios for efficiencies and crosstalk.
        """
        return self.parts(unknown * self.spread)

    def problem_at(self, unknown: Floats) -> ProgrammingProblem:
        """Return the programming problem of the chip that (N,) unknowns describe.

        Its heater phases are total phases, static phases and crosstalk included.
        """
        _, _, _, loss_db, phase, angle, coupler_db = self.deviations(unknown)
        structure, process = self.problem.structure, self.problem.process
        guides = net_transmission(process, structure.length_um, self.problem.wavelength_nm)
        guides[self.edge] *= np.exp(1j * phase - NEPER * loss_db)[:, np.newaxis]
        devices = {
            each.group.name: each.s(process, self.problem.wavelength_nm, angle[places], coupler_db[places])
            for each, places in self.coupler_slices()
        }
        broken = tuple(structure.channel[i] for i in np.flatnonzero(self.efficiency == 0.0).tolist())
        return replace(self.problem, devices=devices, guides=guides, fixed_channels=broken)

    @cached_property
    def edge_segments(self) -> list[tuple[Ints, Ints]]:
        """For each layer, the segments that contain edge waveguides, and the index of each of these waveguides."""
        found = []
        for paths in self.paths:
            segment = _segments_of(self.edge, paths)
            members = np.flatnonzero(segment != UNCONNECTED)
            found.append((segment[members], members))
        return found

    @cached_property
    def coupler_junctions(self) -> list[list[tuple[TwinCouplers, slice, tuple[Ints, Ints]]]]:
        """For each layer and component, couplers, their slice among all C couplers, and the junctions that they are.

        Junctions are (n,) indices and (n, 4) devices, see :class:`_forward_paths.ForwardPaths`.
        """
        number = {group.name: i for i, group in enumerate(self.problem.structure.devices)}
        found = []
        for paths in self.paths:
            junctions = [np.flatnonzero(paths.device[:, 0] == number[each.group.name]) for each in self.couplers]
            found.append(
                [
                    (each, members, (places, paths.device[places]))
                    for (each, members), places in zip(self.coupler_slices(), junctions, strict=True)
                    if places.size
                ]
            )
        return found

    def reached(self, index: int) -> Ints:
        """Return the unknowns that may affect the readings of a layer, ascending.

        They are those of what its light passes, and the efficiencies of all heaters, whose crosstalk may reach it.
        """
        static, efficiency, share, edge_loss, edge_phase, angle, loss = self.parts(np.arange(self.spread.size))
        _, edges = self.edge_segments[index]
        couplers = [members.start + device[:, 1] for _, members, (_, device) in self.coupler_junctions[index]]
        coupler = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *couplers]))
        parts = static[self.paths[index].heater], efficiency, share, edge_loss[edges], edge_phase[edges]
        return np.unique(np.concatenate([*parts, angle[coupler], loss[coupler]]))

    def coupler_slices(self) -> Iterator[tuple[TwinCouplers, slice]]:
        """Yield the couplers of each component with their slice among all C couplers."""
        start = 0
        for each in self.couplers:
            places = slice(start, start + each.group.instance.size)
            yield each, places
            start = places.stop

    def crosstalk_matrix(self, unknown: Floats, heaters: Ints | None = None) -> Floats:
        """Return the (H, H) thermal crosstalk matrix for (N,) unknowns, or its rows of some heaters.

        Element [i, j] is the phase in the waveguide under heater i over the phase of heater j in its own waveguide; it
        is 1 on the diagonal.
        """
        rows = np.arange(self.efficiency.size) if heaters is None else heaters
        shares = np.zeros(self.efficiency.size)
        for layer, deviation in zip(self.layers, self.deviations(unknown)[2].tolist(), strict=True):
            shares[layer.heaters] = 1.0 + deviation
        matrix = shares[rows, np.newaxis] * self.heaters.crosstalk[rows]
        matrix[np.arange(rows.size), rows] += 1.0
        return np.asarray(matrix)

    def fitted_heaters(self, unknown: Floats) -> HeaterModel:
        """Return the design model of the heaters with the thermal crosstalk for (N,) unknowns."""
        crosstalk_matrix = self.crosstalk_matrix(unknown)
        return replace(self.heaters, crosstalk=crosstalk_matrix - np.eye(len(crosstalk_matrix)))

    def phases(self, unknown: Floats, voltage_v: Floats) -> Floats:
        """Return the (H,) total phases in rad for (N,) unknowns and (H,) voltages.

        Total phases include static phases and thermal crosstalk.
        """
        static, efficiency_error = self.deviations(unknown)[:2]
        own = self.efficiency * (1.0 + efficiency_error) * self.heaters.phases(voltage_v)
        return np.asarray(static + self.crosstalk_matrix(unknown) @ own)

    def voltages(self, unknown: Floats, phases: Floats) -> Floats:
        """Return the (H,) voltages for (N,) unknowns and (H,) total phases, which are shifted by whole turns."""
        static, efficiency_error = self.deviations(unknown)[:2]
        crosstalk_matrix, efficiency = self.crosstalk_matrix(unknown), self.efficiency * (1.0 + efficiency_error)
        turns = np.zeros_like(phases)
        self_phase = np.zeros_like(phases)
        for _ in range(_MAX_ITERATIONS):
            self_phase[:] = np.linalg.solve(crosstalk_matrix, phases - static + 2.0 * np.pi * turns)
            out_of_range = (self_phase < 0.0) | (self_phase > (1.0 + RANGE_OVERLAP) * 2.0 * np.pi)
            # a whole turn of one heater changes its neighbours by crosstalk, so iterate
            if not out_of_range.any():
                break
            turns -= np.where(out_of_range, np.floor(self_phase / (2.0 * np.pi)), 0.0)
        working = efficiency > 0.0
        return self.heaters.voltages(np.divide(self_phase, efficiency, out=np.zeros_like(self_phase), where=working))


def build_twin(
    problem: ProgrammingProblem, layers: Sequence[BenchLayer], heaters: HeaterModel, efficiency: Floats
) -> DigitalTwin:
    """Build the digital twin of a chip; the card's imperfections give the standard deviations of most unknowns.

    ``efficiency`` are (H,) measured efficiencies of the heaters; NaN for heaters without effect.
    """
    structure, imperfections = problem.structure, problem.process.imperfections
    couplers = tuple(_couplers(problem))
    paths = tuple(forward_paths(problem, layer.target) for layer in layers)
    edge, names, edge_db, edge_rad = _edge(problem, layers)
    source_edges, copies, copied = _source_edges(problem, layers, paths, names, edge)
    # the copies of an input are turned one by one
    edge_rad[copied] = 0.0
    edge = np.concatenate([edge, copies])
    edge_db, edge_rad = np.append(edge_db, edge_db[copied]), np.append(edge_rad, np.full(len(copies), FREE_RAD))
    working = np.isfinite(efficiency)
    if imperfections is None:
        local = share = 0.0
    else:
        local = float(
            np.hypot(imperfections.heater.resistance_local_spread, imperfections.heater.power_pi_local_spread)
        )
        share = float(imperfections.crosstalk.chip_spread)
    arms = [label.endswith("_theta") or "_att_" in label for label in structure.channel]
    static = np.where(arms, ARM_RAD, STATIC_RAD)
    for layer in layers:
        static[layer.oscillators] = FREE_RAD
    angle = [np.full(each.group.instance.size, _angle_rms(problem.process, each)) for each in couplers]
    loss = [_loss_rms(problem, each) for each in couplers]
    spread = [static, np.where(working, local, 0.0), np.full(len(layers), share), edge_db, edge_rad, *angle, *loss]
    return DigitalTwin(
        problem,
        tuple(layers),
        paths,
        heaters,
        np.where(working, efficiency, 0.0),
        edge,
        source_edges,
        couplers,
        np.concatenate(spread),
    )


def _source_edges(
    problem: ProgrammingProblem,
    layers: Sequence[BenchLayer],
    paths: Sequence[ForwardPaths],
    labels: Sequence[str],
    edge: Ints,
) -> tuple[tuple[tuple[Ints, ...], ...], Ints, Ints]:
    """Find the edge waveguides of every source; add waveguides behind the splitters that copy an input to blocks.

    Labels and ports of the edge waveguides are (G,) and (G, 2).

    Returns:
        For each layer and source, numbers of edge waveguides; (copies, 2) ports of the added ones, which follow the
        others; and (copies,) the edge waveguide that each copies.
    """
    number = {label: i for i, label in enumerate(labels)}
    places = [_segments_of(edge, each) for each in paths]
    users = np.sum([place != UNCONNECTED for place in places], axis=0)
    found, copies, copied = [], list[tuple[int, int]](), list[int]()
    for layer, each, place in zip(layers, paths, places, strict=True):
        of_layer = []
        for names in layer.target.inputs:
            reached = [i for i in (number[name] for name in names) if place[i] != UNCONNECTED]
            if not layer.target.whole and np.any(users[reached] > 1):
                port = _behind_copies(each, int(place[reached[0]]))
                copies.append((int(problem.structure.partner[port]), port))
                copied.append(reached[0])
                reached = [len(edge) + len(copies) - 1]
            of_layer.append(np.array(reached, dtype=np.int64))
        found.append(tuple(of_layer))
    return tuple(found), np.array(copies, dtype=np.int64).reshape(-1, 2), np.array(copied, dtype=np.int64)


def _segments_of(edge: Ints, paths: ForwardPaths) -> Ints:
    """Return the segments of a layer that contain (G, 2) edge waveguides; -1 for none."""
    near, far = paths.segment[edge].T
    return np.asarray(np.where(far != UNCONNECTED, far, near))


def _behind_copies(paths: ForwardPaths, segment: int) -> int:
    """Return a port in the last segment that light passes, from a given one, before it branches within a block."""
    while np.count_nonzero(paths.tail[:-1] == segment) == 1:
        segment = int(paths.head[np.flatnonzero(paths.tail[:-1] == segment)[0]])
    return int(np.flatnonzero(paths.segment == segment)[0])


def _couplers(problem: ProgrammingProblem) -> list[TwinCouplers]:
    couplers = []
    for group in problem.structure.devices:
        card = problem.process.device(group.name)
        if card.model.file is not None or card.model.name not in ("coupler", "directional_coupler", "splitter"):
            continue
        minimum_db = -20.0 * np.log10(1.0 - 10.0 ** (card.parameter("reflection_db") / 20.0))
        couplers.append(TwinCouplers(group, card, card.parameter("loss_db") - minimum_db))
    return couplers


def _angle_rms(process: Process, couplers: TwinCouplers) -> float:
    card = process.imperfections
    if card is None:
        return 0.0
    return float(card.splitter.power_rms if couplers.card.model.name == "splitter" else card.coupler.power_rms)


def _guide_rms(problem: ProgrammingProblem, ports: Ints) -> Floats:
    """Return the standard deviations in dB of the losses of the waveguides at some ports."""
    process = problem.process
    if process.imperfections is None:
        return np.zeros(ports.shape)
    loss = float(process.guide.loss_db_per_cm) * problem.structure.length_um[ports] / UM_PER_CM
    card = process.imperfections.loss
    return np.asarray(loss * np.hypot(float(card.guide_chip_spread), float(card.guide_local_spread)))


def _loss_rms(problem: ProgrammingProblem, couplers: TwinCouplers) -> Floats:
    """Return (I,) standard deviations of coupler losses in dB, with half of each adjacent waveguide's loss."""
    card = problem.process.imperfections
    device_db = 0.0 if card is None else float(card.loss.device_spread) * couplers.card.parameter("loss_db")
    guides = _guide_rms(problem, couplers.group.port)
    return np.asarray(np.sqrt(device_db**2 + (0.25 * guides**2).sum(axis=1)), dtype=np.float64)


def _edge(problem: ProgrammingProblem, layers: Sequence[BenchLayer]) -> tuple[Ints, tuple[str, ...], Floats, Floats]:
    """Return the (G, 2) ports and the labels of the edge waveguides, and the (G,) spreads of loss in dB and phase."""
    structure, card = problem.structure, problem.process.imperfections
    owner = {int(port): group for group in structure.devices for port in group.port.reshape(-1)}
    modulated = {label for layer in layers for labels in layer.target.inputs for label in labels}
    edge_ports, edge_labels, loss_db, phase = [], [], [], []
    for label, port in zip(structure.labels, structure.label_port.tolist(), strict=True):
        group = owner[port]
        inner_port = port
        if structure.partner[port] == UNCONNECTED:
            row = group.port[(group.port == port).any(axis=1)][0]
            inner = row[structure.partner[row] != UNCONNECTED]
            if not inner.size:
                continue
            inner_port = int(inner[0])
        device = problem.process.device(group.name)
        device_db = 0.0
        if card is not None and device.model.file is None and "loss_db" in device.model.parameters:
            spread = card.loss.grating_spread if device.model.name == "grating_coupler" else card.loss.device_spread
            device_db = float(spread) * device.parameter("loss_db")
        edge_labels.append(label)
        edge_ports.append((inner_port, int(structure.partner[inner_port])))
        loss_db.append(float(np.hypot(device_db, _guide_rms(problem, np.array([inner_port]))[0])))
        phase.append(FREE_RAD if label in modulated else 0.0)
    return np.array(edge_ports, dtype=np.int64).reshape(-1, 2), tuple(edge_labels), np.array(loss_db), np.array(phase)
