"""Every cell passes DRC, with guides at its ports as on a chip, and is extracted without faults."""

from pathlib import Path

import gdsfactory as gf
import pytest

from optinc_pdk.cards import Process, load_process
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.extract import extract
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc

PROCESS = load_process()
# Rules of whole chips.
CHIP_RULES = ("chip.outline", "chip.size", "chip.edge")
# A cell whose ports are too close for guides that go straight on.
CLOSE_PORTS = "coupler_straight"

# In the other process: cells that are not composed of devices that the tests of its chips cover.
SECOND = (
    "activation_offchip",
    "activation_onchip",
    "coupler",
    "crossing",
    "cutback",
    "directional_coupler",
    "edge_coupler",
    "fibre_array",
    "heater_test",
    "mesh",
    "monitor_tap",
    "ring_double",
    "splitter_tree",
    "taper",
)
DRAWN = [(PROCESS.name, name) for name in cells_of(PROCESS)] + [("soi220_two_metal", name) for name in SECOND]


def with_guides(name: str, guide: str = "straight", process: Process = PROCESS) -> gf.Component:
    """Return a cell with a straight, or another cell with port o1, at each port of a guide's width."""
    c = gf.Component()
    inside = c << CELLS[name]()
    for port in inside.ports:
        if name == CLOSE_PORTS and guide != "straight":
            bend = c << CELLS["bend_s"](size=(30.0, 6.0 if port.name in ("o1", "o3") else -6.0))
            bend.connect("o1", port)
            port = bend["o2"]
        if port.port_type == "optical" and port.width == process.guide.width_um:
            (c << CELLS[guide]()).connect("o1", port)
        # a corner alone is smaller than the smallest metal shape
        if name == "wire_corner":
            (c << CELLS["wire_straight"]()).connect("e1", port)
    return c


@pytest.mark.full(every=4)
@pytest.mark.parametrize(("process", "name"), DRAWN)
def test_a_cell_passes_drc(process: str, name: str, tmp_path: Path) -> None:
    get_pdk(process).activate()
    card = load_process(process)
    drawn = CELLS[name]() if name == CLOSE_PORTS else with_guides(name, process=card)
    drawn.write_gds(tmp_path / "cell.gds", with_metadata=False)
    rules = [rule for rule in card.rules if rule.id not in CHIP_RULES]
    result = run_drc(tmp_path / "cell.gds", rules, card.gds_layers)
    assert {found.id: [str(box) for box in found.boxes_um] for found in result.rules if found.violations} == {}


@pytest.mark.full(every=2)
@pytest.mark.parametrize(("process", "name"), DRAWN)
def test_a_cell_is_extracted_without_faults(process: str, name: str, tmp_path: Path) -> None:
    get_pdk(process).activate()
    card = load_process(process)
    with_guides(name, "terminator", card).write_gds(tmp_path / "cell.gds", with_metadata=False)
    assert extract(tmp_path / "cell.gds", card).faults == ()


def test_coupled_guides_without_their_marker_layer_violate_the_spacing_rule(tmp_path: Path) -> None:
    c = with_guides("directional_coupler").dup()
    c.flatten()
    c.shapes(c.kcl.layer(*PROCESS.gds_layers["coupled"])).clear()
    c.write_gds(tmp_path / "cell.gds", with_metadata=False)
    result = run_drc(tmp_path / "cell.gds", PROCESS.rules, PROCESS.gds_layers)
    assert next(found for found in result.rules if found.id == "core.guide_space").violations > 0
