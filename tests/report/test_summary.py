"""What the terminal says of a build."""

from typing import Any

import pytest

from optinc_pdk.report import Report
from optinc_pdk.report.tables import short, si, summary_table


def test_limits_and_light_have_a_line_each(numbers: dict[str, Any]) -> None:
    table = summary_table(Report.model_validate(numbers))
    rows = dict(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert rows["limits"] == ("area 56.2 of 858 mm², pads 1,230 of 688 MISSED, power 0.06 of no limit given")
    assert rows["light"] == "9.5 MBd set by light: 1.05 nJ a symbol and guide at 10 mW, 25.1 dB"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1 Bd"),
        (999.4, "999 Bd"),
        (999.7, "1 kBd"),
        (1e3, "1 kBd"),
        (3.15e5, "315 kBd"),
        (1e9, "1 GBd"),
        (4e-17, "4e-17 Bd"),
    ],
)
def test_prefixes(value: float, text: str) -> None:
    assert si(value, "Bd") == text


def test_large_numbers_keep_their_digits() -> None:
    assert [short(value) for value in (0.05391, 56.2, 999.6, 1992.0, 343_200.0)] == [
        "0.0539",
        "56.2",
        "1,000",
        "1,992",
        "343,200",
    ]
