"""The summary of a build for the terminal."""

from typing import Any

from optinc_pdk.report.schema import Report
from optinc_pdk.report.terminal_tables import summary_table


def test_limits_and_light_have_a_line_each(numbers: dict[str, Any]) -> None:
    table = summary_table(Report.model_validate(numbers))
    rows = dict(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert rows["limits"] == ("area 56.2 of 858 mm², pads 1,230 of 688 MISSED, power 0.06 of no limit given")
    assert rows["time"] == f"{sum(numbers['seconds'].values()):.1f} s"
    assert rows["light"] == "9.5 MBd set by light: 1.05 nJ per symbol and guide at 10 mW, 25.1 dB"
