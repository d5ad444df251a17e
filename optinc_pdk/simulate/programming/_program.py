"""Programming of an imperfect chip: phases by least squares on its device models, DAC codes, then electronics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.assemble import matrix_form
from optinc_pdk.cards import DEFAULT_PROCESS, Process, load_process
from optinc_pdk.circuit import Bias, Board, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.factor.mesh import wrap
from optinc_pdk.matrices import TOLERANCE, MatrixReading, MatrixTarget
from optinc_pdk.networks import GeneralNetwork, LayerFactor, Network, factorise, realised_network
from optinc_pdk.simulate.circuit_optics import analyse
from optinc_pdk.simulate.heater_drive import drive_codes, refuse_shared_channels
from optinc_pdk.simulate.modulator_drive import check_activation
from optinc_pdk.simulate.programming.detection_jacobian import linear_response, realised_matrix, residual
from optinc_pdk.simulate.programming.electronics import (
    dark_powers,
    neuron_electronics,
    output_offsets,
    output_scales,
    receiver_phases,
)
from optinc_pdk.simulate.programming.initial_phases import aligned_initial_phases
from optinc_pdk.simulate.programming.matrix_program import MatrixProgramming, program_matrix
from optinc_pdk.simulate.programming.mesh_fit import fit_meshes
from optinc_pdk.simulate.programming.phase_fit import (
    ProgrammingProblem,
    fit_phases,
    is_large,
    matrix_errors,
    solve_fields,
)
from optinc_pdk.simulate.programming.targets import layer_targets

Matrix = MatrixTarget | str | Path | NDArray[Any]
"""A matrix: an array, a file, or a target with its reading."""


@dataclass(frozen=True, eq=False)
class Programming:
    """A bias, and the matrix errors of the chip that it programs, relative to the 2-norm of each layer's target matrix.

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
    """Find the bias with which a chip computes a network; see :func:`optinc_pdk.simulate.program`."""
    carrier = float(process.guide.wavelength_nm) if wavelength_nm is None else wavelength_nm
    check_activation(onn.activation, process)
    structure = analyse(circuit)
    refuse_shared_channels(structure)
    if factors is None:
        factors = factorise(realised_network(onn, board.layers), inputs, process.activation.analogue_swing)
    problem = ProgrammingProblem(structure, board, layer_targets(onn, board, factors), carrier, process)
    phases, recorded = aligned_initial_phases(problem)
    before = matrix_errors(problem, solve_fields(problem, phases))
    for target in problem.targets:
        if is_large(problem, target):
            phases = fit_meshes(problem, target, recorded, phases, progress)
    fitted = fit_phases(problem, phases, progress)
    bias, driven = drive_codes(structure, wrap(fitted.phases), process, ground, crosstalk)
    light = solve_fields(problem, driven)
    bias = replace(
        bias,
        activations=neuron_electronics(partial(linear_response, light), problem.targets, board, process),
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


@overload
def program(
    circuit: Circuit,
    target: Board,
    onn: Network,
    process: str | Process = DEFAULT_PROCESS,
    wavelength_nm: float | None = None,
    progress: Callable[[int, float], None] | None = None,
    ground: SharedGround | None = None,
    crosstalk: Floats | None = None,
    factors: Sequence[LayerFactor] | None = None,
    inputs: Sequence[float] | None = None,
) -> Programming: ...


@overload
def program(
    circuit: Circuit,
    target: Matrix,
    *,
    process: str | Process = DEFAULT_PROCESS,
    wavelength_nm: float | None = None,
    progress: Callable[[int, float], None] | None = None,
    ground: SharedGround | None = None,
    crosstalk: Floats | None = None,
    read: MatrixReading | None = None,
) -> MatrixProgramming: ...


def program(
    circuit: Circuit,
    target: Board | Matrix,
    onn: Network | None = None,
    process: str | Process = DEFAULT_PROCESS,
    wavelength_nm: float | None = None,
    progress: Callable[[int, float], None] | None = None,
    ground: SharedGround | None = None,
    crosstalk: Floats | None = None,
    factors: Sequence[LayerFactor] | None = None,
    inputs: Sequence[float] | None = None,
    read: MatrixReading | None = None,
) -> Programming | MatrixProgramming:
    """Find the voltages and DAC codes with which a chip realises a matrix, or computes a network.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.assemble import assemble
        >>> from optinc_pdk.cards import load_process
        >>> from optinc_pdk.networks import carry_chain
        >>> process, network = load_process(), carry_chain(op.Averaging(2, 2, 1))
        >>> circuit = assemble(network, process, "average")
        >>> len(op.simulate.program(circuit, circuit.board, network, process).bias.code)
        25

    Args:
        circuit: The chip, flat or hierarchical, as :func:`optinc_pdk.extract.extract` reads it from a layout, with
            lengths of guides and resistances of heaters. A network is also programmed on a circuit without
            resistances: every code is then 0, and only the phases of the bias are meaningful.
        target: For a matrix, the (m, n) array, real or complex, for m outputs and n inputs; or its file, see
            :meth:`optinc_pdk.matrices.MatrixTarget.load`; or a :class:`optinc_pdk.matrices.MatrixTarget`. For a
            network, the board: the connections between the chip's fibres outside the chip.
        onn: The network; None for a matrix.
        process: Name or folder of the process, or its cards.
        wavelength_nm: Carrier wavelength in nm; None for the process's.
        progress: Called after every iteration of the fit with its number and the rms error: for a network the largest
            of a layer.
        ground: Ground rise that results from the heaters' currents, for which the voltages compensate; None for no
            ground rise.
        crosstalk: (H, H) matrix of crosstalk shares, measured or modelled, in the order of the structure's heaters, see
            :class:`optinc_pdk.drive.DenseCrosstalk`; the powers compensate for it. None for that of the card between
            the heaters at their positions. Give the identity for no crosstalk.
        factors: For a network, its factorisation; None to compute it with :func:`optinc_pdk.networks.factorise`.
        inputs: For a network that averages words, (M,) amplitude of level 3 of each symbol in the input fibres, for
            which ``factors`` are computed; the bias states it. None if the largest value of any input has amplitude 1.
        read: For a matrix, what is read at the outputs; None for that of a ``MatrixTarget``, else for fields if the
            chip has phase shifters at the outputs, and for powers if not.

    Returns:
        For a matrix, the bias with the comparison of chip and matrix; for a network, the bias with the matrix errors of
        its layers. ``bias.labels``, ``bias.voltage_v`` and ``bias.code`` are channels, voltages and codes.

    Raises:
        NetlistError: A heater has no channel of its own.
        RangeError: A heater or neuron needs more than the range of the drive or the electronics.
        InputError: The matrix cannot be used, or the chip has another shape, cannot realise it or has no resistances;
            or an argument has no effect.
        ValueError: Circuit, board, network and factors do not belong together.
    """
    cards = load_process(process) if isinstance(process, str) else process
    if isinstance(target, Board):
        if onn is None:
            raise InputError("onn is None, and target is a board; give the network as well, or a matrix as target")
        _refuse("a matrix", read=read)
        return program_network(circuit, target, onn, cards, wavelength_nm, progress, ground, crosstalk, factors, inputs)
    _refuse("a network, which is given with its board", onn=onn, factors=factors, inputs=inputs)
    matrix = _matrix(circuit, target, read)
    if "resistance_ohm" not in circuit.settings:
        raise InputError(
            f"circuit {circuit.name!r} states no resistances of heaters, so that no voltages follow; it is a netlist: "
            "give the circuit of its layout, optinc_pdk.extract.extract(gds, process).circuit"
        )
    return program_matrix(
        circuit, matrix, cards, wavelength_nm=wavelength_nm, progress=progress, ground=ground, crosstalk=crosstalk
    )


def _matrix(circuit: Circuit, target: Matrix, read: MatrixReading | None) -> MatrixTarget:
    """The matrix, and how the outputs of a chip are read; InputError if the circuit is not the chip of a matrix."""
    form = matrix_form(circuit.ports)
    if not form.outputs or not form.inputs:
        raise InputError(
            f"circuit {circuit.name!r} has no fibres in_r0, out_r0, … of a matrix; give the chip of a matrix, or for a "
            "network its board and the network"
        )
    if isinstance(target, MatrixTarget):
        return target if read is None else replace(target, read=read)
    reading: MatrixReading = read or ("field" if form.has_phases else "power")
    if isinstance(target, str | Path):
        return MatrixTarget.load(target, reading, TOLERANCE)
    return MatrixTarget(target, reading)


def _refuse(of: str, **arguments: object) -> None:
    """Refuse arguments that have no effect on this target."""
    for name, value in arguments.items():
        if value is not None:
            raise InputError(f"{name} has no effect here: it is an argument for {of}; leave it out")
