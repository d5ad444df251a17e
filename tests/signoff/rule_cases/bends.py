"""Scenes of bends: arcs as in guides, and kinks whose measured radius is known to a nanometre."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import klayout.db as kdb

from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import BendRadiusRule
from rule_cases.case import LIMIT, Scene
from rule_cases.drawing import Shape, box
from rule_cases.lines import nm
from rule_cases.registry import scenes

Points = list[tuple[float, float]]
LEG = 30_000
# Distance of the kinks of a measured bend as a fraction of the arm, so that shorter arms measure less than the longest.
PARTS = 10


@scenes("bend_radius")
def bend_radius(rule: BendRadiusRule, process: Process) -> Iterator[Scene]:
    """Arcs of several angles and directions, and bends at the limit of each arm."""
    core, slab = rule.layers
    value, width = nm(rule.value_um), nm(rule.guide_width_um)
    reach = 3 * value + 2 * LEG
    around = [Shape(slab, kdb.Polygon(kdb.Box(-reach, -reach, reach, reach)))]
    inside, outside = (around, []) if rule.inside_second else ([], around)
    long, tolerance = max((nm(arm), nm(error)) for arm, error in rule.arms_um)
    short, coarse = min((nm(arm), nm(error)) for arm, error in rule.arms_um)
    # arcs shorter than the long arms are measured by the short arms: here a third longer than the short arms
    brief = math.degrees(8 / 3 * short / (value - width / 2 - coarse))
    for turn, angle, within in (
        (45, 0, tolerance),
        (45, 33.3, tolerance),
        (90, 0, tolerance),
        (90, 45, tolerance),
        (180, 7, tolerance),
        (brief, 0, coarse),
        (brief, 33.3, coarse),
    ):

        def arc(delta: int, turn: float = turn, angle: float = angle) -> list[Shape]:
            return [guide(core, value + delta, turn, angle, width), *inside]

        slack = (0, within) if (turn, angle) == (90, 0) else None
        yield Scene(f"arc of {turn:.0f}° from {angle}°", arc, {-within: 1, 0: 0}, slack=slack)
    for arm, error in rule.arms_um:

        def kinks(delta: int, arm: int = nm(arm), error: int = nm(error)) -> list[Shape]:
            least = value - width / 2 - error + delta
            return [measured_bend(core, least, arm, arm == long, width), *inside]

        yield Scene(f"kinks measured over {2 * arm:g} µm", kinks, LIMIT)
    other = "strip" if rule.inside_second else "rib"
    yield Scene(f"{other} bend", lambda delta: [guide(core, value // 2, 90, 0, width), *outside], {0: 0})
    yield from corners(rule, inside)


def corners(rule: BendRadiusRule, inside: list[Shape]) -> Iterator[Scene]:
    """Guides that enter bodies, and guides that turn behind bodies."""
    core, width, body = rule.layers[0], nm(rule.guide_width_um), 2 * nm(rule.body_um)

    def entering(delta: int) -> list[Shape]:
        # silicon of exactly this width is not a body
        bodies = box(core, -body + delta, -10_000, 0, 10_000)
        return [bodies, box(core, 0, 0, 20_000, width), *inside]

    def behind(delta: int) -> list[Shape]:
        turn = nm(rule.exempt_um) - delta
        shapes = [box(core, -10_000, -5_000, 0, 5_000), box(core, 0, 0, turn + width, width)]
        return [*shapes, box(core, turn, 0, turn + width, 20_000), *inside]

    yield Scene("guide into a body", entering, {-2: 0, 0: 1})
    yield Scene("corner behind a body", behind, LIMIT)


def guide(layer: str, radius: float, turn: float, angle: float, width: int) -> Shape:
    """A straight, an arc of 64 chords to 90°, and a straight."""
    count = max(4, round(64 * turn / 90))
    steps = [math.radians(turn * i / count) for i in range(count + 1)]
    arc = [(radius * math.sin(t), radius * (1 - math.cos(t))) for t in steps]
    end, last = arc[-1], steps[-1]
    line = [(-LEG, 0.0), *arc, (end[0] + LEG * math.cos(last), end[1] + LEG * math.sin(last))]
    path = kdb.DPath([kdb.DPoint(*point) for point in line], width)
    turned = kdb.Polygon(path.polygon().transformed(kdb.DCplxTrans(1, angle, False, 0, 0)))
    return Shape(layer, turned)


def measured_bend(layer: str, least: float, arm: int, many: bool, width: int) -> Shape:
    """A guide whose concave edge has a radius just above `least`, as measured with an arm.

    The edge has one kink, or kinks over the length of two arms. Their angle is determined first; the end of the last
    straight is then moved to correct the effect of rounding.
    """
    count = 2 * PARTS - 3 if many else 1
    low, high = 0.0, math.radians(10)
    for _ in range(60):
        kink = (low + high) / 2
        low, high = (kink, high) if least_radius(edge(kink, count, arm / PARTS), arm) > least else (low, kink)
    line = _tuned([(round(x), round(y)) for x, y in edge(low, count, arm / PARTS)], least, arm)
    sides = zip(line, slopes(line), strict=True)
    outer = [(round(x + width * math.sin(t)), round(y - width * math.cos(t))) for (x, y), t in sides]
    return Shape(layer, kdb.Polygon([kdb.Point(*point) for point in [*line, *outer[::-1]]]))


def _tuned(points: list[tuple[int, int]], least: float, arm: int) -> list[tuple[int, int]]:
    """A line with its end moved so that the radius measured with an arm is the smallest that is at least `least`."""
    x, y = points[-1]
    candidates: list[tuple[float, list[tuple[int, int]]]] = []
    for right in range(40):
        few, much = -5_000, 5_000
        while much - few > 1:
            by = (few + much) // 2
            enough = least_radius([*points[:-1], (x + right, y + by)], arm) >= least
            few, much = (by, much) if enough else (few, by)
        moved = [*points[:-1], (x + right, y + few)]
        candidates.append((least_radius(moved, arm), moved))
    return min(radius for radius in candidates if radius[0] >= least)[1]


def edge(kink: float, count: int, step: float) -> Points:
    """A straight, kinks to the left by an angle in radians, and a straight."""
    points, slope = [(-float(LEG), 0.0), (0.0, 0.0)], 0.0
    for number in range(count):
        slope += kink
        length = LEG if number == count - 1 else step
        x, y = points[-1]
        points.append((x + length * math.cos(slope), y + length * math.sin(slope)))
    return points


def slopes(points: Sequence[tuple[float, float]]) -> list[float]:
    """Direction of a line of points at each of them, in radians."""
    pairs = pairwise(points)
    sides = [math.atan2(b[1] - a[1], b[0] - a[0]) for a, b in pairs]
    return [(one + other) / 2 for one, other in zip([sides[0], *sides], [*sides, sides[-1]], strict=True)]


def least_radius(points: Sequence[tuple[float, float]], arm: float) -> float:
    """Least radius of circles through a point of a line and those an arm before and after it along the line.

    An oracle for the rule: by Heron's formula, where the check uses a cross product.
    """

    def walked(line: Sequence[tuple[float, float]]) -> tuple[float, float]:
        left = arm
        for (ax, ay), (bx, by) in pairwise(line):
            side = math.hypot(bx - ax, by - ay)
            if side >= left:
                return ax + (bx - ax) * left / side, ay + (by - ay) * left / side
            left -= side
        raise ValueError("the line ends before the arm does")

    radii = []
    for number in range(1, len(points) - 1):
        here, before, after = points[number], walked(points[number::-1]), walked(points[number:])
        a, b, c = sorted((math.dist(here, before), math.dist(here, after), math.dist(before, after)))
        # Kahan's form, exact to rounding for flat triangles
        area = math.sqrt(max(0.0, (c + (b + a)) * (a - (c - b)) * (a + (c - b)) * (c + (b - a)))) / 4
        radii.append(math.inf if area == 0 else a * b * c / (4 * area))
    return min(radii)
