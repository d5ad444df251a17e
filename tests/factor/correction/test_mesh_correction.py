"""Corrected meshes: reported errors against whole matrices, and what the fits reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import (
    MeshDevices,
    correct,
    correct_homodyne,
    mesh_devices,
    random_mesh_devices,
    rectangular,
    triangular,
)

DenseMatrix = Callable[[MeshDevices, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
RandomUnitary = Callable[..., np.ndarray]
VariedDevices = Callable[..., MeshDevices]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2), st.integers(0, 2**31))
def test_initial_phases_are_exact_on_ideal_devices(
    random_unitary: RandomUnitary, modes: int, redundant: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    unitary = random_unitary(modes, rng)
    imperfect = random_mesh_devices(rectangular(unitary), rng, 0.0, redundant)
    result = correct(unitary, imperfect, steps=0, seed=seed)
    assert result.error_before <= 1e-12
    assert result.error <= 1e-12
    assert result.steps == 0
    orthogonal = random_unitary(modes, rng, real=True)
    assert correct_homodyne(orthogonal, imperfect, amplitude=0.8, steps=0).error_before <= 1e-12


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 9), st.booleans(), st.integers(0, 2**31))
def test_least_squares_never_increases_the_error_and_reports_it_correctly(
    random_unitary: RandomUnitary,
    varied_devices: VariedDevices,
    dense_matrix: DenseMatrix,
    modes: int,
    homodyne: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    target = random_unitary(modes, rng, homodyne)
    imperfect = varied_devices(modes, rng)
    result = correct_homodyne(target, imperfect, steps=15) if homodyne else correct(target, imperfect, steps=15)
    matrix = dense_matrix(imperfect, result.theta, result.phi, result.output_phase)
    np.testing.assert_allclose(result.matrix, matrix, atol=1e-12)
    realised = matrix.real / result.row_scale[:, np.newaxis] if homodyne else matrix
    np.testing.assert_allclose(result.error, np.linalg.norm(realised - target) / np.sqrt(modes), atol=1e-12)
    shape = np.linalg.norm(realised / result.scale - target) / np.sqrt(modes)
    np.testing.assert_allclose(result.shape_error, shape, atol=1e-12)
    if homodyne:
        assert result.error == result.shape_error <= result.error_local * (1 + 1e-12)
    else:
        local = correct(target, imperfect, steps=0)
        assert result.shape_error <= local.shape_error * (1 + 1e-12)


@pytest.mark.parametrize("parameters", [{"first_ratio": 0.0}, {"inner_loss_db": 20.0, "idle_loss_db": 3.0}])
def test_homodyne_never_increases_the_error_where_rows_lose_all_light(
    random_unitary: RandomUnitary, parameters: dict[str, float]
) -> None:
    """The cost of the fit weights rows by their light, the reported error divides by their scales."""
    for seed in range(6):
        target = random_unitary(9, np.random.default_rng(seed), real=True)
        result = correct_homodyne(target, mesh_devices(rectangular(target), **parameters))
        assert result.error <= result.error_local


@pytest.mark.parametrize(("modes", "rms"), [(9, 0.02), (16, 0.1)])
def test_common_loss_only_changes_the_scale(random_unitary: RandomUnitary, modes: int, rms: float) -> None:
    """1 dB a column on every path: the same shape error as without loss, and the loss in the error."""
    rng = np.random.default_rng(0)
    target = random_unitary(modes, rng)
    clear = random_mesh_devices(rectangular(target), rng, rms)
    field = 10 ** (-1 / 20)
    lossy = replace(clear, inner=np.full_like(clear.inner, field), idle=field)
    lossless, attenuated = correct(target, clear), correct(target, lossy)
    np.testing.assert_allclose(lossless.scale, 1.0, atol=1e-2)
    np.testing.assert_allclose(attenuated.scale, lossless.scale * field**modes, rtol=1e-6)
    np.testing.assert_allclose(attenuated.shape_error, lossless.shape_error, rtol=0.02, atol=1e-12)
    np.testing.assert_allclose(attenuated.error, 1 - field**modes, atol=0.05)


def test_least_squares_reduces_the_initial_error_a_hundred_times(random_unitary: RandomUnitary) -> None:
    """N = 24 at 2 % rms, 5 draws; benchmarks/bench_correct.py has the table."""
    gains = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        unitary = random_unitary(24, rng)
        result = correct(unitary, random_mesh_devices(rectangular(unitary), rng, 0.02))
        assert result.error < result.error_local < result.error_before
        gains.append(result.error_before / result.error)
    assert np.median(gains) > 100


def block_diagonal(count: int, modes: int, draw: RandomUnitary) -> np.ndarray:
    return scipy.linalg.block_diag(*[draw(modes, np.random.default_rng(i)) for i in range(count)])


BAR_AND_CROSS_TARGETS = {
    "identity": lambda modes, _: np.eye(modes),
    "phases": lambda modes, _: np.diag(np.exp(1j * np.arange(modes))),
    "pairs": lambda modes, draw: block_diagonal(modes // 2, 2, draw),
    "halves": lambda modes, draw: block_diagonal(2, modes // 2, draw),
    "permutation": lambda modes, _: np.eye(modes)[np.random.default_rng(0).permutation(modes)],
}


@pytest.mark.full(every=4)
@pytest.mark.parametrize(
    ("name", "modes", "gain"),
    [
        *((name, modes, 10) for name in ("identity", "phases", "pairs", "halves") for modes in (4, 8, 16)),
        ("permutation", 8, 1.5),
        ("permutation", 16, 2.5),
    ],
)
def test_fit_leaves_the_saddle_of_bar_and_cross_states(
    random_unitary: RandomUnitary, name: str, modes: int, gain: float
) -> None:
    """After local correction these targets are at a saddle, where the gradient vanishes."""
    target = BAR_AND_CROSS_TARGETS[name](modes, random_unitary)
    result = correct(target, random_mesh_devices(rectangular(np.eye(modes)), np.random.default_rng(3), 0.02))
    assert result.clipped > 0.5 * modes * (modes - 1) / 2
    assert result.error < result.error_before / gain


def test_second_fit_never_increases_the_error() -> None:
    """The reversal needs every MZI at cross, so a second fit cannot improve it."""
    result = correct(np.eye(8)[::-1], random_mesh_devices(rectangular(np.eye(8)), np.random.default_rng(3), 0.02))
    assert result.error <= result.error_local


def test_homodyne_and_redundant_columns_remove_the_error_floor(random_unitary: RandomUnitary) -> None:
    rng = np.random.default_rng(1)
    orthogonal, unitary = random_unitary(16, rng, real=True), random_unitary(16, rng)
    mesh = rectangular(unitary)
    real = correct_homodyne(orthogonal, random_mesh_devices(mesh, rng, 0.02), amplitude=0.95)
    assert real.error < 1e-9
    assert real.row_scale.min() > 0.9
    assert correct(orthogonal, random_mesh_devices(mesh, rng, 0.02)).error > 1e-4
    assert correct(unitary, random_mesh_devices(mesh, rng, 0.02, redundant_columns=1)).error < 1e-3


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2), st.integers(0, 2**31))
def test_initial_phases_of_triangles_are_exact(
    random_unitary: RandomUnitary, modes: int, redundant: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    unitary = random_unitary(modes, rng)
    imperfect = random_mesh_devices(triangular(unitary), rng, 0.0, redundant)
    assert correct(unitary, imperfect, steps=0).error_before <= 1e-12


def test_triangles_are_corrected(random_unitary: RandomUnitary) -> None:
    rng = np.random.default_rng(0)
    unitary = random_unitary(12, rng)
    result = correct(unitary, random_mesh_devices(triangular(unitary), rng, 0.03))
    assert result.error < result.error_local < result.error_before / 2


def test_same_input_same_phases(random_unitary: RandomUnitary) -> None:
    rng = np.random.default_rng(2)
    unitary = random_unitary(8, rng)
    imperfect = random_mesh_devices(rectangular(unitary), rng, 0.03, 1)
    one, other = correct(unitary, imperfect), correct(unitary, imperfect)
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_array_equal(one.phi, other.phi)


MESH = rectangular(np.eye(3))


def test_bad_targets_and_numbers_are_refused() -> None:
    imperfect = mesh_devices(MESH)
    with pytest.raises(ValueError, match=r"U.*\(2, 2\).*\(3, 3\)"):
        correct(np.eye(2), imperfect)
    with pytest.raises(ValueError, match=r"U.*unitary.* 3,"):
        correct(2 * np.eye(3), imperfect)
    with pytest.raises(ValueError, match=r"W.*orthogonal.* 3,"):
        correct_homodyne(2 * np.eye(3), imperfect)
    with pytest.raises(ValueError, match=r"amplitude.*None"):
        correct_homodyne(np.eye(3), imperfect, amplitude=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"U\[0, 0\].*nan"):
        correct(np.full((3, 3), np.nan), imperfect)
    with pytest.raises(ValueError, match=r"W.*complex"):
        correct_homodyne(1j * np.eye(3), imperfect)
    with pytest.raises(ValueError, match=r"amplitude.*0\.0"):
        correct_homodyne(np.eye(3), imperfect, amplitude=0.0)
    with pytest.raises(ValueError, match=r"amplitude.*nan"):
        correct_homodyne(np.eye(3), imperfect, amplitude=float("nan"))
    with pytest.raises(ValueError, match=r"steps.*-1"):
        correct(np.eye(3), imperfect, steps=-1)
    with pytest.raises(ValueError, match=r"splitter_rms.*0\.5"):
        random_mesh_devices(MESH, np.random.default_rng(0), 0.5)
    arrays = ("row", "column", "first", "second", "theta_offset", "phi_offset", "inner", "outer")
    incomplete = replace(imperfect, **{name: getattr(imperfect, name)[1:] for name in arrays})
    with pytest.raises(ValueError, match=r"devices.*2 MZIs.*3 modes"):
        correct(np.eye(3), incomplete)
