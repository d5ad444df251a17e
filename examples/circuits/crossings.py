"""Four crossings, at which two guides cross two others, between eight fibres."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("crossings")
    grid = {}
    for row in range(2):
        for column in range(2):
            crossing = c.add_ref(gf.get_component("crossing"), name=f"crossing{row}{column}")
            grid[row, column] = crossing.move((127.0 * column, 127.0 * row))
    for i in range(2):
        gf.routing.route_single(c, grid[i, 0]["o3"], grid[i, 1]["o1"], cross_section="strip")
        gf.routing.route_single(c, grid[0, i]["o2"], grid[1, i]["o4"], cross_section="strip")
        ends = {"west": ((i, 0), "o1"), "east": ((i, 1), "o3"), "south": ((0, i), "o4"), "north": ((1, i), "o2")}
        for side, (place, port) in ends.items():
            away = c << gf.get_component("straight", length=150.0)
            away.connect("o1", grid[place][port])
            fibre = c.add_ref(gf.get_component("grating_coupler"), name=f"{side}{i}")
            fibre.connect("o1", away["o2"])
            c.add_port(f"{side}{i}", port=fibre["o2"])
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("crossings.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("crossings.pic.yml"))
