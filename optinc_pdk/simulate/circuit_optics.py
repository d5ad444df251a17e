"""A circuit's optics as index arrays, made once per circuit.

Ports are the optical ports only, numbered in the order of the circuit's ports. Wave a_p runs into the device at
port p, b_p out of it::

    b = S a,   a = C b + e        so        (1 - C S) a = e

S holds the devices' S-matrices, C the guides between them (their transmission at both joined ports), e the
light that enters at fibres or from modulators.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.circuit import UNCONNECTED, Circuit, NetlistError, check_complete, flatten
from optinc_pdk.circuit.netlist import component_labels

GROUND = "GND"
PHOTODIODE, MODULATOR, CROSSING = "photodiode", "modulator", "crossing"
"""Components that are treated specially: detectors, sources of light, and crossing guides."""
_SUGGESTIONS = 6


@dataclass(frozen=True, eq=False)
class ComponentGroup:
    """All I instances of one component, each with p optical ports.

    Attributes:
        name: Name of the component and of its device card.
        instance: (I,) instance numbers in the circuit.
        port: (I, p) numbers of the optical ports in the circuit.
        heated: Whether the component is a heated guide.
    """

    name: str
    instance: Ints
    port: Ints
    heated: bool


@dataclass(frozen=True, eq=False)
class CircuitOptics:
    """The optics of a flat circuit with n optical ports and H heaters, as index arrays.

    Attributes:
        circuit: The flat circuit.
        devices: Instances grouped by component; components without optical ports are left out.
        partner: (n,) optical port at the other end of the guide at each port, -1 at fibres.
        length_um: (n,) length of that guide in µm; 0 at fibres and in circuits without geometry.
        labels: Sorted labels of fibres and of the pads of photodiodes and modulators, between which S-parameters are
            defined.
        label_port: (labels,) optical port of each label: the fibre's, the photodiode's, or the modulator's output.
        carrier_port: (labels,) port at which each modulator receives its carrier, -1 for other labels.
        heater: (H,) instance numbers of the heated guides, ascending.
        heater_port: (H, 2) optical ports of the heated guides.
        channel: (H,) label of the pad that drives each heater; empty if there is none.
    """

    circuit: Circuit
    devices: tuple[ComponentGroup, ...]
    partner: Ints
    length_um: Floats
    labels: tuple[str, ...]
    label_port: Ints
    carrier_port: Ints
    heater: Ints
    heater_port: Ints
    channel: tuple[str, ...]

    @property
    def ports(self) -> int:
        """Number of optical ports."""
        return int(self.partner.size)

    @property
    def modulators(self) -> tuple[str, ...]:
        """Labels of modulators, sorted."""
        return tuple(self.labels[i] for i in np.flatnonzero(self.carrier_port != UNCONNECTED))

    @cached_property
    def part(self) -> Ints:
        """(n,) part of the circuit that each port belongs to; no light travels between parts.

        Fibres and modulators separate parts, because the light that they launch is a source. Chips whose electronics
        lie outside have one part for each layer or block, and one for the distribution of the carrier.
        """
        one = np.flatnonzero(self.partner != UNCONNECTED)
        tails, heads = [one], [self.partner[one]]
        for group in self.devices:
            if group.name != MODULATOR:
                for port in group.port.T[1:]:
                    tails.append(group.port[:, 0])
                    heads.append(port)
        return np.asarray(component_labels(self.ports, np.concatenate(tails), np.concatenate(heads)), dtype=np.int64)

    @cached_property
    def part_ports(self) -> tuple[Ints, ...]:
        """Ports of each part, ascending."""
        order = np.argsort(self.part, kind="stable")
        starts = np.searchsorted(self.part[order], np.arange(1, int(self.part.max(initial=-1)) + 1))
        return tuple(np.split(order, starts))

    @cached_property
    def place_in_part(self) -> Ints:
        """(n,) index of each port among the ports of its part."""
        place = np.empty(self.ports, dtype=np.int64)
        for ports in self.part_ports:
            place[ports] = np.arange(ports.size)
        return place

    def label_positions(self, labels: Sequence[str]) -> Ints:
        """Return the indices of labels in the attribute ``labels``; raise NetlistError if one is missing there."""
        place = {label: i for i, label in enumerate(self.labels)}
        for label in labels:
            if label not in place:
                raise NetlistError(
                    f"circuit {self.circuit.name!r} has no fibre {label!r}; {label_suggestion(label, self.labels)}"
                )
        return np.array([place[label] for label in labels], dtype=np.int64)


def label_suggestion(label: str, labels: Sequence[str]) -> str:
    """Return the end of an error message about an unknown label: similar labels, or else the first existing ones."""
    near = difflib.get_close_matches(label, labels, n=_SUGGESTIONS)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"its labels are {', '.join(labels[:_SUGGESTIONS])}{', …' * (len(labels) > _SUGGESTIONS)} ({len(labels)})"


def analyse(circuit: Circuit) -> CircuitOptics:
    """Index the optics of a flat or hierarchical circuit.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.assemble import mesh_chip
        >>> from optinc_pdk.cards import load_process
        >>> op.simulate.analyse(mesh_chip(2, load_process(), "mesh")).labels
        ('in_r0', 'in_r1', 'out_r0', 'out_r1')

    Raises:
        NetlistError: An optical port is neither connected nor a labelled fibre, or a heater has no ground or several
            channels.
    """
    flat = flatten(circuit)
    check_complete(flat)
    light = flat.optical_mask()
    number = np.cumsum(light) - 1
    joined = number[flat.nets]
    partner = np.full(int(light.sum()), UNCONNECTED, dtype=np.int64)
    length = np.zeros(partner.size)
    for near, far in ((0, 1), (1, 0)):
        partner[joined[:, near]] = joined[:, far]
        if flat.net_length_um.size:
            length[joined[:, near]] = flat.net_length_um
    outside = {label: int(number[port]) for label, port in flat.ports.items() if light[port]}
    devices = _devices(flat, number)
    detectors, modulators = _pads(flat, devices, PHOTODIODE), _pads(flat, devices, MODULATOR)
    port = outside | {label: ports[-1] for label, ports in (detectors | modulators).items()}
    labels = tuple(sorted(port))
    heated = [group for group in devices if group.heated]
    heater = np.concatenate([np.zeros(0, dtype=np.int64), *(group.instance for group in heated)])
    order = np.argsort(heater)
    heater_port = np.concatenate([np.zeros((0, 2), dtype=np.int64), *(group.port for group in heated)])
    return CircuitOptics(
        circuit=flat,
        devices=devices,
        partner=partner,
        length_um=length,
        labels=labels,
        label_port=np.array([port[label] for label in labels], dtype=np.int64),
        carrier_port=np.array([modulators.get(label, (UNCONNECTED,))[0] for label in labels], dtype=np.int64),
        heater=heater[order],
        heater_port=heater_port[order],
        channel=_channels(flat, heater[order]),
    )


def _devices(flat: Circuit, number: Ints) -> tuple[ComponentGroup, ...]:
    offset = flat.offset
    groups = []
    for i, kind in enumerate(flat.kinds):
        if not kind.optical:
            continue
        heated = bool(kind.electrical) and kind.name not in (PHOTODIODE, MODULATOR)
        if heated and len(kind.optical) != 2:
            raise NetlistError(
                f"component {kind.name!r} has a heater and {len(kind.optical)} optical ports; "
                "a heater sits on a guide with two"
            )
        instance = np.flatnonzero(flat.kind == i).astype(np.int64)
        port = number[offset[instance][:, np.newaxis] + np.arange(len(kind.optical))]
        groups.append(ComponentGroup(kind.name, instance, port, heated))
    return tuple(groups)


def _pads(flat: Circuit, devices: tuple[ComponentGroup, ...], name: str) -> dict[str, tuple[int, ...]]:
    """Pad labels of photodiodes or modulators, with their optical ports.

    Raises:
        NetlistError: One has no labelled pad and ground of its own.
    """
    found: dict[str, tuple[int, ...]] = {}
    for group in devices:
        if group.name != name:
            continue
        for label, instance, ports in zip(
            _channels(flat, group.instance), group.instance.tolist(), group.port.tolist(), strict=True
        ):
            if not label or label in found:
                raise NetlistError(
                    f"{flat.name}: {name} {flat.instances[instance]!r} has no labelled pad and ground of its own; "
                    "give it one"
                )
            found[label] = tuple(ports)
    return found


def _channels(flat: Circuit, heater: Ints) -> tuple[str, ...]:
    """Signal label of each heater, photodiode or modulator: the label on its nets that is not a ground."""
    light = flat.optical_mask()
    labels = [label for label, port in flat.ports.items() if not light[port] and flat.electrical[port] != UNCONNECTED]
    net = flat.electrical[np.array([flat.ports[label] for label in labels], dtype=np.int64)]
    ground = np.array([label.startswith(GROUND) for label in labels], dtype=bool)
    nets = int(flat.electrical.max(initial=UNCONNECTED)) + 1
    # one entry more for ports without a net
    signals, grounds = (np.bincount(net[which], minlength=nets + 1) for which in (~ground, ground))
    signal = np.full(nets + 1, UNCONNECTED, dtype=np.int64)
    signal[net[~ground]] = np.flatnonzero(~ground)
    channels = np.full(heater.size, UNCONNECTED, dtype=np.int64)
    for number in np.unique(flat.kind[heater]).tolist():
        kind, members = flat.kinds[number], np.flatnonzero(flat.kind[heater] == number)
        first = flat.offset[heater[members]] + len(kind.optical)
        on = np.sort(flat.electrical[first[:, np.newaxis] + np.arange(len(kind.electrical))], axis=1)
        several = (on != on[:, :1]).any(axis=1)
        on[:, 1:][on[:, 1:] == on[:, :-1]] = nets
        if (signals[on].sum(axis=1) > 1).any():
            worst = int(np.argmax(signals[on].sum(axis=1) > 1))
            names = sorted(
                label for label, at, earth in zip(labels, net, ground, strict=True) if at in on[worst] and not earth
            )
            raise NetlistError(
                f"{flat.name}: {kind.name} {flat.instances[heater[members[worst]]]!r} lies on the channels "
                f"{', '.join(names)}; it has one, so these wires are shorted or lack their ground"
            )
        driven = several & (grounds[on].sum(axis=1) > 0)
        channels[members[driven]] = signal[on[driven]].max(axis=1)
    return tuple(labels[label] if label != UNCONNECTED else "" for label in channels.tolist())
