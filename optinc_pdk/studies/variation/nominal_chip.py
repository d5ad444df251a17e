"""The nominal chip: the circuit extracted from the layout with the positions of its parts, and locks of its receivers.

Each coherent receiver of a sample locks its local oscillator to the light that reaches it. If all of it has one phase,
that of one modulator or of bits that are added, it has a carrier for a phase lock. The phase of its oscillator is then
the angle of the sum of these fields on the sample as it is biased, without error: the lock follows slow changes, and
what it leaves is part of the noise (``fibre``). A receiver whose light has both signs has no such carrier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, NetlistError
from optinc_pdk.drive import SharedGround
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.simulate import CircuitOptics, Scattering, ScatteringPlan, analyse, heater_phases, prepare, s_matrices
from optinc_pdk.simulate.transmission.detection import receiver_fields

MAX_STRAY_FIELD = 0.1
"""Largest field of another source at a receiver, relative to its own source, that counts as stray light."""
MIN_ALONG = 0.7
"""Least cosine between the field of a receiver's source and the sum of all."""


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
        locked_sources: (receivers, J) whether each coherent receiver is locked to the light of each of the last layer's
            J sources; no rows for photodiodes, and for a general network, whose light has both signs.
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
    locked_sources: Bools

    @property
    def heater_um(self) -> Floats:
        """(H, 2) centres of the heaters."""
        return self.position_um[self.structure.heater]

    @property
    def net_length_um(self) -> Floats:
        """(n,) waveguide lengths of the nets."""
        return self.structure.circuit.net_length_um


def read_chip(gds: str | Path, netlist: str | Path, bias: str | Path, process: Process) -> NominalChip:
    """Read a nominal chip from its layout and its bias file; only the board is taken from the netlist.

    Raises:
        InputError: A file is invalid, or the files do not belong to one chip.
    """
    built = read_extracted_chip(gds, netlist, bias, process)
    return chip_of(built.circuit, built.board, built.bias, process, built.ground)


def chip_of(
    circuit: Circuit, board: Board, bias: Bias, process: Process, ground: SharedGround | None = None
) -> NominalChip:
    """Build the nominal chip from its extracted circuit, with positions, lengths and resistances; ideal grounds without
    ground.

    Raises:
        NetlistError: The circuit has no geometry, the bias belongs to another circuit, or a coherent receiver has no
            modulator of its own to lock its phase to.
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
        locked_sources=locked_sources(_nominal_scattering(plan, structure, phases, process), board)
        if board.coherent and not bias.input_scales
        else np.zeros((0, 0), dtype=np.bool_),
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


def locked_sources(s: Scattering, board: Board) -> Bools:
    """Find the sources whose light reaches each coherent receiver of the nominal chip at its bias.

    Returns:
        (receivers, J) mask of the sources of the last layer; no rows if the receivers are photodiodes.

    Raises:
        NetlistError: A receiver is reached by light of several phases, or by none.
    """
    if not board.coherent:
        return np.zeros((0, 0), dtype=np.bool_)
    field = receiver_fields(s, board)
    own = np.abs(field) >= MAX_STRAY_FIELD * np.abs(field).max(axis=1, keepdims=True)
    lock = np.exp(-1j * locked_phases(field, own))[:, np.newaxis]
    along = np.where(own, (field * lock).real > MIN_ALONG * np.abs(field), True).all(axis=1)
    labels = [label for row in board.outputs for label in row]
    for place in np.flatnonzero(~along)[:1].tolist():
        raise NetlistError(
            f"the coherent receiver of fibre {labels[place]!r} is not reached by light of one phase, to which it would "
            "lock on a sampled chip; build the chip with --link neurons, or with --receivers photodiodes"
        )
    return np.asarray(own)


def locked_phases(fields: Complexes, sources: Bools) -> Floats:
    """Return the (..., receivers) phases in rad of the local oscillators of receivers that are locked to their light.

    Args:
        fields: (..., receivers, J) fields at the receivers from each source of the last layer at amplitude 1.
        sources: (receivers, J) sources of each receiver, see :func:`locked_sources`.
    """
    return np.asarray(np.angle(np.where(sources, fields, 0.0).sum(axis=-1)))


def aligned_bias(s: Scattering, board: Board, nominal: Complexes, bias: Bias) -> Bias:
    """Return the bias of a sample of a general network's chip with the phases of its receivers' oscillators.

    A receiver sums the light of several sources. They are sent one at a time, and the oscillator is set to the phase at
    which their fields are most like ``nominal``, the (receivers, J) fields of the nominal chip relative to its
    oscillators.
    """
    phases = np.angle((nominal.conj() * receiver_fields(s, board)).sum(axis=1))
    labels = [label for row in board.outputs for label in row]
    return replace(bias, phases=dict(zip(labels, phases.tolist(), strict=True)))


def locked_bias(s: Scattering, board: Board, sources: Bools, bias: Bias) -> Bias:
    """Return the bias of a sample with the phases to which its coherent receivers are locked; as it is for photodiodes.

    The sample has the S-parameters ``s`` as biased; ``sources`` is the result of :func:`locked_sources`.
    """
    if not board.coherent:
        return bias
    phases = locked_phases(receiver_fields(s, board), sources)
    labels = [label for row in board.outputs for label in row]
    return replace(bias, phases=dict(zip(labels, phases.tolist(), strict=True)))
