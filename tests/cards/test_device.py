"""The key ``cell`` of device cards: what is accepted, and what is refused when a process is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from optinc_pdk.cards import CardError, load_process
from optinc_pdk.cards.device import cell_digest
from optinc_pdk.cards.device_models import NO_MODEL
from optinc_pdk.cards.loader import card_digests, changed_parts
from optinc_pdk.io.yaml_files import dump_yaml

PLACES = {"o1": {"at_um": [0, 0], "angle_deg": 180}, "o2": {"at_um": [10.5, -2], "angle_deg": 0}}
LAYERS = ((3, 0), (6, 0))


def card(name: str = "mine", **changes: Any) -> dict[str, Any]:
    """A device card with a cell from a layout file; a change of None leaves the key out."""
    data: dict[str, Any] = {
        "schema": 1,
        "name": name,
        "title": "Device",
        "ports": {"optical": ["o1", "o2"]},
        "cell": {"gds": "mine.gds", "ports": PLACES},
        "sources": {},
    } | changes
    return {key: value for key, value in data.items() if value is not None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "process.yml").write_text("schema: 1\nname: own\nbase: soi220\n")
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "mine.gds").write_bytes(b"a layout")
    (tmp_path / "devices" / "mine.py").write_text("raise RuntimeError\n")
    return tmp_path


Write = Callable[[dict[str, Any]], None]


@pytest.fixture
def write(folder: Path) -> Write:
    return lambda data: dump_yaml(folder / "devices" / f"{data['name']}.yml", data)


def test_files_are_found_beside_the_card_and_need_no_model(folder: Path, write: Write) -> None:
    write(card())
    write(card("other", cell={"function": "mine.py:draw", "settings": {"width": 2.0}}))
    devices = load_process(folder).devices
    mine, other = devices["mine"].cell, devices["other"].cell
    assert mine is not None
    assert other is not None
    assert mine.gds == mine.file == folder / "devices" / "mine.gds"
    assert mine.ports["o2"].at_nm == (10500, -2000)
    assert other.function == f"{folder / 'devices' / 'mine.py'}:draw"
    assert devices["mine"].model.name == NO_MODEL


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cell": {"gds": "mine.gds", "ports": PLACES, "colour": 1}}, ("cell.colour", "unknown key")),
        ({"cell": {"gds": "mine.gds", "function": "a.b:c"}}, ("cell", "gds", "function")),
        ({"cell": {"ports": PLACES}}, ("cell", "gds", "function")),
        ({"cell": {"gds": "none.gds", "ports": PLACES}}, ("cell.gds", "none.gds")),
        ({"cell": {"function": "none.py:draw"}}, ("cell.function", "none.py")),
        ({"cell": {"function": "a.b"}}, ("cell.function", "a.b")),
        ({"cell": {"function": "import os; os:c"}}, ("cell.function",)),
        ({"cell": {"gds": "mine.gds", "settings": {"a": 1}, "ports": PLACES}}, ("settings", "function")),
        ({"cell": {"gds": "mine.gds", "pdk": "a:B", "ports": PLACES}}, ("pdk", "function")),
        ({"cell": {"function": "a.b:c", "top": "mine"}}, ("top", "gds")),
        ({"cell": {"gds": "mine.gds", "ports": {"o1": PLACES["o1"]}}}, ("cell.ports.o2",)),
        ({"cell": {"function": "a.b:c", "ports": {"o9": PLACES["o1"]}}}, ("cell.ports", "'o9'", "o1, o2")),
        ({"cell": {"function": "a.b:c", "ports": {"o1": PLACES["o1"] | {"angle_deg": 45}}}}, ("angle_deg", "45")),
        ({"cell": {"function": "a.b:c", "ports": {"o1": PLACES["o1"] | {"at_um": [0.0001, 0]}}}}, ("at_um", "1 nm")),
        ({"cell": {"function": "a.b:c", "ports": {"o1": PLACES["o1"] | {"at_um": [1e6, 0]}}}}, ("at_um", "100000")),
        ({"name": "straight"}, ("straight", "another name")),
        ({"name": "phase_shifter"}, ("phase_shifter", "another name")),
        ({"name": "mzi"}, ("mzi", "another name")),
        ({"name": "mmi1x2"}, ("'mmi1x2'", "soi220", "another name")),
        ({"ports": {"optical": [], "electrical": ["o1", "o2"]}}, ("cell", "optical")),
    ],
)
def test_cells_that_contradict_themselves_are_refused(
    change: dict[str, Any], words: tuple[str, ...], folder: Path, write: Write
) -> None:
    data = card(**change)
    write(data)
    with pytest.raises(CardError) as error:
        load_process(folder)
    assert all(word in str(error.value) for word in (f"{data['name']}.yml", *words)), error.value


def test_the_digest_follows_card_and_file_and_not_the_place_of_the_folder(folder: Path, write: Write) -> None:
    for name, change in (
        ("a", {}),
        ("b", {}),
        ("c", {"cell": {"gds": "other.gds", "ports": PLACES}}),
        ("d", {"cell": {"gds": "mine.gds", "ports": PLACES | {"o2": {"at_um": [1, 0], "angle_deg": 0}}}}),
        ("e", {"cell": {"gds": "mine.gds", "top": "x", "ports": PLACES}}),
    ):
        (folder / "devices" / "other.gds").write_bytes(b"another layout")
        write(card(name, **change))
    devices = load_process(folder).devices
    found = [cell_digest(devices[name], LAYERS) for name in "abcde"]
    assert found[0] == found[1]
    assert len({*found, cell_digest(devices["a"], ((1, 0), (6, 0)))}) == 5


def test_the_digests_of_a_report_include_the_cell_and_not_the_place_of_the_folder(
    folder: Path, write: Write, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(card())
    other = tmp_path_factory.mktemp("other") / "own"
    copytree(folder, other)
    changed = tmp_path_factory.mktemp("changed") / "own"
    copytree(folder, changed)
    (changed / "devices" / "mine.gds").write_bytes(b"another layout")
    digests = [card_digests(load_process(path)) for path in (folder, other, changed)]
    assert digests[0] == digests[1]
    assert changed_parts(digests[0], digests[2]) == ["devices/mine"]
