"""Closed-form networks are exact for any even word length, groups, number of servers, and in cascades."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.networks import (
    AveragingNetwork,
    carry_chain,
    lattice_score,
    matrix_error_accuracy,
    regenerating_chain,
    unary_chain,
)
from optinc_pdk.networks.closed_form.stage import MAX_UNITS, check_units


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


@settings(max_examples=60, deadline=None)
@given(tasks(), st.integers(1, 3), st.integers(1, 3))
def test_regenerating_chain_is_exact(task: Averaging, copies: int, amplifiers: int) -> None:
    onn = regenerating_chain(task, copies, amplifiers)
    result = lattice_score(onn)
    assert result.accuracy == 1.0
    assert result.margin == pytest.approx(0.5, abs=1e-8)
    assert not onn.layers[-1].bias.any()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 2), st.integers(1, 6), st.booleans(), st.booleans(), st.integers(1, 3))
def test_unary_chain_is_exact(symbols: int, servers: int, remainder: bool, finer: bool, amplifiers: int) -> None:
    onn = unary_chain(Averaging(2 * symbols, servers, symbols, remainder, finer), amplifiers)
    result = lattice_score(onn)
    assert result.accuracy == 1.0
    assert result.margin == pytest.approx(0.5, abs=1e-8)
    assert not onn.layers[-1].bias.any()


def test_closed_forms_are_the_same_in_every_process() -> None:
    code = (
        "from optinc_pdk.averaging import Averaging; from optinc_pdk.networks import *; import hashlib; "
        "forms = [f(Averaging(8, 3, 4)) for f in (carry_chain, regenerating_chain, unary_chain)]; "
        "print(hashlib.sha256(b''.join(l.weight.tobytes() for o in forms for l in o.layers)).hexdigest())"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True)
        for seed in ("1", "2", "3")
    ]
    assert len({run.stdout for run in runs}) == 1
    assert len(runs[0].stdout) == 65


def test_unary_chain_with_two_symbols_per_group_is_exact() -> None:
    assert lattice_score(unary_chain(Averaging(8, 4, 2), 1)).accuracy == 1.0


def test_regenerating_chain_tolerates_errors_that_the_smallest_chain_does_not() -> None:
    task = Averaging(8, 4, 4)
    small, robust = carry_chain(task), regenerating_chain(task, copies=1, amplifiers=3)
    assert robust.structure == (4, *(6,) * 8, *(7,) * 4, *(8,) * 3, 9, 4)
    assert matrix_error_accuracy(small, 1e-3) > 0.999
    assert matrix_error_accuracy(small, 2e-3) < 0.9995 < matrix_error_accuracy(robust, 2e-3)
    assert matrix_error_accuracy(unary_chain(task), 3e-3, draws=5, sample=2000) > 0.99


def test_numbers_of_copies_and_amplifiers_are_checked() -> None:
    with pytest.raises(ValueError, match="copies = 0"):
        regenerating_chain(Averaging(4, 4, 2), copies=0)
    with pytest.raises(ValueError, match="amplifiers = 0"):
        regenerating_chain(Averaging(4, 4, 2), amplifiers=0)
    with pytest.raises(ValueError, match="amplifiers = 0"):
        unary_chain(Averaging(4, 4, 2), amplifiers=0)


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
def test_structures_of_the_smallest_chains(task: Averaging, structure: tuple[int, ...]) -> None:
    assert carry_chain(task).structure == structure


@pytest.mark.parametrize(
    ("build", "units"),
    [
        (lambda: carry_chain(Averaging(8, 1_000_000, 4)), "1,500,0"),
        (lambda: regenerating_chain(Averaging(8, 1_000_000, 4)), "750,0"),
        (lambda: regenerating_chain(Averaging(8, 4, 4), copies=100_000), "400,0"),
        (lambda: unary_chain(Averaging(8, 1_000_000, 4)), ",000"),
    ],
)
def test_layers_of_too_many_units_are_refused(build: Callable[[], AveragingNetwork], units: str) -> None:
    with pytest.raises(InputError, match=rf"{units}.* units, .* 10,000; .*--servers"):
        build()


def test_the_limit_of_units_is_inclusive() -> None:
    check_units(MAX_UNITS)
    with pytest.raises(InputError, match="10,001"):
        check_units(MAX_UNITS + 1)
