"""Couplers of any gap and length, recognised by a mark over two guides."""

import math
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.cards import load_process
from optinc_pdk.cells.curves import ribbon, s_bend
from optinc_pdk.extract import Extraction, extract

PROCESS = load_process()
LAYERS = PROCESS.gds_layers
CARD = PROCESS.device("coupler")
DECAY, REFERENCE = CARD.parameter("decay_um"), CARD.parameter("reference_gap_um")
LENGTH, GUIDE, LEAD = 30_000, 450, 5_000
TURNS = [kdb.Trans(turns, mirrored, 7, -3) for mirrored in (False, True) for turns in range(4)]


def straight(low: int, left: int = -LEAD, right: int = LENGTH + LEAD) -> kdb.Polygon:
    return kdb.Polygon(kdb.Box(left, low, right, low + GUIDE))


def read(folder: Path, core: list[kdb.Polygon], marks: list[kdb.Box], turn: kdb.Trans = TURNS[0]) -> Extraction:
    layout = kdb.Layout()
    top = layout.create_cell("TOP")
    for layer, shapes in (("core", core), ("coupled", marks)):
        for shape in shapes:
            top.shapes(layout.layer(*LAYERS[layer])).insert(kdb.Polygon(shape).transformed(turn))
    layout.write(str(folder / "drawn.gds"))
    return extract(folder / "drawn.gds", PROCESS)


def mark(gap: int, right: int = LENGTH) -> kdb.Box:
    return kdb.Box(0, -500, right, 2 * GUIDE + gap + 500)


def couplers(extraction: Extraction) -> list[dict[str, float]]:
    circuit = extraction.circuit
    numbers = [i for i, name in enumerate(circuit.instances) if name.startswith("coupler_")]
    return [{key: float(column[i]) for key, column in circuit.settings.items()} for i in numbers]


def kinds(extraction: Extraction) -> set[str]:
    # the guides lead nowhere
    return {fault.kind for fault in extraction.faults} - {"dangling", "stray"}


@settings(max_examples=20, deadline=None)
@given(st.integers(200, 2000), st.integers(500, 60_000), st.sampled_from(TURNS))
def test_two_straight_guides_have_their_gap_and_length(
    tmp_path_factory: pytest.TempPathFactory, gap: int, length: int, turn: kdb.Trans
) -> None:
    core = [straight(0, right=length + LEAD), straight(GUIDE + gap, right=length + LEAD)]
    extraction = read(tmp_path_factory.mktemp("gap"), core, [mark(gap, length)], turn)
    assert kinds(extraction) == set()
    (found,) = couplers(extraction)
    assert found["gap_um"] == pytest.approx(gap / 1000, abs=1e-12)
    assert found["guide_1_um"] == found["guide_2_um"] == pytest.approx(length / 1000, abs=1e-12)
    expected = length / 1000 * math.exp((REFERENCE - gap / 1000) / DECAY)
    assert found["coupled_length_um"] == pytest.approx(expected, rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(200, 600), st.integers(0, 30_000), st.sampled_from(TURNS))
def test_arms_couple_too(tmp_path_factory: pytest.TempPathFactory, gap: int, length: int, turn: kdb.Trans) -> None:
    arm = s_bend(14.0, 2.5, (14.0**2 + 2.5**2) / 10, 64) * [1, -1] + [0.0, 2.5]
    right = (arm * [-1, 1] + [28.0 + length / 1000, 0.0])[::-1]
    line = np.concatenate([arm, right[0 if length else 1 :]])
    pitch = 0.45 + gap / 1000
    shapes = [
        kdb.Polygon([kdb.Point(x, y) for x, y in ribbon(one, 0.45).tolist()])
        for one in (line * [1, -1] - [0.0, pitch], line)
    ]
    box = shapes[0].bbox() + shapes[1].bbox()
    extraction = read(tmp_path_factory.mktemp("arms"), shapes, [box.enlarged(0, 500)], turn)
    assert kinds(extraction) == set()
    (found,) = couplers(extraction)
    # each pair of arcs adds √(π R decay) / 2, to first order
    radius = (14.0**2 + 2.5**2) / 10
    expected = (length / 1000 + math.sqrt(math.pi * radius * DECAY)) * math.exp((REFERENCE - gap / 1000) / DECAY)
    assert found["gap_um"] == pytest.approx(gap / 1000, abs=1e-3)
    assert found["coupled_length_um"] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("core", "expected"),
    {
        "third guide": ([straight(0), straight(650), straight(-1500)], {"coupled_guides"}),
        "guide ends inside": ([straight(0), straight(650, right=LENGTH - 1)], {"coupled_end"}),
        "island": ([straight(0), straight(650), kdb.Polygon(kdb.Box(5_000, -1_800, 8_000, -1_400))], {"coupled_end"}),
        "joined": ([straight(0), straight(650), kdb.Polygon(kdb.Box(9_000, 400, 9_450, 700))], {"coupled"}),
        "one guide": ([straight(0)], {"coupled"}),
        "nothing": ([], {"coupled"}),
        "wide guide": ([straight(0), kdb.Polygon(kdb.Box(-LEAD, 650, LENGTH + LEAD, 1_103))], {"coupled_end"}),
        "notch": ([straight(0), straight(650), kdb.Polygon(kdb.Box(9_000, 1_100, 9_450, 1_110))], {"width"}),
    }.values(),
    ids=str,
)  # fmt: skip
def test_silicon_that_is_not_two_guides_is_a_fault(core: list[kdb.Polygon], expected: set[str], tmp_path: Path) -> None:
    extraction = read(tmp_path, core, [kdb.Box(0, -2_000, LENGTH, 1_600)])
    assert expected <= kinds(extraction) <= expected | {"branch"}


def test_a_mark_that_is_no_rectangle_or_lies_along_a_guide_is_a_fault(tmp_path: Path) -> None:
    guides = [straight(0), straight(650)]
    steps = kdb.Region([kdb.Box(0, -500, LENGTH, 1_600), kdb.Box(0, -500, 5_000, 2_000)]).merged()
    assert "coupled" in kinds(read(tmp_path, guides, [p for p in steps.each()]))
    # two marks that touch are one
    halves = [kdb.Box(0, -500, 15_000, 1_600), kdb.Box(15_000, -500, LENGTH, 1_600)]
    assert [round(one["guide_1_um"], 9) for one in couplers(read(tmp_path, guides, halves))] == [30.0]


def test_couplers_in_repeated_cells_are_found_like_flat_ones(tmp_path: Path) -> None:
    layout = kdb.Layout()
    top, cell = layout.create_cell("TOP"), layout.create_cell("CELL")
    for layer, shapes in (("core", [straight(0), straight(650)]), ("coupled", [kdb.Polygon(mark(200))])):
        for shape in shapes:
            cell.shapes(layout.layer(*LAYERS[layer])).insert(shape)
    top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(), kdb.Vector(0, 50_000), kdb.Vector(), 10, 1))
    layout.write(str(tmp_path / "repeated.gds"))
    placed = extract(tmp_path / "repeated.gds", PROCESS)
    top.flatten(True)
    layout.write(str(tmp_path / "flat.gds"))
    flat = extract(tmp_path / "flat.gds", PROCESS)
    assert len(couplers(placed)) == 10 and couplers(placed) == couplers(flat)
    assert placed.faults == flat.faults
