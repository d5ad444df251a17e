"""Interferometer at an array of grating couplers; the outer two are a loop-back that aligns a fibre array."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("grating_array")
    # a bend needs 3 µm of straight guide before a grating; the loop-back is a guide between the outer two gratings
    fibre = gf.components.extend_ports("grating_coupler", port_names=("o1",), length=3.0, cross_section="strip")
    array = gf.routing.add_fiber_array(
        gf.get_component("mzi", delta_length=40.0),
        grating_coupler=fibre,
        cross_section="strip",
        bend="bend_circular",
        with_loopback=True,
    )
    c.add_ports(c.add_ref(array, name="array").ports)
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("grating_array.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("grating_array.pic.yml"))
