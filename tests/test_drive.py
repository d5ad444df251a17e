"""Heater drive: phase, power, voltage and code, there and back."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.drive import Heater, program, readback


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
