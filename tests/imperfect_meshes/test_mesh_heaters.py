"""Heaters of large meshes: crosstalk by convolution against the matrix of distances; phases at the drive's steps."""

from dataclasses import replace

import numpy as np
import pytest
from imperfect_meshes.mesh_heaters import MeshCrosstalk, heater_sites, mesh_crosstalk, rounded_phases

from optinc_pdk.cards import load_process
from optinc_pdk.cells.interferometers import mzi_positions
from optinc_pdk.drive import DistanceCrosstalk, RangeError, compensate
from optinc_pdk.factor import Mesh, rectangular

PROCESS = load_process("soi220")
SHARE, DISTANCE = 0.029, 25.0


def mesh_operator(modes: int) -> MeshCrosstalk:
    return mesh_crosstalk(rectangular(np.eye(modes)), PROCESS, SHARE, DISTANCE)


def matrix(modes: int) -> np.ndarray:
    """Crosstalk by every heater's position in um."""
    site, column, row = heater_sites(rectangular(np.eye(modes)))
    frame, pitch = mzi_positions(PROCESS), float(PROCESS.floorplan.mode_pitch_um)
    position = np.stack([column * frame.end + site * (frame.theta - frame.phi), -row * pitch], axis=1)
    return DistanceCrosstalk(position, SHARE, DISTANCE).matrix


@pytest.mark.parametrize("modes", [2, 3, 4, 9])
def test_the_convolution_is_a_product_with_the_matrix(modes: int) -> None:
    expected, operator = matrix(modes), mesh_operator(modes)
    own = np.random.default_rng(modes).uniform(0, 2 * np.pi, operator.heaters)
    np.testing.assert_allclose(operator.apply(own), expected @ own, rtol=1e-12)


def test_compensated_phases_give_the_targets_and_are_not_negative() -> None:
    operator = mesh_operator(24)
    target = np.random.default_rng(0).uniform(0, 2 * np.pi, 24 * 23 + 48)
    own = compensate(operator, target)
    assert own.min() >= 0.0
    guide = operator.apply(own)
    np.testing.assert_allclose(np.exp(1j * guide), np.exp(1j * target), atol=1e-8)
    assert np.any(guide > target + 6.0)  # some needed a turn more


def test_the_largest_meshes_take_few_convolutions() -> None:
    """16,256 heaters; a convolution of theirs takes milliseconds."""

    class Counted(MeshCrosstalk):
        count = 0

        def apply(self, own_rad: np.ndarray) -> np.ndarray:
            Counted.count += 1
            return super().apply(own_rad)

    column, row = (np.concatenate(x) for x in zip(*[_column(c, 127) for c in range(127)], strict=True))
    angle = np.zeros(row.size)
    mesh = Mesh(modes=127, row=row, column=column, theta=angle, phi=angle, output_phase=np.zeros(127))
    operator = mesh_crosstalk(mesh, PROCESS, SHARE, DISTANCE)
    counted = Counted(operator.mesh, operator.kernel, operator.shape, SHARE, DISTANCE)
    target = np.random.default_rng(0).uniform(0, 2 * np.pi, counted.heaters)
    compensate(counted, target)
    assert Counted.count < 120


def _column(number: int, modes: int) -> tuple[np.ndarray, np.ndarray]:
    row = np.arange(number % 2, modes - 1, 2)
    return np.full_like(row, number), row


def test_too_strong_crosstalk_is_refused() -> None:
    operator = replace(mesh_operator(6), share=40.0)
    with pytest.raises(RangeError, match=r"42 heaters.* 40 at 25 µm in a mesh of 6 modes"):
        compensate(operator, np.random.default_rng(0).uniform(0, 2 * np.pi, 42))


@pytest.mark.parametrize("bits", [8.5, 12.0, 16.0])
def test_codes_are_the_nearest_steps_of_the_voltage(bits: float) -> None:
    heater = PROCESS.device("phase_shifter")
    ohm = heater.parameter("sheet_ohm") * heater.size("length_um") / heater.size("heater_width_um")
    full = np.pi * float(PROCESS.drive.full_scale_v) ** 2 / ohm / heater.parameter("power_pi_w")
    phase = np.random.default_rng(0).uniform(0, 2 * np.pi, 500)
    code, exact = (np.sqrt(x / full) * (2.0**bits - 1.0) for x in (rounded_phases(PROCESS, phase, bits), phase))
    np.testing.assert_allclose(code, np.rint(code), atol=1e-6)
    assert 0.4 < np.max(np.abs(code - exact)) <= 0.5 + 1e-6


def test_without_bits_nothing_is_rounded_and_full_scale_is_the_limit() -> None:
    phase = np.array([0.0, 1.0])
    np.testing.assert_array_equal(rounded_phases(PROCESS, phase, None), phase)
    with pytest.raises(RangeError, match=r"100 rad.* 12 V"):
        rounded_phases(PROCESS, np.array([1.0, 100.0]), 16.0)
