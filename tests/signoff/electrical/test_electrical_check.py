"""Electrical check: hand-computed ladders, sheets against finite elements, rules at their limits, damaged wiring."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import klayout.db as kdb
import klayout.rdb as rdb
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cards.rules import CurrentRule, IrDropRule, Rule
from optinc_pdk.circuit import Bias
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.drc._shape_checks import narrow_places
from optinc_pdk.signoff.drc.design_rule_check import ELECTRICAL_KINDS, run_drc
from optinc_pdk.signoff.drc.marker_database import write_lyrdb
from optinc_pdk.signoff.electrical import _resistive_sheet as resistive_sheet
from optinc_pdk.signoff.electrical import electrical_check
from optinc_pdk.signoff.electrical._resistive_sheet import ResistiveSheet
from optinc_pdk.signoff.electrical.electrical_check import (
    ElectricalResult,
    _narrowest,
    bias_currents,
    check_electrical,
    full_currents,
)
from optinc_pdk.signoff.electrical.wiring import Wiring, read_wiring

PROCESS = load_process()
LAYERS = PROCESS.gds_layers
CURRENT, RISE = (rule for rule in PROCESS.rules if rule.kind in ELECTRICAL_KINDS)
OHM = float(PROCESS.metal.sheet_ohm)
Edges = tuple[int, int, int, int]


class Board:
    """Heaters above each other, each with a pad of its own left of it, on one ground to the right; lengths in µm.

    Args:
        heights: Middle of each heater.
        wire: Width of the signals' wires.
        trunk: Width of the ground, which goes down to its pad.
        cut: Metal that is taken away.
    """

    def __init__(self, heights: list[int], wire: float = 4, trunk: float = 12, cut: Edges | None = None) -> None:
        self.layout = kdb.Layout()
        self.top = self.layout.create_cell("TOP")
        metal = kdb.Region()
        for i, y in enumerate(heights):
            self._box("core", -20, y - 0.225, 144, y + 0.225)
            self._box("heater", 1, y - 0.45, 123, y + 0.45)
            for left in (0, 112):
                metal.insert(self._scaled(left, y - 6, left + 12, y + 6))
            metal.insert(self._scaled(-200, y - 2, 0, y - 2 + wire))
            metal.insert(self._scaled(-280, y - 40, -200, y + 40))
            self._label(f"h{i}", -240, y)
        metal.insert(self._scaled(112, -20, 112 + trunk, max(heights) + 6))
        metal.insert(self._scaled(112, -100, 192, -20))
        self._label("GND0", 152, -60)
        if cut is not None:
            metal -= kdb.Region(self._scaled(*cut))
        self._shapes("metal").insert(metal.merged())

    def _shapes(self, layer: str) -> kdb.Shapes:
        return self.top.shapes(self.layout.layer(*LAYERS[layer]))

    def _scaled(self, *edges: float) -> kdb.Box:
        return kdb.Box(*(round(1000 * edge) for edge in edges))

    def _box(self, layer: str, *edges: float) -> None:
        self._shapes(layer).insert(self._scaled(*edges))

    def _label(self, text: str, x: float, y: float) -> None:
        self._shapes("label").insert(kdb.Text(text, round(1000 * x), round(1000 * y)))

    def write(self, folder: Path) -> Path:
        path = folder / "board.gds"
        self.layout.write(str(path))
        return path

    def wiring(self, folder: Path) -> Wiring:
        return read_wiring(self.write(folder), PROCESS)


def drive(count: int, *volts: float) -> Bias:
    """The bias that sets channels h0 … to some voltages, as near as codes can."""
    step = float(PROCESS.drive.full_scale_v) / (2**32 - 1)
    code = np.rint(np.resize(np.array(volts), count) / step).astype(np.int64)
    zeros = np.zeros(count)
    return Bias("soi220", "board", 32, tuple(f"h{i}" for i in range(count)), zeros, zeros, code * step, code)


def check(board: Board, folder: Path, bias: Bias, *rules: Rule) -> ElectricalResult:
    return check_electrical(rules, board.wiring(folder), bias)


def cells_of(sheet: ResistiveSheet, points: list[tuple[float, float]]) -> np.ndarray:
    """(n, 2) column and row of the cells that contain some points, which lie on no raster line."""
    return sheet.entries(points)[0][0]


def test_resistance_of_a_strip_is_its_number_of_squares() -> None:
    strip = kdb.Polygon(kdb.Box(0, 0, 100_000, 10_000))
    # across the whole far end
    sheet = ResistiveSheet.of([strip], [kdb.Box(0, 0, 1, 10_000)], 0.5)
    ends = [(99_999, int(y)) for y in (sheet.y[1:] + sheet.y[:-1]) / 2]
    voltage = sheet.voltages(cells_of(sheet, ends), np.full(len(ends), 0.01 / len(ends)))
    assert voltage.max() == pytest.approx(0.01 * 0.5 * 10, rel=1e-2)
    cuts = sheet.cuts(voltage)
    across = cuts.width == 10_000
    np.testing.assert_allclose(cuts.current[across][5:-5], 0.01, rtol=1e-9)


def test_two_heaters_on_a_ground_are_a_ladder(tmp_path: Path) -> None:
    """From the pad up: 10 squares to the first heater, 25 more to the second."""
    wiring = Board([100, 400]).wiring(tmp_path)
    assert wiring.labels == ("h0", "h1")
    first, second = wiring.rise_v(np.array([1.0, 0.0])), wiring.rise_v(np.array([0.0, 1.0]))
    assert first[1] == pytest.approx(10 * OHM, rel=0.02)
    # a network of resistors is symmetric
    assert second[0] == pytest.approx(first[1], rel=1e-6)
    # where its own current enters, it spreads from a point
    assert first[0] == pytest.approx(10 * OHM, rel=0.07)
    assert second[1] == pytest.approx(35 * OHM, rel=0.02)
    both = wiring.rise_v(np.array([2.0, 3.0]))
    np.testing.assert_allclose(both, 2 * first + 3 * second, rtol=1e-9)


def test_currents_equal_those_of_the_drive(tmp_path: Path) -> None:
    wiring = Board([100, 400]).wiring(tmp_path)
    # 100 µm by 0.9 at 10 ohm, and a wire of 200 µm by 4
    np.testing.assert_allclose(wiring.resistance_ohm, 10 * 100 / 0.9)
    np.testing.assert_allclose(wiring.wire_ohm, OHM * 50, rtol=1e-9)
    currents = bias_currents(wiring, drive(2, 5.0, 0.0))
    total = 10 * 100 / 0.9 + 50 * OHM
    np.testing.assert_allclose(currents.current_a, [(5 - currents.rise_v[0]) / total, 0], rtol=1e-8)
    assert currents.others_v(0) == 0
    assert currents.others_v(1) == pytest.approx(currents.rise_v[1], rel=1e-9)
    # the share of the voltage that is missing, twice of it in power
    shortfall = 2 * currents.rise_v[0] / 5 * np.pi * currents.current_a[0] ** 2 * wiring.resistance_ohm[0] / 0.025
    assert currents.phase_error_rad[0] == pytest.approx(shortfall, rel=2e-3)
    full = full_currents(wiring)
    np.testing.assert_allclose(full.voltage_v, full.current_a * total + full.rise_v)
    np.testing.assert_allclose(full.current_a**2 * wiring.resistance_ohm, 0.05)


def finite_elements(polygon: kdb.Polygon, sink: kdb.Box, source: kdb.Box, ohm: float) -> float:
    """Mean voltage of a source's points for 1 A that leaves at the sink; a dense solution on triangles."""
    corners = [
        kdb.DPoint(x / 1000, y / 1000)
        for box in (sink, source)
        for x, y in itertools.product((box.left, box.right), (box.bottom, box.top))
    ]
    triangles = polygon.to_dtype(0.001).delaunay(corners, 20.0, 0.5)
    points: dict[tuple[int, int], int] = {}
    cells = np.array(
        [
            [points.setdefault((round(1000 * p.x), round(1000 * p.y)), len(points)) for p in t.each_point_hull()]
            for t in triangles
        ]
    )
    place = np.array(list(points), dtype=np.float64)
    matrix = np.zeros((len(points), len(points)))
    for cell in cells:
        # gradients of the three hat functions
        a, b, c = place[cell]
        area = abs((b - a)[0] * (c - a)[1] - (b - a)[1] * (c - a)[0]) / 2
        sides = np.array([c - b, a - c, b - a])
        matrix[np.ix_(cell, cell)] += sides @ sides.T / (4 * area) / ohm

    def within(box: kdb.Box) -> np.ndarray:
        x, y = place.T
        return (x >= box.left) & (x <= box.right) & (y >= box.bottom) & (y <= box.top)

    held, into = within(sink), within(source)
    current = np.where(into, 1 / into.sum(), 0.0)
    voltage = np.zeros(len(points))
    voltage[~held] = np.linalg.solve(matrix[np.ix_(~held, ~held)], current[~held])
    return float(voltage[into].mean())


def test_a_bent_trunk_is_what_finite_elements_find() -> None:
    """A trunk into a bus with its pad at the far end, as grounds of a chip are."""
    metal = kdb.Region(kdb.Box(0, 0, 26_000, 120_000)) + kdb.Region(kdb.Box(0, 100_000, 300_000, 160_000))
    (polygon,) = metal.merged().each()
    sink, source = kdb.Box(260_000, 100_000, 300_000, 160_000), kdb.Box(0, 0, 26_000, 2_000)
    expected = finite_elements(kdb.Polygon(polygon), sink, source, OHM)
    sheet = ResistiveSheet.of([kdb.Polygon(polygon)], [sink], OHM)
    x, y = (sheet.x[1:] + sheet.x[:-1]) / 2, (sheet.y[1:] + sheet.y[:-1]) / 2
    points = [(u, v) for u in x[x < 26_000] for v in y[y < 2_000]]
    cells = cells_of(sheet, points)
    voltage = sheet.voltages(cells, np.full(len(points), 1 / len(points)))
    assert voltage[*cells.T].mean() == pytest.approx(expected, rel=0.02)
    cuts = sheet.cuts(voltage)
    trunk = (cuts.width == 26_000) & (cuts.boxes[:, 3] < 90_000) & (cuts.boxes[:, 1] > 10_000)
    np.testing.assert_allclose(cuts.current[trunk], 1, rtol=2e-3)


@pytest.mark.parametrize(("wire", "expected"), [(3.0, 0), (3.001, 0), (2.999, 1)])
def test_a_wire_is_as_wide_as_its_current_needs(wire: float, expected: int, tmp_path: Path) -> None:
    """6 mA take 3 µm at 2 mA per µm; the wire's own resistance is in its current."""
    board = Board([100], wire=wire)
    wiring = board.wiring(tmp_path)
    current = np.array([6e-3 * (1 - 1e-9)])
    volts = current * (wiring.resistance_ohm + wiring.wire_ohm) + wiring.rise_v(current)
    (found,) = check(board, tmp_path, drive(1, *volts.tolist()), CURRENT).rules
    assert (found.run, found.violations) == (True, expected)
    if expected:
        assert "h0: 2.001 mA/um, 6.000 mA in 2.999 um; limit 2 mA/um" in found.notes[0]
        np.testing.assert_allclose(found.boxes_um, [[-200, 98, 0, 101]], atol=1e-2)


def test_a_cut_across_half_of_a_wire_is_found(tmp_path: Path) -> None:
    board = Board([100], cut=(-100, 98, -90, 100))
    (found,) = check(board, tmp_path, drive(1, 6e-3 * 1120), CURRENT).rules
    assert found.violations == 1
    np.testing.assert_allclose(found.boxes_um, [[-100, 100, -90, 102]], atol=3)


@pytest.mark.parametrize(("trunk", "expected"), [(12.1, 0), (11.9, 1)])
def test_a_thin_ground_trunk_carries_too_much(trunk: float, expected: int, tmp_path: Path) -> None:
    """Four heaters of 6 mA on a trunk for 12 µm of them."""
    board = Board([100, 200, 300, 400], trunk=trunk)
    wiring = board.wiring(tmp_path)
    volts = 6e-3 * (wiring.resistance_ohm + wiring.wire_ohm)
    (found,) = check(board, tmp_path, drive(4, *volts.tolist()), CURRENT).rules
    assert found.violations == expected
    if expected:
        assert found.notes[0].startswith("ground GND0 of 4 heaters: 2.0")
        # below the lowest heater, where all four flow
        assert found.boxes_um[0, 1] >= -21 and found.boxes_um[0, 3] <= 100


@pytest.mark.parametrize(("factor", "expected"), [(1 + 1e-6, 0), (1 - 1e-6, 1)])
def test_the_rise_of_a_ground_has_a_limit(factor: float, expected: int, tmp_path: Path) -> None:
    board, bias = Board([100, 400]), drive(2, 7.0)
    rise = 1e3 * bias_currents(board.wiring(tmp_path), bias).rise_v
    assert isinstance(RISE, IrDropRule)
    (found,) = check(board, tmp_path, bias, RISE.model_copy(update={"value_mv": float(rise[1]) * factor})).rules
    assert rise[1] > rise[0] and found.violations == expected
    if expected:
        assert found.notes[0].startswith(f"h1: its ground is raised by {rise[1]:.1f} mV of 7.000 V")
        np.testing.assert_allclose(found.boxes_um, [[112, 394, 124, 406]], atol=0.51)


def test_half_a_trunk_raises_the_ground_further(tmp_path: Path) -> None:
    whole = Board([100, 400]).wiring(tmp_path).rise_v(np.array([1.0, 1.0]))
    # half the width over 60 µm is 5 squares more of both heaters' current, and a quarter at either end where it narrows
    cut = Board([100, 400], cut=(118, 20, 124, 80)).wiring(tmp_path).rise_v(np.array([1.0, 1.0]))
    np.testing.assert_allclose(cut - whole, 2 * 5.5 * OHM, rtol=0.02)


@pytest.mark.parametrize("turn", [kdb.Trans.M0, kdb.Trans.M45, kdb.Trans.R90, kdb.Trans.R180])
def test_a_turned_sheet_has_the_same_voltages(turn: int) -> None:
    """Currents enter on raster lines, where neither side of a line may count more."""
    metal = kdb.Region(kdb.Box(0, 0, 26_000, 120_000)) + kdb.Region(kdb.Box(0, 100_000, 300_000, 160_000))
    (polygon,) = metal.merged().each()
    sink = kdb.Box(260_000, 100_000, 300_000, 160_000)
    upright = ResistiveSheet.of([kdb.Polygon(polygon)], [sink], OHM)
    lines = [(x, y) for x in upright.x if 0 <= x <= 26_000 for y in upright.y[::3]]
    assert len(lines) > 20
    places = np.array(lines)
    move = kdb.Trans(turn)
    turned = ResistiveSheet.of([kdb.Polygon(polygon).transformed(move)], [sink.transformed(move)], OHM)
    moved = [(p.x, p.y) for p in (kdb.DTrans(turn) * kdb.DPoint(x, y) for x, y in lines)]
    current = np.linspace(0.001, 0.004, len(places))
    np.testing.assert_allclose(rises(turned, np.array(moved), current), rises(upright, places, current), rtol=1e-9)


def rises(sheet: ResistiveSheet, points: np.ndarray, current: np.ndarray) -> np.ndarray:
    """Voltages in V at points where currents in A enter a sheet."""
    cells, part = sheet.entries(points)
    np.testing.assert_allclose(part.sum(axis=0), 1.0)
    voltage = sheet.voltages(cells.reshape(-1, 2), (part * current).ravel())
    return np.asarray(np.sum(part * voltage[cells[..., 0], cells[..., 1]], axis=0))


def test_a_trunk_at_45_degrees_has_its_width(tmp_path: Path) -> None:
    strip = kdb.Polygon([kdb.Point(*p) for p in ((0, 0), (200_000, 200_000), (220_000, 180_000), (20_000, -20_000))])
    sheet = ResistiveSheet.of([strip], [kdb.Box(0, -20_000, 20_000, 0)], OHM)
    points = [(205_000, 190_000)]
    cuts = sheet.cuts(sheet.voltages(cells_of(sheet, points), np.array([1.0])))
    middle = (cuts.boxes[:, 0] > 60_000) & (cuts.boxes[:, 2] < 160_000) & (cuts.boxes[:, 1] > 40_000)
    middle &= cuts.boxes[:, 3] < 160_000
    density = (cuts.current / cuts.width)[middle]
    np.testing.assert_allclose(density, 1 / (20_000 * np.sqrt(2)), rtol=0.1)


def test_without_a_bias_electrical_rules_are_not_run(tmp_path: Path) -> None:
    path = Board([100], wire=1).write(tmp_path)
    width = next(rule for rule in PROCESS.rules if rule.id == "core.width")
    result = run_drc(path, [CURRENT, width, RISE], LAYERS)
    assert [found.id for found in result.rules] == ["core.width"]
    assert [(found.rule, found.run) for found in result.all_rules()] == [(CURRENT, False), (width, True), (RISE, False)]
    write_lyrdb(result, tmp_path / "a.lyrdb")
    assert (tmp_path / "a.lyrdb").read_text().count("NOT RUN") == 2
    electrical = check_electrical([CURRENT, width, RISE], read_wiring(path, PROCESS), drive(1, 7.0))
    assert [found.rule for found in electrical.rules] == [CURRENT, RISE]
    assert [found.run for found in result.all_rules(electrical.rules)] == [True, True, True]
    assert electrical.violations == electrical.rules[0].violations == 1
    assert electrical.current_ma_per_um > CURRENT.value_ma_per_um
    assert electrical.ground_rise_mv == 1e3 * electrical.currents.rise_v[0] > 0
    write_lyrdb(result, tmp_path / "a.lyrdb", electrical.rules)
    report = rdb.ReportDatabase("")
    report.load(str(tmp_path / "a.lyrdb"))
    assert "NOT RUN" not in (tmp_path / "a.lyrdb").read_text()
    values = [value.to_s() for item in report.each_item() for value in item.each_value()]
    assert any("h0: " in value for value in values)


def relabelled(heights: list[int], old: str, *new: str) -> Board:
    """A board on which the pad of one label has other labels, or none."""
    board = Board(heights)
    shapes = board._shapes("label")
    shape = next(shape for shape in shapes.each() if shape.text_string == old)
    at = shape.text.trans
    shapes.erase(shape)
    for text in new:
        shapes.insert(kdb.Text(text, at))
    return board


HEATER_0, HEATER_1 = (62.0, 100.0), (62.0, 200.0)
DAMAGES = {
    "none": (lambda: Board([100, 200]), 2, []),
    "wire cut": (
        lambda: Board([100, 200], cut=(-100, 90, -90, 110)),
        2,
        [("open_wire", HEATER_0), ("channel_without_heater", (-240.0, 100.0))],
    ),
    "trunk cut": (lambda: Board([100, 200], cut=(100, 140, 130, 150)), 2, [("open_wire", HEATER_1)]),
    "pad without label": (
        lambda: relabelled([100, 200], "h0"),
        2,
        [("pad_without_label", HEATER_0), ("channel_without_heater", None)],
    ),
    "ground without label": (
        lambda: relabelled([100, 200], "GND0"),
        2,
        [("pad_without_label", HEATER_0), ("pad_without_label", HEATER_1)],
    ),
    "label twice": (
        lambda: relabelled([100, 200], "h1", "h0"),
        2,
        [("label", (-240.0, 200.0)), ("shared_wire", HEATER_0), ("channel_without_heater", None)],
    ),
    "label twice on one pad": (lambda: relabelled([100, 200], "h0", "h0", "h0"), 2, [("label", (-240.0, 100.0))]),
    "two labels on one pad": (
        lambda: relabelled([100, 200], "h1", "h1", "h2"),
        2,
        [("short", (-240.0, 200.0))],
    ),
    "channel too many": (lambda: Board([100, 200]), 3, [("channel_without_heater", None)]),
    "channel too few": (lambda: Board([100, 200]), 1, [("heater_without_channel", HEATER_1)]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_wiring_is_reported_and_the_other_heaters_are_checked(damage: str, tmp_path: Path) -> None:
    make, channels, faults = DAMAGES[damage]
    result = check(make(), tmp_path, drive(channels, 5.0), CURRENT, RISE)
    assert [(fault.kind, fault.place_um) for fault in result.faults] == faults
    assert [rule.rule for rule in result.rules] == [CURRENT, RISE]
    # a heater that a channel of the bias drives has a current, whatever is wrong elsewhere
    driven = np.isin(result.currents.wiring.labels, [f"h{i}" for i in range(channels)])
    assert np.array_equal(result.currents.current_a > 0, driven)


def test_a_bias_of_another_process_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'other'.*'soi220'"):
        bias_currents(Board([100]).wiring(tmp_path), replace(drive(1, 1.0), process="other"))


def test_currents_that_cannot_be_solved_are_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wiring, "rise_v", lambda self, current: 1e6 * current)
    result = check(Board([100]), tmp_path, drive(1, 5.0), CURRENT, RISE)
    assert [fault.kind for fault in result.faults] == ["not_solved"]
    assert (result.rules, result.currents, result.violations) == ((), None, 0)
    assert (result.current_ma_per_um, result.ground_rise_mv) == (0.0, 0.0)


def comb(teeth: int, narrow: int) -> kdb.Polygon:
    """A comb in nm whose teeth are 4 µm wide, except for one in the middle."""
    points = [kdb.Point(0, 0)]
    for n in range(teeth):
        x, width = n * 14_000, narrow if n == teeth // 2 else 4_000
        points += [kdb.Point(x, 20_000), kdb.Point(x, 90_000), kdb.Point(x + width, 90_000)]
        points += [kdb.Point(x + width, 20_000)]
    return kdb.Polygon([*points, kdb.Point(points[-1].x, 0)])


@pytest.mark.parametrize("teeth", [20, 3000], ids=["small", "large"])
def test_the_narrowest_place_of_a_comb(teeth: int) -> None:
    assert _narrowest(comb(teeth, 3_000), 80_000, 80.0) == 3_000
    assert _narrowest(comb(teeth, 4_000), 80_000, 80.0) == 4_000
    assert _narrowest(kdb.Polygon(kdb.Box(0, 0, 90_000, 90_000)), 80_000, 80.0) == 80_000
    (place,) = narrow_places(comb(teeth, 3_000), 4_000, 80.0).each()
    assert place.bbox().left == teeth // 2 * 14_000


def test_crowded_narrow_places_of_a_wire_are_one_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board([100], cut=(-100, 98, -90, 100))
    bias = drive(1, 6e-3 * 1120)
    (one,) = check(board, tmp_path, bias, CURRENT).rules
    monkeypatch.setattr(electrical_check, "MAX_PLACES", 0)
    (boxed,) = check(board, tmp_path, bias, CURRENT).rules
    assert (boxed.violations, boxed.notes) == (1, one.notes)
    assert boxed.markers[0].bbox() == one.markers[0].bbox()


def test_a_ground_with_too_many_corners_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = Board([100]).wiring(tmp_path).sheets.values()
    (size,) = (sheet.share.size for sheet in cells)
    monkeypatch.setattr(resistive_sheet, "MAX_CELLS", size)
    assert check(Board([100]), tmp_path, drive(1, 5.0), CURRENT).faults == ()
    monkeypatch.setattr(resistive_sheet, "MAX_CELLS", size - 1)
    (fault,) = check(Board([100]), tmp_path, drive(1, 5.0), CURRENT).faults
    assert fault.kind == "not_solved"
    assert "ground GND0: its metal needs a raster of" in fault.text
    assert f"at most {size - 1:,} cells" in fault.text


@pytest.mark.parametrize("fault", [MemoryError("none left"), RuntimeError("SUPERLU_MALLOC fails for buf")])
def test_a_ground_whose_voltages_do_not_fit_into_memory_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def splu(*given: object, **options: object) -> None:
        raise fault

    monkeypatch.setattr(resistive_sheet, "splu", splu)
    (found,) = check(Board([100]), tmp_path, drive(1, 5.0), CURRENT).faults
    assert found.kind == "not_solved"
    assert "unknown voltages, for which memory does not suffice" in found.text and str(fault) in found.text


def test_a_ground_without_pad_carries_no_current(tmp_path: Path) -> None:
    """A trunk cut off from its pad carries no current; LVS reports the missing connection."""
    wiring = Board([100, 400], cut=(100, 200, 130, 210)).wiring(tmp_path)
    assert wiring.rise_v(np.array([0.0, 1.0]))[0] == 0


def test_the_rules_are_of_the_kinds_that_need_a_bias() -> None:
    assert isinstance(CURRENT, CurrentRule) and CURRENT.limit == "2 mA/um"
    assert RISE.limit == "100 mV"
