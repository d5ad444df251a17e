"""Training: reproducible, better under matrix errors than its start, and honest about its progress."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn import Layer, Onn, carry_chain, gauge, lattice_score, tolerance
from optinc_pdk.onn.starts import balanced, random_start, without_small_units
from optinc_pdk.onn.train import Progress, Schedule, train

TASK = Averaging(4, 4, 2)
SHORT = Schedule(steps=300, noise=1e-3, rate=1e-2, copies=16, batch=64, evaluations=3)


def test_training_raises_the_tolerance_keeps_the_function_and_repeats_itself() -> None:
    start = carry_chain(TASK)
    seen: list[Progress] = []
    trained = train(start, SHORT, seed=1, progress=seen.append)
    assert lattice_score(trained).accuracy == 1.0
    assert lattice_score(trained).margin >= 0.15
    assert tolerance(trained, 1e-3, draws=100, seed=9) > tolerance(start, 1e-3, draws=100, seed=9)
    again = train(start, SHORT, seed=1)
    for layer, same in zip(trained.layers, again.layers, strict=True):
        np.testing.assert_array_equal(layer.weight, same.weight)
    assert [report.step for report in seen] == [0, 100, 200, 300]
    assert seen[0].best
    assert np.isnan(seen[0].loss)
    assert all(report.steps == 300 and report.loss > 0 for report in seen[1:])


def test_the_result_is_scaled_to_the_gauge() -> None:
    trained = train(carry_chain(TASK), Schedule(steps=20, noise=1e-3, evaluations=1), seed=0)
    for scale in gauge(trained).scales[1:]:
        np.testing.assert_allclose(scale, 1.0)


def test_training_from_a_random_start_learns() -> None:
    start = random_start(Averaging(2, 4, 1), (16,), seed=3)
    assert start.structure == (1, 16, 1)
    assert lattice_score(start).accuracy < 0.5
    trained = train(start, Schedule(steps=3000, noise=0.0, rate=3e-2, batch=64, copies=1), seed=3)
    assert lattice_score(trained).accuracy == 1.0


def test_a_start_that_is_best_is_kept() -> None:
    start = carry_chain(TASK)
    kept = train(start, Schedule(steps=10, noise=0.0, rate=0.5, evaluations=1), seed=0)
    assert lattice_score(kept).margin == pytest.approx(0.5, abs=1e-9)


def test_balancing_keeps_the_function_and_evens_the_weights() -> None:
    start = carry_chain(TASK)
    even = balanced(start)
    np.testing.assert_allclose(even.forward(TASK.lattice()), start.forward(TASK.lattice()), atol=1e-9)
    for layer, above in itertools.pairwise(even.layers):
        incoming = np.hypot(np.linalg.norm(layer.weight, axis=1), layer.bias)
        np.testing.assert_allclose(incoming, np.linalg.norm(above.weight, axis=0), rtol=1e-3)


def test_small_units_are_dropped() -> None:
    first = Layer(np.array([[1.0, 0.0], [1e-4, 0.0]]), np.zeros(2))
    onn = Onn((first, Layer(np.ones((2, 2)), np.zeros(2))), TASK)
    assert without_small_units(onn, 1e-2).structure == (2, 1, 2)
    # A network that is all small is left as it is.
    assert without_small_units(onn, 10.0) is onn


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps = 0 must be at least 1"),
        ({"noise": -0.1}, "noise = -0.1"),
        ({"input_noise": float("nan")}, "input_noise = nan"),
        ({"rate": 0.0}, "rate = 0.0"),
        ({"allowance": 0.5}, "allowance = 0.5"),
        ({"batch": 0}, "batch = 0"),
    ],
)
def test_senseless_schedules_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schedule(**({"steps": 1, "noise": 0.1} | changes))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hidden = "):
        random_start(TASK, (0,), seed=0)
