"""Permutations by adjacent swaps, and the crossings for the swaps."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.assemble.splitter_trees import permute, swap_columns
from optinc_pdk.circuit import CircuitBuilder, ComponentType

ORDERS = st.integers(0, 9).flatmap(lambda n: st.permutations(range(n)))


@given(order=ORDERS)
def test_swaps_give_the_order_and_are_as_many_as_its_inversions(order: list[int]) -> None:
    columns = swap_columns(order)
    guides = list(range(len(order)))
    for rows in columns:
        assert all(b - a > 1 for a, b in pairwise(rows))
        for row in rows:
            guides[row], guides[row + 1] = guides[row + 1], guides[row]
    assert guides == order
    assert sum(map(len, columns)) == sum(a > b for a, b in combinations(order, 2))
    assert len(columns) <= len(order)


@pytest.mark.parametrize("order", [[0, 0], [1, 2], [0, 2]])
def test_order_that_is_no_permutation_is_refused(order: list[int]) -> None:
    with pytest.raises(ValueError, match=r"\b0 … 1\b"):
        swap_columns(order)


@given(order=ORDERS)
def test_crossings_connect_every_guide_to_its_place(order: list[int]) -> None:
    library = {"crossing": ComponentType("crossing", ("o1", "o2", "o3", "o4")), "end": ComponentType("end", ("o1",))}
    b = CircuitBuilder("shuffle", library)
    ends = [b.add(f"end{i}", "end") + ",o1" for i in range(len(order))]
    moved = permute(b, "s", ends, order, column=3, row=5)
    partner = dict(b.nets) | {y: x for x, y in b.nets}

    def start(port: str) -> str:
        """Trace back through crossings: o3 comes from o1, o4 from o2."""
        while not port.startswith("end"):
            crossing, _, name = port.rpartition(",")
            port = partner[f"{crossing},{ {'o3': 'o1', 'o4': 'o2'}[name] }"]
        return port

    assert [start(port) for port in moved] == [f"end{i},o1" for i in order]
    b.build()
    for row, columns in enumerate(swap_columns(order)):
        assert [b.grid[f"s_x_c{row + 3}_r{upper + 5}"] for upper in columns] == [
            ("s", row + 3, upper + 5) for upper in columns
        ]


def test_another_number_of_guides_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\b2\b.*\b1\b"):
        permute(CircuitBuilder("x", {}), "s", ["a,o1"], [0, 1])
