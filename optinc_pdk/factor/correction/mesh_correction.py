"""Correction of one imperfect mesh: local correction, then a least-squares fit of the remaining error.

Errors are Frobenius norms relative to that of the target. For an orthogonal or unitary target this is the matrix
error e of a random W + e |W|_2 G / sqrt(n), G standard normal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix, is_real
from optinc_pdk.factor.correction.ideal_phases import ideal_phases, unitary_completion
from optinc_pdk.factor.correction.least_squares import CorrectionProblem, MeshEvaluation, evaluate, fit_lbfgs
from optinc_pdk.factor.correction.local_correction import correct_locally
from optinc_pdk.factor.correction.newton import fit_newton
from optinc_pdk.factor.devices import MeshDevices
from optinc_pdk.factor.mesh import wrap
from optinc_pdk.factor.nulling import UNITARITY_LIMIT

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

NEWTON_UNTIL = 9500
"""Unknowns up to which Newton steps fit in 1 GB; meshes of more than 97 modes use L-BFGS."""
STEPS = 60
"""Factorisations of Newton's method: at N = 64 the error then falls by less than 1 % a step."""
LBFGS_STEPS_PER_NEWTON = 50
"""L-BFGS steps that cost about as much as one Newton step."""
CLIPPED_SHARE = 0.1
"""Share of clipped MZIs above which a second fit starts elsewhere. A random unitary at 2 % clips some 1 %."""
RESTART_DISTANCE_RAD = 0.5
"""rms distance of that start from local correction: 0.3 is not always enough, 1 rad may converge far away."""
PATIENCE = 10
"""Small steps in a row that end the second fit."""


@dataclass(frozen=True, eq=False)
class Correction:
    """Phases of an imperfect mesh, and the errors before and after each stage of correction.

    Attributes:
        theta: (MZIs,) phases of the inner heaters in rad, in [0, 2 pi), in the order of the devices' MZIs.
        phi: (MZIs,) phases of the input heaters in rad, in [0, 2 pi), in the same order.
        output_phase: (N,) output phases in rad, in [0, 2 pi).
        matrix: (N, N) complex transfer matrix of the mesh with these phases.
        row_scale: One factor per row of the target: the real part of the matrix row is this factor times the target
            row. The electronics divide by it. All factors are 1 if the target is complex.
        error_before: Relative error with the phases of an ideal mesh.
        error_local: Relative error after local correction.
        error: Relative error after the least-squares fit.
        clipped: Number of MZIs for which local correction cannot reach the ideal splitting.
        steps: Number of least-squares steps, summed over both fits if there were two.
        scale: Real factor s for which s · target fits the matrix best; below 1 if light is lost, 1 if there are row
            scales.
        shape_error: Relative error of the matrix divided by ``scale``, so that a common loss does not count. It never
            exceeds its value after local correction. ``error`` includes the loss.
    """

    theta: Floats
    phi: Floats
    output_phase: Floats
    matrix: Complexes
    row_scale: Floats
    error_before: float
    error_local: float
    error: float
    clipped: int
    steps: int
    scale: float
    shape_error: float


def correct(U: ArrayLike, devices: MeshDevices, *, steps: int = STEPS, seed: int = 0) -> Correction:
    """Finds the phases with which an imperfect mesh best realises a unitary.

    Identity, diagonal, permutation and block-diagonal targets need many MZIs in the full bar or cross state. Local
    correction clips these MZIs. This is a saddle point, where the gradient vanishes although the error can decrease.
    If more than a tenth of the MZIs are clipped, a second fit starts from a random point away from the saddle, and the
    better of both results is returned. The second fit does not improve the reversal of the modes, which needs every
    MZI in the cross state.

    For a mesh with loss, the target of the fit is U times the mean field transmission after local correction: the
    electronics compensate a common real scale, and phases cannot recover lost light.

    Args:
        U: (N, N) unitary.
        devices: The imperfect mesh, rectangular or triangular, with or without redundant columns.
        steps: Largest number of Newton factorisations; 0 for local correction only. Meshes of more than 97 modes use
            50 times as many L-BFGS steps instead. A second fit may take three times as many steps.
        seed: Seed of the phases of redundant columns and of the starting point of a second fit.

    Returns:
        The phases, the matrix of the mesh with these phases, and the errors.

    Raises:
        ValueError: U is not a unitary of the mesh's size, steps is negative, or the devices form neither a
            rectangular nor a triangular mesh.
    """
    check_steps(steps)
    target = as_matrix("U", U).astype(np.complex128)
    _check_size("U", target, devices)
    rng = np.random.default_rng(seed)
    start = ideal_phases(target, devices, rng)
    return fit(CorrectionProblem(devices, target, homodyne=False), start, steps, rng)


def correct_homodyne(
    W: ArrayLike, devices: MeshDevices, *, amplitude: float = 0.9, steps: int = STEPS, seed: int = 0
) -> Correction:
    """Finds the phases with which the real part of an imperfect mesh best realises an orthogonal matrix.

    The starting point is the unitary M = W (a + i sqrt(1 - a^2) Q) with a random symmetric orthogonal Q; its real part
    is a W. With a = 1 the imaginary part would be zero and M fixed. With a < 1 the choice of Q leaves N^2 / 4 free
    parameters, and the MZI phases are distributed as for a random unitary, so the fit avoids the bar and cross states
    that imperfect couplers cannot reach. The signal power falls to a^2.

    Args:
        W: (N, N) real orthogonal.
        devices: The imperfect mesh, rectangular or triangular, with or without redundant columns.
        amplitude: a of the starting point, above 0 and at most 1; the fit may change it for each row (``row_scale``).
        steps: Largest number of Newton factorisations, see :func:`correct`.
        seed: Seed of Q, of the phases of redundant columns and of the starting point of a second fit.

    Returns:
        The phases, the matrix of the mesh with these phases, the row scales and the errors.

    Raises:
        ValueError: W is not a real orthogonal matrix of the mesh's size, amplitude or steps are out of range, or the
            devices form neither a rectangular nor a triangular mesh.
    """
    check_steps(steps)
    check_amplitude(amplitude)
    target = as_matrix("W", W)
    if target.dtype.kind == "c":
        raise ValueError("W is complex; homodyne detection reads real weights, use correct for a unitary")
    _check_size("W", target, devices)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = float(np.max(np.abs(target.T @ target - np.eye(devices.modes))))
    if not deviation <= UNITARITY_LIMIT:
        raise ValueError(
            f"W is not orthogonal: max|W^T W - I| is {deviation:.3g}, at most {UNITARITY_LIMIT:g} is allowed; use "
            "correct_layer for a general matrix"
        )
    rng = np.random.default_rng(seed)
    start = ideal_phases(unitary_completion(target, amplitude, rng), devices, rng)
    return fit(CorrectionProblem(devices, target, homodyne=True), start, steps, rng)


def fit(problem: CorrectionProblem, ideal: Floats, steps: int, rng: np.random.Generator) -> Correction:
    """Corrects the phases of ideal devices for imperfect ones: local correction, then least squares.

    Args:
        problem: Mesh and target.
        ideal: (unknowns,) phases with which ideal devices realise the target, in rad.
        steps: Largest number of Newton factorisations, see :func:`correct`.
        rng: Source of the random starting point of a second fit.

    Returns:
        The corrected phases and the errors.
    """
    before = evaluate(problem, ideal)
    local, clipped = _local(problem, ideal)
    attenuated = _attenuated_target(problem, local)
    x, taken = _least_squares(attenuated, local.x, steps, patience=1)
    results = [local, evaluate(problem, wrap(x))]
    if np.count_nonzero(clipped) > CLIPPED_SHARE * clipped.size:
        restart = local.x + RESTART_DISTANCE_RAD * rng.standard_normal(local.x.size)
        x, more = _least_squares(attenuated, restart, 3 * steps, PATIENCE)
        results.append(evaluate(problem, wrap(x)))
        taken += more
    # The reported error divides every row by its scale, the fit's cost does not: compare by the reported one.
    after = min(results, key=lambda light: problem.shape_error(light.matrix))
    theta, phi, output = problem.split(after.x)
    return Correction(
        theta=theta,
        phi=phi,
        output_phase=output,
        matrix=after.matrix,
        row_scale=problem.scale(problem.output_fields(after.matrix))[:, 0],
        error_before=problem.error(before.matrix),
        error_local=problem.error(local.matrix),
        error=problem.error(after.matrix),
        clipped=int(np.count_nonzero(clipped)),
        steps=taken,
        scale=problem.common_scale(after.matrix),
        shape_error=problem.shape_error(after.matrix),
    )


def _attenuated_target(problem: CorrectionProblem, local: MeshEvaluation) -> CorrectionProblem:
    """The problem with the target scaled to the transmission of local correction; homodyne has its row scales."""
    if problem.homodyne:
        return problem
    transmission = np.linalg.norm(problem.output_fields(local.matrix)) / np.linalg.norm(problem.target)
    # Rounded, so that a mesh without loss aims at the target itself.
    return replace(problem, target=round(float(transmission), 12) * problem.target)


def local_error(problem: CorrectionProblem, ideal: Floats) -> float:
    """Computes the relative error after local correction; ``ideal`` as for :func:`fit`."""
    return problem.error(_local(problem, ideal)[0].matrix)


def _local(problem: CorrectionProblem, ideal: Floats) -> tuple[MeshEvaluation, NDArray[np.bool_]]:
    """The mesh after local correction, and which MZIs are clipped."""
    theta, phi, output, clipped = correct_locally(problem.devices, *problem.split(ideal))
    return evaluate(problem, np.concatenate([theta, phi, output])), clipped


def _least_squares(problem: CorrectionProblem, x: Floats, steps: int, patience: int) -> tuple[Floats, int]:
    if x.size <= NEWTON_UNTIL:
        return fit_newton(problem, x, steps, patience)
    return fit_lbfgs(problem, x, LBFGS_STEPS_PER_NEWTON * steps)


def check_steps(steps: int) -> None:
    """Raises ValueError unless steps is a whole number, 0 or more."""
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
        raise ValueError(f"steps is {steps!r}; give a whole number, 0 or more")


def check_amplitude(amplitude: float) -> None:
    """Raises ValueError unless amplitude is a real number above 0 and at most 1."""
    if not is_real(amplitude) or not 0.0 < amplitude <= 1.0:
        raise ValueError(f"amplitude is {amplitude!r}; give a share of the field above 0 and at most 1")


def _check_size(name: str, target: NDArray[np.generic], devices: MeshDevices) -> None:
    if target.shape != (devices.modes, devices.modes):
        raise ValueError(f"{name} has shape {target.shape}; these devices realise {(devices.modes,) * 2}")
