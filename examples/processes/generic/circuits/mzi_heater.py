"""Mach-Zehnder interferometer of gdsfactory's generic PDK: a heater on one arm, a delay line on the other."""

from pathlib import Path

import gdsfactory as gf


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("mzi_heater")
    split, join = c << gf.get_component("mmi1x2"), c << gf.get_component("mmi1x2")
    join.mirror_x()
    join.movex(500.0)
    heater = c << gf.get_component("straight_heater_metal", length=200.0)
    heater.move((150.0, 100.0))
    gf.routing.route_single(c, split["o2"], heater["o1"], cross_section="strip")
    gf.routing.route_single(c, join["o2"], heater["o2"], cross_section="strip")
    delay = c << gf.get_component("straight", length=150.0)
    delay.move((150.0, -130.0))
    gf.routing.route_single(c, split["o3"], delay["o1"], cross_section="strip")
    gf.routing.route_single(c, join["o3"], delay["o2"], cross_section="strip")
    for name, port in (("in", split["o1"]), ("out", join["o1"])):
        coupler = c << gf.get_component("grating_coupler_elliptical")
        coupler.connect("o1", port)
        c.add_port(name, port=coupler["o2"])
    # pads are named by their instances
    for name, x, port in (("GND", 450.0, heater["r_e2"]), ("drive", 50.0, heater["l_e2"])):
        pad = c.add_ref(gf.get_component("pad"), name=name)
        pad.move((x, 300.0))
        gf.routing.route_bundle_electrical(c, [port], [pad["e4"]], cross_section="metal_routing")
    return c


if __name__ == "__main__":
    gf.gpdk.PDK.activate()
    drawn = circuit()
    drawn.write_gds("mzi_heater.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("mzi_heater.pic.yml"))
