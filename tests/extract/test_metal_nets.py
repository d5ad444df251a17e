"""Metal nets: which shapes are connected; bumps on their landings."""

from __future__ import annotations

from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.extract import Fault, extract
from optinc_pdk.extract.mask_layout import read_mask_layout
from optinc_pdk.extract.metal_nets import MetalNets
from optinc_pdk.pdk import get_pdk

PROCESS = load_process()


@pytest.mark.parametrize(
    ("second", "joined"),
    [
        # overlaps, shares 1 nm of an edge, touches in a corner, and is 1 nm apart
        ((5_000, 5_000, 20_000, 20_000), True),
        ((9_999, 10_000, 20_000, 20_000), True),
        ((10_000, 10_000, 20_000, 20_000), False),
        ((10_001, 0, 20_000, 10_000), False),
    ],
)
def test_shapes_that_touch_in_a_corner_are_not_connected(
    tmp_path: Path, second: tuple[int, int, int, int], joined: bool
) -> None:
    layout = kdb.Layout()
    metal = layout.create_cell("top").shapes(layout.layer(*PROCESS.gds_layers["metal"]))
    metal.insert(kdb.Box(0, 0, 10_000, 10_000))
    metal.insert(kdb.Box(*second))
    layout.write(str(tmp_path / "two.gds"))
    nets = MetalNets(read_mask_layout(tmp_path / "two.gds", PROCESS.gds_layers), PROCESS)
    one, other = nets.nets_at(np.array([(1_000, 1_000), (19_000, 9_999 if second[1] == 0 else 19_000)])).tolist()
    assert -1 not in (one, other)
    assert (one == other) == joined


FLIPCHIP = load_process("soi220_flipchip")


def faults_of(folder: Path, opening: kdb.Trans | None, corner_nm: int = 0) -> tuple[Fault, ...]:
    """Return the faults of a labelled landing, its opening moved or left out and one of its corners moved."""
    get_pdk("soi220_flipchip").activate()
    bump = gf.get_component("bump")
    layout = kdb.Layout()
    top = layout.create_cell("TOP")
    for layer, move in (("metal", kdb.Trans(0, 0)), ("bump", opening)):
        if move is None:
            continue
        info = FLIPCHIP.gds_layers[layer]
        for shape in kdb.Region(bump.begin_shapes_rec(bump.kcl.layer(*info))).each():
            points = list(shape.each_point_hull())
            if layer == "bump":
                points[0] += kdb.Vector(corner_nm, 0)
            top.shapes(layout.layer(*info)).insert(kdb.Polygon(points).transformed(move))
    top.shapes(layout.layer(*FLIPCHIP.gds_layers["label"])).insert(kdb.Text("a", kdb.Trans(0, 0)))
    layout.write(str(folder / "bump.gds"))
    return extract(folder / "bump.gds", FLIPCHIP).faults


@pytest.mark.parametrize("turns", range(4))
def test_an_octagon_on_its_landing_is_a_bump(turns: int, tmp_path: Path) -> None:
    assert faults_of(tmp_path, kdb.Trans(turns, False, 0, 0)) == ()


def test_an_opening_with_a_moved_corner_is_a_fault(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, kdb.Trans(0, 0), corner_nm=5)
    assert fault.kind == "bump" and " 24 µm" in fault.message


@pytest.mark.parametrize("opening", [None, kdb.Trans(13_000, 0)])
def test_a_labelled_landing_without_its_opening_is_a_fault(opening: kdb.Trans | None, tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, opening)
    assert fault.kind == "bump" and "'a'" in fault.message
