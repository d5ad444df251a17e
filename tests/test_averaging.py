"""Words, symbols, the ideal average, the lattice, assignments of symbols to servers, and the score."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging, assign_random, assign_worst, cascade_words, decide, error_counts, score
from optinc_pdk.averaging.score import (
    WordScore,
    accuracy,
    least_margin,
    output_margins,
    score_outputs,
    word_error_rate,
)


@st.composite
def tasks(draw: st.DrawFn) -> Averaging:
    symbols = draw(st.integers(1, 8))
    groups = draw(st.sampled_from([k for k in range(1, symbols + 1) if symbols % k == 0]))
    return Averaging(2 * symbols, draw(st.integers(1, 20)), groups)


@st.composite
def words(draw: st.DrawFn) -> tuple[Averaging, np.ndarray]:
    task = draw(tasks())
    word = st.integers(0, 2**task.bits - 1)
    rows = draw(st.lists(st.lists(word, min_size=task.servers, max_size=task.servers), min_size=1, max_size=5))
    return task, np.array(rows)


@given(words())
def test_encode_is_the_papers_formula_and_decode_its_inverse(case: tuple[Averaging, np.ndarray]) -> None:
    task, values = case
    symbols = task.encode(values)
    assert symbols.shape == (*values.shape, task.symbols)
    for i in range(1, task.symbols + 1):
        np.testing.assert_array_equal(symbols[..., i - 1], values // 2 ** (2 * (task.symbols - i)) % 4)
    np.testing.assert_array_equal(task.decode(symbols), values)


@given(words())
def test_ideal_is_the_truncated_average(case: tuple[Averaging, np.ndarray]) -> None:
    task, values = case
    expected = [int(Fraction(sum(int(word) for word in row), task.servers)) for row in values]
    assert task.ideal(values).tolist() == expected


@given(words())
def test_targets_of_the_preprocessed_symbols_are_the_ideal_words(case: tuple[Averaging, np.ndarray]) -> None:
    task, values = case
    inputs = task.preprocess(task.encode(values))
    assert inputs.shape == (len(values), task.groups)
    assert inputs.min() >= 0.0
    assert inputs.max() <= task.full_scale
    np.testing.assert_array_equal(task.decode(task.targets(inputs)), task.ideal(values))


def test_preprocess_weights_groups_with_base_four() -> None:
    task = Averaging(8, 2, 2)
    symbols = np.array([[1, 2, 3, 0], [3, 0, 1, 1]])
    np.testing.assert_allclose(task.preprocess(symbols), [(6 + 12) / 2, (12 + 5) / 2])


@pytest.mark.parametrize(
    ("task", "size"),
    [
        (Averaging(4, 4, 2), 169),
        (Averaging(8, 4, 4), 28_561),
        (Averaging(8, 8, 4), 390_625),
        (Averaging(8, 16, 4), 5_764_801),
        (Averaging(16, 4, 4), 13_845_841),
    ],
)
def test_lattice_sizes_are_the_papers(task: Averaging, size: int) -> None:
    assert task.lattice_size == size


@pytest.mark.parametrize("task", [Averaging(4, 4, 2), Averaging(4, 3, 1), Averaging(6, 2, 3)])
def test_lattice_contains_all_inputs_in_lexicographic_order(task: Averaging) -> None:
    values = range(task.servers * task.full_scale + 1)
    expected = list(itertools.product(values, repeat=task.groups))
    assert [tuple(point) for point in task.lattice_steps().tolist()] == expected
    np.testing.assert_array_equal(task.lattice() * task.servers, task.lattice_steps())
    pieces = list(task.batches(50))
    assert max(len(piece) for piece in pieces) <= 50
    np.testing.assert_array_equal(np.vstack(pieces), task.lattice())


def test_combinations_of_words_reach_every_lattice_point_and_no_other() -> None:
    task = Averaging(4, 2, 2)
    values = np.array(list(itertools.product(range(16), repeat=2)))
    inputs = task.preprocess(task.encode(values))
    assert {tuple(point) for point in inputs} == {tuple(point) for point in task.lattice()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 4, 1), "bits = 5 must be even"),
        ((0, 4, 1), "bits = 0"),
        ((34, 4, 1), "bits = 34 must be even and within 2 ... 32"),
        ((4, 0, 2), "servers = 0 must be at least 1"),
        ((32, 40_000, 2), "servers = 40000 must be at most 32768 for words of 32 bits"),
        ((8, 4, 3), r"groups = 3 must divide the 4 symbols of a word of 8 bits: \[1, 2, 4\]"),
        ((8, 4, 0), "groups = 0"),
        ((8.0, 4, 4), "bits = 8.0: give a whole number"),
        ((8, True, 4), "servers = True: give a whole number"),
        ((8, 4, 4, 1), "remainder = 1: give True or False"),
        ((32, 16, 1), "68719476720 steps.* 4294967296"),
    ],
)
def test_impossible_tasks_are_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Averaging(*arguments)


def test_bad_arrays_are_refused() -> None:
    task = Averaging(4, 4, 2)
    with pytest.raises(ValueError, match=r"words must lie within 0 ... 15, got 0 ... 16"):
        task.encode([0, 16])
    with pytest.raises(ValueError, match="words of type float64 must be integers"):
        task.encode([0.5])
    with pytest.raises(ValueError, match=r"symbols must lie within 0 ... 3"):
        task.decode([4, 0])
    with pytest.raises(ValueError, match=r"symbols of shape \(3,\) must end in \(2\)"):
        task.decode([1, 2, 3])
    with pytest.raises(ValueError, match=r"must end in \(4, 2\)"):
        task.preprocess(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"words of shape \(3,\) must end in \(4\)"):
        task.ideal([1, 2, 3])
    with pytest.raises(ValueError, match="multiples of 1/4"):
        task.targets([0.1, 0.0])
    with pytest.raises(ValueError, match="multiples of 1/4"):
        task.targets([np.nan, 0.0])
    with pytest.raises(ValueError, match=r"within 0 ... 3"):
        task.targets([3.25, 0.0])


@st.composite
def cascades(draw: st.DrawFn) -> tuple[Averaging, np.ndarray]:
    """Level 1 of a cascade, and words of its N x N servers."""
    symbols = draw(st.integers(1, 8))
    groups = draw(st.sampled_from([k for k in range(1, symbols + 1) if symbols % k == 0]))
    servers = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    task = Averaging(2 * symbols, servers, groups, remainder=True)
    return task, rng.integers(0, 4**symbols, (20, servers, servers))


@given(cascades())
def test_two_levels_give_the_average_over_all_servers(case: tuple[Averaging, np.ndarray]) -> None:
    first, values = case
    second = replace(first, remainder=False, finer_input=True)
    between = first.targets(first.preprocess(first.encode(values)))
    expected = values.sum(axis=(1, 2)) // first.servers**2
    np.testing.assert_array_equal(second.decode(second.targets(second.preprocess(between))), expected)
    np.testing.assert_allclose(decide(between, first.output_resolution), between, atol=1e-12)


def test_the_lattice_of_level_2_contains_all_outputs_of_level_1() -> None:
    first, second = Averaging(4, 2, 2, remainder=True), Averaging(4, 2, 2, finer_input=True)
    units = np.unique(first.targets(first.lattice()), axis=0)
    reached = {tuple(np.mean(pair, axis=0)) for pair in itertools.product(units, repeat=2)}
    points = {tuple(point) for point in second.lattice()}
    assert len(points) == second.lattice_size == 7 * 15
    # The largest word has no remainder, so that points of the product above it are not reached.
    assert points - reached == {(2.5, 3.5), (3.0, 3.25), (3.0, 3.5)}
    assert reached < points
    assert second.input_maxima.tolist() == [3.0, 3.5]


def test_a_remainder_is_scored_in_its_own_steps() -> None:
    task = Averaging(4, 4, 2, remainder=True)
    levels = np.array([[1.0, 2.75]])
    assert score(levels + np.array([0.4, 0.1]), levels, task.output_resolution).accuracy == 1.0
    assert score(levels + np.array([0.4, 0.13]), levels, task.output_resolution).accuracy == 0.0
    assert score(levels + np.array([0.1, 0.1]), levels, task.output_resolution).margin == pytest.approx(0.1)
    assert decide([4.2, 3.8], 4).tolist() == [3.75, 3.75]


def test_lattices_too_large_for_indices_are_sampled() -> None:
    task = Averaging(32, 16, 16)
    with pytest.raises(ValueError, match="too many"):
        task.lattice_steps()
    steps = task.sample_steps(1000, np.random.default_rng(0))
    assert steps.min() == 0
    assert steps.max() == 48
    assert task.targets(task.sample(10, np.random.default_rng(0))).shape == (10, 16)
    with pytest.raises(ValueError, match="start = -3"):
        Averaging(4, 4, 2).lattice_steps(-3)
    with pytest.raises(ValueError, match="points = 0 must be at least 1"):
        next(Averaging(4, 4, 2).batches(0))
    with pytest.raises(ValueError, match="points = -1"):
        task.sample(-1, np.random.default_rng(0))


@pytest.mark.parametrize("task", [Averaging(4, 4, 2, finer_input=True), Averaging(8, 3, 2, finer_input=True)])
def test_units_of_level_1_average_to_every_lattice_point_of_level_2(task: Averaging) -> None:
    steps = task.sample_steps(2000, np.random.default_rng(0))
    steps[0], steps[1] = 0, task.input_steps
    for symbols in (assign_random(task, steps, 0), assign_worst(task, steps, np.linspace(-1.0, 1.0, task.servers))):
        np.testing.assert_allclose(task.preprocess(symbols) * task.input_resolution, steps, atol=1e-9)
        assert np.all(symbols[..., :-1] == np.clip(np.rint(symbols[..., :-1]), 0, 3))
        fraction = symbols[..., -1] * task.servers
        np.testing.assert_allclose(fraction, np.rint(fraction), atol=1e-9)
        assert fraction.min() >= 0 and fraction.max() <= 4 * task.servers - 1


def test_averages_with_a_remainder_count_steps_of_the_last_output() -> None:
    task = Averaging(4, 4, 2, remainder=True)
    averages = np.arange(4 * 16)
    levels = task.output_levels(averages)
    np.testing.assert_array_equal(levels[4 * 7 + 3], [1.0, 3.75])
    np.testing.assert_array_equal(task.combine_levels(levels), averages)
    words = np.array([3, 5, 9, 0])
    assert task.combine_levels(task.targets(task.preprocess(task.encode(words)))) == words.sum()
    with pytest.raises(ValueError, match="15"):
        task.combine_steps([0, 16])
    plain = Averaging(4, 4, 2)
    np.testing.assert_array_equal(plain.combine_steps(plain.encode(np.arange(16))), np.arange(16))


@pytest.mark.parametrize("task", [Averaging(4, 2, 2), Averaging(12, 4, 6)])
def test_words_of_a_cascade_include_the_corner_cases(task: Averaging) -> None:
    batches = list(cascade_words(task, 1000, 0))
    words = np.concatenate(batches)
    largest, count = 2**task.bits - 1, task.servers**2
    assert words.shape[1:] == (task.servers, task.servers)
    assert words.min() == 0 and words.max() == largest
    sums = words.sum(axis=(1, 2))
    assert {0, 1, count - 1, count, count + 1, count * largest - 1, count * largest} <= set(sums.tolist())
    uniform = sums[-500:]  # the last batch ends with words of a uniform sum
    assert uniform.min() < 0.05 * count * largest and uniform.max() > 0.95 * count * largest
    np.testing.assert_array_equal(np.concatenate(list(cascade_words(task, 1000, 0))), words)
    with pytest.raises(ValueError, match="random_sets = -1"):
        next(cascade_words(task, -1, 0))


@given(words())
def test_signed_numbers_average_like_their_words(case: tuple[Averaging, np.ndarray]) -> None:
    task, values = case
    numbers = task.signed(values)
    assert numbers.min() >= -(2 ** (task.bits - 1))
    np.testing.assert_array_equal(task.offset_binary(numbers), values)
    np.testing.assert_array_equal(task.signed(task.ideal(values)), numbers.sum(axis=-1) // task.servers)
    patterns = numbers & (2**task.bits - 1)  # what a computer stores
    np.testing.assert_array_equal(task.twos_complement(patterns), values)
    np.testing.assert_array_equal(task.twos_complement(values), patterns)


def test_numbers_out_of_range_are_refused() -> None:
    task = Averaging(4, 4, 2)
    with pytest.raises(ValueError, match=r"values must lie within -8 ... 7, got -9 ... 0"):
        task.offset_binary([0, -9])
    with pytest.raises(ValueError, match=r"words must lie within 0 ... 15"):
        task.signed([16])


@settings(max_examples=50)
@given(tasks(), st.integers(0, 2**32 - 1))
def test_random_assignments_average_to_the_lattice_point(task: Averaging, seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, task.servers * task.full_scale + 1, (20, task.groups))
    symbols = assign_random(task, steps, seed)
    assert symbols.shape == (20, task.servers, task.symbols)
    assert symbols.min() >= 0
    assert symbols.max() <= 3
    np.testing.assert_allclose(task.preprocess(symbols) * task.servers, steps, atol=1e-6)
    np.testing.assert_array_equal(assign_random(task, steps, seed), symbols)


@settings(max_examples=40)
@given(st.integers(1, 4), st.sampled_from([(4, 2), (2, 1), (4, 1)]), st.integers(0, 2**32 - 1))
def test_worst_assignments_are_the_worst_of_all(servers: int, size: tuple[int, int], seed: int) -> None:
    task = Averaging(size[0], min(servers, 3) if size == (4, 1) else servers, size[1])
    errors = np.random.default_rng(seed).normal(size=(task.servers, task.symbols))
    steps = np.repeat(np.arange(task.full_scale * task.servers + 1)[:, None], task.groups, axis=1)
    symbols = assign_worst(task, steps, errors)
    np.testing.assert_allclose(task.preprocess(symbols) * task.servers, steps)
    place = 4 ** np.arange(task.group_symbols - 1, -1, -1)
    every = np.array(list(itertools.product(range(4), repeat=task.servers * task.group_symbols)))
    totals = (every.reshape(len(every), task.servers, -1) @ place).sum(axis=1)
    for k in range(task.groups):
        own = slice(k * task.group_symbols, (k + 1) * task.group_symbols)
        weight = (errors[:, own] * place).reshape(-1)
        for total, found in zip(steps[:, k], symbols[:, :, own].reshape(len(steps), -1), strict=True):
            worst = np.abs(every[totals == total] @ weight).max()
            assert abs(found @ weight) == pytest.approx(worst)


def test_worst_assignment_of_long_groups_is_no_better_than_random_ones() -> None:
    """A group of four symbols: servers and carries beyond what can be tried."""
    task = Averaging(16, 5, 2)
    rng = np.random.default_rng(3)
    errors = rng.normal(size=(5, 8))
    steps = task.sample_steps(200, rng)
    weight = (errors.reshape(5, 2, 4) * 4.0 ** np.arange(3, -1, -1)).reshape(5, 8)
    symbols = assign_worst(task, steps, errors)
    np.testing.assert_allclose(task.preprocess(symbols) * task.servers, steps)
    worst = np.abs((symbols * weight).reshape(200, 5, 2, 4).sum(axis=(1, 3)))
    for seed in range(20):
        tried = np.abs((assign_random(task, steps, seed) * weight).reshape(200, 5, 2, 4).sum(axis=(1, 3)))
        assert np.all(tried <= worst + 1e-9)


def test_worst_assignment_takes_one_error_per_server_and_groups_of_symbols() -> None:
    task = Averaging(8, 2, 2)
    symbols = assign_worst(task, [[20, 7]], [0.0, 0.1])
    np.testing.assert_array_equal(symbols, [[[1, 1, 0, 0], [3, 3, 1, 3]]])


def test_assignments_refuse_bad_arguments() -> None:
    task = Averaging(4, 4, 2)
    with pytest.raises(ValueError, match=r"errors of shape \(3,\)"):
        assign_worst(task, [[0, 0]], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"errors of shape \(2, 3\).*\(2, 4\)"):
        assign_worst(Averaging(8, 2, 2), [[0, 0]], np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"steps must lie within 0 ... 12"):
        assign_random(task, [[13, 0]], 0)
    with pytest.raises(ValueError, match=r"must be \(points, 2\)"):
        assign_random(task, [0, 0], 0)


def test_receivers_decide_on_the_absolute_value() -> None:
    np.testing.assert_array_equal(decide([-0.4, -0.6, 0.49, 0.51, 2.6, 9.0]), [0, 1, 0, 1, 3, 3])


def test_score_counts_words_and_finds_the_margin() -> None:
    levels = np.array([[0, 1], [2, 3], [3, 3]])
    result = score(levels + np.array([[0.1, -0.2], [0.0, 0.3], [0.0, 0.45]]), levels)
    assert (result.inputs, result.exact, result.accuracy) == (3, 3, 1.0)
    assert result.margin == pytest.approx(0.05)
    wrong = score(levels + np.array([[0.1, -0.2], [0.7, 0.6], [np.nan, 0.0]]), levels)
    assert (wrong.exact, wrong.accuracy) == (1, pytest.approx(1 / 3))
    assert np.isnan(wrong.margin)
    assert score(np.zeros((0, 2)), np.zeros((0, 2))).inputs == 0
    with pytest.raises(ValueError, match="must have the shape of levels"):
        score(np.zeros((2, 2)), np.zeros((2, 3)))


def test_errors_are_counted_by_value_and_sign() -> None:
    ideal = np.array([[3], [64], [0]])
    read = np.array([[3, 4], [0, 65], [0, 1]])
    assert error_counts(read - ideal) == {-64: 1, 1: 3}
    assert error_counts(ideal - ideal) == {}


def test_a_range_of_the_lattice_is_bounded() -> None:
    task = Averaging(32, 4, 16)
    assert task.lattice(0, 3).shape == (3, 16)
    with pytest.raises(ValueError, match=r"at most 33,554,432 are returned; give start and stop"):
        task.lattice()
    with pytest.raises(ValueError, match=r"the range has 33,554,433 points"):
        task.lattice(5, 5 + 2**25 + 1)


TWO_SERVERS = Averaging(4, 2, 2)
IDEAL = np.array([1, 6])
LEVELS = np.array([[0, 1], [1, 2]])


def outputs_of(words) -> np.ndarray:
    """(I, S, M) output levels for (I, S) words."""
    return TWO_SERVERS.encode(np.array(words)).astype(float)


def test_words_of_two_servers_and_two_assignments_are_counted() -> None:
    first, second = outputs_of([[1, 1], [6, 6]]) + 0.1, outputs_of([[1, 1], [7, 2]]) - 0.3
    found = score_outputs([(slice(0, 2), first), (slice(0, 2), second)], TWO_SERVERS, IDEAL, LEVELS)
    assert (found.inputs, found.exact, found.words, found.wrong) == (2, 1, 8, 2)
    assert found.errors == {-4: 1, 1: 1} and list(found.errors) == [-4, 1]
    # word 2 has levels 0 and 2, one below the first level of word 6
    assert found.margin == pytest.approx(0.5 - 1.3)
    assert (found.accuracy, found.word_error_rate) == (0.5, 0.25)


def test_an_input_is_exact_only_under_every_assignment() -> None:
    batches = [(slice(0, 1), outputs_of([[1]])), (slice(1, 2), outputs_of([[5]]))]
    batches += [(slice(0, 1), outputs_of([[2]])), (slice(1, 2), outputs_of([[6]]))]
    assert score_outputs(batches, TWO_SERVERS, IDEAL, LEVELS) == WordScore(2, 0, 4, 2, -0.5, {-1: 1, 1: 1})


def test_outputs_above_the_highest_level_are_decided_as_the_highest() -> None:
    high = np.array([15]), np.array([[3, 3]])
    found = score_outputs([(slice(0, 1), np.full((1, 1, 2), 3.7))], TWO_SERVERS, *high)
    assert (found.exact, found.wrong) == (1, 0) and found.margin == pytest.approx(-0.2)


def test_shares_are_ratios_and_no_inputs_have_accuracy_0() -> None:
    assert accuracy(3, 4) == 0.75 and accuracy(0, 0) == 0.0
    assert word_error_rate(1, 8) == 0.125


def test_outputs_that_are_not_numbers_are_refused() -> None:
    outputs = np.array([[[1.0, np.nan]]])
    with pytest.raises(ValueError, match="an output is not a number"):
        score_outputs([(slice(0, 1), outputs)], TWO_SERVERS, IDEAL[:1], LEVELS[:1])


@pytest.mark.parametrize("words", [1, 127, 128, 300])
def test_the_least_margin_is_that_of_every_single_output(words: int) -> None:
    rng = np.random.default_rng(words)
    outputs, levels = rng.uniform(0.0, 3.0, (words, 3, 2)), rng.integers(0, 4, (words, 2))
    resolution = np.array([1, 4])
    expected = output_margins(outputs, levels[:, np.newaxis], resolution).min()
    assert least_margin(outputs, levels, resolution) == expected
    # the worst output may be any
    outputs[-1, -1, -1] = 9.0
    assert least_margin(outputs, levels, resolution) == 0.5 - 4 * (9.0 - levels[-1, -1])


def test_one_output_that_is_not_a_number_makes_the_least_margin_none() -> None:
    outputs = np.zeros((300, 3, 2))
    outputs[5, 1, 0] = np.nan
    assert np.isnan(least_margin(outputs, np.zeros((300, 2)), np.array([1, 1])))
