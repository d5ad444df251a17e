"""Numbers as text, at the limits of digits and prefixes."""

from __future__ import annotations

import pytest

from optinc_pdk.io.formatting import format_errors, format_short, format_si


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
        (0.0, "0 Bd"),
    ],
)
def test_prefixes(value: float, text: str) -> None:
    assert format_si(value, "Bd") == text


def test_large_numbers_keep_their_digits() -> None:
    assert [format_short(value) for value in (0.05391, 56.2, 999.6, 1992.0, 343_200.0)] == [
        "0.0539",
        "56.2",
        "1,000",
        "1,992",
        "343,200",
    ]


def test_errors_are_listed_by_value_and_the_rest_counted() -> None:
    errors = [{"value": -1, "count": 9, "share": 0.9}, {"value": 64, "count": 1, "share": 0.1}]
    assert format_errors(errors) == "−1 (90 %), +64 (10 %)"
    assert format_errors(errors * 5) == "−1 (90 %), +64 (10 %), " * 4 + "2 more"
