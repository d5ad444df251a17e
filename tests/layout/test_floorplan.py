"""Networks to chip layouts in every process: rules, match with the circuit, dies, and refused circuits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.assemble._layer_parts import add_linear_block
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit, NetlistError
from optinc_pdk.layout import ChipLayout, floorplan, lay_out_network
from optinc_pdk.layout.canvas import fibre_row_pitch
from optinc_pdk.networks import carry_chain

MakeProcess = Callable[[str, float], Process]
BLOCKS = ((2, 3, 2), (2, 2))
NETWORKS = {
    "blocks, wires": ("soi220", *BLOCKS),
    "blocks, bumps": ("soi220_flipchip", *BLOCKS),
    "blocks, wires, detectors and modulators": ("soi220_onchip", *BLOCKS),
    "blocks, bumps, detectors and modulators": ("soi220_flipchip_onchip", *BLOCKS),
    "blocks, two metals": ("soi220_two_metal", *BLOCKS),
    "blocks of one mode": ("soi220_flipchip_onchip", (1, 2, 1), (1, 1)),
    "blocks on both sides of a hidden layer": ("soi220_onchip", (2, 4, 3, 2), (2, 3, 2)),
    "whole layers on the chip": ("soi220_onchip", (2, 3, 2)),
}


@pytest.mark.full(every=2)
@pytest.mark.parametrize("case", NETWORKS.values(), ids=NETWORKS)
def test_extracted_circuit_matches(case: tuple[Any, ...], built: Callable[..., Any]) -> None:
    chip = built(*case)
    assert chip.differences() == []
    expected = {n for n, k in component_of(chip.circuit).items() if k != "pad"}
    assert set(chip.chip.canvas.placed) == expected
    texts = Counter(text for text, _, _ in chip.chip.canvas.texts)
    assert texts == Counter([*chip.circuit.ports, "chip"])


@pytest.mark.parametrize("process", ["soi220", "soi220_onchip", "soi220_flipchip_onchip"])
def test_every_rule_is_kept(process: str, built: Callable[..., Any]) -> None:
    assert built(process, *BLOCKS).rules_broken() == {}


def component_of(circuit: Circuit) -> dict[str, str]:
    return {n: circuit.kinds[k].name for n, k in zip(circuit.instances, circuit.kind.tolist(), strict=True)}


def label_of_die(chip: ChipLayout, at: tuple[float, float]) -> int:
    """The die on which a point lies."""
    (number,) = [i for i, (left, low, right, top) in enumerate(chip.dies) if left < at[0] < right and low < at[1] < top]
    return number


def assert_dies_hold_all(chip: ChipLayout, circuit: Circuit, name: str) -> None:
    """Check that dies are next to each other, hold each strip and label once, and cut no instance."""
    assert all(a[2] < b[0] for a, b in pairwise(chip.dies))
    placed = [strip for strips in chip.strips for strip in strips]
    assert len(set(placed)) == len(placed)
    for instance in chip.canvas.placed:
        left, bottom, right, top = chip.canvas.instance_box(instance)
        assert label_of_die(chip, (left, bottom)) == label_of_die(chip, (right, top))
    texts = Counter(text for text, _, _ in chip.canvas.texts)
    titles = (
        [f"{name} die {i + 1} of {len(chip.dies)}" for i in range(len(chip.dies))] if len(chip.dies) > 1 else [name]
    )
    assert texts == Counter([*circuit.ports, *titles])


# from one strip per die to several: the ground pads of several strips would need more height
@pytest.mark.parametrize("height", range(960, 1900, 100))
def test_every_die_with_wires_has_a_ground_of_its_own(
    height: int, process_of: Callable[..., Any], network: Callable[..., Any]
) -> None:
    process = process_of("soi220", (4200, height))
    circuit, chip = lay_out_network(network((2, 3, 4, 2), (2, 2, 2)), process, "chip")
    assert_dies_hold_all(chip, circuit, "chip")
    groups: dict[int, set[str]] = {}
    for text, x, y in chip.canvas.texts:
        if text.startswith("GND_"):
            groups.setdefault(label_of_die(chip, (x, y)), set()).add(text.rpartition("_")[0])
    # one group of grounds per die with heaters; the carrier may have a die of its own
    assert groups == {i: {f"GND_d{i}"} for i, strips in enumerate(chip.strips) if strips}
    assert all(die[3] - die[1] <= height for die in chip.dies) == (chip.fit != "not buildable")


@pytest.mark.parametrize(
    ("process", "die"),
    [("soi220", (3000, 1280)), ("soi220_onchip", (4200, 1510)), ("soi220_flipchip_onchip", (3500, 1300))],
)
def test_chip_of_several_dies_matches_the_circuit(
    process: str, die: tuple[float, float], built: Callable[..., Any]
) -> None:
    chip = built(process, (2, 3, 4, 2), (2, 2, 2), 2, die)
    assert chip.chip.fit == "multi-die"
    assert len(chip.chip.dies) >= 3
    assert all(right - left <= die[0] and top - low <= die[1] for left, low, right, top in chip.chip.dies)
    assert_dies_hold_all(chip.chip, chip.circuit, "chip")
    assert chip.differences() == []


@pytest.mark.parametrize("process", ["soi220", "soi220_flipchip"])
def test_strip_larger_than_a_die_is_drawn_and_called_not_buildable(process: str, built: Callable[..., Any]) -> None:
    chip = built(process, (2, 3, 2), (), 2, (1500, 1200))
    assert chip.chip.fit == "not buildable"
    assert chip.chip.width_um > 1500
    assert_dies_hold_all(chip.chip, chip.circuit, "chip")
    assert chip.differences() == []


def test_network_of_one_block_a_layer_has_a_carrier_tree_if_one_die_holds_it(
    network: Callable[..., Any], process_of: Callable[..., Any]
) -> None:
    onn = network((1, 2, 1))
    whole, one = lay_out_network(onn, process_of("soi220"), "chip")
    assert one.fit == "fits one die"
    assert whole.board is not None and whole.board.oscillators == ()
    apart, several = lay_out_network(onn, process_of("soi220", (2500, 1300)), "chip")
    assert several.fit == "multi-die"
    assert apart.board is not None and apart.board.oscillators == ("lo_l0",)


@pytest.mark.parametrize(
    ("process", "die", "dies"), [("soi220", None, 1), ("soi220", (2500, 1300), 2), ("soi220_flipchip", None, 1)]
)
def test_circuit_is_assembled_once(
    process: str,
    die: tuple[float, float] | None,
    dies: int,
    network: Callable[..., Any],
    process_of: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assembled = []
    monkeypatch.setattr(
        "optinc_pdk.assemble._network_circuit.add_linear_block",
        lambda b, block, light: assembled.append(block.name) or add_linear_block(b, block, light),
    )
    _, chip = lay_out_network(network((1, 2, 1)), process_of(process, die), "chip")
    assert len(chip.dies) == dies
    assert assembled == ["l0", "l1"]


INCOMPLETE: dict[str, tuple[Callable[[Circuit], Circuit], str]] = {
    "open port": (lambda c: replace(c, nets=c.nets[1:]), r"mesh: .*\w+,o\d\b.*\b2\b"),
    "port used twice": (
        lambda c: replace(c, nets=np.concatenate([c.nets, [[c.nets[0, 0], c.nets[2, 1]]]])),
        r"mesh: .*\w+,o\d\b",
    ),
}


@pytest.mark.parametrize(("change", "message"), INCOMPLETE.values(), ids=INCOMPLETE)
@pytest.mark.parametrize("process", ["soi220", "soi220_flipchip"])
def test_incomplete_circuit_is_refused_before_anything_is_placed(
    process: str,
    change: Callable[[Circuit], Circuit],
    message: str,
    process_of: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = process_of(process)
    monkeypatch.setattr("optinc_pdk.layout.canvas.Canvas.place", lambda *_: pytest.fail("placed"))
    with pytest.raises(NetlistError, match=message):
        floorplan(change(mesh_chip(3, card, "mesh")), card)


def test_bundles_keep_their_distance_from_terminated_modes(built: Callable[..., Any]) -> None:
    # a block of three modes with two inputs: the third mode's terminator is next to the bundle of inputs
    dark = built("soi220_two_metal", (2, 5, 3, 2), (2, 3, 2))
    assert dark.differences() == []
    assert dark.rules_broken(("core",)) == {}


@pytest.mark.full(every=3)
@pytest.mark.parametrize("base", ["soi220", "soi220_two_metal"])
@pytest.mark.parametrize("radius_um", [20.0, 80.0, 200.0])
def test_a_chip_with_large_bends_passes(
    base: str, radius_um: float, process_with: MakeProcess, written: Callable[..., Any]
) -> None:
    """Lengths in cells, floorplans and rules follow from the radius."""
    process = process_with(base, radius_um)
    chip = written(process, *lay_out_network(carry_chain(Averaging(2, 2, 1)), process, "c"))
    errors = {rule.id for rule in process.rules if rule.severity == "error"}
    assert chip.rules_broken().keys() & errors == set()
    assert chip.differences() == []


def test_rows_lie_at_multiples_of_the_fibre_pitch(process_with: MakeProcess) -> None:
    pitch = float(load_process().floorplan.fibre_pitch_um)
    assert fibre_row_pitch(load_process()) == pitch
    assert fibre_row_pitch(process_with("soi220", 80.0)) == 3 * pitch
