"""The layout in the report's page: what it contains, and how it behaves in a browser without window."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import klayout.db as kdb
import pytest
from chromium_driver import CHROMIUM, Browser

from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import Bias, read_bias, read_netlist
from optinc_pdk.networks import carry_chain
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install chromium")
WIDTHS = (1440, 390)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small chip, in the folder of its build."""
    folder = tmp_path_factory.mktemp("small")
    assert build(carry_chain(Averaging(2, 4, 1)), folder, BuildOptions(name="small")).passed
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


@pytest.mark.full
def test_the_same_chip_gives_the_same_bytes(page: Path, tmp_path: Path) -> None:
    assert build(carry_chain(Averaging(2, 4, 1)), tmp_path, BuildOptions(name="small")).passed
    assert data_text(tmp_path / "small.report.html") == data_text(page)


def test_the_page_is_small_and_states_the_licence_of_the_library(page: Path) -> None:
    html = page.read_text()
    assert len(html) < 1_000_000
    assert "BSD 2-Clause License" in html and "Leaflet 1.9.4" in html
    assert "sourceMappingURL" not in html


def text(browser: Browser, name: str) -> str:
    found: str = browser.evaluate(f"document.getElementById('layout-{name}').textContent")
    return found


def find(browser: Browser, name: str) -> None:
    """Look a part of the layout up by its name."""
    browser.evaluate(f"document.getElementById('layout-find').value = {json.dumps(name)}")
    browser.evaluate("document.getElementById('layout-search').requestSubmit()")


def select(browser: Browser, name: str, value: str) -> None:
    """Choose an option of a selector."""
    browser.evaluate(
        f"(() => {{ const s = document.getElementById('layout-{name}'); s.value = '{value}';"
        "s.dispatchEvent(new Event('change')); })()"
    )


def colors(browser: Browser) -> set[tuple[int, int, int]]:
    """Opaque colours of the tiles."""
    browser.evaluate("new Promise((done) => setTimeout(done, 300))")
    found = browser.evaluate(
        "[...new Set([...document.querySelectorAll('#layout-map .leaflet-tile')].flatMap((tile) => {"
        "const { data } = tile.getContext('2d').getImageData(0, 0, tile.width, tile.height); const seen = new Set();"
        "for (let i = 0; i < data.length; i += 4) {"
        "if (data[i + 3] === 255) seen.add(data.slice(i, i + 3).join(',')); } return [...seen]; }))]"
    )
    return {(int(red), int(green), int(blue)) for red, green, blue in (each.split(",") for each in found)}


def click_block(browser: Browser, name: str, part: str) -> None:
    """Click the button (``.block``), the box (``input``) or the opener (``.open``) of a block in the list."""
    browser.evaluate(
        "[...document.querySelectorAll('#layout-tree li')].find((row) => row.querySelector(':scope > .block')"
        f".textContent.replace(/ \\(.*/, '') === {json.dumps(name)}).querySelector({json.dumps(part)}).click()"
    )


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
    # a page without bias or without powers has no selector of them
    selectors = "[...document.querySelectorAll('#layout-view select:enabled')].map((each) => each.id)"
    assert shown.evaluate(selectors) == ["layout-heaters", "layout-light"]


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
def test_layers_and_overlays_change_the_picture(shown: Browser, data: dict[str, Any]) -> None:
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
    units = {"power": "mW", "density": "mW/µm²", "phase": "rad", "crosstalk": "rad", "voltage": "V"}
    for quantity, unit in units.items():
        select(shown, "heaters", quantity)
        assert not shown.evaluate("document.getElementById('layout-legend').hidden")
        assert text(shown, "high").endswith(f" {unit}")
        # no temperature is made up
        assert ("states no temperature" in text(shown, "note")) == (quantity in ("density", "crosstalk"))
    select(shown, "heaters", "crosstalk")
    assert data["crosstalk"] in text(shown, "note")
    stated = [item["values"]["crosstalk"] for item in data["items"] if item["kind"] == "heater"]
    assert math.isclose(float(text(shown, "high").split()[0]), max(stated), rel_tol=1e-3)


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


@needs_chromium
def test_guides_and_devices_are_coloured_by_their_light(shown: Browser, data: dict[str, Any]) -> None:
    light = data["light"]
    options = "[...document.getElementById('layout-light').options].map((option) => option.textContent)"
    assert shown.evaluate(options) == ["nothing", *light["titles"]]
    # the brightest heater of the last word, and a guide at one of its ends
    levels = light["items"][-1]
    number = max((i for i, item in enumerate(data["items"]) if item["kind"] == "heater"), key=levels.__getitem__)
    heater = data["items"][number]
    find(shown, f"heater {heater['name']}")
    assert "Optical power" not in text(shown, "facts")
    plain = colors(shown)
    word = len(light["titles"]) - 1
    select(shown, "light", str(word))
    stated = f"{levels[number] * light['step_db']:.1f} dB of an input of full scale".replace("-", "−")
    assert f"Optical power{stated}" in text(shown, "facts")
    highest = max(level for row in (*light["guides"], *light["items"]) for level in row if level is not None)
    full = 10 * math.ceil(highest * light["step_db"] / 10)
    assert text(shown, "light-high") == f"{full} dB".replace("-", "−")
    assert text(shown, "light-low") == f"≤ {full - 60} dB".replace("-", "−")
    assert not shown.evaluate("document.getElementById('layout-light-legend').hidden")
    guide = next(i for i, ends in enumerate(data["guides"]["ends"]) if f"{heater['name']},o1" in ends)
    lit = colors(shown)
    for level in (levels[number], light["guides"][word][guide]):
        assert color_of(level * light["step_db"], full) in lit - plain
    find(shown, "guide " + " – ".join(data["guides"]["ends"][guide]))
    level = light["guides"][word][guide] * light["step_db"]
    assert f"{level:.1f} dB of an input".replace("-", "−") in text(shown, "facts")
    select(shown, "light", "none")
    assert "Optical power" not in text(shown, "facts")
    assert shown.evaluate("document.getElementById('layout-light-legend').hidden")


def color_of(level_db: float, full_db: int) -> tuple[int, int, int]:
    """The colour of a level over a range of 60 dB: viridis in four steps."""
    ramp = [(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)]
    at = min(max(1 + (level_db - full_db) / 60, 0), 1) * 4
    first = min(int(at), 3)
    red, green, blue = (
        math.floor(a + (at - first) * (b - a) + 0.5) for a, b in zip(ramp[first], ramp[first + 1], strict=True)
    )
    return red, green, blue


@needs_chromium
def test_enter_goes_through_all_parts_with_a_name(shown: Browser, data: dict[str, Any]) -> None:
    names = [f"{item['kind']} {item['name']}" for item in data["items"]]
    names += ["guide " + " – ".join(ends) for ends in data["guides"]["ends"]]
    found = [name for name in names if "heater trim" in name]
    assert len(found) > 2
    shown.evaluate("(document.getElementById('layout-find').value = 'heater trim', 0)")
    shown.evaluate("document.getElementById('layout-find').focus()")
    seen = []
    for number in [*range(1, len(found) + 1), 1]:
        shown.press("Enter", 13)
        assert text(shown, "matches") == f"{number} of {len(found)}"
        seen.append(text(shown, "chosen"))
    assert seen == [*found, found[0]]
    for number in (len(found), len(found) - 1):
        shown.press("Enter", 13, shift=True)
        assert text(shown, "matches") == f"{number} of {len(found)}"
        assert text(shown, "chosen") == found[number - 1]
    shown.evaluate("document.getElementById('layout-previous').click()")
    assert text(shown, "chosen") == found[len(found) - 3]
    find(shown, "no such part")
    assert text(shown, "matches") == "0 of 0"


@needs_chromium
def test_blocks_are_zoomed_to_and_hidden(shown: Browser, data: dict[str, Any]) -> None:
    prefix = "l1_"
    inside = [
        item for item in data["items"] if item["name"].startswith(prefix) and item["kind"] not in ("pad", "fibre")
    ]
    assert inside
    scale = text_of_scale(shown)
    click_block(shown, "l1", ".block")
    assert text(shown, "chosen") == "block l1"
    kinds = {item["kind"]: 0 for item in inside}
    for item in inside:
        kinds[item["kind"]] += 1
    assert all(f"{kind}: {count}" in text(shown, "facts") for kind, count in kinds.items())
    power = sum(item["values"]["power"] for item in inside if item["kind"] == "heater")
    assert f"{power:.3f} mW" in text(shown, "facts")
    assert text_of_scale(shown) != scale
    heater = next(item for item in inside if item["kind"] == "heater")
    name = f"heater {heater['name']}"
    find(shown, name)
    assert (text(shown, "chosen"), "again" in text(shown, "matches")) == (name, False)
    # a click states that a part is hidden; the search shows its block again
    click_block(shown, "l1", "input")
    click_middle(shown)
    assert text(shown, "chosen") == f"{name} is hidden"
    find(shown, name)
    assert text(shown, "chosen") == name
    assert text(shown, "matches").endswith("; l1 is shown again")
    boxes = "[...document.querySelectorAll('#layout-tree input')]"
    assert shown.evaluate(f"{boxes}.every((box) => box.checked && !box.indeterminate)")
    click_middle(shown)
    assert text(shown, "chosen") == name
    # so does the search for a guide between hidden devices
    click_block(shown, "l1", "input")
    within = next(ends for ends in data["guides"]["ends"] if all(end.startswith(prefix) for end in ends))
    find(shown, "guide " + " – ".join(within))
    assert text(shown, "matches").endswith("; l1 is shown again")
    assert shown.evaluate(f"{boxes}.every((box) => box.checked && !box.indeterminate)")
    click_block(shown, "l1", ".block")
    click_block(shown, "l1", "input")
    # tiles of other zooms are gone now
    hidden = painted(shown)
    click_block(shown, "l1", "input")
    before = painted(shown)
    assert hidden < before
    click_block(shown, "l1", "input")
    click_block(shown, "l1", ".open")
    assert not shown.evaluate("[...document.querySelectorAll('#layout-tree li li input')].some((box) => box.checked)")
    opened = "document.querySelector('#layout-tree [aria-expanded=true]')"
    assert shown.evaluate(f"{opened}.ariaLabel") == "Parts of l1"
    # one part of it comes back
    shown.evaluate("document.querySelector('#layout-tree li li input').click()")
    assert hidden < painted(shown) < before
    box = f"{opened}.closest('li').querySelector('input')"
    assert shown.evaluate(f"[{box}.checked, {box}.indeterminate]") == [True, True]
    shown.evaluate(f"{box}.click()")
    shown.evaluate(f"{box}.checked || {box}.click()")
    assert painted(shown) == before
    # by keyboard alone
    shown.evaluate(f"{opened}.focus()")
    shown.press("Enter", 13)
    assert shown.evaluate("document.querySelector('#layout-tree [aria-expanded=true]') === null")


CUT = (
    "[...document.querySelectorAll('main h2 ~ .wide td, main h2 ~ .wide th, .stacked tbody th, .stacked tbody td')]"
    ".filter((cell) => cell.offsetParent && !cell.closest('#rules') && (cell.scrollWidth > cell.clientWidth"
    " || cell.getBoundingClientRect().right > window.innerWidth)).map((cell) => cell.textContent)"
)


@pytest.mark.full(every=2)
@needs_chromium
def test_the_tables_fit_a_narrow_window(shown: Browser) -> None:
    heads = "[...document.querySelectorAll('.stacked')].map((table) => table.previousElementSibling.textContent)"
    assert {"Sign-off", "Symbol rate", "Chip", "Budgets of the process", "Light budget"} <= set(shown.evaluate(heads))
    assert shown.evaluate(CUT) == []
    nodes = shown.call("Accessibility.getFullAXTree")["nodes"]
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    assert ("rowheader", "Design rules") in roles and ("columnheader", "What it covered") in roles
    assert ("rowheader", "Heater power") in roles and ("columnheader", "Limit") in roles
