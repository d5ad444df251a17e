"""Cut-back: three spirals of different lengths with equal numbers of bends, each between two fibres."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("cutback_spirals")
    for i, length in enumerate((0.0, 300.0, 900.0)):
        cell = gf.components.spiral(length=length, cross_section="strip", spacing=6.0, n_loops=4)
        spiral = c.add_ref(cell, name=f"spiral{i}").move((0.0, 300.0 * i))
        for name, port, height in ((f"in{i}", spiral["o1"], 40.0), (f"out{i}", spiral["o2"], -87.0)):
            fibre = c.add_ref(gf.get_component("grating_coupler"), name=name)
            fibre.move((1200.0, 300.0 * i + height))
            gf.routing.route_single(c, port, fibre["o1"], cross_section="strip")
            c.add_port(name, port=fibre["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("cutback_spirals.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("cutback_spirals.pic.yml"))
