"""The search prunes as long as networks pass, keeps what it made, and tells the front apart."""

from __future__ import annotations

import csv
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.files import InputError
from optinc_pdk.onn import carry_chain, lattice_score, tolerance
from optinc_pdk.onn.search import Candidate, front, judge, mzis, search, tolerated, write_candidates
from optinc_pdk.onn.starts import pruned, widened

TASK = Averaging(2, 4, 1)


def test_a_search_finds_prunes_and_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    seen: list[Candidate] = []
    candidates = search(TASK, 1e-3, 300, 0, tmp_path, seen.append)
    assert [one.name for one in seen] == [one.name for one in candidates]
    assert candidates[0].name == "closed form"
    chains = [one for one in candidates if one.name.startswith("chain x2")]
    assert len(chains) > 1
    assert all(one.passed for one in chains[:-1])
    assert not chains[-1].passed
    assert all(fewer.mzis < more.mzis for more, fewer in itertools.pairwise(chains))
    for one in candidates:
        assert one.passed == (one.share >= 0.999 and one.margin >= 0.15)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = search(TASK, 1e-3, 300, 0, tmp_path)
    assert [one.mzis for one in again] == [one.mzis for one in candidates]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == times
    with pytest.raises(InputError, match="it is of another search"):
        search(TASK, 1e-3, 301, 0, tmp_path)
    with pytest.raises(InputError, match=r"epsilon = 0\.5 must lie between"):
        search(TASK, 0.5, 300, 0, tmp_path)


def test_tolerated_is_where_the_share_falls() -> None:
    onn = carry_chain(Averaging(4, 4, 2))
    limit = tolerated(onn)
    assert tolerance(onn, 0.98 * limit) >= 0.999 > tolerance(onn, 1.02 * limit)
    first = onn.layers[0]
    wrong = replace(onn, layers=(replace(first, bias=first.bias + 0.6), *onn.layers[1:]))
    assert tolerated(wrong) == 0.0


def test_the_front_holds_what_nothing_beats(tmp_path: Path) -> None:
    onn = carry_chain(TASK)
    made = [
        Candidate(name, onn, size, 0.2, 1.0, limit, True)
        for name, size, limit in (("a", 10, 1e-4), ("b", 20, 1e-4), ("c", 30, 5e-4), ("d", 30, 4e-4), ("e", 5, 0.0))
    ]
    assert [one.name for one in front(made)] == ["a", "c"]
    write_candidates(made, tmp_path / "front.csv")
    with (tmp_path / "front.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["e", "a", "b", "c", "d"]
    assert [row["name"] for row in rows if row["on_front"] == "1"] == ["a", "c"]


def test_mzis_follow_the_papers_convention() -> None:
    onn = carry_chain(Averaging(8, 4, 4))
    assert mzis(onn) == 361
    assert judge("x", onn, 1e-4).mzis == 361
    assert mzis(replace(onn, factor=("svd", "svd", ("approx", 9), "svd", "svd"))) < 361


def test_widening_keeps_the_function_nearly_and_pruning_drops_what_is_idle() -> None:
    task = Averaging(4, 4, 2)
    onn = carry_chain(task)
    wide = widened(onn, (12, 14), seed=0)
    assert wide.structure == (2, 12, 14, 2)
    assert np.abs(wide.forward(task.lattice()) - onn.forward(task.lattice())).max() < 0.5
    assert lattice_score(wide).accuracy > 0.9
    with pytest.raises(ValueError, match=r"hidden = \(5, 7\) must be at least \(6, 7\)"):
        widened(onn, (5, 7), seed=0)
    idle = widened(onn, (7, 7), seed=0)
    second = idle.layers[1].weight.copy()
    second[:, 6] = 0.0
    idle = replace(idle, layers=(idle.layers[0], replace(idle.layers[1], weight=second), idle.layers[2]))
    small = pruned(idle, 1)
    assert small.structure == (2, 6, 7, 2)
    np.testing.assert_allclose(small.forward(task.lattice()), idle.forward(task.lattice()), atol=1e-9)
    assert min(pruned(onn, 100).structure[1:-1]) == 2
