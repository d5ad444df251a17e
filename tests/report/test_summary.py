"""The summary of a build for the terminal."""

from typing import Any

import pytest

from optinc_pdk.report.schema import LimitNumbers, Report
from optinc_pdk.report.terminal_tables import limit_line, summary_table


def test_limits_and_light_have_a_line_each(numbers: dict[str, Any]) -> None:
    table = summary_table(Report.model_validate(numbers))
    rows = dict(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert rows["limits"] == ("area 56.2 of 858 mm², pads 1,230 of 688 MISSED, power 0.06 of no limit given")
    assert rows["time"] == f"{sum(numbers['seconds'].values()):.1f} s"
    assert rows["function"].endswith("margin 0.210 levels; enumerated: every combination of symbols at the fibres")
    assert rows["light"] == "9.5 MBd set by light: 1.05 nJ per symbol and guide at 10 mW, 25.1 dB"


def test_a_verdict_on_sampled_words_says_so(numbers: dict[str, Any]) -> None:
    numbers["task"] |= {"bits": 16, "groups": 8}
    numbers["function"] |= {"coverage": "sample", "certificate": None, "basis": "sampled only: not a proof"}
    table = summary_table(Report.model_validate(numbers))
    rows = dict(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert "pass" in rows["verdict"] and rows["verdict"].endswith("the function on sampled words only")
    assert "of sampled inputs exact" in rows["network"]
    assert rows["function"].endswith("sampled only: not a proof")


@pytest.mark.parametrize(
    ("limit", "holds", "expected"),
    [
        (30.0, True, "loss 23.1 of 30 dB"),
        (20.0, False, "loss 23.1 of 20 dB MISSED"),
        (None, None, "loss 23.1 of no limit given"),
        (None, False, "loss 23.1: none is low enough, a symbol is wrong without noise MISSED"),
    ],
)
def test_a_limit_that_is_missed_is_stated(limit: float | None, holds: bool | None, expected: str) -> None:
    numbers = LimitNumbers(value=23.1, limit=limit, unit="dB", holds=holds, assumption="none")
    assert limit_line("loss", numbers) == expected
