"""Imperfect meshes against products of whole matrices, derivatives against differences, what fits reach."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.factor import (
    Devices,
    correct,
    correct_homodyne,
    correct_layer,
    devices,
    drawn_devices,
    rectangular,
    triangular,
)
from optinc_pdk.factor.correct_fit import Problem, cost_and_slope, fit_lbfgs, gradient, illuminate
from optinc_pdk.factor.correct_local import correct_locally
from optinc_pdk.factor.correct_newton import curvature, fit_newton


def haar(modes: int, rng: np.random.Generator, real: bool = False) -> np.ndarray:
    gauss = rng.normal(size=(modes, modes)) + (0 if real else 1j * rng.normal(size=(modes, modes)))
    q, r = np.linalg.qr(gauss)
    return q * (np.diagonal(r) / abs(np.diagonal(r)))


def odd_devices(modes: int, rng: np.random.Generator, redundant: int = 0, lossy: bool = True) -> Devices:
    """Every parameter different for every MZI."""
    mesh = rectangular(np.eye(modes))
    count = drawn_devices(mesh, rng, 0.0, redundant).row.size
    return devices(
        mesh,
        first_ratio=0.5 + 0.03 * rng.normal(size=count),
        second_ratio=0.5 + 0.03 * rng.normal(size=count),
        theta_offset=rng.uniform(-3, 3, count),
        phi_offset=rng.uniform(-3, 3, count),
        inner_loss_db=lossy * rng.uniform(0, 0.5, (count, 2)),
        outer_loss_db=lossy * rng.uniform(0, 0.5, (count, 2)),
        idle_loss_db=lossy * 0.3,
        redundant_columns=redundant,
    )


def dense(made: Devices, theta: np.ndarray, phi: np.ndarray, output: np.ndarray) -> np.ndarray:
    """The mesh as a product of whole matrices: couplers, arms, idle modes."""

    def coupler(angle: float) -> np.ndarray:
        return np.array([[np.cos(angle), 1j * np.sin(angle)], [1j * np.sin(angle), np.cos(angle)]])

    product = np.eye(made.modes, dtype=complex)
    for column in range(made.columns):
        stage = made.idle * np.eye(made.modes, dtype=complex)
        for i in np.flatnonzero(made.column == column):
            pair = slice(made.row[i], made.row[i] + 2)
            inner = np.diag(made.inner[i] * [np.exp(1j * (theta[i] + made.theta_offset[i])), 1])
            outer = np.diag(made.outer[i] * [np.exp(1j * (phi[i] + made.phi_offset[i])), 1])
            stage[pair, pair] = coupler(made.second[i]) @ inner @ coupler(made.first[i]) @ outer
        product = stage @ product
    return np.diag(np.exp(1j * output)) @ product


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2), st.integers(0, 2**31))
def test_light_is_the_product_of_the_devices(modes: int, redundant: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = odd_devices(modes, rng, redundant)
    x = rng.uniform(0, 2 * np.pi, 2 * made.row.size + modes)
    problem = Problem(made, np.eye(modes), homodyne=False)
    np.testing.assert_allclose(illuminate(problem, x).matrix, dense(made, *problem.split(x)), atol=1e-13)


def test_ideal_devices_are_the_ideal_mesh() -> None:
    unitary = haar(8, np.random.default_rng(0))
    mesh = rectangular(unitary)
    problem = Problem(devices(mesh), unitary, homodyne=False)
    light = illuminate(problem, np.concatenate([mesh.theta, mesh.phi, mesh.output_phase]))
    np.testing.assert_allclose(light.matrix, mesh.matrix(), atol=1e-13)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 1), st.booleans(), st.integers(0, 2**31))
def test_gradient_is_the_difference_quotient(modes: int, redundant: int, homodyne: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = odd_devices(modes, rng, redundant)
    problem = Problem(made, haar(modes, rng, homodyne), homodyne)
    x = rng.uniform(0, 2 * np.pi, 2 * made.row.size + modes)
    step = 1e-5
    expected = [
        (illuminate(problem, x + step * e).cost - illuminate(problem, x - step * e).cost) / (4 * step)
        for e in np.eye(x.size)
    ]
    np.testing.assert_allclose(gradient(problem, illuminate(problem, x)), expected, atol=1e-8)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(0, 1), st.booleans(), st.booleans(), st.integers(0, 2**31))
def test_compiled_cost_and_slope_are_the_same(
    modes: int, redundant: int, homodyne: bool, some: bool, seed: int
) -> None:
    """With fields that come in and outputs that are dumped too."""
    rng = np.random.default_rng(seed)
    made = odd_devices(modes, rng, redundant)
    target, inputs = haar(modes, rng, homodyne), None
    if some:
        target = target[: (modes + 1) // 2]
        inputs = rng.normal(size=(modes, modes)) + 1j * rng.normal(size=(modes, modes))
    problem = Problem(made, target, homodyne, inputs)
    x = rng.uniform(0, 2 * np.pi, 2 * made.row.size + modes)
    light = illuminate(problem, x)
    half, slope = cost_and_slope(problem, x)
    assert half == pytest.approx(0.5 * light.cost, rel=1e-12)
    np.testing.assert_allclose(slope, gradient(problem, light), atol=1e-11 * (1 + light.cost))


def test_compiled_slopes_of_more_vectors_than_pass_at_once() -> None:
    rng = np.random.default_rng(5)
    made = odd_devices(70, rng)
    problem = Problem(made, haar(70, rng, real=True), homodyne=True)
    x = rng.uniform(0, 2 * np.pi, 2 * made.row.size + 70)
    light = illuminate(problem, x)
    half, slope = cost_and_slope(problem, x)
    assert half == pytest.approx(0.5 * light.cost, rel=1e-12)
    np.testing.assert_allclose(slope, gradient(problem, light), atol=1e-11)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 1), st.booleans(), st.integers(0, 2**31))
def test_curvature_is_the_difference_of_gradients(modes: int, redundant: int, homodyne: bool, seed: int) -> None:
    """Without loss it is exact. With homodyne row scales are held, so the target 0 has them held too."""
    rng = np.random.default_rng(seed)
    made = odd_devices(modes, rng, redundant, lossy=False)
    target = np.zeros((modes, modes)) if homodyne else haar(modes, rng)
    problem = Problem(made, target, homodyne)
    x = rng.uniform(0, 2 * np.pi, 2 * made.row.size + modes)
    step = 1e-5
    slopes = [
        gradient(problem, illuminate(problem, x + step * e)) - gradient(problem, illuminate(problem, x - step * e))
        for e in np.eye(x.size)
    ]
    expected = np.array(slopes)[np.ix_(problem.order, problem.order)] / (2 * step)
    found = curvature(problem, illuminate(problem, x))
    np.testing.assert_allclose(np.tril(found), np.tril(expected), atol=1e-8)


def test_curvature_with_equal_loss_is_exact() -> None:
    """The same loss on every path leaves the columns unitary up to a factor."""
    rng = np.random.default_rng(3)
    made = replace(drawn_devices(rectangular(np.eye(4)), rng, 0.02), idle=0.9, inner=np.full((6, 2), 0.9))
    problem = Problem(made, haar(4, rng), homodyne=False)
    x = rng.uniform(0, 2 * np.pi, 16)
    slopes = [
        gradient(problem, illuminate(problem, x + 1e-5 * e)) - gradient(problem, illuminate(problem, x - 1e-5 * e))
        for e in np.eye(x.size)
    ]
    expected = np.array(slopes)[np.ix_(problem.order, problem.order)] / 2e-5
    found = curvature(problem, illuminate(problem, x))
    np.testing.assert_allclose(np.tril(found), np.tril(expected), atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 8), st.integers(0, 2**31))
def test_local_correction_is_exact_within_reach(modes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = odd_devices(modes, rng, lossy=False)
    mzis = made.row.size
    theta, phi = rng.uniform(0.5, np.pi - 0.5, mzis), rng.uniform(0, 2 * np.pi, mzis)
    output = rng.uniform(0, 2 * np.pi, modes)
    ideal = devices(rectangular(np.eye(modes)))
    new_theta, new_phi, new_output, clipped = correct_locally(made, theta, phi, output)
    assert not np.any(clipped)
    for phases in (new_theta, new_phi, new_output):
        assert np.all((phases >= 0) & (phases < 2 * np.pi))
    np.testing.assert_allclose(
        dense(made, new_theta, new_phi, new_output), dense(ideal, theta, phi, output), atol=1e-12
    )


def test_local_correction_evens_out_equal_losses() -> None:
    """Equal losses of all arms are a factor; unequal ones inside still allow the wanted splitting."""
    mesh = rectangular(haar(2, np.random.default_rng(5)))
    made = devices(mesh, first_ratio=0.52, inner_loss_db=[[0.3, 0.6]])
    phases = correct_locally(made, mesh.theta, mesh.phi, mesh.output_phase)[:3]
    found = dense(made, *phases)[:, 0]
    np.testing.assert_allclose(np.abs(found) / np.linalg.norm(found), np.abs(mesh.matrix()[:, 0]), atol=1e-12)


def test_splitting_out_of_reach_is_clipped() -> None:
    mesh = rectangular(np.eye(2)[::-1])  # cross
    made = devices(mesh, first_ratio=0.54, second_ratio=0.53)
    theta, _, _, clipped = correct_locally(made, mesh.theta, mesh.phi, mesh.output_phase)
    assert clipped.tolist() == [True]
    np.testing.assert_allclose(theta, 0.0, atol=1e-12)
    found = correct(np.eye(2)[::-1], made)
    reach = np.cos(made.first[0] + made.second[0])
    np.testing.assert_allclose(found.error, np.sqrt(2 - 2 * np.sqrt(1 - reach**2)), rtol=1e-3)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2), st.integers(0, 2**31))
def test_starts_are_exact_on_ideal_devices(modes: int, redundant: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    unitary = haar(modes, rng)
    made = drawn_devices(rectangular(unitary), rng, 0.0, redundant)
    found = correct(unitary, made, steps=0, seed=seed)
    assert found.error_before <= 1e-12
    assert found.error <= 1e-12
    assert found.steps == 0
    orthogonal = haar(modes, rng, real=True)
    assert correct_homodyne(orthogonal, made, amplitude=0.8, steps=0).error_before <= 1e-12


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 9), st.booleans(), st.integers(0, 2**31))
def test_least_squares_never_worsens_and_says_the_truth(modes: int, homodyne: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = haar(modes, rng, homodyne)
    made = odd_devices(modes, rng)
    found = correct_homodyne(target, made, steps=15) if homodyne else correct(target, made, steps=15)
    matrix = dense(made, found.theta, found.phi, found.output_phase)
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-12)
    realized = matrix.real / found.row_scale[:, np.newaxis] if homodyne else matrix
    np.testing.assert_allclose(found.error, np.linalg.norm(realized - target) / np.sqrt(modes), atol=1e-12)
    shape = np.linalg.norm(realized / found.scale - target) / np.sqrt(modes)
    np.testing.assert_allclose(found.shape_error, shape, atol=1e-12)
    if homodyne:
        assert found.error == found.shape_error <= found.error_local * (1 + 1e-12)
    else:
        local = correct(target, made, steps=0)
        assert found.shape_error <= local.shape_error * (1 + 1e-12)


@pytest.mark.parametrize("made", [{"first_ratio": 0.0}, {"inner_loss_db": 20.0, "idle_loss_db": 3.0}])
def test_homodyne_never_worsens_where_rows_go_dark(made: dict[str, float]) -> None:
    """The fit sees rows as strong as they come; the error scales them back."""
    for seed in range(6):
        target = haar(9, np.random.default_rng(seed), real=True)
        found = correct_homodyne(target, devices(rectangular(target), **made))
        assert found.error <= found.error_local


@pytest.mark.parametrize(("modes", "rms"), [(9, 0.02), (16, 0.1)])
def test_common_loss_is_a_scale(modes: int, rms: float) -> None:
    """1 dB a column on every path: the same shape as without, and the lost light in the error."""
    rng = np.random.default_rng(0)
    target = haar(modes, rng)
    clear = drawn_devices(rectangular(target), rng, rms)
    field = 10 ** (-1 / 20)
    lossy = replace(clear, inner=np.full_like(clear.inner, field), idle=field)
    bright, dim = correct(target, clear), correct(target, lossy)
    np.testing.assert_allclose(bright.scale, 1.0, atol=1e-2)
    np.testing.assert_allclose(dim.scale, bright.scale * field**modes, rtol=1e-6)
    np.testing.assert_allclose(dim.shape_error, bright.shape_error, rtol=0.02, atol=1e-12)
    np.testing.assert_allclose(dim.error, 1 - field**modes, atol=0.05)


def test_residual_fit_beats_local_correction_thirty_times() -> None:
    """N = 24 at 2 % rms, 5 draws; benchmarks/bench_correct.py has the table."""
    gains = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        unitary = haar(24, rng)
        found = correct(unitary, drawn_devices(rectangular(unitary), rng, 0.02))
        assert found.error < found.error_local < found.error_before
        gains.append(found.error_before / found.error)
    assert np.median(gains) > 100


CORNERED = {
    "identity": np.eye,
    "phases": lambda modes: np.diag(np.exp(1j * np.arange(modes))),
    "pairs": lambda modes: scipy.linalg.block_diag(*[haar(2, np.random.default_rng(i)) for i in range(modes // 2)]),
    "halves": lambda modes: scipy.linalg.block_diag(*[haar(modes // 2, np.random.default_rng(i)) for i in range(2)]),
    "permutation": lambda modes: np.eye(modes)[np.random.default_rng(0).permutation(modes)],
}


@pytest.mark.parametrize(
    ("name", "modes", "gain"),
    [
        *((name, modes, 10) for name in ("identity", "phases", "pairs", "halves") for modes in (4, 8, 16)),
        ("permutation", 8, 1.5),
        ("permutation", 16, 2.5),
    ],
)
def test_the_saddle_of_bars_and_crosses_is_left(name: str, modes: int, gain: float) -> None:
    """Local correction leaves these targets on a saddle, where the gradient vanishes."""
    target = CORNERED[name](modes)
    found = correct(target, drawn_devices(rectangular(np.eye(modes)), np.random.default_rng(3), 0.02))
    assert found.clipped > 0.5 * modes * (modes - 1) / 2
    assert found.error < found.error_before / gain


def test_a_second_fit_never_worsens() -> None:
    """The reversal needs every MZI at cross: nothing is gained, and nothing lost."""
    found = correct(np.eye(8)[::-1], drawn_devices(rectangular(np.eye(8)), np.random.default_rng(3), 0.02))
    assert found.error <= found.error_local


def test_real_weights_have_no_floor_and_neither_has_a_redundant_column() -> None:
    rng = np.random.default_rng(1)
    orthogonal, unitary = haar(16, rng, real=True), haar(16, rng)
    mesh = rectangular(unitary)
    real = correct_homodyne(orthogonal, drawn_devices(mesh, rng, 0.02), amplitude=0.95)
    assert real.error < 1e-9
    assert real.row_scale.min() > 0.9
    assert correct(orthogonal, drawn_devices(mesh, rng, 0.02)).error > 1e-4
    assert correct(unitary, drawn_devices(mesh, rng, 0.02, redundant_columns=1)).error < 1e-3


def test_quasi_newton_steps_go_the_same_way() -> None:
    rng = np.random.default_rng(7)
    unitary = haar(12, rng)
    mesh = rectangular(unitary)
    made = drawn_devices(mesh, rng, 0.04)
    problem = Problem(made, unitary, homodyne=False)
    start = np.concatenate([mesh.theta, mesh.phi, mesh.output_phase])
    before = illuminate(problem, start).cost
    slow, steps = fit_lbfgs(problem, start, 3000)
    fast, _ = fit_newton(problem, start, 60)
    assert 0 < steps <= 3000
    assert illuminate(problem, slow).cost < 1e-3 * before
    assert illuminate(problem, fast).cost <= illuminate(problem, slow).cost + 1e-12


def test_single_precision_converges_as_double(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    unitary = haar(10, rng)
    made = drawn_devices(rectangular(unitary), rng, 0.01)
    double = correct(unitary, made)
    monkeypatch.setattr("optinc_pdk.factor.correct_newton.DOUBLE_UNTIL", 0)
    single = correct(unitary, made)
    assert single.error <= double.error + 1e-10


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2), st.integers(0, 2**31))
def test_triangles_start_exact(modes: int, redundant: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    unitary = haar(modes, rng)
    made = drawn_devices(triangular(unitary), rng, 0.0, redundant)
    assert correct(unitary, made, steps=0).error_before <= 1e-12


def test_triangles_are_corrected() -> None:
    rng = np.random.default_rng(0)
    unitary = haar(12, rng)
    found = correct(unitary, drawn_devices(triangular(unitary), rng, 0.03))
    assert found.error < found.error_local < found.error_before / 2


def test_same_input_same_phases() -> None:
    rng = np.random.default_rng(2)
    unitary = haar(8, rng)
    made = drawn_devices(rectangular(unitary), rng, 0.03, 1)
    one, other = correct(unitary, made), correct(unitary, made)
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_array_equal(one.phi, other.phi)


MESH = rectangular(np.eye(3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first_ratio": 1.2}, "first_ratio holds 1.2; a share of the power is 0 to 1"),
        ({"second_ratio": np.nan}, "second_ratio holds nan"),
        ({"first_ratio": [0.5, 0.5]}, "first_ratio has shape (2,); give one number or shape (3,)"),
        ({"first_ratio": np.array([None])}, "first_ratio has dtype object"),
        ({"theta_offset": np.inf}, "theta_offset holds inf"),
        ({"inner_loss_db": -0.1}, "inner_loss_db holds -0.1 dB"),
        ({"outer_loss_db": np.inf}, "outer_loss_db holds inf dB"),
        ({"idle_loss_db": -1.0}, "idle_loss_db holds -1.0 dB"),
        ({"redundant_columns": -1}, "redundant_columns is -1"),
        ({"redundant_columns": 1.0}, "redundant_columns is 1.0"),
    ],
)
def test_impossible_devices_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        devices(MESH, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modes": 0}, "modes is 0"),
        ({"row": np.array([0, 1, 5])}, "row holds 5; with 3 modes it must be 0 to 1"),
        ({"column": np.array([0, -1, 2])}, "column holds -1"),
        ({"column": np.array([0, 0, 0])}, "touch mode"),
        ({"first": np.zeros(2)}, "first has shape (2,); for 3 MZIs give (3,)"),
        ({"inner": np.ones(3)}, "inner has shape (3,); for 3 MZIs give (3, 2)"),
        ({"inner": np.zeros((3, 2))}, "inner holds 0.0; a field transmission is above 0"),
        ({"idle": 1.5}, "idle holds 1.5"),
    ],
)
def test_no_mesh_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(devices(MESH), **change)  # type: ignore[arg-type]


def test_bad_targets_and_numbers_are_refused() -> None:
    made = devices(MESH)
    with pytest.raises(ValueError, match=r"U has shape \(2, 2\); these devices make \(3, 3\)"):
        correct(np.eye(2), made)
    with pytest.raises(ValueError, match="not unitary"):
        correct(2 * np.eye(3), made)
    with pytest.raises(ValueError, match=re.escape("W is not orthogonal: max|W^T W - I| is 3")):
        correct_homodyne(2 * np.eye(3), made)
    with pytest.raises(ValueError, match="amplitude is None"):
        correct_homodyne(np.eye(3), made, amplitude=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"U\[0, 0\] is nan"):
        correct(np.full((3, 3), np.nan), made)
    with pytest.raises(ValueError, match="W is complex"):
        correct_homodyne(1j * np.eye(3), made)
    with pytest.raises(ValueError, match="amplitude is 0"):
        correct_homodyne(np.eye(3), made, amplitude=0.0)
    with pytest.raises(ValueError, match="amplitude is nan"):
        correct_homodyne(np.eye(3), made, amplitude=float("nan"))
    with pytest.raises(ValueError, match="steps is -1"):
        correct(np.eye(3), made, steps=-1)
    with pytest.raises(ValueError, match=r"splitter_rms is 0\.5"):
        drawn_devices(MESH, np.random.default_rng(0), 0.5)
    arrays = ("row", "column", "first", "second", "theta_offset", "phi_offset", "inner", "outer")
    torn = replace(made, **{name: getattr(made, name)[1:] for name in arrays})
    with pytest.raises(ValueError, match="2 MZIs on 3 modes, start with neither a rectangular nor a triangular"):
        correct(np.eye(3), torn)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**31))
def test_layer_says_the_truth(rows: int, columns: int, seed: int) -> None:
    """Matrix and error from whole matrices of both meshes, losses and all."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(rows, columns))
    left, right = odd_devices(rows, rng), odd_devices(columns, rng)
    found = correct_layer(weights, left, right, steps=10, seed=1)
    rank = min(rows, columns)
    assert found.attenuation.shape == (rank,)
    assert np.max(found.attenuation) == 1.0
    u = dense(left, found.u.theta, found.u.phi, found.u.output_phase)
    v = dense(right, found.v.theta, found.v.phi, found.v.output_phase)
    field = (u[:, :rank] * found.attenuation) @ v[:rank]
    made = field.real / found.u.row_scale[:, np.newaxis]
    np.testing.assert_allclose(found.matrix(), made, atol=1e-9)
    np.testing.assert_allclose(found.error, np.linalg.norm(made - weights) / np.linalg.norm(weights), atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.booleans(), st.integers(0, 1), st.integers(0, 2**31))
def test_derivatives_with_fields_that_come_in_and_outputs_that_are_dumped(
    modes: int, vectors: int, homodyne: bool, dumped: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    made = odd_devices(modes, rng, lossy=False)
    fields = rng.normal(size=(modes, vectors)) + 1j * rng.normal(size=(modes, vectors))
    read = modes - dumped
    target = np.zeros((read, vectors)) if homodyne else rng.normal(size=(read, vectors)) + 0j
    problem = Problem(made, target, homodyne, fields)
    x = rng.uniform(0, 2 * np.pi, 2 * made.row.size + modes)
    seen = (dense(made, *problem.split(x)) @ fields)[:read]
    missed = (seen.real if homodyne else seen) - target
    np.testing.assert_allclose(illuminate(problem, x).cost, np.linalg.norm(missed) ** 2)
    step = 1e-5
    lights = [(illuminate(problem, x + step * e), illuminate(problem, x - step * e)) for e in np.eye(x.size)]
    slopes = [(above.cost - below.cost) / (4 * step) for above, below in lights]
    np.testing.assert_allclose(gradient(problem, illuminate(problem, x)), slopes, atol=1e-7)
    bends = [(gradient(problem, above) - gradient(problem, below)) / (2 * step) for above, below in lights]
    expected = np.array(bends)[np.ix_(problem.order, problem.order)]
    found = curvature(problem, illuminate(problem, x))
    np.testing.assert_allclose(np.tril(found), np.tril(expected), atol=1e-6)


def test_layer_beats_its_meshes_a_hundred_times() -> None:
    rng = np.random.default_rng(11)
    weights = rng.normal(size=(16, 16))
    mesh = rectangular(np.eye(16))
    left, right = drawn_devices(mesh, rng, 0.02), drawn_devices(mesh, rng, 0.02)
    found = correct_layer(weights, left, right)
    assert found.u.error_before > 0.03
    assert found.error < found.u.error_before / 100


@pytest.mark.parametrize("shape", [(1, 7), (2, 20), (3, 12), (12, 3)])
def test_dumped_modes_are_no_burden(shape: tuple[int, int]) -> None:
    """Only min(m, n) rows of V and columns of U count; fitted as a whole, V's mesh left 1e-4 and more."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=shape)
    left, right = (drawn_devices(rectangular(np.eye(modes)), rng, 0.02) for modes in shape)
    found = correct_layer(weights, left, right)
    assert found.error < 1e-9
    np.testing.assert_allclose(found.matrix(), weights, atol=1e-8)


def test_a_zero_row_of_a_layer_is_not_read() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(4, 5))
    weights[2] = 0.0
    left, right = (drawn_devices(rectangular(np.eye(modes)), rng, 0.02) for modes in (4, 5))
    found = correct_layer(weights, left, right)
    np.testing.assert_array_equal(found.matrix()[2], 0.0)
    missed = np.linalg.norm(found.matrix() - weights) / np.linalg.norm(weights)
    np.testing.assert_allclose(found.error, missed, atol=1e-12)
    assert found.error < 1e-9


@pytest.mark.parametrize("size", [1e-290, 1e-162, 1e160, 1e290])
def test_layers_of_any_size(size: float) -> None:
    rng = np.random.default_rng(0)
    weights, mesh = rng.normal(size=(3, 3)), rectangular(np.eye(3))
    made = drawn_devices(mesh, rng, 0.02)
    found = correct_layer(size * weights, made, made)
    assert found.error < 1e-12
    np.testing.assert_allclose(found.matrix() / size, weights, atol=1e-11)


def test_bad_layers_are_refused() -> None:
    made = devices(MESH)
    with pytest.raises(ValueError, match=r"W has shape \(3, 2\); these devices make \(3, 3\)"):
        correct_layer(np.ones((3, 2)), made, made)
    with pytest.raises(ValueError, match="W is complex"):
        correct_layer(1j * np.eye(3), made, made)
    with pytest.raises(ValueError, match="is all zero"):
        correct_layer(np.zeros((3, 3)), made, made)
    with pytest.raises(ValueError, match=r"W has 1e-310 as its largest entry; rescale it to between 1e-300"):
        correct_layer(np.full((3, 3), 1e-310), made, made)
    with pytest.raises(ValueError, match="amplitude is 2"):
        correct_layer(np.eye(3), made, made, amplitude=2)
    with pytest.raises(ValueError, match=r"steps is 1\.5"):
        correct_layer(np.eye(3), made, made, steps=1.5)
