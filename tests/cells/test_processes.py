"""Cells of several processes: each has the layers and sizes of the active process, whichever was active before."""

import json

import gdsfactory as gf
import klayout.db as kdb
import pytest

from optinc_pdk.cards import load_process, process_names
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.cells.drawing import add_contact
from optinc_pdk.cells.golden_files import GOLDEN_DEVICES, golden_data
from optinc_pdk.pdk import get_pdk

TWO = load_process("soi220_two_metal")


def layers(component: gf.Component) -> set[tuple[int, int]]:
    """Return the layers on which a cell or one of its sub-cells has shapes."""
    infos = component.kcl.layout.layer_infos()
    indexes = {(info.layer, info.datatype): component.kcl.layout.find_layer(info) for info in infos}
    return {gds for gds, index in indexes.items() if not component.begin_shapes_rec(index).at_end()}


@pytest.mark.full(every=6)
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_drawn_for_the_active_process(name: str) -> None:
    drawn = {}
    for process in (*process_names(), *process_names()):
        get_pdk(process).activate()
        if name not in cells_of(load_process(process)):
            continue
        component = CELLS[name]()
        assert layers(component) <= set(load_process(process).gds_layers.values())
        assert len(component.name) <= 32
        # when the process is active again, the cell is the same component
        assert drawn.setdefault(process, component) is component
    assert len({component.name for component in drawn.values()}) == len(drawn)


GOLDEN = [
    (process, name) for process in process_names() for name in GOLDEN_DEVICES if name in load_process(process).devices
]


@pytest.mark.parametrize(("process", "name"), GOLDEN)
def test_committed_golden_polygons_equal_the_cells_of_every_process(process: str, name: str) -> None:
    get_pdk(process).activate()
    card = load_process(process)
    (path,) = card.files(f"golden/{name}.json")
    assert json.loads(path.read_text()) == golden_data(card, name), "the cell has changed: make golden"


def vias(width_um: float, height_um: float) -> list[kdb.DBox]:
    """Return the vias of a contact whose lower left corner is at the origin; checks that its metals fill it."""
    get_pdk(TWO.name).activate()
    c = gf.Component()
    add_contact(c, (0.0, 0.0, width_um, height_um))
    drawn = {name: kdb.Region(c.begin_shapes_rec(c.kcl.layer(*TWO.layers[name].gds))) for name in TWO.contact.layers}
    whole = kdb.Region(kdb.DBox(0, 0, width_um, height_um).to_itype(0.001))
    assert all((drawn[metal] ^ whole).is_empty() for metal in TWO.contact.metals)
    return sorted(polygon.bbox().to_dtype(0.001) for polygon in drawn["via"].each())


def test_a_contact_has_as_many_vias_as_fit() -> None:
    via = TWO.contact.via
    assert via is not None
    single = float(via.size_um + 2 * via.enclosure_um)
    pitch = float(via.size_um + via.space_um)
    assert vias(single, single) == [kdb.DBox(0.5, 0.5, 3.5, 3.5)]
    assert vias(single - 0.001, single) == []
    assert len(vias(single + pitch, single)) == 2
    assert len(vias(single + pitch - 0.001, single)) == 1
    # an odd remainder is rounded to the grid, and both enclosures are kept
    (left, right) = vias(single + pitch + 0.001, single)
    assert (left.left, right.right) == pytest.approx((0.5, single + pitch - 0.5))


def test_a_contact_of_one_metal_has_no_vias() -> None:
    get_pdk().activate()
    c = gf.Component()
    add_contact(c, (0.0, 0.0, 12.0, 12.0))
    assert layers(c) == {load_process().layers["metal"].gds}
