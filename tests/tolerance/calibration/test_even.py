"""Receivers' rows of equal norms: the same directions, and a weak row's error counts as much as a strong one's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.onn import carry_chain
from optinc_pdk.simulate.fit import Problem
from optinc_pdk.simulate.target import targets
from optinc_pdk.tolerance import draw
from optinc_pdk.tolerance.calibration.bench import Bench
from optinc_pdk.tolerance.calibration.even import even, even_layers
from optinc_pdk.tolerance.calibration.measure import Seen, deviation, layers_of, size

WEAK = 0.03


@pytest.fixture(scope="module")
def layer(work, process):
    """A chip's last layer as if it had two rows, of which the first has a few percent of the other's weights."""
    chip = work.chip
    found = targets(carry_chain(work.task), chip.board)
    problem = Problem(chip.structure, chip.board, found, float(process.guide.wavelength_nm), process)
    last = layers_of(problem, Bench(chip, draw(chip, work.imperfections, 5), None))[-1]
    weight = np.array([[WEAK], [1.0]]) * np.random.default_rng(0).standard_normal((2, last.sources.size))
    return replace(last, target=replace(last.target, weight=weight, mesh_weight=weight), plus=np.arange(2))


def seen_with(weight):
    """Receivers that see rows of real fields."""
    product = weight[:, :, np.newaxis] * weight[:, np.newaxis, :]
    none = np.zeros(0)
    return Seen(none, none, none, product, np.zeros((len(weight), 0, 0)))


def test_rows_keep_their_directions_and_get_the_strongest_ones_norm(layer):
    before, after = layer.target.weight, even(layer.target).weight
    norm = np.linalg.norm(after, axis=1)
    assert norm == pytest.approx(np.linalg.norm(before, axis=1).max())
    assert (before * after).sum(axis=1) == pytest.approx(np.linalg.norm(before, axis=1) * norm)


def test_hidden_layers_stay_as_they_are(work):
    hidden = targets(carry_chain(work.task), work.chip.board)[0]
    assert even(hidden) is hidden


def test_a_row_without_weights_stays_one(layer):
    empty = replace(layer.target, weight=layer.target.weight * [[0.0], [1.0]])
    assert not even(empty).weight[0].any()
    assert np.isfinite(even(empty).weight).all()


def test_a_weak_rows_wrong_direction_counts_as_much_as_a_strong_ones(layer):
    (bright,) = even_layers([layer])
    weight = layer.target.weight
    assert size(bright, deviation(bright, seen_with(weight))) < 1e-12
    lost = np.empty((2, 2))
    for row in range(2):
        wrong = weight.copy()
        wrong[row] = np.roll(wrong[row], 1)
        lost[row] = [size(one, deviation(one, seen_with(wrong))) for one in (layer, bright)]
    assert lost[0, 0] < 2.0 * WEAK * lost[1, 0]
    assert lost[0, 1] > 0.3 * lost[1, 1]
