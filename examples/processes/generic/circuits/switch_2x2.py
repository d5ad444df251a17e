"""2×2 switch of gdsfactory's generic PDK: two 2×2 couplers, a heater on each arm."""

from pathlib import Path

import gdsfactory as gf


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("switch_2x2")
    left, right = c << gf.get_component("mmi2x2"), c << gf.get_component("mmi2x2")
    right.movex(600.0)
    ground = c.add_ref(gf.get_component("pad"), name="GND")
    ground.move((440.0, 0.0))
    for name, height, near, far in (("upper", 150.0, "o3", "o2"), ("lower", -150.0, "o4", "o1")):
        heater = c << gf.get_component("straight_heater_metal", length=250.0)
        heater.move((120.0, height))
        gf.routing.route_single(c, left[near], heater["o1"], cross_section="strip")
        gf.routing.route_single(c, right[far], heater["o2"], cross_section="strip")
        up = name == "upper"
        pad = c.add_ref(gf.get_component("pad"), name=name)
        pad.move((50.0, 2.0 * height))
        side, facing = ("l_e2", "e4") if up else ("l_e4", "e2")
        gf.routing.route_bundle_electrical(c, [heater[side]], [pad[facing]], cross_section="metal_routing")
        side, facing = ("r_e4", "e2") if up else ("r_e2", "e4")
        gf.routing.route_bundle_electrical(c, [heater[side]], [ground[facing]], cross_section="metal_routing")
    for number, (port, y) in enumerate(((left["o2"], 1), (left["o1"], -1), (right["o3"], 1), (right["o4"], -1))):
        coupler = c << gf.get_component("grating_coupler_elliptical")
        if number < 2:
            coupler.mirror_x()
        coupler.move((-200.0 if number < 2 else 800.0, 60.0 * y))
        gf.routing.route_single(c, port, coupler["o1"], cross_section="strip")
        c.add_port(("in1", "in2", "out1", "out2")[number], port=coupler["o2"])
    return c


if __name__ == "__main__":
    gf.gpdk.PDK.activate()
    drawn = circuit()
    drawn.write_gds("switch_2x2.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("switch_2x2.pic.yml"))
