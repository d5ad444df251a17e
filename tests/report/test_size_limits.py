"""Each limit holds at a value calculated by hand and fails just beyond it."""

import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.report.size_limits import area_limit, fitting_outline, loss_limit, pad_capacity, pads_limit, power_limit

MPW, RETICLE = (11470.0, 4900.0), (33000.0, 26000.0)


def test_pads_fill_both_long_edges_of_a_die() -> None:
    """Four rows: 80 µm, 10 µm, and three wires of 14 µm are 132 µm a column, 86 of them in 11,370 µm."""
    assert pad_capacity(load_process(), MPW) == 2 * 4 * 86
    assert pad_capacity(load_process(), MPW[::-1]) == 2 * 4 * 86


def test_bumps_cover_the_die() -> None:
    assert pad_capacity(load_process("soi220_flipchip"), MPW) == 227 * 96


def test_the_area_limit_fails_if_one_die_exceeds_the_reticle() -> None:
    process = load_process()
    assert area_limit(process, [RETICLE]).holds
    assert not area_limit(process, [(33000.0, 26000.001)]).holds
    assert not area_limit(process, [MPW, (33001.0, 10.0)]).holds
    several = area_limit(process, [MPW, RETICLE])
    assert several.value == several.limit == 858.0
    assert "2 dies of 914.2 mm² together" in several.assumption


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
