"""Lengths and widths of guides are those of the drawn lines, whatever rounding to the grid does to their chords."""

from __future__ import annotations

import math
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import load_process
from optinc_pdk.cells.curves import circular_arc, euler_bend, polyline_length_um, ribbon, round_corners, s_bend
from optinc_pdk.extract import extract
from optinc_pdk.extract._guide_strips import FREE_ERROR_NM2, StripRule, StripSides, mean_width_fault
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.golden_devices import read_golden

BEND_NM = 0.4
"""Largest error of the length of a bend by 90°."""
TURNS = [kdb.Trans(turns, mirrored, 0, 0) for mirrored in (False, True) for turns in range(4)]


def strip(line: Floats, move: kdb.Trans = TURNS[0]) -> StripSides:
    """The sides of a guide along a line (n, 2) in µm, moved."""
    points = ribbon(line, 0.45)
    # mirroring exchanges the sides
    half = np.split(np.array([(p.x, p.y) for p in (move * kdb.Point(*xy) for xy in points.tolist())]), 2)
    left, right = (distinct(side) for side in half)
    return StripSides(right[::-1], left[::-1]) if move.is_mirror() else StripSides(left, right)


def distinct(points: Ints) -> Ints:
    """Points without those that equal the one before."""
    return points[np.append(True, np.any(np.diff(points, axis=0) != 0, axis=1))]


@settings(max_examples=150, deadline=None)
@given(st.integers(5_000, 120_000), st.integers(32, 4_000), st.sampled_from([90, 180]))
def test_an_arc_of_any_radius_and_number_of_chords_has_its_length(radius_nm: int, chords: int, angle: int) -> None:
    line = circular_arc(radius_nm / 1000, angle, chords)
    error = (strip(line).length_um - polyline_length_um(line)) * 1000
    assert abs(error) < BEND_NM * angle / 90


@pytest.mark.parametrize("chords", [16, 64, 360, 2000])
@pytest.mark.parametrize("radius", [5.0, 10.0, 33.3, 80.0])
def test_euler_bends_and_s_bends_have_their_lengths(radius: float, chords: int) -> None:
    for line in (euler_bend(radius, chords, 90.0, 0.5)[0], s_bend(3 * radius, radius, radius, chords)):
        assert abs(strip(line).length_um - polyline_length_um(line)) * 1000 < BEND_NM


def test_errors_do_not_grow_with_the_length_of_straights() -> None:
    corners = np.array([[0, 0], [5_000, 0], [5_000, 400], [12_000, 400]], dtype=float)
    line = round_corners(corners, 10.0, 64)
    assert abs(strip(line).length_um - polyline_length_um(line)) * 1000 < 2 * BEND_NM


@pytest.mark.parametrize("line", [circular_arc(7.003, 90, 700), euler_bend(10.0, 64)[0], s_bend(40.0, 3.0, 10.0, 64)])
def test_the_length_is_the_same_from_both_ends_and_in_all_orientations(line: Floats) -> None:
    found = {strip(line, turn).length_um for turn in TURNS} | {strip(line, turn).back.length_um for turn in TURNS}
    assert len(found) == 1


@given(st.lists(st.integers(1, 59_999), max_size=5))
def test_corners_on_a_straight_do_not_change_the_length(extra: list[int]) -> None:
    line = np.concatenate([circular_arc(10.0, 90, 200), [[10.0, 70.0]]])
    sides = strip(line)
    more = np.array([(10_000 - 225, 10_000 + y) for y in sorted(set(extra))], dtype=np.int64).reshape(-1, 2)
    left = np.concatenate([sides.left[:-1], more, sides.left[-1:]])
    assert StripSides(left, sides.right).length_um == sides.length_um


@given(st.integers(1, 200_000))
def test_a_straight_has_its_exact_length(length: int) -> None:
    sides = StripSides(np.array([(0, 225), (length, 225)]), np.array([(length, -225), (0, -225)]))
    assert sides.length_um == length / 1000


def test_a_lengthened_bend_is_measured_to_a_fraction_of_a_nanometre() -> None:
    for extra in (1, 5, 20):
        line = np.concatenate([circular_arc(10.0, 90, 1000), [[10.0, 20.0 + extra / 1000]]])
        assert abs(strip(line).length_um - (10 * math.pi / 2 + 10 + extra / 1000)) * 1000 < BEND_NM


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
