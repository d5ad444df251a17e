"""Coupled guides of any gap: the equivalent length against closed forms, and properties of the S-matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.special import ive, modstruve

from optinc_pdk import active_pdk
from optinc_pdk.cards import load_process
from optinc_pdk.cards.device_models import SETTINGS
from optinc_pdk.cells import CELLS, couplers
from optinc_pdk.models import (
    coupled_guides,
    coupled_length_um,
    device_s,
    net_transmission,
    path_difference_um,
    sampled_s,
)
from optinc_pdk.models.coupled_guides import distances_um, nearest_um
from optinc_pdk.models.registry import ModelError

PROCESS = load_process()
CARD = PROCESS.device("coupler")
WIDTH, GAP, DECAY = 0.45, 0.2, 0.133
ANGLES = st.floats(-20.0, 20.0)
LOSSES = st.floats(0.01, 5.0)


def arc(radius: float, height: float, count: int = 4001) -> np.ndarray:
    """The lower half of a circle whose lowest point is at (0, height)."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, count)
    return np.stack([radius * np.sin(angle), height + radius * (1 - np.cos(angle))], axis=1)


@given(st.floats(1.0, 200.0), st.floats(0.1, 2.0), st.floats(0.05, 0.5))
def test_parallel_guides_have_the_length_times_the_decay_of_their_gap(length: float, gap: float, decay: float) -> None:
    lower = np.array([[0.0, 0.0], [length, 0.0]])
    found = coupled_length_um(lower, lower + np.array([0.0, WIDTH + gap]), WIDTH, GAP, decay)
    assert found == pytest.approx(length * np.exp((GAP - gap) / decay), rel=1e-12)


@pytest.mark.full(every=2)
@pytest.mark.parametrize("radius", [5.0, 10.0, 30.0])
@pytest.mark.parametrize("gap", [0.15, 0.2, 0.4])
def test_a_ring_over_a_straight_guide_has_the_closed_form(radius: float, gap: float) -> None:
    straight = np.array([[-60.0, 0.0], [60.0, 0.0]])
    found = coupled_length_um(arc(radius, WIDTH + gap), straight, WIDTH, GAP, DECAY)
    # along the ring the gap is gap + R (1 - cos), whose integral is a modified Bessel and a modified Struve function
    x = radius / DECAY
    ring = np.pi * radius * (ive(0, x) + (modstruve(0, x) * np.exp(-x)))
    across = quad(lambda z: np.exp((radius + WIDTH - np.hypot(z, radius + gap + WIDTH) + gap) / DECAY), 0, 60)[0] * 2
    assert found == pytest.approx(np.exp((GAP - gap) / DECAY) * (ring + across) / 2, rel=2e-4)


@pytest.mark.full
def test_concentric_guides_couple_over_the_mean_of_their_lengths() -> None:
    inner, outer = arc(10.0, 0.0), arc(10.0 + WIDTH + GAP, -WIDTH - GAP)
    assert coupled_length_um(inner, outer, WIDTH, GAP, DECAY) == pytest.approx(
        np.pi * (10.0 + (WIDTH + GAP) / 2), rel=1e-5
    )


def test_the_length_does_not_depend_on_order_direction_or_position() -> None:
    ring, straight = arc(10.0, 0.7, 129), np.array([[-20.0, 0.0], [20.0, 0.0]])
    expected = coupled_length_um(ring, straight, WIDTH, GAP, DECAY)
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    for one, two in ((straight, ring), (ring[::-1], straight), (ring @ turn + 7.0, straight @ turn + 7.0)):
        assert coupled_length_um(one, two, WIDTH, GAP, DECAY) == pytest.approx(expected, rel=1e-12)


def test_concentric_guides_differ_by_their_distance_times_the_angle() -> None:
    inner, outer = arc(10.0, 0.0, 257), arc(10.0 + WIDTH + GAP, -WIDTH - GAP, 257)
    assert path_difference_um(outer, inner, DECAY) == pytest.approx(np.pi * (WIDTH + GAP), rel=1e-4)
    for one, two in ((inner, outer), (inner[::-1], outer)):
        assert path_difference_um(one, two, DECAY) == pytest.approx(-np.pi * (WIDTH + GAP), rel=1e-4)


def test_guides_side_by_side_and_straights_under_rings_do_not_differ() -> None:
    straight, ring = np.array([[-60.0, 0.0], [60.0, 0.0]]), arc(10.0, 0.65, 257)
    assert path_difference_um(straight, ring, DECAY) == 0.0
    assert path_difference_um(ring * [1, -1], ring, DECAY) == 0.0
    assert path_difference_um(straight, straight + np.array([0.0, 0.65]), DECAY) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("radius", [10.0, 20.0, 40.0])
@pytest.mark.parametrize("half_deg", [10.0, 14.0])
def test_a_pulley_couples_as_the_coupled_mode_equations_say(radius: float, half_deg: float) -> None:
    with active_pdk():
        cell = CELLS["coupler_ring_bend"](radius=radius, coupler_gap=GAP, coupling_angle_coverage=2 * half_deg)
        values = {key: np.array([cell.info[key]]) for key in SETTINGS["coupled_guides"]}
        side, chords = couplers.outer_half(radius, WIDTH + GAP, half_deg, 10.0)
        guide, ring = (
            couplers.mirrored(side, 0.0),
            couplers.mirrored(couplers.ring_quarter(radius, half_deg, chords), 0.0),
        )
    # light that begins in the guide, along short steps of the ring
    place = np.linspace(0.0, len(ring) - 1 - 1e-9, 40 * len(ring))
    points = ring[place.astype(int)] + (place % 1)[:, None] * np.diff(ring, axis=0)[place.astype(int)]
    apart, beyond = nearest_um(points, guide)
    steps, others = np.hypot(*np.diff(points, axis=0).T), np.diff(beyond)
    gap = (apart[1:] + apart[:-1]) / 2 - WIDTH
    angle = CARD.parameter("coupling_per_um") * np.exp((GAP - gap) / CARD.parameter("decay_um")) * (steps + others) / 2
    phase = np.pi * float(PROCESS.guide.index) * (others - steps) / 1.55
    light = np.array([1.0, 0.0], dtype=complex)
    for kappa, mismatch in zip(angle, phase, strict=True):
        light = expm(1j * np.array([[mismatch, kappa], [kappa, -mismatch]])) @ light
    s = sampled_s(PROCESS, "coupler", [1550.0], values)[0, 0]
    share = abs(s[2, 0]) ** 2 / (abs(s[2, 0]) ** 2 + abs(s[3, 0] * s[2, 1]))
    assert share == pytest.approx(abs(light[1]) ** 2, rel=0.1)
    # without the difference of the paths it would be more by half at least
    assert np.sin(CARD.parameter("coupling_per_um") * values["coupled_length_um"][0]) ** 2 > share


def test_points_of_a_line_may_coincide_and_distances_are_to_segments() -> None:
    line = np.array([[0.0, 0.0], [0.0, 0.0], [4.0, 0.0]])
    assert distances_um(np.array([[2.0, 3.0], [7.0, 4.0]]), line).tolist() == [3.0, 5.0]


@given(ANGLES, ANGLES, LOSSES, st.floats(0.0, 300.0), st.floats(0.0, 300.0), st.floats(1500.0, 1600.0))
def test_the_device_is_reciprocal_passive_and_symmetric(
    angle: float, mismatch: float, loss: float, first: float, second: float, wavelength: float
) -> None:
    halves = [net_transmission(PROCESS, length / 2, wavelength) for length in (first, second)]
    s = coupled_guides(wavelength, *halves, angle, mismatch, loss, 1550.0, 0.004, -70.0)
    assert np.array_equal(s, s.T)
    assert np.linalg.norm(s, 2) <= 1.0 + 1e-12
    exchanged = coupled_guides(wavelength, *halves[::-1], angle, -mismatch, loss, 1550.0, 0.004, -70.0)
    order = [1, 0, 3, 2]
    assert np.array_equal(exchanged, s[order][:, order])


def test_an_ideal_device_is_unitary_with_the_cross_power_of_coupled_modes() -> None:
    one = np.ones(1)
    for mismatch in (0.0, 1.3):
        s = coupled_guides([1550.0], one, one, 0.7, mismatch, 0.0, 1550.0, 0.004, -1000.0)[0]
        assert np.allclose(s @ s.conj().T, np.eye(4), atol=1e-15)
        both = np.hypot(0.7, mismatch)
        assert abs(s[2, 0]) ** 2 == pytest.approx((0.7 / both * np.sin(both)) ** 2)
    s = coupled_guides([1550.0], one, one, 0.7, 0.0, 0.0, 1550.0, 0.004, -1000.0)[0]
    assert np.allclose(s @ s.conj().T, np.eye(4), atol=1e-15)
    assert abs(s[2, 0]) ** 2 == pytest.approx(np.sin(0.7) ** 2)
    assert s[3, 0] == pytest.approx(np.cos(0.7))


def test_gain_is_refused() -> None:
    with pytest.raises(ValueError, match="limit is 1"):
        coupled_guides(1550.0, 1.0, 1.0, 0.7, 0.0, 0.0, 1550.0, 0.0, -40.0)


def test_the_card_gives_the_fixed_couplers_share_of_power() -> None:
    # the card's coupling is derived from the length of the fixed coupler with its arms
    values = {"coupled_length_um": np.array([19.57])}
    values |= {"path_difference_um": np.zeros(1), "guide_1_um": np.array([10.0]), "guide_2_um": np.array([30.0])}
    s = sampled_s(PROCESS, "coupler", [1550.0], values)[0, 0]
    share = abs(s[2, 0]) ** 2 / (abs(s[2, 0]) ** 2 + abs(s[3, 0] * s[2, 1]))
    assert share == pytest.approx(PROCESS.device("directional_coupler").parameter("cross"), abs=1e-3)
    # light that crosses travels half of each guide
    length = net_transmission(PROCESS, 20.0, 1550.0)
    assert np.angle(s[2, 0] / length) == pytest.approx(np.pi / 2)


def test_a_device_without_settings_cannot_be_simulated() -> None:
    with pytest.raises(ModelError, match="coupled_length_um"):
        device_s(PROCESS, "coupler", 1550.0)


def test_the_card_decays_as_the_mode_of_the_guide() -> None:
    for name in ("soi220", "soi220_two_metal"):
        process = load_process(name)
        index, reference = float(process.guide.index), float(process.guide.wavelength_nm) * 1e-3
        decay = reference / (2 * np.pi * np.sqrt(index**2 - 1.444**2))
        assert process.device("coupler").parameter("decay_um") == pytest.approx(decay, abs=5e-4)
