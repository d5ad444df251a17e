"""The search prunes as long as networks pass, stores its networks, and finds the Pareto front."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.factor import svd_mzis, unitary_diagonal_mzis
from optinc_pdk.networks import Layer, carry_chain, matrix_error_accuracy
from optinc_pdk.networks.training import search as searching
from optinc_pdk.networks.training.initialisation import prune_units
from optinc_pdk.networks.training.search import (
    SearchCandidate,
    candidates_csv,
    evaluate_candidate,
    largest_tolerated_error,
    pareto_front,
    search,
)

TASK = Averaging(2, 4, 1)


@pytest.mark.full
def test_a_search_trains_from_the_smallest_on_prunes_and_continues_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "CLOSED", ((1, 1), (1, 2), (2, 1)))
    monkeypatch.setattr(searching, "UNARY", (1,))
    seen: list[SearchCandidate] = []
    candidates = search(TASK, 3e-3, 50, 0, tmp_path, seen.append)
    assert [one.name for one in seen] == [one.name for one in candidates]
    assert candidates[0].name == "closed carry chain"
    closed = [one for one in candidates if one.name.startswith("closed")]
    assert len(closed) == 1 + 3 + 1
    trained = [one for one in candidates if one.name.startswith("trained")]
    smaller = [one for one in candidates if one.name.startswith("pruned")]
    assert not any(one.passed for one in trained[:-1])
    assert trained[-1].passed
    assert all(one.passed for one in smaller[:-1])
    assert not smaller[-1].passed
    assert all(fewer.mzis < more.mzis for more, fewer in pairwise([trained[-1], *smaller]))
    for one in candidates:
        assert one.passed == (one.share >= 0.999 and one.margin >= 0.15)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = search(TASK, 3e-3, 50, 0, tmp_path)
    assert [one.mzis for one in again] == [one.mzis for one in candidates]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == times
    with pytest.raises(InputError, match=str(tmp_path)):
        search(TASK, 3e-3, 51, 0, tmp_path)
    with pytest.raises(InputError, match=r"epsilon = 0\.5"):
        search(TASK, 0.5, 50, 0, tmp_path)
    with pytest.raises(InputError, match="steps = 0"):
        search(TASK, 1e-3, 0, 0, tmp_path)


def test_tolerated_error_is_where_the_share_falls_below_the_limit() -> None:
    onn = carry_chain(Averaging(4, 4, 2))
    limit = largest_tolerated_error(onn)
    assert matrix_error_accuracy(onn, 0.98 * limit, 100) >= 0.999 > matrix_error_accuracy(onn, 1.02 * limit, 100)
    first = onn.layers[0]
    wrong = replace(onn, layers=(replace(first, bias=first.bias + 0.6), *onn.layers[1:]))
    assert largest_tolerated_error(wrong) == 0.0


def test_the_front_has_the_candidates_that_no_other_dominates(tmp_path: Path) -> None:
    onn = carry_chain(TASK)
    candidates = [
        SearchCandidate(name, onn, size, 0.2, 1.0, limit, True)
        for name, size, limit in (("a", 10, 1e-4), ("b", 20, 1e-4), ("c", 30, 5e-4), ("d", 30, 4e-4), ("e", 5, 0.0))
    ]
    assert [one.name for one in pareto_front(candidates)] == ["a", "c"]
    rows = list(csv.DictReader(io.StringIO(candidates_csv(candidates).decode())))
    assert [row["name"] for row in rows] == ["e", "a", "b", "c", "d"]
    assert [row["name"] for row in rows if row["on_front"] == "1"] == ["a", "c"]


@pytest.mark.full
def test_mzis_follow_the_papers_convention() -> None:
    onn = carry_chain(Averaging(8, 4, 4))
    parts = [[(len(part.rows), len(part.columns)) for part in onn.layer_parts(i)] for i in range(len(onn.layers))]
    assert onn.mzis == sum(svd_mzis(*shape) for shapes in parts for shape in shapes) == 128
    assert evaluate_candidate("x", onn, 1e-4).mzis == 128
    layer, saved = onn.layers[2], sum(svd_mzis(*shape) for shape in parts[2])
    blocks = unitary_diagonal_mzis(layer.outputs, layer.inputs, 9)
    assert replace(onn, factor=("svd", "svd", ("approx", 9), "svd", "svd")).mzis == 128 - saved + blocks


def test_pruning_removes_unused_units_first() -> None:
    task = Averaging(4, 4, 2)
    onn = carry_chain(task)
    first, second, last = onn.layers
    wide = Layer(np.vstack([first.weight, [0.1, 0.2]]), np.append(first.bias, 0.3))
    reads = Layer(np.column_stack([second.weight, np.zeros(second.outputs)]), second.bias)
    small = prune_units(replace(onn, layers=(wide, reads, last)), 1)
    assert small.structure == (2, 6, 7, 2)
    np.testing.assert_allclose(small.forward(task.lattice()), onn.forward(task.lattice()), atol=1e-9)
    assert min(prune_units(onn, 100).structure[1:-1]) == 2


def test_the_mean_signal_of_a_pruned_unit_is_kept() -> None:
    task = Averaging(4, 4, 2)
    onn = carry_chain(task)
    first, second, last = onn.layers
    constant = Layer(np.vstack([first.weight, [0.0, 0.0]]), np.append(first.bias, 2.0))
    reads = Layer(np.column_stack([second.weight, np.full(second.outputs, 0.7)]), second.bias - 1.4)
    small = prune_units(replace(onn, layers=(constant, reads, last)), 1)
    assert small.structure == (2, 6, 7, 2)
    np.testing.assert_allclose(small.forward(task.lattice()), onn.forward(task.lattice()), atol=1e-9)
