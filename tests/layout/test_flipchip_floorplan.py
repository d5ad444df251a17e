"""Rows of strips on flip-chip dies: at a distance, in the order of the light, folded only where necessary."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import pytest

from optinc_pdk.assemble import mesh_chip, strip_names
from optinc_pdk.circuit import Circuit
from optinc_pdk.layout import ChipLayout, floorplan, lay_out_network
from optinc_pdk.layout.canvas import Box

FLIPCHIP = "soi220_flipchip"


def strip_boxes(circuit: Circuit, chip: ChipLayout) -> dict[str, Box]:
    """Bounding box of the instances of each strip, and of the carrier."""
    names = strip_names(circuit.sections)
    boxes: dict[str, Box] = {}
    for instance, (section, _, _) in zip(circuit.instances, circuit.grid.tolist(), strict=True):
        if instance not in chip.canvas.placed:
            continue
        box, name = chip.canvas.instance_box(instance), names.get(circuit.sections[section], "carrier")
        old = boxes.get(name, box)
        boxes[name] = (min(old[0], box[0]), min(old[1], box[1]), max(old[2], box[2]), max(old[3], box[3]))
    return boxes


@pytest.mark.parametrize("width", [2600, 4000, 6000, 12000])
@pytest.mark.parametrize("height", [1300, 3000, 6000])
def test_strips_keep_the_fibre_pitch_and_their_order(
    width: float, height: float, process_of: Callable[..., Any], network: Callable[..., Any]
) -> None:
    process = process_of(FLIPCHIP, (width, height))
    circuit, chip = lay_out_network(network((2, 3, 4, 2), (2, 2, 2)), process, "chip")
    boxes = strip_boxes(circuit, chip)
    assert chip.fit == ("multi-die" if len(chip.dies) > 1 else process.dies[-1].fit)
    assert [name for strips in chip.strips for name in strips] == [n for n in boxes if n != "carrier"]
    gap = float(process.floorplan.fibre_pitch_um)
    for a, b in combinations(boxes.values(), 2):
        apart = max(a[0] - b[2], b[0] - a[2], a[1] - b[3], b[1] - a[3])
        assert apart >= gap - 1e-6
    # within a row from left to right, rows from top to bottom, then the next die
    order = [boxes[name] for name in ("carrier", *(name for strips in chip.strips for name in strips))]
    for a, b in pairwise(order):
        assert b[0] > a[2] or b[3] < a[1]
    assert all(right - left <= width and top - low <= height for left, low, right, top in chip.dies)


def test_a_mesh_is_folded_where_it_is_wider_than_the_largest_die(process_of: Callable[..., Any]) -> None:
    def chip(width: float, height: float = 20_000.0) -> ChipLayout:
        process = process_of(FLIPCHIP, (width, height))
        return floorplan(mesh_chip(8, process, "mesh"), process)

    # without its wiring the mesh in one row would fit into 4300 µm
    wide, narrow = chip(6000), chip(4300)
    assert [each.fit for each in (wide, narrow)] == ["fits one reticle"] * 2
    assert wide.width_um > 4300 > narrow.width_um
    assert wide.height_um < narrow.height_um
    # a mesh whose single row is too high is not folded, and is called not buildable
    low = chip(4300, 800.0)
    assert (low.fit, low.height_um) == ("not buildable", wide.height_um)


def test_mesh_takes_the_fewest_rows_that_fit(process_of: Callable[..., Any]) -> None:
    heights = []
    for width in (9000, 5000, 3400):
        process = process_of(FLIPCHIP, (width, 20_000.0))
        chip = floorplan(mesh_chip(16, process, "mesh"), process)
        assert chip.fit == "fits one reticle"
        heights.append(chip.height_um)
    assert heights == sorted(set(heights))
