"""Labels for the fibre couplers and pads of a circuit that is drawn by hand, in its netlist and in its layout.

LVS connects a netlist to a layout by the labels of fibres and pads. A netlist of gdsfactory states ports, and a layout
may have no labels at all. The netlist states where each instance is placed, so the position of a fibre coupler or pad
is known, and a label is set there. The position only names what lies there: connections are extracted from polygons.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, PlacedCircuit
from optinc_pdk.circuit.gdsfactory_netlists import NameTable
from optinc_pdk.circuit.schematic_cells import InstanceTransform
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract.faults import center_um
from optinc_pdk.extract.golden_devices import GoldenVariant, bounding_box, read_golden
from optinc_pdk.extract.mask_layout import NM_PER_UM, Label, label_positions
from optinc_pdk.extract.metal_nets import inner_point
from optinc_pdk.extract.polygons import NOT_FOUND, PolygonIndex
from optinc_pdk.signoff.lvs.differences import PHASE_SHIFTER, Difference

PAD = "pad"


@dataclass(frozen=True)
class BoundLabels:
    """A reference circuit whose fibre couplers and pads all have labels, and the labels that its layout lacks.

    Attributes:
        reference: Flat circuit, with the positions that the netlist states; NaN where it states none.
        missing: Labels to add to those of the layout.
        unplaced: Ports of the reference that are exposed but labelled nowhere: neither a position nor a label of the
            layout tells which coupler or pad they are.
        differences: Differences that the circuits do not show: labels of the layout on another coupler or pad than the
            netlist's, and guides of the netlist that the layout cannot have.
    """

    reference: Circuit
    missing: tuple[Label, ...] = ()
    unplaced: Mapping[str, int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class _Terminal:
    """A fibre coupler or pad of the reference.

    Attributes:
        instance: Its instance.
        port: Its port to the outside.
        outline: Its outline in nm; None if its place is unknown.
        noun: What messages call it.
    """

    instance: str
    port: int
    outline: kdb.Polygon | None
    noun: str


def bind_labels(
    placed: PlacedCircuit, labels: Sequence[Label], process: Process, couplers: Sequence[kdb.Box] = ()
) -> BoundLabels:
    """Label the fibre couplers and pads of a drawn circuit.

    A coupler or pad is called as the layout labels it, else as the port that the netlist exposes there, else by the
    name of its instance. Where the layout as a whole was moved, rotated or mirrored, so are the places that the netlist
    states. A label of the layout that is the name of another exposed port does not rename either: the
    comparison finds what is connected to the wrong one. Every label that is the name of another coupler or pad, or lies
    on an exposed one without being its name, is a difference besides.

    Args:
        placed: Circuit of the netlist.
        labels: Labels of the layout.
        couplers: Boxes of the layout's fibre couplers; without any, the layout counts as not moved.

    Raises:
        CardError: The process has no golden files, or one of them is not valid.
    """
    terminals = _terminals(placed, process)
    whole = _movement(placed.circuit, terminals, labels, couplers)
    if whole is not None:
        transforms = tuple(None if each is None else whole.after(each) for each in placed.transforms)
        placed = replace(placed, transforms=transforms)
        terminals = _terminals(placed, process)
    texts = _texts(terminals, labels)
    exposed = {port: label for label, port in placed.circuit.ports.items()}
    ports, known = dict(placed.circuit.ports), {label.text for label in labels}
    missing: list[Label] = []
    unplaced: dict[str, int] = {}
    for terminal in terminals:
        label = exposed.get(terminal.port)
        drawn = [label.text for label in texts.get(terminal.instance, ()) if label.text not in placed.exposed]
        if terminal.instance in texts:
            if drawn and label not in {each.text for each in texts[terminal.instance]}:
                if label is not None:
                    del ports[label]
                ports[drawn[0]] = terminal.port
            continue
        if terminal.outline is None:
            if label is not None and label not in known:
                unplaced[label] = ports.pop(label)
            continue
        if label is None:
            label = free_label(terminal.instance, {*ports, *known})
            ports[label] = terminal.port
        missing.append(Label(label, *inner_point(terminal.outline)))
    reference = replace(placed.circuit, ports=ports, position_um=placed_positions(placed, process))
    guides = (Difference(each.kind, each.message, each.instance, "", each.position_um) for each in placed.guide_faults)
    found = (*_misnamed(placed.circuit, terminals, texts), *guides)
    return BoundLabels(reference, tuple(missing), unplaced, found)


def named_circuit(placed: PlacedCircuit, process: Process) -> Circuit:
    """Return the circuit of a netlist with labels for all fibre couplers and pads, without regard to a layout.

    A coupler or pad that the netlist does not expose is called by the name of its instance.

    Args:
        placed: Circuit of the netlist.
        process: Its process.

    Raises:
        CardError: The process has no golden files, or one of them is not valid.
    """
    ports = dict(placed.circuit.ports)
    exposed = set(ports.values())
    for terminal in _terminals(placed, process):
        if terminal.port not in exposed:
            ports[free_label(terminal.instance, ports)] = terminal.port
    return replace(placed.circuit, ports=ports)


def free_label(instance: str, used: Container[str]) -> str:
    """Return the label of a fibre coupler or pad that is called by its instance, and differs from labels in use."""
    label = instance
    while label in used:
        label += ".port"
    return label


def _terminals(placed: PlacedCircuit, process: Process) -> list[_Terminal]:
    """Return the fibre couplers and pads of a circuit."""
    circuit, size = placed.circuit, round(float(process.pads.size_um) * NM_PER_UM)
    # the first variant of a device is as its cell draws it
    fibres: dict[str, GoldenVariant] = {}
    for variant in read_golden(process):
        if variant.fibre is not None:
            fibres.setdefault(variant.name, variant)
    terminals: list[_Terminal] = []
    for number, (instance, kind) in enumerate(zip(circuit.instances, circuit.kind.tolist(), strict=True)):
        component, transform = circuit.kinds[kind], placed.transforms[number]
        first = int(circuit.offset[number])
        if component.name in fibres:
            variant = fibres[component.name]
            port = next(i for i, name in enumerate(component.optical) if name not in variant.port_edges)
            terminals.append(_Terminal(instance, first + port, _outline(variant.core[0], transform), "fibre"))
        elif component.name == PAD:
            square = kdb.Polygon(kdb.Box(size, size))
            terminals.append(_Terminal(instance, first, _outline(square, transform), "pad"))
    return terminals


def _outline(polygon: kdb.Polygon, transform: InstanceTransform | None) -> kdb.Polygon | None:
    """Return a polygon of a cell where its instance is placed, in nm; None if the placement is unknown."""
    if transform is None:
        return None
    at = (transform.x_um * NM_PER_UM, transform.y_um * NM_PER_UM)
    return polygon.transformed(kdb.ICplxTrans(1.0, transform.rotation_deg, transform.mirror, *map(round, at)))


def _movement(
    circuit: Circuit, terminals: Sequence[_Terminal], labels: Sequence[Label], couplers: Sequence[kdb.Box]
) -> InstanceTransform | None:
    """Return how a layout was moved, rotated by a multiple of 90° or mirrored as a whole; None if it was not.

    It was if not all fibre couplers are where the netlist places them, but are after a transform that puts every
    coupler and pad under the label of its name.
    """
    outlines = [(each, each.outline) for each in terminals if each.outline is not None]
    exposed = {port: label for label, port in circuit.ports.items()}
    drawn = {label.text: kdb.Point(label.x, label.y) for label in labels}
    named = [(exposed.get(each.port, each.instance), outline) for each, outline in outlines]
    pairs = [(outline, drawn[name]) for name, outline in named if name in drawn]
    fibres = [outline for each, outline in outlines if each.noun == "fibre"]
    middles = np.array([(box.center().x, box.center().y) for box in couplers], dtype=np.int64).reshape(-1, 2)

    def fits(move: kdb.Trans) -> bool:
        found = PolygonIndex([outline.transformed(move) for outline in fibres]).at(middles)
        return len(set(found.tolist()) - {NOT_FOUND}) == len(fibres)

    if not pairs or fits(kdb.Trans()):
        return None
    # one label does not tell how the layout is turned
    for code in range(1 if len(pairs) == 1 else 8):
        turn = kdb.Trans(code % 4, code >= 4, 0, 0)
        turned = [(outline.transformed(turn), point) for outline, point in pairs]
        shifts = [np.subtract((point.x, point.y), inner_point(outline)) for outline, point in turned]
        x, y = np.rint(np.median(shifts, axis=0)).astype(int).tolist()
        under = all(outline.moved(x, y).inside(point) for outline, point in turned)
        if under and fits(kdb.Trans(code % 4, code >= 4, x, y)):
            return InstanceTransform(x / NM_PER_UM, y / NM_PER_UM, 90.0 * (code % 4), code >= 4)
    return None


def _texts(terminals: Sequence[_Terminal], labels: Sequence[Label]) -> Mapping[str, list[Label]]:
    """Return the texts of the layout that lie on each terminal, by instance."""
    placed = [terminal for terminal in terminals if terminal.outline is not None]
    index = PolygonIndex(terminal.outline for terminal in placed if terminal.outline is not None)
    found: dict[str, list[Label]] = {}
    for label, number in zip(labels, index.at(label_positions(labels)).tolist(), strict=True):
        if number != NOT_FOUND:
            found.setdefault(placed[number].instance, []).append(label)
    return found


def _misnamed(
    circuit: Circuit, terminals: Sequence[_Terminal], texts: Mapping[str, Sequence[Label]]
) -> Iterator[Difference]:
    """Yield a difference for each text that lies on another terminal than the netlist's of this name.

    A terminal is called as the ports that expose it and as its instance. One that is not exposed may have a label that
    the netlist does not know.
    """
    exposed: dict[int, list[str]] = {}
    for name, number in circuit.ports.items():
        exposed.setdefault(number, []).append(name)
    names = {terminal.instance: [*exposed.get(terminal.port, ()), terminal.instance] for terminal in terminals}
    known = {name for each in names.values() for name in each}
    for terminal in terminals:
        own, found = names[terminal.instance], texts.get(terminal.instance, ())
        # the extraction reports several texts on one terminal
        if any(label.text in own for label in found):
            continue
        for label in found:
            if label.text in known or terminal.port in exposed:
                text = f"label {label.text!r} is on the {terminal.noun} that the netlist calls {own[0]!r}"
                port = circuit.port_name(terminal.port)
                yield Difference("label", text, port, label.text, label.position_um)


def extract_for(
    reference: Circuit | PlacedCircuit, gds_path: str | Path, process: Process
) -> tuple[BoundLabels, Extraction]:
    """Extract a layout with the labels that its netlist gives to fibre couplers and pads.

    Args:
        reference: Circuit of a netlist of this project, whose labels are in the layout; or a drawn circuit.

    Returns:
        The reference circuit with its labels, and the extraction of the layout with the same labels.

    Raises:
        GdsError: The layout cannot be used.
        CardError: The process has no golden files, or one of them is not valid.
    """
    if isinstance(reference, Circuit):
        return BoundLabels(reference), extract(gds_path, process)
    bound: list[BoundLabels] = []

    def more(labels: Sequence[Label], couplers: Sequence[kdb.Box]) -> Sequence[Label]:
        bound.append(bind_labels(reference, labels, process, couplers))
        return bound[-1].missing

    extraction = extract(gds_path, process, more)
    return bound[-1], extraction


def placed_positions(placed: PlacedCircuit, process: Process) -> Floats:
    """Return where the devices of a drawn circuit should be in its layout.

    Args:
        placed: Circuit of the netlist.
        process: Its process.

    Returns:
        (I, 2) middle of each device in µm, where extraction has its position; the origin of its cell for couplers of
        any gap and length. NaN if the netlist states no placement, or a relative one.

    Raises:
        CardError: The process has no golden files, or one of them is not valid.
    """
    # the first variant of a device is as its cell draws it
    middles = {variant.name: center_um(bounding_box(variant.core)) for variant in reversed(read_golden(process))}
    circuit = placed.circuit
    ends = 2 * NameTable(process).end_um(PHASE_SHIFTER, "contact_width_um")
    stated = circuit.settings.get("length_um", np.full(len(circuit.instances), np.nan))
    positions = np.full((len(circuit.instances), 2), np.nan)
    for i, (kind, transform) in enumerate(zip(circuit.kind.tolist(), placed.transforms, strict=True)):
        if transform is None:
            continue
        name = circuit.kinds[kind].name
        middle = middles.get(name, (0.0, 0.0))
        if name == PHASE_SHIFTER:
            length = process.device(name).size("length_um") if np.isnan(stated[i]) else float(stated[i])
            middle = ((length + ends) / 2, 0.0)
        positions[i] = transform.apply(*middle)
    return positions
