"""Least-squares fit of the phases of a chain: a mesh, attenuators and a second mesh, or one mesh alone.

The chain has the matrix M = diag(e^{i output}) U A V. Both meshes are imperfect; A has the field transmissions
sin(x / 2) e^{i (x - x0) / 2} of attenuators at the phase differences x of their arms, with x0 at the start. All phases
are fitted together to a complex target by L-BFGS. The gradient takes one pass through each mesh
(:mod:`optinc_pdk.factor.correction.adjoint`), so that work grows as N^3 and memory as N^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.factor.correction.adjoint import phase_gradients, transmit
from optinc_pdk.factor.correction.least_squares import HISTORY
from optinc_pdk.factor.correction.local_correction import correct_locally
from optinc_pdk.factor.correction.mesh_shape import shape_of
from optinc_pdk.factor.devices import MeshDevices
from optinc_pdk.factor.mesh import Mesh

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


MAGNIFICATION = 1e6
"""Factor of the cost: L-BFGS-B stops at an absolute decrease, and errors of 1e-8 shall count."""
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
    """Phases of a chain, in rad.

    Attributes:
        u_theta: (MZIs,) inner heaters of the mesh ``u``.
        u_phi: (MZIs,) outer heaters of this mesh.
        output: (m,) phases of the outputs.
        v_theta: (MZIs,) inner heaters of the mesh ``v``; empty without it.
        v_phi: (MZIs,) outer heaters of this mesh.
        attenuator: (r,) phase differences of the attenuators' arms.
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
    """Compute phases with which every MZI of a chain is as close as possible to the ideal one.

    Phases behind the mesh ``v`` commute with the attenuators and are moved into ``u``.

    Args:
        chain: The imperfect devices.
        u: Ideal mesh with its output phases.
        v: Ideal mesh in front of the attenuators; None for a chain of one mesh.

    Returns:
        The phases, and the number of MZIs whose splitting cannot be reached.
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
    """Compute half the squared Frobenius norm of M - target, and its derivatives.

    Args:
        chain: The imperfect devices.
        target: (m, n) complex.
        x: (unknowns,) phases in rad.

    Returns:
        The value, and (unknowns,) derivatives per rad.
    """
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
    """Fit all phases of a chain to a target by L-BFGS.

    Args:
        chain: The imperfect devices.
        target: (m, n) complex. It includes the loss of the chain: phases cannot recover lost light.
        x: (unknowns,) initial phases in rad.
        steps: Largest number of steps.
        reached: Whether phases are good enough, asked after every `ASKED`-th step; None to fit as well as possible.

    Returns:
        (unknowns,) phases in rad, not wrapped.
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
