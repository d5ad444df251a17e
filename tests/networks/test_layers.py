"""Independent parts of a layer's matrix: found by its zeros, consecutive where guides may not cross, factored apart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging
from optinc_pdk.factor import BlockDiagonalFactor, SvdFactor, svd_mzis
from optinc_pdk.networks import AveragingNetwork, Layer, LayerPart, comparator_network, factorise
from optinc_pdk.networks.layers import SMALLEST_MESH, independent_parts

TASK = Averaging(8, 4, 4)


def sparse(pattern: list[str]) -> np.ndarray:
    """A matrix with different entries where the pattern has an x."""
    used = np.array([[character == "x" for character in row] for row in pattern])
    return np.where(used, 1.0 + np.arange(used.size).reshape(used.shape), 0.0)


@pytest.mark.parametrize(
    ("pattern", "columns", "rows", "expected"),
    [
        (["xx", "xx"], False, False, [([0, 1], (0, 1))]),
        (["x.", ".x"], False, False, [([0], (0,)), ([1], (1,))]),
        ([".x", "x."], False, False, [([0], (1,)), ([1], (0,))]),
        # parts of the first layer are in the order of their columns, and do not interleave
        ([".x", "x."], True, False, [([1], (0,)), ([0], (1,))]),
        (["x.x", ".x."], True, False, [([0, 1], (0, 1, 2))]),
        # parts of the last layer do not interleave their rows
        (["x.", ".x", "x."], False, True, [([0, 1, 2], (0, 1))]),
        # a column or row without entries belongs to its neighbour
        (["x..", "..x"], False, False, [([0], (0, 1)), ([1], (2,))]),
        (["x.", "..", ".x"], False, True, [([0, 1], (0,)), ([2], (1,))]),
        (["..", ".."], False, False, [([0, 1], (0, 1))]),
        # a part with modes in its middle is as long as the largest part, or a part of it
        (["xxx....", "...xxxx"], False, False, [([0, 1], (0, 1, 2, 3, 4, 5, 6))]),
        (["xxx...", "...xxx"], False, False, [([0], (0, 1, 2)), ([1], (3, 4, 5))]),
        (["xx....", "..xxxx"], False, False, [([0], (0, 1)), ([1], (2, 3, 4, 5))]),
    ],
)
def test_parts(
    pattern: list[str], columns: bool, rows: bool, expected: list[tuple[list[int], tuple[int, ...]]]
) -> None:
    assert independent_parts(sparse(pattern), columns, rows) == expected


@given(st.data(), st.booleans(), st.booleans())
def test_parts_cover_the_matrix_and_share_nothing(data: st.DataObject, columns: bool, rows: bool) -> None:
    shape = data.draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    matrix = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.0, 1.0]), min_size=64, max_size=64)))
    matrix = matrix[: shape[0] * shape[1]].reshape(shape)
    parts = independent_parts(matrix, columns, rows)
    assert sorted(row for members, _ in parts for row in members) == list(range(shape[0]))
    assert sorted(column for _, members in parts for column in members) == list(range(shape[1]))
    inside = np.zeros(shape, dtype=bool)
    for at_rows, at_columns in parts:
        inside[np.ix_(at_rows, at_columns)] = True
        if columns:
            assert list(at_columns) == list(range(at_columns[0], at_columns[-1] + 1))
        if rows:
            assert at_rows == list(range(at_rows[0], at_rows[-1] + 1))
    assert not matrix[~inside].any()
    for sizes in ([len(at_rows) for at_rows, _ in parts], [len(at_columns) for _, at_columns in parts]):
        assert all(size < SMALLEST_MESH or size == max(sizes) for size in sizes)


def test_parts_of_comparators_are_factored_apart() -> None:
    onn = comparator_network(TASK)
    parts = [onn.layer_parts(index) for index in range(len(onn.layers))]
    assert parts[0] == tuple(LayerPart(range(i, i + 1), (i,)) for i in range(4))
    factors = factorise(onn)
    for index, (layer, own) in enumerate(zip(factors, parts, strict=True)):
        assert isinstance(layer.factor, BlockDiagonalFactor) and len(layer.factor.parts) == len(own) > 1
        assert layer.max_error < 1e-14
        assert [part.rows for part in own] == list(layer.factor.rows)
        assert all(one.stop == other.start for one, other in pairwise(layer.factor.rows))
        rows = onn.detector_rows(index)
        for unit, row in enumerate(rows.tolist()):
            columns = set(np.flatnonzero(onn.layers[index].weight[unit]).tolist())
            (part,) = [part for part in own if row in part.rows]
            assert columns <= set(part.columns)
    assert onn.mzis == sum(layer.factor.mzis for layer in factors)
    assert 2 * onn.mzis <= sum(svd_mzis(len(layer.matrix), layer.matrix.shape[1]) for layer in factors)


def test_a_dense_layer_is_one_part() -> None:
    rng = np.random.default_rng(0)
    layers = (Layer(rng.normal(size=(3, 2)), np.ones(3)), Layer(rng.normal(size=(2, 3)), np.zeros(2)))
    onn = AveragingNetwork(layers, Averaging(4, 4, 2))
    assert onn.layer_parts(0) == (LayerPart(range(3), (0, 1)),)
    assert all(isinstance(layer.factor, SvdFactor) for layer in factorise(onn))
