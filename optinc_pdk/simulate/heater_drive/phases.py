"""Heater phases from a bias file's DAC codes, or from phases by pad label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Circuit, NetlistError, read_bias
from optinc_pdk.drive import HeaterArray, SharedGround, readback
from optinc_pdk.simulate.circuit_optics import CircuitOptics, analyse
from optinc_pdk.simulate.heater_drive.crosstalk import nominal_crosstalk

# Phases follow from powers by crosstalk, which devices that were moved by micrometres change by less.
PHASE_TOLERANCE_RAD = 0.02
# Files have nine digits.
_FILE_ROUNDING = 1e-8
_HEATER = "phase_shifter"


def heater_phases(
    structure: CircuitOptics,
    drive: Bias | Mapping[str, float],
    process: Process,
    *,
    unbiased: float | None = None,
    ground: SharedGround | None = None,
) -> Floats:
    """Compute the phases of all heated guides for a drive.

    The phases that follow from DAC codes are those of each heater itself plus thermal crosstalk of the process card, if
    the circuit has the heaters' positions. Phases that a drive states directly already include crosstalk.

    Args:
        structure: The circuit with H heaters.
        drive: A bias, or phases in rad by pad label. The DAC codes of a bias are used if the circuit has resistances
            (columns ``resistance_ohm`` and ``wire_ohm``, as extracted from a layout), otherwise its phases.
        process: Process of the cards.
        unbiased: Phase in rad of heaters without a channel in the drive, which cause no crosstalk; None to raise an
            error for such heaters.
        ground: Ground rise that results from the heaters' currents; None for no ground rise.

    Returns:
        (H,) phases in rad.

    Raises:
        NetlistError: A heater has no drive, or the drive names a channel that the circuit lacks.
    """
    if isinstance(drive, Bias) and drive.process != process.name:
        raise NetlistError(f"the bias is of process {drive.process!r}, not {process.name!r}; give its cards")
    codes = isinstance(drive, Bias) and "resistance_ohm" in structure.circuit.settings
    called = f"the bias of {drive.circuit!r}" if isinstance(drive, Bias) else "the drive"
    if isinstance(drive, Bias) and codes:
        target = _from_codes(structure, drive, process, ground)
        return _by_heater(structure, target, drive.labels, unbiased, called)
    by_label = dict(zip(drive.labels, drive.phase_rad, strict=True)) if isinstance(drive, Bias) else drive
    for label, phase in by_label.items():
        if not np.isfinite(phase):
            raise NetlistError(f"{called}: the phase of channel {label!r} is {phase}; give a number")
    target = np.array([by_label.get(label, np.nan) for label in structure.channel], dtype=np.float64)
    return _by_heater(structure, target, tuple(by_label), unbiased, called)


def read_drive(path: str | Path, process: Process) -> Bias:
    """Read a bias file and check that it fits the drive electronics of a process.

    Later stages use the DAC codes only, therefore voltages must agree with them.

    Args:
        path: Bias file, .bias.yml.
        process: Process with the drive card.

    Raises:
        NetlistError: The file cannot be used, is for another process or number of DAC bits, has a voltage that
            differs from its code by a step or more or is too low for its power, or a gain, offset or receiver scale
            outside the card's range.
    """
    bias = read_bias(path, process.name)
    bits = int(process.drive.dac_bits)
    if bias.dac_bits != bits:
        raise NetlistError(
            f"{path}: its codes have {bias.dac_bits} bits, the drive of process {process.name!r} has {bits}; give the "
            "process, or the version of its card, that the bias was built for"
        )
    step = float(process.drive.full_scale_v) / (2**bits - 1)
    for i in np.flatnonzero(np.abs(bias.voltage_v - bias.code * step) >= step)[:1].tolist():
        raise NetlistError(
            f"{path}: channel {bias.labels[i]!r}: voltage_v is {bias.voltage_v[i]:.6g}, but code {bias.code[i]} is "
            f"{bias.code[i] * step:.6g} V; make them agree within a step of {step:.3g} V"
        )
    _check_powers(path, bias, process)
    _check_electronics(path, bias, process)
    return bias


def _check_powers(path: str | Path, bias: Bias, process: Process) -> None:
    """Check that every voltage suffices for its power in a heater without wires and ground rise."""
    if _HEATER not in process.devices:
        return
    card = process.device(_HEATER)
    ohm = card.parameter("sheet_ohm") * card.size("length_um") / card.size("heater_width_um")
    least = np.sqrt(bias.power_w * ohm)
    for i in np.flatnonzero(bias.voltage_v < least * (1.0 - _FILE_ROUNDING))[:1].tolist():
        raise NetlistError(
            f"{path}: channel {bias.labels[i]!r}: voltage_v is {bias.voltage_v[i]:.6g}, but power_w "
            f"{bias.power_w[i]:.6g} needs at least {least[i]:.6g} V in a heater of {ohm:.6g} Ω; correct one of them"
        )


def _check_electronics(path: str | Path, bias: Bias, process: Process) -> None:
    """Check gains, offsets, balances and receiver scales of a bias against the range of the process card."""
    gain_max, offset_max = float(process.activation.gain_max), float(process.activation.offset_max)
    for label, activation in bias.activations.items():
        for key, value, low in (("gain", activation.gain, 0.0), ("offset", activation.offset, -offset_max)):
            high = gain_max if key == "gain" else offset_max
            if not low <= value <= high:
                raise NetlistError(
                    f"{path}: activation {label!r}: {key} {value:g} is outside {low:g} … {high:g}, the range of"
                    f" process {process.name!r}; correct it or build again"
                )
        if not 0.0 < activation.balance <= gain_max:
            raise NetlistError(
                f"{path}: activation {label!r}: balance {activation.balance:g} must be above 0 and at most "
                f"{gain_max:g}; correct it or build again"
            )
    for label, scale in bias.outputs.items():
        if not scale > 0.0:
            raise NetlistError(f"{path}: output {label!r}: scale {scale:g} must be above 0; correct it or build again")


def heater_parameters(
    circuit: Circuit,
    instances: Ints,
    device: str,
    process: Process,
    rise_v: Callable[[Floats], Floats] | None = None,
) -> HeaterArray:
    """Return the electrical parameters of some heaters, with resistances from the circuit.

    Args:
        circuit: Circuit with the columns ``resistance_ohm`` and ``wire_ohm``.
        instances: (channels,) instance numbers of the heaters, all of one device.
        device: Name of this device.
        process: Process of the cards.
        rise_v: Function from the currents of these heaters in A to their ground rise in V, both (channels,); None for
            no ground rise. A drive that holds power compensates it, so that its codes do not depend on it.

    Raises:
        NetlistError: The resistance of a wire is unknown, because it connects several heaters or pads.
        ValueError: The circuit lacks the columns, or a value is not a valid resistance.
    """
    for column in ("resistance_ohm", "wire_ohm"):
        if column not in circuit.settings:
            raise ValueError(f"circuit {circuit.name!r} has no column {column!r}; extract it from a layout first")
    unknown = instances[np.isnan(circuit.settings["wire_ohm"][instances])]
    if unknown.size:
        raise NetlistError(
            f"circuit {circuit.name!r}: the resistance of the wire of {circuit.instances[unknown[0]]!r} is unknown "
            f"({unknown.size} such heaters): its wire connects several heaters or pads; give each a wire of its own"
        )
    return HeaterArray(
        power_pi_w=process.device(device).parameter("power_pi_w"),
        resistance_ohm=circuit.settings["resistance_ohm"][instances],
        wire_ohm=circuit.settings["wire_ohm"][instances],
        dac_bits=int(process.drive.dac_bits),
        full_scale_v=float(process.drive.full_scale_v),
        rise_v=None if process.drive.holds == "power" else rise_v,
    )


def check_phases(path: str | Path, circuit: Circuit, bias: Bias, process: Process) -> None:
    """Check that the phases in a bias file are those of its powers, thermal crosstalk included.

    :func:`read_drive` checks that voltages agree with codes and suffice for the powers. Only codes drive a layout;
    phases that contradict them belong to another chip, or were changed. A layout whose heaters lack a channel, or that
    lacks heaters of the bias, is left to the functions that name these.

    Args:
        path: Bias file, for the message.
        circuit: Extracted circuit with the positions of the heaters.
        bias: Its bias.
        process: Process of the cards.

    Raises:
        NetlistError: A phase differs by ``PHASE_TOLERANCE_RAD`` or more; the message states file, channel and values.
    """
    structure = analyse(circuit)
    if set(structure.channel) != set(bias.labels):
        return
    number = {label: i for i, label in enumerate(bias.labels)}
    channels = np.array([number[label] for label in structure.channel], dtype=np.int64)
    kinds = [circuit_kind.name for circuit_kind in structure.circuit.kinds]
    half_turn_w = np.array(
        [
            process.device(kinds[kind]).parameter("power_pi_w")
            for kind in structure.circuit.kind[structure.heater].tolist()
        ]
    )
    expected = np.pi * bias.power_w[channels] / half_turn_w
    crosstalk = nominal_crosstalk(structure, process)
    if crosstalk is not None:
        expected = crosstalk.apply(expected)
    error = np.abs(np.mod(bias.phase_rad[channels] - expected + np.pi, 2.0 * np.pi) - np.pi)
    for i in np.flatnonzero(error >= PHASE_TOLERANCE_RAD)[:1].tolist():
        channel = channels[i]
        raise NetlistError(
            f"{path}: channel {bias.labels[channel]!r}: phase_rad is {bias.phase_rad[channel]:.6g}, but power_w "
            f"{bias.power_w[channel]:.6g} and its neighbours give {np.mod(expected[i], 2.0 * np.pi):.6g}; give the "
            "bias of this layout, or correct one of them"
        )


def _from_codes(structure: CircuitOptics, bias: Bias, process: Process, ground: SharedGround | None) -> Floats:
    """(heaters,) phases of the guides at the bias's codes, NaN for channels without a code."""
    phases = _own_phases(structure, bias, process, ground)
    driven, crosstalk = ~np.isnan(phases), nominal_crosstalk(structure, process)
    return phases if crosstalk is None else np.where(driven, crosstalk.apply(np.where(driven, phases, 0.0)), np.nan)


def _own_phases(structure: CircuitOptics, bias: Bias, process: Process, ground: SharedGround | None) -> Floats:
    """(heaters,) phases of the guides due to their own heaters, NaN for channels without a code."""
    code = dict(zip(bias.labels, bias.code.tolist(), strict=True))
    phases = np.full(structure.heater.size, np.nan)
    kind = structure.circuit.kind[structure.heater]
    driven = np.array([label in code for label in structure.channel], dtype=bool)
    for number in np.unique(kind[driven]):
        mine = np.flatnonzero(driven & (kind == number))
        name = structure.circuit.kinds[int(number)].name
        rise = None if ground is None else ground.for_channels([structure.channel[i] for i in mine])
        side = heater_parameters(structure.circuit, structure.heater[mine], name, process, rise)
        codes = np.array([code[structure.channel[i]] for i in mine], dtype=np.int64)
        phases[mine] = readback(side, codes).phase_rad
    return phases


def crosstalk_phases(
    structure: CircuitOptics, bias: Bias, process: Process, ground: SharedGround | None
) -> Floats | None:
    """Compute the phase that thermal crosstalk of all other heaters adds to each heated guide.

    Args:
        structure: Circuit extracted from a layout, with H heaters.
        bias: Bias with the heaters' DAC codes.
        process: Process, whose card states the crosstalk.
        ground: Ground rise that results from the heaters' currents; None for no ground rise.

    Returns:
        (H,) phases in rad; None if the card states no crosstalk, or the circuit has no positions or resistances.
    """
    crosstalk = nominal_crosstalk(structure, process)
    if crosstalk is None:
        return None
    own = np.nan_to_num(_own_phases(structure, bias, process, ground))
    return np.asarray(crosstalk.apply(own) - own)


def _by_heater(
    structure: CircuitOptics, target: Floats, labels: tuple[str, ...], unbiased: float | None, called: str
) -> Floats:
    unknown = sorted(set(labels) - set(structure.channel))
    if unknown:
        raise NetlistError(
            f"{called} names channel {unknown[0]!r}, which drives no heater of circuit {structure.circuit.name!r} "
            f"({len(unknown)} such channels); give the drive of this circuit"
        )
    missing = np.flatnonzero(np.isnan(target))
    if missing.size and unbiased is None:
        name = structure.circuit.instances[structure.heater[missing[0]]]
        channel = structure.channel[missing[0]]
        why = f"its channel {channel!r} is not in {called}" if channel else "no labelled pad drives it"
        raise NetlistError(
            f"heater of {name!r} has no drive: {why} ({missing.size} such heaters); give the bias of this layout"
        )
    return np.where(np.isnan(target), 0.0 if unbiased is None else unbiased, target)
