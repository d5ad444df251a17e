"""Digests of the parts of a process card, by which a chip's report states the cards that the chip was built with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from optinc_pdk.cards.device import DeviceCard
from optinc_pdk.cards.device_cell import cell_digest
from optinc_pdk.cards.process import Process
from optinc_pdk.io.reading import S_PARAMETERS, read_bytes

DEVICES = "devices/"
"""Prefix of the names of device cards."""
TEXTS = ("title", "sources", "source", "text")
"""Keys of cards that explain numbers and change no result."""
_NOT_A_PART = ("name", "folders", "devices", *TEXTS)
DIGITS = 16
"""Hexadecimal digits of a digest."""


def card_digests(process: Process) -> dict[str, str]:
    """Return a digest of each part of a process card, independent of its folder, its sources and its texts.

    Args:
        process: Process.

    Returns:
        Digests by name: keys of ``process.yml`` such as ``noise``, ``rules``, and ``devices/<name>``. Those of devices
        include the content of the files of S-parameters and of layouts or functions that their cards name.

    Raises:
        InputError: Such a file cannot be read.
    """
    data = process.model_dump(mode="json", exclude={*_NOT_A_PART})
    found = {name: _digest(_json(part)) for name, part in data.items()}
    found |= {f"{DEVICES}{name}": _digest(*_device(card)) for name, card in process.devices.items()}
    return dict(sorted(found.items()))


def changed_parts(stated: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return the names of the parts whose digests differ, or that only one of both cards has, sorted.

    Args:
        stated: Digests by name, as of :func:`card_digests`.
        found: Digests of other cards.
    """
    return sorted(name for name in {*stated, *found} if stated.get(name) != found.get(name))


def _device(card: DeviceCard) -> Iterator[bytes]:
    file = card.model.file
    data = card.model_dump(mode="json", exclude={"cell"})
    if card.cell is not None:
        # with the content of its file, and without the file's place
        data["cell"] = cell_digest(card, ())
    if file is not None:
        data["model"]["file"] = Path(file).name
    yield _json(data)
    if file is not None:
        yield read_bytes(file, S_PARAMETERS)


def _json(data: Any) -> bytes:
    return json.dumps(_without_texts(data), sort_keys=True).encode()


def _without_texts(data: Any) -> Any:
    """Return JSON-compatible data without the keys that explain numbers."""
    if isinstance(data, dict):
        return {key: _without_texts(value) for key, value in data.items() if key not in TEXTS}
    if isinstance(data, list):
        return [_without_texts(value) for value in data]
    return data


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:DIGITS]
