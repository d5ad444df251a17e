"""Factors of a matrix for a chip: one mesh for a unitary, or two meshes and attenuators for any matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.factor import Mesh, MeshKind, MeshShape, mesh_devices, svd_mixed
from optinc_pdk.factor.correction import MeshChain, chain_matrix, fit_chain, locally_corrected
from optinc_pdk.matrices.target import MatrixTarget, compare_matrices
from optinc_pdk.models import device_s

UNITARY = 1e-6
"""Largest difference of two singular values, relative to the largest, in a matrix that counts as unitary: single
precision. It is replaced by the nearest unitary."""
SHARE = 0.6
"""Share of the tolerance that the couplers of one mesh may use up before two meshes are taken."""
STEPS, ROUNDS = 400, 4
"""L-BFGS steps of a round of the fit that decides this, and its largest number of rounds."""
SEED = 20


@dataclass(frozen=True, eq=False)
class MatrixFactor:
    """Factors of a matrix T = scale · U A V: meshes and attenuators of an ideal chip.

    Attributes:
        u: Mesh of m modes that ends in the outputs, with their phases.
        attenuation: (r,) field transmissions of the attenuators, 0 … 1, r ≤ min(m, n); modes without one end in
            terminators. None for one mesh.
        v: Mesh of n modes in front of the attenuators, without output phases; None for one mesh.
        scale: Largest singular value of the matrix; the ideal chip realises the matrix divided by it.
        form: Why these factors were taken, as text.
    """

    u: Mesh
    attenuation: Floats | None
    v: Mesh | None
    scale: float
    form: str

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """The meshes, in the order in which light passes them."""
        return (self.u,) if self.v is None else (self.v, self.u)

    @property
    def attenuators(self) -> int:
        """Number of attenuators."""
        return 0 if self.attenuation is None else int(self.attenuation.size)

    @property
    def mzis(self) -> int:
        """Number of MZIs of the meshes and of attenuators."""
        return sum(int(mesh.row.size) for mesh in self.meshes) + self.attenuators

    def matrix(self) -> Complexes:
        """Return the (m, n) matrix that ideal factors realise, with the scale."""
        if self.v is None or self.attenuation is None:
            return np.asarray(self.scale * self.u.matrix(), dtype=np.complex128)
        rank = self.attenuators
        passive = (self.u.matrix()[:, :rank] * self.attenuation) @ self.v.matrix()[:rank]
        return np.asarray(self.scale * passive, dtype=np.complex128)


RECTANGLE = MeshShape()


def mesh_shape(mesh: MeshKind | None, extra_columns: int | None) -> MeshShape:
    """Return the shape of a matrix's meshes that options choose; None stands for a rectangle and for no redundant
    columns.

    Raises:
        InputError: The number of columns is out of range.
    """
    try:
        return MeshShape(RECTANGLE.kind if mesh is None else mesh, extra_columns or 0)
    except ValueError as fault:
        raise InputError(str(fault)) from fault


def factor_matrix(target: MatrixTarget, process: Process, shape: MeshShape = RECTANGLE) -> MatrixFactor:
    """Factor a matrix for a chip of a process.

    A unitary, up to a factor, becomes one mesh. Where the couplers of the process cannot reach the splittings of its
    MZIs, as for many permutations, and for any other matrix, the factors are those of a singular value decomposition.
    Singular vectors of equal singular values are random there (fixed seed), which keeps MZIs away from the ends of
    their range. Redundant columns of ``shape`` extend what one mesh can reach.
    """
    unitary = _nearest_unitary(target)
    if unitary is None:
        return two_meshes(target, process, shape, "not unitary: two meshes, with the singular values as attenuators")
    mesh = shape.decompose(unitary)
    error = _error_of_couplers(target, mesh, process)
    if error <= SHARE * target.tolerance:
        return MatrixFactor(mesh, None, None, target.norm, "unitary: one mesh")
    return two_meshes(
        target,
        process,
        shape,
        f"unitary, two meshes: the couplers of the process, used in one mesh, would leave an error of {error:.2%} of "
        "the largest entry",
    )


def two_meshes(
    target: MatrixTarget,
    process: Process,
    shape: MeshShape = RECTANGLE,
    form: str = "two meshes and attenuators",
    attenuators: int | None = None,
) -> MatrixFactor:
    """Factor any matrix into two meshes and attenuators.

    Singular values count relative to the largest one. One that is nearer to zero than to the least transmission of an
    attenuator gets none: the light of its mode is absorbed, unless an existing chip has an attenuator there.

    Args:
        target: The matrix.
        process: Process, whose card states the couplers of attenuators.
        shape: Shape of the meshes.
        form: Why these factors are taken; the number of absorbed modes is appended.
        attenuators: Number of attenuators of an existing chip; None to choose it.

    Raises:
        InputError: The existing chip has fewer attenuators than the matrix needs.
    """
    unitary = _nearest_unitary(target)
    passive = target.matrix / target.norm if unitary is None else unitary
    svd = svd_mixed(passive, np.random.default_rng(SEED), shape.decompose)
    needed = int(np.count_nonzero(svd.attenuation > least_transmission(process) / 2))
    if attenuators is not None and attenuators < needed:
        raise InputError(
            f"the chip has {attenuators} attenuators, because it was built for a matrix of this rank; this "
            f"{target.outputs} × {target.inputs} matrix has rank {needed}: build a chip for it"
        )
    kept = svd.attenuation[: needed if attenuators is None else attenuators]
    absorbed = svd.attenuation.size - kept.size
    if absorbed:
        form += f"; {absorbed} of {svd.attenuation.size} singular values are zero, or too small for an attenuator"
    return MatrixFactor(svd.u, kept, svd.v, target.norm, form)


def least_transmission(process: Process) -> float:
    """Return the least field transmission of an attenuator with the nominal couplers of a process, 0 … 1.

    Its light passes both couplers in the bar or both in the cross state, and both parts cancel if they are equal.
    """
    return abs(2.0 * _cross_ratio(process) - 1.0)


def _cross_ratio(process: Process) -> float:
    """Share of the power at both outputs of a coupler that is in the cross output."""
    s = device_s(process, "mmi2x2", float(process.guide.wavelength_nm))[0]
    # ports o1 … o4: bar o2-o3, cross o2-o4
    return float(abs(s[3, 1]) ** 2 / (abs(s[3, 1]) ** 2 + abs(s[2, 1]) ** 2))


def one_mesh(target: MatrixTarget, shape: MeshShape = RECTANGLE) -> MatrixFactor:
    """Factor a unitary, up to a factor, into one mesh.

    Raises:
        InputError: The matrix is not unitary; the message states how its singular values differ.
    """
    unitary = _nearest_unitary(target)
    if unitary is None:
        least = float(np.linalg.svd(target.matrix, compute_uv=False)[-1]) / target.norm
        raise InputError(
            f"a chip of one mesh realises unitaries only; this {target.outputs} × {target.inputs} matrix has singular "
            f"values down to {least:g} of the largest, at most {UNITARY:g} below it is allowed: build a chip for it"
        )
    return MatrixFactor(shape.decompose(unitary), None, None, target.norm, "one mesh")


def _nearest_unitary(target: MatrixTarget) -> Complexes | None:
    """The unitary that is nearest to a matrix up to a factor; None if the matrix is not unitary."""
    if target.outputs != target.inputs:
        return None
    left, singular, right = np.linalg.svd(target.matrix)
    return np.asarray(left @ right) if 1.0 - singular[-1] / singular[0] <= UNITARY else None


def _error_of_couplers(target: MatrixTarget, mesh: Mesh, process: Process) -> float:
    """Largest error of an entry, over the largest entry, of one mesh whose couplers are unequal but have no loss.

    The fit ends where one mesh suffices, so that smaller errors are not the smallest ones.
    """
    ratio = _cross_ratio(process)
    chain = MeshChain(mesh_devices(mesh, first_ratio=ratio, second_ratio=ratio), None, np.zeros(0))
    phases, clipped = locally_corrected(chain, mesh, None)
    limit = SHARE * target.tolerance

    def error_at(x: Floats) -> float:
        return compare_matrices(chain_matrix(chain, x), target).worst

    x = phases.joined()
    error = error_at(x)
    for _ in range(ROUNDS if clipped else 0):
        if error <= limit:
            break
        x = fit_chain(chain, target.matrix / target.norm, x, STEPS, lambda phases: error_at(phases) <= limit)
        error = error_at(x)
    return error
