"""Pinout of a chip: every pad, bump and fibre of the written layout, with what it connects to and what drives it.

Places, labels and connections are those of the extraction. The netlist contributes the names of devices and, through
its board, what fibres and electrical channels are for; the bias contributes channels, voltages and currents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.device_matching import FibreCoupler
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.metal_nets import BUMP, PAD, is_ground
from optinc_pdk.extract.phase_shifters import HeaterWiring
from optinc_pdk.extract.polygons import NOT_FOUND, PolygonIndex, region_polygons
from optinc_pdk.report.extracted_names import ExtractedNames
from optinc_pdk.report.pin_functions import board_functions
from optinc_pdk.report.pins import EDGES, FIBRE, Pin, Pinout
from optinc_pdk.signoff.electrical.electrical_check import Currents
from optinc_pdk.signoff.lvs.comparison import LvsResult

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

    Args:
        extraction: Result of the extraction.
        reference: Netlist of the chip, with its board.
        lvs: Comparison of the two.
        process: Process.
        bias: Bias; None if there is none.
        currents: Voltages and currents at the bias; None if they are not known.

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
    """Return the pinout of an extracted layout that may have no netlist.

    Args:
        extraction: Result of the extraction.
        names: Names of its instances.
        name: Name of the chip.
        process: Process.
        board: Board of the netlist; None if there is none.
        bias: Bias; None if there is none.
        currents: Voltages and currents at the bias; None if they are not known.

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
