"""Schedules compute the exact sum in the published number of steps, without wavelength conflicts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_collective.interconnect import (
    all_gather,
    binary_tree,
    execute,
    hierarchical_ring,
    optinc_cascade,
    optinc_star,
    piece_bounds,
    recursive_doubling,
    repetitions,
    ring,
    sharp,
    wavelength_conflicts,
    wrht,
)
from optinc_collective.interconnect.allreduce import _all_to_all, all_to_all_wavelengths
from optinc_collective.interconnect.exchange_schedule import exchange_step
from optinc_pdk.errors import InputError

NODES = st.integers(2, 70)
ON_A_RING = st.one_of(
    st.builds(ring, NODES),
    NODES.flatmap(lambda nodes: st.builds(hierarchical_ring, st.just(nodes), st.integers(1, nodes))),
    st.builds(recursive_doubling, NODES),
    st.builds(binary_tree, NODES),
    st.builds(wrht, NODES, st.integers(1, 12)),
)
SHARP = st.builds(sharp, NODES, st.integers(2, 20))
OPTINC = st.one_of(st.builds(optinc_star, st.integers(2, 20)), st.sampled_from([4, 9, 16, 25]).map(optinc_cascade))


@settings(max_examples=150, deadline=None)
@given(st.one_of(ON_A_RING, OPTINC, SHARP), st.integers(1, 90), st.integers(0, 2**32 - 1))
def test_every_node_ends_with_the_exact_sum(schedule, size, seed):
    values = np.random.default_rng(seed).integers(-(2**40), 2**40, (schedule.nodes, size))
    assert (execute(schedule, values) == values.sum(axis=0)).all()


@settings(max_examples=150, deadline=None)
@given(ON_A_RING)
def test_no_two_transfers_share_a_wavelength_on_a_link(schedule):
    for step in schedule.steps:
        assert not len(wavelength_conflicts(step, schedule.nodes))
        used = set()
        for source, target, wavelength, direction in zip(
            step.source, step.target, step.wavelength, step.direction, strict=True
        ):
            assert direction in (1, -1)
            node = source
            while node != target:
                link = (node if direction > 0 else (node - 1) % schedule.nodes, wavelength, direction)
                assert link not in used
                used.add(link)
                node = (node + direction) % schedule.nodes


@pytest.mark.parametrize(
    ("source", "target", "wavelength", "direction", "pairs"),
    [
        ([0, 2], [3, 5], [0, 0], [1, 1], 1),
        ([0, 2], [3, 5], [0, 1], [1, 1], 0),
        ([0, 3], [3, 5], [0, 0], [1, 1], 0),
        ([0, 5], [3, 2], [0, 0], [1, -1], 0),
        ([3, 5], [0, 2], [0, 0], [-1, -1], 1),
        ([6, 0], [1, 2], [0, 0], [1, 1], 1),  # across node 0
        ([0, 1, 2], [7, 2, 3], [0, 0, 0], [1, 1, 1], 1),  # a long transfer overlaps two short ones
        ([0, 2], [3, 5], [0, 0], [0, 0], 0),  # not on the ring
    ],
)
def test_conflicts_are_detected(source, target, wavelength, direction, pairs):
    step = exchange_step(source, target, reduce=True, wavelength=wavelength, direction=direction)
    assert len(wavelength_conflicts(step, 8)) == pairs


@settings(max_examples=60, deadline=None)
@given(st.builds(wrht, st.integers(8, 60), st.integers(2, 9)), st.data())
def test_a_wavelength_used_twice_is_detected(schedule, data):
    step = data.draw(st.sampled_from([step for step in schedule.steps if step.wavelength.max() > 0]))
    merged = replace(step, wavelength=np.zeros_like(step.wavelength))
    assert len(wavelength_conflicts(merged, schedule.nodes))


@pytest.mark.parametrize("nodes", range(2, 40))
def test_all_to_all_is_complete_and_needs_the_published_number_of_wavelengths(nodes):
    step = _all_to_all(np.arange(nodes) * 3 + 1)
    pairs = set(zip(step.source.tolist(), step.target.tolist(), strict=True))
    assert len(pairs) == len(step.source) == nodes * (nodes - 1)
    assert step.wavelength.max() + 1 <= all_to_all_wavelengths(nodes)
    assert not len(wavelength_conflicts(step, 3 * nodes + 2))


def test_published_step_counts():
    """arXiv 2207.10982: 1024 nodes, 64 wavelengths."""
    assert ring(1024).count == 2046
    assert hierarchical_ring(1024, 5).count == 417
    assert binary_tree(1024).count == 20
    assert wrht(1024, 64).count == 3
    assert wrht(1024, 64).wavelengths == 64
    assert recursive_doubling(1024).count == 10
    assert optinc_star(16).count == optinc_cascade(16).count == 1


@pytest.mark.parametrize(
    ("servers", "radix", "switches", "steps"),
    [(4, 72, 1, 2), (72, 72, 1, 2), (73, 72, 2 + 1, 4), (128, 36, 4 + 1, 4), (9, 2, 5 + 3 + 2 + 1, 8)],
)
def test_sharp_is_a_tree_of_switches_and_one_step(servers, radix, switches, steps):
    schedule = sharp(servers, radix)
    assert (schedule.units, len(schedule.steps), schedule.count) == (switches, steps, 1)
    assert (schedule.sent == 1.0).all()
    for step in schedule.steps:
        # a switch has at most `radix` links downwards, and sends to or receives from each of them once
        assert np.bincount(step.target if step.reduce else step.source).max() <= radix
        assert len(set(zip(step.source.tolist(), step.target.tolist(), strict=True))) == len(step.source)


def test_a_tree_that_loses_a_switch_does_not_give_the_sum():
    schedule = sharp(8, 4)
    up, top, *down = schedule.steps
    lost = exchange_step(top.source[:1], top.target[:1], reduce=True, streamed=True)
    values = np.arange(1, 17).reshape(8, 2)
    wrong = replace(schedule, steps=(up, lost, *down))
    assert not (execute(wrong, values) == values.sum(axis=0)).any()


@given(st.integers(2, 3000), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_steps_of_wrht_follow_the_formula_and_wavelengths_stay_within_the_limit(nodes, wavelengths):
    schedule = wrht(nodes, wavelengths)
    left, levels = nodes, 0
    while left > 1 and -(-left * left // 8) > wavelengths:
        left, levels = -(-left // (2 * wavelengths + 1)), levels + 1
    assert schedule.count == 2 * levels + (left > 1)
    assert schedule.wavelengths <= wavelengths


@given(st.integers(2, 300), st.data())
@settings(max_examples=60, deadline=None)
def test_step_count_equals_the_number_of_executed_steps(nodes, data):
    for schedule in (ring(nodes), hierarchical_ring(nodes, data.draw(st.integers(1, nodes)))):
        assert schedule.count == len(list(repetitions(schedule)))


def test_a_ring_of_many_nodes_has_two_step_objects():
    schedule = ring(100_000)
    assert len(schedule.steps) == 2
    assert schedule.count == 199_998


def test_pieces_cover_the_buffer_without_overlap():
    (step, _) = ring(7).steps
    for turn in range(6):
        start, stop = piece_bounds(step, turn, 23)
        order = np.argsort(start)
        assert start[order][0] == 0
        assert stop[order][-1] == 23
        assert (stop[order][:-1] == start[order][1:]).all()


def test_an_incomplete_schedule_does_not_give_the_sum():
    schedule = ring(5)
    values = np.arange(10).reshape(5, 2)
    wrong = replace(schedule, steps=(replace(schedule.steps[0], repeat=3), schedule.steps[1]))
    assert not (execute(wrong, values) == values.sum(axis=0)).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ring(1), "ring: 1 nodes.* 2"),
        (lambda: binary_tree(0), "0 nodes.* 2"),
        (lambda: recursive_doubling(-3), "-3 nodes.* 2"),
        (lambda: hierarchical_ring(10, 0), "groups of 0 .*1 to 10"),
        (lambda: hierarchical_ring(10, 11), "groups of 11 .*1 to 10"),
        (lambda: wrht(10, 0), "0 wavelengths.* 1"),
        (lambda: optinc_star(1), "1 nodes.* 2"),
        (lambda: sharp(1, 8), "1 nodes.* 2"),
        (lambda: sharp(4, 1), "radix 1; .* 2"),
        (lambda: sharp(4, 8.0), "sharp: radix = 8.0"),
        (lambda: optinc_cascade(12), "12 servers.* 9 or 16"),
        (lambda: execute(ring(3), np.zeros((4, 2))), r"\(4, 2\).*\(3, size\)"),
        (lambda: execute(ring(3), [[1], [2], [3]]), "execute: values = .*array"),
        (lambda: ring(4.0), "ring: nodes = 4.0"),
        (lambda: hierarchical_ring(8, 2.5), "hierarchical_ring: group = 2.5"),
        (lambda: recursive_doubling("8"), "recursive_doubling: nodes = '8'"),
        (lambda: binary_tree(True), "binary_tree: nodes = True"),
        (lambda: wrht(8, 2.0), "wrht: wavelengths = 2.0"),
        (lambda: all_gather(None), "all_gather: nodes = None"),
        (lambda: optinc_star(4.5), "optinc_star: servers = 4.5"),
        (lambda: optinc_cascade("16"), "optinc_cascade: servers = '16'"),
        (lambda: replace(ring(4), nodes=4.0), "Schedule: nodes = 4.0"),
    ],
)
def test_invalid_arguments_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


@pytest.mark.parametrize("builder", [ring, recursive_doubling, binary_tree, optinc_star, optinc_cascade, all_gather])
def test_numbers_of_nodes_are_integers_of_python_or_numpy(builder):
    for nodes in (2.5, 4.0, "4", None, float("nan")):
        with pytest.raises(InputError, match=r"(nodes|servers) = "):
            builder(nodes)
    one, other = builder(np.int64(4)), builder(4)
    assert one.count == other.count
    assert (one.sent == other.sent).all()


def test_groups_and_wavelengths_are_integers():
    with pytest.raises(InputError, match=r"wavelengths = 2\.5"):
        wrht(8, 2.5)
    with pytest.raises(InputError, match=r"group = 2\.5"):
        hierarchical_ring(8, 2.5)
