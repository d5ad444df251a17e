"""The ``.pic.yml`` file: gdsfactory's netlist schema, with additional data of this project under ``info``."""

from __future__ import annotations

import math
import reprlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from optinc_pdk.circuit.board import Board
from optinc_pdk.circuit.connectivity import UNCONNECTED
from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.netlist import Circuit, CircuitBuilder, ComponentType, named_nets
from optinc_pdk.circuit.yaml_reader import read_object
from optinc_pdk.circuit.yaml_writer import netlist_text
from optinc_pdk.file_writing import write_atomic

SCHEMA = 1


def write_netlist(circuit: Circuit, path: str | Path) -> None:
    """Write a circuit to a ``.pic.yml`` file atomically.

    Args:
        circuit: Circuit.
        path: File to write.
    """
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

    Args:
        path: File.

    Raises:
        NetlistError: The file is not a valid netlist; the message names the file and the fault.
    """
    return read_object(path, _circuit, f"a netlist of schema {SCHEMA}")


def _circuit(data: Mapping[str, Any]) -> Circuit:
    known = {"name", "instances", "nets", "ports", "info"}
    if "channels" in data:
        raise NetlistError("is a bias, not a netlist; give a .pic.yml file")
    if unknown := set(data) - known:
        raise NetlistError(f"unknown keys {sorted(unknown)}; known are {sorted(known)}")
    info = data["info"]
    if info["schema"] != SCHEMA:
        raise NetlistError(f"schema {info['schema']}, this version reads {SCHEMA}; build the chip again")
    cells = {str(name): _circuit(cell) for name, cell in info.get("cells", {}).items()}
    library = {
        str(name): ComponentType(str(name), tuple(map(str, ports["optical"])), tuple(map(str, ports["electrical"])))
        for name, ports in info["components"].items()
    }
    for name, cell in cells.items():
        if cell.name != name:
            raise NetlistError(f"cell {name!r} is named {cell.name!r} in its own data; make the names equal")
        library[name] = composite_type(cell)
    builder = CircuitBuilder(str(data["name"]), library, cells)
    grid = {str(k): (str(at[0]), int(at[1]), int(at[2])) for k, at in info.get("grid", {}).items()}
    for name, instance in data["instances"].items():
        settings = {str(k): _finite(name, k, v) for k, v in instance.get("settings", {}).items()}
        builder.add(str(name), str(instance["component"]), grid.get(str(name)), **settings)
    builder.nets = [(str(net["p1"]), str(net["p2"])) for net in data["nets"]]
    builder.ports = {str(label): str(port) for label, port in data["ports"].items()}
    board = Board.from_dict(info["board"]) if "board" in info else None
    circuit = replace(builder.build(), board=board)
    if board is not None:
        _check_board(circuit, board)
    return circuit


def _finite(instance: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NetlistError(f"instance {instance!r}: setting {key} is {reprlib.repr(value)}, expected a finite number")
    return float(value)


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
