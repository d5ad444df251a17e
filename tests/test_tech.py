"""Cells that gdsfactory's own functions draw belong to the PDK that was active: no other PDK gets them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import gdsfactory as gf
import klayout.db as kdb
import pytest

from optinc_pdk import get_pdk
from optinc_pdk.tech import LAYOUT_LOCK, activated, move_layers

LENGTH = 7.321
WIDTHS = {"generic": 0.5, "soi220": 0.45, "soi220_two_metal": 0.5}


@pytest.fixture(autouse=True)
def _no_cells() -> Iterator[None]:
    """Delete the cells of other tests: the generic PDK would find them after it is activated by itself."""
    gf.clear_cache()
    yield
    get_pdk().activate()


def pdk(name: str) -> gf.Pdk:
    return gf.gpdk.PDK if name == "generic" else get_pdk(name)


def straight() -> gf.Component:
    return gf.components.straight(length=LENGTH)


@gf.cell
def own_cell(length: float = LENGTH) -> gf.Component:
    """A user's cell, whose content depends on the active PDK."""
    component = gf.Component()
    component << gf.get_component("straight", length=length)
    return component


@pytest.mark.parametrize("first", WIDTHS)
@pytest.mark.parametrize("second", ["soi220", "soi220_two_metal"])
def test_a_cell_has_the_guide_of_the_pdk_that_is_active(first: str, second: str) -> None:
    pdk(first).activate(force=True)
    drawn = straight(), own_cell()
    pdk(second).activate()
    again = straight(), own_cell()
    assert [each.dbbox().height() for each in again] == [WIDTHS[second]] * 2
    assert (again[0] is drawn[0]) == (first == second)
    for each, other in zip(drawn, again, strict=True):
        assert not each.destroyed()
        assert each.dbbox().height() == WIDTHS[first]
        assert (each.name == other.name) == (first == second)


def test_a_pdk_gets_its_cells_and_their_names_back() -> None:
    ours = get_pdk("soi220")
    ours.activate()
    first = straight()
    name = first.name
    with activated(gf.gpdk.PDK):
        other = straight()
        assert other.dbbox().height() == WIDTHS["generic"]
        assert (other.name, first.name.startswith(f"{name}$soi220")) == (name, True)
    assert straight() is first
    assert first.name == name
    assert other.name != name
    with activated(gf.gpdk.PDK):
        assert straight() is other


def test_cells_drawn_after_another_pdk_was_activated_by_itself_are_not_kept() -> None:
    get_pdk("soi220").activate()
    ours = straight()
    # gdsfactory does not tell that its PDK becomes active, and finds the cell of the other
    gf.gpdk.PDK.activate(force=True)
    assert straight().dbbox().height() == WIDTHS["soi220"]
    with LAYOUT_LOCK, activated(get_pdk("soi220")):
        redrawn = straight()
        assert redrawn is not ours
        assert redrawn.dbbox().height() == WIDTHS["soi220"]
    assert straight().dbbox().height() == WIDTHS["generic"]


def test_cells_of_this_package_keep_their_names() -> None:
    ours = get_pdk("soi220")
    ours.activate()
    crossing = gf.get_component("crossing")
    name = crossing.name
    with activated(gf.gpdk.PDK):
        assert crossing.name == name
    assert gf.get_component("crossing") is crossing


def test_a_pdk_of_the_same_name_is_activated() -> None:
    other = gf.Pdk(name="soi220", layers=gf.gpdk.LAYER, cross_sections=dict(gf.gpdk.PDK.cross_sections))
    ours = get_pdk("soi220")
    ours.activate()
    with activated(other):
        assert gf.get_active_pdk() is other
    assert gf.get_active_pdk() is ours


def test_a_pdk_gets_the_indices_of_its_layers_back() -> None:
    get_pdk("soi220").activate(force=True)
    layout, layers = gf.kcl.layout, list(cast(Any, gf.gpdk.LAYER))
    # gdsfactory has deleted the empty layers of its own PDK; others take their indices and get shapes
    first, second, *_ = (layer for layer in layers if not layout.is_valid_layer(int(layer)))
    foreign = kdb.LayerInfo(4321, 7)
    component = gf.Component()
    for index, info in ((first, foreign), (second, kdb.LayerInfo(first.layer, first.datatype))):
        layout.insert_layer_at(int(index), info)
        component.shapes(int(index)).insert(kdb.Box(0, 0, 10, 10 + int(index)))
    component.locked = True
    with activated(gf.gpdk.PDK):
        assert all(layout.find_layer(layer.layer, layer.datatype) == int(layer) for layer in layers)
        assert component.locked
        for index, height in ((layout.find_layer(foreign), 10 + int(first)), (int(first), 10 + int(second))):
            assert component.kdb_cell.bbox(index) == kdb.Box(0, 0, 10, height)
    assert all(layout.find_layer(*layer) == int(layer) for layer in cast(Any, gf.get_active_pdk().layers))
    component.delete()


def test_layers_of_a_process_at_other_indices_keep_their_shapes() -> None:
    ours = get_pdk("soi220")
    ours.activate(force=True)
    layout, core = gf.kcl.layout, ours.process.gds_layers["core"]
    cells = [gf.Component() for _ in range(3)]
    for cell in cells:
        cell.shapes(layout.layer(*core)).insert(kdb.Box(0, 0, 10, 10))
    cells[1].locked = True
    move_layers([(layout.layer(*core), max(layout.layer_indexes()) + 1)])
    ours.activate(force=True)
    for cell in cells:
        assert cell.kdb_cell.bbox(layout.layer(*core)) == kdb.Box(0, 0, 10, 10)
        cell.delete()
