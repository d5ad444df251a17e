"""Word-error rate against symbol rate as a table, a plot and text; the numbers are made up."""

from __future__ import annotations

import json
from dataclasses import replace

from optinc_pdk.cards import load_process
from optinc_pdk.io.formatting import light_text
from optinc_pdk.report.noise_curve import COLUMNS, curve_csv, curve_png, limits_line, oscillator_table, point_line
from optinc_pdk.simulate import noise_of
from optinc_pdk.studies.highest_rates import RateLimits
from optinc_pdk.studies.noise_curves import NoiseCurve, RatePoint
from optinc_pdk.studies.oscillators import OscillatorRate, OscillatorRates

NONE = RatePoint(1e6, 1e-6, 1000, 4000, 0, 0.0, 0.0038, 1e-20, {})
SOME = replace(NONE, symbol_rate_bd=1e9, integration_s=1e-9, wrong=10, low=0.001, high=0.006, errors={-64: 1, 1: 9})


def test_table_and_picture_state_laser_rate_and_integration():
    noises = tuple(noise_of(load_process(), 2e-3, rate) for rate in (1e6, 1e9))
    limits = RateLimits(1e-9, 3e8, 1e9, "amplifiers", (0.0, 4e-10), 6e-10, noises[1])
    curve = NoiseCurve(2e-3, 4e-3, 0, noises, (NONE, SOME), limits, {"amplifiers": 9e8, "bandwidths": None})
    rows = [line.split(",") for line in curve_csv(curve).decode().splitlines()]
    assert tuple(rows[0]) == COLUMNS
    assert rows[1][:3] == ["1e+06", "1e-06", "0.002"] and rows[1][-1] == "0.004" and len(rows) == 3
    plain = curve.to_json()
    assert plain["points"][1]["noise"]["laser_w"] == 2e-3 and plain["points"][1]["errors"] == {"-64": 1, "1": 9}
    assert (plain["laser_w"], plain["oscillator_w"]) == (2e-3, 4e-3)
    assert plain["limits"]["symbol_rate_bd"] == 3e8 and plain["limits"]["main_limit"] == "amplifiers"
    assert plain["limits"]["without"] == {"amplifiers": 9e8, "bandwidths": None}
    json.dumps(plain, allow_nan=False)
    assert curve_png(curve, "invented").startswith(b"\x89PNG")


def test_the_table_of_oscillators_marks_the_least_power_that_is_enough():
    points = (
        OscillatorRate(0.1, 1e9),
        OscillatorRate(0.05, 9.6e8),
        OscillatorRate(0.025, 9e8),
        OscillatorRate(0.01, None),
    )
    rates = OscillatorRates(1e-9, None, points)
    assert rates.enough_w == 0.05 and OscillatorRates(1e-9, None, ()).enough_w is None
    column = list(oscillator_table(rates).columns[1].cells)
    assert [("95 %" in text, text.split(",")[0]) for text in column] == [
        (False, "1 GBd"),
        (True, "960 MBd"),
        (False, "900 MBd"),
        (False, "none"),
    ]
    assert light_text(0.01, 0.01) == "10 mW into every guide"
    assert light_text(0.01, 0.016).endswith(", 16 mW into those of local oscillators")


def test_a_line_states_counted_and_estimated_rates():
    line = point_line(SOME)
    assert "1 GBd,    1 ns: 10 of 4,000 words wrong, 0.0025 (0.001 … 0.006); Gaussian estimate 1e-20;" in line
    assert line.endswith("+1 (90 %), −64 (10 %)")
    assert point_line(NONE).endswith("Gaussian estimate 1e-20")


def test_a_highest_rate_that_the_process_limits_says_so():
    noise = noise_of(load_process(), 2e-3, 1e9)
    limits = RateLimits(1e-9, 3e8, 1e9, "amplifiers", (0.0, 4e-10), 6e-10, noise)
    assert limits_line(limits).endswith(": 300 MBd; most errors arise in the receivers")
    capped = replace(limits, symbol_rate_bd=1e9, layers=(0.0, 8e-10))
    assert limits_line(capped).endswith(": 1 GBd, the limit of the process; most errors arise in layer 1")
