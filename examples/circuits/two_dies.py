"""Two dies in one layout with one netlist: a ring filter on each, of different resonances."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("two_dies")
    for i, name in enumerate(("left", "right")):
        die = gf.get_component("die_frame", width_um=700.0, height_um=500.0, name=name)
        c.add_ref(die, name=name).move((1000.0 * i, 0.0))
        ring = c.add_ref(gf.get_component("ring_single", gap=0.2, radius=12.0 + i), name=f"{name}_ring")
        ring.move((1000.0 * i + 350.0, 250.0))
        for side, port in (("in", ring["o1"]), ("out", ring["o2"])):
            guide = c << gf.get_component("straight", length=100.0)
            guide.connect("o1", port)
            fibre = c.add_ref(gf.get_component("grating_coupler"), name=f"{name}_{side}")
            fibre.connect("o1", guide["o2"])
            c.add_port(f"{name}_{side}", port=fibre["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("two_dies.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("two_dies.pic.yml"))
