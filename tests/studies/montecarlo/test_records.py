"""Files of finished samples: what is kept, what is evaluated again, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.studies.montecarlo.sample_records import TOLERANCE, Records, Result, SampleJob
from optinc_pdk.studies.outcomes import WordOutcome

HEADER = {"chip": {"name": "a", "gds": "12"}, "seed": 1, "target": 0.99}
JOBS = [SampleJob("all", "", 0), SampleJob("alone", "coupler", 3), SampleJob("tolerance", "dac", 0)]


def result(job: SampleJob) -> Result:
    if job.study == TOLERANCE:
        return {"factor": 0.1 + job.sample}
    return {"before": WordOutcome(16, 9, 32, 8, -0.2, {1: 8}, job.sample).to_json()}


def write(path: Path, count: int = 3) -> bytes:
    with Records(path, HEADER, resume=False) as records:
        for job in JOBS[:count]:
            records.add(job, result(job))
    return path.read_bytes()


def test_finished_samples_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "out" / "a.jsonl"
    before = write(path)
    with Records(path, HEADER, resume=True) as records:
        assert records.done == {job: result(job) for job in JOBS}
    assert path.read_bytes() == before
    with Records(path, HEADER, resume=False) as records:
        assert records.done == {}
    assert path.read_bytes() == before.splitlines(keepends=True)[0]


def test_an_incomplete_last_line_is_evaluated_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    before = write(path)
    lines = before.splitlines(keepends=True)
    for end in range(len(before) + 1):
        path.write_bytes(before[:end])
        with Records(path, HEADER, resume=True) as records:
            # complete lines without the header
            whole = max(before[:end].count(b"\n") - 1, 0)
            assert list(records.done) == JOBS[:whole]
            for job in JOBS[whole:]:
                records.add(job, result(job))
        assert path.read_bytes() == before
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"seed": 2}, r"seed .*1 .*2 "),
        ({"chip": {"name": "a", "gds": "13"}}, r"chip\.gds .*'12' .*'13' "),
        ({"dac": 12}, r"dac .*None .*12 "),
    ],
)
def test_a_file_of_another_run_is_refused_and_unchanged(
    change: dict[str, object], difference: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    before = write(path)
    with pytest.raises(InputError, match=difference):
        Records(path, {**HEADER, **change}, resume=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", [b"{}\n", b"nonsense\n", b"[1]\n", b'{"study":"all"}\n', b"\xff\n"])
def test_damaged_lines_are_reported_and_unchanged(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = write(path).splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], damage, *lines[2:]]))
    with pytest.raises(InputError, match=r"a\.jsonl: line 3 "):
        Records(path, HEADER, resume=True)
    assert path.read_bytes() == b"".join([*lines[:2], damage, *lines[2:]])


READ = b'{"inputs":16,"exact":9,"words":32,"wrong":8,"margin":-0.2,"saturated":0,"fault":"","errors":{"1":8}}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"exact", b"exapt"),
        (b"9,", b'"9",'),
        (b"16", b"0"),
        (b"-0.2", b"NaN"),
        (b"-0.2", b"true"),
        # integers beyond double precision
        (b"-0.2", b"1" + 400 * b"0"),
        (b'"saturated":0', b'"saturated":1' + 400 * b"0"),
        (b'{"before":' + READ + b"}", b'{"factor":1' + 400 * b"0" + b"}"),
        (b'"wrong":8', b'"wrong":0'),
        (b'"exact":9,"words":32,"wrong":8', b'"exact":16,"words":32,"wrong":8'),
        (b'"inputs":16', b'"inputs":17'),
        (b'"words":32', b'"words":64'),
        (b'"exact":9', b'"exact":7'),
        (b'"exact":9', b'"exact":13'),
        (b'"before"', b'"mystery"'),
        (b"}}", b'},"after":' + READ + b"}"),
        (b'"sample":1', b'"sample":0.9'),
        (b'"sample":1', b'"sample":1e400'),
        (b'"sample":1', b'"sample":-1'),
        (b'"study":"all"', b'"study":"tolerance"'),
        (b'{"before":' + READ + b"}", b'{"factor":3.0}'),
        (b'{"1":8}', b"8"),
        (READ, b"{}"),
        (b'{"before":' + READ + b"}", b"{}"),
        (b'{"before":' + READ + b"}", b'{"factor":"x"}'),
        (b'{"before":' + READ + b"}", b'{"factor":-1}'),
    ],
)
def test_invalid_results_are_reported_and_unchanged(old: bytes, new: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = b'{"study":"all","imperfection":"","sample":1,"result":{"before":' + READ + b"}}\n"
    head = write(path)
    path.write_bytes(head + row)
    with Records(path, HEADER, resume=True) as records:
        assert records.done[SampleJob("all", "", 1)]["before"]["exact"] == 9
    path.write_bytes(head + row + row)
    with pytest.raises(InputError, match=r"a\.jsonl: line 6 "):
        Records(path, HEADER, resume=True)
    path.write_bytes(head + row.replace(old, new))
    with pytest.raises(InputError, match=r"a\.jsonl: line 5 "):
        Records(path, HEADER, resume=True)
    assert path.read_bytes() == head + row.replace(old, new)


def test_a_damaged_header_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"?" + write(path))
    with pytest.raises(InputError, match=r"a\.jsonl: line 1 .*-o"):
        Records(path, HEADER, resume=True)


def test_other_files_are_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for content in (b"my notes", b"my notes\n", b'{"schema":9,"header":{}}\n'):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a\.jsonl"):
            Records(path, HEADER, resume=True)
        assert path.read_bytes() == content


def test_two_runs_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Records(path, HEADER, resume=False) as records:
        records.add(JOBS[0], result(JOBS[0]))
        before = path.read_bytes()
        for resume in (False, True):
            with pytest.raises(InputError, match=r"a\.jsonl"):
                Records(path, HEADER, resume=resume)
        assert path.read_bytes() == before
