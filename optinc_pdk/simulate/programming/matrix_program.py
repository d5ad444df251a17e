"""Programming of an imperfect chip for a matrix: phases by a model of its meshes, corrected by its simulation.

The meshes are fitted together by L-BFGS on a model of their devices that passes light from left to right only
(:mod:`optinc_pdk.factor.correction`). The chip has reflections, and losses that differ from path to path, so
its matrix deviates from the model's. After each fit the chip is simulated, and this deviation is subtracted from the
model's target, as in :mod:`optinc_pdk.simulate.programming.mesh_fit`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.assemble import MatrixForm, factor_for_chip, matrix_form, matrix_labels
from optinc_pdk.assemble.matrix_circuit import ATTENUATORS, OUTPUT, U, V
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.factor.correction import MeshChain, chain_matrix, fit_chain, locally_corrected
from optinc_pdk.factor.mesh import Mesh, wrap
from optinc_pdk.factor.mesh_devices import MeshDevices
from optinc_pdk.matrices import (
    MatrixComparison,
    MatrixFactor,
    MatrixTarget,
    compare_matrices,
)
from optinc_pdk.simulate.circuit_optics import CircuitOptics, analyse
from optinc_pdk.simulate.heater_drive import drive_codes, refuse_shared_channels
from optinc_pdk.simulate.programming._light_paths import (
    ModeTracker,
    PathTracer,
    relative_devices,
    static_phase,
)
from optinc_pdk.simulate.programming.initial_phases import FIRST_TRANSMISSION
from optinc_pdk.simulate.s_parameters.scattering import prepare, s_matrices

STEPS = 200
"""L-BFGS steps of a round."""
ROUNDS = 6
SUFFICIENT = 1e-4
"""Rms error of the entries over the largest one after which no further round follows; about that of 16-bit codes."""
LEAST_GAIN = 0.9
"""A round that leaves more than this share of the error is the last one."""


@dataclass(frozen=True, eq=False)
class MatrixProgramming:
    """A bias, and the errors of the chip that it programs.

    Attributes:
        bias: DAC codes of the heaters.
        rounds: Number of simulations of the chip during the fit.
        clipped: Number of MZIs whose splitting the couplers cannot reach, at the start of the fit.
        start: The chip at the initial phases.
        fitted: The chip at the fitted phases, before they are rounded to codes.
        driven: The chip when driven by the codes.
    """

    bias: Bias
    rounds: int
    clipped: int
    start: MatrixComparison
    fitted: MatrixComparison
    driven: MatrixComparison


def program_matrix(
    circuit: Circuit,
    target: MatrixTarget,
    process: Process,
    factor: MatrixFactor | None = None,
    wavelength_nm: float | None = None,
    progress: Callable[[int, float], None] | None = None,
    ground: SharedGround | None = None,
    crosstalk: Floats | None = None,
) -> MatrixProgramming:
    """Find the bias with which a chip realises a matrix.

    Args:
        circuit: The chip, as :func:`optinc_pdk.assemble.draft_matrix` assembles it, flat or hierarchical. If it is
            extracted from a layout, it has lengths of guides and resistances of heaters. Without resistances every code
            is 0, and only the phases of the bias are meaningful.
        target: The matrix.
        process: Process of the cards.
        factor: Its factors, of which the circuit has the form; None to compute them for the form of the circuit. A chip
            can so be programmed for another matrix than the one for which it was built.
        wavelength_nm: Carrier wavelength in nm; None for the process's.
        progress: Called after every round with its number and the rms error.
        ground: Ground rise that results from the heaters' currents, for which the voltages compensate; None for no
            ground rise.
        crosstalk: (H, H) matrix of crosstalk shares, as for :func:`optinc_pdk.simulate.program`; None for that of the
            card.

    Raises:
        NetlistError: A heater has no channel of its own, or the circuit lacks a fibre of the matrix.
        RangeError: A heater needs more than the range of the drive.
        InputError: The chip has another shape than the matrix, or cannot realise it.
        ValueError: Circuit and factors do not belong together.
    """
    carrier = float(process.guide.wavelength_nm) if wavelength_nm is None else wavelength_nm
    structure = analyse(circuit)
    refuse_shared_channels(structure)
    form = matrix_form([*structure.labels, *structure.channel])
    check_matrix_chip(structure.circuit.name, form, target)
    if factor is None:
        factor = factor_for_chip(target, form, process)
    inputs, outputs = matrix_labels(target)
    plan = prepare(structure, carrier, process, outs=outputs, ins=inputs)

    def simulated(phases: Floats) -> MatrixComparison:
        return compare_matrices(s_matrices(plan, phases, carrier, process)[0, 0], target)

    traced = _traced(structure, target, factor, process, carrier)
    initial, clipped = locally_corrected(traced.chain, factor.u, factor.v)
    fit = _fit(traced, target, initial.joined(), clipped > 0, simulated, progress)
    bias, driven = drive_codes(structure, wrap(traced.heater_phases(fit.x)), process, ground, crosstalk)
    return MatrixProgramming(bias, fit.rounds, clipped, fit.start, fit.best, simulated(driven))


def check_matrix_chip(name: str, form: MatrixForm, target: MatrixTarget) -> None:
    """Raise InputError if a chip lacks the fibres or the output phase shifters that a matrix needs."""
    if (form.outputs, form.inputs) != target.matrix.shape:
        raise InputError(
            f"circuit {name!r} has {form.outputs} outputs and {form.inputs} inputs, the matrix has shape "
            f"{target.matrix.shape}; give a matrix of the chip's shape"
        )
    if target.read == "field" and not form.has_phases:
        raise InputError(f"circuit {name!r} has no output phase shifters; give read = 'power' or 'real'")


@dataclass(frozen=True, eq=False)
class _TracedChain:
    """The chip's meshes as a chain of devices, and where its phases are on the chip.

    Attributes:
        chain: The devices.
        heater: (unknowns,) number of the heater of each phase of the chain; -1 for outputs without one.
        static: (unknowns,) heater phases minus those of the chain.
        heaters: Number of heaters of the chip, H.
    """

    chain: MeshChain
    heater: Ints
    static: Floats
    heaters: int

    def heater_phases(self, x: Floats) -> Floats:
        """Return the (H,) phases of the chip's heaters, not wrapped, for the (unknowns,) phases of the chain."""
        phases, driven = np.zeros(self.heaters), self.heater >= 0
        phases[self.heater[driven]] = (x + self.static)[driven]
        return phases


def _traced(
    structure: CircuitOptics, target: MatrixTarget, factor: MatrixFactor, process: Process, carrier: float
) -> _TracedChain:
    """Follow the light through the meshes of a chip, and record their devices and static phases."""
    walker = PathTracer(structure, carrier, process)
    inputs, outputs = matrix_labels(target)
    sources = {row: walker.source(label) for row, label in enumerate(inputs)}
    phases = np.zeros(structure.heater.size)
    modes = ModeTracker(walker, dict(sources), dict.fromkeys(sources, 0.0), phases)
    v: MeshDevices | None = None
    v_heater, v_static = np.zeros(0, dtype=np.int64), np.zeros(0)
    arms, attenuators = np.zeros(0), np.zeros(0, dtype=np.int64)
    if factor.v is not None and factor.attenuation is not None:
        modes.mesh(V, factor.v)
        modes.attenuate(ATTENUATORS, FIRST_TRANSMISSION * factor.attenuation)
        arms = np.array(modes.recorded[V].attenuation)
        labels = [f"{ATTENUATORS}_r{row}" for row in range(arms.size)]
        attenuators = np.array([walker.heater_number(label) for label in labels], dtype=np.int64)
        v, v_heater, v_static = _traced_mesh(modes, V, factor.v)
        for row in range(arms.size, factor.u.modes):
            modes.ends[row], modes.error[row] = None, 0.0
    modes.mesh(U, factor.u)
    u, u_heater, u_static = _traced_mesh(modes, U, factor.u)
    # the output phase shifters compensate for the static phases of all paths
    behind = np.array([modes.error[row] + static_phase(modes.arrive(row)) for row in range(len(outputs))])
    shifters = np.array([walker.channel.get(f"{OUTPUT}_r{row}", -1) for row in range(len(outputs))], dtype=np.int64)
    return _TracedChain(
        chain=MeshChain(u, v, arms),
        heater=np.concatenate([u_heater, shifters, v_heater, attenuators]),
        static=np.concatenate([u_static, -behind - factor.u.output_phase, v_static, phases[attenuators] - arms]),
        heaters=phases.size,
    )


def _traced_mesh(modes: ModeTracker, name: str, mesh: Mesh) -> tuple[MeshDevices, Ints, Floats]:
    """Devices of a mesh, numbers of its inner, then of its outer heaters, and their phases minus those of the mesh."""
    record = modes.recorded[name]
    heater = np.concatenate([record.heater[:, 1], record.heater[:, 0]])
    return relative_devices(record, mesh), heater, modes.phases[heater] - np.concatenate([mesh.theta, mesh.phi])


@dataclass(frozen=True, eq=False)
class _Fit:
    """Result of a fit: phases of the chain, the chip at the start and at these phases, and the number of rounds."""

    x: Floats
    start: MatrixComparison
    best: MatrixComparison
    rounds: int


def _fit(
    traced: _TracedChain,
    target: MatrixTarget,
    x: Floats,
    fit_model: bool,
    simulated: Callable[[Floats], MatrixComparison],
    progress: Callable[[int, float], None] | None,
) -> _Fit:
    """Fit the chain, and correct its target by the deviation of the simulated chip from it."""
    chain = traced.chain
    wanted = target.matrix
    scale = compare_matrices(chain_matrix(chain, x), target).scale
    start = best = simulated(traced.heater_phases(x))
    found, chip, rounds = x, start, 1
    if fit_model:
        x = fit_chain(chain, scale * wanted, x, STEPS)
        chip, rounds = simulated(traced.heater_phases(x)), 2
        if chip.rms < best.rms:
            found, best = x, chip
    while best.rms > SUFFICIENT and rounds < ROUNDS:
        deviation = chip.matrix - compare_matrices(chain_matrix(chain, x), target).matrix
        x = fit_chain(chain, scale * (wanted - deviation), x, STEPS)
        chip, rounds, before = simulated(traced.heater_phases(x)), rounds + 1, best.rms
        if progress is not None:
            progress(rounds, chip.rms)
        if chip.rms < best.rms:
            found, best = x, chip
        if chip.rms > LEAST_GAIN * before:
            break
    return _Fit(found, start, best, rounds)
