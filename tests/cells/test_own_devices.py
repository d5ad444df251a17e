"""Devices that a process brings along: drawn from a layout file or a function, recognised, refused where unusable."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.cards import CardError, Process, load_process, process_names
from optinc_pdk.cards.device import CIRCUIT_CELLS, GUIDE_CELLS
from optinc_pdk.cards.loader import _loaded_process
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.cells.golden_files import golden_states, write_golden
from optinc_pdk.circuit import read_reference
from optinc_pdk.extract import extract
from optinc_pdk.extract.golden_devices import read_golden
from optinc_pdk.io.yaml_files import dump_yaml
from optinc_pdk.pdk import active_pdk
from optinc_pdk.signoff.verification import verify

CORE, METAL = (3, 0), (41, 0)
# a straight stub of 2 µm before each taper: its sides continue those of the guide
OUTLINE = [(0, -225), (0, 225), (2000, 225), (6000, 1500), (9000, 1500), (13000, 225), (15000, 225), (15000, -225),
           (13000, -225), (9000, -700), (6000, -700), (2000, -225)]  # fmt: skip
PLACES = {"o1": {"at_um": [0, 0], "angle_deg": 180}, "o2": {"at_um": [15, 0], "angle_deg": 0}}
FUNCTION = f"""
import gdsfactory as gf

def draw(width=0.45, layer="core", result=None):
    c = gf.Component()
    c.add_polygon([(x / 1000, y / 1000) for x, y in {OUTLINE}], layer=layer)
    for name, x, angle in (("o1", 0, 180), ("o2", 15, 0)):
        c.add_port(name, center=(x, 0), orientation=angle, width=width, layer=layer)
    return c if result is None else result
"""
Shapes = dict[tuple[int, int], list[list[tuple[int, int]]]]


class Folder:
    """A process folder with a device ``mine``, written file by file."""

    def __init__(self, path: Path, base: str = "soi220") -> None:
        self.path = path
        (path / "devices").mkdir(parents=True)
        (path / "process.yml").write_text(f"schema: 1\nname: own\nbase: {base}\n")

    def card(self, name: str = "mine", **changes: Any) -> None:
        data = {
            "schema": 1, "name": name, "title": "Device", "ports": {"optical": ["o1", "o2"]},
            "cell": {"gds": "mine.gds", "ports": PLACES}, "sources": {"default": "engineering default"},
        }  # fmt: skip
        # no aliases of equal parts
        dump_yaml(self.path / "devices" / f"{name}.yml", json.loads(json.dumps(data | changes)))

    def gds(self, shapes: Shapes | None = None, dbu: float = 0.001, tops: int = 1, file: str = "mine.gds") -> None:
        layout = kdb.Layout()
        layout.dbu = dbu
        for number in range(tops):
            cell = layout.create_cell(f"top{number}")
            for layer, polygons in (shapes or {CORE: [OUTLINE]}).items():
                # one level of hierarchy, which is flattened
                inner = layout.create_cell("inner")
                for points in polygons:
                    inner.shapes(layout.layer(*layer)).insert(kdb.Polygon([kdb.Point(x, y) for x, y in points]))
                cell.insert(kdb.CellInstArray(inner.cell_index(), kdb.Trans()))
        layout.write(str(self.path / "devices" / file))

    def process(self) -> Process:
        """The process as it is now: cards are cached by the path of their folder."""
        _loaded_process.cache_clear()
        return _loaded_process(str(self.path), self.path.resolve())


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Folder]:
    yield Folder(tmp_path / "own")
    # the next test has another folder of this name
    _loaded_process.cache_clear()


def drawn(own: Folder) -> gf.Component:
    """Write the golden files of a process and draw its device."""
    with active_pdk(own.path) as pdk:
        write_golden(own.process())
        return pdk.get_component("mine")


def refusal(own: Folder) -> str:
    with active_pdk(own.path), pytest.raises(CardError) as error:
        golden_states(own.process())
    assert not (own.path / "golden").exists()
    return str(error.value)


def test_a_layout_file_becomes_a_cell_with_the_ports_of_its_card(own: Folder) -> None:
    own.gds({CORE: [OUTLINE], METAL: [[(0, 5000), (0, 9000), (4000, 9000), (4000, 5000)]]})
    own.card(ports={"optical": ["o1", "o2"], "electrical": ["e1"]},
             cell={"gds": "mine.gds", "ports": PLACES | {"e1": {"at_um": [2, 7], "angle_deg": 90}}})  # fmt: skip
    cell = drawn(own)
    assert not cell.insts
    region = kdb.Region(cell.begin_shapes_rec(cell.kcl.layer(*CORE)))
    assert (region ^ kdb.Region(kdb.Polygon([kdb.Point(*point) for point in OUTLINE]))).is_empty()
    assert {port.name: (port.center, port.orientation, port.port_type) for port in cell.ports} == {
        "o1": ((0.0, 0.0), 180.0, "optical"),
        "o2": ((15.0, 0.0), 0.0, "optical"),
        "e1": ((2.0, 7.0), 90.0, "electrical"),
    }


def test_a_function_of_a_file_or_of_a_package_draws_the_same_device(own: Folder) -> None:
    (own.path / "devices" / "mine.py").write_text(FUNCTION)
    own.card(cell={"function": "mine.py:draw"})
    cell = {"function": "gdsfactory.components:mmi1x2", "settings": {"width_mmi": 4.0, "length_mmi": 9.0}}
    own.card("mmi", cell=cell, ports={"optical": ["o1", "o2", "o3"]})
    assert drawn(own).name.startswith("mine")
    data = json.loads((own.path / "golden" / "mine.json").read_text())
    assert data["ports"] == {"o1": {"at": [0, 0], "angle": 180}, "o2": {"at": [15000, 0], "angle": 0}}
    mmi = json.loads((own.path / "golden" / "mmi.json").read_text())
    assert [-10000, 225] in mmi["layers"]["core"][0]
    assert mmi["ports"]["o1"] == {"at": [-10000, 0], "angle": 180}


def link(own: Folder, turn: float, mirror: bool, folder: Path) -> Path:
    """Draw the device between two grating couplers, placed in some orientation."""
    with active_pdk(own.path) as pdk:
        write_golden(own.process())
        c = gf.Component()
        device = c << pdk.get_component("mine")
        device.dcplx_trans = kdb.DCplxTrans(1.0, turn, mirror, 100.0, 50.0)
        for port in ("o1", "o2"):
            guide = c << pdk.get_component("straight", length=30.0)
            guide.connect("o1", device[port])
            (c << pdk.get_component("grating_coupler")).connect("o1", guide["o2"])
        c.write_gds(folder / "link.gds", with_metadata=False)
    return folder / "link.gds"


@pytest.mark.full(every=4)
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("turn", [0.0, 90.0, 180.0, 270.0])
def test_a_device_with_straight_stubs_is_recognised_between_guides(
    turn: float, mirror: bool, own: Folder, tmp_path: Path
) -> None:
    own.gds()
    own.card()
    found = extract(link(own, turn, mirror, tmp_path), own.process())
    assert not found.faults
    assert found.silicon["mine"] == 1
    # the stubs belong to the device
    assert sorted(found.circuit.net_length_um) == pytest.approx([30.0, 30.0])
    (number,) = found.circuit.instances_of("mine")
    first = int(found.circuit.offset[number])
    by_port = {int(port): int(other) for net in found.circuit.nets for port, other in (net, net[::-1])}
    assert {first, first + 1} <= set(by_port)


TIP = [(0, -225), (0, 225), (2000, 225), (20000, 80), (20000, -80), (2000, -225)]


def test_light_enters_through_the_fibre_port_of_a_device(own: Folder, tmp_path: Path) -> None:
    own.gds({CORE: [TIP]})
    places = {"o1": PLACES["o1"], "o2": {"at_um": [20, 0], "angle_deg": 0, "fibre": True}}
    parameters = {"loss_db": {"value": 1.5, "source": "default"}, "reflection_db": {"value": -40, "source": "default"}}
    own.card(cell={"gds": "mine.gds", "ports": places}, model={"name": "edge_coupler", "parameters": parameters})
    with active_pdk(own.path) as pdk:
        write_golden(own.process())
        c = gf.Component("tips")
        guide = c << pdk.get_component("straight", length=100.0)
        for name, port in (("in", "o1"), ("out", "o2")):
            tip = c << pdk.get_component("mine")
            tip.connect("o1", guide[port])
            c.add_port(name, port=tip["o2"])
        c.write_netlist(c.get_netlist(), tmp_path / "tips.pic.yml")
        c.write_gds(tmp_path / "tips.gds", with_metadata=False)
    process = own.process()
    reference = read_reference(tmp_path / "tips.pic.yml", process, "tips")
    result = verify(tmp_path / "tips.gds", reference, {}, np.array([1550.0]), process, lambda _: None)
    assert not result.faults
    assert result.lvs is not None
    assert result.lvs.match
    assert result.scattering is not None
    loss_db = -20 * np.log10(np.abs(result.scattering.between(["out"], ["in"])[0, 0, 0]))
    guide_db = 100e-4 * float(process.guide.loss_db_per_cm)
    assert loss_db == pytest.approx(3.0 + guide_db, abs=1e-3)


# two arms around a hole
HOLE = [[(0, -225), (0, 225), (2000, 225), (4000, 5000), (9000, 5000), (9000, 4000), (4500, 4000), (4500, -4000),
         (9000, -4000), (9000, -5000), (4000, -5000), (2000, -225)],
        [(9000, -5000), (9000, 5000), (13000, 225), (15000, 225), (15000, -225), (13000, -225)]]  # fmt: skip


@pytest.mark.parametrize("turn", [0.0, 90.0])
def test_a_device_may_enclose_holes(turn: float, own: Folder, tmp_path: Path) -> None:
    own.gds({CORE: HOLE})
    own.card()
    gds = link(own, turn, True, tmp_path)
    assert json.loads((own.path / "golden" / "mine.json").read_text())["holes"]["core"][0]["polygon"] == 0
    found = extract(gds, own.process())
    assert not found.faults
    assert found.silicon["mine"] == 1
    layout = kdb.Layout()
    layout.read(str(gds))
    # the hole is filled, or has another size
    for size in (2000, 10):
        inside = kdb.Trans(round(turn / 90), True, 100_000, 50_000) * kdb.Box(4500, -4000, 4500 + size, 4000)
        layout.top_cell().shapes(layout.layer(*CORE)).insert(inside)
        layout.write(str(tmp_path / "changed.gds"))
        assert extract(tmp_path / "changed.gds", own.process()).faults


def test_extraction_does_not_import_the_function(own: Folder, tmp_path: Path) -> None:
    file = own.path / "devices" / "mine.py"
    file.write_text(FUNCTION)
    own.card(cell={"function": "mine.py:draw"})
    gds = link(own, 0.0, False, tmp_path)
    modules = [name for name in sys.modules if name.endswith(str(file))]
    assert modules
    for name in modules:
        del sys.modules[name]
    assert extract(gds, own.process()).silicon["mine"] == 1
    assert not [name for name in sys.modules if name.endswith(str(file))]


def test_golden_files_that_are_missing_or_out_of_date_are_refused_with_the_remedy(own: Folder, tmp_path: Path) -> None:
    own.gds()
    own.card()
    gds = link(own, 0.0, False, tmp_path)

    def said() -> str:
        with pytest.raises(CardError) as error:
            extract(gds, own.process())
        return str(error.value)

    own.gds({CORE: [[(x, y + (y > 1000)) for x, y in OUTLINE]]})
    assert all(word in said() for word in ("'mine'", "mine.gds", f"optinc process golden --process {own.path}"))
    with active_pdk(own.path) as pdk, pytest.raises(CardError, match="optinc process golden"):
        pdk.cells["mine"].__wrapped__()  # type: ignore[attr-defined]
    with active_pdk(own.path):
        states = golden_states(own.process())
        assert {name: state for name, (state, _) in states.items() if state != "unchanged"} == {"mine": "changed"}
        write_golden(own.process())
    # now the layout is the one that is out of date
    faults = extract(gds, own.process()).faults
    assert any(fault.kind == "body" and "most like mine" in fault.message for fault in faults)
    (own.path / "golden" / "mine.json").unlink()
    assert all(word in said() for word in ("'mine'", "golden/mine.json", "optinc process golden"))


def test_a_function_of_a_package_that_draws_something_else_is_noticed_when_it_is_drawn(own: Folder) -> None:
    own.card(cell={"function": "gdsfactory.components:mmi1x2"}, ports={"optical": ["o1", "o2", "o3"]})
    path = own.path / "golden" / "mine.json"
    with active_pdk(own.path):
        write_golden(own.process())
        data = json.loads(path.read_text())
        data["layers"]["core"][0][0][0] -= 1
        path.write_text(json.dumps(data, separators=(",", ":")) + "\n")
        with pytest.raises(CardError, match=r"'mine'.*optinc process golden"):
            cells_of(own.process())["mine"]()
    # the digest is that of the card, which has not changed
    assert "mine" in {variant.name for variant in read_golden(own.process())}


def points(*moves: tuple[int, int, int]) -> Shapes:
    """The outline with some points (number, x, y) moved to other places."""
    return {CORE: [[{n: (x, y) for n, x, y in moves}.get(i, point) for i, point in enumerate(OUTLINE)]]}


@pytest.mark.full(every=3)
@pytest.mark.parametrize(
    ("shapes", "options", "words"),
    [
        ({CORE: [OUTLINE], (200, 7): [[(0, 0), (0, 4000), (4000, 0)]]}, {}, ("200/7", "(2.000, 2.000)", "core 3/0")),
        ({(6, 0): [OUTLINE]}, {}, ("silicon", "core")),
        (None, {"dbu": 0.005}, ("0.005", "0.001")),
        (None, {"tops": 2}, ("2 top cells", "top0, top1", "cell.top")),
        (points((6, 15000, 325)), {}, ("'o2'", "(15.000, 0.000)", "(15.000, 0.050)")),
        (points((6, 15000, 325), (7, 15000, -325)), {}, ("'o2'", "0.65", "0.45")),
        ({CORE: [[(0, -225), (0, 225), (15000, 225), (15000, -225)]]}, {}, ("'mine'", "guide")),
    ],
)
def test_layouts_that_cannot_be_recognised_are_refused(
    shapes: Shapes | None, options: dict[str, Any], words: tuple[str, ...], own: Folder
) -> None:
    own.gds(shapes, **options)
    own.card()
    text = refusal(own)
    assert all(word in text for word in words), text
    assert str(own.path) in text


@pytest.mark.full(every=3)
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({"gds": "mine.gds", "top": "other", "ports": PLACES}, ("cell.top", "'other'", "top0")),
        ({"gds": "mine.gds", "ports": PLACES | {"o2": {"at_um": [15, 0], "angle_deg": 90}}}, ("'o2'", "90°")),
        (
            {"gds": "mine.gds", "ports": PLACES | {"o2": {"at_um": [14, 0], "angle_deg": 0}}},
            ("'o2'", "(14.000, 0.000)"),
        ),
        ({"gds": "mine.gds", "ports": PLACES | {"o2": PLACES["o1"]}}, ("'o2'", "'o1'")),
        ({"gds": "mine.gds", "ports": {name: each | {"fibre": True} for name, each in PLACES.items()}}, ("guide",)),
        ({"gds": "bad.gds", "ports": PLACES}, ("cell.gds", "bad.gds", "GDS2")),
        ({"function": "mine.py:draw", "settings": {"result": 3}}, ("mine.py:draw", "int")),
        ({"function": "mine.py:draw", "settings": {"layer": "nowhere"}}, ("mine.py:draw", "nowhere")),
        ({"function": "mine.py:draw", "settings": {"colour": 3}}, ("mine.py:draw", "TypeError", "colour")),
        ({"function": "mine.py:other"}, ("mine.py:other", "'other'")),
        ({"function": "mine.py:gf"}, ("mine.py:gf", "module")),
        ({"function": "no_such_package.cells:draw"}, ("no_such_package", "ModuleNotFoundError")),
        ({"function": "bad.py:draw"}, ("bad.py", "ZeroDivisionError")),
        (
            {"function": "mine.py:draw", "ports": {"o2": {"at_um": [15, 1], "angle_deg": 0}}},
            ("cell.ports.o2", "(15.000, 1"),
        ),
        ({"function": "mine.py:draw", "pdk": "math:pi"}, ("cell.pdk", "float")),
    ],
)
def test_cells_that_cannot_be_drawn_are_refused(cell: dict[str, Any], words: tuple[str, ...], own: Folder) -> None:
    own.gds()
    (own.path / "devices" / "bad.gds").write_bytes(b"no layout")
    (own.path / "devices" / "mine.py").write_text(FUNCTION)
    (own.path / "devices" / "bad.py").write_text("1 / 0\n")
    own.card(cell=cell)
    text = refusal(own)
    assert all(word in text for word in ("mine.yml", *words)), text


def test_ports_that_a_component_lacks_and_pins_without_metal_are_refused(own: Folder) -> None:
    (own.path / "devices" / "mine.py").write_text(FUNCTION)
    own.card(cell={"function": "mine.py:draw"}, ports={"optical": ["o1", "o3"]})
    assert all(word in refusal(own) for word in ("'o3'", "o1, o2"))
    own.card(cell={"function": "mine.py:draw", "ports": {"e1": {"at_um": [7, 0], "angle_deg": 90}}},
             ports={"optical": ["o1", "o2"], "electrical": ["e1"]})  # fmt: skip
    assert all(word in refusal(own) for word in ("'e1'", "(7.000, 0.000)", "metal"))


def test_devices_that_extraction_cannot_tell_apart_are_refused(own: Folder) -> None:
    own.gds()
    own.card()
    own.card("twin")
    assert "'mine'" in (text := refusal(own)) and "'twin'" in text
    (own.path / "devices" / "twin.yml").unlink()
    own.card(cell={"function": "gdsfactory.components:mmi1x2", "settings": {
        "width_mmi": 6.0, "length_mmi": 31.0, "gap_mmi": 1.64, "width_taper": 1.5, "length_taper": 20.0}},
        ports={"optical": ["o1", "o2", "o3"]})  # fmt: skip
    assert "'mine'" in (text := refusal(own)) and "'mmi1x2'" in text


def test_a_function_draws_with_the_pdk_that_its_card_states(own: Folder) -> None:
    own.card(cell={"function": "gdsfactory.components:mmi1x2", "settings": {"length_mmi": 7.3},
                   "pdk": "gdsfactory.gpdk:PDK"}, ports={"optical": ["o1", "o2", "o3"]})  # fmt: skip
    with active_pdk(own.path) as pdk:
        with pytest.raises(CardError, match="1/0"):
            golden_states(own.process())
        assert gf.get_active_pdk() is pdk


def test_the_names_of_all_cells_of_the_package_are_taken() -> None:
    cards = {name for process in process_names() for name in load_process(process).devices}
    assert CELLS.keys() - cards - GUIDE_CELLS == CIRCUIT_CELLS


def test_circuits_of_the_package_leave_out_devices_that_a_process_draws_itself(tmp_path: Path) -> None:
    plain = Folder(tmp_path / "plain").process()
    card = plain.device("mmi2x2")
    cell = card.model_copy(update={"cell": {"gds": "x.gds"}})
    changed = plain.model_copy(update={"devices": {**plain.devices, "mmi2x2": cell}})
    missing = cells_of(plain).keys() - cells_of(changed).keys()
    assert missing == {
        "activation_offchip", "activation_onchip", "attenuator", "homodyne_mixer", "mesh", "mesh_column", "mzi_dummy",
        "mzi_unit",
    }  # fmt: skip
    assert cells_of(changed)["mmi2x2"] is not cells_of(plain)["mmi2x2"]
