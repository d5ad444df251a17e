"""Complete runs of a small chip: files, interruptions, and equal results after them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.io.chip_files import chip_files
from optinc_pdk.studies.montecarlo.executors import open_executor
from optinc_pdk.studies.montecarlo.sample_records import SampleJob
from optinc_pdk.studies.montecarlo.study import Runner, run_serially
from optinc_pdk.studies.montecarlo.summary_text import (
    UNCALIBRATED,
    caption,
    noise_text,
    percent,
    rate_text,
    summary_lines,
)
from optinc_pdk.studies.montecarlo.yield_run import YieldResults, header_of, largest_tolerated_by_goal, run_yield
from optinc_pdk.studies.outcomes import WordOutcome

ENDINGS = ("yield.csv", "yield.json", "yield.png", "errors.png", "waterfall.png", "tolerance.csv", "tolerance.png")


@pytest.fixture(scope="module")
def header(tiny, process, work) -> dict[str, Any]:
    return header_of(chip_files(tiny / "tiny.gds"), process, work)


@pytest.fixture(scope="module")
def whole(work, header, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    run_yield(work, header, 6, folder, open_executor(work))
    return folder


def test_all_files_are_written_and_agree(work, whole) -> None:
    numbers = json.loads((whole / "tiny.yield.json").read_text())
    with (whole / "tiny.yield.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    every = [row for row in rows if row["study"] == "all"]
    exact = [int(row["exact"]) for row in every]
    found = numbers["stages"]["before"]
    assert [row["sample"] for row in every] == [str(sample) for sample in range(6)]
    assert found["yield"]["passed"] == exact.count(256) and found["yield"]["samples"] == 6
    assert found["accuracy"]["worst"] == min(exact) / 256 < 1.0
    assert sum(row["count"] for row in found["errors"]) == sum(int(row["wrong"]) for row in every)
    names = [row["imperfection"] for row in numbers["contributions"]]
    assert names == ["coupler", "phase", "dac", "wavelength"] == [row["imperfection"] for row in numbers["tolerances"]]
    lost = {(row["study"], row["imperfection"]): 0.0 for row in rows}
    for row in rows:
        lost[row["study"], row["imperfection"]] += (1 - float(row["accuracy"])) / 6
    for row in numbers["contributions"]:
        for study in ("alone", "without"):
            assert row[study]["words_lost"] == pytest.approx(lost[study, row["imperfection"]])
    # adding the last kind gives all kinds
    assert numbers["contributions"][-1]["upto"]["words_lost"] == pytest.approx(lost["all", ""])
    assert numbers["contributions"][0]["upto"] == numbers["contributions"][0]["alone"]
    assert all((whole / f"tiny.{ending}").read_bytes()[:4] == b"\x89PNG" for ending in ENDINGS if ending[-3:] == "png")
    summary = "\n".join(summary_lines(numbers))
    assert "6 samples of tiny, seed 7" in summary and "without noise" in summary
    assert UNCALIBRATED in summary.splitlines()
    assert "\n`before`: yield " in summary and "levels at worst" in summary and "`after`" not in summary


def test_tolerances_refer_to_the_card_for_any_amount_of_the_run(work, header, process, tiny, tmp_path, whole) -> None:
    coupler = replace(work, imperfections=work.imperfections.only("coupler"))
    double = replace(coupler, imperfections=coupler.imperfections.scaled("coupler", 2.0))
    found = []
    for name, one in (("one", coupler), ("two", double)):
        numbers = run_yield(
            one, header_of(chip_files(tiny / "tiny.gds"), process, one), 4, tmp_path / name, open_executor(one)
        )
        assert numbers["contributions"] == [] and not (tmp_path / name / "tiny.waterfall.png").exists()
        found.append(numbers["tolerances"][0]["factor"])
    assert found[0] == pytest.approx(found[1]) and 0.01 < found[0] < 1.0


@contextmanager
def interrupted(work, after: int) -> Iterator[Runner]:
    """An executor that is interrupted after a number of jobs."""

    def run(jobs: Iterable[SampleJob]) -> Iterator[Any]:
        for number, job in enumerate(jobs):
            if number == after:
                raise KeyboardInterrupt
            yield from run_serially(work, [job])

    yield run


def test_an_interrupted_run_resumes_to_identical_files(work, header, whole, tmp_path) -> None:
    records = tmp_path / "tiny.yield.jsonl"
    for after in (3, 0, 20):
        before = records.read_bytes() if records.exists() else b""
        with pytest.raises(KeyboardInterrupt):
            run_yield(work, header, 6, tmp_path, interrupted(work, after), resume=True)
        assert records.read_bytes().startswith(before) and list(tmp_path.iterdir()) == [records]
    # an incomplete last line
    records.write_bytes(records.read_bytes()[:-7])
    calls = []
    run_yield(work, header, 6, tmp_path, open_executor(work), True, lambda done, total: calls.append((done, total)))
    assert calls[0] == (22, 6 * (1 + 4 + 4 + 2 + 4)) and calls[-1] == (90, 90) and len(calls) == 90 - 22 + 1
    for ending in ENDINGS:
        assert (tmp_path / f"tiny.{ending}").read_bytes() == (whole / f"tiny.{ending}").read_bytes(), ending


def test_more_samples_resume_a_run_with_fewer(work, header, tmp_path, whole) -> None:
    coupler = replace(work, imperfections=work.imperfections.only("coupler"))
    run_yield(coupler, header, 2, tmp_path, open_executor(coupler))
    done = []

    def count(jobs: Iterable[SampleJob]) -> Iterator[Any]:
        for job in jobs:
            done.append(job)
            yield from run_serially(coupler, [job])

    run_yield(coupler, header, 3, tmp_path, nullcontext(count), resume=True)
    assert done == [SampleJob("all", "", 2), SampleJob("tolerance", "coupler", 2)]


def test_samples_without_a_stage_are_refused(work, header, tmp_path) -> None:
    both = {stage: WordOutcome(16, 9, 32, 8, -0.2, {1: 8}, 0).to_json() for stage in ("before", "after")}
    jobs = [SampleJob("all", "", sample) for sample in range(2)]
    with pytest.raises(InputError, match="'after'"):
        YieldResults.of(work, jobs, {jobs[0]: {"before": both["before"]}, jobs[1]: both})


def test_without_contributions_only_samples_are_evaluated(work, header, tmp_path, whole) -> None:
    calls = []
    run = partial(run_yield, work, header, 6, tmp_path, open_executor(work), progress=lambda *call: calls.append(call))
    numbers = run(contributions=False)
    assert calls[-1] == (6, 6) and numbers["contributions"] == numbers["tolerances"] == []
    assert {path.suffixes[0] for path in tmp_path.iterdir()} == {".yield", ".errors"}
    assert caption(numbers, 6).startswith(
        "6 samples of tiny, seed 7; without noise of lasers and detectors; drive of 16 "
    )
    # contributions can be added later
    calls.clear()
    run_yield(work, header, 6, tmp_path, open_executor(work), True, lambda *call: calls.append(call))
    assert calls[0] == (6, 90)
    for ending in ENDINGS:
        assert (tmp_path / f"tiny.{ending}").read_bytes() == (whole / f"tiny.{ending}").read_bytes(), ending


def test_a_folder_of_another_run_is_refused_and_unchanged(work, header, tmp_path) -> None:
    run = partial(run_yield, work, samples=1, directory=tmp_path, resume=True)
    with pytest.raises(KeyboardInterrupt):
        run(header=header, runner=interrupted(work, 1))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"target .*1\.0 .*0\.9 "):
        run(header={**header, "target": 0.9}, runner=open_executor(work))
    # an invalid scheduler is refused before anything is written
    with pytest.raises(InputError, match="'nowhere'"):
        run_yield(work, header, 1, tmp_path, open_executor(work, "nowhere"))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_optional_files_of_an_earlier_run_are_removed(work, header, tmp_path) -> None:
    bare = replace(work, imperfections=work.imperfections.only())
    for ending in ENDINGS:
        (tmp_path / f"tiny.{ending}").write_bytes(b"an earlier run's")
    run_yield(bare, {**header, "imperfections": {}}, 1, tmp_path, open_executor(bare))
    assert {path.name for path in tmp_path.iterdir()} == {
        f"tiny.{ending}" for ending in ("yield.csv", "yield.json", "yield.jsonl", "yield.png", "errors.png")
    }


def test_the_summary_states_noise_only_if_an_imperfection_includes_it(header) -> None:
    receiver = {"receiver_a_per_sqrt_hz": 2e-12, "shape": {"window": 0.5}}
    noisy = {**header, "noise": {"laser_w": 0.01, "symbol_rate_bd": 1e6} | receiver, "calibrated_to": None}
    text = noise_text({**noisy, "imperfections": {"coupler": 1.0, "detector": 1.0}})
    assert "noise at 10 mW" in text and "2 pA/√Hz, mean over 0.5 of a symbol" in text
    assert noise_text({**noisy, "imperfections": {"coupler": 1.0}}).startswith("without noise")


def test_other_s_parameters_in_a_file_of_a_card_are_another_run(work, process, tiny, tmp_path) -> None:
    card = process.devices["mmi2x2"]
    cards = []
    for folder, content in (("a", "of Monday"), ("b", "of Monday"), ("a", "of Tuesday")):
        path = tmp_path / folder / "mmi.s4p"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        from_file = card.model_copy(update={"model": card.model.model_copy(update={"file": path})})
        measured = process.model_copy(update={"devices": {**process.devices, "mmi2x2": from_file}})
        cards.append(header_of(chip_files(tiny / "tiny.gds"), measured, work)["process"]["cards"])
    assert cards[0] == cards[1] != cards[2]


def test_missing_files_are_reported(tiny, tmp_path) -> None:
    with pytest.raises(InputError, match=r"none\.gds"):
        chip_files(tmp_path / "none.gds")
    with pytest.raises(InputError, match=r"other\.yml: .*--bias"):
        chip_files(tiny / "tiny.gds", bias=tmp_path / "other.yml")


def test_the_goal_share_of_samples_tolerates_the_factor() -> None:
    factors = [float(i) for i in range(1, 21)]
    # 18 of 20 samples tolerate 3 or more
    assert largest_tolerated_by_goal(factors, 0.9) == 3.0
    assert largest_tolerated_by_goal(factors, 1.0) == 1.0
    assert largest_tolerated_by_goal([2.0], 0.9) == 2.0
    with pytest.raises(ValueError, match=r"0 factors .*0\.9"):
        largest_tolerated_by_goal([], 0.9)


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100 %"), (0.0, "0 %"), (0.5, "50.00 %"), (1 - 1 / 65536, "99.998 %"), (1e-9, "0.000000 %")],
)
def test_shares_are_not_rounded_to_0_or_100_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_estimated_rates_are_not_printed_as_zero() -> None:
    assert rate_text(0.0) == rate_text(1e-305) == "below 1e-300"
    assert rate_text(2.34e-120) == "2.3e-120"
