"""Newton's method for the phases of an imperfect mesh, with the exact matrix of second derivatives.

dM/dx_p = i b_p f_p^T is of rank one, and for a heater q behind p, d2M/dx_p dx_q = -b_q t_qp f_p^T with t_qp
the transfer from p to q. Between lossless columns t_qp = f_q . f_p*, so that all second derivatives of
|M - U|^2 / 2 are two products of thin matrices, with R = M - U, rows b and f stacked in B and F, and q
behind p::

    H_qp = Re [ (F F^H)_qp (B (B^H - R* F^T))_qp ]

With input fields X, where the target is M X, F X replaces F in the first derivatives, and t_qp keeps F. This costs as
much as the Gauss-Newton matrix alone, which stalls: MZIs at the edge of their range form valleys curved by the
residual. With loss t_qp is wrong by a factor near 1; this slows convergence and does not change the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.factor.correction.least_squares import CorrectionProblem, MeshEvaluation, evaluate, gradient, transfer

Floats = NDArray[np.float64]

DOUBLE_UNTIL = 1600
"""Unknowns up to which steps are solved in double precision; single precision halves the time of larger ones."""
ROWS = 512
"""Rows of second derivatives computed at a time: only the lower triangle is needed."""
CONVERGED = 3e-4
"""Relative decrease of the cost below which a step is small."""
EXACT = 1e-24
"""Cost relative to that of the target below which only rounding is left."""


def fit_newton(problem: CorrectionProblem, x: Floats, steps: int, patience: int = 1) -> tuple[Floats, int]:
    """Fits the phases by damped Newton steps with a line search.

    Args:
        problem: Mesh and target.
        x: (unknowns,) starting phases in rad.
        steps: Largest number of factorisations of the matrix of second derivatives.
        patience: Number of consecutive small steps (relative decrease of the cost below ``CONVERGED``) after which the
            fit ends. 1 is enough from a good start; near a saddle a step may be small because of its damping.

    Returns:
        (unknowns,) phases in rad, not wrapped to [0, 2 pi), and the number of factorisations.
    """
    light = evaluate(problem, x)
    floor = EXACT * float(np.linalg.norm(problem.target) ** 2)
    # Negative curvature is of the residual's size: below that the first matrix would be indefinite.
    damping = max(0.5 * float(np.linalg.norm(light.residual, 2)), 1e-6)
    taken, small, refused_before = 0, 0, False
    while taken < steps and small < patience and light.cost > floor:
        slope, second = gradient(problem, light), curvature(problem, light)
        refused = 0
        while taken < steps:
            taken += 1
            step = _solve(problem, second, slope, damping)
            accepted = None if step is None else _line_search(problem, light, step)
            if accepted is not None:
                break
            refused += 1
            damping *= 2.0 if step is None else 4.0
        else:
            break
        after, length = accepted
        small = small + 1 if not refused and light.cost - after.cost < CONVERGED * light.cost else 0
        light = after
        damping *= _next_damping(length, refused > 0, refused_before)
        refused_before = refused > 0
    return light.x, taken


def _next_damping(length: float, refused: bool, refused_before: bool) -> float:
    """Factor of the damping: near the most negative curvature small changes avoid wasted factorisations."""
    if length < 1.0:
        return 2.0
    if refused:
        return 0.9
    return 0.7 if refused_before else 0.2


def curvature(problem: CorrectionProblem, light: MeshEvaluation) -> NDArray[Any]:
    """Computes the matrix of second derivatives (Hessian) of half the cost.

    Args:
        problem: Mesh and target.
        light: The mesh at its current phases.

    Returns:
        (unknowns, unknowns) second derivatives, rows and columns in the order of ``problem.order``; only the lower
        triangle is valid. Single precision for more than ``DOUBLE_UNTIL`` unknowns. With homodyne, the row scales
        are treated as constants.
    """
    order = problem.order
    single = order.size > DOUBLE_UNTIL
    kind = np.complex64 if single else np.complex128
    F: NDArray[Any] = light.field[order].astype(kind)
    B: NDArray[Any] = transfer(problem, light)[order].astype(kind)
    power = np.sum(np.abs(F) ** 2, axis=1)
    power = np.where(power > 0.0, power, 1.0).astype(power.dtype)
    share = 0.5 if problem.homodyne else 1.0
    driven = F if problem.inputs is None else F @ problem.inputs.astype(kind)
    residual_term = light.residual.conj().astype(kind) @ (driven / power[:, np.newaxis]).T
    gauss_newton_term = kind(share) * B.conj().T
    columns = np.ascontiguousarray(F.conj().T)
    driven_columns = np.ascontiguousarray(driven.conj().T)
    second = np.empty((order.size, order.size), dtype=np.float32 if single else np.float64)
    for start in range(0, order.size, ROWS):
        stop = min(start + ROWS, order.size)
        block = second[start:stop, :stop]
        # Without input fields both terms share the factor F F^H, which saves one product.
        first = gauss_newton_term[:, :stop] - (residual_term[:, :stop] if problem.inputs is None else 0)
        block[...] = _real_product(driven[start:stop] @ driven_columns[:, :stop], B[start:stop] @ first)
        if problem.inputs is not None:
            block -= _real_product(F[start:stop] @ columns[:, :stop], B[start:stop] @ residual_term[:, :stop])
        if problem.homodyne:
            block -= 0.5 * _real_product(driven[start:stop] @ driven[:stop].T, B[start:stop] @ B[:stop].T)
    return second


def _real_product(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Real part of the entrywise product."""
    product: NDArray[Any] = one.real * other.real
    product -= one.imag * other.imag
    return product


def _solve(problem: CorrectionProblem, second: NDArray[Any], slope: Floats, damping: float) -> Floats | None:
    """(unknowns,) the damped Newton step, or None where the damped matrix is not positive definite."""
    from scipy.linalg import lapack

    size = slope.size
    single = second.dtype == np.float32
    factorize, substitute = (lapack.spotrf, lapack.spotrs) if single else (lapack.dpotrf, lapack.dpotrs)
    damped = second.copy()
    damped.flat[:: size + 1] += second.dtype.type(damping)
    # LAPACK stores by columns: its upper triangle is our lower one, without a copy.
    factor, failed = factorize(damped.T, lower=0, clean=0, overwrite_a=1)
    if failed:
        return None
    solved, _ = substitute(factor, slope[problem.order].astype(second.dtype), lower=0)
    step = np.empty(size)
    step[problem.order] = -solved
    return step


def _line_search(
    problem: CorrectionProblem, light: MeshEvaluation, step: Floats
) -> tuple[MeshEvaluation, float] | None:
    """The mesh after the step, doubled while the cost falls or shortened until it falls, and the step's length.

    None where no length lowers the cost.
    """
    trial, length = evaluate(problem, light.x + step), 1.0
    if trial.cost < light.cost:
        longer = evaluate(problem, light.x + 2.0 * step)
        while longer.cost < trial.cost:
            trial, length = longer, 2.0 * length
            longer = evaluate(problem, light.x + 2.0 * length * step)
        return trial, length
    for length in (0.5, 0.25, 0.1):
        trial = evaluate(problem, light.x + length * step)
        if trial.cost < light.cost:
            return trial, length
    return None
