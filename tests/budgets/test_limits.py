"""Each limit holds at a value calculated by hand and fails just beyond it."""

from __future__ import annotations

import pytest

from optinc_pdk.budgets.limits import (
    chip_limits,
    fitting_outline,
    loss_limit,
    pad_capacity,
    pads_limit,
    power_limit,
    rate_limit,
    size_limit,
)
from optinc_pdk.cards import load_process
from optinc_pdk.options import BUDGETS, Budget
from optinc_pdk.report.build_numbers import accept_limits

MPW, RETICLE = (11470.0, 4900.0), (33000.0, 26000.0)


def test_pads_fill_both_long_edges_of_a_die() -> None:
    """Four rows: 80 µm, 10 µm, and three wires of 14 µm are 132 µm a column, 86 of them in 11,370 µm."""
    assert pad_capacity(load_process(), MPW) == 2 * 4 * 86
    assert pad_capacity(load_process(), MPW[::-1]) == 2 * 4 * 86


def test_bumps_cover_the_die() -> None:
    assert pad_capacity(load_process("soi220_flipchip"), MPW) == 227 * 96


def test_a_chip_has_the_size_of_one_die_that_the_reticle_contains() -> None:
    process = load_process()
    assert size_limit(process, [RETICLE]).holds and size_limit(process, [RETICLE[::-1]]).holds
    assert not size_limit(process, [(33000.0, 26000.001)]).holds
    narrow = size_limit(process, [(33001.0, 10.0)])
    assert not narrow.holds and narrow.value == 0.33001 and "33.00 × 0.01 mm" in narrow.detail
    several = size_limit(process, [MPW, MPW])
    assert not several.holds and several.value == pytest.approx(112.406) and several.detail == "2 dies"
    assert size_limit(process, [MPW]).detail == ""


def test_a_rate_is_at_least_the_lowest_useful_one() -> None:
    process = load_process()
    speed = {"symbol_rate_bd": 1e6, "word_error_rate": 1e-9}
    limit = rate_limit(process, speed)
    assert limit.holds and limit.minimum and limit.limit == 1e6 and limit.unit == "Bd"
    assert rate_limit(process, speed | {"symbol_rate_bd": 0.999e6}).holds is False
    none = rate_limit(process, speed | {"symbol_rate_bd": None})
    assert none.holds is False and none.value == 0.0


def test_missed_budgets_are_accepted_by_name_alone() -> None:
    """A budget that holds is not accepted, whatever was named."""
    process = load_process()
    limits = {
        **chip_limits(process, [MPW, MPW], 2000, 7.3),
        "loss": loss_limit(process, (80.0,), 3e-4),
        "rate": rate_limit(process, {"symbol_rate_bd": None, "word_error_rate": 1e-9}),
    }
    assert tuple(limits) == BUDGETS
    choices: list[tuple[Budget, ...]] = [(), ("size",), ("loss", "rate"), BUDGETS]
    for accept in choices:
        numbers = dict(limits)
        lines = accept_limits(numbers, accept)
        missed = [name for name, limit in limits.items() if limit.holds is False]
        assert missed == ["size", "pads", "loss", "rate"]
        assert [name for name, one in numbers.items() if one.accepted] == [name for name in missed if name in accept]
        left = [name for name in missed if name not in accept]
        assert [line.split()[1] for line in lines] == left
        assert all(f"--accept {name}" in line for name, line in zip(left, lines, strict=True))


def test_pads_are_limited_by_the_outline_that_contains_the_die() -> None:
    process = load_process()
    assert fitting_outline(process, (11470.0, 4900.0)) == MPW
    assert fitting_outline(process, (11471.0, 100.0)) == fitting_outline(process, (1e6, 1e6)) == RETICLE
    assert pads_limit(process, 688, [MPW]).holds
    assert not pads_limit(process, 689, [MPW]).holds
    assert pads_limit(process, 2 * 688, [MPW, (5000.0, 4900.0)]).holds


def test_power_is_divided_by_the_area_and_its_limit_cites_a_source() -> None:
    process = load_process()
    limit = power_limit(process, 7.2, 10.0, "at this bias")
    assert limit.holds and limit.value == pytest.approx(0.72)
    assert not power_limit(process, 7.3, 10.0, "at this bias").holds
    assert "at this bias" in limit.assumption and "103472 (2023)" in limit.assumption


def test_the_loss_limit_uses_the_worst_layer() -> None:
    process = load_process()
    limit = loss_limit(process, (20.0, 44.0, 10.0), 3e-4)
    assert limit.value == 44.0 and limit.limit is not None and limit.holds
    assert not loss_limit(process, (20.0, limit.limit + 1e-9), 3e-4).holds
    assert loss_limit(process, (20.0,), 0.0).holds is False


def test_power_and_loss_are_not_judged_without_a_budget() -> None:
    bare = load_process().model_copy(update={"budget": None})
    for limit in (power_limit(bare, 1.0, 1.0, "x"), loss_limit(bare, (3.0,), 3e-4)):
        assert limit.holds is None and limit.limit is None
        assert "process card" in limit.assumption
