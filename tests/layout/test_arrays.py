"""Regular arrays: every position is in exactly one array, and a mesh needs few arrays."""

from collections import Counter
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.layout.gds_writer import RegularArray, regular_arrays

GridPoint = tuple[int, int]


def arrays_of(points: list[GridPoint]) -> list[RegularArray]:
    return regular_arrays(np.array(points, dtype=np.int64).reshape(-1, 2))


def covered(arrays: list[RegularArray]) -> Counter[GridPoint]:
    return Counter(
        (a.x + i * a.dx, a.y + j * a.dy) for a in arrays for i, j in product(range(a.columns), range(a.rows))
    )


# few values, so that equal positions and equal pitches are common
@given(points=st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=40))
def test_arrays_contain_every_position_as_often_as_it_occurs(points: list[GridPoint]) -> None:
    arrays = arrays_of(points)
    assert covered(arrays) == Counter(points)
    assert sum(array.count for array in arrays) == len(points)
    # an array of one column or row has pitch 0 in that direction
    assert all((a.dx > 0) == (a.columns > 1) and (a.dy > 0) == (a.rows > 1) for a in arrays)


@given(points=st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), max_size=30), seed=st.randoms())
def test_order_does_not_matter(points: list[GridPoint], seed: object) -> None:
    reordered = sorted(points, key=lambda _: seed.random())  # type: ignore[attr-defined]
    assert arrays_of(reordered) == arrays_of(points)


@given(
    columns=st.integers(1, 12),
    rows=st.integers(1, 12),
    holes=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=3, unique=True),
)
def test_a_grid_with_holes_takes_few_arrays(columns: int, rows: int, holes: list[GridPoint]) -> None:
    points = [(700 * i, 52_000 * j) for i, j in product(range(columns), range(rows)) if (i, j) not in holes]
    arrays = arrays_of(points)
    assert covered(arrays) == Counter(points)
    assert len(arrays) <= 1 + 5 * len(holes)


def test_a_mesh_is_two_arrays() -> None:
    """MZIs are in every second row, shifted by one from column to column."""
    points = [(900 * column, -52 * row) for column in range(16) for row in range(column % 2, 15, 2)]
    assert arrays_of(points) == [RegularArray(0, -728, 1800, 104, 8, 8), RegularArray(900, -676, 1800, 104, 8, 7)]


def test_single_value_before_a_run_is_not_part_of_a_pair() -> None:
    """As a pair, the first two values would shorten the run after them."""
    assert [(a.y, a.dy, a.rows) for a in arrays_of([(0, y) for y in (0, 30, 40, 50, 60)])] == [(0, 0, 1), (30, 10, 4)]


def test_no_positions_give_no_arrays() -> None:
    assert arrays_of([]) == []
