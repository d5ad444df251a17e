"""A chip as it was drawn: its circuit extracted from the layout, with the places of all that may vary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, NetlistError
from optinc_pdk.drive import Ground
from optinc_pdk.signoff.built import read_built
from optinc_pdk.simulate import Plan, Structure, analyse, heater_phases, prepare

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chip:
    """A chip with I instances, n nets and H heaters, before anything varies.

    Attributes:
        name: The circuit's name.
        structure: Its optics.
        plan: How S-parameters between all of its labels follow from its devices'.
        board: What joins its fibres outside.
        process: Its process.
        bias: What its electronics are meant to drive.
        position_um: (I, 2) middles of the instances.
        net_um: (n, 2) middles between the instances that each net joins.
        power_pi_w: (H,) power of each heater for a phase of π.
        resistance_ohm: (H,) resistance of each heater.
        wire_ohm: (H,) resistance in series with it.
        rise_ohm: (H, H) voltage that a heater's ground rises by, per current of another heater.
        voltage_v: (H,) voltages that the bias's codes put on the heaters' pads.
    """

    name: str
    structure: Structure
    plan: Plan
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

    @property
    def heater_um(self) -> Floats:
        """(H, 2) middles of the heaters."""
        return self.position_um[self.structure.heater]

    @property
    def net_length_um(self) -> Floats:
        """(n,) lengths of the nets' guides."""
        return self.structure.circuit.net_length_um


def read_chip(gds: str | Path, netlist: str | Path, bias: str | Path, process: Process) -> Chip:
    """Read a chip from its layout; of the netlist only the board counts.

    Args:
        gds: Layout.
        netlist: Netlist with the board.
        bias: Bias file.
        process: Process of the cards.

    Raises:
        InputError: A file cannot be used, or they do not belong together.
    """
    built = read_built(gds, netlist, bias, process)
    return chip_of(built.circuit, built.board, built.bias, process, built.ground)


def chip_of(circuit: Circuit, board: Board, bias: Bias, process: Process, ground: Ground | None = None) -> Chip:
    """A chip from its extracted circuit.

    Args:
        circuit: The circuit, as extracted: with positions, lengths and resistances.
        board: What joins its fibres outside.
        bias: Codes of all its heaters, electronics and receivers.
        process: Process of the cards.
        ground: What currents raise the heaters' grounds by; perfect grounds where left out.

    Raises:
        NetlistError: The circuit has no geometry, or the bias is not the circuit's.
    """
    structure = analyse(circuit)
    flat = structure.circuit
    if not flat.position_um.size or "resistance_ohm" not in flat.settings:
        raise NetlistError(f"circuit {flat.name!r} has no positions or resistances; extract it from a layout")
    heater_phases(structure, bias, process)
    code = dict(zip(bias.labels, bias.code.tolist(), strict=True))
    codes = np.array([code[label] for label in structure.channel], dtype=np.float64)
    ends = flat.position_um[np.searchsorted(flat.offset, flat.nets, side="right") - 1]
    kinds = [flat.kinds[kind].name for kind in flat.kind[structure.heater].tolist()]
    return Chip(
        name=flat.name,
        structure=structure,
        plan=prepare(structure, float(process.guide.wavelength_nm), process),
        board=board,
        process=process,
        bias=bias,
        position_um=flat.position_um,
        net_um=ends.mean(axis=1),
        power_pi_w=np.array([process.device(kind).parameter("power_pi_w") for kind in kinds]),
        resistance_ohm=flat.settings["resistance_ohm"][structure.heater],
        wire_ohm=flat.settings["wire_ohm"][structure.heater],
        rise_ohm=_rises(ground, structure),
        voltage_v=codes * (float(process.drive.full_scale_v) / (2**bias.dac_bits - 1)),
    )


def _rises(ground: Ground | None, structure: Structure) -> Floats:
    """(H, H) what a current of 1 A in each heater raises the grounds by; found once, as a sample uses it often."""
    heaters = structure.heater.size
    if ground is None:
        return np.zeros((heaters, heaters))
    rise = ground.of(structure.channel)
    return np.stack([rise(current) for current in np.eye(heaters)], axis=1)
