"""Connected components, against SciPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from optinc_pdk.circuit.netlist import component_labels


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.floats(0.0, 2.0))
def test_components_are_those_of_scipy(seed: int, size: int, density: float) -> None:
    a, b = np.random.default_rng(seed).integers(0, size, (2, int(density * size)))
    label = connected_components(coo_array((np.ones(a.size), (a, b)), shape=(size, size)), directed=False)[1]
    least = np.array([np.flatnonzero(label == each)[0] for each in label])
    assert np.array_equal(component_labels(size, a, b), least)


def test_a_long_chain_is_one_component_in_any_order() -> None:
    order = np.random.default_rng(0).permutation(5000)
    assert not component_labels(5000, order[:-1], order[1:]).any()
