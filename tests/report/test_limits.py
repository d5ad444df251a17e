"""Each limit is held to numbers worked out by hand, and must fail just beyond them."""

import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.report.limits import area_limit, loss_limit, outline, pad_capacity, pads_limit, power_limit

MPW, RETICLE = (11470.0, 4900.0), (33000.0, 26000.0)


def test_a_die_holds_as_many_pads_as_its_long_edges() -> None:
    """Four rows: 80 µm, 10 µm, and three wires of 14 µm are 132 µm a column, 86 of them in 11,370 µm."""
    assert pad_capacity(load_process(), MPW) == 2 * 4 * 86
    assert pad_capacity(load_process(), MPW[::-1]) == 2 * 4 * 86


def test_bumps_lie_all_over_the_die() -> None:
    assert pad_capacity(load_process("soi220_flipchip"), MPW) == 227 * 96


def test_area_fails_where_one_die_is_larger_than_the_reticle() -> None:
    process = load_process()
    assert area_limit(process, [RETICLE]).holds
    assert not area_limit(process, [(33000.0, 26000.001)]).holds
    assert not area_limit(process, [MPW, (33001.0, 10.0)]).holds
    several = area_limit(process, [MPW, RETICLE])
    assert several.value == several.limit == 858.0
    assert "2 dies of 914.2 mm² together" in several.assumption


def test_pads_count_against_the_outline_that_the_die_is_cut_from() -> None:
    process = load_process()
    assert outline(process, (11470.0, 4900.0)) == MPW
    assert outline(process, (11471.0, 100.0)) == outline(process, (1e6, 1e6)) == RETICLE
    assert pads_limit(process, 688, [MPW]).holds
    assert not pads_limit(process, 689, [MPW]).holds
    assert pads_limit(process, 2 * 688, [MPW, (5000.0, 4900.0)]).holds


def test_power_is_spread_over_the_area_and_its_limit_names_its_source() -> None:
    process = load_process()
    limit = power_limit(process, 7.2, 10.0, "at this bias")
    assert limit.holds and limit.value == pytest.approx(0.72)
    assert not power_limit(process, 7.3, 10.0, "at this bias").holds
    assert "at this bias" in limit.assumption and "103472 (2023)" in limit.assumption


def test_loss_counts_for_the_worst_layer() -> None:
    process = load_process()
    found = loss_limit(process, (20.0, 44.0, 10.0), 3e-4)
    assert found.value == 44.0 and found.limit is not None and found.holds
    assert not loss_limit(process, (20.0, found.limit + 1e-9), 3e-4).holds
    assert loss_limit(process, (20.0,), 0.0).holds is False


def test_a_card_without_budget_leaves_power_and_loss_open() -> None:
    bare = load_process().model_copy(update={"budget": None})
    for limit in (power_limit(bare, 1.0, 1.0, "x"), loss_limit(bare, (3.0,), 3e-4)):
        assert limit.holds is None and limit.limit is None
        assert "the process card gives no" in limit.assumption
