"""Chains of MZIs for single rows: exact rows, positions, and numbers of MZIs and columns."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.factor import chain_depth, chain_output, row_factor


@pytest.mark.parametrize("modes", [1, 2, 3, 4, 15, 16])
@pytest.mark.parametrize("kind", ["real", "complex", "equal", "sparse", "short"])
def test_rows_are_exact(modes, kind):
    rng = np.random.default_rng(modes)
    w = rng.standard_normal(modes) + 1j * (kind == "complex") * rng.standard_normal(modes)
    if kind == "equal":
        w = np.where(np.arange(modes) % 3 == 1, -1.0, 1.0)
    if kind == "sparse":
        w = np.where(np.arange(modes) % 4 == 2, w, 0.0)
        w[-1] = -1.0
    w = w / np.linalg.norm(w) * (0.3 if kind == "short" else 1.0)
    factor = row_factor(w)
    np.testing.assert_allclose(factor.matrix(), w[np.newaxis], atol=1e-14)
    assert factor.mzis == factor.chain.row.size + 1 == modes
    assert factor.chain.column.max(initial=-1) + 1 == chain_depth(modes) == (-(-modes // 2) if modes > 1 else 0)


@pytest.mark.parametrize("modes", [2, 3, 6, 15])
def test_light_joins_from_both_ends(modes):
    chain = row_factor(np.full(modes, modes**-0.5)).chain
    live, output = set(range(modes)), chain_output(modes)
    for at in np.argsort(chain.column, kind="stable"):
        upper = int(chain.row[at])
        assert {upper, upper + 1} <= live
        live.remove(upper if upper < output else upper + 1)
    assert live == {output}


def test_a_row_of_zeros_is_dark():
    factor = row_factor(np.zeros(3))
    assert factor.attenuation == 0.0
    assert not factor.matrix().any()


@pytest.mark.parametrize("w", [np.zeros(0), np.ones(2), np.ones((1, 1)), [np.nan]])
def test_what_is_no_row_is_refused(w):
    with pytest.raises(ValueError, match=r"^w"):
        row_factor(w)
