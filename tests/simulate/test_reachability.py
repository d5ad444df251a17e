"""Reachability against scipy, and the import of scipy.sparse that it avoids."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order

from optinc_pdk.simulate.s_parameters.block_assembly import reachable

SEEDS = st.integers(0, 2**32 - 1)


def edges(seed, count, density):
    rng = np.random.default_rng(seed)
    tail, head = rng.integers(0, count, (2, int(density * count)))
    return tail, head, coo_array((np.ones(tail.size), (tail, head)), shape=(count, count)).tocsr()


@given(SEEDS, st.integers(1, 60), st.floats(0.0, 2.0))
def test_reachable_nodes_are_those_of_scipy(seed, count, density):
    tail, head, graph = edges(seed, count, density)
    start = np.zeros(count, dtype=bool)
    start[[0, count // 2]] = True
    expected = np.zeros(count, dtype=bool)
    for node in np.flatnonzero(start):
        expected[breadth_first_order(graph, node, return_predecessors=False)] = True
    assert np.array_equal(reachable(tail, head, start), expected)


def test_planning_a_circuit_without_loops_does_not_import_scipy_sparse():
    code = (
        "import sys; from optinc_pdk.assemble import mesh_chip; from optinc_pdk.cards import load_process\n"
        "from optinc_pdk.simulate import analyse; from optinc_pdk.simulate.s_parameters.plan import plan_circuit\n"
        "import numpy as np; process = load_process()\n"
        "found = analyse(mesh_chip(3, process, 'm'))\n"
        "one_way = [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]]\n"
        "size = {n: group.port.shape[1] for n, group in enumerate(found.devices)}\n"
        "patterns = {n: np.array(one_way if p == 4 else 1 - np.eye(p), dtype=bool) for n, p in size.items()}\n"
        "assert plan_circuit(found, patterns, found.labels, found.labels).transfer.steps\n"
        "print('scipy.sparse' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
