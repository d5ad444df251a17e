"""Markers of violations that touch are merged, exactly where that is possible."""

from itertools import pairwise

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.signoff.drc import violation_markers
from optinc_pdk.signoff.drc.violation_markers import MAX_TOUCHING, SAMPLE, merged_markers


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
    monkeypatch.setattr(violation_markers, "MAX_MERGED", 20)
    boxes = [kdb.Polygon(kdb.Box(1000 * k, 0, 1000 * k + 150, 100)) for k in range(10)]
    assert merged_markers(unmerged([alone, *pairs])) == sorted([alone, *boxes])
    monkeypatch.setattr(violation_markers, "MAX_MERGED", 21)
    assert merged_markers(unmerged([alone, *pairs])) == sorted(kdb.Region([alone, *pairs]).merged().each())
