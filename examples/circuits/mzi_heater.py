"""Mach-Zehnder interferometer with 100 µm between its arms and a heater on one of them, wired to two pads."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("mzi_heater")
    split, join = (c.add_ref(gf.get_component("mmi1x2"), name=name) for name in ("split", "join"))
    join.dcplx_trans = gf.kdb.DCplxTrans(1.0, 180.0, True, 450.0, 0.0)
    heater = c.add_ref(gf.get_component("straight_heater_metal", length=150.0), name="heater")
    heater.move((170.0, 80.0))
    gf.routing.route_single(c, split["o2"], heater["o1"], cross_section="strip")
    gf.routing.route_single(c, join["o2"], heater["o2"], cross_section="strip")
    delay = c.add_ref(gf.get_component("straight", length=174.0), name="delay")
    delay.move((170.0, -130.0))
    gf.routing.route_single(c, split["o3"], delay["o1"], cross_section="strip")
    gf.routing.route_single(c, join["o3"], delay["o2"], cross_section="strip")
    for name, port in (("in", split["o1"]), ("out", join["o1"])):
        coupler = c.add_ref(gf.get_component("grating_coupler"), name=name)
        coupler.connect("o1", port)
        c.add_port(name, port=coupler["o2"])
    # pads are named by their instances
    for name, x, port in (("GND", 470.0, heater["e2"]), ("drive", 20.0, heater["e1"])):
        pad = c.add_ref(gf.get_component("pad"), name=name)
        pad.move((x, 300.0))
        gf.routing.route_bundle_electrical(c, [port], [pad["e1"]], cross_section="wire")
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("mzi_heater.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("mzi_heater.pic.yml"))
