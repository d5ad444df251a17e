"""Amounts of imperfections: one kind alone, all but one, a scaled kind."""

import pytest

from optinc_pdk.cards import KINDS


def test_the_amounts_of_the_card_are_1(every):
    assert dict(every.amount) == dict.fromkeys(KINDS, 1.0)


def test_only_without_and_scaled_change_the_named_kinds(every):
    assert every.only("coupler", "dac").amount == {"coupler": 1.0, "dac": 1.0}
    assert every.only("coupler").of("loss") == 0.0
    assert every.without("coupler").of("coupler") == 0.0 and every.without("coupler").of("loss") == 1.0
    twice = every.scaled("coupler", 2.0).scaled("coupler", 3.0)
    assert twice.of("coupler") == 6.0 and twice.of("loss") == 1.0
    assert every.scaled("coupler", 3.0).only("coupler").of("coupler") == 3.0
    assert every.of("coupler") == 1.0


def test_dac_steps_grow_with_the_amount(every):
    assert every.effective_bits == 16.0
    assert every.scaled("dac", 2.0).effective_bits == 15.0
    assert every.scaled("dac", 2.0**7.5).effective_bits == pytest.approx(8.5)
    assert every.without("dac").effective_bits is None
