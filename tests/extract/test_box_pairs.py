"""Pairs of boxes, compared with brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.arrays import Ints
from optinc_pdk.extract import box_pairs
from optinc_pdk.extract.box_pairs import close_pairs, touching_pairs


def boxes(random: np.random.Generator, count: int, extent: int) -> Ints:
    """Return random boxes: short, long in either direction, large, and some without an area."""
    size = random.integers(0, 6, (count, 2))
    long = random.integers(0, 5, count)
    size[long == 0, 0] += random.integers(0, extent, (long == 0).sum())
    size[long == 1, 1] += random.integers(0, extent, (long == 1).sum())
    size[long == 2] += random.integers(0, extent // 4, ((long == 2).sum(), 2))
    corner = random.integers(-extent, extent, (count, 2))
    return np.concatenate([corner, corner + size], axis=1)


def brute_force(first: Ints, second: Ints) -> Ints:
    """Compare every box with every other."""
    a, b = first[:, None], second[None]
    apart = (a[..., :2] > b[..., 2:]) | (b[..., :2] > a[..., 2:])
    return np.argwhere(~apart.any(axis=2))


@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.integers(0, 60), st.integers(1, 9), st.integers(20, 400))
def test_pairs_equal_those_of_brute_force(seed: int, n: int, m: int, strip: int, extent: int) -> None:
    random = np.random.default_rng(seed)
    first, second = boxes(random, n, extent), boxes(random, m, extent)
    expected = brute_force(first, second).reshape(-1, 2)
    np.testing.assert_array_equal(touching_pairs(first, second, strip), expected)
    np.testing.assert_array_equal(touching_pairs(first, second), expected)


def test_pairs_do_not_depend_on_the_number_of_candidates_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    first, second = boxes(random, 200, 100), boxes(random, 150, 100)
    whole = touching_pairs(first, second, 3)
    monkeypatch.setattr(box_pairs, "MAX_CANDIDATES", 7)
    np.testing.assert_array_equal(touching_pairs(first, second, 3), whole)
    assert len(whole) > 100


@pytest.mark.parametrize(("gap", "pairs"), [(9, 1), (10, 0)])
def test_boxes_exactly_at_the_distance_are_not_a_pair(gap: int, pairs: int) -> None:
    near = np.array([[0, 0, 100, 10], [100 + gap, 10 + gap, 200 + gap, 20 + gap]])
    assert len(close_pairs(near, 10, 50)) == pairs
    assert len(close_pairs(near[::-1], 10, 50)) == pairs
