"""Meanders gain the required length within the height that they are given."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.layout.routing import least_gain, length_gains, path_length, teeth, tooth_heights


@given(
    gain=st.floats(0, 2000),
    r=st.floats(5, 50),
    relative_height=st.floats(3.15, 20),
    side=st.sampled_from((-1, 1)),
    x=st.floats(0, 9),
)
def test_teeth_gain_the_required_length(gain: float, r: float, relative_height: float, side: int, x: float) -> None:
    r, tallest = round(r, 3), round(relative_height * r + 0.001, 3)
    heights = tooth_heights(gain, tallest, r)
    assert all(2 * r - 0.001 <= height <= tallest + 0.002 for height in heights[:-1])
    # the last tooth compensates the rounding of the others
    assert all(2 * r - len(heights) * 0.001 <= height <= tallest + len(heights) * 0.001 for height in heights)
    if gain < least_gain(r):
        assert heights == []
        return
    end = (x + side * 4 * r * len(heights), 7.0)
    path = [(x, 7.0), *teeth((x, 7.0), side, heights, r), end]
    assert path_length(path, r) - path_length([(x, 7.0), end], r) == pytest.approx(gain, abs=0.003)
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(path))


def test_length_of_a_guide_counts_bends_as_arcs() -> None:
    quarter = 15.707963267948966
    assert path_length([(0, 0), (3, 0), (10, 0)], 10) == 10
    assert path_length([(0, 0), (30, 0), (30, 30)], 10) == pytest.approx(20 + quarter + 20)
    assert path_length([(0, 0), (10, 0), (10, -20), (20, -20)], 10) == pytest.approx(2 * quarter)


@given(
    lengths=st.lists(st.floats(0, 3000), min_size=1, max_size=9),
    near=st.lists(st.floats(0, 30), max_size=4),
    least=st.floats(20, 40),
)
def test_paths_gain_their_difference_or_enough_for_a_tooth(
    lengths: list[float], near: list[float], least: float
) -> None:
    lengths = [*lengths, *(max(lengths) - less for less in near)]
    gains = length_gains({str(i): length for i, length in enumerate(lengths)}, 0.025, least)
    results = [length + gains[str(i)] for i, length in enumerate(lengths)]
    assert max(results) - min(results) <= 0.025 + 1e-9
    assert all(gain == 0 or gain >= least for gain in gains.values())
    # no path is longer than necessary
    assert max(results) <= max(lengths) + least + 1e-9
