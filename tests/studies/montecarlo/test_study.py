"""Evaluation of the jobs of a small chip: batches, failing samples, and the search for the largest tolerated factor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.cards import KINDS
from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, carry_chain
from optinc_pdk.simulate.transmission.noise import noise_choices, noise_of
from optinc_pdk.studies import chip_checks
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors
from optinc_pdk.studies.montecarlo import study
from optinc_pdk.studies.montecarlo.sample_records import TOLERANCE, SampleJob
from optinc_pdk.studies.montecarlo.study import (
    MAX_OCTAVE,
    MIN_OCTAVE,
    amounts_of,
    evaluate,
    evaluate_together,
    jobs_of,
    largest_tolerated,
    run_serially,
    sample_seed,
    scaled_noise,
)
from optinc_pdk.studies.outcomes import WordOutcome
from optinc_pdk.studies.variation.sampled_response import sample_scattering
from optinc_pdk.studies.variation.sampling import nominal_sample


def calibrated_to(work, network):
    """Samples that are calibrated to a network."""
    return replace(work, calibrated=True, check=replace(work.check, onn=network))


def with_chip(work, chip):
    """Samples of another chip."""
    return replace(work, check=replace(work.check, chip=chip))


def test_a_sample_depends_on_seed_and_index_only(work) -> None:
    jobs = [SampleJob("all", "", sample) for sample in range(6)]
    there = dict(run_serially(work, jobs))
    back = dict(run_serially(work, reversed(jobs)))
    assert there == back
    words = [result["before"]["exact"] for result in there.values()]
    assert len({str(result) for result in there.values()}) == 6 and min(words) < 256
    assert evaluate(replace(work, seed=8), jobs[0]) != there[jobs[0]]
    assert len({sample_seed(seed, sample) for seed in range(20) for sample in range(20)}) == 400


def test_studies_of_the_same_kinds_are_equal(work) -> None:
    """With two kinds, one alone equals all without the other; up to the last kind equals all."""
    pair = replace(work, imperfections=work.imperfections.only("coupler", "phase"))
    alone, other = (evaluate(pair, SampleJob("alone", kind, 2)) for kind in ("coupler", "phase"))
    assert alone == evaluate(pair, SampleJob("without", "phase", 2)) == evaluate(pair, SampleJob("upto", "coupler", 2))
    assert other == evaluate(pair, SampleJob("without", "coupler", 2)) != alone
    assert evaluate(pair, SampleJob("upto", "phase", 2)) == evaluate(pair, SampleJob("all", "", 2))
    assert evaluate(work, SampleJob("upto", "wavelength", 2)) == evaluate(work, SampleJob("all", "", 2))


def test_jobs_of_few_samples_are_a_subset_of_those_of_many(work) -> None:
    kinds = tuple(amounts_of(work))
    few, many = jobs_of(3, kinds), jobs_of(200, kinds)
    assert len(set(few)) == len(few) == 3 * (1 + 4 + 4 + 2 + 4) and set(few) < set(many)
    assert len(many) == 200 + 50 * (4 + 4 + 2) + 20 * 4
    assert len(jobs_of(200, kinds, calibrated=True)) == 200 + 3 * (4 + 4 + 2) + 2 * 4
    # with a single kind, "alone" would equal "all"
    assert {job.study for job in jobs_of(3, ("coupler",))} == {"all", "tolerance"}


def test_noise_scales_with_the_amounts_of_laser_and_detector(work, every, process) -> None:
    noise = noise_of(process)
    noisy = replace(work, imperfections=every, noise=noise)
    assert tuple(amounts_of(noisy)) == KINDS
    assert set(KINDS) - set(amounts_of(replace(noisy, noise=None))) == {"laser", "detector"}
    assert scaled_noise(noise, every) == noise
    found = scaled_noise(noise, every.scaled("laser", 0.5).scaled("detector", 2.0))
    assert found.intensity == pytest.approx(0.5 * noise.intensity)
    assert found.phase("server") == pytest.approx(0.5 * noise.phase("server"))
    assert found.receiver_a_per_sqrt_hz == pytest.approx(2.0 * noise.receiver_a_per_sqrt_hz) and found.shot
    laser = scaled_noise(noise, every.only("laser"))
    assert laser.intensity == noise.intensity and laser.variance(np.ones(1))[0] == 0.0
    assert scaled_noise(noise, every.only("coupler")) is None and scaled_noise(None, every) is None


def test_further_symbol_rates_are_read_with_noise(work, every) -> None:
    found = evaluate(replace(work, imperfections=every.only("detector"), rates_bd=(1e6, 1e9)), SampleJob("all", "", 0))
    assert list(found) == ["before", "before at 1e+06 Bd", "before at 1e+09 Bd"]
    assert found["before"]["margin"] > found["before at 1e+06 Bd"]["margin"] > found["before at 1e+09 Bd"]["margin"]


def test_every_outcome_with_noise_has_an_estimate_and_others_have_none(work, every, process) -> None:
    noisy = replace(work, imperfections=every.only("detector"))
    bright, dim = (
        evaluate(replace(noisy, noise=noise_of(process, power, 1e9)), SampleJob("all", "", 0))["before"]
        for power in (1e-2, 1e-6)
    )
    assert 0.0 <= bright["estimated_word_error_rate"] < dim["estimated_word_error_rate"] <= 1.0
    assert evaluate(work, SampleJob("all", "", 0))["before"]["estimated_word_error_rate"] is None
    # an unusable chip reads zeros: 221 of 256 words are wrong
    poor = replace(work.chip, rise_ohm=np.full_like(work.chip.rise_ohm, 1e4))
    found = evaluate(replace(with_chip(noisy, poor), noise=noise_of(process)), SampleJob("all", "", 0))["before"]
    assert found["fault"] and found["estimated_word_error_rate"] == 221 / 256


def test_the_receiver_is_the_best_for_the_nominal_chip(work, process) -> None:
    chosen, choices = work.check.operating_noise(1e-4, 5e8), noise_choices(process, 1e-4, 5e8)
    s = sample_scattering(work.chip, nominal_sample(work.chip), work.chip.voltage_v)
    margins = error_margins(s, work.check.inputs, work.chip.board, work.chip.bias)
    assert len(choices) > 2 and chosen in choices
    assert estimate_errors(margins, chosen).rate <= min(estimate_errors(margins, one).rate for one in choices) * 1.5


def test_coherent_receivers_read_every_word_of_a_calibrated_sample(locked) -> None:
    """The same lock serves the bench of the calibration, the words and the estimates."""
    noise = locked.check.operating_noise(None, 3e9)
    work = calibrated_to(replace(locked, noise=noise), carry_chain(locked.check.task))
    # no twin fits sample 0, whose estimate after tuning in the loop depends on chance
    found = evaluate(work, SampleJob("all", "", 1))
    assert found["before"]["exact"] < 256 == found["after"]["exact"]
    assert found["after"]["estimated_word_error_rate"] < 1e-9
    # only calibrated chips state their highest rate; at 3 GBd this one is right
    assert "symbol_rate_bd" not in found["before"] and found["after"]["symbol_rate_bd"] > 2.9e9
    assert WordOutcome.from_json(found["after"]).to_json() == found["after"]
    for wrong in (-1.0, float("inf"), "1e9"):
        with pytest.raises(ValueError, match="symbol rate"):
            WordOutcome.from_json(found["after"] | {"symbol_rate_bd": wrong})
    # a tolerance search reads words with the lock as well
    assert evaluate(
        replace(locked, imperfections=locked.imperfections.only("phase")), SampleJob("tolerance", "phase", 0)
    )


@pytest.fixture(scope="module")
def calibrated(work, every, tiny):
    """Samples with all imperfections of the card, calibrated."""
    return calibrated_to(replace(work, imperfections=every), AveragingNetwork.load(tiny / "tiny.npz"))


def test_calibration_makes_words_exact_and_drift_makes_some_wrong(calibrated) -> None:
    found = evaluate(calibrated, SampleJob("all", "", 2))
    assert list(found) == ["before", "between", "after", "drifted"] and calibrated.judged_stage == "after"
    assert found["before"] == evaluate(replace(calibrated, calibrated=False), SampleJob("all", "", 2))["before"]
    assert found["before"]["exact"] < 256 == found["after"]["exact"]
    assert found["after"]["margin"] > found["drifted"]["margin"]


def test_a_chip_that_cannot_be_calibrated_is_unusable(calibrated, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_gain(*_: object) -> None:
        raise RangeError("neuron 'n0' needs a gain of 1e+09")

    monkeypatch.setattr(chip_checks, "calibrate", no_gain)
    found = evaluate(calibrated, SampleJob("all", "", 0))
    assert found["before"]["fault"] == "" and found["before"]["exact"] != 35
    for stage in ("between", "after", "drifted"):
        assert found[stage]["fault"] == "neuron 'n0' needs a gain of 1e+09" and found[stage]["exact"] == 35


def test_a_singular_calibration_makes_the_chip_unusable_but_not_the_run(calibrated, monkeypatch) -> None:
    def singular(*_: object) -> None:
        np.linalg.inv(np.zeros((2, 2)))

    monkeypatch.setattr(chip_checks, "calibrate", singular)
    found = evaluate(calibrated, SampleJob("all", "", 0))
    assert "Singular matrix" in found["after"]["fault"] and found["after"]["exact"] == 35


def test_a_drive_of_less_than_one_bit_is_not_tolerated(work, every) -> None:
    """The search tries DAC steps up to 2⁸ times those of 3 bits, so less than one bit."""
    few = replace(work, imperfections=every.only("dac").scaled("dac", 2.0**13), check=replace(work.check, share=1e-9))
    assert few.imperfections.effective_bits == 3.0
    factor = evaluate(few, SampleJob("tolerance", "dac", 0))["factor"]
    assert factor is not None and 0.0 < factor <= 4.0


def test_amounts_outside_the_models_range_are_not_tolerated(work, every) -> None:
    tolerant = replace(work, check=replace(work.check, share=1e-9))

    def with_carriers(scale: float):
        return replace(tolerant, imperfections=every.only("wavelength").scaled("wavelength", scale))

    factor = evaluate(with_carriers(100.0), SampleJob("tolerance", "wavelength", 0))["factor"]
    assert factor is not None and 0.0 < factor < 2.0**MAX_OCTAVE
    # the run's own amount outside the range is an error
    with pytest.raises(InputError, match=r"sample 0 .*'wavelength'"):
        evaluate(with_carriers(1e6), SampleJob("tolerance", "wavelength", 0))


def test_a_chip_with_excessive_ground_resistance_is_unusable(work, every) -> None:
    poor = replace(work.chip, rise_ohm=np.full_like(work.chip.rise_ohm, 1e4))
    some = replace(with_chip(work, poor), imperfections=every.only("heater"))
    found = evaluate(some, SampleJob("all", "", 0))["before"]
    assert "ground" in found["fault"] and found["exact"] == 35
    # the tolerance search continues, too
    assert evaluate(some, SampleJob("tolerance", "heater", 0)) == {"factor": 0.0}


def test_the_bench_has_the_noise_of_the_samples_detectors(calibrated, process, monkeypatch) -> None:
    seen = []

    def bench(chip, sample, bits, noise, *more):
        seen.append(noise)
        raise RangeError("enough")

    monkeypatch.setattr(chip_checks, "VirtualBench", lambda *given: given)
    monkeypatch.setattr(chip_checks, "calibrate", lambda given, *more: bench(*given))
    noise = noise_of(process)
    for kinds, factor in ((("detector",), 3.0), (("coupler",), 1.0)):
        some = calibrated.imperfections.only(*kinds).scaled(kinds[0], factor)
        evaluate(replace(calibrated, noise=noise, imperfections=some), SampleJob("all", "", 0))
    assert seen[0].receiver_a_per_sqrt_hz == pytest.approx(3.0 * noise.receiver_a_per_sqrt_hz) and seen[1] is None


@pytest.mark.parametrize("threshold", [3e-4, 0.3, 1.0, 77.0])
def test_the_largest_tolerated_factor_is_found_to_one_step(threshold: float) -> None:
    tried = []

    def reaches(factor: float) -> bool:
        tried.append(factor)
        return factor <= threshold

    found = largest_tolerated(reaches)
    assert found is not None and found <= threshold < found * 2 ** (1 / 8) and len(tried) <= 8


def test_factors_outside_the_search_range_are_none_and_zero() -> None:
    assert largest_tolerated(lambda factor: True) is None
    assert largest_tolerated(lambda factor: False) == 0.0
    assert largest_tolerated(lambda factor: factor < 2.0**MIN_OCTAVE * 1.01) == 2.0**MIN_OCTAVE
    assert largest_tolerated(lambda factor: factor < 2.0**MAX_OCTAVE * 0.99) == 2.0 ** (MAX_OCTAVE - 1 / 8)


def test_the_found_factor_is_tolerated_and_the_next_one_is_not(work) -> None:
    factor = evaluate(work, SampleJob("tolerance", "coupler", 1))["factor"]
    for scale, exact in ((factor, True), (factor * 2 ** (1 / 8), False)):
        scaled = replace(work, imperfections=work.imperfections.only("coupler").scaled("coupler", scale))
        assert (evaluate(scaled, SampleJob("all", "", 1))["before"]["exact"] == 256) is exact


def test_samples_that_cannot_be_computed_are_reported(work) -> None:
    impossible = replace(work, imperfections=work.imperfections.scaled("dac", 2.0**20))
    with pytest.raises(InputError, match=r"sample 4 of 'tiny'.*effective_bits is -4"):
        evaluate(impossible, SampleJob("all", "", 4))


def test_results_do_not_depend_on_the_jobs_that_are_evaluated_together(work, monkeypatch):
    jobs = [SampleJob(study, kind, 1) for study in ("alone", "without", TOLERANCE) for kind in ("coupler", "dac")]
    jobs += [SampleJob("all", "", sample) for sample in range(5)]
    monkeypatch.setattr(study, "TOGETHER", 4)
    together = dict(evaluate_together(work, jobs))
    assert set(together) == set(jobs)
    assert all(together[job] == evaluate(work, job) for job in jobs)


def test_a_search_without_calibration_finds_what_complete_evaluations_find(work):
    job = SampleJob(TOLERANCE, "coupler", 0)
    only = work.imperfections.only("coupler")

    def reads(factor):
        return work.outcomes(only.scaled("coupler", factor), 0)["before"].accuracy == 1.0

    found = evaluate(work, job)["factor"]
    assert found == largest_tolerated(reads) > 0.0
    # a lower target is tolerated longer
    assert evaluate(replace(work, check=replace(work.check, share=0.5)), job)["factor"] > found


def test_a_sample_without_currents_is_unusable_and_the_others_are_not(work, monkeypatch):
    jobs = [SampleJob("all", "", sample) for sample in range(3)]
    expected, seen = dict(evaluate_together(work, jobs)), study.sample_scatterings

    def failing(chip, samples, voltage_v, bits):
        if any(sample.seed == study.sample_seed(work.seed, 1) for sample in samples):
            raise RangeError("no currents")
        return seen(chip, samples, voltage_v, bits)

    monkeypatch.setattr(study, "sample_scatterings", failing)
    found = dict(evaluate_together(work, jobs))
    assert found[jobs[1]]["before"]["fault"] == "no currents"
    assert [found[jobs[i]] for i in (0, 2)] == [expected[jobs[i]] for i in (0, 2)]


def test_a_sample_that_cannot_be_computed_is_named(work, monkeypatch):
    def failing(*_):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(study, "sample_scatterings", failing)
    with pytest.raises(InputError, match=r"sample 4 \(alone 'dac'\) of 'tiny' cannot be computed: singular"):
        evaluate(work, SampleJob("alone", "dac", 4))
