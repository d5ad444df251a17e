"""Blocks of approximated layers as meshes of imperfect MZIs, for networks whose chips are too large to extract.

Every block is a rectangular mesh, a heater and an attenuator per output (arXiv 2603.28290: diagonal times unitary), on
its own: copies and sums of blocks, mixers and electronics are ideal. Draws are of the kinds coupler, phase, loss and
crosstalk; widths, heights and heaters' spreads are no more than further phases here, and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import KINDS, Process
from optinc_pdk.cells.interferometers import mzi_frame
from optinc_pdk.factor import Devices, Mesh, devices, rectangular, unitary_diagonal
from optinc_pdk.factor.correct import completed
from optinc_pdk.factor.correct_adjoint import transmit
from optinc_pdk.factor.correct_fit import Problem, fit_lbfgs
from optinc_pdk.factor.correct_local import correct_locally
from optinc_pdk.factor.mesh import wrap
from optinc_pdk.files import InputError
from optinc_pdk.onn import Onn
from optinc_pdk.tolerance.variation.imperfections import Imperfections

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

AMPLITUDE = 0.9
"""Share of the field that is left to the real part where fits start (:func:`optinc_pdk.factor.correct_homodyne`)."""
DRAWS = 8
"""Starts that are tried: a fit may end where rows have gone dark, as their scale is free."""
GAIN = 0.5
"""Error after a fit, over that of local correction, with which no other start is tried."""
DARK = 0.25
"""A row's scale after a fit, over that at its start, below which it has gone dark: another start is better."""
CLEAR = 1.1
"""Field at an attenuator that is meant to close, over the least that it can pass."""
UNSEEN = 1e-6
"""Weight of directions without signal, against the signals' mean power: they stay as they are."""
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
        """(heaters,) in the order of :func:`sites`."""
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


def computed(made: Made, phases: Phases) -> Floats:
    """(s, s) what a block computes, in fields: the real part of attenuators times outputs times mesh."""
    fields = np.eye(made.devices.modes, dtype=np.complex128)
    matrix = transmit(made.devices, phases.theta, phases.phi, fields)
    through = attenuation(made, phases.attenuator) * np.exp(1j * (phases.output + made.output_offset))
    return np.asarray((through[:, np.newaxis] * matrix).real)


@dataclass(frozen=True, eq=False)
class Programmed:
    """A mesh that makes a unitary with rows of its own scale: what a fit finds.

    Attributes:
        theta: (MZIs,) in rad.
        phi: (MZIs,) in rad.
        output: (s,) in rad.
        scale: (s,) factor of each row.
    """

    theta: Floats
    phi: Floats
    output: Floats
    scale: Floats


def ideal(block: Block, made: Made) -> Programmed:
    """The phases of ideal devices; with the common loss, which electronics make good."""
    through = np.full(block.mesh.modes, made.devices.idle**made.devices.columns)
    return Programmed(block.mesh.theta, block.mesh.phi, block.mesh.output_phase, through)


def fitted(
    block: Block,
    made: Made,
    signals: tuple[Floats, Floats] | None,
    steps: int,
    seed: int,
    amplitude: Floats | None = None,
) -> Programmed:
    """Phases for the devices as they are: local correction, then least squares of the real part.

    Args:
        block: The block.
        made: Its devices, known.
        signals: (points, s) signals that come in and (points, s) what the unitary's outputs should be with them;
            errors then count as these signals see them. Every direction counts alike where left out.
        steps: L-BFGS steps at most.
        seed: Draws the imaginary part of the start.
        amplitude: (s,) share of each row's field that is real at the start; ``AMPLITUDE`` where left out.
    """
    target, inputs = (block.unitary, None) if signals is None else _weighed(block, *signals)
    problem = Problem(made.devices, target, homodyne=True, inputs=inputs)
    rng = np.random.default_rng([seed, block.number])
    best = (True, np.inf)
    for _ in range(DRAWS):
        start = rectangular(_started(block.unitary, amplitude, rng))
        local = np.concatenate(correct_locally(made.devices, start.theta, start.phi, start.output_phase)[:3])
        x = wrap(fit_lbfgs(problem, local, steps)[0])
        first, matrix = _matrix(problem, local), _matrix(problem, x)
        before, error = problem.shape_error(first), problem.shape_error(matrix)
        scale, lit = (problem.scale(problem.seen(m))[:, 0] for m in (matrix, first))
        dark = bool(np.any(np.abs(scale) < DARK * np.abs(lit)))
        if (dark, error) < best:
            theta, phi, output = problem.split(x)
            # an attenuator makes no sign
            output = wrap(output + np.where(scale < 0.0, np.pi, 0.0))
            best, found = (dark, error), Programmed(theta, phi, output, np.abs(scale))
        if not dark and error < GAIN * before:
            break
    return found


def _started(unitary: Floats, amplitude: Floats | None, rng: np.random.Generator) -> Complexes:
    """(s, s) unitary whose real part is the given one, row by row as weak as asked for.

    Rows of full amplitude mix among themselves; a weaker one is turned by itself, as a mix of rows of different
    amplitudes is no unitary.
    """
    if amplitude is None:
        return completed(unitary, AMPLITUDE, rng)
    strong = np.flatnonzero(amplitude >= AMPLITUDE)
    left = np.diag(np.exp(1j * np.arccos(np.minimum(amplitude, 1.0))))
    if strong.size:
        left[np.ix_(strong, strong)] = completed(np.eye(strong.size), AMPLITUDE, rng)
    return np.asarray(left @ unitary)


def _matrix(problem: Problem, x: Floats) -> Complexes:
    """(N, N) what the mesh makes at phases x, (unknowns,) in rad."""
    theta, phi, output = problem.split(x)
    fields = np.eye(problem.devices.modes, dtype=np.complex128)
    return np.asarray(np.exp(1j * output)[:, np.newaxis] * transmit(problem.devices, theta, phi, fields))


def _weighed(block: Block, seen: Floats, wished: Floats) -> tuple[Floats, Complexes | None]:
    """(s, s) target and (s, s) inputs X that stand for all points.

    With C = X² the signals' mean products, |Re(M) x - y|² averages to |Re(M) X - Y|² and a constant, Y X that of y xᵀ.
    """
    power = seen.T @ seen / len(seen)
    mean = float(np.trace(power)) / len(power)
    if mean == 0.0:
        return block.unitary, None
    values, vectors = np.linalg.eigh(power / mean)
    root = np.sqrt(np.maximum(values, 0.0) + UNSEEN)
    overlap = wished.T @ seen / (len(seen) * mean) + UNSEEN * block.unitary
    return overlap @ (vectors / root) @ vectors.T, ((vectors * root) @ vectors.T).astype(np.complex128)


def dimmed(blocks: tuple[Block, ...], made: list[Made], programmed: list[Programmed]) -> list[Floats | None]:
    """(s,) amplitudes of each block's rows with which its attenuators can be as closed as they have to; None if so.

    Couplers that are not 50:50 leave an attenuator ajar: a few percent of the field pass at least.
    """
    scale = _scales(blocks, made, programmed)
    found: list[Floats | None] = []
    for block, part, one in zip(blocks, made, programmed, strict=True):
        least = CLEAR * np.abs(attenuation(part, -part.attenuator_offset))
        need = block.diagonal / (one.scale * scale[block.rows])
        weak = need < least
        found.append(np.where(weak, AMPLITUDE * need / least, AMPLITUDE) if np.any(weak) else None)
    return found


def biased(blocks: tuple[Block, ...], made: list[Made], programmed: list[Programmed]) -> tuple[list[Phases], Floats]:
    """Heater phases of a layer's blocks, and (out,) scales that are left to its electronics.

    Attenuators take up the scales of a block's rows; of all blocks that add to an output, that which has to give it
    most is open.
    """
    scale, phases = _scales(blocks, made, programmed), []
    for block, part, one in zip(blocks, made, programmed, strict=True):
        heater = attenuator_phase(part, block.diagonal / (one.scale * scale[block.rows]))
        turned = np.angle(attenuation(part, heater)) + part.output_offset
        phases.append(Phases(one.theta, one.phi, wrap(one.output - turned), heater))
    return phases, scale


def _scales(blocks: tuple[Block, ...], made: list[Made], programmed: list[Programmed]) -> Floats:
    """(out,) largest field that an output needs of any block, over what an open attenuator passes."""
    scale = np.zeros(max(block.rows.stop for block in blocks))
    for block, part, one in zip(blocks, made, programmed, strict=True):
        most = np.abs(attenuation(part, np.pi - part.attenuator_offset))
        np.maximum(scale[block.rows], block.diagonal / (one.scale * most), out=scale[block.rows])
    return np.where(scale > 0.0, scale, 1.0)
