"""Metadata about ports: kfactory reads them, polygons stay the same, and checks do not see them."""

from __future__ import annotations

from pathlib import Path

import kfactory as kf
import klayout.db as kdb
import pytest

from optinc_pdk.assemble import draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_netlist, write_netlist
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, lay_out, to_layout, write_gds
from optinc_pdk.networks import carry_chain, linked_network
from optinc_pdk.signoff.drc.design_rule_check import check_chip
from optinc_pdk.signoff.lvs.comparison import compare

NAMES = ("soi220", "soi220_flipchip")


@pytest.fixture(scope="module", params=NAMES)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ChipLayout, Path]:
    """Process, layout, and the folder with the chip with and without metadata."""
    process, folder = load_process(request.param), tmp_path_factory.mktemp("chip")
    network = linked_network(carry_chain(Averaging(2, 2, 1)), process.link.kind == "neurons")
    circuit, chip = lay_out(draft_circuit(network, process, "tiny"), process)
    write_gds(to_layout(chip, process, "tiny"), folder / "bare" / "tiny.gds")
    write_gds(to_layout(chip, process, "tiny", port_metadata=True), folder / "ports" / "tiny.gds")
    write_netlist(circuit, folder / "tiny.pic.yml")
    return request.param, chip, folder


def test_kfactory_reads_fibres_pads_and_the_ports_of_devices(written: tuple[str, ChipLayout, Path]) -> None:
    name, chip, folder = written
    read = kf.KCLayout(f"read_{name}")
    read.read(folder / "ports" / "tiny.gds")
    top = {port.name: port for port in read["tiny"].ports}
    assert len(top) == len(chip.ports) > 0
    for port in chip.ports:
        found = top[port.label]
        at = found.dcplx_trans.disp
        assert (at.x, at.y) == pytest.approx((port.x, port.y), abs=1e-3)
        assert found.dcplx_trans.angle % 360 == port.angle % 360
        assert (found.port_type == "electrical") == (port.component in ("pad", "bump"))
    # each label of the layout at a fibre or pad is the name of a port
    layout = kdb.Layout()
    layout.read(str(folder / "bare" / "tiny.gds"))
    labels = layout.layer(*load_process(name).gds_layers["label"])
    assert set(top) <= {shape.text_string for shape in layout.top_cell().shapes(labels).each()}
    # the cells of several processes in one Python process have a suffix
    (cell,) = [cell for cell in read.kcells.values() if cell.name.startswith("mmi1x2")]
    splitter = {port.name: port for port in cell.ports}
    assert set(splitter) == {"o1", "o2", "o3"}
    assert {port.port_type for port in splitter.values()} == {"optical"}
    assert splitter["o1"].width == pytest.approx(1e3 * float(load_process(name).guide.width_um))


@pytest.mark.full(every=2)
def test_checks_do_not_see_the_metadata(written: tuple[str, ChipLayout, Path]) -> None:
    name, _, folder = written
    process = load_process(name)
    netlist = read_netlist(folder / "tiny.pic.yml")
    results = []
    for kind in ("bare", "ports"):
        extraction = extract(folder / kind / "tiny.gds", process)
        lvs, drc = compare(netlist, extraction, process), check_chip(folder / kind / "tiny.gds", process)
        assert lvs.match and drc.clean
        rules = [(rule.rule.id, [str(marker) for marker in rule.markers]) for rule in drc.rules]
        write_netlist(extraction.circuit, folder / "extracted.yml")
        found = (folder / "extracted.yml").read_bytes()
        results.append((lvs.devices, lvs.nets, found, extraction.faults, extraction.silicon, rules))
    assert results[0] == results[1]


def test_the_polygons_are_the_same_and_files_are_reproducible(written: tuple[str, ChipLayout, Path]) -> None:
    name, chip, folder = written
    bare, ports = kdb.Layout(), kdb.Layout()
    bare.read(str(folder / "bare" / "tiny.gds"))
    ports.read(str(folder / "ports" / "tiny.gds"))
    assert not list(bare.top_cell().each_meta_info()) and list(ports.top_cell().each_meta_info())
    assert kdb.LayoutDiff().compare(bare, ports, kdb.LayoutDiff.DontSummarizeMissingLayers)
    process = load_process(name)
    write_gds(to_layout(chip, process, "tiny", port_metadata=True), folder / "again.gds")
    assert (folder / "again.gds").read_bytes() == (folder / "ports" / "tiny.gds").read_bytes()
