"""Near misses: silicon that resembles a golden device is reported with the parameter that deviates."""

from __future__ import annotations

import re
from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.extract import extract
from optinc_pdk.extract._lookalikes import find_near_misses
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.golden_devices import GoldenVariant, read_golden
from optinc_pdk.extract.mask_layout import MaskLayout

PROCESS = load_process()
GOLDEN = read_golden(PROCESS)
FAR = 400_000


def golden(name: str, turn: int) -> GoldenVariant:
    return [variant for variant in GOLDEN if variant.name == name][turn]


def near_miss_messages(tmp_path: Path, shapes: list[kdb.Polygon]) -> list[str]:
    """Extract silicon and return the messages of its near misses."""
    layout = kdb.Layout()
    layout.create_cell("TOP").shapes(layout.layer(*PROCESS.layers["core"].gds)).insert(kdb.Region(shapes))
    layout.write(str(tmp_path / "drawn.gds"))
    return [f.message for f in extract(tmp_path / "drawn.gds", PROCESS).faults if f.kind == "nearly"]


def stretched(polygon: kdb.Polygon, beyond: int, by: int) -> kdb.Polygon:
    """Move the points of a polygon right of x = ``beyond`` to the right."""
    return kdb.Polygon([kdb.Point(p.x + by * (p.x > beyond), p.y) for p in polygon.each_point_hull()])


@pytest.mark.parametrize("by", [-30, -5, 1, 5, 50])
def test_a_longer_coupler_is_reported_with_its_length(by: int, tmp_path: Path) -> None:
    variant = golden("directional_coupler", 0)
    middle = kdb.Region(list(variant.core)).bbox().center().x
    shapes = [stretched(polygon, middle, by) for polygon in variant.core]
    (message,) = near_miss_messages(tmp_path, shapes)
    assert message.startswith("directional_coupler differs from its recognition polygon: length is ")
    assert re.search(rf"length is {17.5 + by / 1000:.3f} µm.* 17\.500", message)
    assert f"({by:+d}, +0) nm" in message or f"({-by:+d}, +0) nm" in message


@pytest.mark.parametrize("by", [-7, 1, 20])
def test_another_gap_is_reported_with_its_width(by: int, tmp_path: Path) -> None:
    low, high = sorted(golden("directional_coupler", 0).core, key=lambda p: p.bbox().bottom)
    (message,) = near_miss_messages(tmp_path, [low, high.moved(0, by)])
    assert re.search(rf"gap is {0.2 + by / 1000:.3f} µm.* 0\.200", message)


def test_a_stretched_rotated_coupler_among_golden_devices_is_the_only_near_miss(tmp_path: Path) -> None:
    unchanged, rotated = golden("directional_coupler", 0).core, golden("directional_coupler", 1).core
    middle = kdb.Region(list(rotated)).bbox().center().y
    stretched_shapes = [
        kdb.Polygon([kdb.Point(p.x + FAR, p.y + 5 * (p.y > middle)) for p in polygon.each_point_hull()])
        for polygon in rotated
    ]
    (message,) = near_miss_messages(
        tmp_path, [*unchanged, *stretched_shapes, *(p.moved(0, FAR) for p in golden("mmi2x2", 0).core)]
    )
    assert "length is 17.505 µm" in message


def test_a_longer_body_is_a_near_miss_and_other_shapes_are_not(tmp_path: Path) -> None:
    (body,) = golden("mmi2x2", 0).core
    (message,) = near_miss_messages(tmp_path, [stretched(body, body.bbox().center().x, 5)])
    assert message.startswith("mmi2x2 differs") and re.search(r"length is 42\.505 µm.* 42\.500", message)
    assert near_miss_messages(tmp_path, [kdb.Polygon(kdb.Box(0, 0, 20_000, 5_000))]) == []
    assert near_miss_messages(tmp_path, [kdb.Polygon(kdb.Box(0, 0, 90_000, 450))]) == []
    assert near_miss_messages(tmp_path, [*golden("directional_coupler", 0).core, body.moved(FAR, 0)]) == []


def test_without_golden_devices_there_are_no_near_misses() -> None:
    fault = Fault("silicon", "", (0.0, 0.0))
    assert find_near_misses(MaskLayout, [fault], (), (), PROCESS) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("by", [1_100, 5_000, 20_000])
def test_guides_far_apart_are_one_coupler_with_their_gap(by: int, tmp_path: Path) -> None:
    low, high = sorted(golden("directional_coupler", 0).core, key=lambda p: p.bbox().bottom)
    (message,) = near_miss_messages(tmp_path, [low, high.moved(0, by)])
    assert re.search(rf"gap is {0.2 + by / 1000:.3f} µm.* 0\.200", message)


def test_one_guide_of_a_coupler_is_not_called_a_coupler(tmp_path: Path) -> None:
    (message,) = near_miss_messages(tmp_path, [golden("directional_coupler", 0).core[0]])
    assert message.startswith("1 of the 2 guides of a directional_coupler")
