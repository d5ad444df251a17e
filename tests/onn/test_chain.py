"""The closed-form network is exact for any even word and any number of servers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn import carry_chain, lattice_score


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 12))
def test_chain_is_exact(symbols: int, servers: int) -> None:
    result = lattice_score(carry_chain(Averaging(2 * symbols, servers, symbols)))
    assert result.accuracy == 1.0
    assert result.margin == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(("bits", "servers"), [(8, 4), (8, 2), (8, 3)])
def test_chain_is_exact_for_eight_bits(bits: int, servers: int) -> None:
    result = lattice_score(carry_chain(Averaging(bits, servers, bits // 2)))
    assert result.accuracy == 1.0
    assert result.margin == pytest.approx(0.5, abs=1e-9)


def test_chain_of_the_default_task_is_the_smallest() -> None:
    assert carry_chain(Averaging(4, 4, 2)).structure == (2, 6, 7, 2)


@pytest.mark.parametrize(
    "task", [Averaging(8, 4, 2), Averaging(4, 4, 2, remainder=True), Averaging(4, 4, 2, finer_input=True)]
)
def test_other_tasks_are_refused(task: Averaging) -> None:
    with pytest.raises(ValueError, match="one input per symbol"):
        carry_chain(task)
