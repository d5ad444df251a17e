"""Second derivatives against differences of gradients, and their precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import (
    MeshDevices,
    correct,
    random_mesh_devices,
    rectangular,
)
from optinc_pdk.factor.correction.least_squares import CorrectionProblem, evaluate, gradient
from optinc_pdk.factor.correction.newton import curvature

RandomUnitary = Callable[..., np.ndarray]
VariedDevices = Callable[..., MeshDevices]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 1), st.booleans(), st.integers(0, 2**31))
def test_curvature_agrees_with_differences_of_gradients(
    random_unitary: RandomUnitary, varied_devices: VariedDevices, modes: int, redundant: int, homodyne: bool, seed: int
) -> None:
    """Exact without loss. Row scales of homodyne are kept constant, so the target is 0, where they stay 0."""
    rng = np.random.default_rng(seed)
    imperfect = varied_devices(modes, rng, redundant, lossy=False)
    target = np.zeros((modes, modes)) if homodyne else random_unitary(modes, rng)
    problem = CorrectionProblem(imperfect, target, homodyne)
    x = rng.uniform(0, 2 * np.pi, 2 * imperfect.row.size + modes)
    step = 1e-5
    slopes = [
        gradient(problem, evaluate(problem, x + step * e)) - gradient(problem, evaluate(problem, x - step * e))
        for e in np.eye(x.size)
    ]
    expected = np.array(slopes)[np.ix_(problem.order, problem.order)] / (2 * step)
    result = curvature(problem, evaluate(problem, x))
    np.testing.assert_allclose(np.tril(result), np.tril(expected), atol=1e-8)


def test_curvature_with_equal_loss_is_exact(random_unitary: RandomUnitary) -> None:
    """With the same loss on every path the columns are unitary up to a factor."""
    rng = np.random.default_rng(3)
    imperfect = replace(random_mesh_devices(rectangular(np.eye(4)), rng, 0.02), idle=0.9, inner=np.full((6, 2), 0.9))
    problem = CorrectionProblem(imperfect, random_unitary(4, rng), homodyne=False)
    x = rng.uniform(0, 2 * np.pi, 16)
    slopes = [
        gradient(problem, evaluate(problem, x + 1e-5 * e)) - gradient(problem, evaluate(problem, x - 1e-5 * e))
        for e in np.eye(x.size)
    ]
    expected = np.array(slopes)[np.ix_(problem.order, problem.order)] / 2e-5
    result = curvature(problem, evaluate(problem, x))
    np.testing.assert_allclose(np.tril(result), np.tril(expected), atol=1e-8)


def test_single_precision_converges_like_double(random_unitary: RandomUnitary, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    unitary = random_unitary(10, rng)
    imperfect = random_mesh_devices(rectangular(unitary), rng, 0.01)
    double = correct(unitary, imperfect)
    monkeypatch.setattr("optinc_pdk.factor.correction.newton.DOUBLE_UNTIL", 0)
    single = correct(unitary, imperfect)
    assert single.error <= double.error + 1e-10
