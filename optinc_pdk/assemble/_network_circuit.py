"""Assembly of a trained network's circuit: every optical and electrical connection of the chip, and its board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from optinc_pdk.assemble._component_library import check_devices, component_types, composite_circuits
from optinc_pdk.assemble._layer_parts import BlockBuilder, add_fibre, add_linear_block, add_mixers, add_modulators
from optinc_pdk.assemble._splitter_trees import add_tree, check_crossings, copy_inputs, sum_outputs
from optinc_pdk.assemble._weight_blocks import WeightBlock, layer_blocks
from optinc_pdk.assemble.die_plan import (
    CARRIER_TREE,
    DiePlan,
    add_common_grounds,
    begun_circuit,
    finished_circuit,
    strip_names,
)
from optinc_pdk.assemble.preprocessing import add_preprocessing
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.cards.technology import Coupler
from optinc_pdk.circuit import Board, Circuit, CircuitBuilder, Neuron
from optinc_pdk.errors import InputError
from optinc_pdk.networks import Network, NetworkTask, without_output_bias

MAX_INPUT_FIBRES = 2**14
"""Largest number of input fibres, servers times symbols; one die has some hundreds."""
SMALLEST = 1e-30
"""Lower limit of a weight matrix's largest entry; the upper limit is its reciprocal."""


def check_buildable(onn: Network) -> None:
    """Check that this package can assemble a circuit for a network.

    The network must have at most one cascade option, at most ``MAX_INPUT_FIBRES`` inputs of servers, weights in range,
    and two or more layers.

    Raises:
        InputError: A condition is not met; the message states the value and what can be built.
    """
    task = onn.task
    averaging = isinstance(task, Averaging)
    if isinstance(task, Averaging) and task.remainder and task.finer_input:
        raise InputError(
            "remainder and finer_input are both true, which is a middle level of three; a cascade has two levels: "
            "level 1 has remainder = true, level 2 has finer_input = true"
        )
    if task.servers * task.symbols > MAX_INPUT_FIBRES:
        raise InputError(
            f"{task.servers} servers of {task.symbols} symbols need {task.servers * task.symbols} input fibres; the "
            f"limit is {MAX_INPUT_FIBRES}: use fewer servers, or a cascade"
            if averaging
            else f"the network has {task.symbols} inputs, the limit is {MAX_INPUT_FIBRES} input fibres: use fewer"
        )
    check_weights(onn)
    if len(onn.layers) < 2:
        remedy = "add a hidden layer" if task.servers > 1 else "average over 2 or more servers (--servers)"
        if not averaging:
            remedy = "add a hidden layer, or build the chip of its matrix (.npy), without a bias"
        raise InputError(f"the network has one layer; a chip has at least two, joined by activations; {remedy}")


def check_fan_out(onn: Network, process: Process) -> None:
    """Check that no pair of detectors drives more neurons than a process allows (``activation.fan_out_max``)."""
    if process.activation.fan_out_max is None:
        return
    limit = int(process.activation.fan_out_max)
    for index in range(len(onn.layers) - 1):
        rows = onn.detector_rows(index)
        most = int(np.bincount(rows[rows >= 0], minlength=1).max())
        if most > limit:
            raise InputError(
                f"layers.{index} has {most} units with proportional weights, which share one pair of detectors; "
                f"activation.fan_out_max of process {process.name!r} is {limit}: raise it, or use a network whose rows "
                "differ"
            )


def check_weights(onn: Network) -> None:
    """Check that the largest absolute entry of every weight matrix is above 1e-30 and below 1e30.

    Raises:
        InputError: An entry is out of range; the message names the layer, its largest entry and the limits.
    """
    for index, layer in enumerate(onn.layers):
        largest = float(abs(layer.weight).max())
        if not SMALLEST < largest < 1 / SMALLEST:
            raise InputError(
                f"layers.{index}.weight has {largest:g} as its largest entry; fields can represent {SMALLEST:g} to "
                f"{1 / SMALLEST:g}: train again, or scale the layers"
            )


@dataclass(frozen=True)
class CircuitDraft:
    """A network's circuit without the parts that depend on the dies: carrier, oscillator feeds and ground pads.

    Attributes:
        builder: Instances and nets of all strips. Every ground end is joined to ``die_plan.HUB``, whose pad is missing.
        task: Task of the network.
        blocks: Blocks of each layer.
        oscillators: Block name to the open root port of the splitter tree that feeds its local oscillators.
        neurons: Activations of all hidden layers.
        carriers: Labels of the fibres that feed modulators on the chip; empty if modulators are off the chip.
        coherent: Whether the servers have coherent receivers.
        coupler: Device that couples to fibres.
        oscillator_power: Power in the fibres that lead to local oscillators, relative to that in another guide.
    """

    builder: CircuitBuilder
    task: NetworkTask
    blocks: tuple[tuple[WeightBlock, ...], ...]
    oscillators: Mapping[str, str]
    neurons: tuple[Neuron, ...]
    carriers: tuple[str, ...]
    coherent: bool
    coupler: Coupler
    oscillator_power: float

    @property
    def strips(self) -> tuple[str, ...]:
        """Names of the strips of the floorplan, in the order in which light passes them."""
        sections = [block.name for layer in self.blocks for block in layer]
        names = strip_names(sections)
        return tuple(dict.fromkeys(names[section] for section in sections))

    @property
    def shares_one_die(self) -> bool:
        """Whether all strips may share one die and its ground: a carrier tree reaches one bank of mixers a layer."""
        return not self.carriers and all(len({block.bank for block in layer}) == 1 for layer in self.blocks)

    def complete(self, plan: DiePlan) -> Circuit:
        """Return the complete circuit, see :func:`complete_circuit`."""
        return complete_circuit(self, plan)


def assemble(onn: Network, process: Process, name: str, plan: DiePlan = CARRIER_TREE) -> Circuit:
    """Assemble the complete circuit of a network.

    The shapes and factorisations of the weight matrices determine the circuit, and which units share a row of them, see
    :meth:`optinc_pdk.networks.AveragingNetwork.detector_rows`. Other values of the matrices have no effect on it; they
    determine the bias.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.assemble import assemble
        >>> from optinc_pdk.cards import load_process
        >>> from optinc_pdk.networks import carry_chain
        >>> process, network = load_process(), carry_chain(op.Averaging(2, 2, 1))
        >>> circuit = assemble(network, process, "average")
        >>> len(circuit.board.neurons)
        5

    Args:
        plan: How local oscillators are fed, and which strips share grounds.

    Returns:
        A hierarchical circuit with its board and floorplan grid.

    Raises:
        InputError: The network cannot be assembled, or not with the devices of this process.
    """
    return complete_circuit(draft_circuit(onn, process, name), plan)


def draft_circuit(onn: Network, process: Process, name: str) -> CircuitDraft:
    """Assemble the parts of a network's circuit that do not depend on the distribution over dies.

    An output bias becomes a constant unit, see :func:`optinc_pdk.networks.without_output_bias`.

    Returns:
        The draft, which :func:`complete_circuit` completes once the dies are planned.

    Raises:
        InputError: The network cannot be assembled, or not with the devices of this process.
    """
    check_devices(process)
    check_buildable(onn)
    onn = without_output_bias(onn)
    check_fan_out(onn, process)
    blocks = _blocks(onn)
    check_crossings(process, blocks)
    cells = composite_circuits(process)
    b = CircuitBuilder(name, component_types(process, cells), cells)
    light = add_preprocessing(b, onn.task, process)
    feeds = copy_inputs(b, "l0", blocks[0], light)
    roots: dict[str, str] = {}
    neurons: list[Neuron] = []
    coupler = process.fibres.coupler
    for index in range(len(blocks) - 1):
        activated, feeds = _hidden(b, index, blocks, onn.detector_rows(index).tolist(), feeds, roots, process)
        neurons += activated
    last = [add_linear_block(b, block, feed) for block, feed in zip(blocks[-1], feeds, strict=True)]
    _outputs(b, coupler, onn.task, sum_outputs(b, f"l{len(blocks) - 1}", blocks[-1], last))
    banks = dict.fromkeys(block.bank for layer in blocks[1:] for block in layer)
    carriers = tuple(f"carrier_{bank}" for bank in banks) if process.activation.realisation == "onchip" else ()
    coherent = process.link.receivers == "coherent"
    return CircuitDraft(
        b, onn.task, blocks, roots, tuple(neurons), carriers, coherent, coupler, oscillator_power(process)
    )


def _blocks(onn: Network) -> tuple[tuple[WeightBlock, ...], ...]:
    """Blocks of each layer, from top to bottom of the chip.

    In the first layer, blocks of the same columns are neighbours: copies of their inputs cross few others. In the last
    one, blocks of the same rows are, whose outputs are summed.
    """
    first, *others = (layer_blocks(onn, index) for index in range(len(onn.layers)))
    if others:
        first = tuple(sorted(first, key=lambda block: block.place[::-1]))
    return first, *others


def oscillator_power(process: Process) -> float:
    """Return the power in the fibres that lead to local oscillators, relative to that in another guide."""
    budget = process.budget
    return 1.0 if budget is None or budget.oscillator_w is None else float(budget.oscillator_w / budget.laser_w)


def complete_circuit(draft: CircuitDraft, plan: DiePlan) -> Circuit:
    """Return the circuit of a draft with the carrier, the feeds of local oscillators and the ground pads of a plan.

    The draft is not changed.
    """
    b = begun_circuit(draft.builder, plan)
    fibres = () if plan.carrier_tree else _oscillators(b, draft.coupler, draft.oscillators)
    oscillators = list(draft.oscillators.values()) if plan.carrier_tree else []
    supplies, monitors = _carrier(b, draft.coupler, draft.task, oscillators)
    board = Board(
        carrier="carrier",
        supplies=supplies,
        monitors=monitors,
        inputs=input_labels(draft.task),
        neurons=draft.neurons,
        outputs=output_labels(draft.task),
        oscillators=fibres,
        carriers=draft.carriers,
        coherent=draft.coherent,
        oscillator_power=draft.oscillator_power,
    )
    return replace(finished_circuit(b, plan), board=board)


def _hidden(
    b: CircuitBuilder,
    index: int,
    blocks: Sequence[Sequence[WeightBlock]],
    unit_rows: list[int],
    feeds: list[list[str]],
    roots: dict[str, str],
    process: Process,
) -> tuple[list[Neuron], list[list[str]]]:
    """Add one hidden layer up to the inputs of the next; its oscillators' roots are added to ``roots``.

    ``unit_rows`` is the row of the optical matrix that each unit of the layer reads, -1 for a constant.

    Returns:
        The layer's neurons, and the input ports of each block of the next layer.
    """
    plus, minus, to = _LabelsByRow(), _LabelsByRow(), _LabelsByRow()
    outputs = [add_linear_block(b, block, feed) for block, feed in zip(blocks[index], feeds, strict=True)]
    for bank, members in _banks(blocks[index]).items():
        rows = [row for member in members for row in blocks[index][member].rows]
        light = [port for member in members for port in outputs[member]]
        roots[bank], *detectors = add_mixers(b, bank, light, process)
        plus.append(rows, detectors[0])
        minus.append(rows, detectors[1])
    following: list[list[str]] = []
    for bank, members in _banks(blocks[index + 1]).items():
        parts = [blocks[index + 1][member] for member in members]
        section = bank if parts[0].name == bank else f"{bank}_in"
        columns = [column for part in parts for column in part.columns]
        add = add_modulators if process.activation.realisation == "onchip" else _fibres
        sources = add(b, process.fibres.coupler, bank, section, len(columns))
        to.append(columns, [label for _, label in sources])
        ports = iter(port for port, _ in sources)
        following += [list(islice(ports, len(part.columns))) for part in parts]
    neurons = [
        Neuron(f"l{index}_r{unit}", index, plus.get(row, ()), minus.get(row, ()), to[unit])
        for unit, row in enumerate(unit_rows)
    ]
    return neurons, following


def _banks(blocks: Sequence[WeightBlock]) -> dict[str, list[int]]:
    """Numbers of the blocks of each bank."""
    banks: dict[str, list[int]] = {}
    for number, block in enumerate(blocks):
        banks.setdefault(block.bank, []).append(number)
    return banks


class _LabelsByRow(dict[int, tuple[str, ...]]):
    """Labels by row of a weight matrix; a row that several blocks compute has several labels."""

    def append(self, rows: Sequence[int], labels: list[str]) -> None:
        for row, label in zip(rows, labels, strict=True):
            self[row] = (*self.get(row, ()), label)


def input_labels(task: NetworkTask) -> tuple[tuple[str, ...], ...]:
    """Return the labels of the input fibres as ``labels[server][symbol]``, such as ``in_s0_m1``."""
    return tuple(tuple(f"in_s{s}_m{m}" for m in range(task.symbols)) for s in range(task.servers))


def output_labels(task: NetworkTask) -> tuple[tuple[str, ...], ...]:
    """Return the labels of the output fibres as ``labels[server][symbol]``, such as ``out_s0_m1``.

    The outputs of level 1 of a cascade go to one unit of level 2 only; their labels are those of server 0.
    """
    return tuple(tuple(f"out_s{s}_m{m}" for m in range(task.outputs)) for s in range(task.receivers))


def _fibres(b: CircuitBuilder, coupler: Coupler, bank: str, section: str, count: int) -> list[tuple[str, str]]:
    """Add fibres from the board's modulators; return the guide port and label of each."""
    return [add_fibre(b, coupler, f"{bank}_in_r{row}", section, row) for row in range(count)]


def _outputs(b: CircuitBuilder, coupler: Coupler, task: NetworkTask, rows: list[str]) -> None:
    """Add T, the distribution: a splitter tree from every output symbol to every receiver."""
    labels = output_labels(task)
    for symbol in range(task.outputs):
        leaves = [
            add_fibre(b, coupler, row[symbol], "t", symbol * len(labels) + server)[0]
            for server, row in enumerate(labels)
        ]
        add_tree(b, f"t_m{symbol}", "t", rows[symbol], leaves)


def _oscillators(b: CircuitBuilder, coupler: Coupler, roots: Mapping[str, str]) -> tuple[str, ...]:
    """Add a fibre for the local oscillators of each block; return the fibres' labels."""
    labels = []
    for name, root in roots.items():
        port, label = add_fibre(b, coupler, f"lo_{name}", f"{name}_mix", 0)
        b.connect(port, root)
        labels.append(label)
    return tuple(labels)


def _carrier(
    b: CircuitBuilder, coupler: Coupler, task: NetworkTask, oscillators: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Add the carrier from the laser to servers, board, monitor and, where given, local oscillators.

    Returns:
        Labels of the supplies and of the monitors.
    """
    laser, _ = add_fibre(b, coupler, "carrier", "carrier", task.servers + 2)
    labels = [f"carrier_s{server}" for server in range(task.servers)] + ["carrier_board", "carrier_monitor"]
    leaves = [add_fibre(b, coupler, label, "carrier", row)[0] for row, label in enumerate(labels)]
    if oscillators:
        first = b.add("carrier_split", "mmi1x2", ("carrier", 0, 0))
        b.connect(laser, f"{first},o1")
        add_tree(b, "carrier_supply", "carrier", f"{first},o2", leaves)
        _oscillator_trees(b, f"{first},o3", oscillators)
    else:
        add_tree(b, "carrier_supply", "carrier", laser, leaves)
    return tuple(labels[:-1]), (labels[-1],)


def _oscillator_trees(b: CircuitBuilder, root: str, oscillators: list[str]) -> None:
    """Add the carrier's trees to the oscillators of both halves of the die.

    Strips alternate below and above the middle of the die. Each half has a tree of its own, so that no guides cross.
    """
    above, below = oscillators[1::2], oscillators[0::2][::-1]
    if above:
        halves = b.add("lo_split", "mmi1x2", ("lo", 0, 0))
        b.connect(root, f"{halves},o1")
        add_tree(b, "lo_above", "lo", f"{halves},o2", above)
        root = f"{halves},o3"
    add_tree(b, "lo_below", "lo", root, below)


def mesh_chip(modes: int, process: Process, name: str) -> Circuit:
    """Assemble the circuit of a chip with one rectangular mesh and no board.

    Examples:
        >>> from optinc_pdk.assemble import mesh_chip
        >>> from optinc_pdk.cards import load_process
        >>> circuit = mesh_chip(4, load_process(), "mesh")
        >>> len(circuit.instances_of("mzi_unit"))
        6

    Args:
        modes: Number of modes N ≥ 2.

    Returns:
        A hierarchical circuit with input fibres ``in_r<i>`` and output fibres ``out_r<i>`` for modes i = 0 … N - 1.

    Raises:
        InputError: There are fewer than two modes.
    """
    if modes < 2:
        raise InputError(f"modes is {modes}; a mesh has at least 2")
    cells = composite_circuits(process)
    b = CircuitBuilder(name, component_types(process, cells), cells)
    add_common_grounds(b)
    coupler = process.fibres.coupler
    mesh = BlockBuilder(b, "l0", {row: add_fibre(b, coupler, f"in_r{row}", "l0", row)[0] for row in range(modes)})
    mesh.mesh("l0_v", modes)
    for row in range(modes):
        b.connect(mesh.ends[row], add_fibre(b, coupler, f"out_r{row}", "t", row)[0])
    return b.build()
