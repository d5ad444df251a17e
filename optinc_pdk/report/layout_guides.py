"""Guides in the layout of the report's page: which polygon of silicon is part of which guide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.device_matching import devices_from_placements
from optinc_pdk.extract.metal_nets import inner_point
from optinc_pdk.extract.spatial_index import NOT_FOUND, PolygonIndex, region_polygons
from optinc_pdk.report.extracted_names import ExtractedNames
from optinc_pdk.report.layout_shapes import CellShapes, Ints, LayoutShapes

CORE = "core"
OUTSIDE_NM = 3.0
"""Distance from a port at which its guide is looked up, in nm; less than any guide's length."""


@dataclass(frozen=True, eq=False)
class LayoutGuides:
    """Guides between devices.

    Attributes:
        ends: The two ports of each guide, by the names of the netlist.
        length_um: Length of each guide in µm.
        loss_db: Propagation loss of each guide.
        owners: For each cell of the layout, (placements, polygons on the core layer) the number of the guide that a
            polygon is part of, -1 for polygons of devices.
    """

    ends: tuple[tuple[str, str], ...]
    length_um: tuple[float, ...]
    loss_db: tuple[float, ...]
    owners: tuple[Ints, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the guides as dicts and lists; lengths in µm with three decimals, losses with six."""
        return {
            "ends": [list(pair) for pair in self.ends],
            "length_um": [round(length, 3) for length in self.length_um],
            "loss_db": [round(loss, 6) for loss in self.loss_db],
            "owners": [owners.ravel().tolist() for owners in self.owners],
        }


def layout_guides(
    extraction: Extraction, names: ExtractedNames, shapes: LayoutShapes, process: Process
) -> LayoutGuides:
    """Find the polygons of each guide.

    Args:
        extraction: Result of the extraction of the layout.
        names: Names of its instances.
        shapes: Polygons of the same layout.
        process: Process.

    Raises:
        ValueError: The extraction was not made from a layout.
    """
    circuit = extraction.circuit
    pieces = PolygonIndex(_silicon_outside_devices(extraction))
    ports, outside = _port_places(extraction, names, process)
    at_port = np.full(int(circuit.offset[-1]), NOT_FOUND, dtype=np.int64)
    at_port[ports] = pieces.at(outside)
    drawn = [net for net in range(len(circuit.nets)) if circuit.net_length_um[net] > 0]
    number_of_piece = {int(at_port[port]): n for n, net in enumerate(drawn) for port in circuit.nets[net].tolist()}
    number_of_piece[NOT_FOUND] = UNCONNECTED
    points = [_inner_points(cell, shapes) for cell in shapes.cells]
    found = pieces.at(np.concatenate([np.zeros((0, 2), dtype=np.int64), *points])).tolist()
    numbers = np.array([number_of_piece.get(piece, UNCONNECTED) for piece in found], dtype=np.int64)
    parts = np.split(numbers, np.cumsum([len(part) for part in points])[:-1])
    owners = tuple(part.reshape(len(cell.placements), -1) for cell, part in zip(shapes.cells, parts, strict=True))
    length = tuple(float(circuit.net_length_um[net]) for net in drawn)
    per_um = float(process.guide.loss_db_per_cm) * 1e-4
    ends = tuple(_ends(circuit, names, net) for net in drawn)
    return LayoutGuides(ends, length, tuple(per_um * um for um in length), owners)


def _silicon_outside_devices(extraction: Extraction) -> list[kdb.Polygon]:
    """Return the silicon that is no part of a device: guides, each as one polygon."""
    wiring, couplers = extraction.heater_wiring, extraction.couplers
    if wiring is None or couplers is None:
        raise ValueError(f"{extraction.circuit.name}: this extraction has no layout; extract the layout with extract()")
    bodies = [polygon for placement in extraction.placements for polygon in placement.core]
    bodies += [kdb.Polygon(heater.guide) for heater in wiring.heaters]
    rest = wiring.mask.silicon() - kdb.Region([*bodies, *couplers.silicon])
    rest.min_coherence = True
    return sorted(region_polygons(rest.merged()))


def _port_places(extraction: Extraction, names: ExtractedNames, process: Process) -> tuple[Ints, Ints]:
    """Return (p,) the numbers of the ports to guides, and (p, 2) a point in nm just outside the device at each."""
    wiring, couplers = extraction.heater_wiring, extraction.couplers
    devices = [
        *devices_from_placements(extraction.placements, process),
        *(() if wiring is None else wiring.devices),
        *(() if couplers is None else couplers.devices),
    ]
    ports = [
        int(extraction.circuit.offset[names.instances[device.kind, *device.position_um]]) + local
        for device in devices
        for local in np.flatnonzero(device.guided).tolist()
    ]
    edges = [device.edges[np.array(device.guided, dtype=bool)] for device in devices]
    start, end = np.moveaxis(np.concatenate([np.zeros((0, 2, 2), dtype=np.int64), *edges]), 1, 0)
    # silicon of the device is to the right of the edge
    left = np.stack([start[:, 1] - end[:, 1], end[:, 0] - start[:, 0]], axis=1)
    step = OUTSIDE_NM * left / np.linalg.norm(left, axis=1, keepdims=True)
    return np.array(ports, dtype=np.int64), np.rint((start + end) / 2 + step).astype(np.int64)


def _inner_points(cell: CellShapes, shapes: LayoutShapes) -> Ints:
    """Return (placements · polygons, 2) a point in nm inside each polygon of silicon of a cell."""
    core = shapes.layers.index(CORE) if CORE in shapes.layers else None
    silicon = [polygon for layer, polygon in zip(cell.layers, cell.polygons, strict=True) if layer == core]
    inside = np.array([inner_point(polygon) for polygon in silicon], dtype=np.float64).reshape(-1, 2)
    matrix = np.array(shapes.matrices).reshape(-1, 2, 2)[cell.placements[:, 0]]
    placed = np.einsum("pij,sj->psi", matrix, inside) + cell.placements[:, None, 1:]
    points: Ints = np.rint(placed).astype(np.int64).reshape(-1, 2)
    return points


def _ends(circuit: Circuit, names: ExtractedNames, net: int) -> tuple[str, str]:
    """Return the two ports of a net as ``instance,port``, with the names of the netlist."""
    first, second = (_port(circuit, names, port) for port in circuit.nets[net].tolist())
    return first, second


def _port(circuit: Circuit, names: ExtractedNames, port: int) -> str:
    instance = int(np.searchsorted(circuit.offset, port, side="right")) - 1
    return f"{names.names[instance]},{circuit.port_name(port).rpartition(',')[2]}"
