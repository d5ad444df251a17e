"""Heater phases from a bias file's DAC codes, or from voltages and phases at pads; and DAC codes of phases."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Bias, Circuit, NetlistError, read_bias
from optinc_pdk.drive import (
    DenseCrosstalk,
    DistanceCrosstalk,
    HeaterArray,
    SharedGround,
    compensate,
    drive_heaters,
    readback,
)
from optinc_pdk.drive.crosstalk import STORED, GridCrosstalk
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.circuit_optics import CircuitOptics, analyse, label_suggestion

# Phases follow from powers by crosstalk, which devices that were moved by micrometres change by less.
PHASE_TOLERANCE_RAD = 0.02
# Files have nine digits.
_FILE_ROUNDING = 1e-8
_SETTING = re.compile(r"(?P<label>.+)=(?P<value>[^=]*?)\s*(?P<unit>V|rad)?", re.DOTALL)
LARGEST_V = 1000.0
LARGEST_RAD = 1e6
_HEATER = "phase_shifter"
_ROUNDED = 1e-3
"""Share by which a rounded phase may exceed the largest one: 6.284 rad are 2π."""


def nominal_crosstalk(structure: CircuitOptics, process: Process) -> DistanceCrosstalk | GridCrosstalk | None:
    """Return the thermal crosstalk that the process card states between the H heaters of a circuit at their positions.

    Time and memory of the operator for thousands of heaters are linear in their number. It is None if the card states
    no crosstalk, or the circuit has no positions or resistances, which only extraction from a layout provides.
    """
    circuit = structure.circuit
    if process.imperfections is None or not circuit.position_um.size or "resistance_ohm" not in circuit.settings:
        return None
    card = process.imperfections.crosstalk
    direct = DistanceCrosstalk(circuit.position_um[structure.heater], float(card.share), float(card.distance_um))
    return GridCrosstalk(direct) if direct.heaters**2 > STORED else direct


def heater_phases(
    structure: CircuitOptics,
    drive: Bias | Mapping[str, float],
    process: Process,
    *,
    unbiased: float | None = None,
    ground: SharedGround | None = None,
) -> Floats:
    """Compute the (H,) phases in rad of all heated guides for a drive.

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
    """Read a bias file, .bias.yml, and check that it fits the drive electronics of a process.

    Later stages use the DAC codes only, therefore voltages must agree with them.

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

    Raises:
        NetlistError: A phase differs by ``PHASE_TOLERANCE_RAD`` or more.
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
    """Compute the (H,) phases in rad that thermal crosstalk of all other heaters adds to each heated guide.

    It is None if the card states no crosstalk, or the circuit has no positions or resistances.
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


@dataclass(frozen=True)
class PadSetting:
    """A voltage in V between both ends of the heater at a pad, or the phase in rad of the guide under it."""

    value: float
    unit: Literal["V", "rad"]


def parse_settings(texts: Sequence[str]) -> dict[str, PadSetting]:
    """Parse settings such as ``"heater=2.5"`` or ``"heater=2.5V"`` for volts, and ``"heater=1.57rad"``.

    Raises:
        InputError: A setting has another form, its value is out of range, or a label is set twice.
    """
    settings: dict[str, PadSetting] = {}
    for text in texts:
        match = _SETTING.fullmatch(text)
        try:
            value = float(match["value"]) if match else float("nan")
        except ValueError:
            value = float("nan")
        unit: Literal["V", "rad"] = "rad" if match and match["unit"] == "rad" else "V"
        largest = LARGEST_RAD if unit == "rad" else LARGEST_V
        if match is None or not abs(value) <= largest:
            raise InputError(
                f"--set {text!r}: give LABEL=VALUE in volts, up to ±{LARGEST_V:g}, or LABEL=VALUErad in rad, up to "
                f"±{LARGEST_RAD:g}"
            )
        label = match["label"].strip()
        if label in settings:
            raise InputError(f"--set {text!r}: pad {label!r} is set twice; set it once")
        settings[label] = PadSetting(value, unit)
    return settings


def without_heater_pads(circuit: Circuit) -> Circuit:
    """Return a flat circuit without the labels of pads that are wired to heaters, or to nothing.

    Which pad of a heater is its signal is stated by a bias. Without one, any two pads may drive a heater.
    """
    light = circuit.optical_mask()
    owner = np.repeat(circuit.kind, np.diff(circuit.offset))
    optical = np.array([bool(kind.optical) and kind.name != _HEATER for kind in circuit.kinds], dtype=bool)
    # photodiodes and modulators keep their pads, which are ports of the simulation
    kept = set(circuit.electrical[optical[owner] & ~light].tolist()) - {UNCONNECTED}
    ports = {
        label: port for label, port in circuit.ports.items() if light[port] or int(circuit.electrical[port]) in kept
    }
    return replace(circuit, ports=ports)


def set_phases(
    circuit: Circuit, structure: CircuitOptics, settings: Mapping[str, PadSetting], process: Process
) -> Floats:
    """Compute the (H,) phases in rad of all heated guides for settings at pads; other heaters are off.

    Phases that follow from voltages include thermal crosstalk from all heaters that are driven by a voltage. A phase in
    rad is that of the guide, whatever causes it. Ground rise is neglected: every heater has a ground of its own.

    Args:
        circuit: Flat circuit with the labels of its pads.
        structure: The circuit's optics with H heaters.
        settings: Settings by pad label.
        process: Process of the cards.

    Raises:
        InputError: A label is not a pad, or is wired to no heater or to several; two labels are wired to one heater; a
            voltage is set in a circuit without resistances, or for a heater whose wire has an unknown resistance; or
            a heater would shift the phase by more than its card allows.
    """
    own, fixed = np.zeros(structure.heater.size), np.full(structure.heater.size, np.nan)
    drivers: dict[int, str] = {}
    for label, setting in settings.items():
        heater = _heater_of(circuit, structure, label)
        if (other := drivers.setdefault(heater, label)) != label:
            name = circuit.instances[structure.heater[heater]]
            raise InputError(
                f"--set {label}: heater {name!r} is set twice, by {other!r} and {label!r}; set one of them"
            )
        if setting.unit == "rad":
            _refuse_beyond_range(label, setting, abs(setting.value), process)
            fixed[heater] = setting.value
        else:
            own[heater] = _phase_of_voltage(structure, heater, label, setting.value, process)
            _refuse_beyond_range(label, setting, own[heater], process)
    crosstalk = nominal_crosstalk(structure, process) if np.any(own) else None
    phases = own if crosstalk is None else crosstalk.apply(own)
    return np.where(np.isnan(fixed), phases, fixed)


def _heater_of(circuit: Circuit, structure: CircuitOptics, label: str) -> int:
    """Return the number of the only heater that a pad is wired to."""
    light = circuit.optical_mask()
    pads = tuple(sorted(each for each, port in circuit.ports.items() if not light[port]))
    if label not in pads:
        hint = label_suggestion(label, pads) if pads else "it has no labelled pads"
        raise InputError(f"--set {label}: {circuit.name!r} has no pad of this label; {hint}")
    net = circuit.electrical[circuit.ports[label]]
    first = circuit.offset[structure.heater]
    ends = circuit.electrical[first[:, np.newaxis] + np.array([2, 3])]
    wired = np.flatnonzero((ends == net).any(axis=1) & (net != UNCONNECTED)).tolist()
    if len(wired) != 1:
        names = ", ".join(circuit.instances[structure.heater[i]] for i in wired[:8])
        what = f"is wired to {len(wired)} heaters ({names})" if wired else "is wired to no heater"
        raise InputError(f"--set {label}: the pad {what}; set a pad that is wired to one")
    return int(wired[0])


def _refuse_beyond_range(label: str, setting: PadSetting, phase: float, process: Process) -> None:
    """Raise an error if a heater would have to shift the phase by more than its card allows."""
    card = process.device(_HEATER)
    largest = float(card.limits.get("phase_max_rad", np.inf))
    # a phase that was rounded for the command line
    if phase <= largest * (1 + _ROUNDED):
        return
    power_pi = card.parameter("power_pi_w")
    needed, most = phase * power_pi / np.pi, largest * power_pi / np.pi
    remedy = f"{setting.value * np.sqrt(largest / phase):.4g} V" if setting.unit == "V" else f"±{largest:.4g} rad"
    raise InputError(
        f"--set {label}: {setting.value:g} {setting.unit} needs {needed * 1e3:.4g} mW in the heater, the card of "
        f"{process.name} allows {most * 1e3:.4g} mW ({largest:.4g} rad, phase_max_rad); set at most {remedy}"
    )


def _phase_of_voltage(structure: CircuitOptics, heater: int, label: str, voltage: float, process: Process) -> float:
    """Return the phase in rad that a heater produces in its own guide at a voltage across heater and wire."""
    columns = structure.circuit.settings
    if "resistance_ohm" not in columns:
        raise InputError(
            f"--set {label}: a netlist states no resistances, from which a voltage's phase follows; give the layout, "
            f"or the phase as {label}=VALUErad"
        )
    instance = structure.heater[heater]
    heater_ohm, wire_ohm = (float(columns[key][instance]) for key in ("resistance_ohm", "wire_ohm"))
    if np.isnan(wire_ohm):
        raise InputError(
            f"--set {label}: the resistance of its wire is unknown, because the wire connects several heaters or pads; "
            f"give the phase as {label}=VALUErad"
        )
    power = (voltage / (heater_ohm + wire_ohm)) ** 2 * heater_ohm
    return float(np.pi * power / process.device(_HEATER).parameter("power_pi_w"))


def refuse_shared_channels(structure: CircuitOptics) -> None:
    """Raise NetlistError if a heater has no channel, or two share one."""
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
