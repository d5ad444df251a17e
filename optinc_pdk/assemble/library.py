"""Component types of a chip: the process's devices, and MZI, dummy and attenuator as sub-circuits."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Builder, Circuit, Kind
from optinc_pdk.circuit.files import composite_kind


def device_kinds(process: Process) -> dict[str, Kind]:
    """Return every device of the process as a component type, by name."""
    return {name: Kind(name, device.ports.optical, device.ports.electrical) for name, device in process.devices.items()}


def composites(process: Process) -> dict[str, Circuit]:
    """Build the sub-circuits of MZI, dummy and attenuator, by name."""
    devices = device_kinds(process)
    return {cell.name: cell for cell in (_mzi(devices), _dummy(devices), _attenuator(devices))}


def library(process: Process, cells: dict[str, Circuit]) -> dict[str, Kind]:
    """Return the component types of all devices and sub-circuits, by name."""
    return device_kinds(process) | {name: composite_kind(cell) for name, cell in cells.items()}


def _mzi(devices: dict[str, Kind]) -> Circuit:
    b = Builder("mzi", devices)
    for name, component in (
        ("phi", "phase_shifter"),
        ("first", "mmi2x2"),
        ("theta", "phase_shifter"),
        ("second", "mmi2x2"),
    ):
        b.add(name, component)
    b.connect("phi,o2", "first,o2")
    b.connect("first,o3", "theta,o2")
    b.connect("theta,o1", "second,o2")
    b.connect("first,o4", "second,o1")
    b.ports = {
        "o1": "first,o1",
        "o2": "phi,o1",
        "o3": "second,o3",
        "o4": "second,o4",
        "e1": "phi,e1",
        "e2": "phi,e2",
        "e3": "theta,e1",
        "e4": "theta,e2",
    }
    return b.build()


def _dummy(devices: dict[str, Kind]) -> Circuit:
    b = Builder("mzi_dummy", devices)
    for name in ("first", "second"):
        b.add(name, "mmi2x2")
        b.add(f"{name}_dark", "terminator")
    b.connect("first,o1", "first_dark,o1")
    b.connect("first,o3", "second,o2")
    b.connect("first,o4", "second,o1")
    b.connect("second,o3", "second_dark,o1")
    b.ports = {"o1": "first,o2", "o2": "second,o4"}
    return b.build()


def _attenuator(devices: dict[str, Kind]) -> Circuit:
    b = Builder("attenuator", devices)
    for name, component in (
        ("first", "mmi2x2"),
        ("dark", "terminator"),
        ("theta", "phase_shifter"),
        ("second", "mmi2x2"),
        ("dump", "terminator"),
    ):
        b.add(name, component)
    b.connect("first,o1", "dark,o1")
    b.connect("first,o3", "theta,o1")
    b.connect("theta,o2", "second,o2")
    b.connect("first,o4", "second,o1")
    b.connect("second,o4", "dump,o1")
    b.ports = {"o1": "first,o2", "o2": "second,o3", "e1": "theta,e1", "e2": "theta,e2"}
    return b.build()
