"""Least-squares fit of an imperfect mesh's phases: the problem, its cost and gradient, and L-BFGS.

Unknowns are all phases, x = [theta, phi, output_phase]. The residual is M - U, or, where homodyne detection reads the
real part and electronics scale each row, Re M - diag(s) W with the best s for the current M. There, the quadrature Im M
may be minimised as well, with a weight: phase errors of the sources turn it into the signal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.factor.correction.adjoint import phase_gradients, transmit
from optinc_pdk.factor.devices import MeshDevices

HISTORY = 30
"""Correction pairs that L-BFGS stores; with 10 it takes 1.5 times as many steps at N = 64."""


@dataclass(frozen=True, eq=False)
class CorrectionProblem:
    """Least-squares problem: an imperfect mesh with matrix M, and the target that its phases are fitted to.

    The unknowns x are all phases, (2 MZIs + N,) in rad: theta, phi and output phases.

    Attributes:
        devices: The imperfect mesh, N modes.
        target: (m, n) target for the first m rows of M X, complex, or real with ``homodyne``; the other N - m outputs
            are dumped.
        homodyne: Whether only the real part of the fields is compared with the target, up to a scale per row.
        inputs: (N, n) complex input fields X; None stands for the identity matrix, n = N.
        quadrature_weight: With ``homodyne``, weight of the imaginary part of the fields in the residual.
    """

    devices: MeshDevices
    target: Complexes | Floats
    homodyne: bool
    inputs: Complexes | None = None
    quadrature_weight: float = 0.0

    def output_fields(self, matrix: Complexes) -> Complexes:
        """Returns the (m, n) fields at the outputs that are read, if the mesh has the (N, N) complex ``matrix``."""
        rows = matrix[: len(self.target)]
        return rows if self.inputs is None else rows @ self.inputs

    @property
    def mzis(self) -> int:
        """Number of MZIs."""
        return int(self.devices.row.size)

    def split(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Splits the unknowns into (MZIs,) theta, (MZIs,) phi and (N,) output phases, in rad."""
        return x[: self.mzis], x[self.mzis : 2 * self.mzis], x[2 * self.mzis :]

    def scale(self, fields: Complexes) -> Floats:
        """Returns (m, 1) factors of the target's rows, with which the target is compared with the fields.

        The factors are 1, or with ``homodyne`` the least-squares fit to the real part of the (m, n) ``fields``.
        """
        if not self.homodyne:
            return np.ones((len(self.target), 1))
        power = np.sum(self.target.real**2, axis=1, keepdims=True)
        overlap = np.sum(self.target.real * fields.real, axis=1, keepdims=True)
        scale: Floats = np.divide(overlap, power, out=np.zeros_like(power), where=power > 0.0)
        return scale

    def error(self, matrix: Complexes) -> float:
        """Returns the Frobenius norm of the error relative to that of the target.

        With ``homodyne`` each row of the fields is divided by its scale first.

        Args:
            matrix: (N, N) complex matrix of the mesh.
        """
        fields = self.output_fields(matrix)
        scale = self.scale(fields)
        gain = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale != 0.0)
        deviation = gain * (fields.real if self.homodyne else fields) - self.target
        return float(np.linalg.norm(deviation) / np.linalg.norm(self.target))

    def common_scale(self, matrix: Complexes) -> float:
        """Returns the real factor s for which s · target fits the fields of the (N, N) matrix best; 1 if homodyne."""
        if self.homodyne:
            return 1.0
        return float(np.vdot(self.target, self.output_fields(matrix)).real / np.linalg.norm(self.target) ** 2)

    def shape_error(self, matrix: Complexes) -> float:
        """Returns the :meth:`error` of matrix / common scale, (N, N); infinite if the scale is not positive."""
        scale = self.common_scale(matrix)
        return self.error(matrix / scale) if scale > 0.0 else float("inf")


def mesh_matrix(problem: CorrectionProblem, x: Floats) -> Complexes:
    """Computes the (N, N) complex matrix of the mesh, with output phases, at phases x, (unknowns,) in rad."""
    theta, phi, output = problem.split(x)
    light = transmit(problem.devices, theta, phi, np.eye(problem.devices.modes, dtype=np.complex128))
    return np.asarray(np.exp(1j * output)[:, np.newaxis] * light)


def cost_and_gradient(problem: CorrectionProblem, x: Floats) -> tuple[float, Floats]:
    """Computes half the cost and its gradient with compiled loops that do not store the fields at the heaters.

    Args:
        problem: Mesh and target.
        x: (unknowns,) phases in rad.

    Returns:
        Half the squared Frobenius norm of the residual, and its (unknowns,) derivatives per rad.
    """
    devices, (theta, phi, output) = problem.devices, problem.split(x)
    output_phasors = np.exp(1j * output)[:, np.newaxis]
    light = transmit(devices, theta, phi, np.eye(devices.modes, dtype=np.complex128))
    matrix = output_phasors * light
    residual = _residual(problem, matrix)
    rows = _adjoint_rows(problem, residual)
    by_theta, by_phi = phase_gradients(devices, theta, phi, light, output_phasors * rows)
    by_output = -np.sum(rows * matrix, axis=1).imag
    return 0.5 * float(np.linalg.norm(residual) ** 2), np.concatenate([by_theta, by_phi, by_output])


def _residual(problem: CorrectionProblem, matrix: Complexes) -> Complexes | Floats:
    """(m, n) output fields minus the scaled target; with homodyne the real part, and i times weighted quadrature."""
    fields = problem.output_fields(matrix)
    if not problem.homodyne:
        return np.asarray(fields - problem.target)
    real: Floats = fields.real - problem.scale(fields) * problem.target.real
    return real + 1j * problem.quadrature_weight * fields.imag if problem.quadrature_weight else real


def _adjoint_rows(problem: CorrectionProblem, residual: Complexes | Floats) -> Complexes:
    """(N, N) derivative of half the cost by the matrix: the change of the cost is Re sum(rows * dM)."""
    conjugate = residual.conj()
    if problem.quadrature_weight:
        conjugate = conjugate.real + 1j * problem.quadrature_weight * conjugate.imag
    rows = np.zeros((problem.devices.modes,) * 2, dtype=np.complex128)
    rows[: len(conjugate)] = conjugate if problem.inputs is None else conjugate @ problem.inputs.T
    return rows


def fit_lbfgs(problem: CorrectionProblem, x: Floats, steps: int) -> tuple[Floats, int]:
    """Fits the phases by L-BFGS, which needs little memory and converges slowly at the end.

    Args:
        problem: Mesh and target.
        x: (unknowns,) starting phases in rad.
        steps: Largest number of steps.

    Returns:
        (unknowns,) phases in rad, not wrapped to [0, 2 pi), and the number of steps taken.
    """
    from scipy.optimize import minimize

    # L-BFGS-B stops at an absolute decrease of the cost: scale it so that errors of 1e-8 count, also with weak light.
    theta, phi, _ = problem.split(x)
    matrix = transmit(problem.devices, theta, phi, np.eye(problem.devices.modes, dtype=np.complex128))
    power = float(f"{np.linalg.norm(matrix) ** 2 / problem.devices.modes:.3g}")
    magnification = 1e6 / power

    def cost(y: Floats) -> tuple[float, Floats]:
        half, slope = cost_and_gradient(problem, y)
        return magnification * half, magnification * slope

    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": HISTORY, "ftol": 1e-14, "gtol": 1e-9}
    result = minimize(cost, x, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(result.x, dtype=np.float64), int(result.nit)
