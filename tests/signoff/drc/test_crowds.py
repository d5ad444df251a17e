"""Combs with thousands of corners and crowds of shapes: rules take another way there and must find the same."""

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cards.rules import LineRule
from optinc_pdk.signoff.drc import _condensed_layout as condensed_layout
from optinc_pdk.signoff.drc import _guide_spacing as guide_spacing
from optinc_pdk.signoff.drc import _placed_shapes as placed_shapes
from optinc_pdk.signoff.drc import _shape_checks as shape_checks
from optinc_pdk.signoff.drc import design_rule_check
from optinc_pdk.signoff.drc._condensed_checks import prepare_condensed
from optinc_pdk.signoff.drc._shape_checks import violating_edge_pairs
from optinc_pdk.signoff.drc.design import Design, read_design
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, run_drc

PROCESS = load_process()
LAYERS = PROCESS.gds_layers
# rules of metal are checked on a condensed layout if there is a rule of guide space
RULES = [rule for rule in PROCESS.rules if rule.layers[:1] == ("metal",) or rule.kind == "guide_space"]
BELOW = -300_000
NOTCH = LineRule(
    id="metal.notch", kind="notch", layers=("metal",), value_um=10.0, ignore_angle_deg=80.0, angled_tolerance_um=0.002,
    text="Notches", source="none", severity="error",
)  # fmt: skip


def guides() -> kdb.Layout:
    """A chip with four cells of two guides: rules are checked on a condensed layout if cells repeat."""
    layout = kdb.Layout()
    layout.dbu = 0.001
    cell, top = layout.create_cell("GUIDES"), layout.create_cell("CHIP")
    for y in (0, 20_000):
        cell.shapes(layout.layer(*LAYERS["core"])).insert(kdb.Box(0, y, 50_000, y + 450))
    top.insert(kdb.CellInstArray(cell, kdb.Trans(0, 0), kdb.Vector(50_000, 0), kdb.Vector(), 4, 1))
    return layout


def check(layout: kdb.Layout, path: Path) -> DrcResult:
    layout.write(str(path))
    return run_drc(path, RULES, LAYERS)


def comb(teeth: int, width: int, gap: int, odd_width: int, odd_gap: int) -> kdb.Polygon:
    """A comb of `teeth` teeth, pointing down; its tooth in the middle and the gap after it differ from the others."""
    widths, gaps = (np.full(teeth, usual) for usual in (width, gap))
    widths[teeth // 2], gaps[teeth // 2] = odd_width, odd_gap
    left = np.concatenate([[0], np.cumsum(widths + gaps)[:-1]])
    points = [kdb.Point(0, BELOW)]
    for x, wide in zip(left.tolist(), widths.tolist(), strict=True):
        points += [kdb.Point(x + at, BELOW - depth) for at, depth in ((0, 20_000), (0, 90_000), (wide, 90_000))]
        points += [kdb.Point(x + wide, BELOW - 20_000)]
    return kdb.Polygon([*points, kdb.Point(points[-1].x, BELOW)])


def found(result: DrcResult) -> dict[str, int]:
    return {rule.id: rule.violations for rule in result.rules if rule.violations}


@pytest.mark.parametrize(
    ("odd", "violations"),
    [
        ((4000, 10_000), {}),
        ((3999, 10_000), {"metal.wire_width": 1}),
        ((4000, 9999), {"metal.space": 1, "metal.notch": 1}),
        ((1999, 9999), {"metal.width": 1, "metal.wire_width": 1, "metal.space": 1, "metal.notch": 1}),
    ],
    ids=["at the limits", "tooth", "gap", "both"],
)
def test_one_odd_tooth_of_a_large_comb_is_found(
    odd: tuple[int, int], violations: dict[str, int], tmp_path: Path
) -> None:
    polygon = comb(3000, 4000, 10_000, *odd)
    assert polygon.num_points() > shape_checks.MAX_CORNERS
    layout = guides()
    layout.top_cell().shapes(layout.layer(*LAYERS["metal"])).insert(polygon)
    layout.write(str(tmp_path / "comb.gds"))
    result = run_drc(tmp_path / "comb.gds", [*RULES, NOTCH], LAYERS)
    assert found(result) == violations
    for rule in result.rules:
        for marker in rule.markers:
            assert abs(marker.bbox().left - 1500 * 14.0) < 20.0


def dots(pitch: int, rng: np.random.Generator) -> kdb.Layout:
    """The guides with 25 metal dots of random size beside them, some of them too close, and a cell with dots."""
    layout = guides()
    top, layer = layout.top_cell(), layout.layer(*LAYERS["metal"])
    cell = layout.create_cell("DOTS")
    for number, (x, y) in enumerate(np.ndindex(5, 5)):
        width, height = rng.integers(200, pitch - 200, 2).tolist()
        box = kdb.Box(x * pitch, BELOW - y * pitch - height, x * pitch + width, BELOW - y * pitch)
        (cell if number % 7 == 0 else top).shapes(layer).insert(box)
    for x in (0, 40 * pitch):
        top.insert(kdb.CellInstArray(cell, kdb.Trans(x, 0)))
    return layout


def test_a_crowd_has_the_violations_of_its_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = dots(1000, np.random.default_rng(5))
    crowd = check(layout, tmp_path / "crowd.gds")
    assert found(crowd)["metal.width"] > 10
    monkeypatch.setattr(placed_shapes, "MAX_CROWD", 10**9)
    monkeypatch.setattr(condensed_layout, "MANY", 10**9)
    alone = check(layout, tmp_path / "alone.gds")
    for one, other in zip(crowd.rules, alone.rules, strict=True):
        assert one.markers == other.markers, one.id


def test_boxes_of_many_violations_are_merged_on_a_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = dots(1000, np.random.default_rng(6))
    few = check(layout, tmp_path / "few.gds")
    monkeypatch.setattr(condensed_layout, "MANY", 10)
    many = check(layout, tmp_path / "many.gds")
    for one, other in zip(few.rules, many.rules, strict=True):
        assert one.markers == other.markers, one.id


def test_a_check_ends_at_a_fraction_of_the_distance_that_has_many_violations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape_checks, "MAX_PAIRS", 1000)
    polygon = comb(2600, 100, 100, 100, 100)
    layout = guides()
    layout.top_cell().shapes(layout.layer(*LAYERS["metal"])).insert(polygon)
    result = check(layout, tmp_path / "fine.gds")
    assert found(result) == {"metal.width": 1001, "metal.wire_width": 1001, "metal.space": 1001}
    violated = [rule for rule in result.rules if rule.violations]
    assert all(0 < len(rule.markers) <= 1001 and rule.notes == () for rule in violated)


@pytest.mark.parametrize(("gap", "violations"), [(5000, {}), (4999, {"core.guide_space": 1})])
def test_a_narrow_gap_among_many_exempt_ones_is_found(
    gap: int, violations: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (guide_spacing, shape_checks):
        monkeypatch.setattr(module, "MAX_PAIRS", 1000)
    # two arms of a body are 1.2 µm apart, which the check of a quarter of the rule's value finds
    body, arms = kdb.Box(-2000, 0, 0, 2100), [kdb.Box(0, y, 24_000, y + 450) for y in (0, 1650)]
    # without cells, so that it is not condensed
    layout = kdb.Layout()
    core = layout.create_cell("CHIP").shapes(layout.layer(*LAYERS["core"]))
    for column, row in np.ndindex(30, 40):
        core.insert(kdb.Region([body, *arms]).moved(column * 60_000, BELOW - row * 60_000))
    for y in (0, 450 + gap):
        core.insert(kdb.Box(0, 2 * BELOW + y, 50_000, 2 * BELOW + y + 450).moved(-500_000, 0))
    layout.write(str(tmp_path / "bodies.gds"))
    (rule,) = (rule for rule in RULES if rule.id == "core.guide_space")
    assert found(run_drc(tmp_path / "bodies.gds", [rule], LAYERS)) == violations


@pytest.mark.parametrize(("gap", "violations"), [(10_000, {}), (9999, {"tolerant": 20})])
def test_narrow_gaps_among_many_within_the_tolerance_are_found(
    gap: int, violations: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape_checks, "MAX_PAIRS", 1000)
    # 45° and 9.9985 µm apart: 1.5 nm less than the limit, which rounding may cause
    step, side = 7070, 30_000
    layout = guides()
    metal = layout.top_cell().shapes(layout.layer(*LAYERS["metal"]))
    for number in range(2000):
        across = 2 * number * step
        bar = [(0, 0), (side, side), (side + step, side - step), (step, -step)]
        metal.insert(kdb.Polygon([kdb.Point(x + across, y - across + BELOW) for x, y in bar]))
        if number % 100 == 0:
            for y in (0, 20_000 + gap):
                metal.insert(kdb.Box(0, y, 20_000, y + 20_000).moved(across + 200_000, BELOW - across))
    layout.write(str(tmp_path / "bars.gds"))
    rule = NOTCH.model_copy(update={"id": "tolerant", "kind": "space"})
    assert found(run_drc(tmp_path / "bars.gds", [rule], LAYERS)) == violations


def test_more_violations_than_are_marked_are_one_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_rule_check, "MAX_MARKED", 10)
    layout = dots(1000, np.random.default_rng(5))
    (narrow,) = (rule for rule in check(layout, tmp_path / "crowd.gds").rules if rule.id == "metal.width")
    assert narrow.violations > 10
    assert narrow.notes == (f"at least {narrow.violations:,} violations; this box contains those that were found",)
    assert len(narrow.markers) == 1


def facing_chords(radius_um: float, width_um: float, points: int) -> kdb.Polygon:
    """A ring of so many chords on each side, in which every chord faces most others."""
    angle = np.linspace(0.0, 2 * np.pi, points, endpoint=False)
    outer, inner = (
        [kdb.DPoint(r * np.cos(a), r * np.sin(a)) for a in angle.tolist()] for r in (radius_um, radius_um - width_um)
    )
    ring = kdb.DPolygon(outer)
    ring.insert_hole(inner)
    return ring.to_itype(0.001).moved(0, BELOW)


@pytest.mark.parametrize(("layer", "radius_um", "width_um"), [("metal", 5.0, 0.5), ("core", 2.3, 0.45)])
def test_a_small_ring_of_short_chords_is_checked_in_a_moment(
    layer: str, radius_um: float, width_um: float, tmp_path: Path
) -> None:
    layout = guides()
    layout.top_cell().shapes(layout.layer(*LAYERS[layer])).insert(facing_chords(radius_um, width_um, 512))
    rules = [rule for rule in PROCESS.rules if layer in rule.layers[:1]]
    layout.write(str(tmp_path / "ring.gds"))
    result = run_drc(tmp_path / "ring.gds", rules, LAYERS)
    # 512 chords have more than 100,000 pairs; the test would take hours if their markers were merged
    expected = {"metal": {"metal.width", "metal.wire_width", "metal.space"}, "core": {"core.guide_space"}}[layer]
    assert set(found(result)) >= expected
    for rule in result.rules:
        if rule.id in expected:
            assert len(rule.markers) == 1


def pile() -> kdb.Layout:
    """A chip with two bent guides side by side, each drawn six times with 1 nm between the drawings."""
    layout = guides()
    top, cell = layout.top_cell(), layout.create_cell("BEND")
    angle = np.linspace(0.0, np.pi / 2, 60)
    outer, inner = ([kdb.DPoint(r * np.cos(a), r * np.sin(a)) for a in angle.tolist()] for r in (20_225.0, 19_775.0))
    cell.shapes(layout.layer(*LAYERS["core"])).insert(kdb.DPolygon([*outer, *inner[::-1]]).to_itype(1.0))
    for i in range(6):
        top.insert(kdb.CellInstArray(cell, kdb.Trans(i, -200_000)))
        top.insert(kdb.CellInstArray(cell, kdb.Trans(i, -200_000 - 5_000)))
    return layout


def test_a_pile_of_guides_is_not_condensed_and_its_gaps_are_found(tmp_path: Path) -> None:
    pile().write(str(tmp_path / "pile.gds"))
    design = read_design(tmp_path / "pile.gds", LAYERS, 1)
    condensed = prepare_condensed(design, RULES)
    assert condensed is not None
    assert condensed.guides is None
    assert set(found(run_drc(tmp_path / "pile.gds", RULES, LAYERS))) >= {"core.guide_space", "core.arm_space"}


@pytest.mark.parametrize(("gap", "violations"), [(5000, {}), (4999, {"core.guide_space": 1})])
def test_the_space_of_guides_with_many_corners_is_exact(gap: int, violations: dict[str, int], tmp_path: Path) -> None:
    layout = guides()
    x, teeth = np.arange(5200) * 50, np.arange(5200) % 2
    for bottom, sign in ((BELOW, -1), (BELOW + gap, 1)):
        side = [kdb.Point(*at) for at in zip(x.tolist(), (bottom + sign * (450 + teeth)).tolist(), strict=True)]
        ends = [kdb.Point(side[-1].x, bottom), kdb.Point(0, bottom)]
        layout.top_cell().shapes(layout.layer(*LAYERS["core"])).insert(kdb.Polygon([*side, *ends]))
    result = check(layout, tmp_path / "long.gds")
    assert found(result) == violations


def test_walls_of_a_notch_that_smoothing_removes_are_compared(tmp_path: Path) -> None:
    corners = [(0, 0), (15_000, 0), (15_000, 450), (8_300, 450), (8_300, 435), (7_700, 435), (7_700, 450), (0, 450)]
    layout = kdb.Layout()
    core = layout.create_cell("CHIP").shapes(layout.layer(*LAYERS["core"]))
    core.insert(
        kdb.Polygon([kdb.Point(*corner) for corner in corners]).transformed(kdb.ICplxTrans(1.0, 30.0, False, 0, 0))
    )
    layout.write(str(tmp_path / "notch.gds"))
    rules = [rule for rule in RULES if rule.kind == "guide_space"]
    assert found(run_drc(tmp_path / "notch.gds", rules, LAYERS)) == {"core.guide_space": 1, "core.arm_space": 1}


def test_a_crowd_of_one_angle_does_not_hide_the_pairs_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_checks, "MAX_PAIRS", 3)
    (rule,) = (rule for rule in RULES if rule.id == "core.guide_space")
    design = Design(kdb.Layout(), kdb.Cell(), LAYERS, 1)
    straight = kdb.EdgePair(kdb.Edge(0, 0, 0, 50), kdb.Edge(40, 50, 40, 0))
    slanted = kdb.EdgePair(kdb.Edge(0, 0, 30, 50), kdb.Edge(40, 50, 10, 0))

    # as where the check ends at another fraction of either distance
    def check(value: int) -> kdb.EdgePairs:
        return kdb.EdgePairs([slanted if value == design.dbu(rule.value_um) else straight] * 4)

    assert violating_edge_pairs(design, rule, check).count() > 3
