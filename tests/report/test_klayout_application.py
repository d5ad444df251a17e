"""KLayout's application and its package; both are tried where the application is installed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import webbrowser
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import klayout.lay as lay
import pytest

from optinc_pdk import active_pdk
from optinc_pdk.cards import load_process, process_names
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.errors import InputError
from optinc_pdk.report.klayout_application import (
    install_package,
    klayout_application,
    klayout_home,
    layer_properties,
    open_klayout,
    open_page,
    remove_package,
    technology,
    verify_macro,
)


@pytest.mark.parametrize("name", ["soi220", "soi220_flipchip"])
def test_layer_properties_have_the_processes_layers_and_colours(name: str, tmp_path: Path) -> None:
    process, path = load_process(name), tmp_path / "layers.lyp"
    path.write_bytes(layer_properties(process))
    view = lay.LayoutView()
    view.load_layer_props(str(path))
    found = {node.source.partition("@")[0]: node for node in view.each_layer()}
    assert len(found) == len(process.layers)
    for key, layer in process.layers.items():
        node = found[f"{layer.gds[0]}/{layer.gds[1]}"]
        assert node.name.startswith(f"{key}:")
        assert node.fill_color & 0xFFFFFF == node.frame_color & 0xFFFFFF == int(layer.color[1:], 16)


def test_the_application_reads_layout_and_colours(small_mesh: Path, tmp_path: Path) -> None:
    application = shutil.which("klayout")
    if application is None:
        pytest.skip("not run: KLayout's application is not installed")
    process, properties = load_process(), tmp_path / "mesh.lyp"
    properties.write_bytes(layer_properties(process))
    script = tmp_path / "colours.py"
    script.write_text(
        "import pya\n"
        "view = pya.LayoutView()\n"
        f"view.load_layout({str(small_mesh)!r}, False)\n"
        f"view.load_layer_props({str(properties)!r})\n"
        "for node in view.each_layer():\n"
        "    print(node.source.partition('@')[0], '#%06x' % (node.fill_color & 0xffffff))\n"
    )
    offscreen = os.environ | {"QT_QPA_PLATFORM": "offscreen", "KLAYOUT_HOME": str(tmp_path)}
    done = subprocess.run([application, "-b", "-r", script], capture_output=True, text=True, env=offscreen, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
    expected = {f"{layer.gds[0]}/{layer.gds[1]} {layer.color}" for layer in process.layers.values()}
    assert set(done.stdout.split("\n")) - {""} == expected


def fake(folder: Path, code: int) -> Path:
    """An executable named klayout that writes down its arguments."""
    folder.mkdir()
    path = folder / "klayout"
    path.write_text(f'#!/bin/sh\necho "$@" > {folder}/arguments\nexit {code}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_application_is_used_only_where_there_is_a_display(tmp_path: Path) -> None:
    path = fake(tmp_path / "bin", 0)
    here = {"PATH": str(path.parent)}
    assert klayout_application(here) is None
    for display in ("DISPLAY", "WAYLAND_DISPLAY"):
        assert klayout_application(here | {display: ":0"}) == str(path)
        assert klayout_application(here | {display: ":0", "QT_QPA_PLATFORM": "offscreen"}) is None
        assert klayout_application({"PATH": str(tmp_path), display: ":0"}) is None


def test_the_application_gets_layout_and_colours(small_mesh: Path, tmp_path: Path) -> None:
    path = fake(tmp_path / "bin", 0)
    properties = open_klayout(str(path), small_mesh, load_process(), tmp_path / "out")
    assert properties == tmp_path / "out" / "mesh.lyp" and properties.is_file()
    assert (path.parent / "arguments").read_text().split() == ["-l", str(properties), str(small_mesh)]


def test_an_application_that_fails_is_named(small_mesh: Path, tmp_path: Path) -> None:
    path = fake(tmp_path / "bin", 3)
    with pytest.raises(InputError, match=r"3 .*--png"):
        open_klayout(str(path), small_mesh, load_process(), tmp_path)


def test_a_page_is_opened_by_the_browser_of_a_display_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda uri: opened.append(uri) or True)
    page = tmp_path / "chip.report.html"
    assert not open_page(page, {})
    assert not open_page(page, {"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"})
    assert opened == []
    assert open_page(page, {"DISPLAY": ":0"})
    assert opened == [page.as_uri()]


DRIVER = Path(__file__).with_name("klayout_driver.py")


def macro_text(macro: bytes) -> str:
    return str(ElementTree.fromstring(macro).findtext("text"))


@pytest.mark.parametrize("name", process_names())
def test_a_package_is_written_again_in_place_of_an_earlier_one(name: str, tmp_path: Path) -> None:
    process = load_process(name)
    first = install_package(process, tmp_path)
    before = {path: path.read_bytes() for path in first}
    assert {path.suffix for path in first} == {".lyt", ".lyp", ".lydrc", ".lym", ".xml"}
    first[0].write_bytes(b"changed")
    assert install_package(process, tmp_path) == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    grain = ElementTree.parse(tmp_path / "salt" / f"optinc_{name}" / "grain.xml")
    assert grain.findtext("name") == f"optinc_{name}"
    assert remove_package(process, tmp_path) == tmp_path / "salt" / f"optinc_{name}"
    assert list((tmp_path / "salt").iterdir()) == []
    with pytest.raises(InputError, match=f"optinc_{name}"):
        remove_package(process, tmp_path)


def test_the_technology_finds_its_layers_beside_its_file(tmp_path: Path) -> None:
    process = load_process()
    paths = {path.suffix: path for path in install_package(process, tmp_path)}
    read = kdb.Technology()
    read.load(str(paths[".lyt"]))
    assert read.name == "optinc_soi220"
    assert Path(read.eff_layer_properties_file()) == paths[".lyp"]


@pytest.mark.parametrize(("name", "layers"), [("soi220", ["metal"]), ("soi220_two_metal", ["metal1", "via", "metal2"])])
def test_the_net_tracer_follows_the_metals(name: str, layers: list[str]) -> None:
    process = load_process(name)
    layout = kdb.Layout()
    top = layout.create_cell("wires")
    numbers = {key: layout.layer(*layer.gds) for key, layer in process.layers.items()}
    for place, layer in enumerate(layers):
        top.shapes(numbers[layer]).insert(kdb.Box(1000 * place, 0, 1000 * place + 2000, 1000))
    # the heater below joins nothing
    top.shapes(numbers["heater"]).insert(kdb.Box(-5000, 0, 500, 1000))
    read = kdb.Technology.technology_from_xml(technology(process).to_xml())
    (metals,) = read.component("connectivity").each()
    tracer = kdb.NetTracer()
    tracer.trace(metals, layout, top, kdb.Point(500, 500), numbers[layers[0]])
    assert sorted(element.layer() for element in tracer.each_element()) == sorted(numbers[one] for one in layers)


def test_the_entry_runs_this_python_with_this_process(tmp_path: Path) -> None:
    assert json.dumps({"python": sys.executable, "process": "soi220"}).replace(": ", " => ") in macro_text(
        verify_macro(load_process())
    )
    own = tmp_path / "own #{process}"
    shutil.copytree(components_folder() / "soi220", own)
    text = macro_text(verify_macro(load_process(own)))
    assert "own \\u{23}{process}" in text


def test_folders_that_are_no_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    (home / ".klayout").mkdir(parents=True)
    other.mkdir()
    assert klayout_home(None, {"HOME": str(home)}) == home / ".klayout"
    assert klayout_home(None, {"HOME": str(home), "KLAYOUT_HOME": str(other)}) == other
    assert klayout_home(tmp_path, {"HOME": str(home), "KLAYOUT_HOME": str(other)}) == tmp_path
    for environment in ({"HOME": str(other)}, {"HOME": str(home), "KLAYOUT_HOME": str(tmp_path / "none")}):
        with pytest.raises(InputError, match=r"(other/\.klayout|none): .*--klayout-home"):
            klayout_home(None, environment)
    # the tests may run as root, who may write everywhere
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(InputError, match=r"other: .*writable"):
        klayout_home(other)


def draw(folder: Path) -> Path:
    """Draw a guide between two fibres with its netlist, and a strip that is too narrow beside both."""
    with active_pdk():
        gf.clear_cache()
        c = gf.Component("guide")
        strip = c << gf.get_component("straight", length=100.0)
        for name, port in (("in", "o1"), ("out", "o2")):
            coupler = c << gf.get_component("grating_coupler")
            coupler.connect("o1", strip[port])
            c.add_port(name, port=coupler["o2"])
        c.write_netlist(c.get_netlist(), folder / "guide.pic.yml")
        c.add_polygon([(0, 200), (20, 200), (20, 200.05), (0, 200.05)], layer=(3, 0))
        c.write_gds(folder / "guide.gds", with_metadata=False)
    return folder / "guide.gds"


def in_the_application(gds: Path, home: Path) -> dict[str, Any]:
    """What the application shows; see the driver."""
    # without this, the application asks at its first start
    (home / "klayoutrc").write_text("<config><full-hierarchy-new-cell>true</full-hierarchy-new-cell></config>")
    variables = {
        "layout": gds,
        "technology": "optinc_soi220",
        "process": "soi220",
        "missing": "soi220_two_metal",
        "answers": home / "answers.json",
    }
    settings = [part for key, value in variables.items() for part in ("-rd", f"{key}={value}")]
    # -e: the layout can be changed
    command = [
        "xvfb-run",
        "-a",
        "-s",
        "-screen 0 1600x1200x24",
        "klayout",
        "-e",
        "-r",
        str(DRIVER),
        *settings,
    ]
    environment = os.environ | {"KLAYOUT_HOME": str(home), "QT_QPA_PLATFORM": "xcb", "TMPDIR": str(home)}
    log = home / "log.txt"
    with log.open("w") as output:
        subprocess.run(command, stdout=output, stderr=output, env=environment, check=False)
    assert (home / "answers.json").is_file(), log.read_text()
    return dict(json.loads((home / "answers.json").read_text()))


@pytest.mark.full
def test_the_entry_verifies_the_layout_that_the_application_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = [name for name in ("klayout", "xvfb-run") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not run: {' and '.join(missing)} not installed")
    home = tmp_path / "home"
    home.mkdir()
    install_package(load_process(), home)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(tmp_path / "gone" / "python"))
        install_package(load_process("soi220_two_metal"), home)
    gds = draw(tmp_path)
    found = in_the_application(gds, home)
    assert "error" not in found
    assert found["technology"] == "optinc_soi220"
    assert any(layer.startswith("heater") for layer in found["layers"])
    assert "optinc: design rules of soi220" in found["scripts"]

    ((_, text),) = found["no layout"]["boxes"]
    assert "layout" in text

    # both databases are open, and the browser of markers shows the one with markers
    ((title, text),) = found["file"]["boxes"]
    assert title.endswith("fail") and "1 violation" in text and str(tmp_path / "guide.verify.html") in text
    assert found["file"]["databases"] == {"guide.verify.drc.lyrdb": 1, "guide.verify.lvs.lyrdb": 1}
    assert any("Marker" in title for title in found["browsers"])

    # a copy is checked and compared with the netlist beside the file; its databases replace the others
    ((title, text),) = found["changed"]["boxes"]
    assert title.endswith("fail") and "3 violations" in text and "3 differences" in text
    assert str(home) in text and str(tmp_path / "guide.verify.html") not in text
    assert found["changed"]["databases"] == {"guide.verify.drc.lyrdb": 3, "guide.verify.lvs.lyrdb": 3}

    # what stops the command is shown, and the databases stay
    ((title, text),) = found["broken netlist"]["boxes"]
    assert "2" in text and "guide.pic.yml" in text
    assert found["broken netlist"]["databases"] == found["changed"]["databases"]
    ((title, text),) = found["missing"]["boxes"]
    assert (
        str(tmp_path / "gone" / "python") in text
        and "optinc process klayout install --process soi220_two_metal" in text
    )
