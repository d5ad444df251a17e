"""Matching by structure: circuits with random connections and no labels are matched to their shuffled copies."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.cards import load_process
from optinc_pdk.circuit import UNCONNECTED, Circuit, CircuitBuilder, ComponentType
from optinc_pdk.extract.golden_devices import device_symmetries
from optinc_pdk.signoff.lvs._device_matching import IndexedCircuit, match

PROCESS = load_process()
SYMMETRY = device_symmetries(PROCESS)
LIBRARY = {
    name: ComponentType(name, PROCESS.device(name).ports.optical)
    for name in ("grating_coupler", "mmi1x2", "mmi2x2", "terminator")
}


def random_tree(branches: list[int], seed: int, shuffled: bool, leaf: str = "terminator") -> Circuit:
    """A tree of splitters that ends in terminators; shuffled, its instances and branches are in another order.

    Args:
        branches: For every splitter after the first, which of the open branches it continues.
        seed: Seed of the order.
        shuffled: Whether to shuffle.
        leaf: Component at the last open branch.
    """
    joined, splitters = [("root,o1", "d0,o1")], ["d0"]
    open_ports = ["d0,o2", "d0,o3"]
    for i, branch in enumerate(branches, 1):
        joined.append((open_ports.pop(branch % len(open_ports)), f"d{i},o1"))
        splitters.append(f"d{i}")
        open_ports += [f"d{i},o2", f"d{i},o3"]
    joined += [(port, f"t{i},o1") for i, port in enumerate(open_ports)]
    kinds = {"root": "grating_coupler", **dict.fromkeys(splitters, "mmi1x2")}
    kinds |= {f"t{i}": "terminator" for i in range(len(open_ports) - 1)} | {f"t{len(open_ports) - 1}": leaf}
    names, rng = list(kinds), np.random.default_rng(seed)
    turned: set[str] = set()
    if shuffled:
        rng.shuffle(names)
        # both branches of a splitter look alike
        turned = {name for name in splitters if rng.random() < 0.5}
    builder = CircuitBuilder("tree", LIBRARY)
    for name in names:
        builder.add(name, kinds[name])
    for a, b in joined:
        instance, port = a.split(",")
        builder.connect(f"{instance},{ {'o2': 'o3', 'o3': 'o2'}[port] }" if instance in turned else a, b)
    return builder.build()


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(0, 2**20))
def test_a_tree_matches_its_copy(branches: list[int], seed: int) -> None:
    here, there = (IndexedCircuit(random_tree(branches, seed, each), SYMMETRY) for each in (False, True))
    found = match(here, there)
    assert not np.any(found.device == UNCONNECTED)
    ends = found.port[here.circuit.nets]
    assert np.array_equal(there.partner[ends[:, 0]], ends[:, 1])


@given(st.lists(st.integers(0, 30), max_size=10), st.integers(0, 2**20))
def test_a_device_of_another_kind_stays_unmatched(branches: list[int], seed: int) -> None:
    here = IndexedCircuit(random_tree(branches, seed, False), SYMMETRY)
    there = IndexedCircuit(random_tree(branches, seed, True, "grating_coupler"), SYMMETRY)
    found = match(here, there)
    assert np.sum(found.device == UNCONNECTED) >= 1
    kinds = [(here.kind[i], there.kind[j]) for i, j in enumerate(found.device.tolist()) if j != UNCONNECTED]
    assert all(a == b for a, b in kinds)
