"""Heater drive: phase, power, voltage and code, there and back."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.drive import Ground, Heater, RangeError, crosstalk, currents, program, readback


def heater(channels: int = 3, **change: object) -> Heater:
    given_numbers: dict[str, object] = {
        "power_pi_w": 0.02,
        "resistance_ohm": np.full(channels, 500.0),
        "wire_ohm": np.full(channels, 25.0),
        "dac_bits": 16,
        "full_scale_v": 5.0,
    }
    return Heater(**{**given_numbers, **change})  # type: ignore[arg-type]


@st.composite
def heaters_and_phases(draw: st.DrawFn) -> tuple[Heater, np.ndarray]:
    """Heaters whose DAC reaches a full turn, and phases for them."""
    channels = draw(st.integers(0, 8))

    def array(low: float, high: float) -> np.ndarray:
        entries = st.floats(low, high, exclude_max=True)
        return np.array(draw(st.lists(entries, min_size=channels, max_size=channels)), dtype=float)

    resistance, wire = array(50.0, 5e3), array(0.0, 500.0)
    power_pi = draw(st.floats(1e-3, 0.1))
    needed = np.max(np.sqrt(2 * power_pi / resistance) * (resistance + wire), initial=0.1)
    full_scale = needed * draw(st.floats(1.0, 3.0))
    return Heater(power_pi, resistance, wire, draw(st.integers(1, 24)), full_scale), array(0.0, 2 * np.pi)


@pytest.mark.parametrize("bits", [12.5, True, "8", None])
def test_bits_are_whole_numbers(bits: object) -> None:
    with pytest.raises(ValueError, match=re.escape(f"dac_bits is {bits!r}; give a whole number, 1 to 32")):
        heater(dac_bits=bits)


def test_a_power_is_a_number() -> None:
    with pytest.raises(ValueError, match="power_pi_w is 'a'; give a positive"):
        heater(power_pi_w="a")


@pytest.mark.parametrize("phases", [["1", "2", "3"], [True, False, True], [1, 2, 1j], [1, 2, None], [[1], [2, 3]]])
def test_phases_are_real_numbers(phases: list[object]) -> None:
    with pytest.raises(ValueError, match="phase_rad has"):
        program(heater(), phases)  # type: ignore[arg-type]


@given(heaters_and_phases())
def test_round_trip_is_within_half_a_step(case: tuple[Heater, np.ndarray]) -> None:
    heaters, phases = case
    wanted = program(heaters, phases)
    made = readback(heaters, wanted.code)
    half = heaters.step_v / 2
    assert np.all(np.abs(made.voltage_v - wanted.voltage_v) <= half * (1 + 1e-6))
    # phi grows with V^2, so half a step in V is at most this much in phase.
    per_volt_squared = np.pi * heaters.resistance_ohm / (heaters.resistance_ohm + heaters.wire_ohm) ** 2
    bound = per_volt_squared / heaters.power_pi_w * (2 * wanted.voltage_v + half) * half
    assert np.all(np.abs(made.phase_rad - phases) <= bound * (1 + 1e-6) + 1e-12)


@given(heaters_and_phases())
def test_codes_that_were_read_back_program_to_themselves(case: tuple[Heater, np.ndarray]) -> None:
    heaters, phases = case
    made = readback(heaters, program(heaters, phases).code)
    turned = made.phase_rad < 2 * np.pi
    again = program(heaters, np.where(turned, made.phase_rad, 0.0))
    np.testing.assert_array_equal(again.code[turned], made.code[turned])


def test_numbers_by_hand() -> None:
    """pi in a 500 ohm heater behind 25 ohm: 20 mW, sqrt(0.02 / 500) A = 6.325 mA, times 525 ohm."""
    drive = program(heater(2), [np.pi, 0.0])
    np.testing.assert_allclose(drive.power_w, [0.02, 0.0])
    np.testing.assert_allclose(drive.voltage_v, [np.sqrt(0.02 / 500) * 525, 0.0])
    assert drive.code.tolist() == [round(3.3203915431767985 / 5 * 65535), 0]


def test_wire_power_is_not_heater_power() -> None:
    made = readback(heater(1), np.array([65535]))
    current = 5.0 / 525
    np.testing.assert_allclose(made.power_w, [current**2 * 500])
    np.testing.assert_allclose(made.phase_rad, [np.pi * current**2 * 500 / 0.02])


@given(st.integers(1, 24))
def test_phase_rises_with_code(bits: int) -> None:
    heaters = heater(2, dac_bits=bits)
    codes = np.array([0, heaters.max_code])
    assert np.all(np.diff(readback(heaters, codes).phase_rad) > 0)


def test_full_scale_itself_is_reached() -> None:
    heaters = heater(1, full_scale_v=float(np.sqrt(0.02 / 500) * 525))
    assert program(heaters, [np.pi]).code.tolist() == [heaters.max_code]


def test_overdrive_names_channel_value_limit_and_mend() -> None:
    wires = np.array([25.0, 400.0, 200.0])
    with pytest.raises(ValueError, match=r"channel 1 needs 5\.692 V.*5 V \(1 of 3 .*raise full_scale_v"):
        program(heater(3, wire_ohm=wires), np.full(3, np.pi))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"power_pi_w": 0.0}, "power_pi_w is 0.0"),
        ({"full_scale_v": np.nan}, "full_scale_v is nan"),
        ({"dac_bits": 0}, "dac_bits is 0"),
        ({"dac_bits": 33}, "dac_bits is 33"),
        ({"wire_ohm": np.zeros(2)}, "wire_ohm (2,)"),
        ({"resistance_ohm": np.array([500.0, 0.0, 500.0])}, "resistance_ohm of channel 1 is 0.0"),
        ({"wire_ohm": np.array([0.0, 0.0, -1.0])}, "wire_ohm of channel 2 is -1.0"),
        ({"wire_ohm": np.array([np.nan, 0.0, 0.0])}, "wire_ohm of channel 0 is nan"),
    ],
)
def test_impossible_heaters_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        heater(**change)


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ([0.0, 0.0], "phase_rad has shape (2,)"),
        ([0.0, -0.1, 0.0], "phase_rad of channel 1 is -0.1"),
        ([0.0, 0.0, 2 * np.pi], "phase_rad of channel 2 is 6.28"),
        ([np.nan, 0.0, 0.0], "phase_rad of channel 0 is nan"),
    ],
)
def test_bad_phases_are_refused(phase: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        program(heater(), phase)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (np.zeros(2, dtype=int), "code has shape (2,)"),
        (np.zeros(3), "code has dtype float64"),
        (np.array([0, 65536, 0]), "code of channel 1 is 65536"),
        (np.array([0, 0, -1]), "code of channel 2 is -1"),
    ],
)
def test_bad_codes_are_refused(code: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        readback(heater(), code)


def grid(channels: int, pitch_um: float = 60.0) -> np.ndarray:
    return pitch_um * np.stack(np.divmod(np.arange(channels), 4), axis=1).astype(float)


@given(st.integers(1, 12), st.floats(0, 0.05), st.integers(0, 2**31))
def test_crosstalk_round_trip(channels: int, share: float, seed: int) -> None:
    """Forward by hand: every heater's power warms every guide; codes are fine enough not to matter."""
    phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, channels)
    matrix = crosstalk(grid(channels), share, 60.0)
    heaters = heater(channels, dac_bits=32, full_scale_v=12.0)
    drive = program(heaters, phases, matrix)
    assert np.all(drive.power_w >= 0)
    own = [np.pi * power / 0.02 for power in drive.power_w]
    made = np.array([sum(matrix[i, j] * own[j] for j in range(channels)) for i in range(channels)])
    np.testing.assert_allclose(np.exp(1j * made), np.exp(1j * phases), atol=1e-9)
    back = readback(heaters, drive.code, matrix)
    np.testing.assert_allclose(np.exp(1j * back.phase_rad), np.exp(1j * phases), atol=1e-6)
    np.testing.assert_array_equal(drive.phase_rad, phases)


def test_crosstalk_falls_with_distance() -> None:
    matrix = crosstalk([[0, 0], [60, 0], [0, 120], [0, 1]], 0.05, 60.0)
    np.testing.assert_allclose(np.diagonal(matrix), 1.0)
    np.testing.assert_allclose(matrix, matrix.T)
    np.testing.assert_allclose(matrix[0, 1:], [0.05, 0.025, 1.0])


def test_without_crosstalk_nothing_changes() -> None:
    phases = np.array([0.0, 1.0, 6.0])
    alone = program(heater(full_scale_v=12.0), phases)
    identity = program(heater(full_scale_v=12.0), phases, np.eye(3))
    np.testing.assert_array_equal(alone.code, identity.code)


def test_a_heater_too_warm_already_gets_a_turn_more() -> None:
    """0.2 of pi arrives unasked at the second guide, which wants 0.1: 2 pi more than that has to come."""
    matrix = np.array([[1.0, 0.2], [0.2, 1.0]])
    drive = program(heater(2, full_scale_v=12.0), [np.pi, 0.1], matrix)
    own = np.linalg.solve(matrix, [np.pi, 0.1 + 2 * np.pi])
    np.testing.assert_allclose(np.pi * drive.power_w / 0.02, own)


def test_ignored_crosstalk_shows_in_the_phases() -> None:
    heaters, matrix = heater(4, full_scale_v=12.0), crosstalk(grid(4), 0.02, 60.0)
    phases = np.full(4, 3.0)
    ignored = readback(heaters, program(heaters, phases).code, matrix).phase_rad
    assert np.max(np.abs(ignored - phases)) > 0.05
    minded = readback(heaters, program(heaters, phases, matrix).code, matrix).phase_rad
    assert np.max(np.abs(minded - phases)) < 1e-3


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(2), "crosstalk has shape (2, 2)"),
        (np.eye(3, dtype=object), "crosstalk has dtype object"),
        (np.eye(3) - 0.1, "crosstalk[0, 1] is -0.1"),
        (np.full((3, 3), np.nan), "crosstalk[0, 0] is nan"),
        (2 * np.eye(3), "a diagonal other than 1"),
        (np.ones((3, 3)), "crosstalk is singular"),
        (np.array([[1, 3, 3], [3, 1, 3], [3, 3, 1.0]]), "no heater cools"),
    ],
)
def test_bad_crosstalk_is_refused(matrix: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        program(heater(full_scale_v=1e6), [1.0, 2.0, 3.0], matrix)


@pytest.mark.parametrize(
    ("position", "share", "distance", "message"),
    [
        ([0.0, 1.0], 0.1, 1.0, "position_um has shape (2,)"),
        ([[0.0, np.nan]], 0.1, 1.0, "position_um holds nan"),
        ([[0.0, 1.0], [0.0, 1.0]], 0.1, 1.0, "channels 0 and 1 are equal"),
        ([[0.0, 1.0]], 1.0, 1.0, "share is 1.0"),
        ([[0.0, 1.0]], 0.1, 0.0, "distance_um is 0.0"),
    ],
)
def test_impossible_neighbors_are_refused(
    position: list[list[float]], share: float, distance: float, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        crosstalk(position, share, distance)


# ohm of shared ground: what a current in one channel raises another's ground by
GROUND = np.array([[20.0, 10.0, 5.0], [10.0, 30.0, 15.0], [5.0, 15.0, 40.0]])


def test_voltages_make_good_what_grounds_rise_by() -> None:
    alone, shared = heater(full_scale_v=8.0), heater(full_scale_v=8.0, rise_v=GROUND.dot)
    phases = np.array([1.0, 0.0, 6.0])
    ideal, made = program(alone, phases), program(shared, phases)
    current = np.sqrt(made.power_w / 500)
    np.testing.assert_array_equal(made.power_w, ideal.power_w)
    # a heater that is off has no voltage, whatever its ground does
    np.testing.assert_allclose(made.voltage_v, 525 * current + (GROUND @ current) * [1, 0, 1], rtol=1e-12)
    np.testing.assert_allclose(readback(shared, made.code).phase_rad, phases, atol=1e-3)
    # a drive that knows of no ground misses its phases
    assert np.max(phases - readback(shared, ideal.code).phase_rad) > 0.5


def test_currents_through_grounds_are_those_of_the_network() -> None:
    shared = heater(rise_v=GROUND.dot)
    voltage = np.array([3.0, 1.0, 5.0])
    np.testing.assert_allclose(
        currents(shared, voltage), np.linalg.solve(525 * np.eye(3) + GROUND, voltage), rtol=1e-10
    )
    # a DAC sinks no current: a pad below its ground is open
    current = currents(shared, np.array([0.0, 0.01, 5.0]))
    assert current[0] == current[1] == 0
    assert current[2] == pytest.approx(5 / 565, rel=1e-10)


def test_grounds_as_resistive_as_heaters_are_refused() -> None:
    with pytest.raises(RangeError, match="widen the grounds"):
        readback(heater(rise_v=lambda current: 600 * current.sum() * np.ones(3)), np.array([9000, 9000, 9000]))


def test_a_ground_serves_channels_in_any_order() -> None:
    ground = Ground(("a", "b", "c"), GROUND.dot)
    current = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(ground.of(["c", "x", "a"])(current), (GROUND @ [4.0, 0.0, 1.0])[[2, 0, 0]] * [1, 0, 1])
