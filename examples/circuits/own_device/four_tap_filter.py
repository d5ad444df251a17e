"""Filter of four taps: a 1×4 splitter, four arms of different lengths, and the splitter again as a combiner."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op

PROCESS = Path(__file__).parent


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("four_tap_filter")
    split, join = c << gf.get_component("mmi1x4"), c << gf.get_component("mmi1x4")
    join.dcplx_trans = gf.kdb.DCplxTrans(1.0, 180.0, True, 700.0, 0.0)
    arms = [c << gf.get_component("straight", length=60.0) for _ in range(4)]
    for arm, height in zip(arms, (190.0, 90.0, -60.0, -210.0), strict=True):
        arm.move((320.0, height))
    for cell, end in ((split, "o1"), (join, "o2")):
        outputs = [cell[f"o{i}"] for i in range(2, 6)]
        gf.routing.route_bundle(c, outputs, [arm[end] for arm in arms], cross_section="strip", separation=10.0)
    for name, end in (("in", split["o1"]), ("out", join["o1"])):
        fibre = c << gf.get_component("grating_coupler")
        fibre.connect("o1", end)
        c.add_port(name, port=fibre["o2"])
    return c


if __name__ == "__main__":
    op.get_pdk(PROCESS).activate()
    drawn = circuit()
    drawn.write_gds("four_tap_filter.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("four_tap_filter.pic.yml"))
