"""Blocks of approximated layers, as meshes of imperfect MZIs: what they are, how they are drawn, what they compute.

Draws are of the kinds coupler, phase, loss and crosstalk; widths, heights and heaters' spreads are no more than further
phases here, and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import KINDS, Process
from optinc_pdk.cells.interferometers import mzi_frame
from optinc_pdk.factor import Devices, Mesh, devices, unitary_diagonal
from optinc_pdk.factor.correct_adjoint import transmit
from optinc_pdk.factor.mesh import wrap
from optinc_pdk.files import InputError
from optinc_pdk.onn import Onn
from optinc_pdk.tolerance.variation.imperfections import Imperfections

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

_CHIP = 2**31
"""In place of a block's number, what is common to all blocks of a chip."""


@dataclass(frozen=True, eq=False)
class Block:
    """Rows and columns of a layer's weight as diagonal times unitary.

    Attributes:
        number: Its number among all blocks of the network.
        rows: Rows of the weight.
        columns: Columns of the weight.
        unitary: (s, s) orthogonal.
        diagonal: (s,) not negative.
        mesh: The unitary with ideal devices.
    """

    number: int
    rows: slice
    columns: slice
    unitary: Floats
    diagonal: Floats
    mesh: Mesh


@dataclass(frozen=True, eq=False)
class Made:
    """A block as it was made.

    Attributes:
        devices: Its mesh.
        angles: (2, s) angles of the attenuators' couplers.
        arms: (s, 2) field transmissions of the attenuators' arms, heated one first.
        attenuator_offset: (s,) phase of an attenuator's heated arm against the other with the heater off, in rad.
        output_offset: (s,) static phase of each output, in rad.
        share: Share of a heater's phase in a guide at the card's distance.
    """

    devices: Devices
    angles: Floats
    arms: Floats
    attenuator_offset: Floats
    output_offset: Floats
    share: float


@dataclass(frozen=True, eq=False)
class Phases:
    """Phases of a block's heaters in rad: (MZIs,) theta and phi, (s,) outputs and attenuators."""

    theta: Floats
    phi: Floats
    output: Floats
    attenuator: Floats

    def all(self) -> Floats:
        """(heaters,) in the order of :func:`optinc_pdk.tolerance.meshes.mesh_heaters.heater_sites`."""
        return np.concatenate([self.theta, self.phi, self.output, self.attenuator])

    def like(self, values: Floats) -> Phases:
        """Others in the same order."""
        ends = np.cumsum([self.theta.size, self.phi.size, self.output.size])
        return Phases(*np.split(values, ends))


def blocks_of(onn: Onn) -> tuple[tuple[Block, ...], ...]:
    """The blocks of every layer."""
    layers: list[tuple[Block, ...]] = []
    number = 0
    for layer, how in zip(onn.layers, onn.factor, strict=True):
        if how == "svd":
            raise InputError(f"layer {len(layers)} is factored by SVD; blocks need all layers approximated")
        factor, size = unitary_diagonal(layer.weight, how[1]), how[1]
        places = zip(factor.block_row, factor.block_column, factor.unitary, factor.attenuation, strict=True)
        made = []
        for row, column, mesh, attenuation in places:
            rows, columns = (slice(int(at) * size, (int(at) + 1) * size) for at in (row, column))
            made.append(Block(number, rows, columns, mesh.matrix().real, factor.scale * attenuation, mesh))
            number += 1
        layers.append(tuple(made))
    return tuple(layers)


def draw_block(block: Block, process: Process, wanted: Imperfections, seed: int) -> Made:
    """Draws a block of a chip: every kind has a stream of its own, what is common to a chip comes from the seed alone.

    The static phase of a lower arm is carried on to the next MZI, so that phi's offset holds four guides.
    """
    count, size = block.mesh.row.size, block.mesh.modes

    def stream(kind: str, *place: int) -> np.random.Generator:
        return np.random.default_rng([seed, KINDS.index(kind), *place])

    rms = wanted.of("coupler") * float(wanted.card.coupler.power_rms)
    angle = np.pi / 4.0 + rms * stream("coupler", block.number).standard_normal((2, count + size))
    static = wanted.of("phase") * float(wanted.card.phase.rms_rad)
    turned = static * stream("phase", block.number).standard_normal(2 * count + 2 * size)
    theta, phi, attenuator, output = np.split(turned, np.cumsum([count, count, size]))
    spread = stream("crosstalk", _CHIP).standard_normal() * float(wanted.card.crosstalk.chip_spread)
    share = float(wanted.card.crosstalk.share) * np.exp(wanted.of("crosstalk") * spread)
    common = stream("loss", _CHIP).standard_normal()
    inner, outer, arms, idle = _losses(process, wanted, common, stream("loss", block.number), count, size)
    return Made(
        devices=devices(
            block.mesh,
            first_ratio=np.sin(angle[0, :count]) ** 2,
            second_ratio=np.sin(angle[1, :count]) ** 2,
            theta_offset=np.sqrt(2.0) * theta,
            phi_offset=2.0 * phi,
            inner_loss_db=inner,
            outer_loss_db=outer,
            idle_loss_db=idle,
        ),
        angles=angle[:, count:],
        arms=10.0 ** (-arms / 20.0),
        attenuator_offset=np.sqrt(2.0) * attenuator,
        output_offset=np.sqrt(2.0) * output,
        share=share,
    )


def _losses(
    process: Process, wanted: Imperfections, common: float, rng: np.random.Generator, count: int, size: int
) -> tuple[Floats, Floats, Floats, float]:
    """Losses in dB: of MZIs' inner and outer arms, of attenuators' arms, and of a dummy."""
    amount, card, frame = wanted.of("loss"), wanted.card.loss, mzi_frame(process)
    per_um = float(process.guide.loss_db_per_cm) / 1e4
    coupler = process.device("mmi2x2").parameter("loss_db")
    lengths = frame.end - frame.first - 2.0 * frame.coupler, frame.first

    def guides(length_um: float, arms: int) -> Floats:
        local = float(card.guide_local_spread) * rng.standard_normal((arms, 2))
        factor = np.exp(amount * (float(card.guide_chip_spread) * common + local))
        return np.asarray(per_um * length_um * factor)

    def couplers(pairs: int) -> Floats:
        drawn = coupler * np.exp(amount * float(card.device_spread) * rng.standard_normal((pairs, 2)))
        return np.asarray(drawn.sum(axis=1, keepdims=True))

    inner, outer = couplers(count) + guides(lengths[0], count), guides(lengths[1], count)
    arms = couplers(size) + guides(lengths[0], size)
    chip = np.exp(amount * float(card.guide_chip_spread) * common)
    return inner, outer, arms, 2.0 * coupler + per_um * sum(lengths) * chip


def attenuation(made: Made, phase: Floats) -> Complexes:
    """(s,) transmissions of the attenuators at heater phases (s,) in rad."""
    (c1, c2), (s1, s2) = np.cos(made.angles), np.sin(made.angles)
    hot, cold = made.arms.T
    t: Complexes = hot * c1 * c2 * np.exp(1j * (phase + made.attenuator_offset)) - cold * s1 * s2
    return t


def attenuator_phase(made: Made, wanted: Floats) -> Floats:
    """(s,) heater phases for field transmissions (s,), the nearest where they are out of reach."""
    (c1, c2), (s1, s2) = np.cos(made.angles), np.sin(made.angles)
    a, b = made.arms[:, 0] * c1 * c2, made.arms[:, 1] * s1 * s2
    cosine = (a**2 + b**2 - wanted**2) / (2.0 * a * b)
    return wrap(np.arccos(np.clip(cosine, -1.0, 1.0)) - made.attenuator_offset)


def transmission(made: Made, phases: Phases) -> Complexes:
    """(s, s) field transmission of a block: attenuators times outputs times mesh."""
    fields = np.eye(made.devices.modes, dtype=np.complex128)
    matrix = transmit(made.devices, phases.theta, phases.phi, fields)
    through = attenuation(made, phases.attenuator) * np.exp(1j * (phases.output + made.output_offset))
    return np.asarray(through[:, np.newaxis] * matrix)


def computed(made: Made, phases: Phases) -> Floats:
    """(s, s) what a block computes, in fields: the real part of its transmission."""
    return transmission(made, phases).real
