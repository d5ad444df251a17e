"""The same networks in another process, whose layers, rules and pitches are only in its cards."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import DEFAULT_PROCESS, load_process
from optinc_pdk.extract import extract
from optinc_pdk.layout import floorplan, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.function import check_function
from optinc_pdk.signoff.lvs.comparison import compare
from optinc_pdk.simulate import program

TWO = "soi220_two_metal"


def network(servers: int, widths: tuple[int, ...]) -> AveragingNetwork:
    # rows that are no multiples of each other, so that every unit has a detector of its own
    units = [(np.arange(b)[:, np.newaxis], np.arange(a)) for a, b in pairwise(widths)]
    weights = [(-1.0) ** unit * (1.0 + unit * signal) for unit, signal in units]
    layers = tuple(Layer(weight, np.zeros(len(weight))) for weight in weights)
    return AveragingNetwork(layers, Averaging(2 * widths[-1], servers, widths[-1]), ())


NETWORKS = {
    "narrower and wider again, an odd number of servers": network(3, (4, 2, 4)),
    "one server and an odd mesh": network(1, (2, 3, 2)),
}


def written(process: str, onn: AveragingNetwork, path: Path) -> Path:
    card = load_process(process)
    get_pdk(process).activate()
    write_gds(to_layout(floorplan(assemble(onn, card, "a_chip"), card), card, "a_chip"), path)
    return path


@pytest.mark.full(every=2)
@pytest.mark.parametrize("onn", NETWORKS.values(), ids=NETWORKS)
def test_chip_keeps_every_rule_and_matches_the_circuit(onn: AveragingNetwork, tmp_path: Path) -> None:
    card = load_process(TWO)
    path = written(TWO, onn, tmp_path / "chip.gds")
    result = run_drc(path, card.rules, card.gds_layers)
    # a ground bus wider than a density window is all metal, which is only a warning
    violations = {r.id: r.boxes_um.tolist() for r in result.rules if r.violations and r.id != "metal2.density"}
    assert violations == {}
    compared = compare(assemble(onn, card, "a_chip"), extract(path, card), card)
    assert compared.differences == ()
    assert compared.match


def test_the_bundled_network_computes_the_average_on_two_metals(tmp_path: Path) -> None:
    card, onn = load_process(TWO), AveragingNetwork.load(bundled_weights())
    path = written(TWO, onn, tmp_path / "chip.gds")
    circuit, extraction = assemble(onn, card, "a_chip"), extract(path, card)
    assert compare(circuit, extraction, card).differences == ()
    assert circuit.board is not None
    programming = program(extraction.circuit, circuit.board, onn, card)
    function = check_function(extraction.circuit, circuit.board, programming.bias, onn.task, card)
    assert (function.exact, function.inputs) == (65536, 65536)
    assert function.margin > 0.15
    # fast rules only; smaller chips are checked against all rules above
    rules = [rule for rule in card.rules if rule.id.split(".")[0] in ("heater", "metal1", "via", "metal2", "pad")]
    result = run_drc(path, [rule for rule in rules if rule.kind != "foreign_guide"], card.gds_layers)
    assert {rule.id for rule in result.rules if rule.violations} <= {"metal2.density"}


def test_chips_of_two_processes_do_not_affect_each_other(tmp_path: Path) -> None:
    onn = NETWORKS["one server and an odd mesh"]
    first = written(DEFAULT_PROCESS, onn, tmp_path / "first.gds").read_bytes()
    other = written(TWO, onn, tmp_path / "other.gds").read_bytes()
    assert written(DEFAULT_PROCESS, onn, tmp_path / "again.gds").read_bytes() == first
    assert written(TWO, onn, tmp_path / "again.gds").read_bytes() == other


def test_layers_are_the_cards(tmp_path: Path) -> None:
    layout = kdb.Layout()
    layout.read(str(written(TWO, NETWORKS["one server and an odd mesh"], tmp_path / "chip.gds")))
    drawn = {(info.layer, info.datatype) for info in layout.layer_infos()}
    layers = load_process(TWO).gds_layers
    # a network without activations on the chip draws neither black boxes nor coupled guides
    assert drawn == {gds for name, gds in layers.items() if name not in ("slab", "blackbox", "coupled")}


def test_wires_follow_the_layer_that_the_card_names(tmp_path: Path) -> None:
    """If the card names metal1 in place of metal2, the wires are on metal1."""
    card = load_process(TWO)
    get_pdk(TWO).activate()
    chip = floorplan(assemble(NETWORKS["one server and an odd mesh"], card, "a_chip"), card)
    canvas = replace(chip.canvas, placed={}, guides=[], bends=[], texts=[])
    for layer in ("metal1", "metal2"):
        drawn_on = card.model_copy(update={"metal": card.metal.model_copy(update={"layer": layer})})
        layout = to_layout(replace(chip, canvas=canvas), drawn_on, "a_chip")
        used = {(i.layer, i.datatype) for i in layout.layer_infos() if _has_shapes(layout, i)}
        assert used == {card.layers[layer].gds, card.layers["outline"].gds}


def _has_shapes(layout: kdb.Layout, info: kdb.LayerInfo) -> bool:
    return not layout.top_cell().begin_shapes_rec(layout.layer(info)).at_end()
