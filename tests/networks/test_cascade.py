"""Cascades of two levels average over all servers, whereas truncation at both levels is wrong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import carry_chain
from optinc_pdk.networks.cascade import Cascade, cascade_tasks


def cascade(bits: int, servers: int, groups: int) -> Cascade:
    first, second = cascade_tasks(bits, servers, groups)
    return Cascade(carry_chain(first), carry_chain(second))


def test_every_combination_of_words_of_four_servers_is_exact() -> None:
    chip = cascade(4, 2, 2)
    words = np.array(list(itertools.product(range(16), repeat=4))).reshape(-1, 2, 2)
    expected = words.sum(axis=(1, 2)) // 4
    np.testing.assert_array_equal(chip.average(words), expected)
    np.testing.assert_array_equal(chip.ideal(words), expected)
    # Truncating twice is wrong where both units lose a half and the sum of their words is odd.
    assert np.mean(chip.naive(words) != expected) == 1 / 8


@pytest.mark.parametrize(("bits", "servers", "groups"), [(8, 4, 4), (8, 4, 2), (8, 3, 4), (16, 4, 8)])
def test_sampled_words_of_larger_cascades_are_exact(bits: int, servers: int, groups: int) -> None:
    chip = cascade(bits, servers, groups)
    words = np.random.default_rng(0).integers(0, 2**bits, (20_000, servers, servers))
    np.testing.assert_array_equal(chip.average(words), words.sum(axis=(1, 2)) // servers**2)


def test_the_ideal_of_the_largest_cascade_is_known() -> None:
    first, second = cascade_tasks(32, 256, 16)
    chip = Cascade(carry_chain(first), carry_chain(second))
    words = np.full((256, 256), 2**32 - 1)
    assert chip.ideal(words) == 2**32 - 1
    words[0, 0] -= 1
    assert chip.ideal(words) == 2**32 - 2


def test_networks_that_form_no_cascade_are_refused() -> None:
    first, second = cascade_tasks(4, 2, 2)
    with pytest.raises(ValueError, match="first has task"):
        Cascade(carry_chain(second), carry_chain(second))
    with pytest.raises(ValueError, match="second has task"):
        Cascade(carry_chain(first), carry_chain(first))
    with pytest.raises(ValueError, match=r"servers=2.*servers=3"):
        Cascade(carry_chain(first), carry_chain(Averaging(4, 3, 2, finer_input=True)))
