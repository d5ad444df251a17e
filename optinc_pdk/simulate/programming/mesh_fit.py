"""Phases of a large layer's meshes, without the Jacobian of the layer.

Each mesh of the layer is fitted by L-BFGS on a model of its devices that passes light from left to right only
(:mod:`optinc_pdk.factor.correction`): compiled kernels, time N³ per step and memory N² for N modes. The chip has
reflections, and losses that differ from path to path, so its matrix deviates from the model's. After each fit the chip
is solved, and this deviation is subtracted from the model's target (deferred correction: Stetter, Numerische Mathematik
29, 425 (1978)). The deviation hardly changes with the phases, so a few rounds suffice.

Homodyne detection reads the real part of the fields only. The mesh starts at a unitary W (a + i √(1 - a²) Q) with a
random symmetric orthogonal Q. Its real part is a · W, as wanted, but fewer of its MZIs need splittings that couplers
with unequal outputs cannot reach: at 2 % imbalance and 128 modes 2 % of the MZIs instead of 9 %.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.assemble import WeightBlock
from optinc_pdk.factor import BlockFactor, Mesh
from optinc_pdk.factor.correction import CorrectionProblem, correct_locally, fit_lbfgs, mesh_matrix
from optinc_pdk.factor.mesh_shape import ideal_phases, unitary_completion
from optinc_pdk.simulate.programming._light_paths import MeshRecord
from optinc_pdk.simulate.programming.detection_jacobian import SourceFields, linear_response, residual
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem, solve_fields
from optinc_pdk.simulate.programming.targets import LayerTarget

IN_PHASE = 0.99
"""Share a of the field that is in phase with the local oscillator at the start; 14 % are in quadrature."""
QUADRATURE_WEIGHT = 0.005
"""Weight of the part in quadrature in the fit. Without it, fits of meshes of 8 modes turned almost all light into
quadrature, where errors are small because the signal is. With 0.01 the errors of such meshes are twice as large, with
0.001 one in 24 lost its light nevertheless."""
FIRST_STEPS, MORE_STEPS = 1000, 1600
"""L-BFGS steps of the first and of each later round."""
ROUNDS = 5
SUFFICIENT = 1.2e-4
"""Rms matrix error after which no further round follows. Engineering default; the paper's network, which has the
largest layers of results/scenarios.json, tolerates 3.2e-3."""
LEAST_GAIN = 0.75
"""A round that leaves more than this share of the error is the last one."""
SEED = 20


@dataclass
class _BlockMesh:
    """One mesh of the layer.

    Attributes:
        block: Its block.
        pieces: (rows,) indices of the block's pieces.
        problem: Model and target; the target changes with every round.
        wanted: (rows, columns) matrix that the chip has to realise, rows of norm 1.
        heater: (MZIs, 2) numbers of the outer and the inner heaters.
        static: (MZIs, 2) heater phases minus the model's.
        oscillator: (rows,) numbers of the heaters of the local oscillators.
        oscillator_static: (rows,) their phases plus the model's output phases.
        attenuator: (rows,) numbers of the attenuators' heaters.
        attenuation: (rows,) phase differences of the attenuators' arms in rad.
        x: (unknowns,) phases of the model in rad.
    """

    block: WeightBlock
    pieces: Ints
    problem: CorrectionProblem
    wanted: Floats
    heater: Ints
    static: Floats
    oscillator: Ints
    oscillator_static: Floats
    attenuator: Ints
    attenuation: Floats
    x: Floats

    def write(self, phases: Floats) -> None:
        """Write the phases of the model's heaters into the (H,) phases of the chip."""
        theta, phi, output = self.problem.split(self.x)
        phases[self.heater[:, 0]] = phi + self.static[:, 0]
        phases[self.heater[:, 1]] = theta + self.static[:, 1]
        # a fit may give rows the opposite sign, because their scales are free
        turned = np.where(self._scaled()[1][:, 0] < 0.0, np.pi, 0.0)
        phases[self.oscillator] = self.oscillator_static - output[: self.oscillator.size] + turned

    def _scaled(self) -> tuple[Complexes, Floats]:
        """(rows, columns) fields of the model, and the (rows, 1) factors of the target's rows in them."""
        fields = self.problem.output_fields(mesh_matrix(self.problem, self.x))
        return fields, self.problem.scale(fields)

    def realised(self) -> Floats:
        """Return the (rows, columns) matrix of the model, each row scaled to the target's."""
        fields, scale = self._scaled()
        return np.asarray(fields.real / np.where(scale == 0.0, 1.0, scale))


def fit_meshes(
    problem: ProgrammingProblem,
    target: LayerTarget,
    recorded: dict[str, MeshRecord],
    phases: Floats,
    progress: Callable[[int, float], None] | None = None,
) -> Floats:
    """Fit the phases of a hidden layer whose blocks are unitary × diagonal, without its Jacobian.

    Args:
        problem: The chip and its targets.
        target: The layer.
        recorded: Devices of the layer's meshes, by prefix of their pad labels.
        phases: (H,) aligned initial phases in rad; not changed.
        progress: Called after every round with its number and the layer's rms matrix error.

    Returns:
        (H,) phases in rad, not wrapped.
    """
    rng = np.random.default_rng((SEED, target.index))
    layer = np.array([target.index])
    meshes = _meshes(problem, target, recorded, phases)
    _follow_phases(target, meshes, solve_fields(problem, phases, layer))
    for mesh, unitary in zip(meshes, _unitaries(target), strict=True):
        mesh.x = _start(mesh.problem, unitary.matrix(), rng)
    best, least = phases, np.inf
    phases = phases.copy()
    for number in range(1, ROUNDS + 1):
        _fit_together(meshes, FIRST_STEPS if number == 1 else MORE_STEPS)
        for mesh in meshes:
            mesh.write(phases)
        light = solve_fields(problem, phases, layer)
        if target.split:
            phases = _balanced(target, meshes, light, phases)
            light = solve_fields(problem, phases, layer)
        error = float(np.sqrt(np.mean(residual(linear_response(light, target).coefficient, target) ** 2)))
        if progress is not None:
            progress(number, error)
        gained, least = error < LEAST_GAIN * least, min(error, least)
        if error == least:
            best = phases.copy()
        if error <= SUFFICIENT or not gained:
            break
        _retarget(target, meshes, light)
    return best


def _fit_together(meshes: list[_BlockMesh], steps: int) -> None:
    """Fit the meshes of a layer side by side; the compiled kernels release the interpreter's lock."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        fits = pool.map(lambda mesh: fit_lbfgs(mesh.problem, mesh.x, steps)[0], meshes)
        for mesh, x in zip(meshes, fits, strict=True):
            mesh.x = x


def _meshes(
    problem: ProgrammingProblem,
    target: LayerTarget,
    recorded: dict[str, MeshRecord],
    phases: Floats,
) -> list[_BlockMesh]:
    """Meshes of a layer with the phases of the ideal ones."""
    meshes = []
    for block, mesh in zip(target.blocks, _unitaries(target), strict=True):
        record = recorded[f"{block.name}_v"]
        pieces = np.array([i for i, piece in enumerate(target.pieces) if piece.block.name == block.name])
        rows, columns = len(block.rows), len(block.columns)
        wanted = np.real(mesh.matrix()[:rows, :columns])
        inputs = None if columns == mesh.modes else np.eye(mesh.modes, columns, dtype=np.complex128)
        model = CorrectionProblem(
            record.devices(mesh), wanted, homodyne=True, inputs=inputs, quadrature_weight=QUADRATURE_WEIGHT
        )
        oscillator = _heaters(problem, target, pieces, "lo")
        ideal = np.stack([mesh.phi, mesh.theta], axis=1)
        meshes.append(
            _BlockMesh(
                block=block,
                pieces=pieces,
                problem=model,
                wanted=wanted,
                heater=record.heater,
                static=phases[record.heater] - ideal,
                oscillator=oscillator,
                oscillator_static=phases[oscillator] + mesh.output_phase[:rows],
                attenuator=_heaters(problem, target, pieces, "att"),
                attenuation=np.array(record.attenuation),
                x=np.concatenate([mesh.theta, mesh.phi, mesh.output_phase]),
            )
        )
    return meshes


def _heaters(problem: ProgrammingProblem, target: LayerTarget, pieces: Ints, what: str) -> Ints:
    return np.array([problem.channel[target.pieces[i].label(what)] for i in pieces.tolist()], dtype=np.int64)


def _unitaries(target: LayerTarget) -> tuple[Mesh, ...]:
    factor = target.factor.factor
    if not isinstance(factor, BlockFactor):
        raise TypeError(f"layer {target.index} is not a layer of blocks")
    return factor.unitary


def _start(model: CorrectionProblem, unitary: Complexes, rng: np.random.Generator) -> Floats:
    """(unknowns,) phases of a unitary with the wanted real part, corrected MZI by MZI."""
    completed = unitary_completion(np.real(unitary), IN_PHASE, rng)
    theta, phi, output, _ = correct_locally(model.devices, *model.split(ideal_phases(completed, model.devices, rng)))
    return np.concatenate([theta, phi, output])


def _rows(target: LayerTarget, mesh: _BlockMesh, light: SourceFields) -> tuple[Complexes, Floats]:
    """(rows, columns) mixed signals of a block from its mesh's inputs, and the coefficients that they should have.

    Neurons detect the real parts.
    """
    weights = np.array([target.weights(target.pieces[i]) for i in mesh.pieces.tolist()])
    p_c, p = light.at_detectors(target.plus, target)
    n_c, n = light.at_detectors(target.minus, target)
    balance = linear_response(light, target).balance[target.owner, np.newaxis]
    mixed = 2.0 * (p_c.conj()[:, np.newaxis] * p - balance * n_c.conj()[:, np.newaxis] * n)
    columns, modes = np.asarray(mesh.block.columns), target.mesh_weight.shape[1]
    found, wanted = (each.reshape(mesh.pieces.size, -1, modes).sum(axis=1) for each in (mixed[mesh.pieces], weights))
    return found[:, columns], wanted[:, columns]


def _follow_phases(target: LayerTarget, meshes: list[_BlockMesh], light: SourceFields) -> None:
    """Set the reference of the local oscillators so that the chip's mixed signals have the phases of the model."""
    for mesh in meshes:
        found, _ = _rows(target, mesh, light)
        fields = mesh.problem.output_fields(mesh_matrix(mesh.problem, mesh.x))
        mesh.oscillator_static = mesh.oscillator_static + np.angle(np.sum(found * fields.conj(), axis=1))


def _gains(found: Floats, wanted: Floats) -> Floats:
    """(rows,) factor of the wanted rows that fits the found ones best; 1 for rows without weights."""
    power = np.sum(wanted**2, axis=1)
    return np.asarray(np.divide(np.sum(found * wanted, axis=1), power, out=np.ones_like(power), where=power > 0.0))


def _retarget(target: LayerTarget, meshes: list[_BlockMesh], light: SourceFields) -> None:
    """Subtract the deviation of the chip from the model from the model's targets."""
    for mesh in meshes:
        mixed, wanted = _rows(target, mesh, light)
        found = mixed.real
        norm = np.linalg.norm(wanted, axis=1, keepdims=True)
        scale = _gains(found, wanted)[:, np.newaxis] * norm
        used = norm > 0.0
        chip = np.divide(found, scale, out=np.zeros_like(found), where=used & (scale != 0.0))
        # rows of the wanted matrix have norm 1 only where all columns are in use
        chip *= np.linalg.norm(mesh.wanted, axis=1, keepdims=True)
        deviation = np.where(used, chip - mesh.realised(), 0.0)
        mesh.problem = replace(mesh.problem, target=mesh.wanted - deviation)


def _balanced(target: LayerTarget, meshes: list[_BlockMesh], light: SourceFields, phases: Floats) -> Floats:
    """Attenuate the pieces of each row into the proportion of their target weights; return (H,) phases."""
    gain = np.full(len(target.pieces), np.inf)
    for mesh in meshes:
        mixed, wanted = _rows(target, mesh, light)
        found = mixed.real
        gain[mesh.pieces] = np.where(np.any(wanted, axis=1), _gains(found, wanted), np.inf)
    weakest = np.minimum.reduceat(gain, target.starts)[target.owner]
    share = np.divide(weakest, gain, out=np.ones_like(gain), where=np.isfinite(gain) & (gain > 0.0))
    changed = phases.copy()
    for mesh in meshes:
        before = mesh.attenuation
        after = 2.0 * np.arcsin(np.clip(share[mesh.pieces] * np.sin(before / 2.0), 0.0, 1.0))
        mesh.attenuation = after
        changed[mesh.attenuator] += after - before
        # an attenuator turns its output by half its phase, which the local oscillator follows
        mesh.oscillator_static = mesh.oscillator_static + (after - before) / 2.0
        changed[mesh.oscillator] += (after - before) / 2.0
    return changed
