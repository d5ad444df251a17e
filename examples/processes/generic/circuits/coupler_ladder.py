"""Lattice filter of gdsfactory's generic PDK: four couplers in a row, with a delay between each two."""

from itertools import pairwise
from pathlib import Path

import gdsfactory as gf

PITCH = 200.0


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("coupler_ladder")
    couplers = [c << gf.get_component("coupler") for _ in range(4)]
    for number, coupler in enumerate(couplers):
        coupler.movex(PITCH * number)
    for left, right in pairwise(couplers):
        lower = c << gf.get_component("straight", length=PITCH - 40.0)
        lower.connect("o1", left["o4"])
        upper = c << gf.get_component("straight", length=60.0)
        upper.move((left["o3"].center[0] + 50.0, 80.0))
        gf.routing.route_single(c, left["o3"], upper["o1"], cross_section="strip")
        gf.routing.route_single(c, right["o2"], upper["o2"], cross_section="strip")
    ends = {
        "in": couplers[0]["o1"],
        "unused": couplers[0]["o2"],
        "through": couplers[-1]["o4"],
        "cross": couplers[-1]["o3"],
    }
    for name, port in ends.items():
        grating = c << gf.get_component("grating_coupler_elliptical")
        at_left, up = name in ("in", "unused"), name in ("unused", "cross")
        if at_left:
            grating.mirror_x()
        grating.move((-150.0 if at_left else 780.0, 40.0 if up else -40.0))
        gf.routing.route_single(c, port, grating["o1"], cross_section="strip")
        c.add_port(name, port=grating["o2"])
    return c


if __name__ == "__main__":
    gf.gpdk.PDK.activate()
    drawn = circuit()
    drawn.write_gds("coupler_ladder.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("coupler_ladder.pic.yml"))
