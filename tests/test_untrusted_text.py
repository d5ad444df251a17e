"""Text of files that others wrote: YAML that no file needs is refused, and no name or label acts on a terminal."""

import html
import io
import json
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import gdsfactory as gf
import klayout.db as kdb
import pytest
from rich.table import Table

import optinc_pdk as op
from optinc_collective.interconnect import load_system
from optinc_pdk.cards import load_process, load_rules
from optinc_pdk.circuit import read_bias, read_netlist
from optinc_pdk.cli import main
from optinc_pdk.cli.app import print_table, progress_counter
from optinc_pdk.cli.standard_streams import protected
from optinc_pdk.errors import InputError, printable_line
from optinc_pdk.pdk import active_pdk


def read_process(path: Path) -> object:
    return load_process(str(path.parent))


def read_device(path: Path) -> object:
    (path.parent / "process.yml").write_text("schema: 1\nbase: soi220\nname: mine\n")
    (path.parent / "devices").mkdir()
    path.rename(path.parent / "devices" / path.name)
    return load_process(str(path.parent))


READERS: dict[str, Callable[[Path], object]] = {
    "a.pic.yml": read_netlist,
    "a.bias.yml": read_bias,
    "process.yml": read_process,
    "taper.yml": read_device,
    "rules.yml": lambda path: load_rules(path, {}),
    "system.yml": lambda path: load_system(str(path)),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "text",
    [
        "schema: 1\n<<: {name: a}\n",
        "schema: 1\nname: &a b\ntitle: *a\n",
        "schema: 1\nname: a\nname: a\n",
        "schema: 1\n.nan: 1\n",
        "schema: 1\n7: 1\n",
        "schema: 1\nnull: 1\n",
        "schema: 1\n? [a]\n: 1\n",
        "schema: 1\nname: !!binary aGk=\n",
        "schema: 1\nname: !!set {a, b}\n",
        "schema: 1\nname: !!python/name:os.system ''\n",
        "schema: true\n",
        "schema: 1.0\n",
        "schema: 1\nname: 2001-01-01\n",
        "schema: 1\n--- \nschema: 1\n",
    ],
)
def test_yaml_that_no_file_needs_is_refused(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        READERS[name](path)
    assert name in str(caught.value)


EVIL = "=x \x1b[31mred\x1b]0;title\x07\nverdict   pass\x7f\x9b2J\u202eabc [/red] :star:"
"""A label with escape sequences, a line that looks like a verdict, a direction mark, and markup of tables."""
SHOWN = printable_line(EVIL)


CURSOR = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]|\r")
"""Styles and movements of the cursor of progress bars."""


class Device(io.BytesIO):
    """A terminal, or a pipe, whose bytes are kept."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def close(self) -> None:
        """Stay open when the streams above it are deleted."""


@contextmanager
def devices(terminal: bool) -> Iterator[tuple[Device, Device]]:
    """Standard output and error as the command line sets them up, on devices of our own."""
    pair = Device(terminal), Device(terminal)
    out, err = (io.TextIOWrapper(device, encoding="utf-8") for device in pair)
    with mock.patch.multiple(sys, stdout=out, stderr=err, __stdout__=out, __stderr__=err):
        yield pair
        sys.stdout.flush()
        sys.stderr.flush()


def printed(terminal: bool, *arguments: object) -> tuple[int, str]:
    """Exit code of a command, and what it wrote to standard output and error."""
    with (
        devices(terminal) as (out, err),
        mock.patch.object(sys, "argv", ["optinc", *map(str, arguments)]),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return int(ended.value.code or 0), (out.getvalue() + err.getvalue()).decode()


def acting(text: str) -> set[str]:
    """Characters that may act on a terminal."""
    return {letter for letter in text if not letter.isprintable() and letter != "\n"}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A circuit of two fibre couplers and a pad, all with the evil label; its netlist and a plain copy beside it."""
    folder = tmp_path_factory.mktemp("labelled")
    with active_pdk(load_process()):
        circuit = gf.Component("link")
        left, right = (circuit.add_ref(gf.get_component("grating_coupler"), name=name) for name in ("left", "right"))
        right.connect("o1", left["o1"])
        for name, coupler in (("a", left), ("b", right)):
            circuit.add_port(name, port=coupler["o2"])
        pad = circuit.add_ref(gf.get_component("pad"), name="pad")
        pad.move((0.0, 300.0))
        circuit.write_gds(folder / "plain.gds")
        with warnings.catch_warnings(action="ignore"):  # the pad has no wire
            circuit.write_netlist(circuit.get_netlist(recursive=True), folder / "link.pic.yml")
        layout = kdb.Layout()
        layout.read(str(folder / "plain.gds"))
        shapes = layout.top_cell().shapes(layout.layer(*load_process().gds_layers["label"]))
        for x, y in (left["o2"].center, right["o2"].center, pad.center, (500.0, 500.0)):
            shapes.insert(kdb.DText(EVIL, x, y))
        layout.write(str(folder / "link.gds"))
    return folder


COMMANDS: dict[str, tuple[str, ...]] = {
    "compare": ("plain.gds",),
    "compare --json": ("plain.gds", "--json"),
    "lvs": ("link.pic.yml",),
    "lvs --json": ("link.pic.yml", "--json"),
    "lvs --second-opinion": ("link.pic.yml", "--second-opinion"),
    "drc": ("-o", "link.drc.lyrdb"),
    "verify": ("link.pic.yml", "--wavelengths", "1550"),
    "verify --json": ("link.pic.yml", "--wavelengths", "1550", "--json"),
    "simulate": ("--wavelengths", "1550", "-o", "link.s.npz"),
    "simulate --json": ("--wavelengths", "1550", "--json", "-o", "link.s.npz"),
    "view --png": ("--png",),
}


@pytest.mark.full(every=4)
@pytest.mark.parametrize("command", COMMANDS)
def test_labels_of_a_layout_do_not_act(
    command: str, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(labelled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    name, *flags = command.split()
    code, text = printed(False, name, "link.gds", *COMMANDS[command], *(flags if flags == ["--second-opinion"] else ()))
    assert code in (0, 1), text
    assert not acting(text)
    # no line begins within the label
    assert not re.search(r"^verdict   pass\\u007f", text, re.MULTILINE)
    for path in tmp_path.iterdir():
        if path.suffix in (".json", ".html", ".lyrdb", ".csv", ".svg"):
            content = path.read_text(encoding="utf-8")
            assert not acting(html.unescape(content)) - {"\t"}, path.name
    if name == "compare":
        assert SHOWN in text or "--json" in command
    if command == "compare --json":
        (top,) = json.loads(text)["tops"]
        assert {label["text"] for label in top["labels"]["only_a"]} == {EVIL}


def test_names_in_tables_are_text_on_a_terminal() -> None:
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    with devices(terminal=True) as (out, _), mock.patch.dict("os.environ", {"TERM": "xterm", "COLUMNS": "400"}):
        sys.stdout = protected(sys.stdout)  # type: ignore[arg-type]
        print_table(table)
    text = out.getvalue().decode()
    # styles of the table itself
    assert "\x1b[1m" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert not acting(plain)
    assert plain.count("\\u001b[31mred\\u001b]0;title") == 3
    assert plain.count("[/red] :star:") == 3


def test_names_of_tasks_are_text_on_a_terminal() -> None:
    with devices(terminal=True) as (_, err), mock.patch.dict("os.environ", {"TERM": "xterm", "COLUMNS": "400"}):
        sys.stderr = protected(sys.stderr)  # type: ignore[arg-type]
        with progress_counter() as report:
            report(EVIL, 1, 3)
    text = err.getvalue().decode()
    assert "\\u001b[31mred" in text and "[/red] :star:" in text
    # only styles, and movements of the cursor
    assert not acting(CURSOR.sub("", text))
    assert "\x1b[31mred" not in text


@pytest.mark.parametrize(
    "arguments", [("lvs", EVIL), ("compare", EVIL, EVIL), (EVIL,), ("build", EVIL, "--process", EVIL)]
)
def test_arguments_are_text_in_messages(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text = printed(True, *arguments)
    assert code == 2
    # messages of the command line itself quote as Python does
    assert "\\u001b[31m" in text or "\\x1b[31m" in text
    assert "\x1b[31m" not in text and not acting(CURSOR.sub("", text))


PACKAGE = Path(op.__file__).parent


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        (r"csv\.(writer|DictWriter)\(", {"writing.py"}),
        (r"Console\((?!Console)", {"app.py", "cascade_report.py"}),
        # one is compressed and read by a page
        ("ensure_ascii=False", {"json_files.py", "rendering.py"}),
    ],
)
def test_text_leaves_through_one_place(pattern: str, allowed: set[str]) -> None:
    sources = [path for path in PACKAGE.rglob("*.py") if re.search(pattern, path.read_text(encoding="utf-8"))]
    assert {path.name for path in sources} == allowed
