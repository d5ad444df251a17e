"""LVS of a chip with two metals by mutation: nets that vias join, and nets that they do not join."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Quantity, load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import extract
from optinc_pdk.layout import floorplan, to_layout
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare

PROCESS = load_process("soi220_two_metal")
Regions = dict[str, kdb.Region]
Mutation = Callable[[Regions], kdb.Box]


@cache
def reference() -> Circuit:
    layers = tuple(Layer(np.ones((b, a)), np.zeros(b)) for a, b in pairwise((1, 1, 1)))
    return assemble(AveragingNetwork(layers, Averaging(2, 2, 1), ()), PROCESS, "a_chip")


@cache
def original() -> tuple[Regions, tuple[kdb.Text, ...]]:
    get_pdk(PROCESS.name).activate()
    layout = to_layout(floorplan(reference(), PROCESS), PROCESS, "a_chip")
    top = layout.top_cell()
    shapes = {
        name: kdb.Region(top.begin_shapes_rec(layout.layer(*gds))).merged() for name, gds in PROCESS.gds_layers.items()
    }
    texts = kdb.Texts(top.begin_shapes_rec(layout.layer(*PROCESS.gds_layers["label"])))
    return shapes, tuple(text.dup() for text in texts.each())


def lvs(shapes: Regions, folder: Path) -> LvsResult:
    layout = kdb.Layout()
    top = layout.create_cell("a_chip")
    for name, region in shapes.items():
        top.shapes(layout.layer(*PROCESS.gds_layers[name])).insert(region)
    for text in original()[1]:
        top.shapes(layout.layer(*PROCESS.gds_layers["label"])).insert(text)
    layout.write(str(folder / "chip.gds"))
    return compare(reference(), extract(folder / "chip.gds", PROCESS), PROCESS)


def first_contact(shapes: Regions) -> tuple[kdb.Box, kdb.Box]:
    """A heater and one of its contacts."""
    heater = min(shapes["heater"].each(), key=lambda p: (p.bbox().left, p.bbox().bottom))
    contacts = shapes["metal1"].interacting(kdb.Region(heater))
    return heater.bbox(), min(contacts.each(), key=lambda p: p.bbox().left).bbox()


def cut(shapes: Regions, layer: str, box: kdb.Box) -> None:
    shapes[layer] = shapes[layer] - kdb.Region(box)


def add(shapes: Regions, layer: str, box: kdb.Box) -> None:
    shapes[layer] = (shapes[layer] + kdb.Region(box)).merged()


def two_pads() -> tuple[kdb.Point, kdb.Point]:
    """The centres of two neighbouring signal pads."""
    texts = sorted((t.x, t.y) for t in original()[1] if t.string.startswith("trim_"))
    return kdb.Point(*texts[0]), kdb.Point(*texts[1])


def lose_vias(shapes: Regions) -> kdb.Box:
    heater, contact = first_contact(shapes)
    cut(shapes, "via", contact)
    return heater


def lose_metal2(shapes: Regions) -> kdb.Box:
    heater, contact = first_contact(shapes)
    cut(shapes, "metal2", contact)
    return heater + contact


def lose_metal2_over_one_via(shapes: Regions) -> kdb.Box:
    _, contact = first_contact(shapes)
    via = max(shapes["via"].interacting(kdb.Region(contact)).each(), key=lambda p: (p.bbox().left, p.bbox().bottom))
    cut(shapes, "metal2", kdb.Box(contact.right - 4000, contact.bottom, contact.right, contact.top))
    return via.bbox()


def lose_metal1_under_one_via(shapes: Regions) -> kdb.Box:
    pad, _ = two_pads()
    via = kdb.Box(pad.x, pad.y, pad.x + 3000, pad.y + 3000)
    add(shapes, "via", via)
    return via


def join_contacts(shapes: Regions) -> kdb.Box:
    heater, contact = first_contact(shapes)
    add(shapes, "metal1", kdb.Box(contact.left, contact.top - 2000, heater.right, contact.top))
    return heater


def join_pads(shapes: Regions) -> kdb.Box:
    first, second = two_pads()
    add(shapes, "metal1", kdb.Box(first.x - 5000, first.y - 5000, second.x + 5000, second.y + 5000))
    for at in (first, second):
        add(shapes, "via", kdb.Box(at.x, at.y, at.x + 3000, at.y + 3000))
    return kdb.Box(first, second)


MUTANTS: dict[str, tuple[Mutation, set[str]]] = {
    "contact without vias": (lose_vias, {"heater"}),
    "contact without metal2, open": (lose_metal2, {"heater"}),
    "contact without metal2, vias bare": (lose_metal2, {"extraction.via"}),
    "via not on metal2": (lose_metal2_over_one_via, {"extraction.via"}),
    "via not on metal1": (lose_metal1_under_one_via, {"extraction.via"}),
    "contacts of a heater joined in metal1": (join_contacts, {"extraction.short"}),
    "pads joined through metal1": (join_pads, {"short", "extraction.short"}),
}


def test_the_chip_matches(tmp_path: Path) -> None:
    result = lvs(original()[0], tmp_path)
    assert result.differences == ()
    assert result.match


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_reported_at_its_position(name: str, tmp_path: Path) -> None:
    mutation, kinds = MUTANTS[name]
    shapes = dict(original()[0])
    where = mutation(shapes).enlarged(2000, 2000)
    result = lvs(shapes, tmp_path)
    assert not result.match
    positions = [d.position_um for d in result.differences if d.kind in kinds and d.position_um is not None]
    assert any(where.contains(kdb.Point(round(x * 1000), round(y * 1000))) for x, y in positions), result.differences


def test_metals_that_cross_without_vias_are_not_joined(tmp_path: Path) -> None:
    shapes = dict(original()[0])
    join_pads(shapes)
    shapes["via"] = original()[0]["via"]
    assert lvs(shapes, tmp_path).differences == ()


def wires(shapes: Regions, folder: Path, via_ohm: float | None) -> np.ndarray:
    """Resistances of all heaters' wires for vias of a resistance times area."""
    lvs(shapes, folder)
    ohm = None if via_ohm is None else Quantity(via_ohm, "default")
    via = PROCESS.contact.via
    assert via is not None
    contact = PROCESS.contact.model_copy(update={"via": via.model_copy(update={"ohm_um2": ohm})})
    circuit = extract(folder / "chip.gds", PROCESS.model_copy(update={"contact": contact})).circuit
    found = circuit.settings["wire_ohm"]
    return found[~np.isnan(found)]


def test_vias_of_both_contacts_are_in_a_heaters_wires(tmp_path: Path) -> None:
    shapes = {name: region.dup() for name, region in original()[0].items()}
    contact = first_contact(shapes)[1]
    vias = shapes["via"].inside(kdb.Region(contact)).count()
    # squares of 3 by 3
    assert vias > 1
    with_ohm, without = wires(shapes, tmp_path, 18.0), wires(shapes, tmp_path, None)
    np.testing.assert_allclose(with_ohm - without, 2 * 18 / 9 / vias, rtol=1e-9)
    gone = min(shapes["via"].inside(kdb.Region(contact)).each(), key=str).bbox()
    shapes["via"] -= kdb.Region(gone)
    change = wires(shapes, tmp_path, 18.0) - with_ohm
    assert np.sort(change)[-1] == pytest.approx(18 / 9 * (1 / (vias - 1) - 1 / vias))
    assert np.sort(change)[-2] == pytest.approx(0, abs=1e-9)
