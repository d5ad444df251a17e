"""Metal nets: which shapes are connected."""

from __future__ import annotations

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.extract.mask_layout import read_mask_layout
from optinc_pdk.extract.metal_nets import MetalNets

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
