"""Programming of an imperfect chip: phases by least squares on its device models, DAC codes, then electronics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, NetlistError
from optinc_pdk.drive import DenseCrosstalk, SharedGround, compensate, drive_heaters, readback
from optinc_pdk.factor.mesh import wrap
from optinc_pdk.networks import GeneralNetwork, LayerFactor, Network, factorise, realised_network
from optinc_pdk.simulate.circuit_optics import CircuitOptics, analyse
from optinc_pdk.simulate.heater_drive.crosstalk import nominal_crosstalk
from optinc_pdk.simulate.heater_drive.phases import heater_parameters
from optinc_pdk.simulate.programming.detection_jacobian import linear_response, realised_matrix, residual
from optinc_pdk.simulate.programming.electronics import (
    activations,
    dark_powers,
    output_offsets,
    output_scales,
    receiver_phases,
)
from optinc_pdk.simulate.programming.initial_phases import set_initial_phases
from optinc_pdk.simulate.programming.light_paths import PathTracer
from optinc_pdk.simulate.programming.mesh_fit import fit_meshes
from optinc_pdk.simulate.programming.mode_tracking import MeshRecord
from optinc_pdk.simulate.programming.phase_alignment import align_phases, contribution_shares
from optinc_pdk.simulate.programming.phase_fit import (
    ProgrammingProblem,
    fit_phases,
    is_large,
    matrix_errors,
    solve_fields,
)
from optinc_pdk.simulate.programming.targets import layer_targets


@dataclass(frozen=True, eq=False)
class Programming:
    """A bias, and the matrix errors of the chip that it programs.

    All errors are relative to the 2-norm of each layer's target matrix.

    Attributes:
        bias: DAC codes of the heaters, and settings of neurons and receivers.
        iterations: Number of iterations of the least-squares fit.
        start_error: (layers,) rms matrix error at the initial phases.
        error: (layers,) rms matrix error at the fitted phases, before they are rounded to codes.
        driven_error: (layers,) rms matrix error when driven by the codes.
        worst_error: (layers,) largest error of an entry when driven by the codes.
        matrices: For each layer, (rows, J) target matrix and (rows, J) matrix as driven; see
            :func:`optinc_pdk.simulate.programming.detection_jacobian.realised_matrix`.
    """

    bias: Bias
    iterations: int
    start_error: Floats
    error: Floats
    driven_error: Floats
    worst_error: Floats
    matrices: tuple[tuple[Floats, Complexes | Floats], ...] = ()


def program_network(
    circuit: Circuit,
    board: Board,
    onn: Network,
    process: Process,
    wavelength_nm: float | None = None,
    progress: Callable[[int, float], None] | None = None,
    ground: SharedGround | None = None,
    crosstalk: Floats | None = None,
    factors: Sequence[LayerFactor] | None = None,
    inputs: Sequence[float] | None = None,
) -> Programming:
    """Find the bias with which a chip computes a network; see :func:`optinc_pdk.simulate.program`.

    Args:
        circuit: The chip, flat or hierarchical. If it is extracted from a layout, it has lengths of guides and
            resistances of heaters. Without resistances every code is 0, and only the phases of the bias are meaningful.
        board: Connections between its fibres outside the chip.
        onn: The network.
        process: Process of the cards.
        wavelength_nm: Carrier wavelength in nm; None for the process's.
        progress: Called after every iteration of the fit with its number and the largest rms error of a layer.
        ground: Ground rise that results from the heaters' currents, for which the voltages compensate; None for no
            ground rise.
        crosstalk: (H, H) matrix of crosstalk shares, measured or modelled, in the order of the structure's heaters, see
            :class:`optinc_pdk.drive.DenseCrosstalk`; the powers compensate for it. None for that of the card between
            the heaters at their positions, see :func:`optinc_pdk.simulate.heater_drive.crosstalk.nominal_crosstalk`.
            Give the identity for no crosstalk.
        factors: Factorisation of the network; None to compute it with :func:`optinc_pdk.networks.factorise`.
        inputs: (M,) amplitude of level 3 of each symbol in the input fibres, for which ``factors`` are computed; the
            bias states it. None if the largest value of any input has amplitude 1.

    Raises:
        NetlistError: A heater has no channel of its own.
        RangeError: A heater or neuron needs more than the range of the drive or the electronics.
        ValueError: Circuit, board, network and factors do not belong together.
    """
    carrier = float(process.guide.wavelength_nm) if wavelength_nm is None else wavelength_nm
    structure = analyse(circuit)
    refuse_shared_channels(structure)
    factors = factorise(realised_network(onn, board.layers), inputs) if factors is None else factors
    problem = ProgrammingProblem(structure, board, layer_targets(onn, board, factors), carrier, process)
    phases, recorded = aligned_start(problem)
    before = matrix_errors(problem, solve_fields(problem, phases))
    for target in problem.targets:
        if is_large(problem, target):
            phases = fit_meshes(problem, target, recorded, phases, progress)
    fitted = fit_phases(problem, phases, progress)
    bias, driven = drive_codes(structure, wrap(fitted.phases), process, ground, crosstalk)
    light = solve_fields(problem, driven)
    bias = replace(
        bias,
        activations=activations(light, problem.targets, board, process),
        outputs=output_scales(light, problem.targets[-1], process),
        phases=receiver_phases(light, problem.targets[-1]) if board.coherent else {},
        dark={} if board.coherent else dark_powers(light, problem.targets[-1], process),
        inputs=_input_amplitudes(onn, board, inputs),
        input_scales=_input_scales(onn, board),
        output_offsets=output_offsets(problem.targets[-1]) if isinstance(onn, GeneralNetwork) else {},
    )
    return Programming(
        bias=bias,
        iterations=fitted.iterations,
        start_error=before,
        error=matrix_errors(problem, fitted.light),
        driven_error=matrix_errors(problem, light),
        worst_error=np.array(
            [np.abs(residual(linear_response(light, t).coefficient, t)).max() for t in problem.targets]
        ),
        matrices=tuple(realised_matrix(light, target) for target in problem.targets),
    )


def aligned_initial_phases(problem: ProgrammingProblem) -> Floats:
    """Compute initial phases with aligned local oscillators.

    If several blocks contribute to a row, they are attenuated into the proportion of their target weights.

    Args:
        problem: The chip and its targets.

    Returns:
        (H,) phases in rad.
    """
    return aligned_start(problem)[0]


def aligned_start(problem: ProgrammingProblem) -> tuple[Floats, dict[str, MeshRecord]]:
    """Compute the phases of :func:`aligned_initial_phases`, and the devices of all meshes by prefix of their labels."""
    phases, recorded = _traced(problem, None)
    phases = align_phases(problem, solve_fields(problem, phases), phases)
    if not any(target.split for target in problem.targets):
        return phases, recorded
    phases, recorded = _traced(problem, contribution_shares(problem, solve_fields(problem, phases)))
    return align_phases(problem, solve_fields(problem, phases), phases), recorded


def initial_phases(problem: ProgrammingProblem, kept: tuple[Floats, ...] | None = None) -> Floats:
    """Compute the phases of the ideal meshes, corrected for the static phases of guides.

    Local oscillators and trims of sums over blocks are not aligned and have phase 0.

    Args:
        problem: The chip and its targets.
        kept: For each layer, (pieces,) factors on the field transmission of each piece, 0 ... 1; None for 1.

    Returns:
        (H,) phases in rad.
    """
    return _traced(problem, kept)[0]


def _traced(problem: ProgrammingProblem, kept: tuple[Floats, ...] | None) -> tuple[Floats, dict[str, MeshRecord]]:
    """Phases as of :func:`initial_phases`, and the devices of the meshes."""
    phases = np.zeros(problem.structure.heater.size)
    walker = PathTracer(problem.structure, problem.wavelength_nm, problem.process, problem.guides)
    recorded: dict[str, MeshRecord] = {}
    for target in problem.targets:
        share = None if kept is None else kept[target.index]
        recorded |= set_initial_phases(walker, problem.channel, problem.board, target, phases, share)
    return phases, recorded


def _input_amplitudes(onn: Network, board: Board, inputs: Sequence[float] | None) -> dict[str, float]:
    """Amplitude of level 3 by label of the input; empty if all are 1."""
    amplitudes = [onn.task.default_amplitude] * onn.task.symbols if inputs is None else inputs
    if all(amplitude == 1.0 for amplitude in amplitudes):
        return {}
    return {label: float(a) for row in board.inputs for label, a in zip(row, amplitudes, strict=True)}


def _input_scales(onn: Network, board: Board) -> dict[str, float]:
    """Value at amplitude 1 by label of the input of a general network; empty for levels."""
    if not isinstance(onn, GeneralNetwork):
        return {}
    labels = [label for row in board.inputs for label in row]
    return dict(zip(labels, onn.task.input_values().tolist(), strict=True))


def refuse_shared_channels(structure: CircuitOptics) -> None:
    """Check that every heater has a channel of its own.

    Raises:
        NetlistError: A heater has no channel, or two share one.
    """
    seen: dict[str, int] = {}
    for i, label in enumerate(structure.channel):
        name = structure.circuit.instances[structure.heater[i]]
        if not label:
            raise NetlistError(f"heater of {name!r} has no labelled pad and ground; it cannot be programmed")
        if label in seen:
            other = structure.circuit.instances[structure.heater[seen[label]]]
            raise NetlistError(f"heaters of {other!r} and {name!r} share channel {label!r}; give each its own")
        seen[label] = i


def drive_codes(
    structure: CircuitOptics, phases: Floats, process: Process, ground: SharedGround | None, crosstalk: Floats | None
) -> tuple[Bias, Floats]:
    """Compute the DAC codes of phases, which compensate for ground rise and thermal crosstalk.

    Args:
        structure: The chip.
        phases: (H,) phases in rad, in [0, 2 pi).
        process: Process of the cards.
        ground: Ground rise that results from the heaters' currents; None for no ground rise.
        crosstalk: (H, H) matrix of crosstalk shares; None for that of the card.

    Returns:
        The bias without electronics, and (H,) phases of the guides when driven by its codes.

    Raises:
        RangeError: A heater needs more than the range of the drive.
    """
    circuit = structure.circuit
    power, voltage = np.zeros_like(phases), np.zeros_like(phases)
    code, driven = np.zeros(phases.size, dtype=np.int64), phases.copy()
    if "resistance_ohm" in circuit.settings:
        operator = nominal_crosstalk(structure, process) if crosstalk is None else DenseCrosstalk(crosstalk)
        own = phases if operator is None else compensate(operator, phases)
        kind = circuit.kind[structure.heater]
        for number in np.unique(kind).tolist():
            mine = np.flatnonzero(kind == number)
            rise = None if ground is None else ground.for_channels([structure.channel[i] for i in mine])
            side = heater_parameters(circuit, structure.heater[mine], circuit.kinds[number].name, process, rise)
            made = drive_heaters(side, own[mine])
            power[mine], voltage[mine], code[mine] = made.power_w, made.voltage_v, made.code
            driven[mine] = readback(side, made.code).phase_rad
        if operator is not None:
            driven = operator.apply(driven)
    order = np.argsort(np.array(structure.channel))
    bias = Bias(
        process=process.name,
        circuit=circuit.name,
        dac_bits=int(process.drive.dac_bits),
        labels=tuple(structure.channel[i] for i in order),
        phase_rad=phases[order],
        power_w=power[order],
        voltage_v=voltage[order],
        code=code[order],
    )
    return bias, driven
