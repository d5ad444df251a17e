"""Phases for meshes with imperfect devices.

:func:`correct_locally` sets each MZI to the transfer of the ideal one. With couplers that are not 50:50 an MZI reaches
field splittings from |cos(first + second)| to |cos(first - second)| only; outside this range it is clipped.
Source: Bandyopadhyay, Hamerly, Englund, Optica 8, 1247 (2021), arXiv 2103.04993.

:func:`fit_lbfgs` then fits all phases of a mesh by least squares, :func:`fit_chain` those of a chain: a mesh,
attenuators and a second mesh, or one mesh alone, with the matrix M = diag(e^{i output}) U A V. A has the field
transmissions sin(x / 2) e^{i (x - x0) / 2} of attenuators at the phase differences x of their arms, with x0 at the
start. Gradients take one pass through each mesh (:func:`optinc_pdk.factor.mesh_devices.phase_gradients`), so that work
grows as N^3 and memory as N^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Floats
from optinc_pdk.factor.mesh import Mesh, mzi_transfer, wrap
from optinc_pdk.factor.mesh_devices import MeshDevices, phase_gradients, transmit
from optinc_pdk.factor.mesh_shape import shape_of

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


def correct_locally(
    devices: MeshDevices, theta: Floats, phi: Floats, output_phase: Floats
) -> tuple[Floats, Floats, Floats, Bools]:
    """Compute the phases with which every MZI of an imperfect mesh is as close as possible to the ideal MZI.

    Args:
        devices: The imperfect mesh.
        theta: (MZIs,) phases of the inner heaters of the ideal mesh in rad.
        phi: (MZIs,) phases of the input heaters of the ideal mesh in rad.
        output_phase: (N,) output phases of the ideal mesh in rad.

    Returns:
        The three phases for the imperfect mesh in [0, 2 pi), and (MZIs,) whether an MZI cannot reach the ideal
        splitting and was set to the nearest one.
    """
    new_theta, clipped = _splitting(devices, theta)
    bare = _bare(devices, new_theta)
    ideal = mzi_transfer(theta, np.zeros_like(theta))
    # Both rows give the same phi where no power is lost; their sum is defined even where one row is zero.
    overlap = bare[:, :, 0].conj() * bare[:, :, 1] * ideal[:, :, 0] * ideal[:, :, 1].conj()
    shift = np.angle(overlap.sum(axis=1))
    shifted = bare.copy()
    shifted[:, :, 0] *= np.exp(1j * shift)[:, np.newaxis]
    # With phi + shift the imperfect MZI is diag(e^{i output_shift}) times the ideal one.
    output_shift = np.angle(np.sum(shifted * ideal.conj(), axis=2))
    error = np.zeros(devices.modes)
    new_phi = phi + shift - devices.phi_offset
    for mzis, upper, _ in devices.schedule:
        above, below = error[upper], error[upper + 1]
        new_phi[mzis] -= above - below
        error[upper], error[upper + 1] = below + output_shift[mzis, 0], below + output_shift[mzis, 1]
    return wrap(new_theta - devices.theta_offset), wrap(new_phi), wrap(output_phase - error), clipped


def _splitting(devices: MeshDevices, theta: Floats) -> tuple[Floats, Bools]:
    """(MZIs,) arms' phase difference in [0, pi] with the bar power sin^2(theta/2), clipped, and which were clipped."""
    cos1, sin1, cos2, sin2 = (f(x) for x in (devices.first, devices.second) for f in (np.cos, np.sin))
    hot, cold = devices.inner[:, 0], devices.inner[:, 1]
    # |bar|^2 = a^2 + b^2 - 2 a b cos, |cross|^2 = c^2 + d^2 + 2 c d cos.
    a, b, c, d = hot * cos1 * cos2, cold * sin1 * sin2, hot * cos1 * sin2, cold * sin1 * cos2
    bar = np.sin(theta / 2.0) ** 2
    offset = (1.0 - bar) * (a**2 + b**2) - bar * (c**2 + d**2)
    swing = 2.0 * ((1.0 - bar) * a * b + bar * c * d)
    safe = np.maximum(np.abs(swing), np.finfo(np.float64).tiny)
    cosine = np.where(swing >= 0.0, offset, -offset) / safe
    return np.arccos(np.clip(cosine, -1.0, 1.0)), np.abs(cosine) > 1.0 + 1e-12


def _bare(devices: MeshDevices, inner_phase: Floats) -> Complexes:
    """(MZIs, 2, 2) transfer of the imperfect MZIs with phi + phi_offset = 0."""
    cos1, sin1, cos2, sin2 = (f(x) for x in (devices.first, devices.second) for f in (np.cos, np.sin))
    hot, cold = devices.inner[:, 0] * np.exp(1j * inner_phase), devices.inner[:, 1]
    hot_in, cold_in = devices.outer[:, 0], devices.outer[:, 1]
    bare = np.empty((hot.size, 2, 2), dtype=np.complex128)
    bare[:, 0, 0] = hot_in * (hot * cos1 * cos2 - cold * sin1 * sin2)
    bare[:, 0, 1] = 1j * cold_in * (hot * sin1 * cos2 + cold * cos1 * sin2)
    bare[:, 1, 0] = 1j * hot_in * (hot * cos1 * sin2 + cold * sin1 * cos2)
    bare[:, 1, 1] = cold_in * (cold * cos1 * cos2 - hot * sin1 * sin2)
    return bare


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
        """Return the (m, n) fields at the outputs that are read, for the (N, N) complex matrix of the mesh."""
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
        """Return (m, 1) factors of the target's rows, with which it is compared with the (m, n) fields.

        They are 1, or with ``homodyne`` the least-squares fit to the real part of the fields.
        """
        if not self.homodyne:
            return np.ones((len(self.target), 1))
        power = np.sum(self.target.real**2, axis=1, keepdims=True)
        overlap = np.sum(self.target.real * fields.real, axis=1, keepdims=True)
        scale: Floats = np.divide(overlap, power, out=np.zeros_like(power), where=power > 0.0)
        return scale

    def error(self, matrix: Complexes) -> float:
        """Return the Frobenius norm of the error of an (N, N) matrix of the mesh relative to that of the target.

        With ``homodyne`` each row of the fields is divided by its scale first.
        """
        fields = self.output_fields(matrix)
        scale = self.scale(fields)
        gain = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale != 0.0)
        deviation = gain * (fields.real if self.homodyne else fields) - self.target
        return float(np.linalg.norm(deviation) / np.linalg.norm(self.target))


def mesh_matrix(problem: CorrectionProblem, x: Floats) -> Complexes:
    """Computes the (N, N) complex matrix of the mesh, with output phases, at phases x, (unknowns,) in rad."""
    theta, phi, output = problem.split(x)
    light = transmit(problem.devices, theta, phi, np.eye(problem.devices.modes, dtype=np.complex128))
    return np.asarray(np.exp(1j * output)[:, np.newaxis] * light)


def cost_and_gradient(problem: CorrectionProblem, x: Floats) -> tuple[float, Floats]:
    """Return half the squared Frobenius norm of the residual at (unknowns,) phases x in rad, and its derivatives per
    rad.
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
    """Fit the phases by L-BFGS from x, (unknowns,) in rad, which needs little memory and converges slowly at the end.

    Returns:
        (unknowns,) phases in rad, not wrapped to [0, 2 pi), and the number of steps taken, at most ``steps``.
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


MAGNIFICATION = 1e6
"""Factor of the cost: L-BFGS-B stops at an absolute decrease, and errors of 1e-8 must count."""
ASKED = 20
"""Steps of a fit between two questions whether its phases are good enough."""


@dataclass(frozen=True, eq=False)
class MeshChain:
    """Imperfect devices of a chain with m outputs and n inputs.

    Attributes:
        u: Mesh of m modes that ends in the outputs.
        v: Mesh of n modes in front of the attenuators; None for a chain of one mesh, where m = n.
        attenuators: (r,) phase differences of the attenuators' arms at which their phases count as 0, in rad;
            r = min(m, n), or 0 for a chain of one mesh.
    """

    u: MeshDevices
    v: MeshDevices | None
    attenuators: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of outputs and inputs."""
        return self.u.modes, self.u.modes if self.v is None else self.v.modes


@dataclass(frozen=True, eq=False)
class ChainPhases:
    """Phases of a chain, in rad: inner and outer heaters (MZIs,) of ``u``, outputs (m,), heaters of ``v``, attenuators
    (r,).

    The phases of ``v`` are empty without this mesh; an attenuator has the phase difference of its arms.
    """

    u_theta: Floats
    u_phi: Floats
    output: Floats
    v_theta: Floats
    v_phi: Floats
    attenuator: Floats

    def joined(self) -> Floats:
        """Return all phases as one vector."""
        return np.concatenate([self.u_theta, self.u_phi, self.output, self.v_theta, self.v_phi, self.attenuator])


def split_phases(chain: MeshChain, x: Floats) -> ChainPhases:
    """Split a vector of all phases; the inverse of :meth:`ChainPhases.joined`."""
    u, v = chain.u.row.size, 0 if chain.v is None else chain.v.row.size
    ends = np.cumsum([u, u, chain.u.modes, v, v])
    return ChainPhases(*np.split(x, ends))


def locally_corrected(chain: MeshChain, u: Mesh, v: Mesh | None) -> tuple[ChainPhases, int]:
    """Compute phases with which every MZI of a chain is as close as possible to that of ideal meshes with output
    phases.

    Phases behind the mesh ``v`` commute with the attenuators and are moved into ``u``. The second result is the number
    of MZIs whose splitting cannot be reached.
    """
    empty, clipped = np.zeros(0), 0
    v_theta, v_phi = empty, empty
    if chain.v is not None and v is not None:
        v_theta, v_phi, behind, missed = correct_locally(chain.v, v.theta, v.phi, v.output_phase)
        rank = chain.attenuators.size
        turned = u.matrix()
        turned[:, :rank] *= np.exp(1j * behind[:rank])
        u, clipped = shape_of(u.modes, u.row, u.column).decompose(turned, np.pi), int(np.count_nonzero(missed))
    u_theta, u_phi, output, missed = correct_locally(chain.u, u.theta, u.phi, u.output_phase)
    phases = ChainPhases(u_theta, u_phi, output, v_theta, v_phi, chain.attenuators.copy())
    return phases, clipped + int(np.count_nonzero(missed))


def chain_matrix(chain: MeshChain, x: Floats) -> Complexes:
    """Compute the (m, n) matrix of a chain at a vector of all its phases in rad."""
    return _light(chain, split_phases(chain, x)).matrix


@dataclass(frozen=True, eq=False)
class _ChainLight:
    """Light in a chain, for a field of 1 at each input.

    Attributes:
        before: (n, n) fields in front of the attenuators; those of the inputs without a first mesh.
        between: (m, n) fields behind the attenuators.
        u: (m, m) matrix of the last mesh without its output phases.
        behind: (m, n) fields behind the last mesh.
        matrix: (m, n) fields at the outputs.
    """

    before: Complexes
    between: Complexes
    u: Complexes
    behind: Complexes
    matrix: Complexes


def _light(chain: MeshChain, phases: ChainPhases) -> _ChainLight:
    outputs, inputs = chain.shape
    before = np.eye(inputs, dtype=np.complex128)
    between = before
    if chain.v is not None:
        before = transmit(chain.v, phases.v_theta, phases.v_phi, before)
        rank = chain.attenuators.size
        between = np.zeros((outputs, inputs), dtype=np.complex128)
        between[:rank] = _transmissions(chain, phases)[:, np.newaxis] * before[:rank]
    u = transmit(chain.u, phases.u_theta, phases.u_phi, np.eye(outputs, dtype=np.complex128))
    behind = u @ between
    return _ChainLight(before, between, u, behind, np.exp(1j * phases.output)[:, np.newaxis] * behind)


def _transmissions(chain: MeshChain, phases: ChainPhases) -> Complexes:
    """(r,) field transmissions of the attenuators."""
    x = phases.attenuator
    return np.asarray(np.sin(x / 2.0) * np.exp(0.5j * (x - chain.attenuators)))


def chain_gradient(chain: MeshChain, target: Complexes, x: Floats) -> tuple[float, Floats]:
    """Return half the squared Frobenius norm of M - target, (m, n), and its derivatives by the phases x per rad."""
    phases = split_phases(chain, x)
    light = _light(chain, phases)
    residual = light.matrix - target
    rows = residual.conj()
    behind = np.exp(1j * phases.output)[:, np.newaxis] * rows
    u_theta, u_phi = phase_gradients(chain.u, phases.u_theta, phases.u_phi, light.behind, behind)
    output = -np.sum(rows * light.matrix, axis=1).imag
    v_theta = v_phi = attenuator = np.zeros(0)
    if chain.v is not None:
        rank = chain.attenuators.size
        between = (light.u.T @ behind)[:rank]
        # the derivative of sin(x / 2) e^{i (x - x0) / 2} is e^{i (x - x0 / 2)} / 2
        slope = 0.5 * np.exp(1j * (phases.attenuator - chain.attenuators / 2.0))
        attenuator = (slope * np.sum(between * light.before[:rank], axis=1)).real
        before = np.zeros_like(light.before)
        before[:rank] = _transmissions(chain, phases)[:, np.newaxis] * between
        v_theta, v_phi = phase_gradients(chain.v, phases.v_theta, phases.v_phi, light.before, before)
    slopes = ChainPhases(u_theta, u_phi, output, v_theta, v_phi, attenuator)
    return 0.5 * float(np.linalg.norm(residual) ** 2), slopes.joined()


def fit_chain(
    chain: MeshChain, target: Complexes, x: Floats, steps: int, reached: Callable[[Floats], bool] | None = None
) -> Floats:
    """Fit all phases of a chain, (unknowns,) in rad, to a target by L-BFGS; the result is not wrapped.

    The target (m, n) includes the loss of the chain: phases cannot recover lost light. ``reached`` says whether phases
    are good enough; it is asked after every `ASKED`-th step. Without it, the fit is as good as possible within
    ``steps``.
    """
    from scipy.optimize import minimize

    scale = MAGNIFICATION / float(np.linalg.norm(target) ** 2)

    def cost(y: Floats) -> tuple[float, Floats]:
        half, slope = chain_gradient(chain, target, y)
        return scale * half, scale * slope

    taken = count(1)

    def stop_if_reached(intermediate_result: OptimizeResult) -> None:
        if reached is not None and next(taken) % ASKED == 0 and reached(intermediate_result.x):
            raise StopIteration

    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": HISTORY, "ftol": 1e-14, "gtol": 1e-9}
    fitted = minimize(cost, x, jac=True, method="L-BFGS-B", callback=stop_if_reached, options=options)
    return np.asarray(fitted.x, dtype=np.float64)
