"""Widths of guides: errors of the width times the length are faults beyond what rounding to the grid explains."""

from __future__ import annotations

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cells.curves import round_corners
from optinc_pdk.extract import extract
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.golden_devices import read_golden
from optinc_pdk.extract.guide_strips import FREE_ERROR_NM2, StripRule, StripSides, mean_width_fault

PROCESS = load_process()
RULE = StripRule(450, 2, 600)


def straight(*bumps: tuple[int, int, int]) -> StripSides:
    """A guide of 100 µm whose upper side has triangular bumps, each given by its start, length and height in nm."""
    upper = [(0, 225)]
    for start, length, height in bumps:
        upper += [(start, 225), (start + length // 2, 225 + height), (start + length, 225)]
    upper.append((100_000, 225))
    return StripSides(np.array(upper), np.array([(100_000, -225), (0, -225)]))


def fault(strip: StripSides) -> Fault | None:
    return strip.fault(RULE)


@pytest.mark.parametrize("height", [1, 2, -1, -2])
def test_a_taper_is_a_fault_from_1_nm_um_on(height: int) -> None:
    longest = round(2 * FREE_ERROR_NM2 / abs(height))
    assert fault(straight((40_000, longest - 20, height))) is None
    found = fault(straight((40_000, longest + 20, height)))
    assert found is not None and found.kind == "width"
    assert ("too wide" in found.message) == (height > 0)
    assert found.position_um == pytest.approx((41, 0.225), abs=1)


def test_errors_of_several_stretches_add_up() -> None:
    assert fault(straight((10_000, 1_500, 1))) is None
    assert fault(straight((10_000, 1_500, 1), (80_000, 1_500, 1))) is not None


def test_errors_on_both_sides_add_up() -> None:
    one = straight((10_000, 1_500, 1))
    both = StripSides(one.left, np.array([(100_000, -225), (70_000, -225), (69_250, -226), (68_500, -225), (0, -225)]))
    assert fault(one) is None
    assert fault(both) is not None


def test_a_narrow_stretch_does_not_make_up_for_a_wide_one() -> None:
    assert fault(straight((10_000, 30_000, 1), (50_000, 30_000, -1))) is not None


def test_errors_in_consecutive_strips_add_up() -> None:
    once = straight((40_000, 1_500, 1)).width_errors(RULE)
    assert mean_width_fault([once], RULE) is None
    assert mean_width_fault([once, once], RULE) is not None
    assert mean_width_fault([once, once[::-1]], RULE) is not None


def bent(change: int) -> StripSides:
    """A quarter circle between two straights, whose outer side is moved outwards by some nm over the curve."""
    line = round_corners(np.array([(0.0, 0.0), (30.0, 0.0), (30.0, 30.0)]), 10.0, 64) * 1000
    along = np.diff(line, axis=0)
    normal = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.hypot(*along.T)[:, None]
    at = np.concatenate([normal[:1], (normal[1:] + normal[:-1]) / 2, normal[-1:]])
    at /= np.hypot(*at.T)[:, None]
    curve = np.zeros((len(line), 1))
    curve[3:-3] = change
    return StripSides(np.rint(line + 225 * at).astype(int), np.rint(line - (225 + curve) * at).astype(int)[::-1])


@pytest.mark.parametrize(("change", "clean"), [(0, True), (1, False), (-1, False)])
def test_a_bend_1_nm_too_wide_is_a_fault(change: int, clean: bool) -> None:
    assert (fault(bent(change)) is None) is clean


@pytest.mark.parametrize("length", [1_900, 2_100])
def test_a_tapered_guide_between_devices_is_a_fault(length: int, tmp_path: Path) -> None:
    layout = kdb.Layout()
    core = layout.create_cell("TOP").shapes(layout.layer(*PROCESS.gds_layers["core"]))
    ends = [variant for variant in read_golden(PROCESS) if variant.name == "terminator"]
    for variant, x in ((ends[0], 100_000), (ends[2], 0)):
        for polygon in variant.core:
            core.insert(polygon.moved(x, 0))
    upper = [(0, 225), (50_000, 225), (50_000 + length // 2, 226), (50_000 + length, 225), (100_000, 225)]
    points = [*upper, (100_000, -225), (0, -225)]
    core.insert(kdb.Polygon([kdb.Point(*point) for point in points]))
    layout.write(str(tmp_path / "guide.gds"))
    extraction = extract(tmp_path / "guide.gds", PROCESS)
    assert [found.kind for found in extraction.faults] == (["width"] if length > 2_000 else [])
    assert len(extraction.circuit.nets) == 1


@pytest.mark.parametrize("width", [500, 430])
def test_a_step_in_width_before_a_port_is_named_with_its_place(width: int, tmp_path: Path) -> None:
    grating = next(variant for variant in read_golden(PROCESS) if variant.name == "grating_coupler")
    (edge,) = grating.port_edges.values()
    x, y = ((grating.points[edge] + grating.ends[edge]) // 2).tolist()
    assert (x, y) == (0, 0)
    layout = kdb.Layout()
    core = layout.create_cell("TOP").shapes(layout.layer(*PROCESS.gds_layers["core"]))
    for polygon in grating.core:
        core.insert(polygon)
        core.insert(polygon.transformed(kdb.Trans(2, False, -40_000, 0)))
    core.insert(kdb.Box(-20_000, -225, 0, 225))
    core.insert(kdb.Box(-40_000, -width // 2, -20_000, width // 2))
    layout.write(str(tmp_path / "drawn.gds"))
    (fault,) = [fault for fault in extract(tmp_path / "drawn.gds", PROCESS).faults if fault.kind == "width"]
    assert f"{width}.0 nm" in fault.message
    assert fault.position_um[0] == pytest.approx(-20.0)
