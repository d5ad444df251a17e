"""Networks of comparators are exact, proved, small and tolerant; their margins and cards say what they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.networks import (
    AveragingNetwork,
    Layer,
    ProofError,
    carry_chain,
    comparator_network,
    lattice_score,
    prove,
    saturation_margins,
)
from optinc_pdk.networks.closed_form.comparator_programs import ProgramVariant, comparator_program
from optinc_pdk.networks.closed_form.comparator_search import predict_tolerance
from optinc_pdk.networks.closed_form.comparators import Placement, card_form, compile_comparators
from optinc_pdk.networks.closed_form.proof import check_stage
from optinc_pdk.networks.error_tolerance import field_noise_tolerance, matrix_error_tolerance
from optinc_pdk.networks.layers import propagate
from optinc_pdk.networks.network import cascade_tasks


@pytest.mark.full(every=6)
@pytest.mark.parametrize(
    ("task", "mzis"),
    [
        (Averaging(4, 4, 2), 18),
        (Averaging(8, 4, 4), 52),
        (Averaging(8, 8, 4), 220),
        (Averaging(8, 16, 4), 160),
        (Averaging(4, 16, 2), 60),
        (Averaging(4, 4, 2, remainder=True), 28),
        (Averaging(4, 4, 2, finer_input=True), 18),
        (Averaging(4, 3, 2, remainder=True), 120),
        (Averaging(4, 3, 1, finer_input=True), 120),
        (Averaging(4, 2, 2), 70),
        (Averaging(2, 1, 1), 1),
    ],
    ids=str,
)
def test_networks_are_exact_small_and_proved(task: Averaging, mzis: int) -> None:
    onn = comparator_network(task)
    assert onn.activation == "clipped_relu"
    assert onn.mzis <= mzis
    assert max(np.bincount(onn.detector_rows(i)).max() for i in range(len(onn.layers))) <= 32
    assert not onn.layers[-1].bias.any()
    if task.lattice_size < 100_000:
        score = lattice_score(onn)
        assert score.accuracy == 1.0
        assert score.margin == pytest.approx(0.5, abs=1e-9)
    assert prove(onn, samples=2000).stages == len(onn.layers) - 1


def test_the_first_level_of_a_cascade_is_built_of_small_parts() -> None:
    task, _ = cascade_tasks(8, 4, 4)
    assert comparator_network(task).mzis <= 61


@pytest.mark.full(every=3)
@pytest.mark.parametrize("task", [Averaging(16, 4, 8), Averaging(16, 4, 4), Averaging(32, 4, 8)], ids=str)
def test_large_lattices_are_proved(task: Averaging) -> None:
    onn = comparator_network(task)
    assert task.bits > 16 or onn.mzis <= 700
    assert prove(onn, samples=1000).values > task.input_steps.sum()


@st.composite
def programs(draw: st.DrawFn) -> tuple[Averaging, ProgramVariant, Placement]:
    symbols = draw(st.integers(1, 6))
    groups = draw(st.sampled_from([k for k in range(1, symbols + 1) if symbols % k == 0 and symbols // k <= 3]))
    servers = draw(st.integers(1, 20))
    task = Averaging(2 * symbols, servers, groups, draw(st.booleans()), draw(st.booleans()))
    banks = draw(st.lists(st.sampled_from([1, 3, 5, 7, 15, 31]), min_size=groups, max_size=groups))
    splits = draw(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=groups, max_size=groups))
    variant = ProgramVariant(tuple(banks), tuple(splits), draw(st.sampled_from([0, 5, 16])))
    spans = draw(st.lists(st.integers(0, 20), max_size=4))
    return task, variant, Placement(draw(st.sampled_from([1.0, 4.0])), draw(st.integers(1, 7)), tuple(spans))


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(0, 2**32 - 1))
def test_every_variant_averages(choice: tuple[Averaging, ProgramVariant, Placement], seed: int) -> None:
    task, variant, placement = choice
    closed = compile_comparators(comparator_program(task, variant), task, placement)
    points = np.vstack([task.sample(200, np.random.default_rng(seed)), task.input_maxima])
    errors = np.abs(propagate(closed.layers, points, "clipped_relu") - task.targets(points)) * task.output_resolution
    assert errors.max() < 1e-6
    card = {"recipe": "comparators", "gain": placement.gain, "regenerate": placement.regenerate, "lift": variant.lift}
    card |= {"banks": list(variant.banks), "splits": list(variant.splits), "spans": list(placement.spans)}
    onn = AveragingNetwork(closed.layers, task, card=card, activation="clipped_relu")
    assert prove(onn, samples=100).stages == len(closed.stages)
    margins = saturation_margins(onn)
    assert len(margins) == len(closed.stages)
    for margin, stage in zip(margins, closed.stages, strict=True):
        assert stage.comparators is not None
        assert (np.isnan(margin) == ~stage.comparators).all()
        assert margin[stage.comparators] == pytest.approx((placement.gain - 1.0) / 2.0, abs=1e-6)


def test_margins_bound_the_whole_lattice() -> None:
    onn = comparator_network(Averaging(4, 4, 2), gain=5.0)
    signal = onn.task.lattice()
    for layer, margin in zip(onn.layers[:-1], saturation_margins(onn), strict=True):
        before = signal @ layer.weight.T + layer.bias
        distance = np.maximum(-before, before - 1.0).min(axis=0)
        bits = ~np.isnan(margin)
        assert bits.any()
        assert (distance[bits] >= margin[bits] - 1e-9).all()
        assert (distance[~bits] < 0.0).all()
        signal = np.clip(before, 0.0, 1.0)


def test_changed_weights_are_found() -> None:
    task = Averaging(4, 4, 2)
    onn = comparator_network(task)
    closed = card_form(task, onn.card)
    for stage in closed.stages:
        (layer,) = stage.layers
        for row, column in np.ndindex(layer.weight.shape):
            weight = layer.weight.copy()
            weight[row, column] += 0.6 * onn.card["gain"]
            with pytest.raises(ProofError):
                check_stage(replace(stage, layers=(Layer(weight, layer.bias),)))
        for row in range(layer.outputs):
            bias = layer.bias.copy()
            bias[row] -= onn.card["gain"]
            with pytest.raises(ProofError):
                check_stage(replace(stage, layers=(Layer(layer.weight, bias),)))


def test_other_networks_have_no_margins_and_no_proof() -> None:
    onn = comparator_network(Averaging(4, 4, 2))
    scaled = replace(onn, layers=(Layer(onn.layers[0].weight * 1.001, onn.layers[0].bias), *onn.layers[1:]))
    for other in (scaled, replace(onn, activation="relu"), replace(onn, card=onn.card | {"banks": [3]})):
        with pytest.raises(ValueError, match=r"unchanged network|banks"):
            saturation_margins(other)
        with pytest.raises(ProofError):
            prove(other)
    with pytest.raises(ValueError, match="comparators"):
        saturation_margins(carry_chain(Averaging(4, 4, 2)))
    with pytest.raises(ValueError, match="damaged"):
        saturation_margins(replace(onn, card=onn.card | {"spans": ["many"]}))


def test_a_limit_buys_tolerance() -> None:
    task = Averaging(4, 16, 2)
    small, large = comparator_network(task, 50), comparator_network(task, 100)
    assert small.mzis <= 50 < large.mzis <= 100
    assert small.card == comparator_network(task, 50).card
    predicted = [predict_tolerance(card_form(task, onn.card), task) for onn in (small, large)]
    assert predicted[1].epsilon > 1.2 * predicted[0].epsilon
    with pytest.raises(InputError, match="18 MZIs"):
        comparator_network(Averaging(4, 4, 2), 17)


def test_bad_arguments_are_refused() -> None:
    task = Averaging(4, 4, 2)
    for gain in (0.5, 1e6 + 1, 1e308, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="gain"):
            comparator_network(task, gain=gain)
    with pytest.raises(ValueError, match="mzis = 0"):
        comparator_network(task, 0)
    with pytest.raises(InputError, match="999,999 units"):
        comparator_network(Averaging(8, 1_000_000, 4))
    with pytest.raises(ValueError, match="splits contains -1"):
        comparator_program(task, ProgramVariant((3, 3), (None, -1)))


def test_predicted_and_measured_tolerance_agree() -> None:
    task = Averaging(4, 4, 2)
    onn = comparator_network(task)
    predicted = predict_tolerance(card_form(task, onn.card), task)
    # The prediction sums the probabilities of all errors, and ignores that signals cannot leave 0 ... 1.
    assert predicted.epsilon < matrix_error_tolerance(onn, words=1024) < 1.15 * predicted.epsilon
    assert field_noise_tolerance(onn, fewest=1e-3) == pytest.approx(predicted.sigma, rel=0.06)
    assert predicted.epsilon > 6e-3 and predicted.sigma > 3e-3


def test_the_search_reports_the_networks_that_it_tried() -> None:
    tried: list[int] = []
    comparator_network(Averaging(4, 4, 2), progress=tried.append)
    assert tried == list(range(len(tried)))
    assert len(tried) > 10


def test_network_for_noise_tolerates_more_within_its_limit() -> None:
    task = Averaging(4, 4, 2)
    smallest, limited, best = (
        comparator_network(task),
        comparator_network(task, 40, goal="noise"),
        comparator_network(task, goal="noise"),
    )
    assert limited.mzis <= 40 < best.mzis <= 8 * smallest.mzis
    noise = [field_noise_tolerance(onn, fewest=1e-3) for onn in (smallest, limited, best)]
    assert 1.2 * noise[0] < noise[1] and 1.2 * noise[1] < noise[2]
    for onn in (limited, best):
        assert lattice_score(onn).accuracy == 1.0
        prove(onn, samples=1000)


@pytest.mark.parametrize(
    "task", [Averaging(4, 4, 2), Averaging(8, 4, 4), Averaging(4, 3, 2), Averaging(4, 4, 2, finer_input=True)], ids=str
)
def test_finished_outputs_are_sums_of_bits(task: Averaging) -> None:
    variant = ProgramVariant((3,) * task.groups, (None,) * task.groups, finish=True)
    closed = compile_comparators(comparator_program(task, variant), task, Placement(regenerate=3))
    comparators = closed.stages[-1].comparators
    assert comparators is not None and comparators.all()
    assert set(np.unique(closed.last.weight)) <= {0.0, 1.0, 2.0}
    onn = AveragingNetwork(closed.layers, task, activation="clipped_relu")
    score = lattice_score(onn)
    assert score.accuracy == 1.0 and score.margin == pytest.approx(0.5, abs=1e-9)


def test_signals_of_one_peak_are_regenerated_in_one_layer_only() -> None:
    task = Averaging(4, 4, 2)
    program = comparator_program(task, ProgramVariant((3, 3), (None, None)))
    plain = compile_comparators(program, task, Placement())
    bits = compile_comparators(program, task, Placement(bits=(0, 15)))
    assert [layer.outputs for layer in bits.layers] == [4, 15, 2]
    assert [layer.outputs for layer in plain.layers] == [4, 4, 2]
    points = np.concatenate(list(task.batches()))
    assert np.allclose(
        propagate(bits.layers, points, "clipped_relu"), propagate(plain.layers, points, "clipped_relu"), atol=1e-9
    )


def test_cards_without_the_newer_choices_still_describe_their_network() -> None:
    task = Averaging(4, 4, 2)
    best = comparator_network(task, goal="noise")
    assert any(best.card["bits"])
    with pytest.raises(ValueError, match="not the comparator network"):
        saturation_margins(replace(best, card={key: value for key, value in best.card.items() if key != "bits"}))
    smallest = comparator_network(task)
    assert not {"bits", "finish"} & set(smallest.card)
    with pytest.raises(ValueError, match="damaged"):
        card_form(task, smallest.card | {"finish": 1})
