"""Detectors and modulators on the chip: matched by optical nets and pads together; swapped pads are reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, lay_out_network, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.lvs._device_matching import Walk
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare

PROCESS = "soi220_flipchip_onchip"


@cache
def chip(units: int) -> tuple[Circuit, ChipLayout]:
    """One hidden layer, with a number of oscillators from one fibre."""
    get_pdk(PROCESS).activate()
    weight = 1.0 + np.outer(np.arange(units), np.arange(2))
    layers = (Layer(weight, np.zeros(units)), Layer(weight.T, np.zeros(2)))
    return lay_out_network(AveragingNetwork(layers, Averaging(4, 2, 2), ()), load_process(PROCESS), "chip")


def found(drawn: ChipLayout, circuit: Circuit, folder: Path) -> LvsResult:
    card = load_process(PROCESS)
    write_gds(to_layout(drawn, card, "chip"), folder / "chip.gds")
    return compare(circuit, extract(folder / "chip.gds", card), card)


@pytest.mark.parametrize("oscillators", [5, 6, 7])
def test_an_unbalanced_tree_of_oscillators_is_matched(oscillators: int, tmp_path: Path) -> None:
    circuit, drawn = chip(oscillators)
    result = found(drawn, circuit, tmp_path)
    assert result.differences == ()
    # every device is matched to the one with its pads
    assert np.all(result.device_map >= 0)


def test_pads_distinguish_branches_that_no_fibre_distinguishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    get_pdk(PROCESS).activate()
    onn = AveragingNetwork.load(bundled_weights().with_name("average_4bit_4servers_relu.npz"))
    circuit, drawn = lay_out_network(onn, load_process(PROCESS), "chip")
    assert found(drawn, circuit, tmp_path).match
    # without pads, the first permutation that fits the neighbours is chosen, which is a wrong one
    monkeypatch.setattr(Walk, "map_landmarks", lambda self: None)
    assert not found(drawn, circuit, tmp_path).match


SWAPS = {
    "the detectors of one mixer": ("l0_p_r0", "l0_n_r0"),
    "detectors of two mixers": ("l0_p_r1", "l0_p_r2"),
    "two modulators": ("l1_in_r0", "l1_in_r3"),
    "a detector and its oscillator's trim": ("l0_p_r4", "l0_lo_r4"),
}


@pytest.mark.parametrize("swap", SWAPS.values(), ids=SWAPS)
def test_swapped_pads_are_reported(swap: tuple[str, str], tmp_path: Path) -> None:
    circuit, drawn = chip(7)
    other = dict([swap, swap[::-1]])
    texts = [(other.get(text, text), x, y) for text, x, y in drawn.canvas.texts]
    assert texts != drawn.canvas.texts
    result = found(replace(drawn, canvas=replace(drawn.canvas, texts=texts)), circuit, tmp_path)
    messages = [difference.message for difference in result.differences]
    assert all(any(label in message for message in messages) for label in swap)
    assert {difference.kind for difference in result.differences} & {"pin", "heater"}


def reversed_pins(circuit: Circuit) -> Circuit:
    """The same circuit with one photodiode's signal and ground swapped."""
    i = int(circuit.instances_of("photodiode")[0])
    electrical = circuit.electrical.copy()
    first = int(circuit.offset[i]) + 1
    electrical[first : first + 2] = electrical[first : first + 2][::-1]
    return replace(circuit, electrical=electrical)


def unwired(circuit: Circuit) -> Circuit:
    """The same circuit with one photodiode's signal on no pad."""
    electrical = circuit.electrical.copy()
    electrical[int(circuit.offset[int(circuit.instances_of("photodiode")[0])]) + 1] = -1
    return replace(circuit, electrical=electrical)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (reversed_pins, r"photodiode is wired to l0_p_r0 and GND instead of GND and l0_p_r0"),
        (unwired, r"photodiode is wired to l0_p_r0 and GND instead of no pad and GND"),
    ],
)
def test_wrong_pins_of_a_photodiode_are_reported(
    change: Callable[[Circuit], Circuit], message: str, tmp_path: Path
) -> None:
    circuit, drawn = chip(5)
    result = found(drawn, change(circuit), tmp_path)
    assert [(d.kind, d.message) for d in result.differences] == [("pin", message)]
