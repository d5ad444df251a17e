"""Pictures and layer properties; the KLayout application is used where it is installed."""

import os
import shutil
import stat
import subprocess
import webbrowser
from pathlib import Path

import klayout.db as kdb
import klayout.lay as lay
import numpy as np
import pytest
from matplotlib.image import imread

from optinc_pdk.cards import load_process
from optinc_pdk.errors import InputError
from optinc_pdk.report.layout_viewer import (
    klayout_application,
    layer_properties,
    open_klayout,
    open_page,
    write_pictures,
)


@pytest.fixture
def small_mesh(tmp_path: Path) -> Path:
    """Three modes of heaters over guides."""
    layout = kdb.Layout()
    top = layout.create_cell("mesh")
    core, heater = layout.layer(3, 0), layout.layer(39, 0)
    for column, row in ((0, 0), (1, 1), (2, 0)):
        for x in (500 * column, 500 * column + 246):
            top.shapes(heater).insert(kdb.DBox(x, -52 * row - 4, x + 100, -52 * row + 4))
    for row in range(3):
        top.shapes(core).insert(kdb.DBox(-100, -52 * row - 1, 1500, -52 * row + 1))
    path = tmp_path / "mesh.gds"
    layout.write(str(path))
    return path


def test_four_pictures_are_written_and_show_something(small_mesh: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    written = write_pictures(small_mesh, load_process(), tmp_path / "out", seen.append)
    assert [path.name for path in written] == [f"mesh.{name}.png" for name in ("chip", "layer", "mesh", "mzi")]
    assert seen == ["chip", "layer", "mesh", "mzi"]
    for path in written:
        pixels = np.rint(255 * imread(path)[..., :3]).astype(np.int64) @ [65536, 256, 1]
        colors, counts = np.unique(pixels, return_counts=True)
        shown = dict(zip(colors.tolist(), counts.tolist(), strict=True))
        assert shown[0x0E1318] > 1000 and shown[0x63B3F5] > 200 and shown[0xFF5148] > 200, path.name


def test_only_the_whole_of_a_layout_without_heaters_is_drawn(tmp_path: Path) -> None:
    layout = kdb.Layout()
    layout.create_cell("bare").shapes(layout.layer(3, 0)).insert(kdb.DBox(0, 0, 100, 100))
    layout.write(str(tmp_path / "bare.gds"))
    assert [path.name for path in write_pictures(tmp_path / "bare.gds", load_process(), tmp_path)] == ["bare.chip.png"]


def test_unusable_layouts_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "text.gds").write_text("no layout")
    empty = kdb.Layout()
    empty.create_cell("empty")
    empty.write(str(tmp_path / "empty.gds"))
    for name in ("text.gds", "missing.gds", "empty.gds"):
        with pytest.raises(InputError, match=name):
            write_pictures(tmp_path / name, load_process(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


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
