"""Light paths from coupler to coupler."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.models import device_s, net_transmission
from optinc_pdk.simulate import analyse
from optinc_pdk.simulate.programming._light_paths import PathTracer

from .conftest import add_fibre, add_heater, builder


@pytest.fixture
def walker(process):
    """Two fibres through heaters into a combiner, and on into a coupler."""
    b = builder()
    b.add("tree", "mmi1x2")
    b.add("coupler", "mmi2x2")
    for branch, port in (("upper", "o2"), ("lower", "o3")):
        b.add(branch, "phase_shifter")
        add_heater(b, branch, branch)
        add_fibre(b, f"in_{branch}", f"{branch},o2")
        b.connect(f"{branch},o1", f"tree,{port}")
    b.connect("tree,o1", "coupler,o2")
    b.add("dark", "terminator")
    b.connect("coupler,o1", "dark,o1")
    add_fibre(b, "out_bar", "coupler,o3")
    add_fibre(b, "out_cross", "coupler,o4")
    circuit = b.build()
    lengths = np.arange(1.0, len(circuit.nets) + 1.0)
    return PathTracer(analyse(replace(circuit, net_length_um=lengths)), 1550.0, process)


def test_path_from_a_fibre_through_trim_and_combiner(walker, process):
    structure = walker.structure
    path = walker.enter(int(structure.label_port[structure.label_positions(["in_upper"])[0]]))
    assert walker.ends(path.port) == 4
    assert [structure.channel[h] for h in path.heaters] == ["upper"]
    expected = device_s(process, "grating_coupler", 1550.0)[0, 0, 1]
    expected *= device_s(process, "phase_shifter", 1550.0)[0, 0, 1]
    expected *= device_s(process, "mmi1x2", 1550.0)[0, 0, 1]
    lengths = {a: n for n, (a, _) in enumerate(structure.circuit.nets.tolist(), start=1)}
    names = {structure.circuit.port_name(a): n for a, n in lengths.items()}
    total = names["fibre_in_upper,o1"] + names["upper,o1"] + names["tree,o1"]
    assert path.transmission == pytest.approx(expected * net_transmission(process, total, 1550.0))


def test_both_branches_reach_one_coupler_and_leave_by_bar_and_cross(walker):
    structure = walker.structure
    paths = [
        walker.enter(int(structure.label_port[structure.label_positions([f])[0]])) for f in ("in_upper", "in_lower")
    ]
    assert paths[0].port == paths[1].port
    for step, label in ((walker.bar, "out_bar"), (walker.cross, "out_cross")):
        end = walker.follow(step(paths[0].port))
        assert end.port == structure.label_port[structure.label_positions([label])[0]]
    assert walker.bar(walker.bar(paths[0].port)) == paths[0].port


def test_a_path_ends_at_a_splitters_root(walker):
    structure = walker.structure
    coupler = walker.enter(int(structure.label_port[structure.label_positions(["in_upper"])[0]])).port
    assert walker.ends(walker.follow(coupler).port) == 3
