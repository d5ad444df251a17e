"""A case: one layout with the number of violations that a rule must report, drawn in one of several ways."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import klayout.db as kdb

from optinc_pdk.cards.rules import Rule
from rule_cases.drawing import Shape

LayerMap = Mapping[str, tuple[int, int]]
ARRAY = (3, 2)
# Displacement of cells, so that no border is at the origin.
SHIFT = kdb.Vector(12_345, -6_789)
TURNS = {
    "rotated by 90°": kdb.Trans.R90,
    "rotated by 180°": kdb.Trans.R180,
    "rotated by 270°": kdb.Trans.R270,
    "mirrored": kdb.Trans.M0,
    "mirrored at 45°": kdb.Trans.M45,
}
PLAIN, SPLIT, ARRAYED, TILED = "plain", "in two cells", "array of 3 by 2", "tiles of 3 by 2"
TILTS = {"rotated by 45°": 45.0, "rotated by 33.3°": 33.3}
# Largest change of a distance in nm by rounding to the grid after such a rotation: half a diagonal at each end.
ROUNDING_NM = 2


@dataclass(frozen=True)
class Case:
    """One layout and the number of violations that a rule must report.

    Attributes:
        rule: The rule that it tests; other rules are not checked.
        name: Contents of the layout.
        placement: How it is drawn: plain, in two cells, as an array, rotated, mirrored.
        delta_nm: Distance from the limit in steps (nm for lengths); negative on the forbidden side.
        fails: Number of distinct faults; 0 must pass.
        layout: With the only top cell `TOP`.
        global_: Whether it concerns the whole file, so that it can share none with other cases.
    """

    rule: Rule
    name: str
    placement: str
    delta_nm: int
    fails: int
    layout: kdb.Layout
    global_: bool = False


@dataclass(frozen=True)
class Scene:
    """A drawing for a rule as a function of the distance to its limit.

    Attributes:
        name: What is drawn.
        draw: From steps beyond the limit to shapes.
        verdicts: Number of faults at each number of steps.
        slack: Steps more than the limit and less than it that rotation by `TILTS` needs; None where it may not be.
        tile: From steps beyond the limit to the distances of columns and rows of an array whose copies meet each other;
            then nothing else is drawn.
        dbu: Database unit in µm.
        global_: Whether it concerns the whole file.
        alone: Whether it can share no file with other cases, copies of its own among them.
    """

    name: str
    draw: Callable[[int], Sequence[Shape]]
    verdicts: Mapping[int, int]
    slack: tuple[int, int] | None = None
    tile: Callable[[int], tuple[int, int]] | None = None
    dbu: float = 0.001
    global_: bool = False
    alone: bool = False


LIMIT = {-1: 1, 0: 0, 1: 0}


def tilted_slack(rule: Rule) -> tuple[int, int]:
    """Distances from the limit in nm at which a case must pass and must fail after a rotation by `TILTS`."""
    tolerance = round(1000 * getattr(rule, "angled_tolerance_um", 0.0))
    return max(0, ROUNDING_NM - tolerance), tolerance + ROUNDING_NM + 1


@dataclass(frozen=True)
class Plan:
    """A case that is not drawn yet; see `Case`."""

    placement: str
    delta_nm: int
    fails: int


def plans(scene: Scene) -> Iterator[Plan]:
    """All cases of a scene, not drawn."""
    for delta, faults in scene.verdicts.items():
        for placement in _placements(scene):
            yield Plan(placement, delta, faults * (math.prod(ARRAY) if placement == ARRAYED else 1))
    if scene.slack is not None:
        more, less = scene.slack
        for placement in TILTS:
            yield Plan(placement, more, 0)
            yield Plan(placement, -less, max(scene.verdicts.values()))


def drawn(rule: Rule, scene: Scene, layers: LayerMap, apart: int) -> Iterator[Case]:
    """All cases of a scene, drawn.

    Args:
        rule: The rule that it is for.
        scene: What is drawn.
        layers: Layers of the process.
        apart: How far copies in an array are from each other, in nm.
    """
    shapes = {delta: scene.draw(delta) for delta in dict.fromkeys(plan.delta_nm for plan in plans(scene))}
    for plan in plans(scene):
        tile = scene.tile(plan.delta_nm) if scene.tile else None
        layout = _placed(shapes[plan.delta_nm], plan.placement, layers, tile or apart, scene.dbu)
        yield Case(rule, scene.name, plan.placement, plan.delta_nm, plan.fails, layout, scene.global_ or scene.alone)


def _placements(scene: Scene) -> list[str]:
    if scene.global_:
        return [PLAIN]
    if scene.tile is not None:
        return [TILED]
    if scene.alone:
        return [PLAIN, SPLIT, "rotated by 90°", "mirrored"]
    return [PLAIN, SPLIT, ARRAYED, *TURNS]


def _placed(
    shapes: Sequence[Shape], placement: str, layers: LayerMap, apart: int | tuple[int, int], dbu: float
) -> kdb.Layout:
    layout = kdb.Layout()
    layout.dbu = dbu
    top = layout.create_cell("TOP")
    if placement == PLAIN:
        _insert(top, layers, shapes)
    elif placement == SPLIT:
        cells = [layout.create_cell(name) for name in ("LEFT", "RIGHT")]
        for number, shape in enumerate(shapes):
            pieces = shape.halves or (shape.whole,)
            for part, piece in enumerate(pieces):
                # shapes that face each other are split at opposite ends
                _insert(cells[(number + part) % 2], layers, [Shape(shape.layer, piece)])
        for cell, shift in zip(cells, (SHIFT, -SHIFT), strict=True):
            cell.transform(kdb.Trans(-shift))
            top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(shift)))
    else:
        unit = layout.create_cell("UNIT")
        _insert(unit, layers, shapes)
        _instance(top, unit, placement, apart)
    return layout


def _instance(top: kdb.Cell, unit: kdb.Cell, placement: str, apart: int | tuple[int, int]) -> None:
    number, size = unit.cell_index(), unit.bbox()
    if placement in (ARRAYED, TILED):
        x, y = apart if isinstance(apart, tuple) else (size.width() + apart, size.height() + apart)
        top.insert(kdb.CellInstArray(number, kdb.Trans(SHIFT), kdb.Vector(x, 0), kdb.Vector(0, y), *ARRAY))
    elif placement in TILTS:
        top.insert(kdb.DCellInstArray(number, kdb.DCplxTrans(1, TILTS[placement], False, kdb.DVector())))
    else:
        top.insert(kdb.CellInstArray(number, kdb.Trans(SHIFT) * TURNS[placement]))


def _insert(cell: kdb.Cell, layers: LayerMap, shapes: Sequence[Shape]) -> None:
    for shape in shapes:
        pair = layers[shape.layer] if isinstance(shape.layer, str) else shape.layer
        cell.shapes(cell.layout().layer(*pair)).insert(shape.whole)
