"""Slots of the rectangular mesh, and splitter trees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.assemble import rectangular_slots
from optinc_pdk.assemble.splitter_trees import add_tree
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
