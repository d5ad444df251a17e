"""Scenes of areas, corners and whole chips."""

from __future__ import annotations

import math
from collections.abc import Iterator

import klayout.db as kdb

from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import (
    AngleRule,
    AreaRule,
    DieSizeRule,
    EdgeRule,
    FacetRule,
    FileRule,
    GridRule,
    OutlineRule,
)
from rule_cases.case import LIMIT, Scene
from rule_cases.drawing import Shape, Vector, box, move, polygon
from rule_cases.lines import nm
from rule_cases.registry import scenes

FAILS = {-1: 1}


@scenes("area")
def area(rule: AreaRule, process: Process) -> Iterator[Scene]:
    """Shapes of the least area; a step is 1 nm²."""
    layer, value = rule.layers[0], round(rule.value_um2 * 1e6)
    width = 10 ** (len(str(math.isqrt(value))) - 1)
    length = value // width

    def rectangle(delta: int) -> list[Shape]:
        # one square nanometre more or less at a corner, where the other is a full rectangle
        points = [(0, 0), (length, 0), (length, width), (0, width)]
        if delta < 0:
            points[2:3] = [(length, width - 1), (length - 1, width - 1), (length - 1, width)]
        if delta > 0:
            points[2:3] = [(length + 1, 0), (length + 1, 1), (length, 1), (length, width)]
            points.pop(1)
        whole = polygon(layer, *points)
        sides = [kdb.Box(0, 0, length // 2, width), kdb.Box(length // 2, 0, length + 1, width)]
        halves = tuple(next((kdb.Region(whole.whole) & kdb.Region(side)).each()) for side in sides)
        return [Shape(layer, whole.whole, halves)]

    def slope(delta: int) -> list[Shape]:
        # a parallelogram of sides (4, 3) n and (-3, 4) m has 25 n m nm²
        along, across = _twenty_fives(value)
        return [polygon(layer, (0, 0), along, move(along, across, 1), across)]

    yield Scene("rectangle", rectangle, LIMIT)
    yield Scene("rectangle at 36.9°", slope, {0: 0})


def _twenty_fives(value: int) -> tuple[Vector, Vector]:
    """Sides at a right angle along (4, 3) and (-3, 4) whose product is an area in nm², a multiple of 25."""
    squares = value // 25
    one = next(n for n in range(math.isqrt(squares), 0, -1) if squares % n == 0)
    other = squares // one
    return (4 * other, 3 * other), (-3 * one, 4 * one)


@scenes("angle")
def angle(rule: AngleRule, process: Process) -> Iterator[Scene]:
    """Corners of exactly 45° in several directions; a step moves a vertex by 1 nm."""
    if rule.value_deg != 45:
        raise NotImplementedError(f"corners of {rule.value_deg}° have no scene; add one")
    for layer in rule.layers:
        for name, (x, y) in (("0°", (1, 0)), ("36.9°", (4, 3)), ("22.6°", (12, 5)), ("7°", (57, 7))):

            def corner(delta: int, layer: str = layer, x: int = x, y: int = y) -> list[Shape]:
                times = round(20_000 / math.hypot(x, y))
                # turned by 45°: (x, y) becomes (x - y, x + y) / √2
                side = (times * (x - y), times * (x + y))
                far, up = (2 * times * x, 2 * times * y), (-times * y, times * x)
                return [polygon(layer, (0, 0), far, move(far, up, 1), move(side, (0, 1), delta))]

            # KLayout rounds the end of a corner's side to the grid when it turns it
            verdicts = LIMIT if y == 0 else {-2: 1, 2: 0}
            yield Scene(f"corner of {layer} at {name}", corner, verdicts, slack=(8, 8) if y == 0 else None)


@scenes("edge")
def edge(rule: EdgeRule, process: Process) -> Iterator[Scene]:
    """Shapes at each side of a die, across its border, beyond it, and on other layers."""
    outline, value = rule.layers[0], nm(rule.value_um)
    others = [layer for layer in process.gds_layers if layer not in rule.layers]
    side = 20 * value
    die = box(outline, 0, 0, side, side)
    for layer in others:

        def inside(delta: int, layer: str = layer) -> list[Shape]:
            near = value + delta
            return [die, box(layer, near, 3 * value, near + 1_000, 4 * value)]

        yield Scene(f"{layer} beside the left edge", inside, LIMIT)

    def filled(delta: int) -> list[Shape]:
        return [die, box(others[0], value + delta, value, side - value, side - value)]

    def straddling(delta: int) -> list[Shape]:
        return [die, box(others[0], side - value, 4 * value, side + value, 5 * value)]

    def beyond(delta: int) -> list[Shape]:
        return [die, box(others[0], side + value, 4 * value, side + 2 * value, 5 * value)]

    def tip(delta: int) -> list[Shape]:
        left = value + delta
        return [die, polygon(others[0], (left, 5 * value), (left + value, 6 * value), (left + value, 4 * value))]

    for layer in rule.layers[1:]:
        left_out = [die, box(layer, 0, 3 * value, side + value, 4 * value)]
        yield Scene(f"{layer}, which is left out", lambda _, shapes=left_out: shapes, {0: 0})
    yield Scene("filled to the keep-out", filled, LIMIT)
    yield Scene("tip towards the edge", tip, LIMIT)
    yield Scene("across the edge", straddling, FAILS)
    yield Scene("beyond the edge", beyond, FAILS)


@scenes("facet")
def facet(rule: FacetRule, process: Process) -> Iterator[Scene]:
    """Ends of guides at one side of a die, and other silicon in its keep-out."""
    core, outline = rule.layers
    value, most, keepout = nm(rule.value_um), nm(rule.most_um), nm(rule.keepout_um)
    width, pitch = nm(rule.guide_width_um), nm(rule.pitch_um)
    side, y = 20 * keepout, 4 * keepout
    die = box(outline, 0, 0, side, side)

    def guide(left: int, bottom: int = y, wide: int = width) -> Shape:
        return box(core, left, bottom, 3 * keepout, bottom + wide)

    def apart(delta: int) -> list[Shape]:
        # the second tip is farther from the edge, which has no effect on the pitch
        return [die, guide(value), guide(most, y + pitch + delta)]

    def turned(_: int) -> list[Shape]:
        return [die, guide(value), box(core, value, y, value + width, y + 3 * width)]

    def loop(_: int) -> list[Shape]:
        return [die, guide(value), guide(value, y + 20_000), box(core, value, y, value + width, y + 20_000 + width)]

    yield Scene("tip near the edge", lambda delta: [die, guide(value + delta)], LIMIT)
    yield Scene("tip far from the edge", lambda delta: [die, guide(most - delta)], LIMIT)
    yield Scene("end inside the keep-out", lambda delta: [die, guide(keepout + delta)], LIMIT)
    yield Scene("wide tip", lambda delta: [die, guide(value, wide=width - delta)], LIMIT)
    yield Scene("two tips", apart, LIMIT)
    yield Scene("tip with a bend", turned, {0: 1})
    yield Scene("loop in the keep-out", loop, {0: 1})
    yield Scene("piece in the keep-out", lambda _: [die, box(core, value, y, keepout - 1_000, y + width)], {0: 1})
    yield Scene("across the edge", lambda _: [die, guide(-value)], {0: 1})
    yield Scene("beyond the edge", lambda _: [die, box(core, -2 * keepout, y, -keepout, y + width)], {0: 1})


@scenes("outline")
def outline(rule: OutlineRule, process: Process) -> Iterator[Scene]:
    """Dies beside each other, and outlines that are not valid."""
    layer = rule.layers[0]
    first = box(layer, 0, 0, 20_000, 10_000)

    def beside(delta: int) -> list[Shape]:
        return [first, box(layer, 20_001 + delta, 2_000, 30_000, 12_000)]

    def corners(delta: int) -> list[Shape]:
        return [first, box(layer, 20_001 + delta, 10_001 + delta, 30_000, 20_000)]

    def twice(delta: int) -> list[Shape]:
        return [first, first]

    def bent(delta: int) -> list[Shape]:
        return [polygon(layer, (0, 0), (20_000, 0), (20_000, 10_000 + min(0, delta)), (0, 10_000))]

    other = layer_of(process, layer)
    # a die drawn in two pieces is two outlines that touch
    yield Scene("two dies", lambda delta: [whole(shape) for shape in beside(delta)], LIMIT)
    yield Scene("copies of a die", lambda _: [first], LIMIT, tile=lambda delta: (20_001 + delta, 10_001 + delta))
    yield Scene("two dies, corner to corner", lambda delta: [whole(shape) for shape in corners(delta)], LIMIT)
    yield Scene("the same twice", lambda delta: [whole(shape) for shape in twice(delta)], FAILS)
    yield Scene("no rectangle", bent, LIMIT)
    yield Scene("in two pieces", lambda delta: [Shape(layer, half) for half in first.halves], FAILS)
    yield Scene("none", lambda delta: [box(other, 0, 0, 10_000, 10_000)], FAILS, global_=True)


def whole(shape: Shape) -> Shape:
    """A shape that is not split."""
    return Shape(shape.layer, shape.whole)


def layer_of(process: Process, other_than: str) -> str:
    """Some layer of the process."""
    return next(layer for layer in process.gds_layers if layer != other_than)


@scenes("die_size")
def die_size(rule: DieSizeRule, process: Process) -> Iterator[Scene]:
    """Every offered size, the reticle if any, and sizes a nanometre smaller and larger; dies may be rotated."""
    layer = rule.layers[0]
    sizes = [sorted(map(nm, size)) for size in rule.dies_um]
    reticle = None if rule.reticle_um is None else sorted(map(nm, rule.reticle_um))
    for size in (*sizes, *([] if reticle is None else [reticle])):
        for side in (0, 1):

            def die(delta: int, size: list[int] = size, side: int = side) -> list[Shape]:
                height, width = (size[i] + (delta if i == side else 0) for i in (0, 1))
                return [whole(box(layer, 0, 0, width, height))]

            # a die above the largest size in one direction counts as a larger die, which only a reticle allows
            larger = reticle is not None and size[side] == max(offered[side] for offered in sizes)
            verdicts = {-1: 0, 0: 0, 1: 1} if size == reticle else {-1: 1, 0: 0, 1: int(not larger)}
            name = f"{size[1] / 1000:g} by {size[0] / 1000:g}, {('short', 'long')[side]} side"
            yield Scene(name, die, verdicts)


@scenes("grid")
def grid(rule: GridRule, process: Process) -> Iterator[Scene]:
    """Files whose database unit is the grid, and files whose unit is not."""
    layer = next(iter(process.gds_layers))
    for factor, fails in ((1, 0), (0.5, 1), (2, 1), (1.001, 1), (0.999, 1)):
        yield Scene(
            f"database unit of {factor:g} grids",
            lambda delta: [box(layer, 0, 0, 10_001, 10_001)],
            {-1: 1} if fails else {0: 0},
            dbu=factor * rule.value_um,
            global_=True,
        )


@scenes("known_layers", "simple")
def file(rule: FileRule, process: Process) -> Iterator[Scene]:
    """Shapes on other layers, or polygons that cross themselves."""
    known = process.gds_layers
    if rule.kind == "known_layers":
        number = max(gds[0] for gds in known.values()) + 1
        datatype = (next(iter(known.values()))[0], 200)
        square = kdb.Polygon(kdb.Box(0, 0, 10_000, 10_000))
        wire = kdb.Path([kdb.Point(0, 0), kdb.Point(10_000, 0)], 1_000)
        for layer in known:
            yield Scene(f"shape on {layer}", lambda delta, layer=layer: [Shape(layer, square)], {0: 0})
        yield Scene("text on another layer", lambda delta: [Shape((number, 0), kdb.Text("a", 0, 0))], {0: 0})
        line = kdb.Path([kdb.Point(0, 0), kdb.Point(10_000, 0)], 0)
        yield Scene("path without width", lambda delta: [Shape((number, 0), line)], FAILS)
        yield Scene("polygon on another layer", lambda delta: [Shape((number, 0), square)], FAILS)
        yield Scene("path on another layer", lambda delta: [Shape((number, 0), wire)], FAILS)
        yield Scene("another datatype", lambda delta: [Shape(datatype, square)], FAILS)
        return
    for layer in known:
        yield Scene(f"spiral of {layer}", lambda delta, layer=layer: [spiral(layer, delta)], LIMIT)
        yield Scene(f"bow tie of {layer}", lambda delta, layer=layer: [bow_tie(layer)], FAILS)


def spiral(layer: str, delta: int) -> Shape:
    """A frame drawn as one line of points, from one side of a cut to the other; the sides may touch."""
    end = 2_001 - delta
    points = [(0, 0), (0, 10_000), (10_000, 10_000), (10_000, 0), (2_001, 0), (2_001, 2_000), (8_000, 2_000)]
    points += [(8_000, 8_000), (2_000, 8_000), (2_000, 2_000), (end, 2_000), (end, 0)]
    return Shape(layer, kdb.Polygon([kdb.Point(*point) for point in points], True))


def bow_tie(layer: str) -> Shape:
    """Two triangles that meet at a tip, drawn as one line of points."""
    points = [(0, 0), (20_000, 20_000), (0, 20_000), (20_000, 0)]
    return Shape(layer, kdb.Polygon([kdb.Point(*point) for point in points], True))
