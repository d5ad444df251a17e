"""Trained network to circuit: every optical and electrical connection of the chip, and its board."""

from __future__ import annotations

from dataclasses import replace

from optinc_pdk.assemble.library import composites, library
from optinc_pdk.assemble.mesh import Modes, add_heater
from optinc_pdk.assemble.trees import tree
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Board, Builder, Circuit, Neuron
from optinc_pdk.files import InputError
from optinc_pdk.onn import Onn

GROUND_PADS = 8
MAX_LATTICE = 2**25
SMALLEST = 1e-30


def assemble(onn: Onn, process: Process, name: str) -> Circuit:
    """The circuit of a network, from the mathematics alone.

    Args:
        onn: Network; its matrices' shapes and factorisations decide the circuit, their values the bias.
        process: Process; gives the devices and says where activations live.
        name: Chip name.

    Returns:
        A hierarchical circuit with its board and floorplan grid.

    Raises:
        InputError: A factorisation or preprocessing that is not built on the chip yet.
    """
    task = onn.task
    check_buildable(onn)
    if process.activation.realisation != "offchip":
        raise InputError(
            f"process {process.name!r} realises activations {process.activation.realisation}; circuits have them "
            "off-chip only, set activation.realisation to offchip"
        )
    cells = composites(process)
    b = Builder(name, library(process, cells), cells)
    for i in range(GROUND_PADS):
        b.add(f"pad_GND{i}", "pad")
        b.ports[f"GND{i}"] = f"pad_GND{i},e1"
        if i:
            b.connect("pad_GND0,e1", f"pad_GND{i},e1")
    light = _preprocess(b, task)
    oscillators: list[str] = []
    neurons: list[Neuron] = []
    for index, layer in enumerate(onn.layers):
        rows = _layer(b, f"l{index}", layer.weight.shape, onn.factor[index] == "svd", light)
        if index == len(onn.layers) - 1:
            _outputs(b, task, rows)
            break
        root, plus, minus = _mixers(b, f"l{index}", rows)
        oscillators.append(root)
        following = [fibre(b, f"l{index + 1}_in_r{row}", f"l{index + 1}", row) for row in range(len(rows))]
        light = {row: port for row, (port, _) in enumerate(following)}
        neurons += [
            Neuron(f"l{index}_r{row}", index, plus[row], minus[row], label) for row, (_, label) in enumerate(following)
        ]
    supplies, monitors = _carrier(b, task, oscillators)
    board = Board("carrier", supplies, monitors, inputs(task), tuple(neurons), outputs(task))
    return replace(b.build(), board=board)


def check_buildable(onn: Onn) -> None:
    """Refuse what has no circuit yet.

    Raises:
        InputError: Says what, and what would be built.
    """
    task = onn.task
    if task.groups != task.bits // 2:
        raise InputError(
            f"groups is {task.groups}: symbols weighted base 4 within a group have no combiner circuit yet; "
            f"use one group per symbol, {task.bits // 2}"
        )
    if task.remainder or task.finer_input:
        raise InputError("remainder and finer_input belong to cascades, which have no circuit yet; set them to false")
    if task.lattice_size > MAX_LATTICE:
        raise InputError(
            f"the lattice of {task.servers} servers and {task.groups} inputs has {task.lattice_size} points; a build "
            f"checks every one, up to {MAX_LATTICE}; use fewer servers or bits"
        )
    check_weights(onn)
    if len(onn.layers) < 2:
        raise InputError("the network has one layer; a chip has at least two, joined by activations")
    last = len(onn.layers) - 1
    if onn.layers[last].bias.any():
        raise InputError(
            f"layers.{last}.bias is not zero: receivers see |field|² and nothing adds a constant to light; give the "
            "last hidden layer one more unit of weights 0 and bias 1, and its column in the last weight this bias"
        )
    for index, (layer, method) in enumerate(zip(onn.layers, onn.factor, strict=True)):
        if method != "svd" and method[1] < max(layer.weight.shape):
            raise InputError(
                f"layer {index} is {layer.weight.shape[0]}×{layer.weight.shape[1]} in blocks of {method[1]}: the "
                f"splitter trees that join several blocks have no circuit yet; use 'svd' or a block of "
                f"{max(layer.weight.shape)}"
            )


def check_weights(onn: Onn) -> None:
    """Refuse matrices whose size light cannot carry.

    Raises:
        InputError: Says which layer, its largest entry and the limits.
    """
    for index, layer in enumerate(onn.layers):
        largest = float(abs(layer.weight).max())
        if not SMALLEST < largest < 1 / SMALLEST:
            raise InputError(
                f"layers.{index}.weight has {largest:g} as its largest entry; light needs one between {SMALLEST:g} and "
                f"{1 / SMALLEST:g}: train again, or scale the layers"
            )


def inputs(task: Averaging) -> tuple[tuple[str, ...], ...]:
    """Labels of the servers' fibres in, by server and symbol."""
    return tuple(tuple(f"in_s{s}_m{m}" for m in range(task.symbols)) for s in range(task.servers))


def outputs(task: Averaging) -> tuple[tuple[str, ...], ...]:
    """Labels of the servers' fibres out, by server and symbol."""
    return tuple(tuple(f"out_s{s}_m{m}" for m in range(task.symbols)) for s in range(task.servers))


def fibre(b: Builder, label: str, section: str, row: int) -> tuple[str, str]:
    """Add a labelled grating coupler; returns its guide port and its label."""
    coupler = b.add(f"fibre_{label}", "grating_coupler", (section, 0, row))
    b.ports[label] = f"{coupler},o2"
    return f"{coupler},o1", label


def _preprocess(b: Builder, task: Averaging) -> dict[int, str]:
    """P: per symbol, the servers' fields through trims into a balanced combiner tree."""
    light: dict[int, str] = {}
    size = 1 << (task.servers - 1).bit_length()
    for symbol in range(task.symbols):
        leaves: list[str] = []
        for server in range(size):
            at = ("p", 0, symbol * size + server)
            if server >= task.servers:
                # a tree of fewer servers than leaves would weight them unequally
                leaves.append(b.add(f"p_dark_s{server}_m{symbol}", "terminator", at) + ",o1")
                continue
            port, _ = fibre(b, f"in_s{server}_m{symbol}", "p", symbol * size + server)
            trim = b.add(f"trim_s{server}_m{symbol}", "phase_shifter", at)
            b.connect(port, f"{trim},o1")
            add_heater(b, trim, f"{trim},e2", f"{trim},e1")
            leaves.append(f"{trim},o2")
        light[symbol] = tree(b, f"p_m{symbol}", "p", None, leaves)
    return light


def _layer(b: Builder, name: str, shape: tuple[int, ...], svd: bool, light: dict[int, str]) -> dict[int, str]:
    """One weight matrix; returns the port of each output row."""
    rows, columns = shape[0], shape[1]
    modes = Modes(b, name, light)
    if svd:
        modes.mesh(f"{name}_v", columns)
        modes.attenuators(f"{name}_att", min(rows, columns))
        modes.mesh(f"{name}_u", rows)
    else:
        modes.mesh(f"{name}_v", max(rows, columns))
        modes.attenuators(f"{name}_att", rows)
    return modes.ends


def _mixers(b: Builder, name: str, rows: dict[int, str]) -> tuple[str, list[str], list[str]]:
    """Homodyne mixers with trimmed local oscillators; returns the oscillators' root and the detectors' fibres."""
    leaves: list[str] = []
    plus: list[str] = []
    minus: list[str] = []
    for row in range(len(rows)):
        mixer = b.add(f"{name}_mix_r{row}", "mmi2x2", (f"{name}_mix", 0, row))
        trim = b.add(f"{name}_lo_r{row}", "phase_shifter", (f"{name}_mix", 0, row))
        add_heater(b, trim, f"{trim},e1", f"{trim},e2")
        b.connect(rows[row], f"{mixer},o2")
        b.connect(f"{trim},o1", f"{mixer},o1")
        leaves.append(f"{trim},o2")
        for side, port, labels in (("p", "o3", plus), ("n", "o4", minus)):
            guide, label = fibre(b, f"{name}_{side}_r{row}", f"{name}_mix", row)
            b.connect(f"{mixer},{port}", guide)
            labels.append(label)
    return tree(b, f"{name}_lo", f"{name}_mix", None, leaves), plus, minus


def _outputs(b: Builder, task: Averaging, rows: dict[int, str]) -> None:
    """T: every output symbol to every server."""
    for symbol in range(task.symbols):
        leaves = [
            fibre(b, f"out_s{server}_m{symbol}", "t", symbol * task.servers + server)[0]
            for server in range(task.servers)
        ]
        tree(b, f"t_m{symbol}", "t", rows[symbol], leaves)


def _carrier(b: Builder, task: Averaging, oscillators: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The carrier from the laser to servers, board, monitor and local oscillators; returns supplies and monitors."""
    laser, _ = fibre(b, "carrier", "carrier", task.servers + 2)
    labels = [f"carrier_s{server}" for server in range(task.servers)] + ["carrier_board", "carrier_monitor"]
    leaves = [fibre(b, label, "carrier", row)[0] for row, label in enumerate(labels)]
    first = b.add("carrier_split", "mmi1x2", ("carrier", 0, 0))
    b.connect(laser, f"{first},o1")
    tree(b, "carrier_supply", "carrier", f"{first},o2", leaves)
    # strips alternate below and above the middle of the die; each half gets a tree of its own, so nothing crosses
    above, below = oscillators[1::2], oscillators[0::2][::-1]
    root = f"{first},o3"
    if above:
        halves = b.add("lo_split", "mmi1x2", ("lo", 0, 0))
        b.connect(root, f"{halves},o1")
        tree(b, "lo_above", "lo", f"{halves},o2", above)
        root = f"{halves},o3"
    tree(b, "lo_below", "lo", root, below)
    return tuple(labels[:-1]), (labels[-1],)
