"""Heater phases from voltages or phases that a user sets at pads, for circuits without a bias file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.circuit_optics import CircuitOptics, label_suggestion
from optinc_pdk.simulate.heater_drive.crosstalk import nominal_crosstalk

_SETTING = re.compile(r"(?P<label>.+)=(?P<value>[^=]*?)\s*(?P<unit>V|rad)?", re.DOTALL)
LARGEST_V = 1000.0
LARGEST_RAD = 1e6
_HEATER = "phase_shifter"
_ROUNDED = 1e-3
"""Share by which a rounded phase may exceed the largest one: 6.284 rad are 2π."""


@dataclass(frozen=True)
class PadSetting:
    """A voltage or a phase that is set at a pad.

    Attributes:
        value: Voltage between both ends of the heater in V, or phase of the guide under it in rad.
        unit: Unit of the value.
    """

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
    """Return a circuit without the labels of pads that are wired to heaters, or to nothing.

    Which pad of a heater is its signal is stated by a bias. Without one, any two pads may drive a heater.

    Args:
        circuit: Flat circuit.
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
    """Compute the phases of all heated guides for settings at pads; other heaters are off.

    Phases that follow from voltages include thermal crosstalk from all heaters that are driven by a voltage. A phase in
    rad is that of the guide, whatever causes it. Ground rise is neglected: every heater has a ground of its own.

    Args:
        circuit: Flat circuit with the labels of its pads.
        structure: The circuit's optics with H heaters.
        settings: Settings by pad label.
        process: Process of the cards.

    Returns:
        (H,) phases in rad.

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
