"""A digital twin: the chip as designed, with numbers for what is not known of it, and the readings that they foretell.

Unknown are static phases and efficiencies of heaters, how much of the expected crosstalk there is, ratios and losses
of couplers and splitters, and what the guides at fibres, modulators and photodiodes lose and turn, which stand for all
that is there. Phases of other guides are in the heaters', losses of other devices in the couplers'.
Every unknown is counted in spreads of the card, so that all of them at 0 is the chip as designed and 1 is usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Device, Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.models import net_transmission, sampled_s
from optinc_pdk.models.guides import UM_PER_CM
from optinc_pdk.simulate.fit import Problem
from optinc_pdk.simulate.structure import Devices
from optinc_pdk.tolerance.calibration.measure import Layer
from optinc_pdk.tolerance.calibration.model import OVERLAP, Heaters

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]

ARM_RAD, STATIC_RAD = 0.4, 1.0
"""What static phases are expected to be off: between arms of an interferometer, which are alike, and elsewhere."""
FREE_RAD = 2.0 * np.pi
"""The same where light comes from guides whose lengths differ: at oscillators and at sources."""
NEPER = float(np.log(10.0)) / 20.0
"""Logarithm of an amplitude by its dB."""
_TURNS = 20


@dataclass(frozen=True, eq=False)
class Couplers:
    """All couplers or splitters of one component.

    Attributes:
        group: The I instances.
        card: Their card.
        reserve_db: What a loss can be below the card's, so that with its reflections a device stays passive.
    """

    group: Devices
    card: Device
    reserve_db: float

    def s(self, process: Process, wavelength_nm: float, angle: Floats, loss_db: Floats) -> Complexes:
        """(I, p, p) S-parameters for (I,) errors of the coupling angle and of the loss."""
        loss = self.card.parameter("loss_db") + np.maximum(loss_db, -self.reserve_db)
        if self.card.model.name == "directional_coupler":
            ratio = {"cross": np.sin(np.arcsin(np.sqrt(self.card.parameter("cross"))) + angle) ** 2}
        else:
            ratio = {"imbalance": np.cos(np.arccos(self.card.parameter("imbalance")) + 2.0 * angle)}
        return np.asarray(sampled_s(process, self.card.name, wavelength_nm, {"loss_db": loss, **ratio})[0])


@dataclass(frozen=True, eq=False)
class Twin:
    """What may be unknown of a chip with H heaters, G guides at its edge and C couplers; N unknowns in all.

    Attributes:
        problem: The chip as designed.
        layers: Its layers.
        heaters: Its heaters as designed.
        efficiency: (H,) of the heaters, as swept; 0 where one has no effect.
        edge: (G, 2) optical ports of the guides at fibres, modulators and photodiodes, outer ends first.
        edge_labels: (G,) labels of what they lead to.
        couplers: Couplers and splitters by component.
        spread: (N,) what each unknown is expected to be off.
    """

    problem: Problem
    layers: tuple[Layer, ...]
    heaters: Heaters
    efficiency: Floats
    edge: Ints
    edge_labels: tuple[str, ...]
    couplers: tuple[Couplers, ...]
    spread: Floats

    def parts(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """N values by what they belong to, in this order.

        Returns:
            Static phases (H,), efficiencies (H,), crosstalk (layers,), losses (G,) and phases (G,) at the edge,
            coupling angles (C,) and losses (C,) of couplers.
        """
        return np.split(values, self.firsts[1:])

    @property
    def firsts(self) -> Ints:
        """(7,) first number of each of these parts."""
        heaters, edge = self.efficiency.size, len(self.edge)
        count = sum(each.group.instance.size for each in self.couplers)
        return np.cumsum([0, heaters, heaters, len(self.layers), edge, edge, count])

    def off(self, unknown: Floats) -> list[Floats]:
        """The same parts of what the chip is off, in rad, dB and shares."""
        return self.parts(unknown * self.spread)

    def chip(self, unknown: Floats) -> Problem:
        """The chip with its unknowns; phases are those that make light late, static ones among them."""
        _, _, _, loss_db, turn, angle, coupler_db = self.off(unknown)
        structure, process = self.problem.structure, self.problem.process
        guides = net_transmission(process, structure.length_um, self.problem.wavelength_nm)
        guides[self.edge] *= np.exp(1j * turn - NEPER * loss_db)[:, np.newaxis]
        devices = {
            each.group.name: each.s(process, self.problem.wavelength_nm, angle[mine], coupler_db[mine])
            for each, mine in self.each_coupler()
        }
        dead = tuple(self.problem.structure.channel[i] for i in np.flatnonzero(self.efficiency == 0.0).tolist())
        return replace(self.problem, devices=devices, guides=guides, held=dead)

    def each_coupler(self) -> Iterator[tuple[Couplers, slice]]:
        """Couplers with their places among all C of them."""
        start = 0
        for each in self.couplers:
            mine = slice(start, start + each.group.instance.size)
            yield each, mine
            start = mine.stop

    def warming(self, unknown: Floats) -> Floats:
        """(H, H) share of heater j's phase under heater i."""
        shares = np.zeros(self.efficiency.size)
        for layer, off in zip(self.layers, self.off(unknown)[2].tolist(), strict=True):
            shares[layer.heaters] = 1.0 + off
        return np.asarray(np.eye(shares.size) + shares[:, np.newaxis] * self.heaters.crosstalk)

    def warmed(self, unknown: Floats) -> Heaters:
        """The heaters as designed, with the crosstalk that there is."""
        warming = self.warming(unknown)
        return replace(self.heaters, crosstalk=warming - np.eye(len(warming)))

    def phases(self, unknown: Floats, voltage_v: Floats) -> Floats:
        """(H,) phases at some voltages, static ones among them."""
        return self.turned(unknown, self.warming(unknown), self.heaters.phases(voltage_v))

    def turned(self, unknown: Floats, warming: Floats, made: Floats) -> Floats:
        """The same for (H,) designed phases of the heaters, with their :meth:`warming`."""
        static, better = self.off(unknown)[:2]
        return np.asarray(static + warming @ (self.efficiency * (1.0 + better) * made))

    def voltages(self, unknown: Floats, phases: Floats) -> Floats:
        """(H,) voltages for phases, static ones among them, by whole turns where heaters can make them."""
        static, better = self.off(unknown)[:2]
        warming, efficiency = self.warming(unknown), self.efficiency * (1.0 + better)
        turns = np.zeros_like(phases)
        own = np.zeros_like(phases)
        for _ in range(_TURNS):
            own[:] = np.linalg.solve(warming, phases - static + 2.0 * np.pi * turns)
            out = (own < 0.0) | (own > (1.0 + OVERLAP) * 2.0 * np.pi)
            # a heater's turn warms its neighbours, so that theirs may have to change too
            if not out.any():
                break
            turns -= np.where(out, np.floor(own / (2.0 * np.pi)), 0.0)
        alive = efficiency > 0.0
        return self.heaters.voltages(np.divide(own, efficiency, out=np.zeros_like(own), where=alive))


def twin_of(problem: Problem, layers: Sequence[Layer], heaters: Heaters, efficiency: Floats) -> Twin:
    """The twin of a chip as designed, whose heaters were swept."""
    structure, card = problem.structure, problem.process.imperfections
    couplers = tuple(_couplers(problem))
    edge, names, edge_db, edge_rad = _edge(problem, layers)
    known = np.isfinite(efficiency)
    if card is None:
        local = share = 0.0
    else:
        local = float(np.hypot(card.heater.resistance_local_spread, card.heater.power_pi_local_spread))
        share = float(card.crosstalk.chip_spread)
    arms = [label.endswith("_theta") or "_att_" in label for label in structure.channel]
    static = np.where(arms, ARM_RAD, STATIC_RAD)
    for layer in layers:
        static[layer.oscillators] = FREE_RAD
    angle = [np.full(each.group.instance.size, _angle_rms(problem.process, each)) for each in couplers]
    loss = [_loss_rms(problem, each) for each in couplers]
    spread = [static, np.where(known, local, 0.0), np.full(len(layers), share), edge_db, edge_rad, *angle, *loss]
    return Twin(
        problem, tuple(layers), heaters, np.where(known, efficiency, 0.0), edge, names, couplers, np.concatenate(spread)
    )


def _couplers(problem: Problem) -> list[Couplers]:
    found = []
    for group in problem.structure.devices:
        card = problem.process.device(group.name)
        if card.model.file is not None or card.model.name not in ("coupler", "directional_coupler", "splitter"):
            continue
        least = -20.0 * np.log10(1.0 - 10.0 ** (card.parameter("reflection_db") / 20.0))
        found.append(Couplers(group, card, card.parameter("loss_db") - least))
    return found


def _angle_rms(process: Process, couplers: Couplers) -> float:
    card = process.imperfections
    if card is None:
        return 0.0
    return float(card.splitter.power_rms if couplers.card.model.name == "splitter" else card.coupler.power_rms)


def _guide_rms(problem: Problem, ports: Ints) -> Floats:
    """What the losses of guides at some ports are expected to be off, in dB."""
    process = problem.process
    if process.imperfections is None:
        return np.zeros(ports.shape)
    loss = float(process.guide.loss_db_per_cm) * problem.structure.length_um[ports] / UM_PER_CM
    card = process.imperfections.loss
    return np.asarray(loss * np.hypot(float(card.guide_chip_spread), float(card.guide_local_spread)))


def _loss_rms(problem: Problem, couplers: Couplers) -> Floats:
    """(I,) what losses are expected to be off in dB, with half of those of the guides at the ports."""
    card = problem.process.imperfections
    own = 0.0 if card is None else float(card.loss.device_spread) * couplers.card.parameter("loss_db")
    guides = _guide_rms(problem, couplers.group.port)
    return np.asarray(np.sqrt(own**2 + (0.25 * guides**2).sum(axis=1)), dtype=np.float64)


def _edge(problem: Problem, layers: Sequence[Layer]) -> tuple[Ints, tuple[str, ...], Floats, Floats]:
    """(G, 2) ports of the guides at the edge, and what their losses in dB and phases are expected to be off."""
    structure, card = problem.structure, problem.process.imperfections
    owner = {int(port): group for group in structure.devices for port in group.port.reshape(-1)}
    lit = {label for layer in layers for labels in layer.target.inputs for label in labels}
    edge, names, loss, turn = [], [], [], []
    for label, port in zip(structure.labels, structure.fibre.tolist(), strict=True):
        group = owner[port]
        near = port
        if structure.partner[port] == UNCONNECTED:
            row = group.port[(group.port == port).any(axis=1)][0]
            inner = row[structure.partner[row] != UNCONNECTED]
            if not inner.size:
                continue
            near = int(inner[0])
        device = problem.process.device(group.name)
        own = 0.0
        if card is not None and device.model.file is None and "loss_db" in device.model.parameters:
            spread = card.loss.grating_spread if device.model.name == "grating_coupler" else card.loss.device_spread
            own = float(spread) * device.parameter("loss_db")
        names.append(label)
        edge.append((near, int(structure.partner[near])))
        loss.append(float(np.hypot(own, _guide_rms(problem, np.array([near]))[0])))
        turn.append(FREE_RAD if label in lit else 0.0)
    return np.array(edge, dtype=np.int64).reshape(-1, 2), tuple(names), np.array(loss), np.array(turn)
