"""Copies of bundled processes for tests to modify."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml

from optinc_pdk.cards import CardError, load_process
from optinc_pdk.cards.loader import components_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the default process."""
    return copied("soi220", tmp_path)


def copied(process: str, folder: Path) -> Path:
    """Copy a bundled process into a folder."""
    return Path(copytree(components_folder() / process, folder / "process"))


def edit(path: Path, *keys: str, value: Any) -> None:
    """Set a value in a YAML file at a path of keys, numbers of list entries or ids of rules; None leaves it empty.

    A number replaces the number of a quantity, which keeps its source.
    """
    data = yaml.safe_load(path.read_text())
    place = data
    for key in keys[:-1]:
        if isinstance(place, list):
            place = place[int(key)] if key.isdigit() else next(rule for rule in place if rule["id"] == key)
        else:
            place = place.setdefault(key, {})
    old = place.get(keys[-1])
    place[keys[-1]] = old | {"value": value} if isinstance(old, dict) and isinstance(value, float | int) else value
    path.write_text(yaml.safe_dump(data))


def refusal(folder: Path) -> str:
    """Return the message with which the process in a folder is refused."""
    with pytest.raises(CardError) as caught:
        load_process(str(folder))
    return str(caught.value)
