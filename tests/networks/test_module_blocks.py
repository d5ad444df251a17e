"""Projection of a module's weights onto blocks."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.factor import unitary_diagonal
from optinc_pdk.networks.training import module_blocks

torch = pytest.importorskip("torch", reason="torch is an extra")


@pytest.mark.parametrize(("shape", "block"), [((8, 8), 4), ((10, 24), 8), ((5, 7), 3), ((3, 4), 1)])
def test_projected_weights_are_those_that_blocks_approximate(shape, block):
    torch.manual_seed(3)
    layer = torch.nn.Linear(shape[1], shape[0], dtype=torch.float64)
    given = layer.weight.detach().numpy().copy()
    module_blocks.project_blocks(layer, block)
    projected = layer.weight.detach().numpy().copy()
    assert projected == pytest.approx(unitary_diagonal(given, block).matrix(), abs=1e-9)
    # what blocks realise stays as it is
    module_blocks.project_blocks(layer, block)
    assert layer.weight.detach().numpy() == pytest.approx(projected, abs=1e-9)


def test_parts_of_zeros_stay_zero():
    layer = torch.nn.Linear(4, 4)
    with torch.no_grad():
        layer.weight[:, 2:] = 0.0
    module_blocks.project_blocks(layer, 2)
    assert np.isfinite(layer.weight.detach().numpy()).all() and not layer.weight[:, 2:].any()


@pytest.mark.parametrize("block", [0, 5])
def test_sizes_out_of_range_are_refused(block):
    with pytest.raises(InputError, match=f"block = {block}: give a size from 1 to 4 for a layer of 4 × 6"):
        module_blocks.project_blocks(torch.nn.Linear(6, 4), block)


def test_what_is_no_layer_and_weights_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match=r"layer is a Sequential; give a torch\.nn\.Linear"):
        module_blocks.project_blocks(torch.nn.Sequential(torch.nn.Linear(4, 4)), 2)
    layer = torch.nn.Linear(4, 4)
    with torch.no_grad():
        layer.weight[0, 0] = float("nan")
    with pytest.raises(InputError, match="entries that are not finite"):
        module_blocks.project_blocks(layer, 2)
