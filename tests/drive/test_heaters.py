"""Heater drive: phase to power, voltage and code, and back; ground potentials by channel label."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.drive import HeaterArray, RangeError, SharedGround, drive_heaters, heater_currents, readback


def heater(channels: int = 3, **change: object) -> HeaterArray:
    given_numbers: dict[str, object] = {
        "power_pi_w": 0.02,
        "resistance_ohm": np.full(channels, 500.0),
        "wire_ohm": np.full(channels, 25.0),
        "dac_bits": 16,
        "full_scale_v": 5.0,
    }
    return HeaterArray(**{**given_numbers, **change})  # type: ignore[arg-type]


@st.composite
def heaters_and_phases(draw: st.DrawFn) -> tuple[HeaterArray, np.ndarray]:
    """Heaters whose DAC reaches a full turn, and phases for them."""
    channels = draw(st.integers(0, 8))

    def array(low: float, high: float) -> np.ndarray:
        entries = st.floats(low, high, exclude_max=True)
        return np.array(draw(st.lists(entries, min_size=channels, max_size=channels)), dtype=float)

    resistance, wire = array(50.0, 5e3), array(0.0, 500.0)
    power_pi = draw(st.floats(1e-3, 0.1))
    needed = np.max(np.sqrt(2 * power_pi / resistance) * (resistance + wire), initial=0.1)
    full_scale = needed * draw(st.floats(1.0, 3.0))
    return HeaterArray(power_pi, resistance, wire, draw(st.integers(1, 24)), full_scale), array(0.0, 2 * np.pi)


@pytest.mark.parametrize("bits", [12.5, True, "8", None])
def test_bits_are_whole_numbers(bits: object) -> None:
    with pytest.raises(ValueError, match=re.escape(f"dac_bits = {bits!r}: give a whole number")):
        heater(dac_bits=bits)


def test_a_power_is_a_number() -> None:
    with pytest.raises(ValueError, match="power_pi_w = 'a'"):
        heater(power_pi_w="a")


@pytest.mark.parametrize("phases", [["1", "2", "3"], [True, False, True], [1, 2, 1j], [1, 2, None], [[1], [2, 3]]])
def test_phases_are_real_numbers(phases: list[object]) -> None:
    with pytest.raises(ValueError, match="own_rad has"):
        drive_heaters(heater(), phases)  # type: ignore[arg-type]


@given(heaters_and_phases())
def test_round_trip_is_within_half_a_step(case: tuple[HeaterArray, np.ndarray]) -> None:
    heaters, phases = case
    exact = drive_heaters(heaters, phases)
    rounded = readback(heaters, exact.code)
    half = heaters.step_v / 2
    assert np.all(np.abs(rounded.voltage_v - exact.voltage_v) <= half * (1 + 1e-6))
    # phi grows with V^2, so half a step in V is at most this much in phase.
    per_volt_squared = np.pi * heaters.resistance_ohm / (heaters.resistance_ohm + heaters.wire_ohm) ** 2
    bound = per_volt_squared / heaters.power_pi_w * (2 * exact.voltage_v + half) * half
    assert np.all(np.abs(rounded.phase_rad - phases) <= bound * (1 + 1e-6) + 1e-12)


@given(heaters_and_phases())
def test_phases_of_codes_give_the_same_codes(case: tuple[HeaterArray, np.ndarray]) -> None:
    heaters, phases = case
    rounded = readback(heaters, drive_heaters(heaters, phases).code)
    reachable = rounded.phase_rad < 2 * np.pi
    again = drive_heaters(heaters, np.where(reachable, rounded.phase_rad, 0.0))
    np.testing.assert_array_equal(again.code[reachable], rounded.code[reachable])


def test_numbers_by_hand() -> None:
    """pi in a 500 ohm heater behind 25 ohm: 20 mW, sqrt(0.02 / 500) A = 6.325 mA, times 525 ohm."""
    driven = drive_heaters(heater(2), [np.pi, 0.0])
    np.testing.assert_allclose(driven.power_w, [0.02, 0.0])
    np.testing.assert_allclose(driven.voltage_v, [np.sqrt(0.02 / 500) * 525, 0.0])
    assert driven.code.tolist() == [round(3.3203915431767985 / 5 * 65535), 0]


def test_wire_power_is_not_heater_power() -> None:
    driven = readback(heater(1), np.array([65535]))
    current = 5.0 / 525
    np.testing.assert_allclose(driven.power_w, [current**2 * 500])
    np.testing.assert_allclose(driven.phase_rad, [np.pi * current**2 * 500 / 0.02])


@given(st.integers(1, 24))
def test_phase_rises_with_code(bits: int) -> None:
    heaters = heater(2, dac_bits=bits)
    codes = np.array([0, heaters.max_code])
    assert np.all(np.diff(readback(heaters, codes).phase_rad) > 0)


def test_full_scale_itself_is_reached() -> None:
    heaters = heater(1, full_scale_v=float(np.sqrt(0.02 / 500) * 525))
    assert drive_heaters(heaters, [np.pi]).code.tolist() == [heaters.max_code]


def test_overdrive_names_channel_value_limit_and_remedy() -> None:
    wires = np.array([25.0, 400.0, 200.0])
    with pytest.raises(ValueError, match=r"channel 1 .*5\.692 V.* 5 V .*1 of 3 .*full_scale_v"):
        drive_heaters(heater(3, wire_ohm=wires), np.full(3, np.pi))


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
        ([0.0, 0.0], "own_rad has shape (2,)"),
        ([0.0, -0.1, 0.0], "own_rad of channel 1 is -0.1"),
        ([0.0, 0.0, np.inf], "own_rad of channel 2 is inf"),
        ([np.nan, 0.0, 0.0], "own_rad of channel 0 is nan"),
    ],
)
def test_bad_phases_are_refused(phase: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        drive_heaters(heater(), phase)


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


# Rise of each channel's ground potential per current in each channel, in ohm.
GROUND = np.array([[20.0, 10.0, 5.0], [10.0, 30.0, 15.0], [5.0, 15.0, 40.0]])


def test_voltages_compensate_ground_rise() -> None:
    alone, shared = heater(full_scale_v=8.0), heater(full_scale_v=8.0, rise_v=GROUND.dot)
    phases = np.array([1.0, 0.0, 6.0])
    ideal, driven = drive_heaters(alone, phases), drive_heaters(shared, phases)
    current = np.sqrt(driven.power_w / 500)
    np.testing.assert_array_equal(driven.power_w, ideal.power_w)
    # a heater that is off has no voltage, whatever its ground potential
    np.testing.assert_allclose(driven.voltage_v, 525 * current + (GROUND @ current) * [1, 0, 1], rtol=1e-12)
    np.testing.assert_allclose(readback(shared, driven.code).phase_rad, phases, atol=1e-3)
    # codes for ideal grounds miss the phases
    assert np.max(phases - readback(shared, ideal.code).phase_rad) > 0.5


def test_currents_through_grounds_solve_the_resistor_network() -> None:
    shared = heater(rise_v=GROUND.dot)
    voltage = np.array([3.0, 1.0, 5.0])
    np.testing.assert_allclose(
        heater_currents(shared, voltage), np.linalg.solve(525 * np.eye(3) + GROUND, voltage), rtol=1e-10
    )
    # a DAC sinks no current: a pad below its ground is open
    current = heater_currents(shared, np.array([0.0, 0.01, 5.0]))
    assert current[0] == current[1] == 0
    assert current[2] == pytest.approx(5 / 565, rel=1e-10)


def test_grounds_as_resistive_as_heaters_are_refused() -> None:
    with pytest.raises(RangeError, match="200 rounds"):
        readback(heater(rise_v=lambda current: 600 * current.sum() * np.ones(3)), np.array([9000, 9000, 9000]))


RISE_OHM = np.array([[20.0, 10.0, 5.0], [10.0, 30.0, 15.0], [5.0, 15.0, 40.0]])


def test_a_ground_is_evaluated_for_channels_in_any_order() -> None:
    ground = SharedGround(("a", "b", "c"), RISE_OHM.dot)
    current = np.array([1.0, 2.0, 4.0])
    expected = (RISE_OHM @ [4.0, 0.0, 1.0])[[2, 0, 0]] * [1, 0, 1]
    np.testing.assert_allclose(ground.for_channels(["c", "x", "a"])(current), expected)
