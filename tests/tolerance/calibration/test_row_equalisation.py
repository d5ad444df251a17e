"""Row equalisation: rows keep their directions, and errors of weak rows count as much as those of strong rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.onn import carry_chain
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.simulate.programming.targets import layer_targets
from optinc_pdk.tolerance import draw_sample
from optinc_pdk.tolerance.calibration.measurement import LayerResponse, bench_layers, matrix_errors, rms_matrix_error
from optinc_pdk.tolerance.calibration.row_equalisation import equalise_layers, equalise_rows
from optinc_pdk.tolerance.calibration.virtual_bench import VirtualBench

WEAK = 0.03


@pytest.fixture(scope="module")
def layer(work, process):
    """The last layer of a chip with two rows; the weights of the first are a few percent of the second's."""
    chip = work.chip
    matrices = layer_targets(carry_chain(work.task), chip.board)
    problem = ProgrammingProblem(chip.structure, chip.board, matrices, float(process.guide.wavelength_nm), process)
    last = bench_layers(problem, VirtualBench(chip, draw_sample(chip, work.imperfections, 5), None))[-1]
    weight = np.array([[WEAK], [1.0]]) * np.random.default_rng(0).standard_normal((2, last.sources.size))
    return replace(last, target=replace(last.target, weight=weight, mesh_weight=weight), plus=np.arange(2))


def response_of(weight):
    """The response of receivers to rows of real fields."""
    product = weight[:, :, np.newaxis] * weight[:, np.newaxis, :]
    none = np.zeros(0)
    return LayerResponse(none, none, none, product, np.zeros((len(weight), 0, 0)))


def test_rows_keep_their_directions_and_get_the_norm_of_the_strongest(layer):
    before, after = layer.target.weight, equalise_rows(layer.target).weight
    norm = np.linalg.norm(after, axis=1)
    assert norm == pytest.approx(np.linalg.norm(before, axis=1).max())
    assert (before * after).sum(axis=1) == pytest.approx(np.linalg.norm(before, axis=1) * norm)


def test_hidden_layers_are_unchanged(work):
    hidden = layer_targets(carry_chain(work.task), work.chip.board)[0]
    assert equalise_rows(hidden) is hidden


def test_a_zero_row_stays_zero(layer):
    empty = replace(layer.target, weight=layer.target.weight * [[0.0], [1.0]])
    assert not equalise_rows(empty).weight[0].any()
    assert np.isfinite(equalise_rows(empty).weight).all()


def test_direction_errors_of_weak_and_strong_rows_count_alike(layer):
    (equalised,) = equalise_layers([layer])
    weight = layer.target.weight
    assert rms_matrix_error(equalised, matrix_errors(equalised, response_of(weight))) < 1e-12
    error_size = np.empty((2, 2))
    for row in range(2):
        wrong = weight.copy()
        wrong[row] = np.roll(wrong[row], 1)
        error_size[row] = [rms_matrix_error(one, matrix_errors(one, response_of(wrong))) for one in (layer, equalised)]
    assert error_size[0, 0] < 2.0 * WEAK * error_size[1, 0]
    assert error_size[0, 1] > 0.3 * error_size[1, 1]
