"""Paths of a layer's inputs to its blocks, and trims of the preprocessing unit."""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.assemble import WeightBlock, rectangular_slots
from optinc_pdk.circuit import Board, label_tuple
from optinc_pdk.simulate.programming.light_paths import LightPath, PathTracer
from optinc_pdk.simulate.programming.mode_tracking import first_coupler, heater_number, static_phase
from optinc_pdk.simulate.programming.targets import LayerTarget

DETUNING_RESERVE = 0.01
"""Largest part of a group's in-phase field that is given up so that the parts in quadrature cancel."""
DETUNING_TRIALS = 201
QUADRATURE_TOLERANCE = 1e-6
"""Tolerated sum of the parts in quadrature, relative to the sum of the fields."""


def input_paths(
    walk: PathTracer, channel: dict[str, int], board: Board, target: LayerTarget, phases: Floats
) -> list[list[LightPath]]:
    """Trace the paths of the inputs' light to the first coupler of each block.

    For the first layer it also sets the phases of the trims of the preprocessing unit.

    Args:
        walk: Tracer of light paths in the circuit.
        channel: Heater number by pad label.
        board: Labels of the sources.
        target: The layer.
        phases: (H,) phases in rad; the trims are written in place.

    Returns:
        For each block, one path per column of the block.

    Raises:
        ValueError: The circuit does not belong to this network.
    """
    if target.index > 0:
        sources = [label_tuple(neuron.to) for neuron in board.neurons if neuron.layer == target.index - 1]
        return [[walk.source(sources[column][block.place[0]]) for column in block.columns] for block in target.blocks]
    averages = [_average(walk, channel, board, target, column, phases) for column in range(target.mesh_weight.shape[1])]
    copies = [walk.branches(path) for path in averages]
    return [_copies(walk, channel, block, copies) for block in target.blocks]


def _average(
    walk: PathTracer, channel: dict[str, int], board: Board, target: LayerTarget, column: int, phases: Floats
) -> LightPath:
    """Path of one group's light behind its combiner tree; sets the trims of all servers and symbols."""
    symbols = len(board.inputs[0])
    sources = [divmod(int(source), symbols) for source in np.flatnonzero(target.column == column)]
    paths = [walk.source(board.inputs[server][symbol]) for server, symbol in sources]
    strength = np.array([abs(path.transmission) for path in paths])
    turned = detunings(strength, target.share[target.column == column]).tolist()
    for (server, symbol), path, detuning in zip(sources, paths, turned, strict=True):
        trim = heater_number(channel, f"trim_s{server}_m{symbol}")
        if path.port != paths[0].port or trim not in path.heaters:
            raise ValueError(f"symbol {symbol} of server {server} does not reach the others' coupler through its trim")
        phases[trim] = detuning - static_phase(path) + static_phase(paths[0])
    return paths[0]


def detunings(strength: Floats, share: Floats) -> Floats:
    """Phases that give the in-phase parts of fields the ratio of their shares, and cancel their parts in quadrature.

    A part in quadrature that remained would turn the phase to which local oscillators are aligned. The in-phase parts
    are at most DETUNING_RESERVE weaker than the weakest field allows.

    Args:
        strength: (J,) amplitudes of the fields.
        share: (J,) shares.

    Returns:
        (J,) phases in rad.
    """
    largest = float(np.min(strength / share))
    in_phase = np.linspace(1.0, 1.0 - DETUNING_RESERVE, DETUNING_TRIALS) * largest
    quadrature = share * _quadratures(in_phase, strength, share)
    total, signs = np.zeros(DETUNING_TRIALS), np.ones_like(quadrature)
    # the largest first, each against the sum of those before
    for i in np.argsort(-quadrature[-1], kind="stable").tolist():
        signs[:, i] = np.where(total > 0.0, -1.0, 1.0)
        total += signs[:, i] * quadrature[:, i]
    unbalanced = np.maximum(np.abs(total), QUADRATURE_TOLERANCE * float(share @ strength))
    best = int(np.argmin(unbalanced))
    sign = signs[best]
    # with these signs, the sum may be zero between two trials
    total = quadrature @ sign
    if unbalanced[best] == abs(total[best]):
        for k in np.flatnonzero(total[:-1] * total[1:] < 0.0)[:1].tolist():
            in_phase[k] += (in_phase[k + 1] - in_phase[k]) * total[k] / (total[k] - total[k + 1])
            best = k
    turned = np.arctan2(_quadratures(in_phase[best], strength, share), in_phase[best] * share)
    return np.asarray(sign * turned, dtype=np.float64)


def _quadratures(in_phase: Floats | float, strength: Floats, share: Floats) -> Floats:
    """Parts in quadrature (..., J) of fields whose parts in phase are ``in_phase`` (...) times their shares."""
    rest: Floats = np.sqrt(np.maximum(strength**2 - np.multiply.outer(in_phase, share) ** 2, 0.0))
    return rest


def _copies(
    walk: PathTracer, channel: dict[str, int], block: WeightBlock, copies: list[list[LightPath]]
) -> list[LightPath]:
    """Path of the copy of each of the block's inputs that reaches it."""
    if len(copies[block.columns[0]]) == 1:
        return [copies[column][0] for column in block.columns]
    paths_in = []
    for row, column in enumerate(block.columns):
        ports = _entries(walk, channel, block, row)
        reached = [path for path in copies[column] if path.port in ports]
        if len(reached) != 1:
            raise ValueError(f"{len(reached)} copies of input {column} reach mode {row} of block {block.name}, not one")
        paths_in += reached
    return paths_in


def _entries(walk: PathTracer, channel: dict[str, int], block: WeightBlock, row: int) -> tuple[int, ...]:
    """Ports of the coupler that the light of a mode of a square block can reach first."""
    modes = len(block.columns) if block.modes is None else block.modes
    name = f"{block.name}_v"
    if modes == 1:
        # a single attenuator can be entered from both sides
        ends = walk.structure.heater_port[heater_number(channel, f"{block.name}_att_r0")].tolist()
        return tuple(walk.bar(walk.follow(port).port) for port in ends)
    for slot in rectangular_slots(modes):
        if slot.column == 0 and not slot.dummy and row in (slot.row, slot.row + 1):
            upper = first_coupler(walk, channel, f"{name}_c0_r{slot.row}")
            return (upper if row == slot.row else walk.bar(walk.cross(upper)),)
    # a dummy on the lowest mode: back through it from the lower arm of the MZI behind it
    lower = walk.bar(walk.cross(first_coupler(walk, channel, f"{name}_c1_r{row - 1}")))
    behind = walk.follow(walk.cross(walk.follow(lower).port))
    return (walk.bar(behind.port),)
