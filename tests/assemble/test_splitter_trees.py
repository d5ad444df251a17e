"""Splitter trees, permutations by adjacent swaps, and the crossings for the swaps."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.assemble import rectangular_slots
from optinc_pdk.assemble._splitter_trees import add_tree, permute, swap_columns
from optinc_pdk.circuit import CircuitBuilder, ComponentType


@pytest.mark.parametrize("modes", range(1, 12))
def test_a_mesh_has_an_mzi_for_every_pair_of_modes(modes: int) -> None:
    slots = rectangular_slots(modes)
    assert sum(not slot.dummy for slot in slots) == modes * (modes - 1) // 2


@pytest.mark.parametrize("modes", range(1, 12))
def test_every_mode_meets_one_component_in_every_column(modes: int) -> None:
    columns = {1: 0, 2: 1}.get(modes, modes)
    slots = rectangular_slots(modes)
    met = sorted((s.column, row) for s in slots for row in ([s.row] if s.dummy else [s.row, s.row + 1]))
    assert met == [(column, row) for column in range(columns) for row in range(modes)]


@pytest.mark.parametrize("modes", range(1, 12))
def test_dummies_lie_on_edge_modes_only(modes: int) -> None:
    assert {slot.row for slot in rectangular_slots(modes) if slot.dummy} <= {0, modes - 1}


@given(leaves=st.integers(1, 40))
def test_tree_reaches_every_leaf_once_and_is_balanced(leaves: int) -> None:
    library = {"mmi1x2": ComponentType("mmi1x2", ("o1", "o2", "o3")), "end": ComponentType("end", ("o1",))}
    b = CircuitBuilder("tree", library)
    ends = [b.add(f"end{i}", "end") + ",o1" for i in range(leaves)]
    root = add_tree(b, "t", "s", None, ends)
    circuit = b.build()
    partner = dict([(x, y) for x, y in b.nets] + [(y, x) for x, y in b.nets])
    assert len(circuit.instances_of("mmi1x2")) == leaves - 1

    def below(port: str) -> list[tuple[str, int]]:
        node, _, name = port.rpartition(",")
        if b.instances[node] == "end":
            return [(node, 0)]
        assert name == "o1"
        upper, lower = below(partner[f"{node},o2"]), below(partner[f"{node},o3"])
        assert 0 <= len(upper) - len(lower) <= 1
        return [(end, depth + 1) for end, depth in upper + lower]

    reached = below(root)
    # uppermost first, so that a tree of leaves in order needs no crossings
    assert [end for end, _ in reached] == [f"end{i}" for i in range(leaves)]
    depths = {depth for _, depth in reached}
    assert max(depths) == (leaves - 1).bit_length()
    assert max(depths) - min(depths) <= 1


def test_tree_of_one_leaf_is_the_leaf() -> None:
    b = CircuitBuilder("tree", {"end": ComponentType("end", ("o1",))})
    for name in ("root", "leaf"):
        b.add(name, "end")
    assert add_tree(b, "t", "s", "root,o1", ["leaf,o1"]) == "leaf,o1"
    assert b.nets == [("root,o1", "leaf,o1")]


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
