"""Digital twin: exact derivatives, predictions of readings that were not fitted, and programming by the twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.simulate.modulator_drive import IDEAL
from optinc_pdk.simulate.programming.detection_jacobian import quadrature
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.studies import draw_sample
from optinc_pdk.studies.calibration import _twin_fit as twin_fit
from optinc_pdk.studies.calibration import _virtual_bench as virtual_bench
from optinc_pdk.studies.calibration._digital_twin import build_twin
from optinc_pdk.studies.calibration._heater_model import design_heater_model
from optinc_pdk.studies.calibration._layer_tuning import measure_jacobians, measure_setting
from optinc_pdk.studies.calibration._measurement import bench_layers
from optinc_pdk.studies.calibration._twin_fit import fit_twin, relative_misfits, signal_misfits, take_readings
from optinc_pdk.studies.calibration._twin_programming import TwinGuide, correct, program_by_twin, round_by_twin
from optinc_pdk.studies.calibration._twin_readings import (
    TwinEstimate,
    TwinLight,
    fitted_pairs,
    predicted_derivatives,
    predicted_responses,
    predicted_vectors,
    response_vectors,
)
from optinc_pdk.studies.calibration._virtual_bench import VirtualBench
from optinc_pdk.studies.variation.sampling import nominal_sample

BITS = 16.0


class TwinSetup:
    """A sample of the tiny chip on a bench, with its layers and heater efficiencies known to 1 %."""

    def __init__(self, problem, chip, sample, efficiency, bits=BITS, **noise):
        self.problem, self.bench = problem, VirtualBench(chip, sample, bits, **noise)
        self.heaters = design_heater_model(chip, self.bench)
        self.layers = bench_layers(problem, self.bench)
        self.efficiency = efficiency

    @property
    def twin(self):
        return build_twin(self.problem, self.layers, self.heaters, self.efficiency)

    def settings(self, count, seed):
        phases = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, (count, self.efficiency.size))
        return np.array([self.heaters.voltages(one) for one in phases])

    def programmed(self):
        *_, (state, _) = program_by_twin(self.bench, self.problem, self.layers, self.heaters, self.efficiency)
        return state


@pytest.fixture(scope="module")
def setup_of(work, problem, efficiencies):
    """Return a function of a sample: its setup."""

    def setup(sample, **options):
        real = efficiencies(sample)
        known = real * np.random.default_rng(4).normal(1.0, 0.01, real.size)
        return TwinSetup(problem, work.chip, sample, known, **options)

    return setup


@pytest.fixture
def nominal_of(work, problem):
    """Return a function of the bits of the drive: setup and guide of a nominal chip; its reflections are unknown."""

    def nominal(bits=BITS):
        chip = work.chip
        setup = TwinSetup(problem, chip, nominal_sample(chip), np.ones(chip.voltage_v.size), bits)
        estimate = TwinEstimate(setup.twin, np.zeros(setup.twin.spread.size))
        return setup, TwinGuide(setup.bench, estimate, setup.heaters, np.zeros(len(setup.layers)))

    return nominal


def test_products_of_many_sources_are_fitted_at_distances_that_reach_every_source():
    one, other = fitted_pairs(16)
    assert one.size == 16 * 17 // 2
    one, other = fitted_pairs(40)
    assert set((other - one).tolist()) == {0, 1, 2, 4, 8, 16, 32}
    assert np.count_nonzero(one == other) == 40
    # more than the 2 J - 1 real numbers that a receiver's products depend on
    assert 2 * 40 < one.size < 40 * 41 // 4


def test_derivatives_of_responses_agree_with_difference_quotients(sample, setup_of):
    setup = setup_of(sample)
    twin, random = setup.twin, np.random.default_rng(0)
    unknown, direction = 0.5 * random.standard_normal((2, twin.spread.size))
    design_phase = np.array([setup.heaters.phases(one) for one in setup.settings(3, 1)])
    step, every = 1e-6, np.arange(twin.spread.size)
    for index, layer in enumerate(setup.layers):

        def light(shift, index=index):
            estimate = TwinEstimate(twin, unknown + shift * direction)
            return estimate, estimate.light(index, estimate.phases(index, design_phase))

        slope = predicted_derivatives(light(0.0)[0], design_phase, light(0.0)[1], index, every)
        raised, lowered = (predicted_vectors(light(shift)[1], layer).reshape(-1) for shift in (step, -step))
        quotient = (raised - lowered) / (2.0 * step)
        assert np.abs(direction @ slope - quotient).max() < 1e-6 * np.abs(quotient).max()


def test_predicted_responses_are_those_of_a_nominal_bench(monkeypatch, nominal_of):
    # the twin knows no leak of modulators, which is 1 % of a field
    monkeypatch.setattr(virtual_bench, "modulator_of", lambda process: IDEAL)
    setup, _ = nominal_of()
    twin, settings = setup.twin, setup.settings(3, 2)
    unknown = np.zeros(twin.spread.size)
    estimate, measured = TwinEstimate(twin, unknown), take_readings(setup.bench, twin, settings)
    assert relative_misfits(twin, unknown, measured).max() < 3e-3
    for index, layer in enumerate(setup.layers):
        light = estimate.light(index, estimate.phases(index, measured.design_phase))
        assert np.allclose(
            response_vectors(predicted_responses(light, layer), layer), predicted_vectors(light, layer), rtol=1e-12
        )


def test_signals_show_a_wrong_matrix_that_constants_hide(nominal_of):
    setup, _ = nominal_of()
    twin, random = setup.twin, np.random.default_rng(3)
    evidence = take_readings(setup.bench, twin, setup.settings(3, 2))
    unknown = np.zeros(twin.spread.size)
    right = signal_misfits(twin, unknown, evidence)
    # phases of the sources' guides leave constants and squares as they are
    edge_phase = twin.parts(np.arange(unknown.size))[4]
    unknown[edge_phase] = random.standard_normal(edge_phase.size)
    wrong, diluted = (misfits(twin, unknown, evidence) for misfits in (signal_misfits, relative_misfits))
    hidden = [i for i, layer in enumerate(setup.layers) if not layer.target.last]
    assert right[hidden].max() < 0.06
    assert wrong[hidden].min() > 0.1
    assert np.all(diluted[hidden] < 0.8 * wrong[hidden])


def test_a_layer_whose_signals_are_not_predicted_is_fitted_again_with_more_readings(sample, monkeypatch, setup_of):
    counts = []

    def misfits(twin, unknown, evidence):
        found = signal_misfits(twin, unknown, evidence)
        found[1] = 0.5 if not counts else found[1]
        counts.append(len(evidence.design_phase))
        return found

    monkeypatch.setattr(twin_fit, "signal_misfits", misfits)
    setup = setup_of(sample)
    _, _, fitted = fit_twin(setup.bench, setup.twin, np.random.default_rng(1))
    assert len(counts) == 2
    assert counts[1] > counts[0]
    assert fitted.tolist() == list(range(len(setup.layers)))


def test_a_layer_in_a_local_minimum_is_fitted_from_another_start(work, every, monkeypatch, setup_of):
    setup = setup_of(draw_sample(work.chip, every, 50))

    def fitted():
        unknown, _, layers = fit_twin(setup.bench, setup.twin, np.random.default_rng(1))
        unseen = take_readings(setup.bench, setup.twin, setup.settings(6, 7))
        return layers.tolist(), signal_misfits(setup.twin, unknown, unseen)

    layers, misfit = fitted()
    assert layers == [0, 1]
    assert misfit.max() < 0.03
    # more readings alone do not help
    monkeypatch.setattr(twin_fit, "START_SHARE", 0.0)
    layers, misfit = fitted()
    assert layers == [0]
    assert misfit[1] > 0.1


def test_predicted_jacobians_of_hidden_layers_are_those_of_a_nominal_bench(work, nominal_of):
    setup, guide = nominal_of()
    state = measure_setting(setup.bench, setup.layers, setup.heaters, setup.heaters.quantise(work.chip.voltage_v))
    turn_rad = 2.0 * np.pi / setup.efficiency
    measured = measure_jacobians(setup.bench, setup.heaters, turn_rad, state, np.arange(len(setup.layers)))
    for one, other in zip(measured[:-1], guide.jacobians(state)[:-1], strict=True):
        # a layer of one column has no derivatives, because its rows are scaled
        assert np.abs(one - other).max() < 0.1 * np.abs(one).max() + 1e-6


def test_a_guide_adds_the_signals_in_quadrature_of_hidden_layers(work, nominal_of):
    setup, guide = nominal_of()
    state = measure_setting(setup.bench, setup.layers, setup.heaters, setup.heaters.quantise(work.chip.voltage_v))
    weighted = replace(guide, quadrature_weight=np.full(len(setup.layers), 0.5))
    plain, found = guide.errors(state), weighted.errors(state)
    design_phase = setup.heaters.phases(state.voltage_v)[np.newaxis]
    assert np.array_equal(found[-1], plain[-1])
    for i, target in enumerate(setup.problem.targets[:-1]):
        light = guide.estimate.light(i, guide.estimate.phases(i, design_phase))
        expected = quadrature(TwinLight({i: light}), target)
        assert np.array_equal(found[i][: plain[i].size], plain[i])
        assert np.abs(expected).max() > 1e-3
        assert np.allclose(found[i][plain[i].size :], 0.5 * expected.reshape(-1), rtol=1e-2, atol=1e-5)
    for slope, errors in zip(weighted.jacobians(state), found, strict=True):
        assert len(slope) == errors.size


def test_corrections_weighted_with_quadrature_keep_the_light_in_phase(work, nominal_of):
    setup, guide = nominal_of()
    phase = setup.heaters.phases(work.chip.voltage_v)
    off = setup.heaters.voltages(phase + 0.05 * np.random.default_rng(3).standard_normal(phase.size))
    state = measure_setting(setup.bench, setup.layers, setup.heaters, off)
    turned = {}
    every = np.ones(len(setup.layers))
    for weight in (0.0, 0.1):
        found = correct(replace(guide, quadrature_weight=weight * every), 2.0 * np.pi / setup.efficiency, state)
        pairs = zip(replace(guide, quadrature_weight=every).errors(found), guide.errors(found), strict=True)
        turned[weight] = sum(np.linalg.norm(both[plain.size :]) for both, plain in pairs)
    assert turned[0.1] < 0.5 * turned[0.0]


def test_corrections_and_joint_rounding_reduce_the_errors_of_every_layer(work, nominal_of):
    for bits in (16.0, 8.5):
        setup, guide = nominal_of(bits)
        phase = setup.heaters.phases(work.chip.voltage_v)
        off = setup.heaters.voltages(phase + 0.02 * np.random.default_rng(3).standard_normal(phase.size))
        state = measure_setting(setup.bench, setup.layers, setup.heaters, off)
        corrected = correct(guide, 2.0 * np.pi / setup.efficiency, state)
        rounded = round_by_twin(guide, corrected)
        errors = [
            np.array([np.linalg.norm(error) for error in guide.errors(each)]) for each in (state, corrected, rounded)
        ]
        assert np.all(errors[1] <= errors[0] + 1e-12)
        assert np.all(errors[2] <= errors[1] + 1e-12)
        assert errors[2].sum() < 0.5 * errors[0].sum()
        steps = rounded.voltage_v / setup.heaters.step_v
        assert np.allclose(steps, np.rint(steps))


def test_a_fitted_twin_predicts_readings_that_it_was_not_fitted_to(sample, setup_of):
    setup = setup_of(sample)
    twin = setup.twin
    unseen = take_readings(setup.bench, twin, setup.settings(6, 7))
    unknown, *_ = fit_twin(setup.bench, twin, np.random.default_rng(1))
    assert relative_misfits(twin, np.zeros(twin.spread.size), unseen).max() > 0.3
    assert relative_misfits(twin, unknown, unseen).max() < 0.03


def test_programming_by_the_twin_reduces_the_error_fiftyfold(work, sample, setup_of):
    setup = setup_of(sample)
    before = measure_setting(setup.bench, setup.layers, setup.heaters, setup.heaters.quantise(work.chip.voltage_v))
    after = setup.programmed()
    assert before.sizes.max() > 0.1
    assert after.sizes.max() < before.sizes.max() / 50.0
    assert setup.bench.settings < 10 * setup.efficiency.size


def test_the_twin_tolerates_noise_of_readings(sample, process, setup_of):
    setup = setup_of(sample, noise=noise_of(process), seed=3, averages=10_000)
    assert setup.programmed().sizes.max() < 0.02


def test_the_twin_handles_a_heater_without_effect(sample, setup_of, open_heater):
    setup = setup_of(sample)
    broken = int(setup.layers[0].heaters[0])

    setup.bench = open_heater(sample, broken)
    setup.efficiency[broken] = np.nan
    twin = setup.twin
    unknown, *_ = fit_twin(setup.bench, twin, np.random.default_rng(1))
    assert relative_misfits(twin, unknown, take_readings(setup.bench, twin, setup.settings(6, 7))).max() < 0.03
    # programming must not use it
    assert broken not in twin.problem_at(unknown).heaters(0)
