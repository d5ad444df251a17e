"""Scenes of the share of a window that a layer covers."""

from __future__ import annotations

from collections.abc import Iterator

from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import DensityRule
from rule_cases.case import LIMIT, Scene
from rule_cases.chip import whole
from rule_cases.drawing import Shape, Vector, box, move, polygon
from rule_cases.lines import nm
from rule_cases.registry import scenes


@scenes("density")
def density(rule: DensityRule, process: Process) -> Iterator[Scene]:
    """Dies of one window and of several, filled to the limits; a step is 1 nm of a shape's side."""
    layer, outline = rule.layers
    window, step = nm(rule.window_um), nm(rule.step_um)
    most, least = round(rule.most * window), round(rule.least * window)
    die = whole(box(outline, 0, 0, window, window))
    larger = whole(box(outline, 0, 0, 2 * window, 2 * window))

    def filled(delta: int) -> list[Shape]:
        return [die, box(layer, 0, 0, window, most - delta)]

    def overlapping(delta: int) -> list[Shape]:
        # overlaps count once, and shapes outside the die do not count
        beyond = box(layer, window, 0, 2 * window, window)
        return [*filled(delta), box(layer, 0, 0, window // 2, most - delta), beyond]

    def block(delta: int) -> list[Shape]:
        return [larger, box(layer, step, step, step + window, step + most - delta)]

    yield Scene("die of one window", filled, LIMIT)
    yield Scene("overlaps", overlapping, LIMIT)
    if not least:
        yield Scene("nothing", lambda delta: [die], {0: 0})
        yield Scene("block in one window of many", block, LIMIT)
        yield from slanted_squares(rule, die)
    else:
        yield Scene("little", lambda delta: [die, box(layer, 0, 0, window, least + delta)], LIMIT)


def slanted_squares(rule: DensityRule, die: Shape) -> Iterator[Scene]:
    """A rectangle at 36.9° whose area is the limit, if it fits into a window; a step is 5 nm of one side."""
    window = nm(rule.window_um)
    # sides along (4, 3) and (-3, 4): 25 times the product of two numbers in nm²
    product = round(rule.most * window**2 / 25)
    pairs = ((n, product // n) for n in range(round(0.9 * product**0.5), round(product**0.5) + 1) if product % n == 0)
    for one, other in pairs:
        if 4 * other + 3 * one > window or 3 * other + 4 * one > window:
            continue

        def square(delta: int, one: int = one, other: int = other) -> list[Shape]:
            along, across = _sides(one, other - delta)
            start = (3 * one, 0)
            far = move(start, along, 1)
            return [die, polygon(rule.layers[0], start, far, move(far, across, 1), move(start, across, 1))]

        yield Scene("rectangle at 36.9°", square, LIMIT)
        return


def _sides(one: int, other: int) -> tuple[Vector, Vector]:
    return (4 * other, 3 * other), (-3 * one, 4 * one)
