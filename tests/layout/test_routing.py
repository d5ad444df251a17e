"""Routes: tracks of wires, meanders, bundles and turns keep their distances and have the predicted lengths."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from optinc_pdk.cards import Process, Quantity, load_process
from optinc_pdk.cells.curves import polyline_length_um, round_corners
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, to_layout, write_gds
from optinc_pdk.layout._routing import (
    draw_fanout,
    draw_turn,
    fan_end,
    fan_length,
    least_gain,
    length_gains,
    path_length,
    river_levels,
    spaced_positions,
    teeth,
    tooth_heights,
    turn_width,
)
from optinc_pdk.layout.canvas import Canvas, CellFrames, Port, guide_track
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc

SPACE = 10.0
Line = tuple[float, float, float, float]

gaps = st.lists(st.floats(0, 60), min_size=1, max_size=12)


def positions(start: float, extra: list[float]) -> np.ndarray:
    """Ascending positions at least SPACE apart."""
    return start + np.cumsum(np.array(extra) + SPACE) - SPACE


def wire(source: float, target: float, level: int, end: float) -> list[Line]:
    """The three pieces of a wire as boxes of zero width."""
    y = (level + 1) * SPACE
    left, right = sorted((source, target))
    return [(source, 0.0, source, y), (left, y, right, y), (target, y, target, end)]


def distance(a: Line, b: Line) -> float:
    across = max(a[0] - b[2], b[0] - a[2], 0.0)
    along = max(a[1] - b[3], b[1] - a[3], 0.0)
    return float(np.hypot(across, along))


@given(
    gaps=st.lists(st.tuples(st.floats(0, 60), st.floats(0, 60)), min_size=1, max_size=12), shift=st.floats(-300, 300)
)
def test_no_two_wires_come_closer_than_the_space(gaps: list[tuple[float, float]], shift: float) -> None:
    source, target = (positions(start, [g[i] for g in gaps]) for i, start in ((0, 0.0), (1, shift)))
    levels = river_levels(source, target, SPACE)
    assert levels.dtype == np.int64
    assert levels.min() == 0
    end = (levels.max() + 2) * SPACE
    wires = [wire(s, t, n, end) for s, t, n in zip(source, target, levels.tolist(), strict=True)]
    closest = min(
        (distance(a, b) for i, one in enumerate(wires) for other in wires[i + 1 :] for a in one for b in other),
        default=SPACE,
    )
    assert closest >= SPACE - 1e-9


@given(gaps=gaps)
def test_straight_wires_need_no_second_track(gaps: list[float]) -> None:
    source = positions(0.0, gaps)
    assert not river_levels(source, source, SPACE).any()


def test_a_common_shift_makes_a_staircase() -> None:
    source = np.arange(4) * SPACE
    assert river_levels(source, source + 5.0, SPACE).tolist() == [3, 2, 1, 0]
    assert river_levels(source, source - 5.0, SPACE).tolist() == [0, 1, 2, 3]


@given(targets=st.lists(st.floats(-100, 100), min_size=1, max_size=12).map(sorted), seed=st.integers(0, 10**6))
def test_spread_is_feasible_and_optimal(targets: list[float], seed: int) -> None:
    low, high = -90.0, 90.0
    points = np.array(targets)
    result = spaced_positions(points, SPACE, low, high)
    assert result.shape == points.shape
    assert np.all(np.diff(result) >= SPACE - 1e-9)
    assert result[0] >= low - 1e-9
    assert result[-1] <= high + 1e-9
    cost = float(np.sum((result - points) ** 2))
    rng = np.random.default_rng(seed)
    spare = high - low - SPACE * (len(points) - 1)
    for _ in range(20):
        other = low + np.sort(rng.uniform(0, spare, len(points))) + SPACE * np.arange(len(points))
        # the feasible set is convex, so no step from the optimum towards another point can be nearer
        for step in (1.0, 1e-3):
            between = result + step * (other - result)
            assert np.sum((between - points) ** 2) >= cost - 1e-6


@given(gaps=gaps)
def test_positions_far_enough_apart_are_unchanged(gaps: list[float]) -> None:
    points = positions(0.0, gaps)
    assume(points[-1] <= 1e3)
    np.testing.assert_allclose(spaced_positions(points, SPACE, -1.0, 1e3), points, atol=1e-9)


def test_spread_of_no_positions_is_empty() -> None:
    assert spaced_positions(np.zeros(0), SPACE, 0.0, 1.0).shape == (0,)


def test_more_positions_than_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\b4\b.*10\.0 µm.*30 µm.*20 µm"):
        spaced_positions(np.zeros(4), SPACE, 0.0, 20.0)


@given(
    gain=st.floats(0, 2000),
    r=st.floats(5, 50),
    relative_height=st.floats(3.15, 20),
    side=st.sampled_from((-1, 1)),
    x=st.floats(0, 9),
)
def test_teeth_gain_the_required_length(gain: float, r: float, relative_height: float, side: int, x: float) -> None:
    r, tallest = round(r, 3), round(relative_height * r + 0.001, 3)
    heights = tooth_heights(gain, tallest, r)
    assert all(2 * r - 0.001 <= height <= tallest + 0.002 for height in heights[:-1])
    # the last tooth compensates the rounding of the others
    assert all(2 * r - len(heights) * 0.001 <= height <= tallest + len(heights) * 0.001 for height in heights)
    if gain < least_gain(r):
        assert heights == []
        return
    end = (x + side * 4 * r * len(heights), 7.0)
    path = [(x, 7.0), *teeth((x, 7.0), side, heights, r), end]
    assert path_length(path, r) - path_length([(x, 7.0), end], r) == pytest.approx(gain, abs=0.003)
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(path))


def test_length_of_a_guide_counts_bends_as_arcs() -> None:
    quarter = 15.707963267948966
    assert path_length([(0, 0), (3, 0), (10, 0)], 10) == 10
    assert path_length([(0, 0), (30, 0), (30, 30)], 10) == pytest.approx(20 + quarter + 20)
    assert path_length([(0, 0), (10, 0), (10, -20), (20, -20)], 10) == pytest.approx(2 * quarter)


@given(
    lengths=st.lists(st.floats(0, 3000), min_size=1, max_size=9),
    near=st.lists(st.floats(0, 30), max_size=4),
    least=st.floats(20, 40),
)
def test_paths_gain_their_difference_or_enough_for_a_tooth(
    lengths: list[float], near: list[float], least: float
) -> None:
    lengths = [*lengths, *(max(lengths) - less for less in near)]
    gains = length_gains({str(i): length for i, length in enumerate(lengths)}, 0.025, least)
    results = [length + gains[str(i)] for i, length in enumerate(lengths)]
    assert max(results) - min(results) <= 0.025 + 1e-9
    assert all(gain == 0 or gain >= least for gain in gains.values())
    # no path is longer than necessary
    assert max(results) <= max(lengths) + least + 1e-9


# around 2R the leg of an S-bend is so short that its concave sides are close to each other
RISES = (0.0, 0.01, 0.3, 0.7, 1.0, 1.7, 3.0, 12.0, 19.9, 20.0, 20.5, 21.0, 22.6, 23.0, 40.0, 60.0)
# gratings are so far away that their bodies exempt nothing from the guide space rule
PITCH, START, STUB = 127.0, 100.0, 40.0


@pytest.mark.parametrize("name", ["soi220", "soi220_two_metal"])
@pytest.mark.parametrize("radius_um", [None, 80.0, 200.0])
def test_guides_of_every_rise_keep_their_space_and_have_the_predicted_length(
    name: str, radius_um: float | None, process_with: Callable[[str, float], Process], tmp_path: Path
) -> None:
    process = load_process(name) if radius_um is None else process_with(name, radius_um)
    get_pdk(process.folder).activate()
    canvas, x = Canvas(CellFrames()), START + STUB
    rows = [START + PITCH * (i + 1) for i in range(len(RISES))]
    target = [row + rise for row, rise in zip(rows, RISES, strict=True)]
    end = fan_end(process, rows, target, x)
    pairs = [((x, row), (end, to)) for row, to in zip(rows, target, strict=True)]
    assert draw_fanout(canvas, process, pairs, x) == end
    for i, (a, b) in enumerate(pairs):
        for label, (at, row), side in (("in", a, -1), ("out", b, +1)):
            canvas.place(f"{label}{i}", "grating_coupler", at + side * STUB, row, rotation=180 if side < 0 else 0)
            canvas.guide((at, row), (at + side * STUB, row))
            fibre = canvas.port(f"{label}{i},o2")
            canvas.texts.append((f"{label}{i}", fibre.x, fibre.y))
    die = (0.0, 0.0, end + 2 * START, target[-1] + 2 * START)
    write_gds(to_layout(ChipLayout(canvas, (die,), ((),), ""), process, "fan"), tmp_path / "fan.gds")
    extracted = extract(tmp_path / "fan.gds", process)
    assert extracted.faults == ()
    circuit, partner = extracted.circuit, extracted.circuit.partners()
    length = np.zeros(int(circuit.offset[-1]))
    length[circuit.nets] = circuit.net_length_um[:, None]
    for i, (a, b) in enumerate(pairs):
        # a grating's guide port precedes its fibre port
        guide = circuit.ports[f"in{i}"] - 1
        assert partner[guide] == circuit.ports[f"out{i}"] - 1
        assert length[guide] == pytest.approx(fan_length(process, a, b) + 2 * STUB, abs=0.005)
    rules = [rule for rule in process.rules if rule.id.startswith("core.")]
    result = run_drc(tmp_path / "fan.gds", rules, process.gds_layers)
    assert {rule.id: rule.boxes_um.tolist() for rule in result.rules if rule.violations} == {}


PROCESS = load_process()
MODE_PITCH = float(PROCESS.floorplan.mode_pitch_um)


def turned(starts: list[float], side: int, gap: float = 200.0) -> tuple[Canvas, list[tuple[Port, Port]], float]:
    """A turn whose guides start at given x: canvas, ends and reach; light in the lower row runs the other way."""
    angle = 0 if side > 0 else 180
    pairs = [
        (Port(side * x, MODE_PITCH * i + gap / 2, angle), Port(side * x, -MODE_PITCH * i - gap / 2, angle))
        for i, x in enumerate(starts)
    ]
    canvas = Canvas(CellFrames())
    draw_turn(canvas, PROCESS, pairs, side)
    return canvas, pairs, max(side * x for path in canvas.guides for x, _ in path)


def lengths(canvas: Canvas) -> list[float]:
    radius = float(PROCESS.guide.radius_um)
    return [polyline_length_um(round_corners(np.array(path), radius, 400)) for path in canvas.guides]


@given(
    starts=st.lists(st.integers(0, 80).map(float), min_size=1, max_size=9),
    side=st.sampled_from((-1, 1)),
    gap=st.sampled_from((160.0, 300.0)),
)
def test_all_guides_of_a_turn_have_equal_length(starts: list[float], side: int, gap: float) -> None:
    canvas, pairs, _ = turned(starts, side, gap)
    ends = {frozenset((path[0], path[-1])) for path in canvas.guides}
    assert ends == {frozenset(((a.x, a.y), (b.x, b.y))) for a, b in pairs}
    assert np.ptp(lengths(canvas)) < float(PROCESS.guide.length_match_um)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("modes", [1, 2, 5, 12, 24])
def test_turn_is_as_wide_as_predicted(modes: int, side: int) -> None:
    _, _, reach = turned([0.0] * modes, side)
    assert 0 < reach <= turn_width(PROCESS, modes)
    # and not much narrower, because rows next to it would be shortened for nothing
    assert reach >= turn_width(PROCESS, modes) - guide_track(PROCESS) - 2 * float(PROCESS.guide.radius_um)


def test_guides_of_a_turn_keep_their_space() -> None:
    canvas, _, _ = turned([0.0, 12.0, 7.0, 0.0, 30.0, 3.0], 1)
    legs = [list(pairwise(path)) for path in canvas.guides]
    for one, other in combinations(legs, 2):
        for (a, b), (c, d) in ((p, q) for p in one for q in other):
            # legs are at least a track apart in one direction
            dx = max(min(a[0], b[0]) - max(c[0], d[0]), min(c[0], d[0]) - max(a[0], b[0]))
            dy = max(min(a[1], b[1]) - max(c[1], d[1]), min(c[1], d[1]) - max(a[1], b[1]))
            assert max(dx, dy) >= guide_track(PROCESS) - 1e-6


def test_pitch_too_small_for_teeth_is_refused_with_the_required_pitch() -> None:
    update: dict[str, Any] = {"mode_pitch_um": Quantity(24.0, "test")}
    narrow = PROCESS.model_copy(update={"floorplan": PROCESS.floorplan.model_copy(update=update)})
    needed = 20 + guide_track(PROCESS)
    with pytest.raises(InputError, match=rf"mode_pitch_um.*\b24\b.*\b10 µm.*\b{needed:g} µm"):
        draw_turn(Canvas(CellFrames()), narrow, [(Port(0, 20, 0), Port(0, -20, 0))], 1)
