"""1×4 multimode interference splitter with tapered ports."""

import gdsfactory as gf


@gf.cell
def mmi1x4(width: float = 24.0, length: float = 260.0, taper: float = 20.0, wide: float = 2.0) -> gf.Component:
    """Return the splitter; o1 is the input, o2 to o5 are the outputs from the top down."""
    c = gf.Component()
    narrow = gf.get_cross_section("strip").width
    c.add_polygon([(0, -width / 2), (0, width / 2), (length, width / 2), (length, -width / 2)], layer="core")
    places = [(0.0, 0.0, 180)] + [(length, width * (1.5 - i) / 4, 0) for i in range(4)]
    for number, (x, y, angle) in enumerate(places, start=1):
        end = x + (taper if angle == 0 else -taper)
        half = wide / 2, narrow / 2
        c.add_polygon([(x, y - half[0]), (x, y + half[0]), (end, y + half[1]), (end, y - half[1])], layer="core")
        c.add_port(f"o{number}", center=(end, y), orientation=angle, cross_section="strip")
    return c
