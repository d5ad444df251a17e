"""Pinout of a chip: every pad, bump and fibre of the written layout, with what it connects to and what drives it.

Places, labels and connections are those of the extraction. The netlist contributes the names of devices and, through
its board, what fibres and electrical channels are for; the bias contributes channels, voltages and currents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Bias, Board, Circuit, flatten
from optinc_pdk.circuit.board import label_tuple
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.device_recognition import FibreCoupler
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.metal_nets import BUMP, PAD, is_ground
from optinc_pdk.extract.phase_shifters import HeaterWiring
from optinc_pdk.extract.polygons import NOT_FOUND, PolygonIndex, region_polygons
from optinc_pdk.io.writing import csv_text
from optinc_pdk.signoff.electrical.electrical_check import Currents
from optinc_pdk.signoff.lvs.comparison import LvsResult

FIBRE = "fibre"
EDGES = ("left", "bottom", "right", "top")
"""Edges of a die, counter-clockwise."""


@dataclass(frozen=True)
class Pin:
    """A pad, bump or fibre. The fields are the columns of the CSV file, in this order.

    Attributes:
        kind: ``pad``, ``bump`` or ``fibre``.
        number: Number among the pins of its kind, from 1, counter-clockwise around each die.
        die: Number of the die, from 1, from left to right; None outside all dies.
        label: Label in the layout; empty for a bump or coupler without one.
        x_um: x in µm: centre of a pad or bump, place where the fibre meets a grating, or facet on the die's edge.
        y_um: y in µm, likewise.
        edge: ``left``, ``bottom``, ``right`` or ``top``: the nearest edge of the die for a pad, the edge to which its
            light leaves for a fibre; empty for a bump, and for a pad outside all dies.
        array: Number of the fibre's array on the die, from 1; None for pads and bumps.
        channel: From 0: number of a heater in the bias file, number of a photodiode's or modulator's pad in the board
            netlist, place of a fibre in its array. None if there is none.
        function: ``heater``, ``photodiode``, ``modulator`` or ``ground`` for pads and bumps; for fibres ``carrier``,
            ``oscillator``, ``supply``, ``monitor``, ``input``, ``output``, ``detector`` or ``modulator``. Empty if
            neither layout nor board state one.
        signal: Which of them, from the board netlist: ``s0_m1`` for server 0 and symbol 1 of an input or output, labels
            of neurons for modulators and, with sign, for detectors and photodiodes, a number from 0 for supplies,
            monitors, oscillators, and carriers of modulators. Empty if there is none.
        net: Name of the electrical net: the first label on its metal. Empty for fibres, and for metal without label.
        connects_to: Instances of the netlist on the net, or at the other end of the coupler's guide, separated by
            spaces. A device without counterpart in the netlist has its name in the extraction. Empty for grounds.
        voltage_v: Voltage at the bias; 0 for grounds.
        current_ma: Current at the bias, for a ground that of all its pads and bumps together.
        voltage_max_v: Voltage of the highest DAC code.
        current_max_ma: Current at this voltage, for a ground as above.
    """

    kind: str
    number: int
    die: int | None
    label: str
    x_um: float
    y_um: float
    edge: str
    array: int | None = None
    channel: int | None = None
    function: str = ""
    signal: str = ""
    net: str = ""
    connects_to: tuple[str, ...] = ()
    voltage_v: float | None = None
    current_ma: float | None = None
    voltage_max_v: float | None = None
    current_max_ma: float | None = None


@dataclass(frozen=True)
class Pinout:
    """Pinout of a chip.

    Attributes:
        name: Name of the chip.
        dies: Outline (left, bottom, right, top) of each die in µm.
        pins: Pads, bumps and fibres, die by die.
    """

    name: str
    dies: tuple[tuple[float, float, float, float], ...]
    pins: tuple[Pin, ...]

    def to_csv(self) -> str:
        """Return the pinout as CSV: a line with the names of the columns, then a line for each pin."""
        names = [field.name for field in fields(Pin)]
        return csv_text(names, ([_cell(getattr(pin, name)) for name in names] for pin in self.pins))


def _cell(value: object) -> str:
    """Return a value as text of a CSV cell: nothing for None, and at most three decimals, which are nm, mV and µA."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " ".join(value)
    # + 0.0, so that no value is written as -0.000
    return f"{round(value, 3) + 0.0:.3f}" if isinstance(value, float) else str(value)


class BoardFunction(NamedTuple):
    """What a label is for.

    Attributes:
        function: ``carrier``, ``oscillator``, ``supply``, ``monitor``, ``input``, ``output``, ``detector`` or
            ``modulator``.
        signal: Which of them: ``s0_m1`` for server 0 and symbol 1; labels of neurons, for detectors with their sign,
            separated by spaces; or a number from 0. Empty for the carrier.
        number: Place among all detectors or all modulators of the board, from 0; None for other functions.
    """

    function: str
    signal: str
    number: int | None = None


def board_functions(board: Board) -> dict[str, BoardFunction]:
    """Return what each label of a board netlist is for."""
    functions = {board.carrier: BoardFunction("carrier", "")}
    rows = (("carrier", board.carriers), ("oscillator", board.oscillators), ("supply", board.supplies))
    for function, labels in (*rows, ("monitor", board.monitors)):
        functions |= {label: BoardFunction(function, str(i)) for i, label in enumerate(labels)}
    for function, servers in (("input", board.inputs), ("output", board.outputs)):
        for s, symbols in enumerate(servers):
            functions |= {label: BoardFunction(function, f"s{s}_m{m}") for m, label in enumerate(symbols)}
    for function, pairs in (("detector", _detectors(board)), ("modulator", _modulators(board))):
        signals: dict[str, list[str]] = {}
        for label, signal in pairs:
            signals.setdefault(label, []).append(signal)
        for i, (label, names) in enumerate(signals.items()):
            functions[label] = BoardFunction(function, " ".join(names), i)
    return functions


def _detectors(board: Board) -> Iterator[tuple[str, str]]:
    """Yield the label of each detector with the label and sign of a neuron that reads it."""
    for neuron in board.neurons:
        for plus, minus in zip(label_tuple(neuron.plus), label_tuple(neuron.minus), strict=True):
            yield plus, f"{neuron.label}+"
            yield minus, f"{neuron.label}-"


def _modulators(board: Board) -> Iterator[tuple[str, str]]:
    """Yield the label of each modulator with that of the neuron that drives it."""
    for neuron in board.neurons:
        for label in label_tuple(neuron.to):
            yield label, neuron.label


@dataclass(frozen=True)
class ExtractedNames:
    """The extracted circuit, and the names of its instances in the netlist.

    Attributes:
        circuit: Extracted circuit.
        names: Name of each instance in the netlist; in the extraction for one without counterpart.
    """

    circuit: Circuit
    names: Sequence[str]

    @staticmethod
    def of(extraction: Extraction, reference: Circuit, lvs: LvsResult) -> ExtractedNames:
        """Return the names that the comparison of an extraction with a netlist gives."""
        names = list(extraction.circuit.instances)
        for name, device in zip(flatten(reference).instances, lvs.device_map.tolist(), strict=True):
            if device != UNCONNECTED:
                names[device] = name
        return ExtractedNames(extraction.circuit, names)

    @cached_property
    def instances(self) -> Mapping[tuple[str, float, float], int]:
        """Number of each instance of the extracted circuit, by device name, x and y in µm."""
        kinds = [self.circuit.kinds[kind].name for kind in self.circuit.kind.tolist()]
        places = self.circuit.position_um.tolist()
        return {(kind, x, y): i for i, (kind, (x, y)) in enumerate(zip(kinds, places, strict=True))}

    @cached_property
    def _net_members(self) -> Mapping[int, list[int]]:
        """Instances other than pads by number of electrical net."""
        owner = np.repeat(np.arange(len(self.circuit.instances)), np.diff(self.circuit.offset))
        members: dict[int, list[int]] = {}
        for port in np.flatnonzero(self.circuit.electrical != UNCONNECTED).tolist():
            if self.kind(int(owner[port])) != PAD:
                members.setdefault(int(self.circuit.electrical[port]), []).append(int(owner[port]))
        return members

    @cached_property
    def _partners(self) -> list[int]:
        partners: list[int] = self.circuit.partners().tolist()
        return partners

    def kind(self, instance: int) -> str:
        """Return the device name of an instance."""
        return self.circuit.kinds[int(self.circuit.kind[instance])].name

    def at_pad(self, position_um: tuple[float, float]) -> list[int]:
        """Return the devices on the net of a pad."""
        port = int(self.circuit.offset[self.instances[PAD, *position_um]])
        return self._net_members.get(int(self.circuit.electrical[port]), [])

    def at_coupler(self, coupler: FibreCoupler) -> list[int]:
        """Return the devices at the other ends of a coupler's guides."""
        instance = self.instances[coupler.kind, *coupler.position_um]
        ports = range(*self.circuit.offset[instance : instance + 2].tolist())
        ends = [self._partners[port] for port in ports if self._partners[port] != UNCONNECTED]
        return [int(np.searchsorted(self.circuit.offset, end, side="right")) - 1 for end in ends]


DEVICE_FUNCTIONS = {"phase_shifter": "heater", "photodiode": "photodiode", "modulator": "modulator"}
"""What a pad is for, by the device that it connects to."""
ARRAY_GAP = 1.5
"""Fibres farther apart than this many fibre pitches of the process are in different arrays."""
_EDGE_COUPLER = "edge_coupler"


def read_pinout(
    extraction: Extraction,
    reference: Circuit,
    lvs: LvsResult,
    process: Process,
    bias: Bias | None = None,
    currents: Currents | None = None,
) -> Pinout:
    """Return the pinout of an extracted layout.

    The reference is the netlist of the chip, with its board; bias and currents are None if there are none.

    Raises:
        ValueError: The extraction was not made from a layout.
    """
    _wiring_of(extraction)
    names = ExtractedNames.of(extraction, reference, lvs)
    return pinout_of(extraction, names, reference.name, process, reference.board, bias, currents)


def pinout_of(
    extraction: Extraction,
    names: ExtractedNames,
    name: str,
    process: Process,
    board: Board | None = None,
    bias: Bias | None = None,
    currents: Currents | None = None,
) -> Pinout:
    """Return the pinout of an extracted layout of a name, which may have no netlist and so no board; see `read_pinout`.

    Raises:
        ValueError: The extraction was not made from a layout.
    """
    wiring = _wiring_of(extraction)
    outlines = wiring.mask.region("outline").merged()
    dies = sorted((shape.bbox() for shape in region_polygons(outlines)), key=lambda box: (box.left, box.bottom))
    pads = _electrical_pins(wiring, names, dies, process, currents)
    fibres = [_fibre_pin(coupler, names, dies, process) for coupler in extraction.fibres]
    pins = _with_board(_numbered(pads, fibres, process), board, bias)
    boxes = [tuple(value / NM_PER_UM for value in (b.left, b.bottom, b.right, b.top)) for b in dies]
    return Pinout(name, tuple((left, bottom, right, top) for left, bottom, right, top in boxes), pins)


def _wiring_of(extraction: Extraction) -> HeaterWiring:
    if extraction.heater_wiring is None:
        raise ValueError(f"{extraction.circuit.name}: this extraction has no metal; extract the layout with extract()")
    return extraction.heater_wiring


def _electrical_pins(
    wiring: HeaterWiring, names: ExtractedNames, dies: Sequence[kdb.Box], process: Process, currents: Currents | None
) -> list[Pin]:
    """Return the labelled pads and all bumps, without numbers."""
    of_net = _net_pins(wiring, names, process, currents)
    bumps = [] if BUMP not in wiring.mask.layers else region_polygons(wiring.mask.region(BUMP).merged())
    places = np.array([(round(x), round(y)) for x, y in (pad.center for pad in wiring.pads)], dtype=np.int64)
    opening = PolygonIndex(bumps).at(places.reshape(-1, 2)).tolist()
    pins = [
        replace(
            _placed(PAD if at == NOT_FOUND else BUMP, pad.device.position_um, dies), label=pad.label, **of_net[pad.net]
        )
        for pad, at in zip(wiring.pads, opening, strict=True)
    ]
    with_pads = set(opening)
    rest = [bump.bbox().center() for i, bump in enumerate(bumps) if i not in with_pads]
    nets = wiring.metal.nets_at(np.array([(at.x, at.y) for at in rest], dtype=np.int64).reshape(-1, 2)).tolist()
    for at, net in zip(rest, nets, strict=True):
        pins.append(replace(_placed(BUMP, (at.x / NM_PER_UM, at.y / NM_PER_UM), dies), **of_net.get(net, {})))
    return pins


def _net_pins(
    wiring: HeaterWiring, names: ExtractedNames, process: Process, currents: Currents | None
) -> dict[int, dict[str, Any]]:
    """Return what all pins of a labelled metal net have in common, by number of the net."""
    driven, grounded = defaultdict(list), defaultdict(list)
    for heater, (signal, sink) in enumerate(wiring.ends):
        driven[signal].append(heater)
        grounded[sink].append(heater)
    ohm = [device.settings["resistance_ohm"] + np.nan_to_num(device.settings["wire_ohm"]) for device in wiring.devices]
    full = float(process.drive.full_scale_v)
    most = full / np.array(ohm, dtype=np.float64)
    common: dict[int, dict[str, Any]] = {}
    for pad in sorted(wiring.pads, key=lambda pad: pad.label):
        if pad.net in common:
            continue
        devices, ground = names.at_pad(pad.device.position_um), is_ground(pad.label)
        functions = dict.fromkeys(DEVICE_FUNCTIONS.get(names.kind(device), "") for device in devices)
        shared: dict[str, Any] = {
            "net": pad.label,
            "function": "ground" if ground else " ".join(functions),
            "connects_to": () if ground else tuple(sorted(names.names[device] for device in devices)),
        }
        common[pad.net] = shared
        heaters = (grounded if ground else driven).get(pad.net)
        if not heaters:
            continue
        shared |= {"voltage_max_v": 0.0 if ground else full, "current_max_ma": 1e3 * float(most[heaters].sum())}
        if currents is not None:
            shared["voltage_v"] = 0.0 if ground else float(currents.voltage_v[heaters[0]])
            shared["current_ma"] = 1e3 * float(currents.current_a[heaters].sum())
    return common


def _fibre_pin(coupler: FibreCoupler, names: ExtractedNames, dies: Sequence[kdb.Box], process: Process) -> Pin:
    """Return the pin of a fibre coupler, without number and function."""
    x, y = coupler.fibre_um
    pin = _placed(FIBRE, (x, y), dies)
    edge = {0: "right", 90: "top", 180: "left", 270: "bottom"}.get(coupler.angle_deg, "")
    if pin.die is not None and edge and process.device(coupler.kind).model.name == _EDGE_COUPLER:
        side = getattr(dies[pin.die - 1], edge) / NM_PER_UM
        x, y = (side, y) if edge in ("left", "right") else (x, side)
    to = tuple(sorted(names.names[device] for device in names.at_coupler(coupler)))
    return replace(pin, label=coupler.label, x_um=x, y_um=y, edge=edge, connects_to=to)


def _placed(kind: str, position_um: tuple[float, float], dies: Sequence[kdb.Box]) -> Pin:
    """Return a pin with its place, and for a pad the edge of the die that is nearest."""
    x, y = position_um
    at = kdb.Point(round(x * NM_PER_UM), round(y * NM_PER_UM))
    die = next((i for i, box in enumerate(dies) if box.contains(at)), None)
    edge = ""
    if die is not None and kind == PAD:
        box = dies[die]
        distances = at.x - box.left, at.y - box.bottom, box.right - at.x, box.top - at.y
        edge = EDGES[distances.index(min(distances))]
    return Pin(kind, 0, None if die is None else die + 1, "", x, y, edge)


def _around(pin: Pin) -> tuple[float, ...]:
    """Return where a pin comes counter-clockwise around its die, from the upper left corner; bumps come by rows."""
    if not pin.edge:
        return (len(EDGES), -pin.y_um, pin.x_um)
    along = {"left": -pin.y_um, "bottom": pin.x_um, "right": pin.y_um, "top": -pin.x_um}[pin.edge]
    return (EDGES.index(pin.edge), along, pin.x_um, pin.y_um)


def _column(pin: Pin) -> tuple[int, int, float]:
    """Return edge and line of a fibre: fibres of an array have the same."""
    die = 0 if pin.die is None else pin.die
    line = pin.x_um if pin.edge in ("left", "right") else pin.y_um
    return (die, (*EDGES, "").index(pin.edge), round(line, 3))


def _numbered(pads: Sequence[Pin], fibres: Sequence[Pin], process: Process) -> list[Pin]:
    """Sort pins, number those of each kind, and find the arrays of fibres."""
    ordered = sorted(pads, key=lambda pin: (pin.die is None, pin.die or 0, pin.kind != PAD, _around(pin), pin.label))
    gap = ARRAY_GAP * float(process.floorplan.fibre_pitch_um)
    arrays: dict[int, int] = {}
    for (die, *_), line in groupby(sorted(fibres, key=lambda pin: (*_column(pin), _around(pin))), _column):
        last: Pin | None = None
        place = 0
        for pin in line:
            if last is None or abs(_around(pin)[1] - _around(last)[1]) > gap:
                arrays[die] = arrays.get(die, 0) + 1
                place = 0
            ordered.append(replace(pin, array=arrays[die], channel=place))
            last, place = pin, place + 1
    ordered.sort(key=lambda pin: (pin.die is None, pin.die or 0))
    count: dict[str, int] = {}
    for i, pin in enumerate(ordered):
        count[pin.kind] = count.get(pin.kind, 0) + 1
        ordered[i] = replace(pin, number=count[pin.kind])
    return ordered


def _with_board(pins: Iterable[Pin], board: Board | None, bias: Bias | None) -> tuple[Pin, ...]:
    """Add what the board netlist and the bias state about labels."""
    channels = {} if bias is None else {label: i for i, label in enumerate(bias.labels)}
    stated = {} if board is None else board_functions(board)
    joined: list[Pin] = []
    for pin in pins:
        function, signal, number = stated.get(pin.label, ("", "", None))
        if pin.kind == FIBRE:
            joined.append(replace(pin, function=function, signal=signal))
        elif pin.label in channels:
            joined.append(replace(pin, channel=channels[pin.label]))
        else:
            joined.append(replace(pin, signal=signal, channel=number))
    return tuple(joined)
