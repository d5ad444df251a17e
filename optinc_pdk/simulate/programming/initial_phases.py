"""Initial phases of layers: those of the ideal meshes, corrected for static phases of the chip, with aligned blocks."""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.assemble import WeightBlock, chain_slots, rectangular_slots
from optinc_pdk.circuit import Board, label_tuple
from optinc_pdk.factor import BlockFactor, RowFactor, RowsFactor, SvdFactor, chain_output
from optinc_pdk.simulate.programming._light_paths import (
    LightPath,
    MeshRecord,
    ModeTracker,
    PathTracer,
    static_phase,
)
from optinc_pdk.simulate.programming.detection_jacobian import SourceFields, linear_response
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem, solve_fields
from optinc_pdk.simulate.programming.targets import LayerTarget

DETUNING_RESERVE = 0.01
"""Largest part of a group's in-phase field that is given up so that the parts in quadrature cancel."""
DETUNING_TRIALS = 201
QUADRATURE_TOLERANCE = 1e-6
"""Tolerated sum of the parts in quadrature, relative to the sum of the fields."""
FIRST_TRANSMISSION = 0.95
"""Initial transmission of the strongest attenuator: at 1 the fit could not raise it, and its derivative would be 0."""


def input_paths(walk: PathTracer, board: Board, target: LayerTarget, phases: Floats) -> list[list[LightPath]]:
    """Trace the paths of the inputs' light to the first coupler of each block: one path per column of the block.

    For the first layer it also sets the trims of the preprocessing unit in the (H,) phases.

    Raises:
        ValueError: The circuit does not belong to this network.
    """
    if target.index > 0:
        sources = [label_tuple(neuron.to) for neuron in board.neurons if neuron.layer == target.index - 1]
        return [[walk.source(sources[column][copy]) for column, copy in block.sources] for block in target.blocks]
    averages = [_average(walk, board, target, column, phases) for column in range(target.mesh_weight.shape[1])]
    copies = [walk.branches(path) for path in averages]
    return [_copies(walk, block, copies) for block in target.blocks]


def _average(walk: PathTracer, board: Board, target: LayerTarget, column: int, phases: Floats) -> LightPath:
    """Path of one group's light behind its combiner tree; sets the trims of all servers and symbols."""
    symbols = len(board.inputs[0])
    sources = [divmod(int(source), symbols) for source in np.flatnonzero(target.column == column)]
    paths = [walk.source(board.inputs[server][symbol]) for server, symbol in sources]
    strength = np.array([abs(path.transmission) for path in paths])
    turned = detunings(strength, target.share[target.column == column]).tolist()
    for (server, symbol), path, detuning in zip(sources, paths, turned, strict=True):
        trim = walk.heater_number(f"trim_s{server}_m{symbol}")
        if path.port != paths[0].port or trim not in path.heaters:
            raise ValueError(f"symbol {symbol} of server {server} does not reach the others' coupler through its trim")
        phases[trim] = detuning - static_phase(path) + static_phase(paths[0])
    return paths[0]


def detunings(strength: Floats, share: Floats) -> Floats:
    """Return phases in rad that give the in-phase parts of J fields the ratio of J shares, and cancel the quadratures.

    A part in quadrature that remained would turn the phase to which local oscillators are aligned. The in-phase parts
    are at most DETUNING_RESERVE weaker than the weakest field allows.
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


def _copies(walk: PathTracer, block: WeightBlock, copies: list[list[LightPath]]) -> list[LightPath]:
    """Path of the copy of each of the block's inputs that reaches it."""
    if len(copies[block.columns[0]]) == 1:
        return [copies[column][0] for column in block.columns]
    paths_in = []
    for row, column in enumerate(block.columns):
        ports = _entries(walk, block, row)
        reached = [path for path in copies[column] if path.port in ports]
        if len(reached) != 1:
            raise ValueError(f"{len(reached)} copies of input {column} reach mode {row} of block {block.name}, not one")
        paths_in += reached
    return paths_in


def _entries(walk: PathTracer, block: WeightBlock, row: int) -> tuple[int, ...]:
    """Ports of the coupler that the light of a mode of a square block, or of a chain, can reach first."""
    modes = len(block.columns) if block.modes is None else block.modes
    name = f"{block.name}_v"
    if modes == 1:
        # a single attenuator can be entered from both sides
        ends = walk.structure.heater_port[walk.heater_number(f"{block.name}_att_r0")].tolist()
        return tuple(walk.bar(walk.follow(port).port) for port in ends)
    first = [slot for slot in rectangular_slots(modes) if slot.column == 0 and not slot.dummy]
    for slot in chain_slots(modes) if block.chain else first:
        if row in (slot.row, slot.row + 1):
            upper = walk.first_coupler(f"{name}_c{slot.column}_r{slot.row}")
            return (upper if row == slot.row else walk.bar(walk.cross(upper)),)
    # a dummy on the lowest mode: back through it from the lower arm of the MZI behind it
    lower = walk.bar(walk.cross(walk.first_coupler(f"{name}_c1_r{row - 1}")))
    behind = walk.follow(walk.cross(walk.follow(lower).port))
    return (walk.bar(behind.port),)


def set_initial_phases(
    walker: PathTracer,
    board: Board,
    target: LayerTarget,
    phases: Floats,
    shares: Floats | None = None,
) -> dict[str, MeshRecord]:
    """Set the initial (H,) phases of one layer, not wrapped, except those of local oscillators and trims of sums.

    ``shares`` are (pieces,) factors on the field transmission of each piece, 0 ... 1. The devices of the meshes are
    returned by prefix of their pad labels.

    Raises:
        ValueError: The circuit does not belong to this network.
    """
    paths_in = input_paths(walker, board, target, phases)
    factor = target.factor.factor
    recorded: dict[str, MeshRecord] = {}
    if isinstance(factor, RowsFactor):
        for block, row, paths in zip(target.blocks, factor.rows, paths_in, strict=True):
            recorded |= _row(walker, block, row, paths, phases)
        return recorded
    if not isinstance(factor, BlockFactor):
        parts = (factor,) if isinstance(factor, SvdFactor) else factor.parts
        for block, part, paths in zip(target.blocks, parts, paths_in, strict=True):
            recorded |= _svd(walker, block, part, paths, phases)
        return recorded
    attenuation = _attenuations(target, factor, shares)
    for block, paths, mesh, diagonal in zip(target.blocks, paths_in, factor.unitary, attenuation, strict=True):
        modes = ModeTracker(walker, dict(enumerate(paths)), dict.fromkeys(range(mesh.modes), 0.0), phases)
        modes.ends |= dict.fromkeys(range(len(paths), mesh.modes))
        modes.mesh(f"{block.name}_v", mesh)
        modes.attenuate(f"{block.name}_att", FIRST_TRANSMISSION * diagonal[: len(block.rows)])
        recorded |= modes.recorded
    return recorded


def _svd(
    walker: PathTracer,
    block: WeightBlock,
    factor: SvdFactor,
    paths_in: list[LightPath],
    phases: Floats,
) -> dict[str, MeshRecord]:
    name = block.name
    modes = ModeTracker(walker, dict(enumerate(paths_in)), dict.fromkeys(range(len(paths_in)), 0.0), phases)
    modes.dummies(block.padding[0])
    modes.mesh(f"{name}_v", factor.v)
    modes.attenuate(f"{name}_att", FIRST_TRANSMISSION * factor.attenuation)
    for row in range(factor.s.size, factor.u.modes):
        modes.ends[row], modes.error[row] = None, 0.0
    modes.mesh(f"{name}_u", factor.u)
    return modes.recorded


def _row(
    walker: PathTracer,
    block: WeightBlock,
    factor: RowFactor,
    paths_in: list[LightPath],
    phases: Floats,
) -> dict[str, MeshRecord]:
    modes = ModeTracker(walker, dict(enumerate(paths_in)), dict.fromkeys(range(len(paths_in)), 0.0), phases)
    modes.mesh(f"{block.name}_v", factor.chain, dummies=False)
    output = chain_output(factor.chain.modes)
    modes.ends = {output: modes.ends[output]}
    transmission = np.full(output + 1, FIRST_TRANSMISSION * factor.attenuation)
    modes.attenuate(f"{block.name}_att", transmission)
    return modes.recorded


def _attenuations(target: LayerTarget, factor: BlockFactor, shares: Floats | None) -> Floats:
    """(blocks, modes) field transmissions with each piece's share; the largest is 1."""
    diagonal = np.zeros_like(factor.attenuation)
    kept = np.ones(len(target.pieces)) if shares is None else shares
    number = {block.name: i for i, block in enumerate(target.blocks)}
    for piece, share in zip(target.pieces, kept.tolist(), strict=True):
        at = number[piece.block.name], piece.row - piece.block.rows.start
        diagonal[at] = share * factor.attenuation[at]
    strongest = float(diagonal.max())
    return diagonal / strongest if strongest > 0.0 else diagonal


def align_phases(problem: ProgrammingProblem, light: SourceFields, phases: Floats) -> Floats:
    """Return (H,) phases with aligned local oscillators and trims of sums, for light solved with given phases.

    Each piece, which is the contribution of one block to one row, then contributes as much as possible to its target
    row.
    """
    aligned = phases.copy()
    channel = problem.channel
    for target in problem.targets:
        if target.last and not target.split:
            continue
        turn = np.angle(_overlaps(light, target))
        for piece, angle in zip(target.pieces, turn.tolist(), strict=True):
            if target.last:
                aligned[channel[piece.label("sum")]] -= angle
            else:
                aligned[channel[piece.label("lo")]] += angle
    return aligned


def contribution_shares(problem: ProgrammingProblem, light: SourceFields) -> tuple[Floats, ...]:
    """Return, for each layer, (pieces,) attenuations that bring the pieces of each row into the ratio of their weights.

    The light is that with the phases of :func:`align_phases`; the weakest piece of a row has the transmission 1.
    """
    result = []
    for target in problem.targets:
        weights = np.array([target.weights(piece) for piece in target.pieces])
        power = (weights**2).sum(axis=1)
        overlap = np.abs(_overlaps(light, target))
        used = (power > 0.0) & (overlap > 0.0)
        gain = np.divide(overlap, power, out=np.full_like(power, np.inf), where=used)
        weakest = np.minimum.reduceat(gain, target.starts)[target.owner]
        result.append(np.divide(weakest, gain, out=np.ones_like(gain), where=used))
    return tuple(result)


def _overlaps(light: SourceFields, target: LayerTarget) -> Complexes:
    """(pieces,) overlap of each piece's detected light with its target weights; for receivers those of one server."""
    weights = np.array([target.weights(piece) for piece in target.pieces])
    if target.last:
        _, y = light.at_detectors(target.plus[: target.starts.size], target)
        return np.asarray((y[target.owner] * weights).sum(axis=1), dtype=np.complex128)
    p_c, p = light.at_detectors(target.plus, target)
    n_c, n = light.at_detectors(target.minus, target)
    balance = linear_response(light, target).balance[target.owner, np.newaxis]
    added, taken = p_c.conj()[:, np.newaxis] * p, n_c.conj()[:, np.newaxis] * n
    return np.asarray(((added - balance * taken) * weights).sum(axis=1), dtype=np.complex128)


def initial_phases(
    problem: ProgrammingProblem, kept: tuple[Floats, ...] | None = None
) -> tuple[Floats, dict[str, MeshRecord]]:
    """Compute the (H,) phases of the ideal meshes, corrected for the static phases of guides, and the meshes' devices.

    Local oscillators and trims of sums over blocks are not aligned and have phase 0. For each layer, ``kept`` are
    factors on the field transmission of each piece, 0 ... 1.
    """
    phases = np.zeros(problem.structure.heater.size)
    walker = PathTracer(problem.structure, problem.wavelength_nm, problem.process, problem.guides)
    recorded: dict[str, MeshRecord] = {}
    for target in problem.targets:
        share = None if kept is None else kept[target.index]
        recorded |= set_initial_phases(walker, problem.board, target, phases, share)
    return phases, recorded


def aligned_initial_phases(problem: ProgrammingProblem) -> tuple[Floats, dict[str, MeshRecord]]:
    """Compute :func:`initial_phases` with aligned local oscillators.

    If several blocks contribute to a row, they are attenuated into the proportion of their target weights.
    """
    phases, recorded = initial_phases(problem)
    phases = align_phases(problem, solve_fields(problem, phases), phases)
    if not any(target.split for target in problem.targets):
        return phases, recorded
    phases, recorded = initial_phases(problem, contribution_shares(problem, solve_fields(problem, phases)))
    return align_phases(problem, solve_fields(problem, phases), phases), recorded
