"""Lattice filter: three 2×2 couplers in a row with arms that differ by 100 µm, and terminators at unused ports."""

from itertools import pairwise
from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op

DELAY_UM = 100.0


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("lattice_filter")
    couplers = [c << gf.get_component("mmi2x2") for _ in range(3)]
    for i, coupler in enumerate(couplers):
        coupler.move((300.0 * i, 0.0))
    for left, right in pairwise(couplers):
        for upper, height in ((True, 40.0 + DELAY_UM / 2), (False, -40.0)):
            start, end = (left["o3"], right["o2"]) if upper else (left["o4"], right["o1"])
            middle = c << gf.get_component("straight", length=100.0)
            middle.move((start.center[0] + 60.0, height))
            gf.routing.route_single(c, start, middle["o1"], cross_section="strip")
            gf.routing.route_single(c, end, middle["o2"], cross_section="strip")
    fibres = {"in": couplers[0]["o2"], "bar": couplers[2]["o3"], "cross": couplers[2]["o4"]}
    for name, port in fibres.items():
        turn = c << gf.get_component("bend_s", size=(20.0, {"in": -25.0, "bar": 70.0, "cross": -70.0}[name]))
        turn.connect("o1", port)
        coupler = c << gf.get_component("grating_coupler")
        coupler.connect("o1", turn["o2"])
        c.add_port(name, port=coupler["o2"])
    away = c << gf.get_component("bend_s", size=(20.0, 25.0))
    away.connect("o1", couplers[0]["o1"])
    (c << gf.get_component("terminator")).connect("o1", away["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("lattice_filter.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("lattice_filter.pic.yml"))
