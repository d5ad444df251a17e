"""Lattice filter: three 2×2 couplers in a row, with arms of different lengths between them."""

from itertools import pairwise
from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("lattice_filter")
    couplers = [c.add_ref(gf.get_component("mmi2x2"), name=f"coupler{i}").move((300.0 * i, 0.0)) for i in range(3)]
    guide = {"cross_section": "strip", "bend": "bend_circular", "start_straight_length": 3.0}
    for left, right in pairwise(couplers):
        for start, end, height in (("o3", "o2", 90.0), ("o4", "o1", -40.0)):
            middle = (c << gf.get_component("straight", length=100.0)).move((left["o3"].center[0] + 60.0, height))
            gf.routing.route_single(c, left[start], middle["o1"], **guide)
            gf.routing.route_single(c, right[end], middle["o2"], **guide)
    for name, number, port, far in (
        ("in", 0, "o2", (-150.0, 65.0)),
        ("unused", 0, "o1", (-150.0, -65.0)),
        ("bar", 2, "o3", (800.0, 65.0)),
        ("cross", 2, "o4", (800.0, -65.0)),
    ):
        end = c.add_ref(gf.get_component("terminator" if name == "unused" else "grating_coupler"), name=name)
        end.drotate(0 if number else 180).move(end["o1"].center, far)
        gf.routing.route_single(c, couplers[number][port], end["o1"], **guide)
        if name != "unused":
            c.add_port(name, port=end["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("lattice_filter.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("lattice_filter.pic.yml"))
