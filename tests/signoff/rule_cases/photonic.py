"""Scenes of guides and heaters."""

from __future__ import annotations

import math
from collections.abc import Iterator

import klayout.db as kdb

from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import ContactsRule, ForeignGuideRule, GuideSpaceRule
from rule_cases.case import LIMIT, Scene, tilted_slack
from rule_cases.drawing import ANGLES, Shape, Vector, bar, box, left_of, move, polygon
from rule_cases.lines import at_angle, facing, gaps, nm
from rule_cases.registry import scenes


def guide_nm(process: Process) -> int:
    """Width of the process's guides."""
    return nm(float(process.guide.width_um))


@scenes("guide_space")
def guide_space(rule: GuideSpaceRule, process: Process) -> Iterator[Scene]:
    """Parallel guides at every angle, and shapes that couple them."""
    layer, value, guide = rule.layers[0], nm(rule.value_um), guide_nm(process)
    length = 10 * value
    for name, along in ANGLES.items():
        limit = at_angle(rule, along)

        def gap(delta: int, along: Vector = along, limit: int = limit) -> list[Shape]:
            return facing(layer, along, length, guide, left_of(along, limit + delta, delta >= 0))

        yield Scene(f"guides at {name}", gap, LIMIT, slack=tilted_slack(rule) if along == (1, 0) else None)
    yield from gaps(layer, value, value - nm(rule.angled_tolerance_um), length, guide)
    yield from coupled(rule, guide)
    radius = 1000 * float(process.guide.radius_um)
    yield Scene("two arcs of one guide, left then right", lambda delta: [swerve(layer, radius, guide)], {0: 0})
    middle, tall = guide + value // 2, min(guide, value // 4)
    speck = box(layer, length // 2, middle, length // 2 + guide, middle + tall)

    def parted(delta: int) -> list[Shape]:
        top = guide + value + delta
        return [box(layer, 0, 0, length, guide), speck, box(layer, 0, top, length, top + guide)]

    # silicon between two guides separates them only if it does so along their whole length
    yield Scene("guides with a speck between", parted, {-1: 1})


def swerve(layer: str, radius: float, width: int) -> Shape:
    """A guide of two quarter circles of 64 chords each, whose sides face each other along it."""
    steps = [math.pi / 2 * i / 64 for i in range(65)]
    line = [(-radius * math.cos(t), 2 * radius - radius * math.sin(t)) for t in steps]
    line += [(radius * math.sin(t), radius * math.cos(t)) for t in steps[1:]]
    return Shape(layer, kdb.Polygon(kdb.DPath([kdb.DPoint(*point) for point in line], width).polygon()))


def coupled(rule: GuideSpaceRule, guide: int) -> Iterator[Scene]:
    """Guides closer than the limit, at the ends of the shapes that exempt them."""
    layer, value = rule.layers[0], nm(rule.value_um)
    exempt, body = nm(rule.exempt_um), nm(rule.body_um)

    def arms(delta: int) -> list[Shape]:
        size, reach, inset = value + 2 * guide, 10_000 + exempt - delta, value // 10
        return [
            box(layer, 0, 0, 10_000, size),
            box(layer, 9_000, inset, reach, inset + guide),
            box(layer, 9_000, size - inset - guide, reach, size - inset),
        ]

    def wide(delta: int) -> list[Shape]:
        # silicon of exactly twice this width is not a body
        low = 2 * body + value // 2
        return [box(layer, 0, 0, 30_000, 2 * body + delta), box(layer, 0, low, 30_000, low + guide)]

    yield Scene("arms of a body", arms, LIMIT)
    yield Scene("beside a body", wide, {0: 1, 2: 0})
    for marker, polygons in zip(rule.layers[1:], rule.silicon_nm[-1:], strict=True):
        device = [polygon(layer, *points) for points in polygons]
        extent = kdb.Region([shape.whole for shape in device]).bbox()
        mark = box(marker, extent.left, extent.bottom, extent.right, extent.top)

        def other(_: int, mark: Shape = mark, extent: kdb.Box = extent) -> list[Shape]:
            low, high = extent.bottom, extent.bottom + guide + value // 2
            return [mark, *(box(layer, extent.left, y, extent.right, y + guide) for y in (low, high))]

        # once, because the thousands of chords of a device's curves face each other
        yield Scene("device under its mark", lambda _, shapes=(*device, mark): list(shapes), {0: 0}, global_=True)
        yield Scene("other guides under a mark", other, {-1: 1})
        if rule.coupled_width_um is not None:
            yield from two_guides(layer, marker, nm(rule.coupled_width_um), value)


def two_guides(layer: str, marker: str, width: int, value: int) -> Iterator[Scene]:
    """Two guides closer than the limit under a mark, and what makes the mark not valid."""
    length, gap, margin = 20 * width, value // 4, width
    top = width + gap
    mark = box(marker, 0, -margin, length, top + width + margin)

    def guide(low: int, wide: int = width, left: int = 0, right: int = length) -> Shape:
        return box(layer, left, low, right, low + wide)

    def of_width(delta: int) -> list[Shape]:
        return [guide(0), guide(top, width + delta), mark]

    def end(delta: int) -> list[Shape]:
        # guides may end at the border of their mark
        return [guide(0), guide(top, right=length - 1 + delta), mark]

    def third(delta: int) -> list[Shape]:
        # a guide that touches the mark from outside is as one under it; further away, it is closer than the limit
        return [guide(0), guide(top), mark, guide(-margin - width + 1 - delta)]

    def along(delta: int) -> list[Shape]:
        low = box(marker, 0, -1 + 1 - delta, length, top + width + margin)
        return [guide(0), guide(top), low]

    def stepped(delta: int) -> list[Shape]:
        return [guide(0), guide(top), mark, *([box(marker, 0, -margin - 1, width, 0)] if delta < 0 else [])]

    yield Scene("two guides of another width under a mark", of_width, {-1: 1, 0: 0, 1: 1})
    yield Scene("a guide that ends under a mark", end, {0: 1, 1: 0})
    yield Scene("a third guide under a mark", third, {0: 2, 1: 2, 2: 1})
    yield Scene("a guide along the border of a mark", along, {0: 1, 1: 0})
    yield Scene("a mark that is no rectangle", stepped, {-1: 1, 0: 0})


@scenes("contacts")
def contacts(rule: ContactsRule, process: Process) -> Iterator[Scene]:
    """A heater between two plates, and possible faults of it."""
    heater, metal = rule.layers

    def shifter(left: int = 12_000, right: int = 112_000, *more: Shape) -> list[Shape]:
        plates = [box(metal, left - 12_000, -6_000, left, 6_000), box(metal, right, -6_000, right + 12_000, 6_000)]
        return [box(heater, 1_000, -450, right + 11_000, 450), *plates, *more]

    def beside(delta: int) -> list[Shape]:
        # a wire close to the heater's side, and one over it
        return shifter(12_000, 112_000, box(metal, 60_000, 450 + delta, 64_000, 30_000))

    def at_end(delta: int) -> list[Shape]:
        return shifter(1_001 + delta)

    def together(delta: int) -> list[Shape]:
        legs = [box(metal, x, 5_000, x + 12_000, 40_000) for x in (0, 112_000)]
        return shifter(12_000, 112_000, *legs, box(metal, 0, 40_001 + delta, 124_000, 50_000))

    def between(delta: int) -> list[Shape]:
        return shifter(12_000, 12_001 + delta)

    # metal that only touches a heater is not a contact
    yield Scene("metal beside the heater", beside, LIMIT, slack=(3, 3))
    yield Scene("plate at the heater's end", at_end, LIMIT)
    yield Scene("plates joined elsewhere", together, LIMIT)
    yield Scene("no room between plates", between, LIMIT)
    yield Scene("no metal", lambda delta: shifter()[:1], {-1: 1})
    yield Scene("one plate", lambda delta: shifter()[:2], {-1: 1})
    third = box(metal, 60_000, -30_000, 62_000, 30_000)
    yield Scene("wire across", lambda delta: shifter(12_000, 112_000, third), {-1: 1})
    stub = box(heater, -5_000, -450, 5_000, 450)
    yield Scene("stub beyond a plate", lambda delta: shifter(12_000, 112_000, stub), {-1: 1})


def warm(rule: ForeignGuideRule, along: Vector, guide: int) -> list[Shape]:
    """A heater from the origin over its guide in a direction, between two plates; 100 µm and 900 nm."""
    heater, metal, core = rule.layers
    across, own = left_of(along, 900, True), left_of(along, guide, True)
    step = 1 / math.hypot(*along)
    ends = [move((0, 0), along, round(x * step)) for x in (-12_000, 100_000)]
    low = left_of(along, 4_000, True)
    return [
        bar(heater, move((0, 0), along, round(-10_000 * step)), along, 120_000, across),
        bar(core, move(left_of(along, 225, True), along, round(-40_000 * step)), along, 180_000, own),
        *(bar(metal, move(end, low, -1), along, 12_000, left_of(along, 9_000, True)) for end in ends),
    ]


@scenes("foreign_guide")
def foreign_guide(rule: ForeignGuideRule, process: Process) -> Iterator[Scene]:
    """Guides beside a heater at every angle, and arms of a body that the heater's guide enters."""
    core, value, guide = rule.layers[2], nm(rule.value_um), guide_nm(process)
    for name, along in ANGLES.items():

        def parallel(delta: int, along: Vector = along) -> list[Shape]:
            away = move(left_of(along, 900, True), left_of(along, value + delta, delta >= 0), 1)
            start = move(away, along, round(20_000 / math.hypot(*along)))
            return [*warm(rule, along, guide), bar(core, start, along, 40_000, left_of(along, guide, True))]

        # at odd angles, guides are cut at the checked window, and the cut is rounded to the grid
        verdicts = LIMIT if along in ((1, 0), (1, 1)) else {-1: 1, 1: 0, 2: 0}
        yield Scene(f"guide at {name}", parallel, verdicts, slack=(3, 3) if along == (1, 0) else None)
    yield from own_guides(rule, guide)


def own_guides(rule: ForeignGuideRule, guide: int) -> Iterator[Scene]:
    """Guides that count as the heater's own, and guides that no longer do."""
    core, value, exempt = rule.layers[2], nm(rule.value_um), nm(rule.exempt_um)

    def crossing(delta: int) -> list[Shape]:
        return [*warm(rule, (1, 0), guide), box(core, 50_000, -60_000, 50_000 + guide, 60_000)]

    def arm(delta: int) -> list[Shape]:
        # the guide enters a body behind the heater, and another arm comes back within the exempt distance
        left, low = 110_000, -value // 2 - guide
        body = box(core, left, low - 1_000, left + 8_000, 3_000)
        return [*warm(rule, (1, 0), guide), body, box(core, left - exempt + delta, low, left, low + guide)]

    def narrow(delta: int) -> list[Shape]:
        # the same with silicon too narrow to be a body: then all arms are the heater's own
        left, low = 110_000, -value // 2 - guide
        body = box(core, left, low - 20_000, left + 2 * nm(rule.body_um) - delta, 20_000)
        return [*warm(rule, (1, 0), guide), body, box(core, left - 2 * exempt, low, left, low + guide)]

    def tip_to_tip(delta: int) -> list[Shape]:
        return [*warm(rule, (1, 0), guide), box(core, 45_000, 900 + value + delta, 45_000 + guide, 900 + 2 * value)]

    yield Scene("crossing its own guide", crossing, {0: 0})
    # heater and guide of the next row, and the other way round
    high, wide = max(900 - 225, 225 + guide), 180_000 + 2 * (value + exempt)
    shapes = warm(rule, (1, 0), guide)
    yield Scene("rows of copies", lambda _: shapes, {-1: 3, 0: 0, 1: 0}, tile=lambda d: (wide, high + value + d))
    yield Scene("end of a guide", tip_to_tip, LIMIT)
    yield Scene("another arm of a body", arm, LIMIT)
    yield Scene("another arm of what is no body", narrow, {-2: 1, 0: 0})
