"""The summary of a build for the terminal."""

import io
from pathlib import Path
from typing import Any

import pytest
import typer

from optinc_pdk.budgets import LimitNumbers
from optinc_pdk.cli.build_commands import end_build
from optinc_pdk.pipeline.stages import Build
from optinc_pdk.report.schema import NetworkNumbers, Report
from optinc_pdk.report.summary import accuracy_line, limit_line, speed_line, summary_table


def _speed_line(numbers: dict[str, Any]) -> str:
    speed = Report.model_validate(numbers).speed
    assert speed is not None
    return speed_line(speed)


def test_limits_and_speed_have_a_line_each(numbers: dict[str, Any]) -> None:
    table = summary_table(Report.model_validate(numbers))
    rows = dict(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert rows["limits"] == (
        "size 56.2 of 858 mm², pads 1,230 of 688 accepted, power 0.06 of no limit given, rate 300 MBd of at least 1 MBd"
    )
    assert rows["time"] == f"{sum(numbers['seconds'].values()):.1f} s"
    assert rows["function"].endswith("margin 0.210 levels; enumerated: every combination of symbols at the fibres")
    assert rows["speed"] == (
        "300 MBd at an estimated word-error rate of 1e-09 and none of 65,536 counted wrong, limited by amplifiers; "
        "latency at least 108 ns "
        "(symbols 10 ns, guides 100 ps, fibres 98 ns; not known: electronics (activation.delay_s)); "
        "at least 15 nJ a word, 940 pJ a bit"
    )
    refuted = numbers["speed"] | {"symbol_rate_bd": None, "counted": numbers["speed"]["counted"] | {"wrong": 3}}
    assert _speed_line(numbers | {"speed": refuted}) == (
        "no symbol rate is stated: 300 MBd has an estimated word-error rate of 1e-09, but 3 of 65,536 words counted "
        "there are wrong"
    )
    numbers["speed"] |= {"symbol_rate_bd": 1e9, "main_limit": None, "missing": [], "delays_missing": []}
    line = _speed_line(numbers)
    assert "limited by the highest rate of the process;" in line and "at least" not in line
    numbers["speed"] |= {"symbol_rate_bd": 9e8, "without": None}
    assert "limited by several causes together;" in _speed_line(numbers)
    without = {"amplifiers": 1e9, "shot noise": 9.6e8, "laser": 9.01e8, "bandwidths": None}
    numbers["speed"] |= {"without": without}
    gains = "amplifiers +11%, shot noise +7% if left out, up to the limit of the process"
    assert f"limited by several causes ({gains});" in _speed_line(numbers)
    numbers["speed"] |= {"without": without | {"amplifiers": 9e8}}
    assert "limited by one cause (shot noise +7% if left out);" in _speed_line(numbers)
    numbers["speed"] |= {"without": dict.fromkeys(without, 9e8)}
    assert "limited by several causes, none of which raises the rate if left out alone;" in _speed_line(numbers)
    unknown = dict.fromkeys(("symbol_rate_bd", "delays_s", "delays_missing", "power_w", "missing", "word_j", "bit_j"))
    none = _speed_line(numbers | {"speed": numbers["speed"] | unknown})
    assert none == "no useful symbol rate has an estimated word-error rate of 1e-09"
    named = _speed_line(numbers | {"speed": numbers["speed"] | unknown | {"main_limit": "amplifiers"}})
    assert named == f"{none}; it would be lowest without amplifiers"


def test_a_verdict_on_sampled_words_says_so(numbers: dict[str, Any]) -> None:
    numbers["task"] |= {"bits": 16, "groups": 8}
    numbers["function"] |= {"coverage": "sample", "certificate": None, "basis": "sampled only: not a proof"}
    report = Report.model_validate(numbers)
    rows = dict(zip(*(list(column.cells) for column in summary_table(report).columns), strict=True))
    accepted = "accepted: pads 1,230 of 688"
    assert report.verdict_text == f"pass, the function on sampled words only, {accepted}"
    assert "of sampled inputs exact" in rows["network"]
    assert rows["function"].endswith("sampled only: not a proof")


@pytest.mark.parametrize(
    ("verdict", "printed_verdict", "code"), [("pass", "pass, accepted: pads 1,230 of 688", 0), ("fail", "fail", 1)]
)
def test_the_verdict_is_the_last_line_of_a_build(
    numbers: dict[str, Any], verdict: str, printed_verdict: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = io.StringIO()
    monkeypatch.setattr("sys.stdout", printed)
    monkeypatch.setattr("sys.stderr", printed)
    report = Report.model_validate(numbers | {"verdict": verdict})
    with pytest.raises(typer.Exit) as end:
        end_build(Build(report, Path("out"), ("one remark", "another remark")), as_json=False)
    assert end.value.exit_code == code
    lines = printed.getvalue().splitlines()
    last = f"verdict {printed_verdict}: {Path('out/invented.report.html')}"
    assert lines[-3:] == ["one remark", "another remark", last]
    assert sum("verdict" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("limit", "holds", "expected"),
    [
        (30.0, True, "loss 23.1 of 30 dB"),
        (20.0, False, "loss 23.1 of 20 dB MISSED"),
        (None, None, "loss 23.1 of no limit given"),
        (None, False, "loss 23.1 (no light is enough) MISSED"),
    ],
)
def test_a_limit_that_is_missed_is_stated(limit: float | None, holds: bool | None, expected: str) -> None:
    detail = "no light is enough" if limit is None and holds is False else ""
    numbers = LimitNumbers(value=23.1, limit=limit, unit="dB", holds=holds, assumption="none", detail=detail)
    assert limit_line("loss", numbers) == expected
    accepted = numbers.model_copy(update={"accepted": holds is False})
    assert limit_line("loss", accepted) == expected.replace("MISSED", "accepted")


@pytest.mark.parametrize(("right", "chance"), [(9, False), (6, True)])
def test_the_accuracy_of_a_network_is_the_first_line(right: int, chance: bool) -> None:
    network = NetworkNumbers(
        structure=[2, 3, 2], activation="relu", sha256="0" * 64, samples=10, agreeing=10, agreement=1.0,
        worst_deviation=0.0, rms_deviation=0.0, network_accuracy=right / 10, chip_accuracy=0.8,
        confusion=[[5, 1], [1, 3]], network_rms_error=None, chip_rms_error=None, saturated=0,
    )  # fmt: skip
    line = accuracy_line(network)
    assert line.startswith(f"{10 * right}.00% of 10 samples by the network in floating point")
    assert ("NO BETTER THAN the most frequent label alone, 60.00%" in line) is chance and "80.00% by the chip" in line
