"""Eye diagrams of a mixer with comparators: open at low rates, closed by bandwidth and noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from comparator_toy import BOARD, TASK, comparators, noise_at

from optinc_pdk.errors import InputError
from optinc_pdk.report.eye_diagrams import eye_texts, eyes_png, worst_eyes
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES, SymbolShape
from optinc_pdk.studies.eye_diagrams import WORDS, Eye, eye_diagrams, eyes_json


def eyes(shape: SymbolShape, density: float) -> list[Eye]:
    s, bias = comparators()
    noise = replace(noise_at(1e6, receiver_a_per_sqrt_hz=density), shape=shape)
    return eye_diagrams(s, function_inputs(TASK), BOARD, bias, noise, 0)


def test_slow_symbols_without_noise_have_open_eyes() -> None:
    row, output = eyes(SymbolShape(60.0, 60.0, 0.25), 1e-15)
    assert (row.name, output.name) == ("layer 0, row 0", "out")
    for eye in (row, output):
        assert eye.opening == pytest.approx(1.0, abs=1e-3) and eye.deviation == pytest.approx(0.0, abs=1e-3)
        assert eye.instants.shape == (WORDS * SAMPLES,) and eye.readings == pytest.approx(eye.levels, abs=2e-3)
    assert sorted(set(np.rint(output.levels))) == [0, 1, 2, 3]


def test_bandwidth_closes_eyes_by_the_memory_of_the_shape() -> None:
    s, bias = comparators()
    noise = replace(noise_at(1e6, receiver_a_per_sqrt_hz=1e-15), shape=SymbolShape(1e6, 5.0, 0.25))
    row, _ = eye_diagrams(s, function_inputs(TASK), BOARD, bias, noise, 0)
    # between two levels, the highest level before one and the lowest before the other take a share of three levels
    assert row.opening == pytest.approx(1.0 - 4.0 * (1.0 - noise.shape.memory[0]), abs=0.03)
    closed = eyes(SymbolShape(2.0, 2.0, 0.25), 1e-15)
    assert row.opening is not None
    assert all(eye.opening is not None and eye.opening < row.opening for eye in closed)


def test_noise_has_the_deviation_of_a_reading() -> None:
    shape = SymbolShape(60.0, 60.0, 0.25)
    quiet, loud = eyes(shape, 1e-15)[0], eyes(shape, 5e-11)[0]
    noise = replace(noise_at(1e6, receiver_a_per_sqrt_hz=5e-11), shape=shape)
    sigma = math.sqrt(2.0 * noise.variance(np.zeros(1))[0]) / (0.05**2 * 0.12)  # of both detectors, over level 3
    assert (loud.readings - quiet.readings).std() == pytest.approx(sigma, rel=0.1)
    assert None not in (loud.opening, quiet.opening, loud.deviation, quiet.deviation)
    assert loud.opening < quiet.opening and loud.deviation > quiet.deviation  # type: ignore[operator]


def test_picture_and_numbers_state_the_worst_rows() -> None:
    shape = SymbolShape(6.0, 6.0, 0.25)
    found = eyes(shape, 1e-11)
    copies = [*found[:1], replace(found[0], name="layer 0, row 1", opening=-0.5), found[1]]
    assert [eye.name for eye in worst_eyes(copies)] == ["layer 0, row 1", "out"]
    noise = replace(noise_at(1e6), shape=shape)
    assert eyes_png(copies, noise, 0.016, "toy").startswith(b"\x89PNG")
    numbers = eyes_json(copies, noise, 0.016)
    assert numbers["oscillator_w"] == 0.016
    assert numbers["window"] == 0.25 and numbers["eyes"][0]["signal"] == "layer 0, row 0"


def test_a_signal_of_one_level_has_no_eye() -> None:
    """Receivers without scale read level 0 of every word."""
    s, bias = comparators()
    shape = SymbolShape(6.0, 6.0, 0.25)
    noise = replace(noise_at(1e6, receiver_a_per_sqrt_hz=1e-11), shape=shape)
    row, output = eye_diagrams(s, function_inputs(TASK), BOARD, replace(bias, outputs={"out": 1e-12}), noise, 0)
    assert output.opening is None and output.deviation is None
    assert row.opening is not None and 0.0 < row.opening < 1.0
    assert eye_texts(output) == ("no eye: one level", "none") and eye_texts(row)[0] == f"{row.opening:.3f}"
    numbers = eyes_json([row, output], noise, 0.016)["eyes"]
    assert numbers[1] == {"signal": "out", "opening": None, "deviation": None}
    constant = replace(output, name="layer 0, row 1")
    for order in ([row, constant], [constant, row]):
        assert worst_eyes(order) == [row]
    assert worst_eyes([constant]) == [constant]
    assert eyes_png([row, output], noise, 0.016, "toy").startswith(b"\x89PNG")


def test_cards_without_bandwidth_are_refused() -> None:
    with pytest.raises(InputError, match=r"no bandwidth of its modulators.*modulator\.yml"):
        eyes(SymbolShape(math.inf, 5.0, 0.25), 1e-12)
