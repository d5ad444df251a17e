"""Design rules on drawings that differ from those of `rule_cases`, unusable files, and the results that are written."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import klayout.db as kdb
import klayout.rdb as rdb
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.extract import GdsError
from optinc_pdk.report.sign_off_results import violation_line
from optinc_pdk.signoff.drc.design_rule_check import ELECTRICAL_KINDS, DrcResult, run_drc
from optinc_pdk.signoff.drc.marker_database import write_lyrdb

PROCESS = load_process()
LAYERS = PROCESS.gds_layers
# rules that need a bias have tests of their own
RULES = {rule.id: rule for rule in PROCESS.rules if rule.kind not in ELECTRICAL_KINDS}
GUIDE = 450


class Drawing:
    """A layout drawn in nm."""

    def __init__(self, dbu: float = 0.001) -> None:
        self.layout = kdb.Layout()
        self.layout.dbu = dbu
        self.top = self.layout.create_cell("TOP")

    def shapes(self, layer: str) -> kdb.Shapes:
        return self.top.shapes(self.layout.layer(*LAYERS[layer]))

    def box(self, layer: str, left: int, bottom: int, right: int, top: int) -> None:
        self.shapes(layer).insert(kdb.Box(left, bottom, right, top))

    def polygon(self, layer: str, points: list[tuple[float, float]], angle_deg: float = 0) -> None:
        turn = kdb.DCplxTrans(1, angle_deg, False, 0, 0)
        rotated = kdb.DPolygon([kdb.DPoint(x, y) for x, y in points]).transformed(turn)
        self.shapes(layer).insert(kdb.Polygon(rotated))

    def ring(self, layer: str, center: tuple[float, float], radius: float, start: float, stop: float) -> None:
        """A guide along an arc, 64 chords per 90°."""
        count = max(2, round(64 * abs(stop - start) / 90))
        turns = np.radians(np.linspace(start, stop, count + 1))
        rays = [(math.cos(t), math.sin(t)) for t in turns]
        outer = [(center[0] + (radius + GUIDE / 2) * x, center[1] + (radius + GUIDE / 2) * y) for x, y in rays]
        inner = [(center[0] + (radius - GUIDE / 2) * x, center[1] + (radius - GUIDE / 2) * y) for x, y in rays]
        self.polygon(layer, outer + inner[::-1])

    def text(self, layer: str, string: str, x: int, y: int) -> None:
        self.shapes(layer).insert(kdb.Text(string, x, y))

    def check(self, folder: Path, rule_ids: list[str] | None = None) -> DrcResult:
        path = folder / "drawn.gds"
        self.layout.write(str(path))
        chosen = [RULES[name] for name in rule_ids] if rule_ids else list(RULES.values())
        return run_drc(path, chosen, LAYERS)


def shifter(d: Drawing, x: int = 0, y: int = 0) -> None:
    """A heater, 100 µm between its contacts, over its guide."""
    d.box("core", x - 20_000, y - 225, x + 144_000, y + 225)
    d.box("heater", x + 1_000, y - 450, x + 123_000, y + 450)
    d.box("metal", x, y - 6_000, x + 12_000, y + 6_000)
    d.box("metal", x + 112_000, y - 6_000, x + 124_000, y + 6_000)


def fibres(d: Drawing) -> None:
    for x in (0, 127_000):
        for line in range(20):
            d.box("etch70", x + 630 * line, 0, x + 630 * line + 315, 10_000)


def violations(folder: Path, rule_id: str, draw: Callable[[Drawing], None]) -> int:
    drawing = Drawing()
    draw(drawing)
    (result,) = drawing.check(folder, [rule_id]).rules
    return result.violations


def silicon_chip() -> Drawing:
    """A legal chip: MZI-like cells in a mirrored array, pads, fibres."""
    d = Drawing()
    d.box("outline", 0, 0, 5_500_000, 4_900_000)
    arm = d.layout.create_cell("ARM")
    chip, d.top = d.top, arm
    shifter(d)
    for sign in (-1, 1):
        d.box("core", 144_000, sign * 1_000 - 225, 150_000, sign * 1_000 + 225)
    d.box("core", 144_000, -3_000, 148_000, 3_000)
    d.top = chip
    for column, trans in enumerate((kdb.Trans.R0, kdb.Trans.M0, kdb.Trans.R180)):
        at = kdb.Trans(trans.rot, trans.is_mirror(), 1_000_000 + 500_000 * column, 2_000_000)
        step = kdb.Vector(0, 60_000)
        d.top.insert(kdb.CellInstArray(arm.cell_index(), at, kdb.Vector(400_000, 0), step, 1, 10))
    d.box("metal", 100_000, 100_000, 180_000, 180_000)
    d.text("label", "pad", 140_000, 140_000)
    for x in (200_000, 327_000):
        d.box("core", x, 600_000, x + 14_000, 612_000)
        for line in range(20):
            left = x + 1_000 + 630 * line
            d.box("etch70", left, 599_700, left + 315, 612_300)
    return d


def test_a_legal_chip_is_clean(tmp_path: Path) -> None:
    result = silicon_chip().check(tmp_path)
    assert {found.id: found.violations for found in result.rules if found.violations} == {}
    assert result.clean
    assert len(result.rules) == len(RULES) >= 25


def test_hierarchy_does_not_change_the_result(tmp_path: Path) -> None:
    drawing = silicon_chip()
    # violations inside the repeated cell, across instances, and in the chip
    arm = drawing.layout.cell("ARM")
    arm.shapes(drawing.layout.layer(*LAYERS["core"])).insert(kdb.Box(30_000, 25_000, 90_000, 25_340))
    arm.shapes(drawing.layout.layer(*LAYERS["metal"])).insert(kdb.Box(40_000, -7_000, 41_000, 49_000))
    drawing.box("core", 1_040_000, 2_000_325, 1_090_000, 2_000_775)
    deep = drawing.check(tmp_path)
    drawing.layout.flatten(drawing.top.cell_index(), -1, True)
    flat = drawing.check(tmp_path)
    assert {found.id for found in deep.rules if found.violations} >= {
        "core.width",
        "core.space",
        "core.guide_space",
        "metal.width",
        "metal.space",
        "heater.contacts",
        "heater.foreign_guide_recommended",
    }
    for one, other in zip(deep.rules, flat.rules, strict=True):
        assert one.markers == other.markers, one.id


@pytest.mark.parametrize("angle", [1, 7, 30, 33.3, 45, 89.7, 120.1])
@pytest.mark.parametrize(("width", "clean"), [(450, True), (350, True), (346, False)])
def test_width_of_rotated_guides(angle: float, width: int, clean: bool, tmp_path: Path) -> None:
    def draw(d: Drawing) -> None:
        d.polygon("core", [(0, 0), (0, width), (80_000, width), (80_000, 0)], angle)

    assert (violations(tmp_path, "core.width", draw) == 0) is clean


@pytest.mark.parametrize("angle", [7, 45, 63.1])
@pytest.mark.parametrize(("space", "clean"), [(5_000, True), (4_995, False)])
def test_space_of_rotated_guides(angle: float, space: int, clean: bool, tmp_path: Path) -> None:
    def draw(d: Drawing) -> None:
        for y in (0, GUIDE + space):
            d.polygon("core", [(0, y), (0, y + GUIDE), (80_000, y + GUIDE), (80_000, y)], angle)

    assert (violations(tmp_path, "core.guide_space", draw) == 0) is clean


def test_metal_is_measured_without_tolerance(tmp_path: Path) -> None:
    def draw(d: Drawing) -> None:
        d.polygon("metal", [(0, 0), (0, 1_998), (80_000, 1_998), (80_000, 0)], 30)

    assert violations(tmp_path, "metal.width", draw) == 1


def test_terminator_may_end_at_the_least_width(tmp_path: Path) -> None:
    for tip, expected in ((350, 0), (340, 1)):
        points = [(0.0, -225.0), (0.0, 225.0), (30_000.0, tip / 2), (30_000.0, -tip / 2)]
        assert violations(tmp_path, "core.width", lambda d, p=points: d.polygon("core", p)) == expected


@pytest.mark.parametrize("left", [-100_000, 5_400_000, 5_499_999, 6_000_000])
def test_shapes_that_straddle_or_leave_the_outline(left: int, tmp_path: Path) -> None:
    def draw(d: Drawing) -> None:
        d.box("outline", 0, 0, 5_500_000, 4_900_000)
        d.box("core", left, 2_000_000, left + 200_000, 2_000_450)

    assert violations(tmp_path, "chip.edge", draw) == 1


def test_a_chip_has_an_outline(tmp_path: Path) -> None:
    assert violations(tmp_path, "chip.outline", lambda d: d.box("core", 0, 0, 1_000, 1_000)) == 1
    assert violations(tmp_path, "chip.size", lambda d: d.box("core", 0, 0, 1_000, 1_000)) == 0


@pytest.mark.parametrize("fault", ["overlap", "edge", "corner", "same", "inside", "no rectangle"])
def test_outlines_are_rectangles_apart_from_each_other(fault: str, tmp_path: Path) -> None:
    second = {
        "overlap": (5_000_000, 0, 9_000_000, 4_900_000),
        "edge": (5_500_000, 1_000_000, 9_000_000, 3_000_000),
        "corner": (5_500_000, 4_900_000, 9_000_000, 9_800_000),
        "same": (0, 0, 5_500_000, 4_900_000),
        "inside": (1_000_000, 1_000_000, 2_000_000, 2_000_000),
    }

    def draw(d: Drawing) -> None:
        d.box("outline", 0, 0, 5_500_000, 4_900_000)
        # a third one, far away, is not part of the violation
        d.box("outline", 20_000_000, 0, 25_500_000, 4_900_000)
        if fault == "no rectangle":
            d.polygon("outline", [(0, 6_000_000), (0, 7_000_000), (1_000_000, 7_000_000), (2_000_000, 6_000_000)])
        else:
            d.box("outline", *second[fault])

    assert violations(tmp_path, "chip.outline", draw) == 1


@pytest.mark.parametrize("delta", [0, 1, -1])
@pytest.mark.parametrize(
    ("width", "height", "limit"),
    [(11_470_000, 4_900_000, "exact"), (5_500_000, 4_900_000, "exact"), (33_000_000, 26_000_000, "most")],
)
def test_sizes_of_dies(width: int, height: int, limit: str, delta: int, tmp_path: Path) -> None:
    """One die more than 5500 wide is larger only beyond the largest offered: 11470 by 4900."""
    found = violations(tmp_path, "chip.size", lambda d: d.box("outline", 0, 0, width, height + delta))
    # a nanometre higher than the offered dies is a larger die
    fits = delta >= 0 if limit == "exact" else delta <= 0
    assert found == (not fits)


@pytest.mark.parametrize("delta", [0, -1])
def test_a_die_turned_by_90_degrees_is_the_same_die(delta: int, tmp_path: Path) -> None:
    found = violations(tmp_path, "chip.size", lambda d: d.box("outline", 0, 0, 4_900_000 + delta, 5_500_000))
    assert found == (delta != 0)


def test_a_size_not_offered_fails_nothing(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.box("outline", 0, 0, 60_000_000, 5_000_000)
    result = drawing.check(tmp_path, ["chip.outline", "chip.size"])
    assert (result.violations, result.warnings, result.clean) == (0, 1, True)


def test_everything_is_in_one_of_several_dies(tmp_path: Path) -> None:
    def draw(d: Drawing, *lefts: int) -> None:
        for x in (0, 5_600_000, 11_200_000):
            d.box("outline", x, 0, x + 5_500_000, 4_900_000)
        for left in lefts:
            d.box("core", left, 2_000_000, left + 100_000, 2_000_450)

    inside = (50_000, 5_350_000, 5_650_000, 10_950_000, 11_250_000)
    assert violations(tmp_path, "chip.edge", lambda d: draw(d, *inside)) == 0
    # too close to a die's left or right edge, between two dies, beyond them
    for left in (49_999, 5_350_001, 5_649_999, 5_500_000, 5_450_000, 16_700_000, -200_000):
        assert violations(tmp_path, "chip.edge", lambda d, x=left: draw(d, *inside, x)) > 0


def test_guides_of_one_turn_are_checked_but_not_a_guides_two_sides(tmp_path: Path) -> None:
    """A U of radius 10 has its legs 19.55 apart; a tighter one is a notch in one polygon."""

    def u_turn(d: Drawing, radius: float) -> None:
        for y in (-radius, radius):
            d.box("core", -60_000, round(y) - 225, 0, round(y) + 225)
        d.ring("core", (0, 0), radius, -90, 90)

    assert violations(tmp_path, "core.guide_space", lambda d: u_turn(d, 10_000)) == 0
    assert violations(tmp_path, "core.guide_space", lambda d: u_turn(d, 2_700)) == 1
    assert violations(tmp_path, "core.bend_radius", lambda d: u_turn(d, 10_000)) == 0


def test_arms_of_a_coupler_are_exempt_near_it_only(tmp_path: Path) -> None:
    def coupler(d: Drawing, length: int) -> None:
        d.box("core", 0, 0, 30_000, 6_000)
        for y in (1_500, 4_500):
            d.box("core", 30_000, y - 225, 30_000 + length, y + 225)

    assert violations(tmp_path, "core.guide_space", lambda d: coupler(d, 25_000)) == 0
    assert violations(tmp_path, "core.guide_space", lambda d: coupler(d, 25_001)) == 1


def test_corners_of_devices_are_no_bends_but_mitred_guides_are(tmp_path: Path) -> None:
    def coupler(d: Drawing) -> None:
        d.box("core", 0, 0, 30_000, 6_000)
        d.box("core", 30_000, 2_775, 60_000, 3_225)

    def mitre(d: Drawing) -> None:
        d.box("core", 0, 0, 30_000, GUIDE)
        d.box("core", 30_000 - GUIDE, 0, 30_000, 30_000)

    assert violations(tmp_path, "core.bend_radius", coupler) == 0
    assert violations(tmp_path, "core.bend_radius", mitre) == 1


@pytest.mark.parametrize("angle", [0, 13, 45])
@pytest.mark.parametrize("turn", [20, 45, 90, 180])
def test_bends_of_any_angle(angle: float, turn: float, tmp_path: Path) -> None:
    # a turn of 20 degrees is shorter than the long arms
    for radius, expected in ((10_000, 0), (9_800 if turn > 20 else 8_500, 1)):
        points = centers(radius, turn)

        def draw(d: Drawing, points: list[tuple[float, float]] = points) -> None:
            path = kdb.DPath([kdb.DPoint(*point) for point in points], GUIDE)
            turned = path.polygon().transformed(kdb.DCplxTrans(1, angle, False, 0, 0))
            d.shapes("core").insert(kdb.Polygon(turned))

        assert violations(tmp_path, "core.bend_radius", draw) == expected


def test_kinks_in_a_guide_are_bends(tmp_path: Path) -> None:
    for slope, expected in ((0.03, 0), (0.1, 1)):
        points = [(-30_000.0, 0.0), (0.0, 0.0), (30_000.0, 30_000.0 * slope)]
        line = kdb.Polygon(kdb.DPath([kdb.DPoint(*point) for point in points], GUIDE).polygon())
        assert violations(tmp_path, "core.bend_radius", lambda d, p=line: d.shapes("core").insert(p)) == expected


def centers(radius: float, turn: float) -> list[tuple[float, float]]:
    """Centre line: straight, an arc, straight."""
    turns = np.radians(np.linspace(0, turn, max(2, round(64 * turn / 90)) + 1))
    arc = [(radius * math.sin(t), radius * (1 - math.cos(t))) for t in turns]
    end, last = arc[-1], turns[-1]
    return [(-20_000, 0.0), *arc, (end[0] + 20_000 * math.cos(last), end[1] + 20_000 * math.sin(last))]


def test_a_heaters_own_guide_may_bend_away(tmp_path: Path) -> None:
    """The guide turns down directly behind the contact, and a U brings it back 20 µm beside the heater."""

    def draw(d: Drawing, foreign_piece: bool = False) -> None:
        shifter(d)
        d.ring("core", (144_000, -10_000), 10_000, 90, -90)
        d.box("core", 0, -20_225, 144_000, -19_775)
        if foreign_piece:
            # cut off from the heater's guide, the same leg is foreign
            d.shapes("core").clear()
            d.box("core", -20_000, -225, 144_000, 225)
            d.box("core", 0, -20_225, 144_000, -19_775)

    for rule_id in ("heater.foreign_guide", "heater.foreign_guide_recommended"):
        assert violations(tmp_path, rule_id, draw) == 0
    assert violations(tmp_path, "heater.foreign_guide_recommended", lambda d: draw(d, True)) == 1


def test_the_other_arm_of_a_coupler_is_foreign_beside_the_heater(tmp_path: Path) -> None:
    def draw(d: Drawing) -> None:
        shifter(d)
        d.box("core", 144_000, -9_000, 160_000, 3_000)
        # back along the heater, 8 µm from it
        d.box("core", 0, -8_900, 144_000, -8_450)

    assert violations(tmp_path, "heater.foreign_guide", draw) == 1


@pytest.mark.parametrize("fault", ["no metal", "one contact", "shorted", "touching", "stub"])
def test_heater_contacts(fault: str, tmp_path: Path) -> None:
    def draw(d: Drawing) -> None:
        shifter(d)
        metal = d.shapes("metal")
        boxes = [shape.box for shape in metal.each()]
        if fault in ("no metal", "one contact"):
            metal.clear()
            for box in boxes[: fault == "one contact"]:
                metal.insert(box)
        elif fault == "shorted":
            for left, bottom, right in ((0, 0, 12_000), (112_000, 0, 124_000), (0, 50_000, 124_000)):
                d.box("metal", left, bottom, right, 60_000)
        elif fault == "touching":
            metal.clear()
            metal.insert(kdb.Box(-11_000, -6_000, 1_000, 6_000))
            metal.insert(boxes[1])
        else:
            d.box("heater", -5_000, -450, 5_000, 450)

    assert violations(tmp_path, "heater.contacts", draw) == 1


def test_a_labelled_pad_may_not_be_small(tmp_path: Path) -> None:
    def draw(d: Drawing) -> None:
        d.box("metal", 0, 0, 50_000, 50_000)
        d.text("label", "pad", 25_000, 25_000)

    assert violations(tmp_path, "pad.size", draw) == 1


def test_slab_that_ends_along_a_guide(tmp_path: Path) -> None:
    def draw(d: Drawing) -> None:
        d.box("core", 0, 0, 100_000, GUIDE)
        d.box("slab", 20_000, -10_000, 80_000, GUIDE // 2)

    assert violations(tmp_path, "slab.core_enclosure", draw) > 0


def test_a_finer_database_unit_is_flagged_and_still_measured(tmp_path: Path) -> None:
    drawing = Drawing(0.0005)
    drawing.box("core", 0, 0, 60_000, 699)
    result = drawing.check(tmp_path, ["chip.grid", "core.width"])
    assert [found.violations for found in result.rules] == [1, 1]


def test_warnings_do_not_fail(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.box("heater", 0, 0, 100_000, 700)
    result = drawing.check(tmp_path, ["heater.width", "heater.width_recommended"])
    assert (result.violations, result.warnings, result.clean) == (0, 1, True)


def test_markers_have_the_position(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.box("core", 10_000, 20_000, 70_000, 20_300)
    (found,) = drawing.check(tmp_path, ["core.width"]).rules
    assert found.boxes_um == pytest.approx(np.array([[10, 20, 70, 20.3]]), abs=0.002)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_unusable_files(tmp_path: Path) -> None:
    drawing = silicon_chip()
    drawing.check(tmp_path)
    whole = (tmp_path / "drawn.gds").read_bytes()
    several = Drawing()
    several.layout.create_cell("OTHER")
    several.layout.write(str(tmp_path / "several.gds"))
    kdb.Layout().write(str(tmp_path / "none.gds"))
    for path, reason in (
        (tmp_path / "missing.gds", "cannot be read"),
        (tmp_path, "cannot be read"),
        (written(tmp_path / "empty.gds", b""), "empty"),
        (written(tmp_path / "text.gds", b"no layout\n"), "neither GDS2 nor OASIS"),
        (written(tmp_path / "cut.gds", whole[: len(whole) // 2]), "damaged"),
        (written(tmp_path / "noise.gds", whole[:64] + bytes(range(256)) * 4), "damaged"),
        (tmp_path / "several.gds", "2 top cells: OTHER, TOP"),
        (tmp_path / "none.gds", "0 top cells"),
    ):
        with pytest.raises(GdsError, match=reason) as caught:
            run_drc(path, list(RULES.values()), LAYERS)
        assert path.name in str(caught.value)


def test_an_empty_chip_has_no_outline_and_nothing_else(tmp_path: Path) -> None:
    result = Drawing().check(tmp_path)
    (outline,) = (found for found in result.rules if found.violations)
    assert outline.id == "chip.outline"
    assert outline.notes == (f"the chip is empty: nothing on any layer of the process ({', '.join(LAYERS)})",)
    drawing = Drawing()
    drawing.box("core", 0, 0, 10_000, 10_000)
    (outline,) = drawing.check(tmp_path, ["chip.outline"]).rules
    assert outline.notes == ("nothing on layer outline: draw an outline for each die",)


@pytest.mark.parametrize("shape", [kdb.Path([kdb.Point(0, 0), kdb.Point(5_000, 0)], 0), kdb.Box(0, 0, 10, 0)])
def test_shapes_without_area_on_an_unknown_layer_are_reported(shape: kdb.Path | kdb.Box, tmp_path: Path) -> None:
    drawing = Drawing()
    cell = drawing.layout.create_cell("CELL")
    cell.shapes(drawing.layout.layer(3, 1)).insert(shape)
    for x in (1_000, 900_000):
        drawing.top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(1, False, x, 0)))
    (found,) = drawing.check(tmp_path, ["chip.layers"]).rules
    assert found.violations == 2
    assert found.distinct == 1
    assert found.notes == ("shapes on layer 3/1: remove them, or add the layer to process.yml",) * 2
    assert violation_line(found).endswith(f"Shapes lie on layers of the process only; {found.notes[0]}")


def test_every_violation_of_unknown_layers_names_its_layers(tmp_path: Path) -> None:
    drawing = Drawing()
    for layer, left in ((90, 0), (91, 5_000), (90, 50_000)):
        drawing.top.shapes(drawing.layout.layer(layer, 0)).insert(kdb.Box(left, 0, left + 10_000, 10_000))
    (found,) = drawing.check(tmp_path, ["chip.layers"]).rules
    assert [note.partition(":")[0] for note in found.notes] == ["shapes on layer 90/0, 91/0", "shapes on layer 90/0"]
    assert violation_line(found).endswith(f"; {found.notes[0]}; {found.notes[1]}")
    measured = tuple(f"{width} nm" for width in range(4))
    assert violation_line(replace(found, notes=measured)).endswith(found.rule.text)


def test_texts_may_lie_on_any_layer(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.top.shapes(drawing.layout.layer(206, 0)).insert(kdb.Text("splitter", 50, 60))
    (found,) = drawing.check(tmp_path, ["chip.layers"]).rules
    assert found.violations == 0


def test_lyrdb_lists_every_rule_and_is_reproducible(tmp_path: Path) -> None:
    drawing = silicon_chip()
    drawing.box("core", 3_000_000, 100_000, 3_060_000, 100_300)
    for name in ("a.lyrdb", "b.lyrdb"):
        write_lyrdb(drawing.check(tmp_path), tmp_path / "new" / name)
    one, other = ((tmp_path / "new" / name).read_bytes() for name in ("a.lyrdb", "b.lyrdb"))
    assert one == other
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a.lyrdb", "b.lyrdb"]
    report = rdb.ReportDatabase("")
    report.load(str(tmp_path / "new" / "a.lyrdb"))
    categories = {category.name(): category for category in report.each_category()}
    assert list(categories) == list(RULES)
    assert {name: category.num_items() for name, category in categories.items() if category.num_items()} == {
        "core.width": 1
    }
    assert "0.35 um" in categories["core.width"].description
    assert RULES["core.width"].text in categories["core.width"].description


def test_rules_are_ordered_by_the_file() -> None:
    positions = [PROCESS.folder.joinpath("rules.yml").read_text().index(f"id: {name},") for name in RULES]
    assert all(a < b for a, b in pairwise(positions))


@pytest.mark.parametrize("gap", [1, 10, 50])
def test_a_gap_in_a_guide_violates_the_space_rule(gap: int, tmp_path: Path) -> None:
    def draw(d: Drawing) -> None:
        d.box("core", 0, 0, 50_000, GUIDE)
        d.box("core", 50_000 + gap, 0, 100_000, GUIDE)

    assert violations(tmp_path, "core.space", draw) == 1


def test_a_guide_beside_a_couplers_arm_is_checked_beyond_the_exempt_region(tmp_path: Path) -> None:
    """Cutting off exempt arms neither adds nor hides a violation."""

    def draw(d: Drawing, y: int) -> None:
        d.box("core", 0, 0, 30_000, 6_000)
        d.box("core", 30_000, 2_775, 130_000, 3_225)
        d.box("core", 60_000, y, 130_000, y + GUIDE)

    assert violations(tmp_path, "core.guide_space", lambda d: draw(d, 8_225)) == 0
    assert violations(tmp_path, "core.guide_space", lambda d: draw(d, 8_224)) == 1


def test_a_grating_drawn_twice_counts_once(tmp_path: Path) -> None:
    drawing = Drawing()
    fibres(drawing)
    (before,) = drawing.check(tmp_path, ["fibre.pitch"]).rules
    top = drawing.layout.top_cell()
    whole = drawing.layout.create_cell("TWICE")
    for _ in range(2):
        whole.insert(kdb.CellInstArray(top.cell_index(), kdb.Trans()))
    (after,) = drawing.check(tmp_path, ["fibre.pitch"]).rules
    assert (before.violations, after.violations) == (0, 0)
