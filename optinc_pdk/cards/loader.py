"""Loader of process cards, which merges files with those of base processes; digests of the parts of cards."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from optinc_pdk.cards.consistency import check_lengths, check_rules, with_radius_lengths
from optinc_pdk.cards.device import DeviceCard, cell_digest
from optinc_pdk.cards.process import Process, inherited_files
from optinc_pdk.cards.quantity import CardError, StrictModel, describe_fault, quantities
from optinc_pdk.cards.rules import GuideSpaceRule, Polygons, Rule, load_rules
from optinc_pdk.cards.technology import LayerCard
from optinc_pdk.io.reading import CARD, S_PARAMETERS, read_bytes, real_path
from optinc_pdk.io.yaml_files import load_yaml
from optinc_pdk.options import DEFAULT_PROCESS

Model = TypeVar("Model", bound=StrictModel)


def components_folder() -> Path:
    """Return the path of ``components/``: inside an installed package, or beside the package in a source checkout.

    Raises:
        CardError: There is no such folder.
    """
    package = real_path(__file__).parent.parent
    for folder in (package / "components", package.parent / "components"):
        if folder.is_dir():
            return folder
    raise CardError(f"no folder 'components' in or beside {package}; reinstall optinc-pdk")


def process_names() -> tuple[str, ...]:
    """Return the names of the bundled processes, sorted."""
    return tuple(sorted(path.parent.name for path in components_folder().glob("*/process.yml")))


def load_process(name: str | Path = DEFAULT_PROCESS) -> Process:
    """Load and check a process card with its rules and devices; the result is cached.

    ``name`` is that of a process in ``components/``, or the path of a folder with a ``process.yml``.

    Examples:
        >>> from optinc_pdk.cards import load_process
        >>> load_process("soi220").name
        'soi220'

    Raises:
        CardError: There is no such process, or one of its cards is unusable.
    """
    # the resolved path is a part of the key only: the current folder may change
    return _loaded_process(str(name), real_path(name))


@cache
def _loaded_process(name: str, _: Path) -> Process:
    folders, data = _process_cards(_folder(name), ())
    path = folders[0] / "process.yml"
    layers = _parse(_Layers, {"layers": data.get("layers")}, path).layers
    data["folders"] = folders
    data["devices"] = {path.stem: _device(path) for path in inherited_files(folders, "devices/*.yml")}
    _check_replaced(folders, data["devices"])
    rules = _rules(folders, {key: layer.gds for key, layer in layers.items()})
    data["rules"] = tuple(_with_silicon(rule, folders, data["devices"]) for rule in rules)
    process = _parse(Process, data, path)
    rules = tuple(with_radius_lengths(rule, process) for rule in process.rules)
    process = process.model_copy(update={"rules": rules})
    check_lengths(((key, value) for key, value in quantities(process, "") if key.endswith("_um")), path)
    check_rules(process)
    return process


def _folder(name: str) -> Path:
    """Return the folder of a process's cards; a bare name refers to the package's first, ``./name`` to a folder."""
    folder = Path(name)
    if folder.name == name and (components_folder() / name / "process.yml").is_file():
        folder = components_folder() / name
    if not (folder / "process.yml").is_file():
        raise CardError(
            f"no process {name!r}: give one of {', '.join(process_names())}, or a folder with a process.yml"
        )
    return folder


def _process_cards(folder: Path, derived: tuple[Path, ...]) -> tuple[tuple[Path, ...], dict[str, Any]]:
    """Return a process's folders, its own first, and its card merged with those of its base processes."""
    path = folder / "process.yml"
    if folder in derived:
        raise CardError(f"{path}: a process is based on itself; correct 'base'")
    data = _card(path, 1)
    base = data.pop("base", None)
    if base is None:
        return (folder,), data
    if not isinstance(base, str):
        raise CardError(f"{path}: base: {base!r} is not the name of a process; give the name of the base process")
    try:
        base_folder = _folder(base)
    except CardError as fault:
        raise CardError(f"{path}: base: {fault}") from None
    folders, inherited = _process_cards(base_folder, (*derived, folder))
    return (folder, *folders), _merged(inherited, data)


def _merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Merge mappings key by key; ``override`` replaces anything else, and every quantity as a whole."""
    merged = dict(base)
    for key, value in override.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and "value" not in value:
            value = _merged(old, value)
        merged[key] = value
    return merged


def _rules(folders: tuple[Path, ...], layers: Mapping[str, tuple[int, int]]) -> tuple[Rule, ...]:
    """Return the rules of a process and its base processes; a rule of the same id replaces the inherited one."""
    rules: dict[str, Rule] = {}
    for folder in folders[::-1]:
        path = folder / "rules.yml"
        # a file that cannot be read must not leave the process without its own rules
        if folder == folders[-1] or os.path.lexists(path):
            rules |= {rule.id: rule for rule in load_rules(path, layers)}
    return tuple(rules.values())


def _with_silicon(rule: Rule, folders: tuple[Path, ...], devices: Mapping[str, DeviceCard]) -> Rule:
    """Return a rule of guide space with the silicon of its devices; other rules as is."""
    if not isinstance(rule, GuideSpaceRule):
        return rule
    unknown = [name for name in rule.devices if devices and name not in devices]
    if unknown:
        raise CardError(
            f"{folders[0]}: rule {rule.id!r}, key devices: no device {unknown[0]!r}; take some of {', '.join(devices)}"
        )
    paths = [path for name in rule.devices for path in inherited_files(folders, f"golden/{name}.json")]
    return rule.model_copy(update={"silicon_nm": tuple(map(_silicon, paths))})


def _silicon(path: Path) -> Polygons:
    """Return the silicon polygons of a golden file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        core = data["layers"]["core"]
        if "holes" in data:
            raise ValueError("its silicon encloses holes, which devices that a rule of guide_space names cannot have")
        return tuple(tuple((int(x), int(y)) for x, y in polygon) for polygon in core)
    except (OSError, KeyError, TypeError, ValueError) as fault:
        raise CardError(
            f"{path}: not a valid golden device: {type(fault).__name__} {fault}; delete it, and write it again with: "
            f"optinc process golden --process {path.parent.parent}"
        ) from fault


class _Layers(StrictModel):
    """The layers alone; rules refer to them."""

    layers: Mapping[str, LayerCard]


def _device(path: Path) -> DeviceCard:
    device = _parse(DeviceCard, _card(path, 1), path)
    if device.name != path.stem:
        raise CardError(f"{path}: name is {device.name!r}, the file name is {path.stem!r}; make them equal")
    check_lengths(quantities(device.geometry, "geometry"), path)
    if device.cell is not None:
        try:
            device = device.model_copy(update={"cell": device.cell.located(path.parent)})
        except ValueError as fault:
            raise CardError(f"{path}: {fault}") from fault
    if device.model.file is None:
        return device
    file = path.parent / device.model.file
    if not file.is_file():
        raise CardError(
            f"{path}: model.file: there is no file {file}; correct the path, which is relative to the card's folder"
        )
    return device.model_copy(update={"model": device.model.model_copy(update={"file": file})})


def _check_replaced(folders: tuple[Path, ...], devices: Mapping[str, DeviceCard]) -> None:
    """Check that no device with a cell of its own replaces a device of a base process that the package draws.

    The package's circuits, such as meshes, are drawn with that device, and would be drawn with the wrong dimensions.
    """
    for name, device in devices.items():
        path, *replaced = [path for folder in folders if (path := folder / "devices" / f"{name}.yml").is_file()]
        for other in replaced if device.cell is not None else ():
            if _device(other).cell is None:
                raise CardError(
                    f"{path}: cell: the device replaces {name!r} of {other}, which circuits of the base process are "
                    "drawn with; give it another name"
                )


def _card(path: Path, schema: int) -> dict[str, Any]:
    data = load_yaml(path, CARD, CardError)
    found = data.pop("schema", None)
    # True equals 1
    if type(found) is not int or found != schema:
        raise CardError(f"{path}: schema must be {schema}; correct it")
    return data


def _parse(model: type[Model], data: Mapping[str, Any], path: Path) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as fault:
        first = fault.errors()[0]
        raise CardError(f"{path}: {describe_fault(first, '.'.join(map(str, first['loc'])))}") from fault


DEVICES = "devices/"
"""Prefix of the names of device cards."""
TEXTS = ("title", "sources", "source", "text")
"""Keys of cards that explain numbers and change no result."""
_NOT_A_PART = ("name", "folders", "devices", *TEXTS)
DIGITS = 16
"""Hexadecimal digits of a digest."""


def card_digests(process: Process) -> dict[str, str]:
    """Return a digest of each part of a process card, independent of its folder, its sources and its texts.

    Names are keys of ``process.yml`` such as ``noise``, ``rules``, and ``devices/<name>``. Those of devices include the
    content of the files of S-parameters and of layouts or functions that their cards name.

    Raises:
        InputError: Such a file cannot be read.
    """
    data = process.model_dump(mode="json", exclude={*_NOT_A_PART})
    found = {name: _digest(_json(part)) for name, part in data.items()}
    found |= {f"{DEVICES}{name}": _digest(*_device_parts(card)) for name, card in process.devices.items()}
    return dict(sorted(found.items()))


def changed_parts(stated: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return the names of the parts whose digests differ, or that only one of both cards has, sorted."""
    return sorted(name for name in {*stated, *found} if stated.get(name) != found.get(name))


def _device_parts(card: DeviceCard) -> Iterator[bytes]:
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
