"""Netlists that gdsfactory writes, or that are written by hand in its format, as circuits.

They describe what is drawn: straights, bends and wires are instances like any other, cells contain cells, and an
instance has a placement. The circuit that results is flat and contains devices only. Guides become optical nets with
lengths, wires become electrical nets.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optinc_pdk.cards import DeviceCard, Process
from optinc_pdk.cards.device import CIRCUIT_CELLS, GUIDE_CELLS
from optinc_pdk.cards.device_models import SETTINGS
from optinc_pdk.circuit._cell_settings import (
    ARGUMENTS,
    GUIDE_ENDS,
    GuideFault,
    argument_settings,
    check_contradictions,
    check_cross_sections,
    check_route,
    complete_instance,
    guide_faults,
    is_guide,
    stated_um,
)
from optinc_pdk.circuit.checked_values import NetlistError, number_of
from optinc_pdk.circuit.netlist import Circuit, CircuitBuilder, ComponentType
from optinc_pdk.circuit.schematic_cells import (
    MAX_INSTANCES,
    CellDrawing,
    InstanceTransform,
    SchematicCell,
    SchematicInstance,
    cells_of_netlist,
    with_drawn_cells,
    with_drawn_settings,
)


class NameTable:
    """The names by which netlists call the devices of a process."""

    def __init__(self, process: Process) -> None:
        """Collect the names of all device cards."""
        self._devices = process.devices
        self._cells: dict[str, list[DeviceCard]] = {}
        for card in process.devices.values():
            if card.netlist is not None:
                for cell in card.netlist.cells or (card.name,):
                    self._cells.setdefault(cell, []).append(card)

    def known(self) -> list[str]:
        """Return the names of all devices and of the cells that draw them, sorted."""
        return sorted({*self._devices, *self._cells})

    def device(self, instance: str, component: str, settings: Mapping[str, Any]) -> str | None:
        """Return the device that a component is; None if it is none.

        ``settings`` are its arguments, of which a netlist may omit those of default values.

        Raises:
            NetlistError: The component has other dimensions than every device that it could be, or several devices are
                possible.
        """
        cards = self._cells.get(component)
        if cards is None:
            return component if component in self._devices else None
        fitting = [card for card in cards if card.netlist is not None and not card.netlist.differing(settings)]
        if len(fitting) == 1:
            return fitting[0].name
        names = ", ".join(card.name for card in fitting or cards)
        if fitting:
            keys = sorted({key for card in fitting if card.netlist is not None for key in card.netlist.settings})
            raise NetlistError(
                f"instance {instance!r}: component {component!r} could be each of {names}; state its settings "
                f"{', '.join(keys)}"
            )
        raise NetlistError(
            f"instance {instance!r}: component {component!r} differs from {names} by its settings: "
            f"{'; '.join(map(_differences, cards, [settings] * len(cards)))}; draw it like one of them, or add a card "
            "for it"
        )

    def port(self, device: str, name: str) -> str:
        """Return the port of a device's card that a netlist calls by a name."""
        names = self._devices[device].netlist
        return name if names is None else names.ports.get(name, name)

    def ports(self, device: str) -> tuple[str, ...]:
        """Return all names by which netlists may call the ports of a device."""
        card = self._devices[device]
        further = () if card.netlist is None else tuple(card.netlist.ports)
        return (*card.ports.optical, *card.ports.electrical, *further)

    def end_um(self, device: str, default: str) -> float:
        """Return the length of guide in µm at each end of a device's cell that is no part of the device.

        ``default`` is the key of the card's geometry with this length, if the card does not state it for netlists. A
        process without the device has none.
        """
        card = self._devices.get(device)
        if card is None:
            return 0.0
        length = None if card.netlist is None else card.netlist.length
        return card.size(default) if length is None else float(length.end_um)

    def length(self, instance: str, device: str, settings: Mapping[str, Any]) -> dict[str, float]:
        """Return the setting ``length_um`` of a device whose cell states its length by an argument, if it does.

        Raises:
            NetlistError: The argument is no number.
        """
        names = self._devices[device].netlist
        if names is None or names.length is None or settings.get(names.length.argument) is None:
            return {}
        key = names.length.argument
        stated = number_of(f"instance {instance!r}: {key}", settings[key])
        return {"length_um": round(stated - 2 * float(names.length.end_um), 6)}


def _differences(card: DeviceCard, settings: Mapping[str, Any]) -> str:
    """Return text with the settings that differ from those of a device."""
    if card.netlist is None:
        return ""
    found = card.netlist.differing(settings).items()
    values = (f"{key} is {reprlib.repr(value)} instead of {card.netlist.settings[key]!r}" for key, value in found)
    return ", ".join(values)


FRAMES = frozenset({"die_frame"})
"""Cells that draw no part of a circuit and have no ports."""
PHASE_SHIFTER, STRAIGHT = "phase_shifter", "straight"
ALIASES = dict.fromkeys(("coupler_straight", "coupler_ring", "coupler_ring_bend"), "coupler")
"""Cells that are drawn as another device."""
PDK_CELLS = ARGUMENTS.keys() | CIRCUIT_CELLS
"""Cells of the package's PDK."""
COUPLERS = frozenset({"coupler", *ALIASES})
"""Couplers of any gap and length, whose settings follow from the arguments of their cells."""
LEAD, LEAD_PORTS = "lead_um", ("o1", "o4")
"""Entry of ``info`` with the length of guide between a coupler's mark and these ports, and the ports."""
WITH_LEADS = "coupler_ring"
"""Coupler that is longer than its mark."""
FARTHEST_UM = 1.0e6
"""Largest coordinate of an instance; layout files hold 2.1 m in steps of 1 nm."""
Port = tuple[str, str]


@dataclass(frozen=True)
class PlacedCircuit:
    """A flat circuit of devices, with the placements that its netlist states.

    Attributes:
        circuit: The circuit. Its ports are those that the netlist exposes, and ``net_length_um`` is NaN for a net that
            contains a guide of unknown length.
        transforms: Placement of each instance; None if the netlist states none, or a relative one.
        exposed: Labels that are ports of the netlist's top cell.
        guide_faults: Parts of guides that no layout of the process can have: of another width, or with an open end.
    """

    circuit: Circuit
    transforms: tuple[InstanceTransform | None, ...]
    exposed: frozenset[str]
    guide_faults: tuple[GuideFault, ...] = ()


def placed_circuit(
    data: Mapping[str, Any],
    process: Process,
    name: str,
    top: str = "",
    layout_top: Callable[[], str] | None = None,
    draw: CellDrawing | None = None,
) -> PlacedCircuit:
    """Convert the netlist of a drawn circuit to a flat circuit.

    Args:
        data: Content of the file: what ``Component.get_netlist()`` returns, with ``recursive=True`` or without, or a
            schematic (``.pic.yml``).
        process: Process whose device cards state the ports of devices.
        name: Name of the circuit. If several netlists could be the top, the one of this name is.
        top: Name of the top cell of several netlists; empty to choose it.
        layout_top: Function that returns the name of the layout's top cell, whose netlist is the top of several.
        draw: Function that draws cells of the PDK whose netlists the file does not contain; None to refuse them.

    Raises:
        NetlistError: The netlist has no instance, an unknown component, an instance or a port that does not exist, a
            port that is used twice, or cells that contain each other; the message names instance and port.
    """
    cells, chosen = cells_of_netlist(data, name, top, layout_top)
    if not cells[chosen].instances:
        which = "" if "instances" in data else f"netlist {chosen!r}: "
        raise NetlistError(
            f"{which}there are no instances; state those of the circuit, or write the netlist with "
            "Component.get_netlist()"
        )
    names = NameTable(process)
    if _has_own_pdk(process):
        for cell in cells.values():
            _check_names(cell, process)
    if draw is not None:

        def device(instance: str, part: SchematicInstance) -> str | None:
            return names.device(instance, ALIASES.get(part.component, part.component), part.settings)

        def coupler_settings(instance: str, part: SchematicInstance) -> tuple[str, ...]:
            if part.component not in COUPLERS:
                return ()
            card = process.devices.get(device(instance, part) or "")
            return (*SETTINGS[card.model.name], LEAD) if card is not None and _is_drawn_by_package(card) else ()

        cells = with_drawn_cells(cells, lambda *instance: device(*instance) is not None, draw)
        cells = with_drawn_settings(cells, coupler_settings, draw)
    return _Expansion(cells, process, names).circuit(chosen, name)


class _Expansion:
    """Expansion of hierarchical cells to devices, guides and wires, which are identified by their full names."""

    def __init__(self, cells: Mapping[str, SchematicCell], process: Process, names: NameTable) -> None:
        self.cells = cells
        self.library = {
            name: ComponentType(name, card.ports.optical, card.ports.electrical)
            for name, card in process.devices.items()
        }
        self.process, self.names, self.devices = process.name, names, process.devices
        self.guides = GUIDE_CELLS | set(process.netlist.guides)
        self.own_pdk = _has_own_pdk(process)
        self.width_um = float(process.guide.width_um)
        self.stated = {name: SETTINGS.get(card.model.name, ()) for name, card in process.devices.items()}
        self.stated[PHASE_SHIFTER] = ("length_um",)
        # the guide at the ends of a phase shifter is not heated, and extraction counts it as part of the net
        self.end_um = self.names.end_um(PHASE_SHIFTER, "contact_width_um")
        self.leads: dict[str, float] = {}
        self.kinds: dict[str, str] = {}
        self.settings: dict[str, dict[str, float]] = {}
        self.transforms: dict[str, InstanceTransform | None] = {}
        self.lengths: dict[str, float] = {}
        self.bends: set[str] = set()
        self.parts: dict[str, SchematicInstance] = {}
        self.partner: dict[Port, Port] = {}
        self.wires: list[tuple[Port, Port]] = []
        self.routed: set[Port] = set()

    def circuit(self, top: str, name: str) -> PlacedCircuit:
        """Return the circuit of a cell."""
        self._check_size(top, (), {})
        ports = self.expand(top, "", InstanceTransform())
        builder = CircuitBuilder(name, self.library)
        for instance, kind in self.kinds.items():
            builder.add(instance, kind, None, **self.settings[instance])
        lengths, bends = self._connect_guides(builder)
        ends = self._connect_wires(builder)
        for label, port in ports.items():
            device = self._behind(label, port, ends)
            if device is not None:
                builder.ports[label] = ",".join(device)
        circuit = replace(
            builder.build(),
            net_length_um=np.array(lengths, dtype=np.float64),
            net_bends=np.array(bends, dtype=np.int64),
        )
        wired = {port[0] for pair in self.wires for port in pair}
        parts = {
            each: part
            for each, part in self.parts.items()
            if any((each, end) in self.partner for end in GUIDE_ENDS)
            or (self.own_pdk and each not in wired and is_guide(part))
        }
        return PlacedCircuit(
            circuit,
            tuple(self.transforms[each] for each in circuit.instances),
            frozenset(builder.ports),
            tuple(guide_faults(parts, self.partner, self.width_um)),
        )

    def _check_size(self, name: str, parents: tuple[str, ...], known: dict[str, int]) -> int:
        """Count the instances of a cell on all levels, before they are expanded.

        Raises:
            NetlistError: Cells contain each other, or there are more than ``MAX_INSTANCES`` instances.
        """
        if name in parents:
            raise NetlistError(f"cells contain each other: {' > '.join((*parents, name))}; correct the netlist")
        if name not in known:
            parts = [part.component for part in self.cells[name].instances.values()]
            inside = [self._check_size(each, (*parents, name), known) for each in parts if each in self.cells]
            known[name] = len(parts) + sum(inside)
        if known[name] > MAX_INSTANCES:
            raise NetlistError(
                f"cell {name!r} has {known[name]} instances on all levels, the limit is {MAX_INSTANCES}; verify a part "
                "of the circuit"
            )
        return known[name]

    def expand(self, name: str, prefix: str, transform: InstanceTransform | None) -> dict[str, Port]:
        """Add the devices, guides, wires and nets of a cell, and return the port behind each port of the cell.

        ``prefix`` is the full name of its instance with a dot, ``transform`` its placement, None if it is unknown.
        """
        cell = self.cells[name]
        inner: dict[str, dict[str, Port]] = {}
        for instance, part in cell.instances.items():
            full = prefix + instance
            placed = None if transform is None or part.transform is None else transform.after(part.transform)
            device = None
            if part.component not in self.cells:
                device = self.names.device(full, ALIASES.get(part.component, part.component), part.settings)
                part = self._complete(full, part, device)
                check_contradictions(full, part, () if device is None else tuple(self.stated[device]))
            if device is not None:
                self.kinds[full], self.transforms[full] = device, _in_reach(full, placed)
                self.settings[full] = self._settings(full, device, part)
                self.leads[full] = _lead_um(full, part)
            elif part.component in self.cells:
                inner[instance] = self.expand(part.component, f"{full}.", placed)
            elif part.component in self.guides:
                self.lengths[full] = _length(full, part.info, part.settings)
                self.parts[full] = replace(part, transform=placed)
                if part.component != STRAIGHT:
                    self.bends.add(full)
            elif part.component in FRAMES:
                inner[instance] = {}
            else:
                raise NetlistError(self._unknown(full, part.component))

        def leaf(text: str, where: str) -> Port:
            instance, port = _split(text, where)
            if instance not in cell.instances:
                raise NetlistError(f"{where} names {prefix + instance!r}, which is no instance; correct it")
            if instance in inner:
                if port not in inner[instance]:
                    known = ", ".join(sorted(inner[instance])) or "none"
                    raise NetlistError(f"{where}: {prefix}{instance} has no port {port!r}, it has {known}; correct it")
                return inner[instance][port]
            kind = self.kinds.get(prefix + instance)
            port = port if kind is None else self.names.port(kind, port)
            self._check_port(prefix + instance, port, where)
            return prefix + instance, port

        for link, a, b in (
            (link, *pair)
            for link, pairs in (("net", cell.nets), ("connection", cell.connections), ("route", cell.routes))
            for pair in pairs
        ):
            where = f"{link} {a} - {b}" + (f" of {prefix[:-1]}" if prefix else "")
            ends = leaf(a, where), leaf(b, where)
            self._join(*ends, where, same=a == b)
            if link == "route" or (link == "net" and not cell.touches((a, b))):
                # a schematic states no length of a route or net
                self.routed |= set(ends)
        return {label: leaf(text, f"port {label!r}") for label, text in cell.ports.items()}

    def _complete(self, instance: str, part: SchematicInstance, device: str | None) -> SchematicInstance:
        """Return an instance of a schematic with the default arguments of its cell, if the package draws the cell."""
        if part.drawn:
            return part
        if device is None:
            return complete_instance(instance, part) if self.own_pdk else part
        card = self.devices[device]
        further = (LEAD,) if part.component == WITH_LEADS else ()
        complete = _is_drawn_by_package(card)
        return complete_instance(instance, part, (*self.stated[device], *further)) if complete else part

    def _settings(self, instance: str, device: str, part: SchematicInstance) -> dict[str, float]:
        """Return the settings of a device that LVS compares, from its arguments and from ``info``."""
        stated = {
            key: stated_um(f"instance {instance!r}: {key}", source[key], key)
            for key in self.stated[device]
            for source in (part.settings, part.info)
            if source.get(key) is not None
        }
        stated = argument_settings(instance, part, self.stated[device]) | stated
        return stated | self.names.length(instance, device, part.settings)

    def _unknown(self, instance: str, component: str) -> str:
        """Return the message about a component that is neither a device, a guide nor a cell of the netlist."""
        if component in CIRCUIT_CELLS:
            return (
                f"instance {instance!r}: {component} is a cell that consists of several devices and guides, and this "
                f"file has no netlist {component!r}; write the netlist with get_netlist(recursive=True), or state its "
                "devices"
            )
        return (
            f"instance {instance!r}: component {component!r} is neither a device of process {self.process!r} "
            f"({', '.join(self.names.known())}), nor a guide or wire ({', '.join(sorted(self.guides))}), nor a cell of "
            "this netlist; if it is a cell of your own, write the netlist with get_netlist(recursive=True); if it is a "
            "device, add its card (docs/own_devices.md); if it is of another PDK, give its process with --process"
        )

    def _check_port(self, instance: str, port: str, where: str) -> None:
        """Check that a device, guide or wire has a port."""
        kind = self.kinds.get(instance)
        known = ("o1", "o2", "e1", "e2") if kind is None else self.names.ports(kind)
        if port not in known:
            raise NetlistError(f"{where}: {instance} has no port {port!r}, it has {', '.join(known)}; correct it")

    def _is_light(self, port: Port) -> bool:
        """Return whether a port is optical."""
        instance, name = port
        kind = self.kinds.get(instance)
        return name.startswith("o") if kind is None else name in self.library[kind].optical

    def _join(self, a: Port, b: Port, where: str, same: bool) -> None:
        """Add a net between two ports of devices, guides or wires; ``same`` if the netlist calls both by one name."""
        if a == b and not same and not self._is_light(a):
            # two names of one pin
            return
        if a == b:
            raise NetlistError(f"{where} joins a port to itself; remove it")
        if self._is_light(a) != self._is_light(b):
            raise NetlistError(f"{where} joins an optical to an electrical port; correct it")
        if not self._is_light(a):
            self.wires.append((a, b))
            return
        for one, other in ((a, b), (b, a)):
            if self.partner.get(one, other) != other:
                text = f"{where}: optical port {','.join(one)} is used twice, also by {','.join(self.partner[one])}"
                raise NetlistError(f"{text}; join guides with a splitter or coupler")
            self.partner[one] = other

    def _follow(self, port: Port) -> tuple[Port | None, float, int]:
        """Follow guides from a device's or cell's port to the next port of a device.

        Args:
            port: Port that the guides begin at: what is connected to it comes next.

        Returns:
            The port of the device, None if a guide ends without one; the length of the guides in µm; and the number of
            them that are not straights.
        """
        length, bends = 0.0, 0
        for _ in range(len(self.lengths) + 1):
            beyond = self.partner.get(port)
            length += float("nan") if port in self.routed else 0.0
            if beyond is None or beyond[0] in self.kinds:
                return beyond, length, bends
            length += self.lengths[beyond[0]]
            bends += beyond[0] in self.bends
            port = _other_end(beyond)
        return None, length, bends

    def _connect_guides(self, builder: CircuitBuilder) -> tuple[list[float], list[int]]:
        """Add an optical net for every chain of guides between two devices.

        Returns:
            The lengths of all in µm, and the numbers of their parts that are not straights.
        """
        lengths: list[float] = []
        bends: list[int] = []
        seen: set[Port] = set()
        for instance, kind in self.kinds.items():
            for name in self.library[kind].optical:
                port = (instance, name)
                if port in seen:
                    continue
                end, length, count = self._follow(port)
                if end is None:
                    continue
                seen |= {port, end}
                builder.connect(",".join(port), ",".join(end))
                lengths.append(length + self._lead_um(port) + self._lead_um(end))
                bends.append(count)
        return lengths, bends

    def _lead_um(self, port: Port) -> float:
        """Return the length of guide in µm between a port of a device's cell and the device as extracted."""
        instance, name = port
        if self.kinds[instance] == PHASE_SHIFTER:
            return self.end_um
        return self.leads.get(instance, 0.0) if name in LEAD_PORTS else 0.0

    def _connect_wires(self, builder: CircuitBuilder) -> dict[Port, list[Port]]:
        """Add the electrical nets, and return the ports of devices on the net of every port."""
        neighbours: dict[Port, list[Port]] = {}
        parts = {port[0] for pair in self.wires for port in pair if port[0] in self.lengths}
        for a, b in (*self.wires, *(((part, "e1"), (part, "e2")) for part in sorted(parts))):
            neighbours.setdefault(a, []).append(b)
            neighbours.setdefault(b, []).append(a)
        found: dict[Port, list[Port]] = {}
        for start in neighbours:
            if start in found:
                continue
            pending, devices = [start], list[Port]()
            found[start] = devices
            while pending:
                port = pending.pop()
                found[port] = devices
                if port[0] in self.kinds:
                    devices.append(port)
                pending += [each for each in neighbours[port] if each not in found]
                found |= {each: devices for each in neighbours[port] if each not in found}
            for device in devices[1:]:
                builder.connect(",".join(devices[0]), ",".join(device))
        return found

    def _behind(self, label: str, port: Port, ends: Mapping[Port, list[Port]]) -> Port | None:
        """Return the fibre coupler's or pad's port that a port of the top cell labels; None if there is no pad.

        Raises:
            NetlistError: It is the open end of a guide.
        """
        if self._is_light(port):
            if port[0] in self.kinds:
                return port
            raise NetlistError(
                f"port {label!r} is the end of guide {port[0]!r}, through which no light enters a chip; add a fibre "
                "coupler there (grating_coupler or edge_coupler) and expose its fibre port"
            )
        pads = [end for end in ends.get(port, [port]) if end[0] in self.kinds and self._is_pad(end[0])]
        # a pad that is exposed itself is the one that is meant
        return port if port in pads else pads[0] if pads else None

    def _is_pad(self, instance: str) -> bool:
        """Return whether a device has electrical ports only."""
        return not self.library[self.kinds[instance]].optical


def _has_own_pdk(process: Process) -> bool:
    """Return whether the package's PDK draws the guides; other PDKs have cells, cross-sections and strategies, too."""
    return not set(process.netlist.guides) - GUIDE_CELLS


def _check_names(cell: SchematicCell, process: Process) -> None:
    """Check the cross-sections and routing strategies that a schematic names for cells and routes of the PDK.

    The netlist of a layout may have cross-sections that its author registered, as it states the widths besides.
    """
    for name, part in cell.instances.items():
        card = process.devices.get(part.component)
        if not part.drawn and part.component in PDK_CELLS and (card is None or _is_drawn_by_package(card)):
            check_cross_sections(f"instance {name!r}", part.settings)
    for name, route in cell.route_statements.items():
        check_route(f"route {name!r}", route)


def _is_drawn_by_package(card: DeviceCard) -> bool:
    """Return whether a device has a cell of this package, whose arguments and ``info`` are known."""
    return card.cell is None and card.netlist is None


def _other_end(port: Port) -> Port:
    """Return the other end of a part of a guide."""
    return port[0], "o2" if port[1] == "o1" else "o1"


def _split(text: str, where: str) -> Port:
    """Split ``"instance,port"``."""
    instance, _, port = text.rpartition(",")
    if not instance or not port:
        raise NetlistError(f"{where}: {text!r} is no port; write 'instance,port'")
    return instance, port


def _in_reach(instance: str, transform: InstanceTransform | None) -> InstanceTransform | None:
    """Check that an instance is placed where a layout can have it."""
    if transform is not None and max(abs(transform.x_um), abs(transform.y_um)) > FARTHEST_UM:
        raise NetlistError(
            f"instance {instance!r} is placed at ({transform.x_um:g}, {transform.y_um:g}) µm, farther than "
            f"{FARTHEST_UM:g} µm from the origin; correct its placement"
        )
    return transform


def _lead_um(instance: str, part: SchematicInstance) -> float:
    """Return the length in µm between ports ``LEAD_PORTS`` of a coupler and its mark, NaN if it is not stated."""
    for source in (part.info, part.settings):
        if source.get(LEAD) is not None:
            return stated_um(f"instance {instance!r}: {LEAD}", source[LEAD])
    return float("nan") if part.component == WITH_LEADS else 0.0


def _length(instance: str, info: Mapping[str, Any], settings: Mapping[str, Any]) -> float:
    """Return the length of a part of a guide in µm, NaN if the netlist does not state it."""
    for source in (info, settings):
        if source.get("length") is not None:
            return stated_um(f"instance {instance!r}: length", source["length"])
    return float("nan")
