"""Scenes of widths and spaces in one layer."""

from __future__ import annotations

import math
from collections.abc import Iterator

from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import GuideSpaceRule, LineRule
from rule_cases.case import LIMIT, Scene, tilted_slack
from rule_cases.drawing import ANGLES, Shape, Vector, bar, box, left_of, move, polygon, ring, slanted
from rule_cases.registry import scenes


def nm(um: float) -> int:
    """A length of a card in nm."""
    return round(1000 * um)


def at_angle(rule: LineRule | GuideSpaceRule, along: Vector) -> int:
    """The limit in nm for edges in a direction: for slanted edges, minus the tolerance for rounding."""
    tolerance = nm(rule.angled_tolerance_um) if 0 not in along else 0
    return nm(rule.value_um) - tolerance


def facing(layer: str, along: Vector, length: int, thick: int, gap: Vector) -> list[Shape]:
    """Two bars in a direction, `gap` apart; the second starts later than the first."""
    across = left_of(along, thick, True)
    first = bar(layer, (0, 0), along, length, across)
    start = (across[0] + gap[0] + 10 * along[0], across[1] + gap[1] + 10 * along[1])
    return [first, bar(layer, start, along, length, across)]


@scenes("width")
def width(rule: LineRule, process: Process) -> Iterator[Scene]:
    """Bars at every angle, and shapes that are narrow in one place only."""
    layer, value = rule.layers[0], nm(rule.value_um)
    length = max(20_000, 4 * value)
    for name, along in ANGLES.items():
        limit = at_angle(rule, along)

        def line(delta: int, along: Vector = along, limit: int = limit) -> list[Shape]:
            return [bar(layer, (0, 0), along, length, left_of(along, limit + delta, delta >= 0))]

        yield Scene(f"bar at {name}", line, LIMIT, slack=tilted_slack(rule) if along == (1, 0) else None)

    def neck(delta: int) -> list[Shape]:
        ends = [box(layer, left, -length, left + length, length) for left in (-length - 500, 500)]
        return [*ends, box(layer, -500, 0, 500, value + delta)]

    def diagonal(delta: int) -> list[Shape]:
        x, y = slanted(value + delta, delta >= 0)
        return [box(layer, 0, 0, length, length), box(layer, length - x, length - y, 2 * length, 2 * length)]

    def wedge(delta: int) -> list[Shape]:
        tip = value - nm(rule.angled_tolerance_um) + delta
        return [polygon(layer, (0, 0), (length, 0), (length, length // 10 + tip), (0, tip))]

    yield Scene("neck between two bodies", neck, LIMIT)
    yield Scene("neck from corner to corner", diagonal, LIMIT)
    yield Scene("narrow end of a wedge", wedge, LIMIT)
    # each copy alone is too narrow
    thin = [box(layer, 0, 0, length, value - 10)]
    yield Scene("bar of copies", lambda _: thin, LIMIT, tile=lambda delta: (length, 10 + delta))
    if rule.ignore_angle_deg <= 45:
        yield Scene("octagon", lambda delta: [octagon(layer, value + delta)], LIMIT)


def octagon(layer: str, size: int) -> Shape:
    """An octagon, `size` wide along the axes and slightly wider along the diagonals."""
    cut = round(size * 0.29)
    far = size - cut
    return polygon(layer, (cut, 0), (far, 0), (size, cut), (size, far), (far, size), (cut, size), (0, far), (0, cut))


@scenes("space")
def space(rule: LineRule, process: Process) -> Iterator[Scene]:
    """Parallel bars at every angle, notches, holes, corners and tips."""
    layer, value = rule.layers[0], nm(rule.value_um)
    length, thick = max(20_000, 4 * value), max(2_000, value)
    for name, along in ANGLES.items():
        limit = at_angle(rule, along)

        def gap(delta: int, along: Vector = along, limit: int = limit) -> list[Shape]:
            return facing(layer, along, length, thick, left_of(along, limit + delta, delta >= 0))

        yield Scene(f"bars at {name}", gap, LIMIT, slack=tilted_slack(rule) if along == (1, 0) else None)
    yield from gaps(layer, value, value - nm(rule.angled_tolerance_um), length, thick)


@scenes("notch")
def notch(rule: LineRule, process: Process) -> Iterator[Scene]:
    """Notches at every angle, holes, and space between shapes, which is not a notch."""
    layer, value = rule.layers[0], nm(rule.value_um)
    length, thick = max(20_000, 4 * value), max(2_000, value)
    for name, along in ANGLES.items():
        limit = at_angle(rule, along)

        def legs(delta: int, along: Vector = along, limit: int = limit) -> list[Shape]:
            # one polygon, because the points where slanted edges of two polygons cross are rounded to the grid
            leg, between = left_of(along, thick, True), left_of(along, limit + delta, delta >= 0)
            across = [(0, 0), leg, move(leg, between, 1), move(move(leg, between, 1), leg, 1)]
            low, high = (round(size / math.hypot(*along)) for size in (thick, length))
            steps = ((0, 0), (0, high), (1, high), (1, low), (2, low), (2, high), (3, high), (3, 0))
            return [polygon(layer, *(move(across[line], along, step) for line, step in steps))]

        yield Scene(f"legs at {name}", legs, LIMIT, slack=tilted_slack(rule) if along == (1, 0) else None)

    def hole(delta: int) -> list[Shape]:
        top = thick + value + delta
        return [ring(layer, (0, 0, length, top + thick), (thick, thick, length - thick, top))]

    def apart(delta: int) -> list[Shape]:
        return facing(layer, (1, 0), length, thick, (0, value // 2))

    yield Scene("hole", hole, LIMIT)
    yield Scene("space between two bars", apart, {0: 0})


def gaps(layer: str, value: int, angled: int, length: int, thick: int) -> Iterator[Scene]:
    """Shapes that are close to each other in one place only."""

    def ends(delta: int) -> list[Shape]:
        return [box(layer, 0, 0, length, thick), box(layer, length + value + delta, 0, 2 * length, thick)]

    def notch(delta: int) -> list[Shape]:
        right = thick + value + delta
        base = box(layer, 0, 0, right + thick, thick)
        return [base, box(layer, 0, thick, thick, length), box(layer, right, thick, right + thick, length)]

    def hole(delta: int) -> list[Shape]:
        top = thick + value + delta
        return [ring(layer, (0, 0, length, top + thick), (thick, thick, length - thick, top))]

    def corners(delta: int, along: tuple[float, float] = (0.6, 0.8)) -> list[Shape]:
        x, y = slanted(value + delta, delta >= 0, along)
        return [box(layer, 0, 0, length, thick), box(layer, length + x, thick + y, 2 * length, 2 * thick + y)]

    def tip(delta: int) -> list[Shape]:
        low = thick + angled + delta
        return [box(layer, 0, 0, length, thick), diamond(layer, length // 2, low, thick)]

    yield Scene("bars end to end", ends, LIMIT)
    yield Scene("notch", notch, LIMIT)
    yield Scene("hole", hole, LIMIT)
    yield Scene("corner to corner", corners, LIMIT)
    yield Scene("corner to corner, nearly in line", lambda delta: corners(delta, (0.96, 0.28)), LIMIT)
    yield Scene("tip above a bar", tip, LIMIT)
    line, away = [box(layer, 0, 0, length, thick)], thick + 4 * value
    yield Scene("ends of copies", lambda _: line, {-1: 4, 0: 0, 1: 0}, tile=lambda d: (length + value + d, away))
    yield Scene("sides of copies", lambda _: line, {-1: 3, 0: 0, 1: 0}, tile=lambda d: (2 * length, thick + value + d))
    # the copies of a row meet
    yield Scene("sides of rows", lambda _: line, LIMIT, tile=lambda d: (length, thick + value + d))


def diamond(layer: str, x: int, low: int, half: int) -> Shape:
    """A square rotated by 45°."""
    return polygon(layer, (x, low), (x - half, low + half), (x, low + 2 * half), (x + half, low + half))
