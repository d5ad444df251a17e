"""Row equalisation: rows keep their directions, and errors of weak rows count as much as those of strong rows."""

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
    """The last layer of a chip with two rows; the weights of the first are a few percent of the second's."""
    chip = work.chip
    matrices = targets(carry_chain(work.task), chip.board)
    problem = Problem(chip.structure, chip.board, matrices, float(process.guide.wavelength_nm), process)
    last = layers_of(problem, Bench(chip, draw(chip, work.imperfections, 5), None))[-1]
    weight = np.array([[WEAK], [1.0]]) * np.random.default_rng(0).standard_normal((2, last.sources.size))
    return replace(last, target=replace(last.target, weight=weight, mesh_weight=weight), plus=np.arange(2))


def response_of(weight):
    """The response of receivers to rows of real fields."""
    product = weight[:, :, np.newaxis] * weight[:, np.newaxis, :]
    none = np.zeros(0)
    return Seen(none, none, none, product, np.zeros((len(weight), 0, 0)))


def test_rows_keep_their_directions_and_get_the_norm_of_the_strongest(layer):
    before, after = layer.target.weight, even(layer.target).weight
    norm = np.linalg.norm(after, axis=1)
    assert norm == pytest.approx(np.linalg.norm(before, axis=1).max())
    assert (before * after).sum(axis=1) == pytest.approx(np.linalg.norm(before, axis=1) * norm)


def test_hidden_layers_are_unchanged(work):
    hidden = targets(carry_chain(work.task), work.chip.board)[0]
    assert even(hidden) is hidden


def test_a_zero_row_stays_zero(layer):
    empty = replace(layer.target, weight=layer.target.weight * [[0.0], [1.0]])
    assert not even(empty).weight[0].any()
    assert np.isfinite(even(empty).weight).all()


def test_direction_errors_of_weak_and_strong_rows_count_alike(layer):
    (equalised,) = even_layers([layer])
    weight = layer.target.weight
    assert size(equalised, deviation(equalised, response_of(weight))) < 1e-12
    error_size = np.empty((2, 2))
    for row in range(2):
        wrong = weight.copy()
        wrong[row] = np.roll(wrong[row], 1)
        error_size[row] = [size(one, deviation(one, response_of(wrong))) for one in (layer, equalised)]
    assert error_size[0, 0] < 2.0 * WEAK * error_size[1, 0]
    assert error_size[0, 1] > 0.3 * error_size[1, 1]
