"""Grounds: one net per strip, per die or per chip, and every heater on the ground of its strip."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from optinc_pdk.assemble import (
    CARRIER_TREE,
    LOCAL_STRIPS,
    DiePlan,
    assemble,
    complete_circuit,
    draft_circuit,
    layer_blocks,
    strip_names,
)
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.circuit.netlist_files import netlist_dict
from optinc_pdk.networks import AveragingNetwork, Layer

PROCESS = load_process()
WIDTHS, SIZES = (2, 3, 4, 2), (2, 2, 2)
LAYERS = tuple(Layer(np.ones((b, a)), np.zeros(b)) for a, b in pairwise(WIDTHS))
ONN = AveragingNetwork(LAYERS, Averaging(4, 2, 2), tuple(("approx", size) for size in SIZES))
STRIPS = ["l0", "l1b0", "l1b1", "l1b2", "l1b3", "l2"]


def nets(circuit: Circuit) -> dict[int, set[str]]:
    """Ground labels on each net that has any."""
    labels_of = {
        int(net): {label for label in labels if label.startswith("GND")}
        for net, labels in circuit.electrical_labels().items()
    }
    return {net: labels for net, labels in labels_of.items() if labels}


def strips_on(circuit: Circuit) -> dict[int, set[str]]:
    """Strips of the instances on each ground net."""
    names = strip_names(circuit.sections)
    owner = np.repeat(np.arange(len(circuit.instances)), np.diff(circuit.offset))
    strips: dict[int, set[str]] = {net: set() for net in nets(circuit)}
    for port, net in enumerate(circuit.electrical.tolist()):
        section = int(circuit.grid[owner[port], 0])
        if net in strips and section >= 0:
            strips[net].add(names[circuit.sections[section]])
    return strips


def test_strips_are_blocks_but_first_and_last_layers_are_one_each() -> None:
    sections = [block.name for index in range(3) for block in layer_blocks(ONN, index)]
    assert len(sections) > len(STRIPS)
    names = strip_names([*sections, "l0_mix", "l0b1_mix", "l0_split", "l1b2_mix", "l2_sum", "carrier", "lo"])
    assert sorted({names[section] for section in sections}) == STRIPS
    assert [names[s] for s in ("p", "t", "l0_mix", "l0b1_mix", "l0_split", "l2_sum")] == ["l0", "l2", *3 * ["l0"], "l2"]
    assert names["l1b2_mix"] == "l1b2"
    # the carrier belongs to no strip
    assert not {"carrier", "lo"} & set(names)


def test_chip_with_a_carrier_tree_has_one_ground() -> None:
    circuit = assemble(ONN, PROCESS, "chip")
    assert list(nets(circuit).values()) == [{f"GND{i}" for i in range(8)}]


def test_local_strips_have_two_ground_pads_each() -> None:
    circuit = assemble(ONN, PROCESS, "chip", LOCAL_STRIPS)
    on = strips_on(circuit)
    labels = {frozenset(strips): nets(circuit)[net] for net, strips in on.items()}
    assert labels == {frozenset({s}): {f"GND_{s}_0", f"GND_{s}_1"} for s in STRIPS}


@pytest.mark.parametrize("alone", [False, True])
def test_strips_of_a_die_share_eight_ground_pads(alone: bool) -> None:
    dies = {"l0": "d0", "l1b0": "d0", "l1b1": "d1", "l1b2": "d1", "l1b3": "d1"} | ({} if alone else {"l2": "d1"})
    circuit = assemble(ONN, PROCESS, "chip", DiePlan(carrier_tree=False, ground_groups=dies))
    on = strips_on(circuit)
    labels = {frozenset(strips): nets(circuit)[net] for net, strips in on.items()}
    eight = {die: {f"GND_{die}_{i}" for i in range(8)} for die in ("d0", "d1")}
    second = frozenset(strip for strip, die in dies.items() if die == "d1")
    expected = {frozenset({"l0", "l1b0"}): eight["d0"], second: eight["d1"]}
    if alone:
        # a strip that is not listed has a ground of its own
        expected[frozenset({"l2"})] = {"GND_l2_0", "GND_l2_1"}
    assert labels == expected


def test_every_heater_stays_grounded_when_grounds_are_divided() -> None:
    whole, apart = (assemble(ONN, PROCESS, "chip", plan) for plan in (CARRIER_TREE, LOCAL_STRIPS))

    def grounded(circuit: Circuit) -> set[str]:
        ground = set(nets(circuit))
        owner = np.repeat(np.arange(len(circuit.instances)), np.diff(circuit.offset))
        return {circuit.instances[owner[port]] for port, net in enumerate(circuit.electrical.tolist()) if net in ground}

    heated = {name for name in grounded(whole) if not name.startswith("pad_")}
    assert heated and heated == {name for name in grounded(apart) if not name.startswith("pad_")}
    assert not any(name in apart.instances for name in (f"pad_GND{i}" for i in range(8)))


def test_a_draft_is_completed_for_several_plans() -> None:
    draft = draft_circuit(ONN, PROCESS, "chip")
    before = (dict(draft.builder.instances), list(draft.builder.nets), dict(draft.builder.ports))
    for plan in (LOCAL_STRIPS, CARRIER_TREE, DiePlan(carrier_tree=False, ground_groups={"l0": "d0"})):
        assert netlist_dict(complete_circuit(draft, plan)) == netlist_dict(assemble(ONN, PROCESS, "chip", plan))
    assert before == (draft.builder.instances, draft.builder.nets, draft.builder.ports)
