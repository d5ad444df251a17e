"""Meshes in one row and folded: the same circuit, guides of a turn of equal length, rows next to their turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.circuit import flatten
from optinc_pdk.layout import floorplan
from optinc_pdk.layout._strips import PlacedStrip, StripBuilder
from optinc_pdk.layout.canvas import CellFrames
from optinc_pdk.layout.chip_layout import PlacementView
from optinc_pdk.signoff.lvs.comparison import compare

FLIPCHIP = "soi220_flipchip"


@pytest.fixture(scope="module")
def folded(process_of: Callable[..., Any], written: Callable[..., Any]) -> Callable[..., Any]:
    """A mesh's chip with a given number of rows."""

    @cache
    def fold(modes: int, rows: int) -> Any:
        process = process_of(FLIPCHIP)
        circuit = mesh_chip(modes, process, "mesh")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("optinc_pdk.layout._flipchip.FOLDS", (rows,))
            return written(process, circuit, floorplan(circuit, process))

    return fold


def strip_of(modes: int, rows: int, process: Any) -> PlacedStrip:
    netlist = PlacementView(mesh_chip(modes, process, "mesh"))
    return StripBuilder(netlist, process, "l0", ["l0"], CellFrames()).build(rows)


def net_lengths(chip: Any) -> dict[tuple[str, ...], float]:
    """Extracted length of every net of the flat circuit, by the net's ports; the circuit has to match."""
    extracted = chip.extraction()
    result = compare(chip.circuit, extracted, chip.process)
    assert result.differences == ()
    flat = flatten(chip.circuit)
    length = np.full(int(extracted.circuit.offset[-1]), np.nan)
    length[extracted.circuit.nets] = extracted.circuit.net_length_um[:, None]
    return {
        tuple(sorted(map(flat.port_name, net))): float(length[result.port_map[net[0]]]) for net in flat.nets.tolist()
    }


@pytest.mark.parametrize(("modes", "rows"), [(2, 3), (4, 3), (5, 5), (9, 5)])
def test_folded_mesh_matches_and_guides_of_a_turn_have_equal_length(
    modes: int, rows: int, folded: Callable[..., Any], process_of: Callable[..., Any]
) -> None:
    chip = folded(modes, rows)
    length, straight = net_lengths(chip), net_lengths(folded(modes, 1))
    row_of = {name: i for i, row in enumerate(strip_of(modes, rows, chip.process).rows) for name in row}
    turns: dict[tuple[int, ...], list[float]] = {}
    for net in length:
        ends = sorted(row_of.get(port.split(",")[0].split(".")[0], -1) for port in net)
        if ends[0] >= 0 and ends[0] != ends[1]:
            # the part of a net within the MZIs is the same in one row
            turns.setdefault(tuple(ends), []).append(length[net] - straight[net])
    used = max(row_of.values()) + 1
    assert used == {2: 1, 4: 3, 5: 5, 9: 5}[modes]
    # one guide for each mode from every row to the next, and no other
    assert {ends: len(each) for ends, each in turns.items()} == {(i, i + 1): modes for i in range(used - 1)}
    for each in turns.values():
        assert np.ptp(each) < 0.05


def test_a_folded_mesh_keeps_every_rule(folded: Callable[..., Any]) -> None:
    assert folded(4, 3).rules_broken() == {}


@pytest.mark.parametrize("rows", [1, 3, 5, 7])
@pytest.mark.parametrize("modes", range(2, 9))
def test_rows_are_odd_none_is_empty_and_columns_keep_their_order(
    modes: int, rows: int, process_of: Callable[..., Any]
) -> None:
    process = process_of(FLIPCHIP)
    netlist = PlacementView(mesh_chip(modes, process, "mesh"))
    placed = StripBuilder(netlist, process, "l0", ["l0"], CellFrames()).build(rows).rows
    columns = 1 if modes == 2 else modes
    assert len(placed) == min(rows, columns if columns % 2 else columns - 1)
    seen = [sorted({netlist.grid[n][1] for n in row if netlist.component[n] != "terminator"}) for row in placed]
    assert [column for row in seen for column in row] == list(range(columns))


@pytest.mark.parametrize(("modes", "rows"), [(24, 3), (24, 5), (40, 7)])
def test_first_and_last_rows_lie_next_to_the_turns(modes: int, rows: int, process_of: Callable[..., Any]) -> None:
    process = process_of(FLIPCHIP)
    strip = strip_of(modes, rows, process)
    assert len(strip.rows) == rows
    boxes = []
    for row in strip.rows:
        each = np.array([strip.canvas.instance_box(name) for name in row])
        boxes.append((*each[:, :2].min(axis=0), *each[:, 2:].max(axis=0)))
    for upper, lower in itertools.pairwise(boxes):
        assert upper[1] > lower[3]
    ends, middle = (boxes[0], boxes[-1]), boxes[1:-1]
    assert ends[0][0] < min(box[0] for box in middle)
    assert ends[1][2] > max(box[2] for box in middle)
    # by no more than the turns and the rest of whole columns
    column = StripBuilder(
        PlacementView(mesh_chip(2, process, "mesh")), process, "l0", ["l0"], CellFrames()
    ).columns_length(1)
    turns = [path for path in strip.canvas.guides if len(path) > 4]
    reach = [x for path in turns for x, _ in path]
    assert ends[0][0] > min(reach) - 1.5 * column
    assert ends[1][2] < max(reach) + 1.5 * column


def test_more_rows_are_narrower_and_higher(process_of: Callable[..., Any]) -> None:
    process = process_of(FLIPCHIP)
    boxes = [strip_of(24, rows, process).canvas.box() for rows in (1, 3, 5)]
    widths, heights = [box[2] - box[0] for box in boxes], [box[3] - box[1] for box in boxes]
    assert widths == sorted(widths, reverse=True)
    assert heights == sorted(heights)
    assert widths[1] < 0.6 * widths[0]
