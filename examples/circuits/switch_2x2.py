"""2×2 switch: an interferometer of two couplers with a heater in one arm, and fibres 127 µm apart."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("switch_2x2")
    split, join = (c.add_ref(gf.get_component("mmi2x2"), name=name) for name in ("split", "join"))
    join.move((500.0, 0.0))
    heater = c.add_ref(gf.get_component("straight_heater_metal", length=150.0), name="heater")
    plain = c.add_ref(gf.get_component("straight", length=150.0), name="plain")
    guide = {"cross_section": "strip", "bend": "bend_circular", "start_straight_length": 3.0}
    for arm, y, start, end in ((heater, 80.0, "o3", "o2"), (plain, -80.0, "o4", "o1")):
        arm.move((190.0, y))
        gf.routing.route_single(c, split[start], arm["o1"], **guide)
        gf.routing.route_single(c, join[end], arm["o2"], **guide)
    for name, port, x in (("in1", "o1", -150.0), ("in2", "o2", -150.0), ("out1", "o4", 750.0), ("out2", "o3", 750.0)):
        fibre = c.add_ref(gf.get_component("grating_coupler"), name=name).drotate(180 if x < 0 else 0)
        fibre.move(fibre["o1"].center, (x, 63.5 if name.endswith("2") else -63.5))
        gf.routing.route_single(c, (split if x < 0 else join)[port], fibre["o1"], **guide)
        c.add_port(name, port=fibre["o2"])
    pads = [
        c.add_ref(gf.get_component("pad"), name=name).move((x, 300.0)) for name, x in (("drive", 100.0), ("GND", 430.0))
    ]
    ends, pads = [heater["e1"], heater["e2"]], [pad["e1"] for pad in pads]
    gf.routing.route_bundle_electrical(c, ends, pads, cross_section="metal_routing")
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("switch_2x2.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("switch_2x2.pic.yml"))
