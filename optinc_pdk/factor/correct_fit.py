"""Least squares on what local correction leaves: the problem, its gradient, and steps for large meshes.

Unknowns are all phases, x = [theta, phi, output_phase]. The residual is M - U, or, where homodyne detection
reads the real part and electronics scale each row, Re M - diag(s) W with the best s for the present M.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.factor.correct_adjoint import slopes, transmit
from optinc_pdk.factor.correct_light import backward, forward
from optinc_pdk.factor.devices import Devices

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HISTORY = 30
"""Pairs that L-BFGS keeps; 10 take half as many steps again at N = 64."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What to reach with which mesh.

    Attributes:
        devices: The mesh as it was made.
        target: (m, n) complex, or real with ``homodyne``; the other N - m outputs are dumped.
        homodyne: Whether only the real part counts, up to a scale per row.
        inputs: (N, n) complex fields X that come in, the target being M X; those of one mode each, n = N, if
            left out.
    """

    devices: Devices
    target: Complexes | Floats
    homodyne: bool
    inputs: Complexes | None = None

    def seen(self, matrix: Complexes) -> Complexes:
        """(m, n) fields at the outputs of the mesh's matrix."""
        read = matrix[: len(self.target)]
        return read if self.inputs is None else read @ self.inputs

    @property
    def mzis(self) -> int:
        """Number of MZIs."""
        return int(self.devices.row.size)

    def split(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Unknowns as theta, phi and output_phase."""
        return x[: self.mzis], x[self.mzis : 2 * self.mzis], x[2 * self.mzis :]

    @cached_property
    def order(self) -> Ints:
        """The unknowns in the order in which light meets their heaters."""
        column = self.devices.column
        outputs = np.full(self.devices.modes, 2 * self.devices.columns)
        return np.argsort(np.concatenate([2 * column + 1, 2 * column, outputs]), kind="stable")

    def scale(self, seen: Complexes) -> Floats:
        """(m, 1) factors of the target's rows: 1, or with homodyne those that fit the real part best."""
        if not self.homodyne:
            return np.ones((len(self.target), 1))
        power = np.sum(self.target.real**2, axis=1, keepdims=True)
        overlap = np.sum(self.target.real * seen.real, axis=1, keepdims=True)
        scale: Floats = np.divide(overlap, power, out=np.zeros_like(power), where=power > 0.0)
        return scale

    def error(self, matrix: Complexes) -> float:
        """Frobenius norm of the error over that of the target; with homodyne, rows scaled back."""
        seen = self.seen(matrix)
        scale = self.scale(seen)
        back = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale != 0.0)
        missed = back * (seen.real if self.homodyne else seen) - self.target
        return float(np.linalg.norm(missed) / np.linalg.norm(self.target))

    def common_scale(self, matrix: Complexes) -> float:
        """The real factor by which the matrix best is the target; 1 with homodyne, whose rows have their own."""
        if self.homodyne:
            return 1.0
        return float(np.vdot(self.target, self.seen(matrix)).real / np.linalg.norm(self.target) ** 2)

    def shape_error(self, matrix: Complexes) -> float:
        """As :meth:`error`, with the matrix divided by its common scale; infinite where that is not positive."""
        scale = self.common_scale(matrix)
        return self.error(matrix / scale) if scale > 0.0 else float("inf")


@dataclass(frozen=True, eq=False)
class Light:
    """A mesh under light at one set of phases.

    Attributes:
        x: The unknowns.
        matrix: (N, N) complex.
        residual: (m, n); real with homodyne.
        field: (unknowns, N) f of each heater (:mod:`optinc_pdk.factor.correct_light`).
        cost: Squared Frobenius norm of the residual.
    """

    x: Floats
    matrix: Complexes
    residual: Complexes | Floats
    field: Complexes
    cost: float


def illuminate(problem: Problem, x: Floats) -> Light:
    """Sends light through the mesh at phases x, (unknowns,) in rad."""
    theta, phi, output = problem.split(x)
    fields = np.eye(problem.devices.modes, dtype=np.complex128)
    matrix, at_theta, at_phi = forward(problem.devices, theta, phi, fields)
    matrix *= np.exp(1j * output)[:, np.newaxis]
    residual = _missed(problem, matrix)
    cost = float(np.linalg.norm(residual) ** 2)
    return Light(x, matrix, residual, np.concatenate([at_theta, at_phi, matrix]), cost)


def transfer(problem: Problem, light: Light) -> Complexes:
    """(unknowns, m) b of each heater: dM/dx = i b f^T."""
    theta, phi, output = problem.split(light.x)
    read = np.eye(problem.devices.modes, len(problem.target))
    _, at_theta, at_phi = backward(problem.devices, theta, phi, np.exp(1j * output)[:, np.newaxis] * read)
    return np.concatenate([at_theta, at_phi, read])


def gradient(problem: Problem, light: Light) -> Floats:
    """(unknowns,) slope of half the cost, by one pass back with the residual: N^3 work."""
    theta, phi, output = problem.split(light.x)
    missed = _pulled(problem, light.residual)
    _, at_theta, at_phi = backward(problem.devices, theta, phi, np.exp(1j * output)[:, np.newaxis] * missed)
    carried = np.concatenate([at_theta, at_phi, missed])
    slope: Floats = -np.einsum("pi,pi->p", carried, light.field).imag
    return slope


def cost_and_slope(problem: Problem, x: Floats) -> tuple[float, Floats]:
    """Half the cost at phases x, (unknowns,) in rad, and its slope: compiled, and without the fields inside."""
    devices, (theta, phi, output) = problem.devices, problem.split(x)
    turned = np.exp(1j * output)[:, np.newaxis]
    light = transmit(devices, theta, phi, np.eye(devices.modes, dtype=np.complex128))
    matrix = turned * light
    residual = _missed(problem, matrix)
    rows = _pulled(problem, residual)
    by_theta, by_phi = slopes(devices, theta, phi, light, turned * rows)
    by_output = -np.sum(rows * matrix, axis=1).imag
    return 0.5 * float(np.linalg.norm(residual) ** 2), np.concatenate([by_theta, by_phi, by_output])


def _missed(problem: Problem, matrix: Complexes) -> Complexes | Floats:
    """(m, n) what the matrix makes less what it should; real with homodyne."""
    seen = problem.seen(matrix)
    missed: Complexes | Floats = (seen.real if problem.homodyne else seen) - problem.scale(seen) * problem.target
    return missed


def _pulled(problem: Problem, residual: Complexes | Floats) -> Complexes:
    """(N, N) what multiplies the matrix's changes in those of half the cost, whose real part counts."""
    read = residual.conj()
    pulled = np.zeros((problem.devices.modes,) * 2, dtype=np.complex128)
    pulled[: len(read)] = read if problem.inputs is None else read @ problem.inputs.T
    return pulled


def fit_lbfgs(problem: Problem, x: Floats, steps: int) -> tuple[Floats, int]:
    """Quasi-Newton steps: little memory, slow at the end; for meshes too large for :mod:`correct_newton`.

    Args:
        problem: What to reach.
        x: (unknowns,) start, in rad.
        steps: At most so many.

    Returns:
        (unknowns,) phases in rad, not wrapped, and the steps taken.
    """
    from scipy.optimize import minimize

    # L-BFGS-B stops at an absolute decrease; errors of 1e-8 and less have to be seen, of weak light too.
    theta, phi, _ = problem.split(x)
    matrix = transmit(problem.devices, theta, phi, np.eye(problem.devices.modes, dtype=np.complex128))
    power = float(f"{np.linalg.norm(matrix) ** 2 / problem.devices.modes:.3g}")
    blown = 1e6 / power

    def cost(y: Floats) -> tuple[float, Floats]:
        half, slope = cost_and_slope(problem, y)
        return blown * half, blown * slope

    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": HISTORY, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(cost, x, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64), int(found.nit)
