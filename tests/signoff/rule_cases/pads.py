"""Scenes of pads and gratings."""

from __future__ import annotations

from collections.abc import Iterator

import klayout.db as kdb

from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import FibrePitchRule, PadPitchRule, PadSizeRule
from rule_cases.case import LIMIT, Scene
from rule_cases.drawing import ANGLES, Shape, Vector, bar, box, left_of, polygon, slanted
from rule_cases.lines import nm, octagon
from rule_cases.registry import scenes


@scenes("pad_size")
def pad_size(rule: PadSizeRule, process: Process) -> Iterator[Scene]:
    """Pads, pads with wires, and labelled metal."""
    metal, label = rule.layers
    size, least = nm(rule.value_um), nm(rule.recognize_um)

    def text(x: int, y: int) -> Shape:
        return Shape(label, kdb.Text("pad", x, y))

    def plain(delta: int) -> list[Shape]:
        return [box(metal, 0, 0, size + delta, size + 4_000)]

    def wired(delta: int) -> list[Shape]:
        middle = size // 2
        return [*plain(delta), box(metal, middle, size + 4_000, middle + 4_000, 2 * size), text(middle, middle)]

    def labelled(delta: int) -> list[Shape]:
        side = size - 1 if delta < 0 else size
        return [box(metal, 0, 0, min(side, least - 2_000) if delta < 0 else side, size), text(1_000, 1_000)]

    def recognized(delta: int) -> list[Shape]:
        # metal not wider than the limit that identifies a pad is a wire
        return [box(metal, 0, 0, least + delta, 4 * size)]

    yield Scene("square", plain, LIMIT, slack=(7, 5))
    for name, along in ANGLES.items():
        if 0 not in along:

            def turned(delta: int, along: Vector = along) -> list[Shape]:
                shape = bar(metal, (0, 0), along, size + 4_000, left_of(along, size + delta, delta >= 0))
                return [Shape(metal, shape.whole)]

            # metal is shrunk and grown to find its pads, which moves edges off the axes
            yield Scene(f"square at {name}", turned, {-2: 1, 5: 0})

    def chamfered(delta: int) -> list[Shape]:
        # a square of full size touches the cut with its corner
        wide, cut = size + 4_000, 8_000 - delta
        return [polygon(metal, (0, 0), (wide, 0), (wide, wide - cut), (wide - cut, wide), (0, wide))]

    def notched(delta: int) -> list[Shape]:
        # each leg is as wide as the square
        wide, inner = 2 * size + 40_000, size + delta
        return [polygon(metal, (0, 0), (wide, 0), (wide, inner), (inner, inner), (inner, wide), (0, wide))]

    def nicked(delta: int) -> list[Shape]:
        # the corner of the square would be in the nick
        wide, inner = size + 1_000, size + delta
        return [polygon(metal, (0, 0), (wide, 0), (wide, inner), (inner, inner), (inner, wide), (0, wide))]

    def eight_sides(delta: int) -> list[Shape]:
        # the square has its corners on the slanted sides
        cut = size // 4
        wide = size + cut + delta
        far = wide - cut
        points = [(cut, 0), (far, 0), (wide, cut), (wide, far), (far, wide), (cut, wide), (0, far), (0, cut)]
        return [polygon(metal, *points)]

    yield Scene("with a wire and a label", wired, LIMIT)
    yield Scene("octagon", eight_sides, LIMIT)
    yield Scene("octagon as wide as a pad", lambda _: [octagon(metal, size)], {-1: 1})
    yield Scene("corner cut", chamfered, {-1: 1, 0: 0, 1: 0}, slack=(9, 9))
    yield Scene("L", notched, LIMIT)
    yield Scene("nick in a corner", nicked, LIMIT)
    yield Scene("labelled metal", labelled, {-1: 1, 0: 0})
    yield Scene("wide wire", recognized, {-1: 0, 2: 1})


@scenes("pad_pitch")
def pad_pitch(rule: PadPitchRule, process: Process) -> Iterator[Scene]:
    """Two pads beside each other, above each other, and on a diagonal."""
    layer, value, side = rule.layers[0], nm(rule.value_um), nm(rule.recognize_um) + 1_000

    def beside(delta: int) -> list[Shape]:
        return [box(layer, x, 0, x + side, side) for x in (0, value + delta)]

    def above(delta: int) -> list[Shape]:
        return [box(layer, 0, y, side, y + side) for y in (0, value + delta)]

    def aslant(delta: int) -> list[Shape]:
        x, y = slanted(value + delta, delta >= 0)
        return [box(layer, 0, 0, side, side), box(layer, x, y, x + side, y + side)]

    def small(delta: int) -> list[Shape]:
        # metal not wider than the limit that identifies a pad is not a pad
        size = side - 1_000 - delta
        return [box(layer, x, 0, x + size, size) for x in (0, value - 1_000)]

    def sizes(delta: int) -> list[Shape]:
        # the distance is that of the centres, not of the sides
        right = value + delta + side // 2 - side
        return [box(layer, 0, 0, side, side), box(layer, right, -side // 2, right + 2 * side, side + side // 2)]

    yield Scene("beside each other", beside, LIMIT, slack=(3, 3))
    yield Scene("above each other", above, LIMIT)
    yield Scene("aslant", aslant, LIMIT)
    yield Scene("too small for pads", small, {-2: 1, 0: 0})
    pad = [box(layer, 0, 0, side, side)]
    # markers around pairs of a row touch
    yield Scene("rows of copies", lambda _: pad, {-1: 2, 0: 0, 1: 0}, tile=lambda delta: (value + delta, 2 * value))
    if value > 2 * side:
        yield Scene("of two sizes", sizes, LIMIT)


@scenes("fibre_pitch")
def fibre_pitch(rule: FibrePitchRule, process: Process) -> Iterator[Scene]:
    """Two gratings of several lines."""
    layer, value, merge = rule.layers[0], nm(rule.value_um), nm(rule.merge_um)

    def grating(x: int, y: int) -> list[Shape]:
        return [box(layer, x + 630 * line, y, x + 630 * line + 315, y + 10_000) for line in range(10)]

    def beside(delta: int) -> list[Shape]:
        return [*grating(0, 0), *grating(value + delta, 0)]

    def above(delta: int) -> list[Shape]:
        return [*grating(0, 0), *grating(0, value + delta)]

    def aslant(delta: int) -> list[Shape]:
        return [*grating(0, 0), *grating(*slanted(value + delta, delta >= 0))]

    def lines(delta: int) -> list[Shape]:
        # two lines that are farther apart are two gratings
        return [box(layer, 0, 0, 400, 10_000), box(layer, 400 + merge - delta, 0, 800 + merge - delta, 10_000)]

    yield Scene("beside each other", beside, LIMIT, slack=(3, 3))
    yield Scene("above each other", above, LIMIT)
    yield Scene("aslant", aslant, LIMIT)
    yield Scene("lines of one grating", lines, LIMIT)
    one = grating(0, 0)
    yield Scene("rows of copies", lambda _: one, {-1: 2, 0: 0, 1: 0}, tile=lambda delta: (value + delta, 2 * value))
