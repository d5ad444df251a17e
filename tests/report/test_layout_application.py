"""The layout in the report's page: what it contains, and how it behaves in a browser without window."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import klayout.db as kdb
import pytest
from chromium_driver import CHROMIUM, Browser, chromium

from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import Bias, read_bias, read_netlist
from optinc_pdk.flow import build
from optinc_pdk.onn import carry_chain

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install chromium")
WIDTHS = (1440, 390)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small chip, in the folder of its build."""
    folder = tmp_path_factory.mktemp("small")
    assert build(carry_chain(Averaging(2, 4, 1)), folder, "small").passed
    return folder / "small.report.html"


def data_text(page: Path) -> str:
    found = re.search(r"id=layout-data>([^<]*)<", page.read_text())
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def data(page: Path) -> dict[str, Any]:
    """The data that the page contains."""
    unpacked: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(data_text(page))))
    return unpacked


def beside(page: Path, ending: str) -> Path:
    return page.with_name("small" + ending)


def test_the_polygons_are_those_of_the_layout(page: Path, data: dict[str, Any]) -> None:
    layout = kdb.Layout()
    layout.read(str(beside(page, ".gds")))
    top = layout.top_cell()
    count = {layer["name"]: 0 for layer in data["layers"]}
    for cell in data["cells"]:
        for layer in cell["layers"]:
            count[data["layers"][layer]["name"]] += len(cell["placements"][0])
    for name, layer in {"core": (3, 0), "heater": (39, 0), "metal": (41, 0)}.items():
        assert count[name] == kdb.Region(top.begin_shapes_rec(layout.layer(*layer))).count() > 0
    assert "label" not in count


def test_every_heater_states_its_bias(page: Path, data: dict[str, Any]) -> None:
    bias: Bias = read_bias(beside(page, ".bias.yml"))
    heaters = {item["facts"]["Pad"]: item for item in data["items"] if item["kind"] == "heater"}
    assert sorted(heaters) == sorted(bias.labels)
    names = set()
    for label, phase, power, voltage in zip(bias.labels, bias.phase_rad, bias.power_w, bias.voltage_v, strict=True):
        values = heaters[label]["values"]
        assert math.isclose(values["phase"], phase, abs_tol=1e-6)
        assert math.isclose(values["power"], 1e3 * power, abs_tol=1e-6)
        assert math.isclose(values["voltage"], voltage, abs_tol=1e-6)
        names.add(heaters[label]["name"])
    assert len(names) == len(heaters)
    assert all("Netlist instance" in heater["facts"] for heater in heaters.values())


def test_every_label_of_the_netlist_can_be_chosen(page: Path, data: dict[str, Any]) -> None:
    labels = {item["name"] for item in data["items"] if item["kind"] in ("pad", "fibre")}
    assert labels >= set(read_netlist(beside(page, ".pic.yml")).ports)


def test_every_guide_has_polygons_and_its_loss(page: Path, data: dict[str, Any]) -> None:
    guides = data["guides"]
    owned = {owner for owners in guides["owners"] for owner in owners}
    assert owned - {-1} | {stub[0] for stub in guides["stubs"]} == set(range(len(guides["ends"])))
    assert -1 in owned
    core = [layer["name"] for layer in data["layers"]].index("core")
    for cell, owners in zip(data["cells"], guides["owners"], strict=True):
        assert len(owners) == cell["layers"].count(core) * len(cell["placements"][0])
    for length, loss in zip(guides["length_um"], guides["loss_db"], strict=True):
        assert math.isclose(loss, 3.0 * length * 1e-4, abs_tol=1e-6)


def test_the_same_chip_gives_the_same_bytes(page: Path, tmp_path: Path) -> None:
    assert build(carry_chain(Averaging(2, 4, 1)), tmp_path, "small").passed
    assert data_text(tmp_path / "small.report.html") == data_text(page)


def test_the_page_is_small_and_states_the_licence_of_the_library(page: Path) -> None:
    html = page.read_text()
    assert len(html) < 1_000_000
    assert "BSD 2-Clause License" in html and "Leaflet 1.9.4" in html
    assert "sourceMappingURL" not in html


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(params=WIDTHS)
def shown(request: pytest.FixtureRequest, browser: Browser, page: Path) -> Iterator[Browser]:
    """The page in a window of 1440 and of 390 pixels; nothing is logged, and nothing else requested."""
    browser.console.clear()
    browser.requests.clear()
    browser.open(page, request.param, 900)
    browser.wait("document.getElementById('layout-view').dataset.drawn === 'true'")
    yield browser
    browser.evaluate("new Promise(requestAnimationFrame)")
    assert browser.console == []
    assert browser.requests == [page.resolve().as_uri()]


def text(browser: Browser, name: str) -> str:
    found: str = browser.evaluate(f"document.getElementById('layout-{name}').textContent")
    return found


def find(browser: Browser, name: str) -> None:
    """Look a part of the layout up by its name."""
    browser.evaluate(f"document.getElementById('layout-find').value = {json.dumps(name)}")
    browser.evaluate("document.getElementById('layout-search').requestSubmit()")


def click_middle(browser: Browser) -> None:
    box = browser.evaluate(
        "(() => { const map = document.getElementById('layout-map'); map.scrollIntoView({block: 'center'});"
        "const box = map.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    browser.click(*box)


def painted(browser: Browser) -> int:
    """Number of pixels of the tiles that are painted."""
    browser.evaluate("new Promise((done) => setTimeout(done, 300))")
    count: int = browser.evaluate(
        "[...document.querySelectorAll('#layout-map .leaflet-tile')].reduce((sum, tile) => sum + "
        "tile.getContext('2d').getImageData(0, 0, tile.width, tile.height).data.filter((v, i) => i % 4 === 3 && v)"
        ".length, 0)"
    )
    return count


@needs_chromium
def test_the_page_fits_the_window_and_hides_the_pictures(shown: Browser) -> None:
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert shown.evaluate("[...document.querySelectorAll('.static-layout')].every((each) => each.hidden)")
    assert shown.evaluate(
        "[...document.querySelectorAll('#layout-view input, #layout-view select')].every((e) => e.labels.length)"
    )
    assert painted(shown) > 1000


@needs_chromium
def test_a_click_states_what_was_clicked(shown: Browser, data: dict[str, Any]) -> None:
    heater = next(item for item in data["items"] if item["kind"] == "heater")
    pad = next(
        item for item in data["items"] if item["kind"] == "pad" and "heater" in item["facts"].get("Function", "")
    )
    for item in (heater, pad):
        find(shown, f"{item['kind']} {item['name']}")
        chosen, facts = text(shown, "chosen"), text(shown, "facts")
        assert chosen == f"{item['kind']} {item['name']}"
        assert all(value in facts for value in item["facts"].values())
        find(shown, "no such part")
        assert "No part of the layout" in text(shown, "chosen")
        # the part that was found is in the middle
        click_middle(shown)
        assert (text(shown, "chosen"), text(shown, "facts")) == (chosen, facts)


@needs_chromium
def test_a_guide_is_chosen_by_a_click_on_its_silicon(shown: Browser, data: dict[str, Any]) -> None:
    core = [layer["name"] for layer in data["layers"]].index("core")
    cell, owners = data["cells"][0], data["guides"]["owners"][0]
    assert [len(cell["placements"][0]), cell["placements"][1:]] == [1, [[0], [0]]]
    silicon = [points for points, layer in zip(cell["polygons"], cell["layers"], strict=True) if layer == core]
    # a guide that is one straight polygon of the top cell: it fills the box around it
    counts = {owner: sum(each.count(owner) for each in data["guides"]["owners"]) for owner in owners if owner >= 0}
    guide = next(o for o, points in zip(owners, silicon, strict=True) if len(points) == 8 and counts.get(o) == 1)
    name = "guide " + " – ".join(data["guides"]["ends"][guide])
    find(shown, name)
    assert text(shown, "chosen") == name
    assert f"{data['guides']['length_um'][guide]} µm" in text(shown, "facts")
    find(shown, "no such part")
    click_middle(shown)
    assert text(shown, "chosen") == name


@needs_chromium
def test_a_click_on_a_shape_without_a_name_states_its_layer(shown: Browser, data: dict[str, Any]) -> None:
    metal = next(layer["title"] for layer in data["layers"] if layer["name"] == "metal")
    find(shown, "pad GND0")
    shown.evaluate("document.getElementById('layout-map').scrollIntoView({block: 'center'})")
    left, top, width, height = shown.evaluate(
        "(({x, y, width, height}) => [x, y, width, height])"
        "(document.getElementById('layout-map').getBoundingClientRect())"
    )
    said = set()
    for row in range(1, 12):
        for column in range(1, 12):
            shown.click(left + width * column / 12, top + height * row / 12)
            said.add(text(shown, "chosen"))
    assert {"Nothing is here", f"{metal}: no device, guide, pad or fibre"} <= said


@needs_chromium
def test_layers_and_overlays_change_the_picture(shown: Browser) -> None:
    toggle = "document.querySelector('#layout-layers input[data-layer=\"metal\"]').click()"
    shown.evaluate(toggle)
    without = painted(shown)
    shown.evaluate(toggle)
    assert painted(shown) > without
    shown.evaluate(toggle)
    assert painted(shown) == without
    overlay = "document.querySelector('#layout-map canvas.leaflet-zoom-animated')"
    for name in ("pad", "fibre", "dies"):
        shown.evaluate(f"document.querySelector('#layout-overlays input[data-overlay=\"{name}\"]').click()")
    shown.evaluate("new Promise((done) => setTimeout(done, 300))")
    assert shown.evaluate(f"{overlay}.getContext('2d').getImageData(0, 0, 2000, 2000).data.some((value) => value)")
    for quantity in ("power", "phase", "voltage"):
        shown.evaluate(
            f"(() => {{ const s = document.getElementById('layout-heaters'); s.value = '{quantity}';"
            "s.dispatchEvent(new Event('change')); })()"
        )
        assert not shown.evaluate("document.getElementById('layout-legend').hidden")
        assert text(shown, "high").endswith({"power": "mW", "phase": "rad", "voltage": "V"}[quantity])


@needs_chromium
def test_keys_move_zoom_and_choose(shown: Browser) -> None:
    shown.evaluate("document.getElementById('layout-map').focus()")
    transform = "document.querySelector('#layout-map .leaflet-map-pane').style.transform"
    before = shown.evaluate(transform)
    shown.press("ArrowLeft", 37)
    shown.wait(f"{transform} !== {json.dumps(before)}")
    scale = text_of_scale(shown)
    shown.press("+", 187)
    shown.press("+", 187)
    shown.wait(f"document.querySelector('.leaflet-control-scale').textContent !== {json.dumps(scale)}")
    shown.press("Enter", 13)
    assert text(shown, "chosen") != "Nothing is chosen"


def text_of_scale(browser: Browser) -> str:
    found: str = browser.evaluate("document.querySelector('.leaflet-control-scale').textContent")
    return found


@needs_chromium
def test_measuring_states_the_distance(shown: Browser, data: dict[str, Any]) -> None:
    shown.evaluate("document.getElementById('layout-measure').click()")
    click_middle(shown)
    shown.evaluate("document.getElementById('layout-map').focus()")
    shown.press("ArrowRight", 39)
    shown.evaluate("new Promise((done) => setTimeout(done, 600))")
    shown.press("Enter", 13)
    found = re.match(r"Distance ([0-9.]+) µm \(x ([-0-9.]+), y ([-0-9.]+) µm\)", text(shown, "length"))
    assert found is not None
    length, dx, dy = map(float, found.groups())
    assert dx > 0 and math.isclose(length, math.hypot(dx, dy), abs_tol=0.002)
    shown.press("Escape", 27)
    assert text(shown, "length") == ""


@needs_chromium
def test_without_scripts_the_pictures_are_shown(browser: Browser, page: Path) -> None:
    browser.open(page, 1440, 900, script=False)
    document = browser.call("DOM.getDocument", depth=1)["root"]["nodeId"]

    def height(selector: str) -> float:
        node = browser.call("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        try:
            return float(browser.call("DOM.getBoxModel", nodeId=node)["model"]["height"])
        except AssertionError:
            return 0.0

    assert height(".static-layout img") > 100
    assert height("#layout-view") == 0.0
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


@needs_chromium
def test_a_finding_is_shown_and_stated(shown: Browser, data: dict[str, Any]) -> None:
    count = len(data["markers"])
    assert count > 1
    seen = set()
    for _ in range(count + 1):
        shown.evaluate("document.getElementById('layout-next').click()")
        seen.add((text(shown, "chosen"), text(shown, "facts")))
    assert seen == {(f"{one['check']} {one['name']}", f"Finding{one['text']}") for one in data["markers"]}
    assert shown.evaluate("document.querySelector('#layout-overlays input:checked') !== null")


@needs_chromium
def test_a_screen_reader_finds_landmarks_and_names(shown: Browser) -> None:
    nodes = shown.call("Accessibility.getFullAXTree")["nodes"]
    named = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    roles = {role for role, _ in named}
    assert {"main", "search", "toolbar", "application", "region"} <= roles
    for role, name in named:
        if role in ("button", "checkbox", "combobox", "searchbox", "application", "toolbar", "region", "group"):
            assert name, f"{role} without a name"
    assert ("region", "Layout") in named
    live = "document.getElementById('layout-chosen').closest('[aria-live=polite]') !== null"
    assert shown.evaluate(live)
