"""How much of each kind: one alone, all but one, more of one."""

import pytest

from optinc_pdk.cards import KINDS


def test_the_cards_amounts_are_1(every):
    assert dict(every.amount) == dict.fromkeys(KINDS, 1.0)


def test_only_without_and_scaled_are_about_their_kinds(every):
    assert every.only("coupler", "dac").amount == {"coupler": 1.0, "dac": 1.0}
    assert every.only("coupler").of("loss") == 0.0
    assert every.without("coupler").of("coupler") == 0.0 and every.without("coupler").of("loss") == 1.0
    twice = every.scaled("coupler", 2.0).scaled("coupler", 3.0)
    assert twice.of("coupler") == 6.0 and twice.of("loss") == 1.0
    assert every.scaled("coupler", 3.0).only("coupler").of("coupler") == 3.0
    assert every.of("coupler") == 1.0


def test_steps_of_the_drive_grow_with_its_amount(every):
    assert every.effective_bits == 16.0
    assert every.scaled("dac", 2.0).effective_bits == 15.0
    assert every.scaled("dac", 2.0**7.5).effective_bits == pytest.approx(8.5)
    assert every.without("dac").effective_bits is None
