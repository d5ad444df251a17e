"""Evaluation of jobs: batches of samples, failing samples, and searches that end at the first wrong word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.studies.montecarlo import study
from optinc_pdk.studies.montecarlo.records import TOLERANCE, SampleJob
from optinc_pdk.studies.montecarlo.study import evaluate, evaluate_together, largest_tolerated


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
