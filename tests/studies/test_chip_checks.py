"""Samples of the chips of words, matrices and general networks, before and after calibration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from chip_geometry import with_geometry

from optinc_pdk.assemble import CARRIER_TREE, assemble, draft_matrix, matrix_labels
from optinc_pdk.cards import load_process, with_field_outputs
from optinc_pdk.drive import RangeError
from optinc_pdk.matrices import MatrixTarget, compare_matrices, factor_matrix
from optinc_pdk.networks import GeneralNetwork, Layer, NetworkComparison, NetworkLimits, check_data, factorise
from optinc_pdk.signoff.extracted_chip import WITHOUT_BOARD
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import program, program_matrix, scattering, transmit, transmit_vectors, trim_offsets
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.studies import chip_checks, chip_of, imperfections, sample_scattering
from optinc_pdk.studies.calibration import _layer_tuning as layer_tuning
from optinc_pdk.studies.calibration import _procedure as procedure
from optinc_pdk.studies.calibration._matrix_tuning import equalise
from optinc_pdk.studies.chip_checks import MatrixCheck, NetworkCheck, read_words, unusable_outcome
from optinc_pdk.studies.drift import check_drift
from optinc_pdk.studies.drift.scenarios import SCENARIOS, DriftScenario
from optinc_pdk.studies.montecarlo.sample_records import SampleJob
from optinc_pdk.studies.montecarlo.study import YieldStudy, evaluate, run_serially, sample_seed
from optinc_pdk.studies.noisy_outputs import operating_noise
from optinc_pdk.studies.outcomes import CheckOutcome, WordOutcome
from optinc_pdk.studies.variation.sampling import draw_sample


@pytest.fixture(scope="module")
def s(work):
    return sample_scattering(work.chip, draw_sample(work.chip, work.imperfections.only(), 0), work.chip.voltage_v)


def test_the_nominal_chip_reads_every_word(work, s):
    tried = function_inputs(work.check.task)
    outcome = read_words(s, tried, work.chip.board, work.chip.bias)
    assert (outcome.inputs, outcome.exact, outcome.words, outcome.wrong) == (256, 256, 4 * 256, 0)
    assert outcome.margin > 0.45 and outcome.errors == {}
    assert outcome.accuracy == 1.0 and outcome.word_error_rate == 0.0


def test_wrong_words_are_counted_as_servers_read_them(work, s):
    """One receiver's scale is doubled, so its server reads too large words and the input is inexact."""
    bias = work.chip.bias
    outputs = dict(bias.outputs)
    outputs[work.chip.board.outputs[2][0]] *= 2.0
    damaged = replace(bias, outputs=outputs)
    tried = function_inputs(work.check.task)
    outcome = read_words(s, tried, work.chip.board, damaged)
    levels = transmit(tried.symbols, s, work.chip.board, damaged).levels
    wrong: dict[int, int] = {}
    lost = 0
    for symbols, read in zip(tried.symbols, levels, strict=True):
        ideal = int(symbols.sum()) // 4
        errors = [int(server[0]) - ideal for server in read]
        lost += any(errors)
        for error in errors:
            if error:
                wrong[error] = wrong.get(error, 0) + 1
    assert outcome.errors == wrong and outcome.wrong == sum(wrong.values()) > 0
    assert outcome.exact == 256 - lost
    # levels 1 and 2 are read as 2 and 3; 3 is the highest level
    assert set(wrong) == {1} and outcome.margin == pytest.approx(0.5 - 3.0, abs=0.01)
    assert WordOutcome.from_json(outcome.to_json()) == outcome


def test_noise_depends_on_the_seed_only(work, s, process):
    tried = function_inputs(work.check.task)
    noise = noise_of(process, laser_w=1e-6, symbol_rate_bd=1e9)
    one, same, other = (read_words(s, tried, work.chip.board, work.chip.bias, noise, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert one.wrong > 0 and np.isfinite(one.margin)


def test_an_unusable_chip_reads_zeros(work):
    tried = function_inputs(work.check.task)
    outcome = unusable_outcome(tried, work.chip.board, "no gain")
    # 35 combinations of four symbols have a sum below 4, so an ideal average of 0
    assert outcome.exact == 35 and outcome.words == 4 * 256 and outcome.wrong == 4 * (256 - 35)
    assert set(outcome.errors) == {-1, -2, -3} and sum(outcome.errors.values()) == outcome.wrong
    assert outcome.margin == -2.5 and WordOutcome.from_json(outcome.to_json()).fault == "no gain"


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan"), "0.1", True])
def test_an_estimate_that_is_no_probability_is_refused(work, rate):
    data = unusable_outcome(function_inputs(work.check.task), work.chip.board, "no gain").to_json()
    assert data["estimated_word_error_rate"] is None
    with pytest.raises(ValueError, match="estimated word-error rate"):
        WordOutcome.from_json({**data, "estimated_word_error_rate": rate})


PROCESS = load_process()
UNITARY = np.asarray(scipy.stats.unitary_group(3, seed=4).rvs())
JOBS = [SampleJob("all", "", sample) for sample in range(4)]


@pytest.fixture(scope="module")
def matrix_study() -> YieldStudy:
    target = MatrixTarget(UNITARY, tolerance=0.05)
    draft = draft_matrix(target, factor_matrix(target, PROCESS), PROCESS, "matrix").complete(CARRIER_TREE)
    circuit = with_geometry(draft, 3)
    bias = program_matrix(circuit, target, PROCESS).bias
    chip = chip_of(circuit, WITHOUT_BOARD, bias, PROCESS)
    return YieldStudy(MatrixCheck(chip, target), imperfections(PROCESS), 5)


def study_of(network: GeneralNetwork, x: np.ndarray) -> YieldStudy:
    """A classifier's chip with drawn lengths and resistances, programmed as a build does."""
    process, network = with_field_outputs(PROCESS), network.with_data(x)
    data = check_data(x, network.forward(x).argmax(axis=1), network)
    reference = assemble(network, process, "network")
    circuit, factors = with_geometry(reference, 1), factorise(network)
    bias = program(circuit, reference.board, network, process, factors=factors).bias
    s = scattering(circuit, bias, float(process.guide.wavelength_nm), process)
    bias = trim_offsets(s, reference.board, bias, network, factors, process)
    chip = chip_of(circuit, reference.board, bias, process)
    check = NetworkCheck.of(chip, network, data, NetworkLimits())
    return YieldStudy(check, imperfections(process), 5)


@pytest.fixture(scope="module")
def network_study() -> YieldStudy:
    rng = np.random.default_rng(2)
    layers = [Layer(rng.normal(size=(3, 2)), rng.normal(size=3)), Layer(rng.normal(size=(2, 3)), rng.normal(size=2))]
    return study_of(GeneralNetwork.of_layers(layers), rng.uniform(-1.0, 1.0, (60, 2)))


@pytest.fixture(scope="module")
def block_study() -> YieldStudy:
    """Both layers have two rows and two columns of blocks, each a diagonal matrix times rows of an orthogonal one."""
    rng = np.random.default_rng(3)
    blocks = iter(scipy.stats.ortho_group(4, seed=5).rvs(8) * rng.uniform(0.5, 1.0, (8, 4, 1)))
    hidden = np.block([[next(blocks), next(blocks)], [next(blocks), next(blocks)]])
    last = np.block([[next(blocks), next(blocks)], [next(blocks)[:2], next(blocks)[:2]]])
    layers = [Layer(hidden, rng.normal(size=8)), Layer(last, rng.normal(size=6))]
    network = replace(GeneralNetwork.of_layers(layers), factor=(("approx", 4), ("approx", 4)))
    return study_of(network, rng.uniform(-1.0, 1.0, (200, 8)))


def test_without_imperfections_every_matrix_chip_is_that_of_the_build(matrix_study: YieldStudy) -> None:
    perfect = replace(matrix_study, imperfections=matrix_study.imperfections.only())
    chip, target = perfect.chip, perfect.check.target
    s = scattering(chip.structure.circuit, chip.bias, float(PROCESS.guide.wavelength_nm), PROCESS)
    inputs, outputs = matrix_labels(target)
    built = compare_matrices(s.between(outputs, inputs)[0], target)
    for _, result in run_serially(perfect, JOBS):
        found = CheckOutcome.from_json(result["before"])
        assert found.passed and found.values["worst_error"] == pytest.approx(built.worst, abs=1e-9)
        assert found.values["insertion_loss_db"] == pytest.approx(built.insertion_loss_db, abs=1e-9)
    calibrated = evaluate(replace(perfect, calibrated=True), JOBS[0])
    assert calibrated["after"]["passed"] and calibrated["after"]["values"]["worst_error"] < 0.02


def test_without_imperfections_every_network_chip_is_that_of_the_build(network_study: YieldStudy) -> None:
    perfect = replace(network_study, imperfections=network_study.imperfections.only())
    chip, check = perfect.chip, perfect.check
    s = scattering(chip.structure.circuit, chip.bias, float(PROCESS.guide.wavelength_nm), chip.process)
    outputs = transmit_vectors(check.data.x, s, chip.board, chip.bias).outputs
    built = NetworkComparison(check.data, check.limits, check.network.forward(check.data.x), outputs)
    for _, result in run_serially(perfect, JOBS):
        values = CheckOutcome.from_json(result["before"]).values
        assert values["agreement"] == built.agreement == 1.0 and values["accuracy"] == built.chip_accuracy
        assert values["worst_deviation"] == pytest.approx(float(built.deviations.max()), rel=1e-3)


def test_calibration_makes_sampled_matrix_chips_work(matrix_study: YieldStudy) -> None:
    calibrated = replace(matrix_study, calibrated=True)
    results = [evaluate(calibrated, job) for job in JOBS]
    before, after = ([result[stage] for result in results] for stage in ("before", "after"))
    assert not any(one["passed"] for one in before)
    assert [one["values"]["worst_error"] < 0.1 for one in after].count(True) >= 3
    assert set(results[0]) == {"before", "after", "drifted"}
    # the errors without calibration are those of the batch
    uncalibrated = dict(run_serially(matrix_study, JOBS))
    for job, one in zip(JOBS, before, strict=True):
        assert uncalibrated[job]["before"]["values"] == pytest.approx(one["values"], rel=1e-6)


@pytest.mark.full
def test_twins_of_single_blocks_calibrate_split_layers(block_study: YieldStudy) -> None:
    result = evaluate(replace(block_study, calibrated=True), JOBS[1])
    before, between, after = (result[stage]["values"] for stage in ("before", "between", "after"))
    # this setting is good enough, so that it is not tuned
    assert between == after and after["agreement"] > 0.98
    assert after["rms_deviation"] < 0.01 < 0.1 * before["rms_deviation"]


@pytest.mark.full
def test_blocks_of_a_chip_in_service_are_tuned_with_the_electronics_of_their_rows(block_study: YieldStudy) -> None:
    study, check = replace(block_study, calibrated=True), block_study.check
    seed = sample_seed(study.seed, JOBS[1].sample)
    sample, conditions = draw_sample(study.chip, study.imperfections, seed), study.conditions(study.imperfections, seed)
    setting = check.calibrated(sample, conditions)["after"]
    walk = np.random.default_rng(2).normal(1.0, 0.03, setting.voltage_v.size)
    moved = replace(setting, voltage_v=setting.voltage_v * walk)
    lost = study.outcome_of(sample, moved, conditions).values
    tuned, settings = check.recalibrated(sample, conditions, moved)
    found = study.outcome_of(sample, tuned, conditions).values
    assert settings > 0 and found["agreement"] > 0.97
    assert found["rms_deviation"] < 0.02 < 0.5 * lost["rms_deviation"]


@pytest.mark.full
def test_blocks_whose_twin_is_not_fitted_are_tuned_in_the_loop(block_study: YieldStudy) -> None:
    result = evaluate(replace(block_study, calibrated=True), JOBS[2])
    between, after = (result[stage]["values"] for stage in ("between", "after"))
    assert after["rms_deviation"] < 0.02 < 0.2 * between["rms_deviation"] and after["agreement"] > 0.97


@pytest.mark.full
def test_blocks_that_are_good_enough_are_not_tuned(block_study: YieldStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object) -> None:
        raise AssertionError("every block of this sample is good enough")

    monkeypatch.setattr(procedure, "_sufficient", lambda state: False)
    monkeypatch.setattr(layer_tuning._Search, "_round", refused)
    result = evaluate(replace(block_study, calibrated=True), JOBS[1])
    assert result["after"]["values"]["agreement"] > 0.98


def test_calibration_makes_sampled_network_chips_work(network_study: YieldStudy) -> None:
    result = evaluate(replace(network_study, calibrated=True), JOBS[1])
    assert list(result) == ["before", "between", "after", "drifted"]
    assert not result["before"]["passed"] and result["after"]["passed"]
    assert result["after"]["values"]["worst_deviation"] < 0.1 * result["before"]["values"]["worst_deviation"]


def test_noise_of_readings_and_of_operation(
    matrix_study: YieldStudy, network_study: YieldStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chip_checks, "BENCH_AVERAGES", 30)
    noise = operating_noise(PROCESS, 1e-6, 1e8)
    quiet, noisy = (
        evaluate(replace(matrix_study, calibrated=True, noise=one), JOBS[0])["after"]["values"] for one in (None, noise)
    )
    # with a microwatt in every guide and few averages, calibration reads fields with errors of percents
    assert noisy["worst_error"] > 2.0 * quiet["worst_error"]
    assert "signal_to_noise_db" not in quiet and noisy["worst_signal_to_noise_db"] < noisy["signal_to_noise_db"] < 20.0
    named = [one.key for one in replace(matrix_study, noise=noise).summary.quantities]
    assert named[-2:] == ["signal_to_noise_db", "worst_signal_to_noise_db"]
    without = matrix_study.imperfections.without("laser", "detector")
    assert replace(matrix_study, noise=noise, imperfections=without).summary == matrix_study.summary
    perfect = replace(network_study, imperfections=network_study.imperfections.only("laser", "detector"))
    still, disturbed, again = (
        evaluate(replace(perfect, noise=one), JOBS[0])["before"]["values"]
        for one in (None, operating_noise(PROCESS, None, 1e8), operating_noise(PROCESS, None, 1e8))
    )
    assert disturbed == again and disturbed["rms_deviation"] > 2.0 * still["rms_deviation"]


@pytest.mark.parametrize("kind", ["matrix", "network"])
def test_calibration_in_service_follows_drift(
    kind: str, matrix_study: YieldStudy, network_study: YieldStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_drift, "CALIBRATIONS", 2)
    study = replace(matrix_study if kind == "matrix" else network_study, calibrated=True)
    key = "worst_error" if kind == "matrix" else "worst_deviation"
    drift = check_drift.CheckDrift(study)
    chip = drift.start(1)
    warm = DriftScenario("warm", 0.0, 5.0 if kind == "matrix" else 0.2)
    (lost, _), (kept, effort) = (drift.run(chip, warm, 10.0, tracked) for tracked in (False, True))
    assert [one.share for one in kept] == [0.0, 0.5, 0.5, 1.0, 1.0] and [one.share for one in lost] == [0.0, 0.5, 1.0]
    assert effort.calibrations == 2 and not effort.failed and effort.settings > 0
    start = lost[0].outcome.passed
    assert [drift.statistics(points)["passed_at_start"] for points in (lost, kept)] == [start, start]
    assert [one.outcome for one in kept[:2]] == [one.outcome for one in lost[:2]]
    untracked, *calibrated = (points[-1].outcome.values[key] for points in (lost, kept[:3], kept))
    assert max(calibrated) < 0.2 * untracked


def test_a_chip_that_cannot_be_calibrated_in_service_keeps_its_setting(
    matrix_study: YieldStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise RangeError("too little range")

    monkeypatch.setattr(MatrixCheck, "recalibrated", fails)
    drift = check_drift.CheckDrift(replace(matrix_study, calibrated=True))
    chip = drift.start(0)
    (lost, _), (kept, effort) = (drift.run(chip, SCENARIOS[0], 10.0, tracked) for tracked in (False, True))
    assert [one.outcome for one in kept[::2]] == [one.outcome for one in lost]
    assert [one.outcome for one in kept[1::2]] == [one.outcome for one in kept[2::2]]
    assert effort.failed == effort.calibrations == check_drift.CALIBRATIONS


def test_a_layer_is_tuned_although_the_twins_setting_is_beyond_the_electronics(
    network_study: YieldStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    measured_bias = procedure._Session.measured_bias

    def out_of_range(*arguments: object) -> object:
        asked.append(len(asked))
        if len(asked) == 1:
            raise RangeError("too much gain")
        return measured_bias(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(procedure._Session, "measured_bias", out_of_range)
    result = evaluate(replace(network_study, calibrated=True), JOBS[1])
    assert asked == [0, 1] and not result["between"]["fault"]
    assert result["after"]["passed"]


def test_small_imperfections_are_tolerated_and_larger_ones_are_not(matrix_study: YieldStudy) -> None:
    alone = replace(matrix_study, imperfections=matrix_study.imperfections.only("phase"))
    factor = evaluate(alone, SampleJob("tolerance", "phase", 0))["factor"]
    assert 0.0 < factor < 1.0
    for scale, passes in ((0.9, True), (1.3, False)):
        scaled = replace(alone, imperfections=alone.imperfections.scaled("phase", scale * factor))
        assert evaluate(scaled, JOBS[0])["before"]["passed"] is passes


def test_a_calibration_that_fails_makes_the_sample_unusable(
    matrix_study: YieldStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: MatrixCheck, sample: object, conditions: object) -> None:
        raise RangeError("too little range")

    monkeypatch.setattr(MatrixCheck, "calibrated", fails)
    result = evaluate(replace(matrix_study, calibrated=True), JOBS[0])
    assert result["after"] == result["drifted"] and "too little range" in result["after"]["fault"]
    summary = matrix_study.summary
    outcomes = [CheckOutcome.from_json(result["after"])]
    assert summary.mean_lost(outcomes) == 1.0 and summary.numbers(outcomes)["yield"]["passed"] == 0
    assert summary.row(outcomes[0])[:2] == (0, "")


def test_levels_and_gains_undo_unequal_fibres() -> None:
    target = MatrixTarget(UNITARY)
    losses = np.array([0.9, 1.0, 0.8]), np.array([1.0, 0.95, 0.85])
    gain, level = equalise(losses[0][:, np.newaxis] * UNITARY * losses[1], target)
    assert compare_matrices(
        gain[:, np.newaxis] * losses[0][:, np.newaxis] * UNITARY * losses[1] * level, target
    ).worst < (1e-6)
    assert gain.max() == level.max() == 1.0
    assert gain * losses[0] == pytest.approx(np.full(3, 0.8), rel=1e-6)
