"""Blocks of approximated layers as meshes of imperfect MZIs: definition, sampling of devices, transmission.

Sampled kinds are coupler, phase, loss and crosstalk. Width, height and heater variation would only be further phase
errors here and are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards import KINDS, Process
from optinc_pdk.cells.interferometers import mzi_positions
from optinc_pdk.errors import InputError
from optinc_pdk.factor import Mesh, MeshDevices, mesh_devices, unitary_diagonal
from optinc_pdk.factor.mesh import wrap
from optinc_pdk.factor.mesh_devices import transmit
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.studies.variation.sampling import Imperfections

_CHIP = 2**31
"""Stream key, in place of a block's number, of values that are common to all blocks of a chip."""


@dataclass(frozen=True, eq=False)
class MeshBlock:
    """One s × s block of a layer's weight matrix, approximated as diagonal times unitary.

    Attributes:
        number: Index of the block among all blocks of the network.
        rows: Rows of the weight matrix that the block covers.
        columns: Columns of the weight matrix that the block covers.
        unitary: (s, s) orthogonal matrix.
        diagonal: (s,) non-negative factors of the rows.
        mesh: Mesh of ideal devices that realises the unitary.
    """

    number: int
    rows: slice
    columns: slice
    unitary: Floats
    diagonal: Floats
    mesh: Mesh


@dataclass(frozen=True, eq=False)
class FabricatedBlock:
    """Sampled device parameters of one fabricated block of size s.

    Attributes:
        devices: Devices of its mesh.
        angles: (2, s) coupling angles of the attenuators' couplers in rad.
        arms: (s, 2) field transmissions of the attenuators' arms, heated arm first.
        attenuator_offset: (s,) phase of an attenuator's heated arm relative to the other with the heater off, in rad.
        output_offset: (s,) static phase of each output in rad.
        share: Thermal crosstalk: share of a heater's phase in a waveguide at the reference distance of the process
            card.
    """

    devices: MeshDevices
    angles: Floats
    arms: Floats
    attenuator_offset: Floats
    output_offset: Floats
    share: float


@dataclass(frozen=True, eq=False)
class BlockPhases:
    """Heater phases of one s × s block in rad.

    Attributes:
        theta: (MZIs,) internal phases.
        phi: (MZIs,) external phases.
        output: (s,) output phases.
        attenuator: (s,) phases of the attenuators.
    """

    theta: Floats
    phi: Floats
    output: Floats
    attenuator: Floats

    def concatenated(self) -> Floats:
        """Return (heaters,) phases in the order of :func:`imperfect_meshes.mesh_heaters.heater_sites`."""
        return np.concatenate([self.theta, self.phi, self.output, self.attenuator])

    def from_concatenated(self, values: Floats) -> BlockPhases:
        """Build phases from (heaters,) values in the order of :meth:`concatenated`, with the sizes of these phases."""
        ends = np.cumsum([self.theta.size, self.phi.size, self.output.size])
        return BlockPhases(*np.split(values, ends))


def blocks_of(onn: AveragingNetwork) -> tuple[tuple[MeshBlock, ...], ...]:
    """Split every layer of a network into blocks, approximated as diagonal times unitary.

    Returns:
        For each layer, its blocks.

    Raises:
        InputError: A layer is factored by SVD.
    """
    layers: list[tuple[MeshBlock, ...]] = []
    number = 0
    for layer, method in zip(onn.layers, onn.factor, strict=True):
        if method == "svd":
            raise InputError(f"layer {len(layers)} is factored by SVD; use the approximation for all layers")
        factor, size = unitary_diagonal(layer.weight, method[1]), method[1]
        places = zip(factor.block_row, factor.block_column, factor.unitary, factor.attenuation, strict=True)
        layer_blocks = []
        for row, column, mesh, attenuation in places:
            rows, columns = (slice(int(index) * size, (int(index) + 1) * size) for index in (row, column))
            layer_blocks.append(MeshBlock(number, rows, columns, mesh.matrix().real, factor.scale * attenuation, mesh))
            number += 1
        layers.append(tuple(layer_blocks))
    return tuple(layers)


def draw_block(block: MeshBlock, process: Process, imperfections: Imperfections, seed: int) -> FabricatedBlock:
    """Sample the devices of one block of a chip.

    Every kind of imperfection has its own random stream. Values common to all blocks of a chip depend on the seed only.
    The static phase of an MZI's lower arm is attributed to the next MZI, so the offset of phi is the sum over four
    waveguides.

    Args:
        block: The block.
        process: Process of the cards.
        imperfections: Imperfections and their factors.
        seed: Seed of the chip.
    """
    count, size = block.mesh.row.size, block.mesh.modes

    def stream(kind: str, *place: int) -> np.random.Generator:
        return np.random.default_rng([seed, KINDS.index(kind), *place])

    angle_rms = imperfections.of("coupler") * float(imperfections.card.coupler.power_rms)
    angle = np.pi / 4.0 + angle_rms * stream("coupler", block.number).standard_normal((2, count + size))
    phase_rms = imperfections.of("phase") * float(imperfections.card.phase.rms_rad)
    static_phases = phase_rms * stream("phase", block.number).standard_normal(2 * count + 2 * size)
    theta, phi, attenuator, output = np.split(static_phases, np.cumsum([count, count, size]))
    spread = stream("crosstalk", _CHIP).standard_normal() * float(imperfections.card.crosstalk.chip_spread)
    share = float(imperfections.card.crosstalk.share) * np.exp(imperfections.of("crosstalk") * spread)
    common = stream("loss", _CHIP).standard_normal()
    inner, outer, arms, idle = _losses(process, imperfections, common, stream("loss", block.number), count, size)
    return FabricatedBlock(
        devices=mesh_devices(
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
    process: Process, imperfections: Imperfections, common: float, rng: np.random.Generator, count: int, size: int
) -> tuple[Floats, Floats, Floats, float]:
    """Sample losses in dB: inner and outer arms of the MZIs, arms of the attenuators, and a dummy MZI."""
    amount, card, frame = imperfections.of("loss"), imperfections.card.loss, mzi_positions(process)
    per_um = float(process.guide.loss_db_per_cm) / 1e4
    coupler = process.device("mmi2x2").parameter("loss_db")
    lengths = frame.end - frame.first - 2.0 * frame.coupler, frame.first

    def guides(length_um: float, arms: int) -> Floats:
        local = float(card.guide_local_spread) * rng.standard_normal((arms, 2))
        factor = np.exp(amount * (float(card.guide_chip_spread) * common + local))
        return np.asarray(per_um * length_um * factor)

    def couplers(pairs: int) -> Floats:
        loss = coupler * np.exp(amount * float(card.device_spread) * rng.standard_normal((pairs, 2)))
        return np.asarray(loss.sum(axis=1, keepdims=True))

    inner, outer = couplers(count) + guides(lengths[0], count), guides(lengths[1], count)
    arms = couplers(size) + guides(lengths[0], size)
    chip = np.exp(amount * float(card.guide_chip_spread) * common)
    return inner, outer, arms, 2.0 * coupler + per_um * sum(lengths) * chip


def attenuation(fabricated: FabricatedBlock, phase: Floats) -> Complexes:
    """Return (s,) field transmissions of the attenuators at (s,) heater phases in rad."""
    (c1, c2), (s1, s2) = np.cos(fabricated.angles), np.sin(fabricated.angles)
    heated, unheated = fabricated.arms.T
    t: Complexes = heated * c1 * c2 * np.exp(1j * (phase + fabricated.attenuator_offset)) - unheated * s1 * s2
    return t


def attenuator_phase(fabricated: FabricatedBlock, target: Floats) -> Floats:
    """Return the (s,) heater phases in rad at which the attenuators have (s,) given field transmissions.

    A transmission out of reach is replaced by the nearest one that the attenuator can have.
    """
    (c1, c2), (s1, s2) = np.cos(fabricated.angles), np.sin(fabricated.angles)
    a, b = fabricated.arms[:, 0] * c1 * c2, fabricated.arms[:, 1] * s1 * s2
    cosine = (a**2 + b**2 - target**2) / (2.0 * a * b)
    return wrap(np.arccos(np.clip(cosine, -1.0, 1.0)) - fabricated.attenuator_offset)


def transmission(fabricated: FabricatedBlock, phases: BlockPhases) -> Complexes:
    """Return the (s, s) field transmission of a block: attenuators × output phases × mesh."""
    fields = np.eye(fabricated.devices.modes, dtype=np.complex128)
    matrix = transmit(fabricated.devices, phases.theta, phases.phi, fields)
    output_factor = attenuation(fabricated, phases.attenuator) * np.exp(1j * (phases.output + fabricated.output_offset))
    return np.asarray(output_factor[:, np.newaxis] * matrix)


def computed_matrix(fabricated: FabricatedBlock, phases: BlockPhases) -> Floats:
    """Return the (s, s) matrix that a block computes with homodyne detection: the real part of its transmission."""
    return transmission(fabricated, phases).real
