"""Component types of a chip: the devices of its process, and the sub-circuits MZI, dummy MZI and attenuator."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, CircuitBuilder, ComponentType
from optinc_pdk.circuit.netlist_files import composite_type

MZI_DEVICES = ("mmi2x2", "phase_shifter", "terminator")
"""Devices of the sub-circuits."""
NETWORK_DEVICES = (*MZI_DEVICES, "mmi1x2", "pad")
"""Devices of the circuit of every network, besides its fibre couplers."""
ONCHIP_DEVICES = ("modulator", "photodiode")
"""Further devices of networks whose activations are on the chip."""


def check_devices(process: Process) -> None:
    """Check that a process has the devices that the circuit of every network contains.

    Raises:
        CardError: Device cards are missing; the message names them and the remedy.
    """
    onchip = process.activation.realisation == "onchip"
    process.require_devices((*NETWORK_DEVICES, process.fibres.coupler) + (ONCHIP_DEVICES if onchip else ()))


def device_types(process: Process) -> dict[str, ComponentType]:
    """Return the component types of all device cards of a process, by device name."""
    return {
        name: ComponentType(name, device.ports.optical, device.ports.electrical)
        for name, device in process.devices.items()
    }


def composite_circuits(process: Process, narrow_dummies: bool = False) -> dict[str, Circuit]:
    """Build the sub-circuits ``mzi_unit``, ``mzi_dummy`` and ``attenuator`` from devices, by component name.

    ``narrow_dummies`` adds ``mzi_narrow_dummy``, of dummies beside others, which only triangular meshes have.

    Raises:
        CardError: The process lacks a device of these circuits.
    """
    process.require_devices(MZI_DEVICES)
    devices = device_types(process)
    cells = [_mzi(devices), _dummy(devices, "mzi_dummy"), _attenuator(devices)]
    if narrow_dummies:
        cells.append(_dummy(devices, "mzi_narrow_dummy"))
    return {cell.name: cell for cell in cells}


def component_types(process: Process, cells: dict[str, Circuit]) -> dict[str, ComponentType]:
    """Return the component types of the devices of a process and of sub-circuits, by component name."""
    return device_types(process) | {name: composite_type(cell) for name, cell in cells.items()}


def _mzi(devices: dict[str, ComponentType]) -> Circuit:
    b = CircuitBuilder("mzi_unit", devices)
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


def _dummy(devices: dict[str, ComponentType], component: str) -> Circuit:
    b = CircuitBuilder(component, devices)
    for name in ("first", "second"):
        b.add(name, "mmi2x2")
        b.add(f"{name}_dark", "terminator")
    b.connect("first,o1", "first_dark,o1")
    b.connect("first,o3", "second,o2")
    b.connect("first,o4", "second,o1")
    b.connect("second,o3", "second_dark,o1")
    b.ports = {"o1": "first,o2", "o2": "second,o4"}
    return b.build()


def _attenuator(devices: dict[str, ComponentType]) -> Circuit:
    b = CircuitBuilder("attenuator", devices)
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
