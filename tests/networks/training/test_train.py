"""Training is reproducible, raises the tolerance of its start, and reports its progress."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.factor import unitary_diagonal
from optinc_pdk.networks import AveragingNetwork, Layer, carry_chain, lattice_score, matrix_error_accuracy, normalise
from optinc_pdk.networks.error_tolerance import perturbed_network
from optinc_pdk.networks.training._trainer import Trainer, leaky_clip
from optinc_pdk.networks.training.initialisation import (
    balance_weights,
    normalise_signals,
    random_network,
    without_small_units,
)
from optinc_pdk.networks.training.train import TrainingProgress, TrainingSchedule, train

TASK = Averaging(4, 4, 2)
SHORT = TrainingSchedule(steps=300, noise=5e-3, rate=1e-2, copies=16, batch=64, evaluations=3)


def test_training_raises_the_tolerance_keeps_the_function_and_is_reproducible() -> None:
    start = carry_chain(TASK)
    seen: list[TrainingProgress] = []
    trained = train(start, SHORT, seed=1, progress=seen.append)
    assert lattice_score(trained).accuracy == 1.0
    assert lattice_score(trained).margin >= 0.15
    assert matrix_error_accuracy(trained, 5e-3, draws=100, seed=9) > matrix_error_accuracy(
        start, 5e-3, draws=100, seed=9
    )
    again = train(start, SHORT, seed=1)
    for layer, same in zip(trained.layers, again.layers, strict=True):
        np.testing.assert_array_equal(layer.weight, same.weight)
    assert [report.step for report in seen] == [0, 100, 200, 300]
    assert seen[0].best
    assert np.isnan(seen[0].loss)
    assert all(report.steps == 300 and report.loss > 0 for report in seen[1:])


def comparators() -> AveragingNetwork:
    """Clipped network for 4 bits and 4 servers, three comparators of which share each detector."""
    edges = np.array([4.0, 8.0, 12.0])
    first = Layer(np.vstack([np.tile([0.0, 16.0], (3, 1)), [1 / 3, 0.0]]), np.append(-4.0 * edges + 2.5, 0.0))
    total = np.array([1.0, 1.0, 1.0, 12.0])
    second = Layer(np.vstack([np.tile(4.0 * total, (3, 1)), total / 15.0]), np.append(-4.0 * edges + 2.5, 0.0))
    last = Layer(np.array([[1.0, 1.0, 1.0, 0.0], [-4.0, -4.0, -4.0, 15.0]]), np.zeros(2))
    return AveragingNetwork((first, second, last), TASK, activation="clipped_relu")


def test_training_under_field_noise_raises_its_tolerance() -> None:
    start = comparators()
    trained = train(start, replace(SHORT, noise=0.0, field_noise=8e-3, rate=3e-3, copies=4), seed=1)
    assert lattice_score(trained).margin >= 0.15
    points = TASK.sample(1 << 16, np.random.default_rng(5))
    before, after = (perturbed_network(onn).wrong(points, sigma=8e-3, seed=3) for onn in (start, trained))
    assert after < before


def test_field_noise_has_the_size_of_its_definition() -> None:
    # of a rate that changes nothing: the step only scans the lattice for the maxima
    schedule = replace(SHORT, noise=0.0, field_noise=1e-2, rate=1e-9)
    trainer = Trainer(normalise_signals(comparators()), schedule, 0, "cpu")
    trainer.step(0)
    layers = perturbed_network(trainer.network()).layers
    for scale, layer in zip(trainer._noise_scales(), layers, strict=True):
        assert scale.detach().numpy() == pytest.approx(1e-2 * layer.norm * layer.gain, rel=1e-3)


def test_training_of_clipped_networks_keeps_shared_rows_and_raises_the_tolerance() -> None:
    start = comparators()
    assert start.mzis == 18
    schedule = replace(SHORT, noise=2e-2, rate=3e-3, output_bias=True)
    trained = train(start, schedule, seed=1)
    assert trained.activation == "clipped_relu"
    # rows stay shared; weights that were 0 do not stay 0, so that the parts of the first layer are joined
    assert trained.mzis == 20
    assert lattice_score(trained).accuracy == 1.0
    assert not np.allclose(trained.layers[0].weight, start.layers[0].weight)
    assert not np.allclose(trained.layers[0].weight[1], trained.layers[0].weight[0])
    shares = [matrix_error_accuracy(onn, 2e-2, draws=100, seed=9) for onn in (start, trained)]
    assert shares[1] > shares[0]


def test_constant_units_stay_constant() -> None:
    start = comparators()
    first, second, last = start.layers
    first = Layer(np.vstack([first.weight, np.zeros(2)]), np.append(first.bias, 1.0))
    second = Layer(np.hstack([second.weight, np.full((4, 1), 0.1)]), second.bias - 0.1)
    onn = replace(start, layers=(first, second, last), factor=())
    trained = train(onn, replace(SHORT, steps=20, evaluations=1), seed=1)
    np.testing.assert_array_equal(trained.detector_rows(0), onn.detector_rows(0))
    assert not trained.layers[0].weight[4].any()


@pytest.mark.full
def test_clipped_networks_learn_from_a_random_start() -> None:
    start = random_network(Averaging(2, 4, 1), (12, 12), seed=1, activation="clipped_relu")
    points = start.task.lattice() / 3.0
    before = points @ (3.0 * start.layers[0].weight).T + start.layers[0].bias
    assert np.all((before.max(axis=0) > 0.0) & (before.min(axis=0) < 1.0))
    assert lattice_score(start).accuracy < 0.5
    schedule = TrainingSchedule(steps=1500, noise=2e-3, rate=1e-2, batch=64, copies=2, condition=20.0, evaluations=5)
    trained = train(start, schedule, seed=3)
    assert lattice_score(trained).accuracy == 1.0
    assert trained.activation == "clipped_relu"


def test_the_surrogate_gradient_is_the_true_one_where_it_does_not_clip() -> None:
    signal = torch.tensor([-2.0, -0.5, 0.25, 0.75, 1.5], requires_grad=True)
    clipped = leaky_clip(signal, 0.3)
    np.testing.assert_allclose(clipped.detach().numpy(), [0.0, 0.0, 0.25, 0.75, 1.0])
    (2.0 * clipped).sum().backward()
    np.testing.assert_allclose(signal.grad.numpy(), 2.0 * np.array([0.3 / 9, 0.3 / 2.25, 1.0, 1.0, 0.3 / 2.25]))


def test_an_output_bias_is_trained_only_on_request() -> None:
    start = comparators()
    biased = replace(start, layers=(*start.layers[:-1], Layer(start.layers[-1].weight, np.array([0.1, -0.1]))))
    with pytest.raises(InputError, match=r"layers\.2\.bias.*--output-bias"):
        train(biased, SHORT, seed=1)
    schedule = replace(SHORT, steps=100, noise=2e-2, rate=3e-3, allowance=0.02, output_bias=True, evaluations=1)
    trained = train(biased, schedule, seed=1)
    assert lattice_score(trained).margin > lattice_score(biased).margin
    assert trained.layers[-1].bias.any()


def test_the_result_is_normalised() -> None:
    trained = train(carry_chain(TASK), TrainingSchedule(steps=20, noise=1e-3, evaluations=1), seed=0)
    for scale in normalise(trained).scales[1:]:
        np.testing.assert_allclose(scale, 1.0)


def test_training_from_a_random_start_learns() -> None:
    start = random_network(Averaging(2, 4, 1), (16,), seed=3)
    assert start.structure == (1, 16, 1)
    assert lattice_score(start).accuracy < 0.5
    trained = train(start, TrainingSchedule(steps=3000, noise=0.0, rate=3e-2, batch=64, copies=1), seed=3)
    assert lattice_score(trained).accuracy == 1.0


def test_a_start_that_is_best_is_kept() -> None:
    start = carry_chain(TASK)
    kept = train(start, TrainingSchedule(steps=10, noise=0.0, rate=0.5, evaluations=1), seed=0)
    assert lattice_score(kept).margin == pytest.approx(0.5, abs=1e-9)


def test_balancing_keeps_the_function_and_equalises_the_weights() -> None:
    start = carry_chain(TASK)
    equalised = balance_weights(start)
    np.testing.assert_allclose(equalised.forward(TASK.lattice()), start.forward(TASK.lattice()), atol=1e-9)
    for layer, above in itertools.pairwise(equalised.layers):
        incoming = np.hypot(np.linalg.norm(layer.weight, axis=1), layer.bias)
        np.testing.assert_allclose(incoming, np.linalg.norm(above.weight, axis=0), rtol=1e-3)


def test_small_units_are_dropped() -> None:
    first = Layer(np.array([[1.0, 0.0], [1e-4, 0.0]]), np.zeros(2))
    onn = AveragingNetwork((first, Layer(np.ones((2, 2)), np.zeros(2))), TASK)
    assert without_small_units(onn, 1e-2).structure == (2, 1, 2)
    # A network of small units only is not changed.
    assert without_small_units(onn, 10.0) is onn


def test_a_resumed_training_has_the_same_result(tmp_path: Path) -> None:
    schedule = replace(SHORT, hard=0.25, ramp=0.5, input_noise=1e-3, amplitude_noise=1e-3, drive_bits=12)
    whole = train(carry_chain(TASK), schedule, seed=2)
    path = tmp_path / "state.npz"

    def interrupt(state: TrainingProgress) -> None:
        if state.step == 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(carry_chain(TASK), schedule, 2, interrupt, path)
    seen: list[TrainingProgress] = []
    resumed = train(carry_chain(TASK), schedule, 2, seen.append, path)
    assert [report.step for report in seen] == [200, 300]
    for layer, same in zip(whole.layers, resumed.layers, strict=True):
        np.testing.assert_array_equal(layer.weight, same.weight)
        np.testing.assert_array_equal(layer.bias, same.bias)


def test_checkpoints_of_other_trainings_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    short = replace(SHORT, steps=2)
    train(carry_chain(TASK), short, 1, checkpoint=path)
    for other, schedule, seed, message in (
        (carry_chain(Averaging(4, 3, 2)), short, 1, "servers.*4.*3"),
        (carry_chain(TASK), replace(short, noise=2e-3), 1, r"noise.*0\.005.*0\.002"),
        (carry_chain(TASK), short, 2, "seed.*1.*2"),
        (random_network(TASK, (6, 7), 0), short, 1, "start "),
    ):
        with pytest.raises(InputError, match=message):
            train(other, schedule, seed, checkpoint=path)
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=r"damaged\.npz"):
        train(carry_chain(TASK), short, 1, checkpoint=damaged)
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(damaged, **{key: array for key, array in arrays.items() if key != "identity"})
    with pytest.raises(InputError, match="identity"):
        train(carry_chain(TASK), short, 1, checkpoint=damaged)
    np.savez(damaged, **{key: array for key, array in arrays.items() if key != "value.0"})
    with pytest.raises(InputError, match=r"damaged\.npz"):
        train(carry_chain(TASK), short, 1, checkpoint=damaged)
    np.savez(damaged, **(arrays | {"hard": np.array([object()])}))
    with pytest.raises(InputError, match=r"damaged\.npz"):
        train(carry_chain(TASK), short, 1, checkpoint=damaged)


def test_approximated_layers_come_out_as_blocks_of_a_diagonal_and_a_unitary() -> None:
    task = Averaging(2, 4, 1)
    schedule = TrainingSchedule(steps=3000, noise=0.0, rate=1e-2, copies=1, batch=64, loss="paper", approximate=(1, 2))
    trained = train(random_network(task, (8, 8), seed=1), schedule, seed=0)
    assert trained.factor == ("svd", ("approx", 8), ("approx", 1))
    for place in (1, 2):
        np.testing.assert_allclose(
            unitary_diagonal(trained.layers[place].weight).matrix(), trained.layers[place].weight, atol=1e-6
        )
    assert lattice_score(random_network(task, (8, 8), seed=1)).accuracy < 0.4
    assert lattice_score(trained).accuracy > 0.8


def test_a_training_stops_once_every_word_is_exact() -> None:
    seen: list[TrainingProgress] = []
    train(carry_chain(TASK), replace(SHORT, noise=1e-5, stop=True), 0, seen.append)
    assert [report.step for report in seen] == [0]
    assert seen[0].errors == 0
    assert seen[0].tolerance == 1.0


def test_a_training_that_stopped_early_is_not_continued(tmp_path: Path) -> None:
    task, path = Averaging(2, 2, 1), tmp_path / "state.npz"
    schedule = TrainingSchedule(steps=1500, noise=0.0, rate=2e-2, stop=True, evaluations=30)
    start = random_network(task, (16,), 0)
    stopped = train(start, schedule, 0, checkpoint=path)
    seen: list[TrainingProgress] = []
    again = train(start, schedule, 0, seen.append, path)
    assert not seen
    for layer, same in zip(stopped.layers, again.layers, strict=True):
        np.testing.assert_array_equal(layer.weight, same.weight)


def test_the_card_contains_the_parameters_of_the_training() -> None:
    schedule = TrainingSchedule(steps=2, noise=1e-3)
    card = train(carry_chain(TASK), schedule, seed=7).card
    assert TrainingSchedule(**card["trained"]) == schedule
    assert (card["seed"], card["start"]) == (7, {"recipe": "carry_chain"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("value.0", np.float32(1.0)),
        ("average.1", np.full((7, 6), np.nan, dtype=np.float32)),
        ("hard", np.array([10**9])),
        ("state", np.array('{"rank": [true, 1.0, 0.5], "step": -5, "seconds": 0, "factor": ["svd", "svd", "svd"]}')),
        ("identity", np.array("[" * 100_000)),
    ],
)
def test_invalid_states_are_refused(tmp_path: Path, key: str, value: np.ndarray) -> None:
    path = tmp_path / "state.npz"
    short = replace(SHORT, steps=2)
    train(carry_chain(TASK), short, 1, checkpoint=path)
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **(arrays | {key: value}))
    with pytest.raises(InputError, match=r"state\.npz"):
        train(carry_chain(TASK), short, 1, checkpoint=path)


def test_unusable_starts_and_devices_are_refused() -> None:
    start = carry_chain(TASK)
    biased = replace(start, layers=(*start.layers[:-1], Layer(start.layers[-1].weight, np.ones(2))))
    with pytest.raises(InputError, match=r"layers\.2\.bias"):
        train(biased, SHORT, 0)
    with pytest.raises(InputError, match=r"approximate.*3.*0 to 2"):
        train(start, replace(SHORT, approximate=(3,)), 0)
    for device in ("nowhere", "meta"):
        with pytest.raises(InputError, match=device):
            train(start, SHORT, 0, device=device)
    with pytest.raises(InputError, match=r"seed.*-1"):
        train(start, SHORT, -1)
    dead = replace(start, layers=(Layer(start.layers[0].weight, np.full(6, -100.0)), *start.layers[1:]))
    with pytest.raises(InputError, match="positive"):
        train(dead, SHORT, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps = 0.*1"),
        ({"noise": -0.1}, "noise = -0.1"),
        ({"input_noise": float("nan")}, "input_noise = nan"),
        ({"rate": 0.0}, "rate = 0.0"),
        ({"allowance": 0.5}, "allowance = 0.5"),
        ({"batch": 0}, "batch = 0"),
        ({"hard": 1.5}, "hard = 1.5"),
        ({"drive_bits": 1}, "drive_bits = 1"),
        ({"loss": "mse"}, "loss = 'mse'"),
        ({"approximate": (1, 1)}, "approximate"),
    ],
)
def test_invalid_schedules_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingSchedule(**({"steps": 1, "noise": 0.1} | changes))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hidden = "):
        random_network(TASK, (0,), seed=0)
