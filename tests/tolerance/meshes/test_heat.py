"""Heat of large meshes: the convolution against the matrix of distances, what heaters then make, the drive's steps."""

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cells.interferometers import mzi_frame
from optinc_pdk.drive import RangeError, crosstalk
from optinc_pdk.factor import rectangular
from optinc_pdk.files import InputError
from optinc_pdk.tolerance.meshes.heat import driven, own_phases, sites, warmth

PROCESS = load_process("soi220")
SHARE, DISTANCE = 0.029, 25.0


def matrix(modes: int) -> np.ndarray:
    """Crosstalk by every heater's place in um."""
    kind, column, row = sites(rectangular(np.eye(modes)))
    frame, pitch = mzi_frame(PROCESS), float(PROCESS.floorplan.mode_pitch_um)
    place = np.stack([column * frame.end + kind * (frame.theta - frame.phi), -row * pitch], axis=1)
    return crosstalk(place, SHARE, DISTANCE)


@pytest.mark.parametrize("modes", [2, 3, 4, 9])
def test_the_convolution_is_the_matrix_of_distances(modes: int) -> None:
    expected = matrix(modes)
    own = np.random.default_rng(modes).uniform(0, 2 * np.pi, len(expected))
    warm = warmth(rectangular(np.eye(modes)), PROCESS, DISTANCE)
    np.testing.assert_allclose(own + SHARE * warm.others(own), expected @ own, rtol=1e-12)


def test_heaters_make_what_guides_need_and_never_cool() -> None:
    warm = warmth(rectangular(np.eye(24)), PROCESS, DISTANCE)
    phase = np.random.default_rng(0).uniform(0, 2 * np.pi, 24 * 23 + 48)
    own = own_phases(warm, phase, SHARE)
    assert own.min() >= 0.0
    made = own + SHARE * warm.others(own)
    np.testing.assert_allclose(np.exp(1j * made), np.exp(1j * phase), atol=1e-5)
    assert np.any(made > phase + 6.0)  # some needed a turn more


def test_crosstalk_beyond_reason_is_refused() -> None:
    warm = warmth(rectangular(np.eye(6)), PROCESS, DISTANCE)
    with pytest.raises(InputError, match="heaters of a mesh of 6 modes"):
        own_phases(warm, np.random.default_rng(0).uniform(0, 2 * np.pi, 42), 40.0)


@pytest.mark.parametrize("bits", [8.5, 12.0, 16.0])
def test_codes_are_the_nearest_steps_of_the_voltage(bits: float) -> None:
    heater = PROCESS.device("phase_shifter")
    ohm = heater.parameter("sheet_ohm") * heater.size("length_um") / heater.size("heater_width_um")
    full = np.pi * float(PROCESS.drive.full_scale_v) ** 2 / ohm / heater.parameter("power_pi_w")
    phase = np.random.default_rng(0).uniform(0, 2 * np.pi, 500)
    code, exact = (np.sqrt(x / full) * (2.0**bits - 1.0) for x in (driven(PROCESS, phase, bits), phase))
    np.testing.assert_allclose(code, np.rint(code), atol=1e-6)
    assert 0.4 < np.max(np.abs(code - exact)) <= 0.5 + 1e-6


def test_without_bits_nothing_is_rounded_and_full_scale_is_the_limit() -> None:
    phase = np.array([0.0, 1.0])
    np.testing.assert_array_equal(driven(PROCESS, phase, None), phase)
    with pytest.raises(RangeError, match="raise full_scale_v"):
        driven(PROCESS, np.array([1.0, 100.0]), 16.0)
