"""The closed-form network is exact for any even word, any groups, any number of servers, and in cascades."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn import carry_chain, lattice_score


@st.composite
def tasks(draw: st.DrawFn) -> Averaging:
    symbols = draw(st.integers(1, 4))
    groups = draw(st.sampled_from([k for k in range(1, symbols + 1) if symbols % k == 0]))
    task = Averaging(2 * symbols, draw(st.integers(1, 17)), groups, draw(st.booleans()), draw(st.booleans()))
    return task if task.lattice_size < 50_000 else Averaging(4, task.servers % 5 + 1, 2, task.remainder)


@settings(max_examples=60, deadline=None)
@given(tasks())
def test_chain_is_exact(task: Averaging) -> None:
    onn = carry_chain(task)
    result = lattice_score(onn)
    assert result.accuracy == 1.0
    assert result.margin == pytest.approx(0.5, abs=1e-8)
    assert not onn.layers[-1].bias.any()


@pytest.mark.parametrize(("bits", "servers"), [(8, 4), (8, 2), (8, 3)])
def test_chain_is_exact_for_eight_bits(bits: int, servers: int) -> None:
    result = lattice_score(carry_chain(Averaging(bits, servers, bits // 2)))
    assert result.accuracy == 1.0
    assert result.margin == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("task", "structure"),
    [
        (Averaging(4, 4, 2), (2, 6, 7, 2)),
        (Averaging(8, 4, 4), (4, 8, 9, 10, 10, 4)),
        # Division by 16 is a shift by two symbols: one staircase more, for the two symbols in the last carry.
        (Averaging(8, 16, 4), (4, 26, 31, 32, 33, 9, 4)),
        (Averaging(16, 4, 4), (4, 10, 11, 11, 11, 11, 12, 13, 13, 8)),
        # One server: every word is its own average, and no layer is needed but the last.
        (Averaging(4, 1, 2), (2, 2)),
    ],
)
def test_chains_are_as_small_as_they_were(task: Averaging, structure: tuple[int, ...]) -> None:
    assert carry_chain(task).structure == structure
