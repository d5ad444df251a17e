"""Lattice filter: three 2×2 couplers in a row, with arms of different lengths between them."""

from itertools import pairwise
from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("lattice_filter")
    couplers = [c << gf.get_component("mmi2x2") for _ in range(3)]
    for i, coupler in enumerate(couplers):
        coupler.move((300.0 * i, 0.0))
    for left, right in pairwise(couplers):
        for upper, height in ((True, 90.0), (False, -40.0)):
            start, end = (left["o3"], right["o2"]) if upper else (left["o4"], right["o1"])
            middle = c << gf.get_component("straight", length=100.0)
            middle.move((start.center[0] + 60.0, height))
            gf.routing.route_single(c, start, middle["o1"], cross_section="strip")
            gf.routing.route_single(c, end, middle["o2"], cross_section="strip")
    ends = {"in": (0, "o2", 1), "unused": (0, "o1", -1), "bar": (2, "o3", 1), "cross": (2, "o4", -1)}
    for name, (number, port, up) in ends.items():
        # bends start 3 µm behind a coupler; from o1 to o2 they turn to the left, from o2 to o1 to the right
        guide = c << gf.get_component("straight", length=3.0)
        guide.connect("o1", couplers[number][port])
        near, far = ("o1", "o2") if up == (1 if number else -1) else ("o2", "o1")
        bend = c << gf.get_component("bend_circular")
        bend.connect(near, guide["o2"])
        away = c << gf.get_component("straight", length=60.0)
        away.connect("o1", bend[far])
        end = c << gf.get_component("terminator" if name == "unused" else "grating_coupler")
        end.connect("o1", away["o2"])
        if name != "unused":
            c.add_port(name, port=end["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("lattice_filter.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("lattice_filter.pic.yml"))
