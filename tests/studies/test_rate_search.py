"""Rates before a build: guides only lower them, extracted ones are those of a build, and a search keeps the best."""

from __future__ import annotations

from pathlib import Path

import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.errors import InputError
from optinc_pdk.networks import comparator_network, prove
from optinc_pdk.networks.closed_form.comparator_search import choose, evaluate
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline import building
from optinc_pdk.studies import rate_search
from optinc_pdk.studies.rate_search import EQUAL, chip_rate, networks_by_rate

TASK = Averaging(4, 4, 2)


@pytest.mark.full
def test_extracted_rate_is_that_of_a_build_and_below_the_planned_one(tmp_path: Path) -> None:
    process, onn = load_process("soi220_fast"), comparator_network(TASK)
    extracted, planned = chip_rate(onn, process, extracted=True), chip_rate(onn, process)
    speed = building.build(onn, tmp_path, BuildOptions(process="soi220_fast")).report.speed
    assert extracted is not None and planned is not None and speed is not None and speed.symbol_rate_bd is not None
    assert extracted < planned
    # both bisections stop at most 2 % below the rate
    assert extracted == pytest.approx(speed.symbol_rate_bd, rel=0.02)


@pytest.mark.parametrize(
    ("slower", "limit", "factor"), [(None, None, "rows"), ("rows", None, "svd"), ("rows", 40, "rows")]
)
def test_networks_of_bits_get_the_better_factorisation(
    monkeypatch: pytest.MonkeyPatch, slower: str | None, limit: int | None, factor: str
) -> None:
    monkeypatch.setattr(rate_search, "chip_rate", lambda onn, *_: 1e9 - 1e8 * (onn.factor[0] == slower))
    search = rate_search._Search(TASK, load_process("soi220_fast"), limit, None)
    bits = [evaluate(TASK, *choice) for choice in rate_search._all_bits(TASK, 8.0)]
    assert bits[0] is not None
    one = search.rated(bits[0])
    assert one.onn.factor == (factor,) * 3
    assert one.candidate.mzis == one.onn.mzis == (35 if factor == "rows" else 216)
    # a network with signals of several levels
    assert {onn.factor[0] for onn in search.networks(choose(TASK, 8.0))} == {"svd"}


@pytest.mark.full
def test_search_takes_a_network_that_is_at_least_as_fast_as_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_search, "MOST_RATED", 4)
    monkeypatch.setattr(rate_search, "EXTRACTED", 2)
    start = comparator_network(TASK)
    steps: list[str] = []
    found = networks_by_rate(TASK, load_process("soi220_fast"), 8.0, None, lambda what, done: steps.append(what))
    assert {one.onn.digest for one in found} >= {start.digest}
    built = [one for one in found if one.extracted]
    assert [one.extracted for one in found] == sorted((one.extracted for one in found), reverse=True)
    assert start.digest in {one.onn.digest for one in built}
    rates = [one.extracted_bd or 0.0 for one in built]
    assert EQUAL * rates[0] >= max(rates)
    assert {"rating", "extracting"} == set(steps)
    for one in found:
        assert one.onn.mzis == one.candidate.mzis
        prove(one.onn, samples=100)


@pytest.mark.full
def test_limit_of_mzis_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_search, "MOST_RATED", 3)
    found = networks_by_rate(TASK, load_process("soi220_fast"), 8.0, 22)
    assert all(one.candidate.mzis <= 22 for one in found)
    with pytest.raises(InputError, match="--mzis"):
        networks_by_rate(TASK, load_process("soi220_fast"), 8.0, 10)
