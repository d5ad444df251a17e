"""Transfer of MZIs and meshes against products of their devices, and invalid meshes."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.factor import Mesh, mzi_transfer, rectangular
from optinc_pdk.factor.mesh import wrap

COUPLER = np.array([[1, 1j], [1j, 1]]) / np.sqrt(2)
PHASE = st.floats(0, 2 * np.pi, exclude_max=True)


def single(theta: float, phi: float, output: tuple[float, float] = (0.0, 0.0)) -> Mesh:
    return Mesh(2, np.array([0]), np.array([0]), np.array([theta]), np.array([phi]), np.array(output))


def dense(mesh: Mesh) -> np.ndarray:
    """The mesh as a product of whole matrices made of couplers and phase shifters, MZI by MZI."""
    product = np.eye(mesh.modes, dtype=complex)
    for index in np.argsort(mesh.column, kind="stable"):
        pair = slice(mesh.row[index], mesh.row[index] + 2)
        stage = np.eye(mesh.modes, dtype=complex)
        arm, entry = np.diag([np.exp(1j * mesh.theta[index]), 1]), np.diag([np.exp(1j * mesh.phi[index]), 1])
        stage[pair, pair] = COUPLER @ arm @ COUPLER @ entry
        product = stage @ product
    return np.diag(np.exp(1j * mesh.output_phase)) @ product


@given(PHASE, PHASE)
def test_transfer_is_coupler_heater_coupler_heater(theta: float, phi: float) -> None:
    devices = COUPLER @ np.diag([np.exp(1j * theta), 1]) @ COUPLER @ np.diag([np.exp(1j * phi), 1])
    np.testing.assert_allclose(mzi_transfer(theta, phi), devices, atol=1e-15)


def test_theta_0_is_cross_and_pi_is_bar() -> None:
    np.testing.assert_allclose(abs(mzi_transfer(0.0, 0.0)), [[0, 1], [1, 0]], atol=1e-15)
    np.testing.assert_allclose(abs(mzi_transfer(np.pi, 0.0)), [[1, 0], [0, 1]], atol=1e-15)


def test_worked_example_of_the_docstring() -> None:
    hadamard = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    mesh = single(np.pi / 2, 0.0, (5 * np.pi / 4, 5 * np.pi / 4))
    np.testing.assert_allclose(mesh.matrix(), hadamard, atol=1e-15)


def test_worked_examples_of_three_modes() -> None:
    row, column = np.array([0, 1, 0]), np.array([0, 1, 2])
    reversal = Mesh(3, row, column, np.zeros(3), np.zeros(3), np.full(3, np.pi))
    np.testing.assert_allclose(reversal.matrix(), np.eye(3)[::-1], atol=1e-15)
    s = np.arcsin(1 / np.sqrt(3))
    theta = np.array([np.pi / 2, 2 * s, np.pi / 2])
    phi = np.array([np.pi / 3, 7 * np.pi / 12, 19 * np.pi / 12 + s])
    output_phase = np.array([3 * np.pi / 4, 5 * np.pi / 12, 11 * np.pi / 6]) - s
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(3), np.arange(3)) / 3) / np.sqrt(3)
    np.testing.assert_allclose(Mesh(3, row, column, theta, phi, output_phase).matrix(), fourier, atol=1e-15)


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_matrix_equals_the_product_of_devices(modes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots = [(row, column) for column in range(modes) for row in range(column % 2, modes - 1, 2)]
    kept = rng.permutation(len(slots))[: rng.integers(0, len(slots) + 1)]
    row = np.array([slots[index][0] for index in kept], dtype=np.int64)
    column = np.array([slots[index][1] for index in kept], dtype=np.int64)
    theta, phi = rng.uniform(0, 2 * np.pi, (2, kept.size))
    mesh = Mesh(modes, row, column, theta, phi, rng.uniform(0, 2 * np.pi, modes))
    np.testing.assert_allclose(mesh.matrix(), dense(mesh), atol=1e-13)
    fields = rng.normal(size=(modes, 3)) + 1j * rng.normal(size=(modes, 3))
    np.testing.assert_allclose(mesh.apply(fields), mesh.matrix() @ fields, atol=1e-13)
    np.testing.assert_allclose(mesh.apply(fields[:, 0]), mesh.matrix() @ fields[:, 0], atol=1e-13)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_batch_is_its_members(modes: int, batch: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots = [(row, column) for column in range(modes) for row in range(column % 2, modes - 1, 2)]
    row, column = np.array(slots, dtype=np.int64).reshape(-1, 2)[::-1].T
    theta, phi = rng.uniform(0, 2 * np.pi, (2, batch, row.size))
    output_phase = rng.uniform(0, 2 * np.pi, (batch, modes))
    meshes = Mesh(modes, row, column, theta, phi, output_phase)
    members = [Mesh(modes, row, column, *phases) for phases in zip(theta, phi, output_phase, strict=True)]
    matrices = np.array([member.matrix() for member in members])
    np.testing.assert_array_equal(meshes.matrix(), matrices)
    shared = rng.normal(size=(modes, 3)) + 1j
    np.testing.assert_allclose(meshes.apply(shared), matrices @ shared, atol=1e-13)
    np.testing.assert_allclose(meshes.apply(shared[:, 0]), matrices @ shared[:, 0], atol=1e-13)
    per_unitary = rng.normal(size=(batch, modes, 2)) + 1j
    np.testing.assert_allclose(meshes.apply(per_unitary), matrices @ per_unitary, atol=1e-13)


@pytest.mark.parametrize("vectors", [0, 1, 127, 128, 129, 300])
def test_any_number_of_vectors(vectors: int) -> None:
    """Around the number of vectors that are propagated together."""
    mesh = single(1.0, 2.0, (3.0, 4.0))
    fields = np.random.default_rng(vectors).normal(size=(2, vectors))
    np.testing.assert_allclose(mesh.apply(fields), mesh.matrix() @ fields, atol=1e-14)


def test_apply_does_not_change_its_input() -> None:
    fields = np.ones(2, dtype=complex)
    single(1.0, 1.0).apply(fields)
    np.testing.assert_array_equal(fields, [1, 1])


def test_apply_takes_read_only_phases_and_strided_fields() -> None:
    phases = np.array([[1.0, 9.0], [2.0, 9.0]])[:, :1]
    phases.flags.writeable = False
    mesh = Mesh(2, np.array([0]), np.array([0]), phases[0], phases[1], np.broadcast_to(0.5, 2))
    fields = np.arange(12.0).reshape(6, 2).T[:, ::2]
    expected = single(1.0, 2.0, (0.5, 0.5)).matrix() @ fields
    np.testing.assert_allclose(mesh.apply(fields), expected, atol=1e-14)


@given(st.floats(-1e3, 1e3))
def test_wrap_is_in_0_to_2_pi(phase: float) -> None:
    wrapped = float(wrap(phase))
    assert 0 <= wrapped < 2 * np.pi
    assert abs(np.exp(1j * wrapped) - np.exp(1j * phase)) < 1e-12


def test_wrap_of_a_tiny_negative_phase_is_zero() -> None:
    assert float(wrap(-1e-20)) == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modes": 0}, "modes .*0"),
        ({"theta": np.array([1.0, 2.0])}, r"theta .*\(2,\)"),
        ({"theta": np.ones((2, 1))}, r"phi .*\(1,\).*theta .*\(2, 1\)"),
        (
            {"theta": np.ones((2, 1)), "phi": np.ones((2, 1))},
            r"output_phase .*\(2,\).*\(2, 2\)",
        ),
        ({"theta": np.ones((1, 1, 1))}, r"theta .*\(1, 1, 1\)"),
        ({"column": np.array([[0]])}, r"column .*\(1, 1\)"),
        ({"output_phase": np.zeros(3)}, r"output_phase .*\(3,\)"),
        ({"theta": np.array([np.nan])}, r"theta\[0\].*nan"),
        ({"phi": np.array([2 * np.pi])}, r"phi\[0\].*6\.28"),
        ({"output_phase": np.array([0.0, -1.0])}, r"output_phase\[1\].*-1\.0"),
        ({"row": np.array([1])}, r"row\[0\].*1"),
        ({"column": np.array([66])}, r"column\[0\] is 66; .* 0 to 65"),
    ],
)
def test_invalid_meshes_are_refused(change: dict[str, object], message: str) -> None:
    good = {
        "modes": 2,
        "row": np.array([0]),
        "column": np.array([0]),
        "theta": np.array([1.0]),
        "phi": np.array([1.0]),
        "output_phase": np.zeros(2),
    }
    with pytest.raises(ValueError, match=message):
        Mesh(**{**good, **change})  # type: ignore[arg-type]


def test_two_mzis_on_one_mode_of_a_column_are_refused() -> None:
    with pytest.raises(ValueError, match=r"column 1.*mode 1"):
        Mesh(3, np.array([0, 1]), np.array([1, 1]), np.zeros(2), np.zeros(2), np.zeros(3))


@pytest.mark.parametrize("shape", [(), (3,), (3, 2), (1, 2, 2), (2, 2, 2, 2)])
def test_fields_of_a_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"fields.*" + re.escape(str(shape))):
        single(0.0, 0.0).apply(np.ones(shape))


@pytest.mark.parametrize("shape", [(), (3,), (4, 2, 1), (3, 3, 1)])
def test_fields_of_another_batch_are_refused(shape: tuple[int, ...]) -> None:
    one = np.zeros((3, 1))
    meshes = Mesh(2, np.array([0]), np.array([0]), one, one, np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"\(3, 2, vectors\)"):
        meshes.apply(np.ones(shape))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([np.nan, 0.0], r"fields\[0\].*nan"),
        (np.array([1, 2], dtype=object), "fields.*object"),
        (["a", "b"], "fields.*<U1"),
        ([[1, 2], [3]], "fields.*lengths"),
    ],
)
def test_fields_are_finite_numbers(fields: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rectangular(np.eye(2)).apply(fields)  # type: ignore[arg-type]
