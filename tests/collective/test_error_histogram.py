"""Distribution of word errors: drawn rates and shares, reproducible draws, and the table of the paper."""

import numpy as np
import pytest

from optinc_collective.schemes import TABLE_II, ErrorHistogram
from optinc_pdk.errors import InputError


def test_rate_and_shares_of_drawn_errors():
    histogram = ErrorHistogram(0.01, (1, -64, 1024), (0.7, 0.2, 0.1))
    drawn = [histogram.draw(100_000, time) for time in range(40)]
    errors = np.concatenate([errors for _, errors in drawn])
    expected = 0.01 * 4_000_000
    assert abs(len(errors) - expected) < 5 * np.sqrt(expected)
    for value, share in zip(histogram.values, histogram.shares, strict=True):
        assert abs((errors == value).sum() - share * expected) < 5 * np.sqrt(share * expected)
    where = np.concatenate([where for where, _ in drawn])
    assert abs(where.mean() - 50_000) < 5 * 100_000 / np.sqrt(12 * expected)


def test_draws_are_reproducible_and_differ_between_times():
    histogram = ErrorHistogram(0.1, (1, -1), (0.5, 0.5))
    where, errors = histogram.draw(1000, 3)
    again = histogram.draw(1000, 3)
    assert np.array_equal(where, again[0])
    assert np.array_equal(errors, again[1])
    assert len(set(where)) == len(where)
    assert not np.array_equal(where, histogram.draw(1000, 4)[0])


def test_table_of_the_paper():
    assert TABLE_II["4-7"].rate == pytest.approx(1.4e-6)
    assert dict(zip(TABLE_II["4-7"].values, TABLE_II["4-7"].shares, strict=True)) == {1: 0.45, -1: 0.45, -64: 0.1}
    assert TABLE_II["3-6"].rate == pytest.approx(1.109e-4)
    for row in TABLE_II.values():
        assert sum(row.shares) == pytest.approx(1)


@pytest.mark.parametrize(
    ("rate", "values", "shares", "message"),
    [
        (1.5, (1,), (1.0,), "rate = 1.5"),
        (0.1, (1, 2), (1.0,), "2 values"),
        (0.1, (0,), (1.0,), "values .* 0"),
        (0.1, (1, 2), (0.5, 0.4), r"shares .*\(0\.5, 0\.4\)"),
        ("0.1", (1,), (1.0,), "ErrorHistogram: rate = '0.1'"),
        (0.1, (1.5,), (1.0,), "ErrorHistogram: values = 1.5"),
        (0.1, 1, 1.0, "ErrorHistogram: values = 1: .*tuple"),
    ],
)
def test_invalid_histograms_are_refused(rate, values, shares, message):
    with pytest.raises(InputError, match=message):
        ErrorHistogram(rate, values, shares)
