"""Scenes of two layers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import BooleanRule, PairRule
from rule_cases.case import LIMIT, Scene, tilted_slack
from rule_cases.drawing import ANGLES, Shape, Vector, bar, box, left_of, move, opposite, polygon, slanted
from rule_cases.lines import at_angle, diamond, nm
from rule_cases.registry import scenes

ALWAYS = {0: 0}
NEVER = {-1: 1}


def sides(rule: PairRule) -> tuple[str, str, int, int, int]:
    """The layers, the limit, and a length and a thickness far from any limit."""
    value = nm(rule.value_um)
    return *rule.layers, value, max(20_000, 4 * value), max(3_000, 2 * value)


@scenes("separation")
def separation(rule: PairRule, process: Process) -> Iterator[Scene]:
    """Bars of the two layers at every angle, corners, tips, and overlapping shapes."""
    first, second, value, length, thick = sides(rule)
    for name, along in ANGLES.items():
        limit = at_angle(rule, along)

        def gap(delta: int, along: Vector = along, limit: int = limit) -> list[Shape]:
            lower, between = left_of(along, thick, True), left_of(along, limit + delta, delta >= 0)
            start = move(move(lower, between, 1), along, 10)
            return [bar(first, (0, 0), along, length, lower), bar(second, start, along, length, lower)]

        yield Scene(f"bars at {name}", gap, LIMIT, slack=tilted_slack(rule) if along == (1, 0) else None)

    def corners(delta: int) -> list[Shape]:
        x, y = slanted(value + delta, delta >= 0)
        return [box(first, 0, 0, length, thick), box(second, length + x, thick + y, 2 * length, 2 * thick + y)]

    def tip(delta: int) -> list[Shape]:
        low = thick + value - nm(rule.angled_tolerance_um) + delta
        return [box(second, 0, 0, length, thick), diamond(first, length // 2, low, thick)]

    def overlapping(delta: int) -> list[Shape]:
        return [box(first, 0, 0, length, thick), box(second, length + delta, 0, 2 * length, thick)]

    def within(delta: int) -> list[Shape]:
        return [box(first, 0, 0, length, length), box(second, 2 * value, 2 * value, 2 * value + 500, 2 * value + 500)]

    yield Scene("corner to corner", corners, LIMIT)
    yield Scene("tip above a bar", tip, LIMIT)
    pair = [box(first, 0, 0, thick, thick), box(second, thick + 3 * value, 0, 2 * thick + 3 * value, thick)]
    yield Scene(
        "between copies",
        lambda _: pair,
        {-1: 4, 0: 0, 1: 0},
        tile=lambda delta: (2 * thick + 4 * value + delta, thick + 4 * value),
    )
    yield Scene("overlap by a nanometre", overlapping, NEVER)
    yield Scene("one inside the other", within, NEVER)


@scenes("overlap")
def overlap(rule: PairRule, process: Process) -> Iterator[Scene]:
    """Shapes that reach into another layer at every angle, that touch it, and that lie apart."""
    first, second, value, length, thick = sides(rule)
    for name, along in ANGLES.items():
        limit = at_angle(rule, along)

        def reach(delta: int, along: Vector = along, limit: int = limit) -> list[Shape]:
            # the first lies below, its upper side inside the second
            lower, into = left_of(along, thick, True), left_of(along, limit + delta, delta >= 0)
            start = move(move((0, 0), lower, -1), into, 1)
            return [
                bar(first, move(start, along, 10), along, length / 2, lower),
                bar(second, (0, 0), along, length, left_of(along, 2 * thick, True)),
            ]

        yield Scene(f"side at {name}", reach, LIMIT, slack=tilted_slack(rule) if along == (1, 0) else None)

    def corner(delta: int) -> list[Shape]:
        reach = value + delta
        return [box(second, 0, 0, length, length), box(first, -thick, -thick, reach, 2 * value)]

    def touching(delta: int) -> list[Shape]:
        return [box(second, 0, 0, length, thick), box(first, 0, thick, length, 2 * thick)]

    def apart(delta: int) -> list[Shape]:
        return [box(first, 0, 0, length, thick), box(second, 0, 3 * thick, length, 4 * thick)]

    def within(delta: int) -> list[Shape]:
        return [box(second, 0, 0, length, length), box(first, 0, 1_000, value, 1_000 + thick)]

    yield Scene("corner", corner, LIMIT)
    yield Scene("touching from outside", touching, NEVER)
    yield Scene("apart", apart, NEVER)
    yield Scene("alone", lambda delta: apart(delta)[:1], NEVER)
    yield Scene("inside", within, ALWAYS)


@scenes("enclosure")
def enclosure(rule: PairRule, process: Process) -> Iterator[Scene]:
    """Margins at every angle, at corners, and where the second ends within the first."""
    first, second, value, length, thick = sides(rule)
    for name, along in ANGLES.items():
        limit = at_angle(rule, along)

        def margin(delta: int, along: Vector = along, limit: int = limit) -> list[Shape]:
            across, between = left_of(along, thick, True), left_of(along, limit + delta, delta >= 0)
            around = move(across, left_of(along, 3 * value + 1_000, True), 1)
            inset = move(between, along, round(2 * value / math.hypot(*along)) + 1)
            return [
                bar(first, inset, along, length - 6 * value, across),
                bar(second, (0, 0), along, length, around),
            ]

        yield Scene(f"side at {name}", margin, LIMIT, slack=tilted_slack(rule) if along == (1, 0) else None)

    def corner(delta: int) -> list[Shape]:
        # the second has a corner cut out beside the first's
        x, y = slanted(value + delta, delta >= 0)
        margin = 2 * value
        notched = polygon(
            second,
            (-margin, -margin),
            (-margin, thick + y),
            (-x, thick + y),
            (-x, thick + margin),
            (length, thick + margin),
            (length, -margin),
        )
        return [box(first, 0, 0, length - margin, thick), notched]

    def one_of_four(delta: int) -> list[Shape]:
        margins = [2 * value, value + delta, 2 * value, 2 * value]
        return [
            box(first, 0, 0, length, thick),
            box(second, -margins[0], -margins[1], length + margins[2], thick + margins[3]),
        ]

    def ends_within(delta: int) -> list[Shape]:
        return [box(first, 0, 0, length, value), box(second, -value, -value, length + value, value // 2)]

    def beside(delta: int) -> list[Shape]:
        # closer than the limit, but without overlap
        return [box(first, 0, 0, length, thick), box(second, -value // 2, thick + delta, length, thick + 4 * value)]

    yield Scene("corner", corner, LIMIT)
    yield Scene("one side of four", one_of_four, LIMIT)
    yield Scene("ends within it", ends_within, NEVER)
    yield Scene("beside it", beside, {1: 0, value // 2: 0})
    size = 6 * value + 1_000

    def in_tile(delta: int) -> list[Shape]:
        low, high = 2 * value, size - 2 * value
        return [box(second, 0, 0, size, size), box(first, value + delta, low, high, high)]

    # the second layer of the copies joins, so that only the copies at the left are too close to its edge
    yield Scene("in copies that meet", in_tile, {-1: 2, 0: 0, 1: 0}, tile=lambda delta: (size, size))


@scenes("contact_overlap")
def contact_overlap(rule: PairRule, process: Process) -> Iterator[Scene]:
    """A bar whose end reaches into a plate, at every angle."""
    first, second, value, length, _ = sides(rule)
    for name, along in ANGLES.items():
        across = opposite(along)

        def contact(delta: int, along: Vector = along, across: Vector = across) -> list[Shape]:
            # both drawn across the bar: its length is the distance between two parallels
            depth = left_of(across, value + delta, delta >= 0)
            plate = left_of(across, 3 * value, True)
            whole = left_of(across, length, True)
            return [
                bar(first, move(depth, whole, -1), across, 1_000, whole),
                bar(second, move((0, 0), across, -round(3_000 / math.hypot(*across))), across, 8_000, plate),
            ]

        # at odd angles, the points where heater and metal cross are rounded to the grid
        verdicts = LIMIT if along in ((1, 0), (1, 1)) else {-1: 1, 1: 0, 2: 0}
        yield Scene(f"end at {name}", contact, verdicts, slack=tilted_slack(rule) if along == (1, 0) else None)


@scenes("exclusion")
def exclusion(rule: BooleanRule, process: Process) -> Iterator[Scene]:
    """Shapes that touch and overlap at every angle."""
    first, second = rule.layers
    for name, along in ANGLES.items():

        def touch(delta: int, along: Vector = along) -> list[Shape]:
            across, over = left_of(along, 3_000, True), left_of(along, max(0, -delta), True)
            upper = move(move(across, over, -1), along, 10)
            return [bar(first, (0, 0), along, 20_000, across), bar(second, upper, along, 20_000, across)]

        yield Scene(f"sides at {name}", touch, LIMIT, slack=(2, 3) if along == (1, 0) else None)

    def corner(delta: int) -> list[Shape]:
        return [box(first, 0, 0, 10_000, 10_000), box(second, 10_000 + delta, 10_000 + delta, 20_000, 20_000)]

    pair = [box(first, 0, 0, 5_000, 5_000), box(second, 7_000, 0, 9_000, 5_000)]
    yield Scene("between copies", lambda _: pair, {-1: 4, 0: 0, 1: 0}, tile=lambda delta: (9_000 + delta, 8_000))
    yield Scene("corners", corner, LIMIT)
    yield Scene(
        "one in the other", lambda d: [box(first, 0, 0, 9_000, 9_000), box(second, 4_000, 4_000, 5_000, 5_000)], NEVER
    )


@scenes("inside")
def inside(rule: BooleanRule, process: Process) -> Iterator[Scene]:
    """Shapes that end at the edge of another at every angle, and shapes that extend beyond it."""
    first, second = rule.layers
    for name, along in ANGLES.items():

        def flush(delta: int, along: Vector = along) -> list[Shape]:
            thin, thick = left_of(along, 3_000, True), left_of(along, 20_000, True)
            within = left_of(along, abs(delta), True)
            start = move((0, 0), within, 1 if delta > 0 else -1)
            return [
                bar(first, move(start, along, 100), along, 10_000, thin),
                bar(second, move((0, 0), along, -100), along, 40_000, thick),
            ]

        yield Scene(f"side at {name}", flush, LIMIT, slack=(2, 3) if along == (1, 0) else None)

    def across_two(delta: int) -> list[Shape]:
        return [
            box(first, 4_000, 4_000, 6_000, 6_000),
            box(second, 0, 0, 5_000, 10_000),
            box(second, 5_000 + max(0, -delta), 0, 10_000, 10_000),
        ]

    yield Scene("on two that meet", across_two, LIMIT)
    yield Scene("apart", lambda delta: [box(first, 0, 0, 1_000, 1_000), box(second, 2_000, 0, 9_000, 9_000)], NEVER)
    yield Scene("alone", lambda delta: [box(first, 0, 0, 1_000, 1_000)], NEVER)
