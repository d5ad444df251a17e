"""Golden files: refusal of everything that is no set of polygons and ports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optinc_pdk.cards import CardError, load_process
from optinc_pdk.extract.golden_devices import device_symmetries, read_golden

PROCESS = load_process()
TAPER = (PROCESS.folder / "golden" / "taper.json").read_text()


def put(*path: Any) -> Callable[[Any], None]:
    """Change that sets the value at the end of a path."""
    *way, last, value = path

    def change(data: Any) -> None:
        for step in way:
            data = data[step]
        data[last] = value

    return change


def golden_of(folder: Path, text: str) -> Any:
    (folder / "golden").mkdir()
    (folder / "golden" / "taper.json").write_text(text)
    process = PROCESS.model_copy(update={"folders": (folder,)})
    return read_golden(process), device_symmetries(process)


def test_a_golden_file_is_read(tmp_path: Path) -> None:
    variants, symmetries = golden_of(tmp_path, TAPER)
    assert {variant.name for variant in variants} == {"taper"} and set(symmetries) == {"taper"}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (put("layers", []), "key layers"),
        (put("layers", {}), "no polygon of silicon"),
        (put("layers", "core", 0, []), "key layers.core.0"),
        (put("layers", "core", 0, 0, [1e400, 0]), "Infinity is not a number"),
        (put("layers", "core", 0, 0, [10**30, 0]), "key layers.core.0.0.0"),
        (put("layers", "core", 0, 0, [True, 0]), "key layers.core.0.0.0"),
        (put("layers", "core", 0, 0, [0.5, 0]), "key layers.core.0.0.0"),
        (put("layers", "core", 0, [[0, 0]] * 3), "not a valid golden device"),
        (put("ports", "o1", 1.0), "key ports.o1"),
        (put("ports", "o1", "at", [10**30, 0]), "key ports.o1.at.0"),
        (put("ports", "o1", "at", [0]), "key ports.o1.at"),
        (put("ports", "o1", "fibre", 1), "key ports.o1.fibre"),
        (put("ports", {}), "port 'o1' of the device's card is missing"),
        (put("name", None), "key name"),
        (put("name", "ring"), "no device 'ring'"),
        (put("schema", True), "key schema"),
        (put("schema", 2), "key schema"),
        (put("extra", 1), "unknown key extra"),
    ],
)
def test_other_content_is_refused_with_file_and_key(change: Callable[[Any], None], fault: str, tmp_path: Path) -> None:
    data = json.loads(TAPER)
    change(data)
    with pytest.raises(CardError, match=rf"taper\.json: .*{fault}"):
        golden_of(tmp_path, json.dumps(data))


@pytest.mark.parametrize("text", ["", "[]", "7", TAPER.replace('"name"', '"name":"taper","name"'), "[" * 100_000])
def test_text_that_is_no_golden_file_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(CardError, match=r"taper\.json: "):
        golden_of(tmp_path, text)
