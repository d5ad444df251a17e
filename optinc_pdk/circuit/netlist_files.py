"""The ``.pic.yml`` file: gdsfactory's netlist schema, with additional data of this project under ``info``."""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit.board import Board
from optinc_pdk.circuit.checked_values import (
    REMEDY,
    NetlistError,
    check_schema,
    entries_of,
    index_of,
    list_of,
    mapping_of,
    name_of,
    names_of,
    number_of,
    read_object,
)
from optinc_pdk.circuit.gdsfactory_netlists import PlacedCircuit, placed_circuit
from optinc_pdk.circuit.netlist import UNCONNECTED, Circuit, CircuitBuilder, ComponentType, named_nets
from optinc_pdk.circuit.schematic_cells import CellDrawing, is_schematic
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.io.yaml_files import WIDTH, yaml_text

SCHEMA = 1
_FILE = ("name", "instances", "nets", "ports", "info")


def write_netlist(circuit: Circuit, path: str | Path) -> None:
    """Write a circuit to a ``.pic.yml`` file atomically."""
    write_atomic(Path(path), netlist_text(netlist_dict(circuit)).encode("utf-8"))


def netlist_dict(circuit: Circuit) -> dict[str, Any]:
    """Return a circuit as dicts and lists in gdsfactory's netlist schema.

    The entry ``info`` contains what that schema lacks: schema number, component ports, sub-circuits, grid and board.
    """
    info: dict[str, Any] = {
        "schema": SCHEMA,
        "components": {
            kind.name: {"optical": list(kind.optical), "electrical": list(kind.electrical)}
            for kind in circuit.kinds
            if kind.name not in circuit.cells
        },
        "cells": {name: netlist_dict(cell) for name, cell in circuit.cells.items()},
    }
    if len(circuit.grid):
        info["grid"] = {
            name: [circuit.sections[at[0]], at[1], at[2]]
            for name, at in zip(circuit.instances, circuit.grid.tolist(), strict=True)
            if at[0] != UNCONNECTED
        }
    if circuit.board is not None:
        info["board"] = circuit.board.to_dict()
    return {
        "name": circuit.name,
        "instances": _instances(circuit),
        "nets": [{"p1": a, "p2": b} for a, b in named_nets(circuit)],
        "ports": {label: circuit.port_name(port) for label, port in circuit.ports.items()},
        "info": info,
    }


def _instances(circuit: Circuit) -> dict[str, dict[str, Any]]:
    names = [kind.name for kind in circuit.kinds]
    instances: dict[str, dict[str, Any]] = {
        name: {"component": names[kind]} for name, kind in zip(circuit.instances, circuit.kind.tolist(), strict=True)
    }
    for key, column in circuit.settings.items():
        for i in np.flatnonzero(~np.isnan(column)).tolist():
            instances[circuit.instances[i]].setdefault("settings", {})[key] = float(column[i])
    return instances


def read_netlist(path: str | Path) -> Circuit:
    """Read a circuit from a ``.pic.yml`` file.

    Examples:
        >>> from optinc_pdk.circuit import read_netlist
        >>> read_netlist("out/mine.pic.yml").name
        'mine'

    Raises:
        NetlistError: The file is not a valid netlist; the message names the file and the fault.
    """
    return read_object(path, _circuit, f"a netlist of schema {SCHEMA}")


def read_reference(
    path: str | Path,
    process: Process,
    name: str,
    top: str = "",
    layout_top: Callable[[], str] | None = None,
    draw: CellDrawing | None = None,
) -> Circuit | PlacedCircuit:
    """Read the netlist that a layout is compared with.

    Args:
        path: File.
        process: Process whose device cards state the ports of gdsfactory's instances.
        name: Name of the circuit; see :func:`optinc_pdk.circuit.schematic_cells.cells_of_netlist`.
        top: Name of the top cell of a file of several netlists; empty to choose it.
        layout_top: Function that returns the name of the layout's top cell, whose netlist is the top of several.
        draw: Function that draws cells of the PDK whose netlists the file does not contain, such as
            :func:`optinc_pdk.pdk.cell_drawing` of the process; None to refuse them.

    Returns:
        The circuit of a netlist of this project; for one of gdsfactory, the circuit with the places of its instances.

    Raises:
        NetlistError: The file is not a valid netlist; the message names the file and the fault.
        InputError: As ``layout_top`` raises it.
    """

    def parse(data: Mapping[str, Any]) -> Circuit | PlacedCircuit:
        if is_schematic(data):
            return placed_circuit(data, process, name, top, layout_top, draw)
        if data.keys().isdisjoint(("instances", "info", "channels")):
            raise NetlistError(
                "is no netlist: the key instances is missing; write the file with Component.get_netlist(), or give the "
                "netlist of a build"
            )
        circuit = _circuit(data)
        if top not in ("", circuit.name):
            raise NetlistError(f"is the netlist of a build, {circuit.name!r}; leave --top out")
        return circuit

    return read_object(path, parse, "a netlist")


def _circuit(data: Mapping[str, Any]) -> Circuit:
    if "channels" in data:
        raise NetlistError("is a bias, not a netlist; give a .pic.yml file")
    entries_of("", data, _FILE)
    info = mapping_of("info", data["info"])
    check_schema(info.get("schema"), SCHEMA)
    entries_of("info", info, ("schema", "components"), ("cells", "grid", "board"))
    cells = {name: _cell(name, cell) for name, cell in mapping_of("info.cells", info.get("cells", {})).items()}
    library = {
        name: _component(name, ports) for name, ports in mapping_of("info.components", info["components"]).items()
    }
    library |= {name: composite_type(cell) for name, cell in cells.items()}
    builder = CircuitBuilder(name_of("name", data["name"]), library, cells)
    grid = {name: _place(name, place) for name, place in mapping_of("info.grid", info.get("grid", {})).items()}
    for name, instance in mapping_of("instances", data["instances"]).items():
        where = f"instance {name!r}"
        values = entries_of(where, instance, ("component",), ("settings",))
        settings = {
            key: number_of(f"{where}: setting {key}", value)
            for key, value in mapping_of(f"{where}: settings", values.get("settings", {})).items()
        }
        builder.add(name, name_of(f"{where}: component", values["component"]), grid.get(name))
        if settings:
            builder.settings[name] = settings
    if stray := set(grid) - set(builder.instances):
        raise NetlistError(f"info.grid places {min(stray)!r}, which is no instance; remove it")
    builder.nets = [_net(net) for net in list_of("nets", data["nets"])]
    ports = mapping_of("ports", data["ports"])
    builder.ports = {label: _port_text(f"ports: {label!r}", port) for label, port in ports.items()}
    board = Board.from_dict(info["board"]) if "board" in info else None
    circuit = replace(builder.build(), board=board)
    if board is not None:
        _check_board(circuit, board)
    return circuit


def _cell(name: str, data: Any) -> Circuit:
    cell = _circuit(mapping_of(f"cell {name!r}", data))
    if cell.name != name:
        raise NetlistError(f"cell {name!r} is named {cell.name!r} in its own data; make the names equal")
    return cell


def _component(name: str, data: Any) -> ComponentType:
    where = f"component {name!r}"
    ports = entries_of(where, data, ("optical", "electrical"))
    return ComponentType(name, names_of(f"{where}: optical", ports["optical"]), names_of(where, ports["electrical"]))


def _place(name: str, data: Any) -> tuple[str, int, int]:
    """Section, column and row of an instance."""
    where = f"info.grid: {name!r}"
    place = list_of(where, data)
    if len(place) != 3:
        raise NetlistError(f"{where} has {len(place)} values, expected section, column and row; {REMEDY}")
    return name_of(where, place[0]), index_of(f"{where}: column", place[1]), index_of(f"{where}: row", place[2])


def _net(data: Any) -> tuple[str, str]:
    ends = entries_of("a net", data, ("p1", "p2"))
    return _port_text("a net", ends["p1"]), _port_text("a net", ends["p2"])


def _port_text(where: str, value: Any) -> str:
    """Return a port as ``"instance,port"`` after checking that it is text; its parts are checked by the builder."""
    if not isinstance(value, str):
        raise NetlistError(f"{where}: the port {reprlib.repr(value)} is not text; write 'instance,port'")
    return value


def _check_board(circuit: Circuit, board: Board) -> None:
    labels = board.labels
    for label in labels:
        if label not in circuit.ports:
            raise NetlistError(f"the board names fibre {label!r}, which the circuit does not have")
    if len(labels) != len(set(labels)):
        duplicates = sorted(label for label, count in Counter(labels).items() if count > 1)
        raise NetlistError(f"the board uses fibres twice: {', '.join(duplicates)}; use each once")


def composite_type(cell: Circuit) -> ComponentType:
    """Return the component type of a sub-circuit; its ports are the sub-circuit's labels, optical ones first."""
    light = cell.optical_mask()
    optical = tuple(label for label, port in cell.ports.items() if light[port])
    return ComponentType(cell.name, optical, tuple(label for label in cell.ports if label not in optical))


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)*")
_PORT = re.compile(rf"{_PLAIN.pattern},[A-Za-z][A-Za-z0-9_]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# PyYAML might fold a line at a longer name
_MAX_LENGTH = 50
_PLACEHOLDER = "placeholder_of_{}"


def netlist_text(data: dict[str, Any]) -> str:
    """Return the YAML text of a netlist, see :func:`netlist_dict`: PyYAML's, about twenty times as fast.

    PyYAML writes the small parts; instances, nets, ports and grid, which grow with the chip, are written here. If a
    name might need quotes, PyYAML writes the whole netlist.
    """
    grid = data["info"].get("grid", {})
    parts = {"instances": data["instances"], "nets": data["nets"], "ports": data["ports"], "grid": grid}
    if not all(parts.values()) or not _plain(data["instances"], data["nets"], data["ports"], grid):
        return yaml_text(data)
    placeholder = {key: _PLACEHOLDER.format(key) for key in parts}
    info = data["info"] | {"grid": placeholder["grid"]}
    small = yaml_text(data | {key: placeholder[key] for key in ("instances", "nets", "ports")} | {"info": info})
    texts = {
        "instances": "\n" + "\n".join(f"  {k}: {{component: {v['component']}}}" for k, v in data["instances"].items()),
        "nets": "\n" + "\n".join(f"- {{p1: '{net['p1']}', p2: '{net['p2']}'}}" for net in data["nets"]),
        "ports": " " + _folded(data["ports"]),
        "grid": "\n" + "\n".join(f"    {k}: [{s}, {c}, {r}]" for k, (s, c, r) in grid.items()),
    }
    for key, text in texts.items():
        before, match, after = small.partition(f"{key}: {placeholder[key]}\n")
        if not match or placeholder[key] in after:
            return yaml_text(data)
        small = f"{before}{key}:{text}\n{after}"
    return small


def _folded(ports: Mapping[str, str]) -> str:
    """Return a flow mapping at the top level, folded as PyYAML does: after the item that exceeds the width."""
    lines: list[str] = []
    line = "ports: {"
    for label, port in ports.items():
        if len(line) > WIDTH:
            lines.append(line)
            line = "  "
        elif not line.endswith("{"):
            line += " "
        line += f"{label}: '{port}',"
    lines.append(line[:-1] + "}")
    return "\n".join(lines).removeprefix("ports: ")


def _plain(
    instances: Mapping[str, Any], nets: Sequence[Mapping[str, str]], ports: Mapping[str, str], grid: Mapping[str, Any]
) -> bool:
    """Return whether all names can be written without quotes."""
    names = {*instances, *ports, *(at[0] for at in grid.values()), *(str(i["component"]) for i in instances.values())}
    ends = {*ports.values(), *(net["p1"] for net in nets), *(net["p2"] for net in nets)}
    return (
        all(len(instance) == 1 for instance in instances.values())
        and all(len(name) <= _MAX_LENGTH and _PLAIN.fullmatch(name) for name in names)
        and all(len(end) <= _MAX_LENGTH and _PORT.fullmatch(end) for end in ends)
        and not any(name.lower() in _WORDS for name in names)
    )
