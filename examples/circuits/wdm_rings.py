"""Demultiplexer of four wavelengths: rings of different lengths between one guide and a drop guide each."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("wdm_rings")
    start = c.add_ref(gf.get_component("grating_coupler"), name="in").drotate(180)
    c.add_port("in", port=start["o2"])
    bus = start["o1"]
    for i in range(4):
        # each ring is 160 nm longer than the one before
        ring_cell = gf.get_component("ring_double", gap=0.2, length_x=2.0 + 0.08 * i, length_y=2.0)
        ring = c.add_ref(ring_cell, name=f"ring{i}")
        ahead = c.add_ref(gf.get_component("straight", length=130.0), name=f"bus{i}")
        ahead.connect("o1", bus)
        ring.connect("o1", ahead["o2"])
        bus = ring["o2"]
        c.add_ref(gf.get_component("terminator"), name=f"add{i}").connect("o1", ring["o4"])
        drop = c.add_ref(gf.get_component("grating_coupler"), name=f"drop{i}").drotate(90)
        drop.move(drop["o1"].center, (ring["o3"].center[0] - 60.0, 150.0))
        gf.routing.route_single(c, drop["o1"], ring["o3"], cross_section="strip", start_straight_length=3.0)
        c.add_port(f"drop{i}", port=drop["o2"])
    out = c.add_ref(gf.get_component("grating_coupler"), name="through")
    out.connect("o1", bus)
    c.add_port("through", port=out["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("wdm_rings.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("wdm_rings.pic.yml"))
