"""KLayout's netlist comparer and the walk along the optical nets have the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.layout import floorplan, lay_out_network, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, bundled_weights
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.lvs.comparison import compare
from optinc_pdk.signoff.lvs.klayout_comparer import compare_with_klayout

# The smallest meshes in both wirings, and the bundled network with photodiodes and modulators.
CHIPS = {"mesh of 4": "soi220", "mesh of 5": "soi220_flipchip", "network": "soi220_onchip"}


@cache
def made(name: str) -> tuple[Circuit, Extraction]:
    process = load_process(CHIPS[name])
    get_pdk(process.name).activate()
    if name == "network":
        circuit, chip = lay_out_network(AveragingNetwork.load(bundled_weights()), process, "chip")
    else:
        circuit = mesh_chip(int(name.split()[-1]), process, "chip")
        chip = floorplan(circuit, process)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "chip.gds"
        write_gds(to_layout(chip, process, "chip"), path)
        return circuit, extract(path, process)


def verdicts(name: str, change: Callable[[Circuit], Circuit]) -> tuple[bool, bool]:
    """Results of LVS and of KLayout on a changed layout."""
    process, (circuit, found) = load_process(CHIPS[name]), made(name)
    changed = replace(found, circuit=change(found.circuit))
    theirs = compare_with_klayout(circuit, changed.circuit, process)
    assert theirs.match == (not theirs.mismatches)
    return compare(circuit, changed, process).match, theirs.match


def ports_of(circuit: Circuit, instance: int) -> list[int]:
    return list(range(int(circuit.offset[instance]), int(circuit.offset[instance + 1])))


def ports(circuit: Circuit, kind: str, number: int) -> list[int]:
    """The ports of one device."""
    return ports_of(circuit, int(circuit.instances_of(kind)[number]))


def moved(circuit: Circuit, new: dict[int, int]) -> Circuit:
    """The circuit with ports in nets and at labels replaced by others."""
    number = np.arange(int(circuit.offset[-1]))
    number[list(new)] = list(new.values())
    return replace(circuit, nets=number[circuit.nets])


def swapped(circuit: Circuit, a: int, b: int) -> Circuit:
    """The circuit with the connections of two optical ports swapped."""
    return moved(circuit, {a: b, b: a})


def rewired(circuit: Circuit, new: dict[int, int]) -> Circuit:
    """The circuit with ports on other electrical nets."""
    electrical = circuit.electrical.copy()
    electrical[list(new)] = list(new.values())
    return replace(circuit, electrical=electrical)


def swapped_metal(circuit: Circuit, a: int, b: int) -> Circuit:
    return rewired(circuit, {a: int(circuit.electrical[b]), b: int(circuit.electrical[a])})


def relabelled(circuit: Circuit, *labels: str) -> Circuit:
    """The circuit with each label on the port of the next label."""
    place = dict(zip(labels, [*labels[1:], labels[0]], strict=True))
    return replace(circuit, ports={label: circuit.ports[place.get(label, label)] for label in circuit.ports})


def without_device(circuit: Circuit) -> Circuit:
    """The circuit without one terminator."""
    gone = int(circuit.instances_of("terminator")[0])
    (port,) = ports(circuit, "terminator", 0)
    keep = np.arange(len(circuit.instances)) != gone
    nets = circuit.nets[np.all(circuit.nets != port, axis=1)]
    return replace(
        circuit,
        instances=tuple(name for name, kept in zip(circuit.instances, keep.tolist(), strict=True) if kept),
        kind=circuit.kind[keep],
        nets=nets - (nets > port),
        net_length_um=circuit.net_length_um[np.all(circuit.nets != port, axis=1)],
        electrical=np.delete(circuit.electrical, port),
        ports={label: at - (at > port) for label, at in circuit.ports.items()},
        settings={key: column[keep] for key, column in circuit.settings.items()},
        position_um=circuit.position_um[keep],
    )


def another_device(circuit: Circuit) -> Circuit:
    """The circuit with a coupler of another kind that has the same ports."""
    kinds = [*circuit.kinds, replace(circuit.kinds[circuit.kind[circuit.instances_of("mmi2x2")[0]]], name="other")]
    kind = circuit.kind.copy()
    kind[circuit.instances_of("mmi2x2")[3]] = len(kinds) - 1
    return replace(circuit, kinds=tuple(kinds), kind=kind)


def guides_swapped(one: tuple[str, int, int], other: tuple[str, int, int]) -> Callable[[Circuit], Circuit]:
    return lambda c: swapped(c, *(ports(c, kind, number)[port] for kind, number, port in (one, other)))


def metal_swapped(one: tuple[str, int, int], other: tuple[str, int, int]) -> Callable[[Circuit], Circuit]:
    return lambda c: swapped_metal(c, *(ports(c, kind, number)[port] for kind, number, port in (one, other)))


def turned(*order: int) -> Callable[[Circuit], Circuit]:
    """The circuit with a coupler whose ports are in another order."""

    def change(circuit: Circuit) -> Circuit:
        own = ports(circuit, "mmi2x2", 2)
        return moved(circuit, {port: own[to] for port, to in zip(own, order, strict=True)})

    return change


def heater_shorted(circuit: Circuit) -> Circuit:
    own = ports(circuit, "phase_shifter", 1)
    return rewired(circuit, {own[2]: int(circuit.electrical[own[3]])})


def heater_open(circuit: Circuit) -> Circuit:
    return rewired(circuit, {ports(circuit, "phase_shifter", 1)[2]: -1})


def guide_cut(circuit: Circuit) -> Circuit:
    return replace(circuit, nets=circuit.nets[1:], net_length_um=circuit.net_length_um[1:])


def pads_shorted(circuit: Circuit) -> Circuit:
    one, other = (ports(circuit, "phase_shifter", number)[2] for number in (0, 5))
    same = circuit.electrical == circuit.electrical[other]
    return replace(circuit, electrical=np.where(same, circuit.electrical[one], circuit.electrical))


def label_missing(circuit: Circuit) -> Circuit:
    return replace(circuit, ports={label: port for label, port in circuit.ports.items() if label != "in_r2"})


# Changes of the extracted mesh of 4 modes, and whether the result is still the same circuit.
CHANGES: dict[str, tuple[Callable[[Circuit], Circuit], bool]] = {
    "nothing": (lambda circuit: circuit, True),
    "a coupler turned around": (turned(2, 3, 0, 1), True),
    "a coupler upside down": (turned(1, 0, 3, 2), True),
    "one side of a coupler upside down": (turned(1, 0, 2, 3), False),
    "a heater's ends": (metal_swapped(("phase_shifter", 2, 2), ("phase_shifter", 2, 3)), True),
    "a phase shifter turned around": (guides_swapped(("phase_shifter", 2, 0), ("phase_shifter", 2, 1)), True),
    "guides of two fibres swapped": (guides_swapped(("grating_coupler", 0, 0), ("grating_coupler", 1, 0)), False),
    "guides of two couplers swapped": (guides_swapped(("mmi2x2", 1, 2), ("mmi2x2", 4, 2)), False),
    "a heater on the other arm": (guides_swapped(("phase_shifter", 0, 0), ("phase_shifter", 3, 0)), False),
    "wires of two heaters swapped": (metal_swapped(("phase_shifter", 0, 2), ("phase_shifter", 4, 2)), False),
    "a terminator less": (without_device, False),
    "another coupler": (another_device, False),
    "two pads' labels swapped": (lambda c: relabelled(c, "l0_v_c0_r0_phi", "l0_v_c1_r1_theta"), False),
    "two fibres' labels swapped": (lambda c: relabelled(c, "in_r0", "in_r3"), False),
    "a heater shorted": (heater_shorted, False),
    "a heater without its wire": (heater_open, False),
    "a guide cut": (guide_cut, False),
    "two pads joined": (pads_shorted, False),
    "a label less": (label_missing, False),
}


@pytest.mark.parametrize("name", CHIPS)
def test_both_match_a_clean_chip(name: str) -> None:
    assert verdicts(name, lambda circuit: circuit) == (True, True)


@pytest.mark.parametrize("name", CHANGES)
def test_both_have_the_same_result_for_a_changed_circuit(name: str) -> None:
    change, same = CHANGES[name]
    assert verdicts("mesh of 4", change) == (same, same)


@pytest.mark.parametrize("kind", ["photodiode", "modulator"])
def test_both_report_swapped_pins(kind: str) -> None:
    def reversed_pins(circuit: Circuit) -> Circuit:
        return swapped_metal(circuit, *ports(circuit, kind, 0)[-2:])

    assert verdicts("network", reversed_pins) == (False, False)


def test_both_have_the_same_result_for_any_two_swapped_guides() -> None:
    circuit = made("mesh of 5")[1].circuit
    random = np.random.default_rng(6)
    light = np.flatnonzero(circuit.optical_mask())
    joined = np.intersect1d(light, circuit.nets)
    found = []
    for _ in range(10):
        a, b = random.choice(joined, 2, replace=False).tolist()
        ours, theirs = verdicts("mesh of 5", lambda c, a=a, b=b: swapped(c, a, b))
        assert ours == theirs
        found.append(ours)
    assert not all(found)


def test_both_report_metal_without_a_pad() -> None:
    """Two heaters without pads that metal joins in the layout only, or in the reference only."""
    process, (circuit, found) = load_process(CHIPS["mesh of 4"]), made("mesh of 4")
    flat = flatten(circuit)
    names = [f"l0_v_c0_r{row}.{heater}" for row, heater in ((0, "phi"), (2, "phi"))]
    own = [int(flat.offset[flat.instances.index(name)]) + 2 for name in names]
    padless = rewired(flat, dict.fromkeys(own, -1))
    port = compare(flat, found, process).device_map
    theirs = [ports_of(found.circuit, int(port[flat.instances.index(name)]))[2] for name in names]
    apart = rewired(found.circuit, dict.fromkeys(theirs, -1))
    for reference_net, layout_net in ((-1, -1), (-1, 10**6), (10**6, -1), (10**6, 10**6)):
        reference = rewired(padless, dict.fromkeys(own, reference_net))
        layout = rewired(apart, dict.fromkeys(theirs, layout_net))
        ours = compare(reference, replace(found, circuit=layout), process)
        same = reference_net == layout_net
        assert (ours.match, compare_with_klayout(reference, layout, process).match) == (same, same)
        if not same:
            (difference,) = ours.differences
            assert difference.kind == ("short" if reference_net == -1 else "open")
            assert all(name in difference.message for name in names)


def test_an_internal_error_of_klayout_is_no_second_opinion(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bool:
        raise RuntimeError("Internal error: dbNetlistCompare.cc:1 was not true")

    monkeypatch.setattr(kdb.NetlistComparer, "compare", fails)
    circuit, found = made("mesh of 4")
    opinion = compare_with_klayout(circuit, found.circuit, load_process(CHIPS["mesh of 4"]))
    assert not opinion.match
    assert str(opinion).startswith("no second opinion: ")
    assert "dbNetlistCompare.cc:1" in str(opinion)
