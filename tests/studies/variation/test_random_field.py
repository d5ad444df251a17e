"""Wafer-scale random field: covariance against the formula; effective waveguide length against its integral."""

import numpy as np
import pytest

from optinc_pdk.studies.variation.sampling import effective_length_um, wafer_field

LENGTH_UM = 9000.0


def drawn(position, length=LENGTH_UM, count=4000):
    rng = np.random.default_rng(5)
    return np.array([wafer_field(position, length, rng) for _ in range(count)])


@pytest.mark.parametrize("die_um", [(11_000.0, 4_900.0), (33_000.0, 26_000.0)], ids=["die", "reticle"])
def test_covariance_is_gaussian_in_the_distance(die_um):
    place = np.random.default_rng(1).uniform(0.0, 1.0, (12, 2)) * np.array(die_um)
    field = drawn(place)
    apart = np.linalg.norm(place[:, np.newaxis] - place, axis=2)
    expected = np.exp(-((apart / LENGTH_UM) ** 2))
    # the standard error of a covariance from 4000 draws is up to √(2 / 4000) = 0.022
    assert np.abs(field.T @ field / len(field) - expected).max() < 4 * 0.022
    assert np.abs(field.mean(axis=0)).max() < 4 / np.sqrt(len(field))
    # distant points detect a wrong correlation length: half of it would reduce these values to 0.04
    assert expected.min() < 0.5


def test_the_difference_between_neighbours_agrees_with_the_formula():
    """For two arms of an MZI at 26 µm, the rms difference is √(2 (1 - exp(-(d/l)²))), 0.4 %."""
    apart = 26.0
    field = drawn(np.array([[2000.0, 1000.0], [2000.0, 1000.0 + apart], [9000.0, 4000.0]]))
    rms = float(np.std(field[:, 0] - field[:, 1]))
    assert rms == pytest.approx(np.sqrt(2 * (1 - np.exp(-((apart / LENGTH_UM) ** 2)))), rel=0.05)


def test_values_do_not_depend_on_other_points():
    ends = [[0.0, 0.0], [9000.0, 4000.0]]
    few = wafer_field(np.array([*ends, [3000.0, 2000.0]]), LENGTH_UM, np.random.default_rng(2))
    more = wafer_field(np.array([*ends, [3000.0, 2000.0], [100.0, 3900.0]]), LENGTH_UM, np.random.default_rng(2))
    assert np.allclose(few, more[:3], atol=1e-12)


@pytest.mark.parametrize("length", [0.0, 1e-3, 3.0, 30.0, 3000.0])
def test_the_effective_length_is_the_integral_of_the_correlation(length):
    steps = np.linspace(0.0, length, 3001)
    weight = (length - steps) * np.exp(-((steps / 10.0) ** 2))
    expected = np.sqrt(2.0 * np.trapezoid(weight, steps))
    assert effective_length_um(np.array([length]), 10.0)[0] == pytest.approx(expected, rel=1e-4, abs=1e-6)
