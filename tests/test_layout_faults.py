"""Every command that simulates a layout reports its faults; none passes a layout whose function they can affect."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import klayout.db as kdb
import klayout.rdb as rdb
import numpy as np
import pytest
from mutants import guides, judge  # noqa: F401  (the latter registers all kinds)
from mutants.chips import Base, _spread
from mutants.draft import Draft
from mutants.kinds import KINDS

from optinc_pdk import extract
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_netlist
from optinc_pdk.cli import main
from optinc_pdk.extract import Fault
from optinc_pdk.extract import extract as extract_layout
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.signoff.layout_faults import FAULT_KINDS, LayoutFault, affect_function

DOCS = Path(__file__).parent.parent / "docs"
INPUTS = 256


class Run(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def kinds(self) -> set[str]:
        return {fault["kind"] for fault in self.json["faults"]}


def run(*arguments: object) -> Run:
    """Run a command in this process."""
    with (
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
        mock.patch.object(sys, "argv", ["optinc", *map(str, arguments)]),
        pytest.raises(SystemExit) as end,
    ):
        main()
        sys.exit(0)
    return Run(int(end.value.code or 0), out.getvalue(), err.getvalue())


def simulate_by(command: str, gds: Path, chip: Path, out: Path) -> Run:
    """Run one of the commands that simulate a layout, with the other files of the chip."""
    weights, netlist, bias = (chip.with_suffix(ending) for ending in (".npz", ".pic.yml", ".bias.yml"))
    arguments: dict[str, tuple[object, ...]] = {
        "check": (gds, netlist, "--weights", weights, "-o", out / "a.function.npz"),
        "simulate": (gds, "-o", out / "a.s.npz"),
        "spectrum": (gds, netlist, "--weights", weights, "-o", out / "a.csv", *NARROW),
        "noise": (gds, netlist, "--weights", weights, "-o", out / "a.csv", "--symbol-rates", "1e6"),
        "yield": (gds, netlist, "--weights", weights, "-o", out, "--samples", 1, "--no-contributions"),
    }
    return run(command, *arguments[command], "--bias", bias, "--json")


NARROW = ("--wavelengths", "1550", "--channels", 1, "--resolution", 1)
COMMANDS = ("simulate", "spectrum", "noise", "yield")


def second_guide(draft: Draft) -> None:
    """A guide 300 nm beside an arm."""
    arm = guides.straights(draft, 5.0)[0]
    step = draft.width + 300
    draft.add("core", arm.moved(0, step) if arm.width() > arm.height() else arm.moved(step, 0))


def taper(draft: Draft) -> None:
    """A straight guide that becomes 40 nm narrower along its length."""
    box = next(b for b in guides.straights(draft, 20.0) if b.width() > b.height())
    corner = [kdb.Point(box.left, box.top), kdb.Point(box.right, box.top), kdb.Point(box.right, box.top - 40)]
    draft.edit("core", box, lambda shapes: shapes - kdb.Region(kdb.Polygon(corner)))


def etched_coupler(draft: Draft) -> None:
    draft.add(draft.etch, draft.places("mmi2x2")[0].box.enlarged(-2000, -500))


def label_twice(draft: Draft) -> None:
    """A label that is on two pads, once besides the right one."""
    one, other = (pair[0] for pair in draft.texts(True)[-2:])
    draft.top.shapes(draft.index("label")).insert(kdb.Text(one.string, other.trans))


def label_twice_on_its_pad(draft: Draft) -> None:
    text = draft.texts(True)[-1][0]
    draft.top.shapes(draft.index("label")).insert(kdb.Text(text.string, kdb.Trans(text.x + 1000, text.y)))


def of_kind(name: str) -> Callable[[Draft], None]:
    """A fault of the mutation tests."""
    return lambda draft: KINDS[name](draft, np.random.default_rng(3))


# Fault of a layout; kinds that are reported; whether the words are computed nevertheless.
FAULTY: dict[str, tuple[Callable[[Draft], None], set[str], bool]] = {
    "second guide": (second_guide, {"stray"}, True),
    "taper": (taper, {"width"}, True),
    "etched coupler": (etched_coupler, {"etch"}, True),
    "label twice": (label_twice, {"label", "short", "shared_wire", "channel_without_heater"}, False),
    "label twice on its pad": (label_twice_on_its_pad, {"label"}, True),
    "pad label missing": (of_kind("pad label missing"), {"pad_without_label", "channel_without_heater"}, False),
    "ground label missing": (of_kind("ground label missing"), {"label"}, True),
    "wire cut": (of_kind("wire cut by 11 um"), {"open_wire", "channel_without_heater"}, False),
    "wires bridged": (of_kind("wires bridged"), {"short", "shared_wire", "channel_without_heater"}, False),
    "coupler moved": (of_kind("coupler moved by 1 nm along"), {"dangling", "open_port"}, False),
    "terminator deleted": (of_kind("terminator deleted"), {"dangling", "open_port"}, False),
    "fibre label missing": (of_kind("fibre label missing"), {"label", "open_port"}, False),
}


@pytest.fixture(scope="module")
def base(tiny_chip: Path) -> Base:
    circuit = read_netlist(tiny_chip.with_suffix(".pic.yml"))
    return Base("tiny", load_process(), None, circuit, tiny_chip, None, None, None)


@pytest.fixture(scope="module")
def faulty(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Layout with a fault of `FAULTY`."""
    folder = tmp_path_factory.mktemp("faulty")

    def written(name: str) -> Path:
        path = folder / f"{name.replace(' ', '_')}.gds"
        draft = Draft(base)
        FAULTY[name][0](draft)
        draft.write(path)
        return path

    return written


@pytest.mark.full(every=3)
@pytest.mark.parametrize("name", FAULTY)
def test_check_fails_with_the_faults_of_a_layout(
    name: str, faulty: Callable[[str], Path], tiny_chip: Path, tmp_path: Path
) -> None:
    _, kinds, computed = FAULTY[name]
    result = simulate_by("check", faulty(name), tiny_chip, tmp_path)
    assert (result.code, result.err, result.kinds) == (1, "", kinds)
    assert (tmp_path / "a.function.npz").exists() == computed
    if computed:
        # the simulation does not include the fault: all words are exact
        assert (result.json["exact"], result.json["inputs"]) == (INPUTS, INPUTS)
    else:
        assert result.json["not_computed"] and "exact" not in result.json
    assert all(fault["affects_function"] and fault["text"] for fault in result.json["faults"])


@pytest.mark.full(every=4)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["second guide", "wire cut"])
def test_the_other_commands_report_the_same_faults(
    command: str, name: str, faulty: Callable[[str], Path], tiny_chip: Path, tmp_path: Path
) -> None:
    result = simulate_by(command, faulty(name), tiny_chip, tmp_path)
    assert (result.code, result.err, result.kinds) == (1, "", FAULTY[name][1])
    computed = FAULTY[name][2]
    assert ("not_computed" in result.json) != computed and any(tmp_path.iterdir()) == computed
    if command == "yield" and computed:
        assert json.loads(next(tmp_path.glob("*.yield.json")).read_text())["faults"] == result.json["faults"]


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_a_layout_without_faults_passes(command: str, tiny_chip: Path, tmp_path: Path) -> None:
    result = simulate_by(command, tiny_chip, tiny_chip, tmp_path)
    assert (result.code, result.json["faults"]) == (0, [])


def test_the_text_lists_faults_by_place_and_a_harmless_one_is_a_warning(
    base: Base, faulty: Callable[[str], Path], tiny_chip: Path, tmp_path: Path
) -> None:
    weights, netlist, bias = (tiny_chip.with_suffix(ending) for ending in (".npz", ".pic.yml", ".bias.yml"))
    path, out = tmp_path / "marked.gds", tmp_path / "a.function.npz"
    draft = Draft(base)
    draft.add("coupled", kdb.Box(0, 0, 10_000, 20_000))
    draft.write(path)
    result = run("check", path, "--weights", weights, netlist, "--bias", bias, "-o", out)
    assert result.code == 0 and "of which none can affect the function" in result.out
    assert "warning coupled at (5.000, 10.000) µm: " in result.out
    result = run("check", faulty("wire cut"), "--weights", weights, netlist, "--bias", bias, "-o", out)
    assert result.code == 1 and result.out.startswith("not computed: ")
    assert re.search(r"^fault open_wire at \(\d+\.\d{3}, \d+\.\d{3}\) µm: .*its wire is cut", result.out, re.MULTILINE)


def test_errors_of_other_inputs_are_not_blamed_on_the_layout(
    faulty: Callable[[str], Path], tiny_chip: Path, tmp_path: Path
) -> None:
    bias = tiny_chip.with_suffix(".bias.yml")
    result = run("simulate", tiny_chip, "--bias", bias, "--ports", "nowhere", "-o", tmp_path / "a.s1p")
    assert (result.code, result.out) == (2, "") and "'nowhere'" in result.err
    # the bias of another chip: the layout has no faults of its own
    other = tmp_path / "other.bias.yml"
    other.write_text(bias.read_text().replace("  trim_", "  other_", 1))
    result = run("drc", tiny_chip, "--bias", other, "-o", tmp_path / "a.lyrdb")
    assert result.code == 1 and re.search(r"^0 violations .*; 2 electrical faults$", result.out, re.MULTILINE)
    assert "\nelectrical channel_without_heater: the bias drives channel 'other_" in result.out
    assert re.search(r"^electrical heater_without_channel at \(.*\) µm: ", result.out, re.MULTILINE)


def test_drc_delivers_geometric_results_beside_electrical_faults(base: Base, tiny_chip: Path, tmp_path: Path) -> None:
    draft = Draft(base)
    KINDS["wire cut by 11 um"](draft, np.random.default_rng(3))
    spot = draft.clear_spot(np.random.default_rng(4), 12_000)
    draft.add("core", kdb.Box(spot.left, spot.bottom, spot.right, spot.bottom + 50))
    draft.write(tmp_path / "cut.gds")
    bias = tiny_chip.with_suffix(".bias.yml")
    result = run("drc", tmp_path / "cut.gds", "--bias", bias, "-o", tmp_path / "a.lyrdb", "--json")
    numbers = {row["id"]: row for row in result.json["rules"]}
    assert (result.code, result.err) == (1, "") and numbers["core.width"]["violations"] == 1
    assert result.kinds == {"open_wire", "channel_without_heater"}
    # currents of the other heaters are checked
    assert numbers["metal.current"]["run"] and result.json["ground_rise_mv"] > 100
    report = rdb.ReportDatabase("a")
    report.load(str(tmp_path / "a.lyrdb"))
    items = {c.name().strip("'"): c.num_items() for c in report.each_category()}
    assert items["core.width"] == items["electrical.open_wire"] == items["electrical.channel_without_heater"] == 1


def test_lvs_writes_its_result_before_the_second_opinion(
    tiny_chip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optinc_pdk.signoff.lvs import klayout_comparer

    def broken(*_: object) -> None:
        raise RuntimeError("no second opinion")

    monkeypatch.setattr(klayout_comparer, "compare_with_klayout", broken)
    netlist, out = tiny_chip.with_suffix(".pic.yml"), tmp_path / "a.lvs.json"
    assert run("lvs", tiny_chip, netlist, "-o", out, "--second-opinion").code == 3
    assert json.loads(out.read_text())["match"] and (tmp_path / "a.lvs.lyrdb").is_file()


def test_a_build_lists_the_faults_of_its_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault("stray", "silicon of 1.000 µm² belongs to no device", (1.0, 2.0))

    def with_fault(*arguments: Any) -> extract.Extraction:
        found = extract_layout(*arguments)
        return replace(found, faults=(*found.faults, fault))

    monkeypatch.setattr(extract, "extract", with_fault)
    built = build(_spread(), tmp_path, BuildOptions(name="spread"))
    numbers = json.loads((tmp_path / "spread.report.json").read_text())
    assert numbers["faults"] == [LayoutFault(fault.kind, fault.message, fault.position_um).to_json()]
    assert "layout: 1 faults that can affect the function and are not simulated" in built.report.failures()
    assert not built.passed and any(line.startswith("fault stray at (1.000, 2.000) µm") for line in built.findings)


def kinds_of(argument: ast.expr) -> list[ast.Constant]:
    """Constants that an argument, or either branch of a condition, states."""
    branches = [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument]
    return [each for each in branches if isinstance(each, ast.Constant)]


def kinds_in_source() -> set[str]:
    """First arguments of all calls of `Fault` and `LayoutFault` in the packages that create them."""
    found = set()
    package = Path(inspect.getfile(extract)).parent.parent
    for path in (*(package / "extract").rglob("*.py"), *(package / "signoff").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Fault", "LayoutFault"):
                found |= {arg.value for arg in kinds_of(node.args[0])}
    return found


def test_the_table_has_every_kind_of_fault_and_the_page_has_the_table() -> None:
    assert kinds_in_source() == set(FAULT_KINDS)
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \| (.*) \|$", (DOCS / "function_check.md").read_text(), re.MULTILINE)
    assert rows == [
        (kind, "yes" if entry.affects_function else "no", entry.meaning) for kind, entry in FAULT_KINDS.items()
    ]
    assert not affect_function([LayoutFault("coupled", "")]) and affect_function([LayoutFault("stray", "")])
