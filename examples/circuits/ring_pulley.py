"""Ring resonator with a pulley coupler: the guide between two fibres follows the ring for 28 degrees."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("ring_pulley")
    # at 29 degrees, light in guide and ring is out of phase by half a period, and a longer pulley couples less
    cell = gf.get_component(
        "ring_single_bend_coupler", gap=0.21, radius=20.0, coupling_angle_coverage=28.0, length_x=0.0
    )
    ring = c.add_ref(cell, name="ring")
    for name, port in (("in", ring["o1"]), ("out", ring["o2"])):
        guide = (c << gf.get_component("straight", length=100.0)).connect("o1", port)
        fibre = c.add_ref(gf.get_component("grating_coupler"), name=name)
        fibre.connect("o1", guide["o2"])
        c.add_port(name, port=fibre["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("ring_pulley.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("ring_pulley.pic.yml"))
