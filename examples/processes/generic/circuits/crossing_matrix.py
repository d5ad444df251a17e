"""Matrix of 3 × 3 crossings of gdsfactory's generic PDK with gratings at all sides, behind S-bends and Euler bends."""

from pathlib import Path

import gdsfactory as gf

SIZE, PITCH = 3, 60.0


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("crossing_matrix")
    crossing = gf.get_component("crossing")
    grid = {(i, j): c << crossing for i in range(SIZE) for j in range(SIZE)}
    for (i, j), one in grid.items():
        one.move((PITCH * i, PITCH * j))
        for port, other in (("o3", (i + 1, j)), ("o2", (i, j + 1))):
            if other in grid:
                guide = c << gf.get_component("straight", length=PITCH - 8.0)
                guide.connect("o1", one[port])
    last = SIZE - 1
    for n in range(SIZE):
        # bends turn to the left: columns end at different heights, so that none crosses another
        for name, port, length, bend in (
            (f"west{n}", grid[0, n]["o1"], 30.0, "bend_s"),
            (f"east{n}", grid[last, n]["o3"], 30.0, "bend_s"),
            (f"south{n}", grid[n, 0]["o4"], 40.0 + PITCH * (last - n), "bend_euler"),
            (f"north{n}", grid[n, last]["o2"], 40.0 + PITCH * n, "bend_euler"),
        ):
            parts = gf.get_component("straight", length=length), gf.get_component(bend)
            for part in (*parts, gf.get_component("grating_coupler_elliptical")):
                placed = c << part
                placed.connect("o1", port)
                port = placed["o2"]
            c.add_port(name, port=port)
    return c


if __name__ == "__main__":
    gf.gpdk.PDK.activate()
    drawn = circuit()
    drawn.write_gds("crossing_matrix.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("crossing_matrix.pic.yml"))
