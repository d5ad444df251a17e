"""What YAML allows and no file of this project needs is refused by every reader of YAML, with the file's name."""

from collections.abc import Callable
from pathlib import Path

import pytest

from optinc_pdk.cards import load_process, load_rules
from optinc_pdk.circuit import read_bias, read_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.interconnect import load_system


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
