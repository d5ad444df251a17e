"""Layers that no chip can realise, recognised from their factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.errors import InputError
from optinc_pdk.onn import Onn, bundled_weights, factorise
from optinc_pdk.onn.conditioning import check_gains, describe_rows, least_gains


def test_bundled_networks_pass():
    check_gains(factorise(Onn.load(bundled_weights(4, 4))), load_process())


def test_gains_beyond_the_card_are_refused_with_the_reason():
    factors = factorise(Onn.load(bundled_weights(4, 4)))
    steep = replace(factors[0], row_norm=1e8 * factors[0].row_norm)
    expected = least_gains(steep).max()
    assert expected == pytest.approx(1e8 * least_gains(factors[0]).max())
    with pytest.raises(InputError, match=r"layers\.0") as fault:
        check_gains((steep, *factors[1:]), load_process())
    assert f"{expected:.4g}" in str(fault.value) and "1e+06" in str(fault.value)


def test_nearly_equal_rows_are_named():
    matrix = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1e-3, 0.0]])
    text = describe_rows(matrix)
    assert "rows 0 and 2" in text
    condition = np.linalg.cond(matrix / np.linalg.norm(matrix, axis=1)[:, np.newaxis])
    assert condition > 1e2 or np.isinf(condition)
