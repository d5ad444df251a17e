"""Phases for a mesh as it was made: local correction, then least squares on what is left.

Errors are Frobenius norms over that of the target. For an orthogonal or unitary target this is the matrix
error of a random W + e |W|_2 G / sqrt(n), G standard normal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.factor.checks import as_matrix, is_real
from optinc_pdk.factor.correct_fit import Light, Problem, fit_lbfgs, illuminate
from optinc_pdk.factor.correct_local import correct_locally
from optinc_pdk.factor.correct_newton import fit_newton
from optinc_pdk.factor.devices import Devices
from optinc_pdk.factor.mesh import TWO_PI, Mesh, mzi_transfer, wrap
from optinc_pdk.factor.nulling import UNITARITY_LIMIT
from optinc_pdk.factor.rectangular import rectangular
from optinc_pdk.factor.triangular import triangular

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

NEWTON_UNTIL = 9500
"""Unknowns up to which Newton steps fit in 1 GB; meshes of more than 97 modes take L-BFGS."""
STEPS = 60
"""Newton's factorizations: the error at N = 64 falls by less than 1 % a step by then."""
LBFGS_STEPS_PER_NEWTON = 50
"""L-BFGS steps that cost about as much as one of Newton's."""
CORNERED = 0.1
"""Share of clipped MZIs above which a second fit starts elsewhere. A random unitary at 2 % clips some 1 %."""
AWAY_RAD = 0.5
"""rms distance of that start from local correction: 0.3 is not always enough, 1 rad may end far away."""
PATIENCE = 10
"""Small steps in a row that end the second fit."""


@dataclass(frozen=True, eq=False)
class Correction:
    """Phases of an imperfect mesh and the errors on the way.

    Attributes:
        theta: (MZIs,) in rad, in [0, 2 pi); the MZIs are those of the devices, in their order.
        phi: (MZIs,) the same.
        output_phase: (N,) the same.
        matrix: (N, N) complex, what the mesh makes of them.
        row_scale: (N,) factors of the target's rows that the matrix, or its real part, realizes; 1 where the
            whole matrix counts. Electronics divide by them.
        error_before: With the phases of an ideal mesh.
        error_local: After local correction.
        error: After least squares.
        clipped: MZIs whose splitting was out of reach of local correction.
        steps: Steps of the least squares, of both fits where there were two.
        scale: Common real factor by which the matrix best is the target, below 1 where light is lost; 1 where
            rows have their own.
        shape_error: As ``error``, with the matrix divided by ``scale`` first: what electronics that carry the
            scale see. It never exceeds that of local correction; ``error`` holds the lost light too.
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


def correct(U: ArrayLike, devices: Devices, *, steps: int = STEPS, seed: int = 0) -> Correction:
    """The phases with which an imperfect mesh best realizes a unitary.

    Identity, diagonal, permutation and block-diagonal targets want many MZIs wholly bar or cross. Local
    correction clips those, and there the gradient vanishes: a saddle, as an MZI at its limit may turn either
    way. Where more than a tenth of the MZIs are clipped a second fit starts away from it, and the better one
    counts. What only all MZIs at cross can make, the reversal of the modes, has no other place to go.

    With loss the fit aims at the target times the field transmission that local correction finds: a common
    real scale is carried by electronics, and no phases bring lost light back.

    Args:
        U: (N, N) unitary.
        devices: The mesh as it was made, rectangular or triangular, perhaps with redundant columns.
        steps: Matrices that Newton's method factors at most; 0 for local correction alone. Beyond 97 modes
            50 times as many of L-BFGS. A second fit gets three times as many.
        seed: Draws the start of redundant columns and that of a second fit; else nothing is drawn.

    Raises:
        ValueError: U is not a unitary of the mesh's size, steps is negative, or the devices are no
            rectangular or triangular mesh.
    """
    refuse_steps(steps)
    target = as_matrix("U", U).astype(np.complex128)
    _refuse_size("U", target, devices)
    rng = np.random.default_rng(seed)
    start = ideal_phases(target, devices, rng)
    return fit(Problem(devices, target, homodyne=False), start, steps, rng)


def correct_homodyne(
    W: ArrayLike, devices: Devices, *, amplitude: float = 0.9, steps: int = STEPS, seed: int = 0
) -> Correction:
    """The phases with which the real part of an imperfect mesh best realizes an orthogonal matrix.

    A unitary whose real part is orthogonal has no imaginary part, so nothing is free at full amplitude. With
    a < 1 every M = W (a + i sqrt(1 - a^2) Q), Q symmetric and orthogonal, has the real part a W: N^2 / 4
    parameters are free, its MZIs are as generic as those of a random unitary, and the fit ends elsewhere than
    in the corners that imperfect couplers cannot reach. The price is a^2 of the signal's power.

    Args:
        W: (N, N) real orthogonal.
        devices: The mesh as it was made, rectangular or triangular, perhaps with redundant columns.
        amplitude: a at the start, above 0 and at most 1; the fit may change it row by row (``row_scale``).
        steps: As for :func:`correct`.
        seed: Draws Q and the start of redundant columns.

    Raises:
        ValueError: W is not a real orthogonal matrix of the mesh's size, amplitude or steps are out of range,
            or the devices are no rectangular or triangular mesh.
    """
    refuse_steps(steps)
    refuse_amplitude(amplitude)
    target = as_matrix("W", W)
    if target.dtype.kind == "c":
        raise ValueError("W is complex; homodyne detection reads real weights, use correct for a unitary")
    _refuse_size("W", target, devices)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = float(np.max(np.abs(target.T @ target - np.eye(devices.modes))))
    if not deviation <= UNITARITY_LIMIT:
        raise ValueError(
            f"W is not orthogonal: max|W^T W - I| is {deviation:.3g}, at most {UNITARITY_LIMIT:g} is allowed; use "
            "correct_layer for a general matrix"
        )
    rng = np.random.default_rng(seed)
    start = ideal_phases(completed(target, amplitude, rng), devices, rng)
    return fit(Problem(devices, target, homodyne=True), start, steps, rng)


def fit(problem: Problem, ideal: Floats, steps: int, rng: np.random.Generator) -> Correction:
    """Local correction of the phases of ideal devices, (unknowns,) in rad, then least squares."""
    before = illuminate(problem, ideal)
    local, clipped = _local(problem, ideal)
    aim = _within_reach(problem, local)
    x, taken = _least_squares(aim, local.x, steps, patience=1)
    found = [local, illuminate(problem, wrap(x))]
    if np.count_nonzero(clipped) > CORNERED * clipped.size:
        away = local.x + AWAY_RAD * rng.standard_normal(local.x.size)
        x, more = _least_squares(aim, away, 3 * steps, PATIENCE)
        found.append(illuminate(problem, wrap(x)))
        taken += more
    # Rows of homodyne count alike when they are scaled back, not as the fit sees them.
    after = min(found, key=lambda light: problem.shape_error(light.matrix))
    theta, phi, output = problem.split(after.x)
    return Correction(
        theta=theta,
        phi=phi,
        output_phase=output,
        matrix=after.matrix,
        row_scale=problem.scale(problem.seen(after.matrix))[:, 0],
        error_before=problem.error(before.matrix),
        error_local=problem.error(local.matrix),
        error=problem.error(after.matrix),
        clipped=int(np.count_nonzero(clipped)),
        steps=taken,
        scale=problem.common_scale(after.matrix),
        shape_error=problem.shape_error(after.matrix),
    )


def _within_reach(problem: Problem, local: Light) -> Problem:
    """The problem with the target as weak as the light that comes through; homodyne has its row scales."""
    if problem.homodyne:
        return problem
    through = np.linalg.norm(problem.seen(local.matrix)) / np.linalg.norm(problem.target)
    # Rounded, so that a mesh without loss aims at the target itself.
    return replace(problem, target=round(float(through), 12) * problem.target)


def local_error(problem: Problem, ideal: Floats) -> float:
    """Error after local correction of the phases of ideal devices, (unknowns,) in rad."""
    return problem.error(_local(problem, ideal)[0].matrix)


def _local(problem: Problem, ideal: Floats) -> tuple[Light, NDArray[np.bool_]]:
    theta, phi, output, clipped = correct_locally(problem.devices, *problem.split(ideal))
    return illuminate(problem, np.concatenate([theta, phi, output])), clipped


def _least_squares(problem: Problem, x: Floats, steps: int, patience: int) -> tuple[Floats, int]:
    if x.size <= NEWTON_UNTIL:
        return fit_newton(problem, x, steps, patience)
    return fit_lbfgs(problem, x, LBFGS_STEPS_PER_NEWTON * steps)


def ideal_phases(target: Complexes, devices: Devices, rng: np.random.Generator) -> Floats:
    """(unknowns,) phases with which ideal devices make the target.

    Redundant columns are drawn, theta around pi/2 where couplers matter least, and the rectangle or triangle
    before them makes what is then left.
    """
    program = _arrangement(devices)
    width = int(program(np.eye(devices.modes)).column.max(initial=-1)) + 1
    redundant = devices.column >= width
    extra = np.count_nonzero(redundant)
    theta, phi = np.zeros(devices.row.size), np.zeros(devices.row.size)
    theta[redundant] = rng.uniform(0.25 * np.pi, 0.75 * np.pi, extra)
    phi[redundant] = rng.uniform(0.0, TWO_PI, extra)
    left = target.conj().T
    for number in range(devices.columns - 1, width - 1, -1):
        mzis = np.flatnonzero(devices.column == number)
        blocks = mzi_transfer(theta[mzis], phi[mzis])
        upper = devices.row[mzis]
        pairs = np.stack([left[:, upper], left[:, upper + 1]], axis=-1)
        left[:, upper], left[:, upper + 1] = np.moveaxis(np.einsum("nmo,moi->nmi", pairs, blocks), -1, 0)
    mesh = program(left.conj().T)
    place = _places(mesh, devices)
    theta[place], phi[place] = mesh.theta, mesh.phi
    output = mesh.output_phase
    for number in range(width, devices.columns):
        # Phases in front of a column move into its phi; both its outputs then carry the lower one's.
        mzis = np.flatnonzero(devices.column == number)
        upper = devices.row[mzis]
        phi[mzis] += output[upper] - output[upper + 1]
        output = output.copy()
        output[upper] = output[upper + 1]
    return np.concatenate([wrap(theta), wrap(phi), wrap(output)])


def _arrangement(devices: Devices) -> Callable[[ArrayLike], Mesh]:
    """The decomposition whose MZIs are the first columns of the devices."""
    made = set(zip(devices.row.tolist(), devices.column.tolist(), strict=True))
    for program in (rectangular, triangular):
        mesh = program(np.eye(devices.modes))
        wanted = set(zip(mesh.row.tolist(), mesh.column.tolist(), strict=True))
        width = int(mesh.column.max(initial=-1)) + 1
        if wanted == {place for place in made if place[1] < width}:
            return program
    raise ValueError(
        f"devices, {devices.row.size} MZIs on {devices.modes} modes, start with neither a rectangular nor a "
        "triangular mesh; make them from a mesh of rectangular or triangular"
    )


def _places(mesh: Mesh, devices: Devices) -> NDArray[np.int64]:
    """(MZIs of the mesh,) where the devices of each MZI are."""
    at = {place: index for index, place in enumerate(zip(devices.row.tolist(), devices.column.tolist(), strict=True))}
    wanted = zip(mesh.row.tolist(), mesh.column.tolist(), strict=True)
    return np.array([at[place] for place in wanted], dtype=np.int64)


def completed(W: Floats, amplitude: float, rng: np.random.Generator) -> Complexes:
    """(N, N) a unitary with the real part amplitude W."""
    modes = W.shape[0]
    axes, _ = np.linalg.qr(rng.standard_normal((modes, modes)))
    signs = np.where(np.arange(modes) % 2 == 0, 1.0, -1.0)
    symmetric = (axes * signs) @ axes.T
    rest = np.sqrt(1.0 - amplitude**2)
    unitary: Complexes = W @ (amplitude * np.eye(modes) + 1j * rest * symmetric)
    return unitary


def refuse_steps(steps: int) -> None:
    """Raises ValueError unless steps is a whole number, 0 or more."""
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
        raise ValueError(f"steps is {steps!r}; give a whole number, 0 or more")


def refuse_amplitude(amplitude: float) -> None:
    """Raises ValueError unless amplitude is above 0 and at most 1."""
    if not is_real(amplitude) or not 0.0 < amplitude <= 1.0:
        raise ValueError(f"amplitude is {amplitude!r}; give a share of the field above 0 and at most 1")


def _refuse_size(name: str, target: NDArray[np.generic], devices: Devices) -> None:
    if target.shape != (devices.modes, devices.modes):
        raise ValueError(f"{name} has shape {target.shape}; these devices make {(devices.modes,) * 2}")
