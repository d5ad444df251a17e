"""What can be chosen in a layout that differs from its netlist, and without a bias."""

from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_netlist
from optinc_pdk.extract import extract
from optinc_pdk.networks import carry_chain
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.report.extracted_names import ExtractedNames
from optinc_pdk.report.layout_application import LayoutData, layer_titles, read_process_shapes
from optinc_pdk.report.layout_guides import layout_guides
from optinc_pdk.report.layout_items import LayoutItem, layout_items
from optinc_pdk.report.layout_markers import DIFFERENCES, FAULTS, layout_markers
from optinc_pdk.report.pinout import read_pinout
from optinc_pdk.signoff.drc.design_rule_check import DrcResult
from optinc_pdk.signoff.layout_faults import layout_faults_of
from optinc_pdk.signoff.lvs.comparison import compare


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> LayoutData:
    """A small chip without one of its splitters and one of its guides."""
    folder, process = tmp_path_factory.mktemp("damaged"), load_process()
    assert build(carry_chain(Averaging(2, 4, 1)), folder, BuildOptions(name="small")).passed
    layout = kdb.Layout()
    layout.read(str(folder / "small.gds"))
    top = layout.top_cell()
    top.erase(next(each for each in top.each_inst() if each.cell.name == "mmi1x2"))
    silicon = top.shapes(layout.layer(*process.gds_layers["core"]))
    silicon.erase(next(silicon.each()))
    gds = Path(folder, "damaged.gds")
    layout.write(str(gds))
    extraction, netlist = extract(gds, process), read_netlist(folder / "small.pic.yml")
    lvs = compare(netlist, extraction, process)
    assert not lvs.match
    names, pinout = ExtractedNames.of(extraction, netlist, lvs), read_pinout(extraction, netlist, lvs, process)
    shapes = read_process_shapes(gds, process)
    guides = layout_guides(extraction, names, shapes, process)
    return LayoutData(
        shapes,
        layer_titles(shapes, process),
        layout_items(extraction, names, pinout, process),
        guides,
        layout_markers(DrcResult("", "", (), ()), (), lvs, layout_faults_of(extraction.faults), guides),
        pinout.dies,
    )


def of_kind(data: LayoutData, kind: str) -> list[LayoutItem]:
    return [item for item in data.items if item.kind == kind]


@pytest.mark.full
def test_a_layout_that_differs_from_its_netlist_has_items_and_markers(damaged: LayoutData) -> None:
    assert {DIFFERENCES, FAULTS} <= {marker.check for marker in damaged.markers}
    assert of_kind(damaged, "heater") and of_kind(damaged, "pad") and of_kind(damaged, "fibre")
    assert damaged.guides.ends


def test_heaters_without_bias_state_no_voltage(damaged: LayoutData) -> None:
    for heater in of_kind(damaged, "heater"):
        assert heater.values == {} and "values" not in heater.to_json()
        assert {"Netlist instance", "Pad", "Resistance", "Length", "Loss"} <= set(heater.facts)
        assert not {"Phase", "Power", "Voltage", "Current"} & set(heater.facts)


def test_items_are_within_the_layout(damaged: LayoutData) -> None:
    left, bottom, right, top = damaged.shapes.box
    for item in damaged.items:
        assert left <= item.box[0] < item.box[2] <= right and bottom <= item.box[1] < item.box[3] <= top
