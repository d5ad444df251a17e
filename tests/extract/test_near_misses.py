"""Devices that are nearly golden are named with the parameter that is off; others, and clean chips, never are."""

from __future__ import annotations

from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.extract import extract
from optinc_pdk.extract.golden import Variant, read_golden

PROCESS = load_process()
GOLDEN = read_golden(PROCESS)
FAR = 400_000


def golden(name: str, turn: int) -> Variant:
    return [variant for variant in GOLDEN if variant.name == name][turn]


def nearly(tmp_path: Path, shapes: list[kdb.Polygon]) -> list[str]:
    layout = kdb.Layout()
    layout.create_cell("TOP").shapes(layout.layer(*PROCESS.layers["core"].gds)).insert(kdb.Region(shapes))
    layout.write(str(tmp_path / "drawn.gds"))
    return [f.message for f in extract(tmp_path / "drawn.gds", PROCESS).faults if f.kind == "nearly"]


def stretched(polygon: kdb.Polygon, beyond: int, by: int) -> kdb.Polygon:
    """A polygon whose points right of a line are moved to the right."""
    return kdb.Polygon([kdb.Point(p.x + by * (p.x > beyond), p.y) for p in polygon.each_point_hull()])


@pytest.mark.parametrize("by", [-30, -5, 1, 5, 50])
def test_a_longer_coupler_is_told_by_its_length(by: int, tmp_path: Path) -> None:
    variant = golden("directional_coupler", 0)
    middle = kdb.Region(list(variant.core)).bbox().center().x
    shapes = [stretched(polygon, middle, by) for polygon in variant.core]
    (message,) = nearly(tmp_path, shapes)
    assert message.startswith("directional_coupler at (18.7") and ", 0.000) is none: " in message
    assert f"length is {17.5 + by / 1000:.3f} µm, in the golden device 17.500" in message
    assert f"lies ({by:+d}, +0) nm off" in message or f"lies ({-by:+d}, +0) nm off" in message


@pytest.mark.parametrize("by", [-7, 1, 20])
def test_a_wider_gap_is_told(by: int, tmp_path: Path) -> None:
    low, high = sorted(golden("directional_coupler", 0).core, key=lambda p: p.bbox().bottom)
    (message,) = nearly(tmp_path, [low, high.moved(0, by)])
    assert f"gap is {0.2 + by / 1000:.3f} µm, in the golden device 0.200" in message


def test_a_turned_coupler_among_sound_ones_is_found_alone(tmp_path: Path) -> None:
    sound, turned = golden("directional_coupler", 0).core, golden("directional_coupler", 1).core
    middle = kdb.Region(list(turned)).bbox().center().y
    bad = [
        kdb.Polygon([kdb.Point(p.x + FAR, p.y + 5 * (p.y > middle)) for p in polygon.each_point_hull()])
        for polygon in turned
    ]
    (message,) = nearly(tmp_path, [*sound, *bad, *(p.moved(0, FAR) for p in golden("mmi2x2", 0).core)])
    assert "length is 17.505 µm" in message


def test_a_longer_body_is_told_and_another_shape_is_nothing(tmp_path: Path) -> None:
    (body,) = golden("mmi2x2", 0).core
    (message,) = nearly(tmp_path, [stretched(body, body.bbox().center().x, 5)])
    assert "mmi2x2 at" in message and "length is 42.505 µm, in the golden device 42.500" in message
    assert nearly(tmp_path, [kdb.Polygon(kdb.Box(0, 0, 20_000, 5_000))]) == []
    assert nearly(tmp_path, [kdb.Polygon(kdb.Box(0, 0, 90_000, 450))]) == []
    assert nearly(tmp_path, [*golden("directional_coupler", 0).core, body.moved(FAR, 0)]) == []
