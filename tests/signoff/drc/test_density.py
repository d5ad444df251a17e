"""Kinds `density` and `notch`: windows against areas counted otherwise, spaces within one shape."""

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.cards.rules import DensityRule, LineRule
from optinc_pdk.signoff.drc._density import Raster, coverage
from optinc_pdk.signoff.drc.design_rule_check import RuleResult, run_drc

LAYERS = {"metal": (41, 0), "outline": (99, 0)}
COMMON = {"text": "t", "source": "s", "severity": "error"}
NOTCH = LineRule.model_validate(
    {"id": "metal.notch", "kind": "notch", "layers": ("metal",), "value_um": 10.0} | COMMON
    | {"ignore_angle_deg": 80.0, "angled_tolerance_um": 0.0}
)  # fmt: skip


def density(window: float, step: float, least: float, most: float) -> DensityRule:
    shares = {"window_um": window, "step_um": step, "least": least, "most": most}
    return DensityRule.model_validate(
        {"id": "metal.density", "kind": "density", "layers": ("metal", "outline")} | shares | COMMON
    )


class Chip:
    """Boxes in nm in one cell, and copies of it."""

    def __init__(self) -> None:
        self.layout = kdb.Layout()
        self.top = self.layout.create_cell("TOP")

    def box(self, layer: str, *edges: int, cell: kdb.Cell | None = None) -> None:
        (cell or self.top).shapes(self.layout.layer(*LAYERS[layer])).insert(kdb.Box(*edges))

    def check(self, folder: Path, rule: DensityRule | LineRule) -> RuleResult:
        self.layout.write(str(folder / "chip.gds"))
        return run_drc(folder / "chip.gds", [rule], LAYERS).rules[0]


@pytest.mark.parametrize("seed", [0, 1])
def test_coverage_equals_klayouts_area(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = np.array([-300, 0, 70, 500, 900]), np.array([-200, 100, 350, 360, 1000])
    shapes = kdb.Region()
    for _ in range(12):
        corners = random.integers(-600, 1200, (3, 2)).tolist()
        shapes.insert(kdb.Polygon([kdb.Point(*corner) for corner in corners]))
    merged = shapes.merged()
    # a triangle with a hole
    merged -= kdb.Region(kdb.Box(100, 120, 180, 330))
    found = coverage([kdb.Polygon(polygon) for polygon in merged.each()], x, y)
    for i, j in np.ndindex(found.shape):
        box = kdb.Box(int(x[i]), int(y[j]), int(x[i + 1]), int(y[j + 1]))
        # KLayout's corners lie on the grid
        assert found[i, j] == pytest.approx((merged & kdb.Region(box)).area(), abs=0.51 * box.perimeter())
    assert found.sum() == pytest.approx((merged & kdb.Region(kdb.Box(-300, -200, 900, 1000))).area(), rel=2e-3)


def test_windows_end_at_the_dies_edges() -> None:
    raster = Raster.of(kdb.Box(0, 0, 1000, 300), 400, 200)
    assert raster.x[raster.columns].tolist() == [[0, 400], [200, 600], [400, 800], [600, 1000]]
    assert raster.y[raster.rows].tolist() == [[0, 300]]
    odd = Raster.of(kdb.Box(0, 0, 1050, 1000), 400, 300)
    assert odd.x[odd.columns].tolist() == [[0, 400], [300, 700], [600, 1000], [650, 1050]]
    np.testing.assert_array_equal(odd.window_area, np.full((4, 3), 160_000))


@pytest.mark.parametrize("bound", ["least", "most"])
@pytest.mark.parametrize(("delta", "expected"), [(0, 0), (1, 0), (-1, 1)])
def test_both_limits_are_exact(bound: str, delta: int, expected: int, tmp_path: Path) -> None:
    chip = Chip()
    chip.box("outline", 0, 0, 100_000, 100_000)
    height = 20_000 + delta if bound == "least" else 80_000 - delta
    # overlapping shapes count once
    chip.box("metal", 0, 0, 100_000, height)
    chip.box("metal", 0, 0, 50_000, height)
    assert chip.check(tmp_path, density(100, 50, 0.2, 0.8)).violations == expected


@pytest.mark.parametrize("most", [0.5, 0.499])
def test_cells_are_counted_at_their_positions(most: float, tmp_path: Path) -> None:
    """The upper bound counts a whole cell in every window that it touches; the result must not."""
    chip = Chip()
    chip.box("outline", 0, 0, 1_000_000, 400_000)
    half = chip.layout.create_cell("HALF")
    chip.box("metal", 0, 0, 50_000, 100_000, cell=half)
    step = kdb.Vector(100_000, 0), kdb.Vector(0, 100_000)
    chip.top.insert(kdb.CellInstArray(half.cell_index(), kdb.Trans(), *step, 10, 4))
    found = chip.check(tmp_path, density(200, 100, 0, most))
    assert found.violations == (0 if most == 0.5 else 1)
    if found.violations:
        np.testing.assert_allclose(found.boxes_um, [[0, 0, 1000, 400]])


def test_a_dense_window_is_marked_and_every_die_has_windows_of_its_own(tmp_path: Path) -> None:
    chip = Chip()
    for left in (0, 2_000_000):
        chip.box("outline", left, 0, left + 1_000_000, 1_000_000)
    chip.box("metal", 2_420_000, 500_000, 2_580_000, 600_000)
    found = chip.check(tmp_path, density(100, 50, 0, 0.9))
    np.testing.assert_allclose(found.boxes_um, [[2450, 500, 2550, 600]])
    # shapes outside the dies are not counted
    chip.box("metal", 1_200_000, 0, 1_800_000, 900_000)
    assert chip.check(tmp_path, density(100, 50, 0, 0.9)).violations == 1


@pytest.mark.parametrize(("gap", "expected"), [(10_000, 0), (10_001, 0), (9_999, 1)])
@pytest.mark.parametrize("trans", [kdb.Trans.R0, kdb.Trans.R90, kdb.Trans.M45], ids=str)
def test_a_notch_is_space_within_a_shape(gap: int, expected: int, trans: kdb.Trans, tmp_path: Path) -> None:
    chip = Chip()
    inner = chip.layout.create_cell("U")
    chip.box("metal", 0, 0, 60_000, 5_000, cell=inner)
    chip.box("metal", 0, 5_000, 20_000, 90_000, cell=inner)
    # the other side of the notch comes from the cell above
    chip.top.insert(kdb.CellInstArray(inner.cell_index(), kdb.Trans.R0))
    chip.box("metal", 20_000 + gap, 5_000, 60_000, 90_000)
    turned = chip.top
    chip.top = chip.layout.create_cell("TURNED")
    chip.top.insert(kdb.CellInstArray(turned.cell_index(), trans))
    assert chip.check(tmp_path, NOTCH).violations == expected


def test_space_between_shapes_is_no_notch_and_a_hole_is(tmp_path: Path) -> None:
    chip = Chip()
    chip.box("metal", 0, 0, 60_000, 20_000)
    chip.box("metal", 60_500, 0, 120_000, 20_000)
    assert chip.check(tmp_path, NOTCH).violations == 0
    for edges in ((0, 100_000, 60_000, 120_000), (0, 129_999, 60_000, 150_000)):
        chip.box("metal", *edges)
    for left in (0, 40_000):
        chip.box("metal", left, 100_000, left + 20_000, 150_000)
    assert chip.check(tmp_path, NOTCH).violations == 1


@pytest.mark.parametrize(
    ("numbers", "values"),
    [
        ((100, 50, 0.5, 0.5), "least 0.5 is not below"),
        ((100, 101, 0, 0.5), "step_um 101 leaves gaps"),
        ((100, 50, 0, 1.1), "most"),
    ],
)
def test_rules_with_unusable_numbers_are_refused(numbers: tuple[float, float, float, float], values: str) -> None:
    with pytest.raises(ValueError, match=values):
        density(*numbers)


def test_empty_windows_beside_slanted_shapes_are_no_violations(tmp_path: Path) -> None:
    chip = Chip()
    chip.box("outline", 0, 0, 5_000_000, 3_000_000)
    cell = chip.layout.create_cell("BAR")
    chip.box("metal", 0, 0, 777_777, 33_333, cell=cell)
    for number in range(40):
        turned = kdb.CplxTrans(1, 7.3 + number, False, 300_000 + 11_111 * number, 700_000 + 7_001 * number)
        chip.top.insert(kdb.CellInstArray(cell.cell_index(), turned))
    assert chip.check(tmp_path, density(500, 250, 0, 1)).violations == 0


def test_boxes_that_overlap_count_once(tmp_path: Path) -> None:
    chip = Chip()
    chip.box("outline", 0, 0, 500_000, 500_000)
    for left in (0, 150_000):
        chip.box("metal", left, 0, 300_000, 500_000)
    cell = chip.layout.create_cell("CELL")
    chip.box("metal", 0, 0, 90_000, 200_000, cell=cell)
    for x in (10_000, 120_000):
        chip.top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(x, 1000)))
    rule = density(500.0, 250.0, 0.0, 0.8)
    assert chip.check(tmp_path, rule).violations == 0
    chip.box("metal", 300_000, 0, 400_000, 500_000)
    assert chip.check(tmp_path, rule).violations == 0
    chip.box("metal", 400_000, 0, 400_001, 1)
    assert chip.check(tmp_path, rule).violations == 1
