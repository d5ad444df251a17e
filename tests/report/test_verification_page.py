"""The layout in the page of a verification: a circuit drawn by hand, its faults, and the page in a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import klayout.db as kdb
import numpy as np
import pytest
import yaml
from chromium_driver import CHROMIUM, Browser
from circuit_faults.layouts import PROCESS, Drawn, draw

from optinc_pdk.circuit import Circuit, read_reference
from optinc_pdk.io.yaml_files import dump_yaml
from optinc_pdk.report.layout_application import DIFFERENCES, FAULTS
from optinc_pdk.report.verification_page import (
    VerifiedFiles,
    circuit_findings,
    render_verification,
    verification_layout,
)
from optinc_pdk.signoff.verification import Verification, verify

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install chromium")
DELAY = "guide split,o3 – join,o2"


def verified(gds: Path, reference: Circuit | None) -> Verification:
    return verify(gds, reference, {}, np.array([1550.0]), PROCESS, lambda _: None)


def write_page(gds: Path, reference: Circuit | None) -> Path:
    page = gds.with_suffix(".verify.html")
    page.write_text(render_verification(verified(gds, reference), VerifiedFiles(gds, None, {}), PROCESS, []))
    return page


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r"id=layout-data>([^<]*)<", page.read_text())
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return data


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return draw("mzi_heater", tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def page(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Page of the circuit against a netlist whose delay is 1 µm longer."""
    netlist = yaml.safe_load(drawn.netlist.read_text())
    for stated in ("info", "settings"):
        netlist[drawn.name]["instances"]["delay"][stated]["length"] += 1.0
    folder = tmp_path_factory.mktemp("longer")
    gds = folder / "mzi_heater.gds"
    gds.write_bytes(drawn.gds.read_bytes())
    dump_yaml(folder / "mzi_heater.pic.yml", netlist)
    return write_page(gds, read_reference(folder / "mzi_heater.pic.yml", PROCESS, drawn.name))


def test_a_guide_of_another_length_is_the_marker(page: Path) -> None:
    data = data_of(page)
    (marker,) = data["markers"]
    assert (marker["check"], marker["name"]) == (DIFFERENCES, "length")
    assert "box" not in marker
    assert sorted(data["guides"]["ends"][marker["guide"]]) == ["join,o2", "split,o3"]


def cut(drawn: Drawn, folder: Path) -> Path:
    """Write the layout with a guide that is cut."""
    layout = kdb.Layout()
    layout.read(str(drawn.gds))
    layout.flatten(layout.top_cell().cell_index(), -1, True)
    core = layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["core"]))
    rest = kdb.Region(core) - kdb.Region(kdb.DBox(256.0, -131.0, 258.0, -129.0).to_itype(layout.dbu))
    core.clear()
    core.insert(rest)
    gds = folder / "cut.gds"
    layout.write(str(gds))
    return gds


def test_a_missing_connection_is_marked_at_its_port(drawn: Drawn, tmp_path: Path) -> None:
    gds = cut(drawn, tmp_path)
    result = verified(gds, drawn.reference)
    assert result.lvs is not None
    net = next(each for each in result.lvs.differences if each.kind == "net" and each.reference.startswith("split,o3"))
    shown = verification_layout(result, gds, PROCESS)
    assert shown is not None
    marker = next(each for each in shown.markers if each.check == DIFFERENCES and each.text == net.message)
    # the output of the splitter, not its middle
    assert net.position_um is not None
    left, _, right, top = marker.box
    assert marker.guide is None
    assert (left + right) / 2000 > net.position_um[0] + 10.0
    assert top / 1000 < net.position_um[1] + 2.0


def test_a_fault_that_is_a_difference_is_counted_once(drawn: Drawn, tmp_path: Path) -> None:
    gds = cut(drawn, tmp_path)
    result = verified(gds, drawn.reference)
    assert result.lvs is not None
    assert [each.kind for each in result.faults].count("dangling") == 2
    count = result.lvs.total_differences
    assert [each.kind for each in result.lvs.differences].count("extraction.dangling") == 2
    page = write_page(gds, drawn.reference)
    markers = [each["check"] for each in data_of(page)["markers"]]
    separate = markers.count(FAULTS)
    assert len(circuit_findings(result)) == count + separate
    assert f">{separate} fault{'s' * (separate != 1)}<" in page.read_text()
    assert f">{count} differences<" in page.read_text()


def test_items_have_the_names_of_the_netlist_or_else_of_the_extraction(drawn: Drawn) -> None:
    with_netlist = verification_layout(verified(drawn.gds, drawn.reference), drawn.gds, PROCESS)
    alone = verification_layout(verified(drawn.gds, None), drawn.gds, PROCESS)
    assert with_netlist is not None and alone is not None
    assert {"heater.phase_shifter", "split", "join", "drive", "GND", "in", "out"} <= {
        item.name for item in with_netlist.items
    }
    fibres = [item.name for item in alone.items if item.kind == "fibre"]
    assert len(fibres) == 2 and all(name.startswith("grating_coupler") for name in fibres)
    assert "phase_shifter_0" in {item.name for item in alone.items}
    assert len(alone.guides.ends) == len(with_netlist.guides.ends) > 0


def test_a_layout_of_texts_only_has_a_page_without_scripts(tmp_path: Path) -> None:
    layout = kdb.Layout()
    labels = layout.create_cell("texts").shapes(layout.layer(*PROCESS.gds_layers["label"]))
    for x in (0.0, 50.0):
        labels.insert(kdb.DText("a", kdb.DTrans(kdb.DVector(x, x))))
    layout.write(str(tmp_path / "texts.gds"))
    result = verified(tmp_path / "texts.gds", None)
    assert verification_layout(result, tmp_path / "texts.gds", PROCESS) is None
    html = write_page(tmp_path / "texts.gds", None).read_text()
    assert "<script" not in html and "static-layout" in html and "core.width" in html


def text(browser: Browser, name: str) -> str:
    found: str = browser.evaluate(f"document.getElementById('layout-{name}').textContent")
    return found


def click_middle(browser: Browser) -> None:
    box = browser.evaluate(
        "(() => { const map = document.getElementById('layout-map'); map.scrollIntoView({block: 'center'});"
        "const box = map.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    browser.click(*box)


def clicked_down_the_middle(browser: Browser) -> set[str]:
    """Return what clicks from the top to the bottom of the whole layout choose, the delay's middle among them."""
    browser.evaluate("document.getElementById('layout-whole').click()")
    at = browser.evaluate(
        "(() => { const map = document.getElementById('layout-map'); map.scrollIntoView({block: 'center'});"
        "const box = map.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; })()"
    )
    said = set()
    for row in range(5, 100, 3):
        browser.click(at[0] + at[2] / 2, at[1] + at[3] * row / 100)
        said.add(text(browser, "chosen"))
    return said


@needs_chromium
def test_the_faulty_guide_is_marked_and_chosen(shown: Browser) -> None:
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert shown.evaluate("document.querySelector('.static-layout').hidden")
    # there is no bias, by which heaters could be coloured
    assert shown.evaluate("document.querySelector('#layout-view select') === null")
    cells = "[...document.querySelectorAll('.stacked tbody th, .stacked td')].filter((cell) => cell.offsetParent)"
    assert shown.evaluate(f"{cells}.length") > 12
    assert shown.evaluate(f"{cells}.every((cell) => cell.getBoundingClientRect().right <= window.innerWidth)")
    # markers are shown without a click
    assert shown.evaluate("document.querySelector('#layout-overlays input:checked') !== null")
    shown.evaluate("document.getElementById('layout-next').click()")
    said = (text(shown, "chosen"), text(shown, "facts"))
    assert said[0] == f"{DIFFERENCES} length" and "join,o3 - split,o3 is" in said[1]
    shown.evaluate("document.getElementById('layout-find').value = 'no such part'")
    shown.evaluate("document.getElementById('layout-search').requestSubmit()")
    # the delay is the lower edge of its bounding box, around whose middle there is nothing
    click_middle(shown)
    assert text(shown, "chosen") == "Nothing is here"
    shown.evaluate("document.querySelector('#layout-overlays input:checked').click()")
    shown.evaluate(f"document.getElementById('layout-find').value = {json.dumps(DELAY)}")
    shown.evaluate("document.getElementById('layout-search').requestSubmit()")
    assert text(shown, "chosen") == DELAY


@needs_chromium
def test_a_click_on_the_faulty_guide_states_the_finding(shown: Browser) -> None:
    assert f"{DIFFERENCES} length" in clicked_down_the_middle(shown)


@needs_chromium
def test_blocks_are_the_devices_and_a_guide_is_hidden_with_both_ends(shown: Browser) -> None:
    names = "[...document.querySelectorAll('#layout-tree > li > .block')].map((each) => each.textContent)"
    assert shown.evaluate(names) == ["heater.phase_shifter", "join", "split", "pads (2)", "fibres (2)"]
    # the marker of the delay is drawn and chosen also while the delay is hidden
    click = "[...document.querySelectorAll('#layout-tree > li')].filter((row) => NAMES.includes("
    click += "row.querySelector('.block').textContent)).forEach((row) => row.querySelector('input').click())"
    shown.evaluate(click.replace("NAMES", '["join", "split"]'))
    assert f"{DIFFERENCES} length" in clicked_down_the_middle(shown)
    shown.evaluate("document.querySelector('#layout-overlays input:checked').click()")
    assert not {DELAY, f"{DIFFERENCES} length"} & clicked_down_the_middle(shown)
    shown.evaluate(click.replace("NAMES", '["join"]'))
    assert DELAY in clicked_down_the_middle(shown)


def test_fibres_state_their_instance_in_the_netlist(page: Path) -> None:
    fibres = [item for item in data_of(page)["items"] if item["kind"] == "fibre"]
    assert sorted(item["facts"]["Netlist instance"] for item in fibres) == ["in", "out"]


@needs_chromium
def test_without_scripts_the_pictures_are_shown(browser: Browser, page: Path) -> None:
    browser.open(page, 1440, 900, script=False)
    document = browser.call("DOM.getDocument", depth=1)["root"]["nodeId"]
    node = browser.call("DOM.querySelector", nodeId=document, selector=".static-layout img")["nodeId"]
    assert browser.call("DOM.getBoxModel", nodeId=node)["model"]["height"] > 100
    view = browser.call("DOM.querySelector", nodeId=document, selector="#layout-view")["nodeId"]
    with pytest.raises(AssertionError, match="box model"):
        browser.call("DOM.getBoxModel", nodeId=view)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
