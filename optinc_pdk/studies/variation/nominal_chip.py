"""The nominal chip: the circuit extracted from the layout, with the positions of all devices, nets and heaters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, NetlistError
from optinc_pdk.drive import SharedGround
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.simulate import CircuitOptics, Scattering, ScatteringPlan, analyse, heater_phases, prepare, s_matrices
from optinc_pdk.studies.variation.phase_lock import locked_sources


@dataclass(frozen=True, eq=False)
class NominalChip:
    """A nominal chip with I instances, n nets and H heaters, without process variation.

    Attributes:
        name: Name of the circuit.
        structure: Optical structure of the circuit.
        plan: Simulation plan for the S-parameters between all labels of the circuit.
        board: Board netlist that joins the chip's fibres.
        process: Process of the cards.
        bias: Programmed bias: heater codes, electronics, receivers.
        position_um: (I, 2) centres of the instances.
        net_um: (n, 2) midpoint between the two instances that each net joins.
        power_pi_w: (H,) power of each heater for a phase of π.
        resistance_ohm: (H,) resistance of each heater.
        wire_ohm: (H,) wire resistance in series with each heater.
        rise_ohm: (H, H) ground resistance matrix: ground voltage of heater i per ampere in heater j.
        voltage_v: (H,) pad voltages of the heaters at the codes of the bias.
        locked_source: (receivers,) position, among the sources of the last layer, of the source to whose light each
            coherent receiver is locked; empty for photodiodes, and for a general network, whose receivers sum light.
    """

    name: str
    structure: CircuitOptics
    plan: ScatteringPlan
    board: Board
    process: Process
    bias: Bias
    position_um: Floats
    net_um: Floats
    power_pi_w: Floats
    resistance_ohm: Floats
    wire_ohm: Floats
    rise_ohm: Floats
    voltage_v: Floats
    locked_source: Ints

    @property
    def heater_um(self) -> Floats:
        """(H, 2) centres of the heaters."""
        return self.position_um[self.structure.heater]

    @property
    def net_length_um(self) -> Floats:
        """(n,) waveguide lengths of the nets."""
        return self.structure.circuit.net_length_um


def read_chip(gds: str | Path, netlist: str | Path, bias: str | Path, process: Process) -> NominalChip:
    """Read a nominal chip from its layout; only the board is taken from the netlist.

    Args:
        gds: Layout.
        netlist: Netlist with the board.
        bias: Bias file.
        process: Process of the cards.

    Raises:
        InputError: A file is invalid, or the files do not belong to one chip.
    """
    built = read_extracted_chip(gds, netlist, bias, process)
    return chip_of(built.circuit, built.board, built.bias, process, built.ground)


def chip_of(
    circuit: Circuit, board: Board, bias: Bias, process: Process, ground: SharedGround | None = None
) -> NominalChip:
    """Build the nominal chip from its extracted circuit.

    Args:
        circuit: The extracted circuit, with positions, lengths and resistances.
        board: Board netlist that joins the chip's fibres.
        bias: Codes of all heaters, electronics and receivers.
        process: Process of the cards.
        ground: Ground network of the heaters; ideal grounds if None.

    Raises:
        NetlistError: The circuit has no geometry, the bias belongs to another circuit, or a coherent
            receiver has no modulator of its own to lock its phase to.
    """
    structure = analyse(circuit)
    flat = structure.circuit
    if not flat.position_um.size or "resistance_ohm" not in flat.settings:
        raise NetlistError(f"circuit {flat.name!r} has no positions or resistances; extract it from a layout")
    phases = heater_phases(structure, bias, process)
    ends = flat.position_um[np.searchsorted(flat.offset, flat.nets, side="right") - 1]
    kinds = [flat.kinds[kind].name for kind in flat.kind[structure.heater].tolist()]
    plan = prepare(structure, float(process.guide.wavelength_nm), process)
    return NominalChip(
        name=flat.name,
        structure=structure,
        plan=plan,
        board=board,
        process=process,
        bias=bias,
        position_um=flat.position_um,
        net_um=ends.mean(axis=1),
        power_pi_w=np.array([process.device(kind).parameter("power_pi_w") for kind in kinds]),
        resistance_ohm=flat.settings["resistance_ohm"][structure.heater],
        wire_ohm=flat.settings["wire_ohm"][structure.heater],
        rise_ohm=_ground_matrix(ground, structure),
        voltage_v=bias_voltages(structure, bias, process),
        locked_source=locked_sources(_nominal_scattering(plan, structure, phases, process), board)
        if board.coherent and not bias.input_scales
        else np.zeros(0, dtype=np.int64),
    )


def bias_voltages(structure: CircuitOptics, bias: Bias, process: Process) -> Floats:
    """Return the (H,) pad voltages of a chip's heaters at the codes of a bias."""
    code = dict(zip(bias.labels, bias.code.tolist(), strict=True))
    codes = np.array([code[label] for label in structure.channel], dtype=np.float64)
    return np.asarray(codes * (float(process.drive.full_scale_v) / (2**bias.dac_bits - 1)))


def _nominal_scattering(plan: ScatteringPlan, structure: CircuitOptics, phases: Floats, process: Process) -> Scattering:
    """Return the S-parameters of the nominal chip at its bias."""
    wavelength = np.array([float(process.guide.wavelength_nm)])
    return Scattering(wavelength, plan.outs, s_matrices(plan, phases, wavelength, process)[0], structure.modulators)


def _ground_matrix(ground: SharedGround | None, structure: CircuitOptics) -> Floats:
    """Return the (H, H) ground resistance matrix in ohm, computed once because every sample needs it often."""
    heaters = structure.heater.size
    if ground is None:
        return np.zeros((heaters, heaters))
    rise = ground.for_channels(structure.channel)
    return np.stack([rise(current) for current in np.eye(heaters)], axis=1)
