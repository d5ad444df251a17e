"""All-pass ring resonator at a gap of 200 nm between two grating couplers."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("ring_filter")
    ring = c.add_ref(gf.get_component("ring_single", radius=15.0, length_x=2.0, length_y=1.0), name="ring")
    for name, port, length in (("in", ring["o1"], 100.0), ("out", ring["o2"], 150.0)):
        guide = c.add_ref(gf.get_component("straight", length=length), name=f"guide_{name}")
        guide.connect("o1", port)
        coupler = c.add_ref(gf.get_component("grating_coupler"), name=name)
        coupler.connect("o1", guide["o2"])
        c.add_port(name, port=coupler["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("ring_filter.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("ring_filter.pic.yml"))
