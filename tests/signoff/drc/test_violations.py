"""Violations that touch are merged, and those of a cell are reported once, with the number of its instances."""

from itertools import pairwise
from pathlib import Path

import klayout.db as kdb
import klayout.rdb as rdb
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.signoff.drc import _violations as violations
from optinc_pdk.signoff.drc._violations import MAX_TOUCHING, SAMPLE, merged_markers
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, run_drc
from optinc_pdk.signoff.drc.marker_database import write_lyrdb

PROCESS = load_process()
RULES = [rule for rule in PROCESS.rules if rule.id in ("core.width", "core.space")]
STEP = 100_000


def unmerged(polygons: list[kdb.Polygon]) -> kdb.Region:
    region = kdb.Region(polygons)
    region.merged_semantics = False
    return region


@pytest.mark.parametrize("seed", range(5))
def test_markers_that_touch_few_others_are_merged_as_klayout_merges_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    polygons = [
        kdb.Polygon([kdb.Point(*point) for point in (at + rng.integers(-60, 60, (4, 2))).tolist()])
        for at in rng.integers(0, 3000, (400, 2))
    ]
    assert merged_markers(unmerged(polygons)) == sorted(kdb.Region(polygons).merged().each())


def test_no_violation_has_no_marker() -> None:
    assert merged_markers(unmerged([])) == []


@pytest.mark.full
def test_markers_that_lie_on_each_other_become_one_box_and_others_stay_apart() -> None:
    rng = np.random.default_rng(0)
    pile = [kdb.Polygon(kdb.Box(x, y, x + 900, y + 900)) for x, y in rng.integers(0, 900, (4000, 2)).tolist()]
    alone = [kdb.Polygon(kdb.Box(100_000 * k, 5000, 100_000 * k + 7, 5009)) for k in range(1, 40)]
    assert len(pile) > max(SAMPLE, MAX_TOUCHING)
    markers = merged_markers(unmerged(pile + alone))
    assert sorted(each for each in markers if each in alone) == sorted(alone)
    assert len(markers) == len(alone) + 1
    box = next(each for each in markers if each not in alone)
    assert box.is_box()
    assert (kdb.Region(pile) - kdb.Region(box)).is_empty()
    assert box.bbox() == kdb.Region(pile).bbox()


def test_a_chain_of_thousands_of_markers_is_one_polygon() -> None:
    angle = np.linspace(0.0, np.pi, 3000)
    points = np.round(200_000 * np.stack([np.cos(angle), np.sin(angle)], axis=1)).astype(int).tolist()
    chain = [
        kdb.Polygon([kdb.Point(*a), kdb.Point(*b), kdb.Point(b[0], b[1] + 300), kdb.Point(a[0], a[1] + 300)])
        for a, b in pairwise(points)
    ]
    assert merged_markers(unmerged(chain)) == list(kdb.Region(chain).merged().each())


def test_of_more_violations_than_are_read_connected_ones_become_one_box(monkeypatch: pytest.MonkeyPatch) -> None:
    triangle = kdb.Polygon([kdb.Point(0, 0), kdb.Point(0, 100), kdb.Point(100, 0)])
    pairs = [triangle.moved(1000 * k + x, 0) for k in range(10) for x in (0, 50)]
    alone = triangle.moved(-1000, 0)
    monkeypatch.setattr(violations, "MAX_MERGED", 20)
    boxes = [kdb.Polygon(kdb.Box(1000 * k, 0, 1000 * k + 150, 100)) for k in range(10)]
    assert merged_markers(unmerged([alone, *pairs])) == sorted([alone, *boxes])
    monkeypatch.setattr(violations, "MAX_MERGED", 21)
    assert merged_markers(unmerged([alone, *pairs])) == sorted(kdb.Region([alone, *pairs]).merged().each())


class Chip:
    """A bad cell, and a good one, in a block that the top cell places in an array and once turned."""

    def __init__(self) -> None:
        self.layout = kdb.Layout()
        self.core = self.layout.layer(*PROCESS.layers["core"].gds)
        self.top, self.block, self.bad = (self.layout.create_cell(name) for name in ("TOP", "BLOCK", "BAD"))
        self.bad.shapes(self.core).insert(kdb.Box(0, 0, 20_000, 300))
        self.bad.shapes(self.core).insert(kdb.Box(0, 5_000, 20_000, 5_450))
        self.block.insert(kdb.CellInstArray(self.bad.cell_index(), kdb.Trans()))
        self.block.insert(kdb.CellInstArray(self.bad.cell_index(), kdb.Trans(1, True, 50_000, 0)))
        right, up = kdb.Vector(STEP, 0), kdb.Vector(0, STEP)
        self.top.insert(kdb.CellInstArray(self.block.cell_index(), kdb.Trans(), right, up, 4, 3))
        self.top.insert(kdb.CellInstArray(self.block.cell_index(), kdb.Trans(3, True, -STEP, -STEP)))

    def check(self, folder: Path) -> DrcResult:
        self.layout.write(str(folder / "chip.gds"))
        return run_drc(folder / "chip.gds", RULES, PROCESS.gds_layers)


def test_a_violation_of_a_cell_counts_once_in_all_orientations(tmp_path: Path) -> None:
    width, space = Chip().check(tmp_path).rules
    assert (width.violations, width.distinct, space.violations, space.distinct) == (26, 1, 0, 0)
    assert width.groups is not None
    (group,) = width.groups
    assert (group.cell, group.instances) == ("BAD", 26)
    assert group.marker.bbox().enlarged(0.002).contains(kdb.DPoint(10, 0.15))
    seen = group.marker.transformed(group.example)
    assert any(seen == marker for marker in width.markers)


def test_a_cell_without_shapes_on_the_layers_of_a_rule_is_not_to_blame(tmp_path: Path) -> None:
    chip = Chip()
    frame = chip.layout.create_cell("FRAME")
    frame.shapes(chip.layout.layer(*PROCESS.layers["outline"].gds)).insert(chip.top.bbox().enlarged(STEP))
    chip.top.insert(kdb.CellInstArray(frame.cell_index(), kdb.Trans()))
    chip.top.shapes(chip.core).insert(kdb.Box(0, -STEP, 20_000, 300 - STEP))
    width, _ = chip.check(tmp_path).rules
    assert width.groups is not None
    assert [(group.cell, group.instances) for group in width.groups] == [("TOP", 1), ("BAD", 26)]


def test_a_violation_of_one_instance_belongs_to_the_top_cell(tmp_path: Path) -> None:
    chip = Chip()
    # beside one of the 26, 100 nm above its broad guide
    chip.top.shapes(chip.core).insert(kdb.Box(STEP + 2_000, 5_550, STEP + 9_000, 6_100))
    # and one in every block, between its two cells
    chip.block.shapes(chip.core).insert(kdb.Box(20_100, 5_000, 20_600, 5_450))
    _, space = chip.check(tmp_path).rules
    assert space.groups is not None
    assert [(group.cell, group.instances) for group in space.groups] == [("TOP", 1), ("BLOCK", 13)]
    assert (space.violations, space.distinct) == (14, 2)


def test_a_violation_that_a_neighbour_removes_in_one_instance_is_not_grouped_by_that_cell(tmp_path: Path) -> None:
    chip = Chip()
    chip.top.shapes(chip.core).insert(kdb.Box(0, 0, 20_000, 450))
    width, _ = chip.check(tmp_path).rules
    assert width.groups is not None and width.violations == 25
    # one of 26 instances has no violation, so 12 whole blocks and half of one are left
    assert sum(group.instances for group in width.groups) == 25
    assert {group.cell for group in width.groups} <= {"TOP", "BLOCK"}


def test_the_database_has_items_by_cell_in_context_and_is_reproducible(tmp_path: Path) -> None:
    for name in ("a.lyrdb", "b.lyrdb"):
        write_lyrdb(Chip().check(tmp_path), tmp_path / name)
    assert (tmp_path / "a.lyrdb").read_bytes() == (tmp_path / "b.lyrdb").read_bytes()
    report = rdb.ReportDatabase("")
    report.load(str(tmp_path / "a.lyrdb"))
    (item,) = report.each_item()
    cell = report.cell_by_id(item.cell_id())
    assert cell.name() == "BAD"
    (reference,) = cell.each_reference()
    assert report.cell_by_id(reference.parent_cell_id).name() == "TOP"
    values = list(item.each_value())
    assert values[0].is_polygon() and values[1].string() == "26 instances"
