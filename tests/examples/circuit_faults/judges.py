"""What each check says about a layout: design rules, LVS, simulation, KLayout's comparer, and LVS by ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import kfactory as kf
import klayout.db as kdb
import networkx as nx
import numpy as np

from circuit_faults.layouts import PROCESS, Drawn
from optinc_pdk.signoff.lvs.comparison import LvsResult
from optinc_pdk.signoff.lvs.klayout_comparer import ComparerResult, compare_with_klayout
from optinc_pdk.signoff.verification import Verification, verify

WAVELENGTHS = np.array([1545.0, 1550.0, 1555.0])
NUMBERS = count()
"""Numbers of layouts in kfactory's database."""
CONNECTIONS = frozenset({"device", "net", "label", "short", "open", "heater", "pin"})
"""Kinds of differences of LVS that KLayout's comparer can find too."""
CHANGE = 0.01
"""Change of an S-parameter that a designer notices."""


@dataclass(frozen=True)
class Verdict:
    """What each check says about a layout.

    Attributes:
        checked: Design rules, LVS and simulation.
        comparer: KLayout's netlist comparer on the circuit of the netlist and the extracted one.
        same_by_ports: Whether the netlist that kfactory makes from ports equals that of the good layout.
    """

    checked: Verification
    comparer: ComparerResult
    same_by_ports: bool

    def simulation_differs(self, good: Verification) -> bool:
        """Whether the circuit cannot be simulated, or its S-parameters are not those of the good one."""
        ours, expected = self.checked.scattering, good.scattering
        assert expected is not None
        if ours is None or ours.labels != expected.labels:
            return True
        return bool(np.abs(ours.s - expected.s).max() > CHANGE)


def connects_differently(lvs: LvsResult) -> bool:
    """Whether LVS found devices, connections or labels that differ, besides dimensions and shapes of no device."""
    return any(each.kind in CONNECTIONS for each in lvs.differences)


def places_um(verdict: Verdict) -> list[tuple[float, float]]:
    """Return the places of the findings of design rules and LVS."""
    lvs, drc = verdict.checked.lvs, verdict.checked.drc
    assert lvs is not None
    boxes = [box for rule in drc.rules if rule.rule.severity == "error" for box in rule.boxes_um.tolist()]
    middles = [((left + right) / 2, (bottom + top) / 2) for left, bottom, right, top in boxes]
    return [each.position_um for each in lvs.differences if each.position_um is not None] + middles


def judge(gds: Path, drawn: Drawn) -> Verdict:
    """Check a layout against the netlist of the circuit as drawn."""
    checked = verify(gds, drawn.reference, {}, WAVELENGTHS, PROCESS, lambda _: None)
    assert checked.drawn.reference is not None
    assert checked.lvs is not None
    comparer = compare_with_klayout(checked.drawn.reference, checked.drawn.extraction.circuit, PROCESS, checked.lvs)
    return Verdict(checked, comparer, same_by_ports(drawn.gds, gds))


def same_by_ports(one: Path, other: Path) -> bool:
    """Compare two layouts by the netlists that kfactory makes of instances, their settings and their ports.

    Optical nets are ports that meet. Electrical nets are metal that touches: kfactory extracts it with KLayout. A copy
    of a cell, which an edit in one place makes, is compared with the cell of its name.
    """
    expected, found = (_netlists(path) for path in (one, other))
    # cells that the good layout lacks are used by an instance with other settings
    pairs = [
        (expected[name.partition("$")[0]], graph) for name, graph in found.items() if name.partition("$")[0] in expected
    ]
    return all(nx.is_isomorphic(*pair, node_match=_equal, edge_match=_equal) for pair in pairs)


def _equal(one: Mapping[object, object], other: Mapping[object, object]) -> bool:
    """Compare the attributes of two nodes, or of all edges between two nodes."""
    return dict(one) == dict(other)


def _netlists(path: Path) -> dict[str, nx.MultiGraph[str]]:
    """Return the netlist of every cell of a layout as a graph of instances, nets and ports."""
    layout = kf.KCLayout(f"{path.stem}_{next(NUMBERS)}")
    layout.read(path)
    metal = kdb.LayerInfo(*PROCESS.gds_layers[PROCESS.metal.layer])
    top = layout[layout.layout.top_cell().name]
    graphs: dict[str, nx.MultiGraph[str]] = {}
    for name, netlist in top.netlist(connectivity=[(metal,)], equivalent_ports={}).items():
        graph = graphs[name] = nx.MultiGraph()
        for instance, what in netlist.instances.items():
            graph.add_node(f"instance {instance}", kind=(what.component, str(sorted(what.settings.items()))))
        for number, net in enumerate(netlist.nets):
            graph.add_node(f"net {number}", kind="net")
            # kfactory 3 has nets that are sequences
            for end in getattr(net, "root", net):
                if hasattr(end, "instance"):
                    graph.add_edge(f"instance {end.instance}", f"net {number}", port=end.port)
                else:
                    graph.add_node(f"port {end.name}", kind=("port", end.name))
                    graph.add_edge(f"port {end.name}", f"net {number}", port="")
    layout.delete()
    return graphs
