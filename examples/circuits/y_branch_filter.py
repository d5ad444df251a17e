"""Lattice filter of Y-branches: three interferometers in a row, each with double the path difference of the last."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("y_branch_filter")
    fibre = c.add_ref(gf.get_component("grating_coupler"), name="in").drotate(180)
    c.add_port("in", port=fibre["o2"])
    end = fibre["o1"]
    for number, difference in enumerate((25.0, 50.0, 100.0)):
        guide = c << gf.get_component("straight", length=60.0)
        guide.connect("o1", end)
        stage = c.add_ref(gf.get_component("mzi", delta_length=difference), name=f"stage{number}")
        stage.connect("o1", guide["o2"])
        end = stage["o2"]
    guide = c << gf.get_component("straight", length=60.0)
    guide.connect("o1", end)
    fibre = c.add_ref(gf.get_component("grating_coupler"), name="out")
    fibre.connect("o1", guide["o2"])
    c.add_port("out", port=fibre["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("y_branch_filter.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("y_branch_filter.pic.yml"))
