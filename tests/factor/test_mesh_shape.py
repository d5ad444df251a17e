"""Meshes of every shape realise unitaries, and their shape is known from the positions of their MZIs."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optinc_pdk.factor import MeshShape, shape_of
from optinc_pdk.options import MeshKind

Haar = Callable[[int, int], np.ndarray]


@pytest.mark.parametrize("modes", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("extra", [0, 1, 3])
@pytest.mark.parametrize("kind", ["rectangle", "triangle"])
def test_a_shape_realises_a_unitary_and_is_recognised(haar: Haar, kind: MeshKind, extra: int, modes: int) -> None:
    shape, unitary = MeshShape(kind, extra), haar(modes, 1)
    mesh = shape.decompose(unitary)
    assert np.max(np.abs(mesh.matrix() - unitary)) < 1e-13
    row, column = shape.positions(modes)
    np.testing.assert_array_equal(mesh.row, row)
    np.testing.assert_array_equal(mesh.column, column)
    # every column has an MZI, and joins other pairs than the one before
    assert set(column.tolist()) == set(range(1 + max(column, default=-1)))
    if modes > 2:
        pairs = [set(row[column == number].tolist()) for number in sorted(set(column.tolist()))]
        assert all(not one & other for one, other in itertools.pairwise(pairs))
        assert shape_of(modes, row, column) == shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "circle"}, "kind"),
        ({"extra_columns": -1}, r"extra_columns is -1; give 0 to 64"),
        ({"extra_columns": 65}, r"extra_columns is 65; give 0 to 64"),
    ],
)
def test_other_shapes_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MeshShape(**change)


def test_positions_of_no_shape_are_refused() -> None:
    row, column = MeshShape().positions(4)
    with pytest.raises(ValueError, match="neither a rectangular nor a triangular mesh"):
        shape_of(4, row[:-1], column[:-1])
