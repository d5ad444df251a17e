"""A cell with an interferometer, its heater, fibres and pads, placed ten times."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


@gf.cell
def heated_filter() -> gf.Component:
    """Draw the cell."""
    c = gf.Component()
    mzi = c.add_ref(gf.components.mzi_phase_shifter(delta_length=50.0), name="mzi")
    for name, port in (("in", mzi["o1"]), ("out", mzi["o2"])):
        guide = (c << gf.get_component("straight", length=40.0)).connect("o1", port)
        fibre = c.add_ref(gf.get_component("grating_coupler"), name=name)
        fibre.connect("o1", guide["o2"])
        c.add_port(name, port=fibre["o2"])
    for name, port, x in (("GND", mzi["e1"], 50.0), ("drive", mzi["e2"], 350.0)):
        pad = c.add_ref(gf.get_component("pad"), name=name).move((x, 260.0))
        gf.routing.route_bundle_electrical(c, [port], [pad["e1"]], cross_section="metal_routing")
    return c


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("ten_filters")
    for i in range(10):
        placed = c.add_ref(heated_filter(), name=f"filter{i}").move((700.0 * (i % 2), 500.0 * (i // 2)))
        c.add_port(f"in{i}", port=placed["in"])
        c.add_port(f"out{i}", port=placed["out"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("ten_filters.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("ten_filters.pic.yml"))
