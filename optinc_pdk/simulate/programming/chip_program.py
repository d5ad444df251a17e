"""Programming of a chip for a matrix or for a network: one function for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from numpy.typing import NDArray

from optinc_pdk.arrays import Floats
from optinc_pdk.assemble import matrix_form
from optinc_pdk.cards import DEFAULT_PROCESS, Process, load_process
from optinc_pdk.circuit import Board, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.matrices import TOLERANCE, MatrixReading, MatrixTarget
from optinc_pdk.networks import LayerFactor, Network
from optinc_pdk.simulate.programming.matrix_program import MatrixProgramming, program_matrix
from optinc_pdk.simulate.programming.program import Programming, program_network

Matrix = MatrixTarget | str | Path | NDArray[Any]
"""A matrix: an array, a file, or a target with its reading."""


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

    Args:
        circuit: The chip, flat or hierarchical, as :func:`optinc_pdk.extract.extract` reads it from a layout, with
            lengths of guides and resistances of heaters. A network is also programmed on a circuit without
            resistances: every code is then 0, and only the phases of the bias are meaningful.
        target: For a matrix, the (m, n) array, real or complex, for m outputs and n inputs; or its file, .npy, or .npz
            with one array; or a :class:`optinc_pdk.matrices.MatrixTarget`. For a network, the board: the connections
            between the chip's fibres outside the chip.
        onn: The network; None for a matrix.
        process: Name or folder of the process, or its cards.
        wavelength_nm: Carrier wavelength in nm; None for the process's.
        progress: Called after every iteration of the fit with its number and the rms error: for a network the largest
            of a layer.
        ground: Ground rise that results from the heaters' currents, for which the voltages compensate; None for no
            ground rise.
        crosstalk: (H, H) matrix of crosstalk shares, measured or modelled, in the order of the structure's heaters, see
            :class:`optinc_pdk.drive.DenseCrosstalk`; the powers compensate for it. None for that of the card between
            the heaters at their positions, see :func:`optinc_pdk.simulate.heater_drive.crosstalk.nominal_crosstalk`.
            Give the identity for no crosstalk.
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
    """The matrix, and how a chip's outputs are read.

    Raises:
        InputError: It cannot be used, or the circuit is not the chip of a matrix.
    """
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
    """Refuse arguments that have no effect on this target.

    Raises:
        InputError: One of them is given.
    """
    for name, value in arguments.items():
        if value is not None:
            raise InputError(f"{name} has no effect here: it is an argument for {of}; leave it out")
