"""Energy of an all-reduce against numbers computed by hand."""

import pytest

from optinc_collective.interconnect import (
    exchange_energy,
    load_system,
    optinc_star,
    recursive_doubling,
    ring,
    schedule_of,
    sharp,
)
from optinc_collective.interconnect.exchange_simulation import OPTICS
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.errors import InputError

RING, SWITCH, TREE = (load_system(name) for name in ("ring_800g", "switch_800g", "sharp"))


def with_energies(system, **values):
    """Copy of a system whose energies for a bit are whole numbers of joules."""
    given = {key: Quantity(value, "default") for key, value in values.items()}
    return system.model_copy(update={"energy": system.energy.model_copy(update=given)})


JOULES = {"pluggable_j_per_bit": 2.0, "copackaged_j_per_bit": 1.0, "addition_j_per_bit": 0.5}
SWITCHED = JOULES | {"switch_j_per_bit": 3.0}


def test_a_ring_between_neighbours_by_hand():
    """4 servers, 100 bytes: 6 steps of 4 pieces of 200 bits, each on one link; pieces are added in 3 of them."""
    energy = exchange_energy(ring(4), with_energies(RING, **JOULES), 100)
    assert (energy.transceivers_j, energy.switches_j, energy.additions_j) == (4800 * 2.0, 0.0, 2400 * 0.5)
    assert energy.total_j == 9600 + 1200


def test_a_ring_through_a_switch_by_hand():
    """As between neighbours, but two links and one switch for every piece."""
    energy = exchange_energy(ring(4), with_energies(SWITCH, **SWITCHED), 100, "copackaged")
    assert energy.transceivers_j == 2 * 4800 * 1.0
    assert energy.switches_j == 4800 * 3.0
    assert energy.additions_j == 2400 * 0.5


def test_paths_over_several_levels_by_hand():
    """Switches of 2 ports: servers 0 and 1, 2 and 3 exchange over one switch, then 0 and 2, 1 and 3 over three."""
    small = with_energies(SWITCH, **SWITCHED)
    small = small.model_copy(update={key: Quantity(2, "default") for key in ("down_ports", "up_ports", "levels")})
    energy = exchange_energy(recursive_doubling(4), small, 100)
    assert energy.transceivers_j == 4 * 800 * (2 + 4) * 2.0
    assert energy.switches_j == 4 * 800 * (1 + 3) * 3.0
    assert energy.additions_j == 8 * 800 * 0.5


def test_sharp_by_hand():
    """4 servers under one switch: 4 links up and 4 down; the switch takes in 4 buffers, at 95 % of its rate."""
    energy = exchange_energy(sharp(4, 72), with_energies(TREE, **SWITCHED), 100)
    assert energy.transceivers_j == pytest.approx(8 * 800 * 2.0 / 0.95)
    assert energy.switches_j == pytest.approx(4 * 800 * 3.0 / 0.95)
    assert energy.additions_j == 4 * 800 * 0.5


def test_sharp_over_two_levels_by_hand():
    """4 servers under 2 switches under one: 6 links, each in both directions; the switches take in 6 + 2 buffers."""
    tree = with_energies(TREE, **SWITCHED).model_copy(update={"streaming": Quantity(1, "default")})
    energy = exchange_energy(sharp(4, 2), tree, 100)
    assert energy.transceivers_j == 12 * 800 * 2.0
    assert energy.switches_j == 8 * 800 * 3.0
    assert energy.additions_j == 6 * 800 * 0.5


def test_energies_of_the_cards_for_one_gradient_of_eight_bits():
    """A ring over a switch: 4 servers, 12 bits sent by each, 2 × 20 + 10 pJ/bit; SHARP: 8 bits, 1/0.95 as long."""
    through = exchange_energy(ring(4), SWITCH, 1)
    assert through.total_j - through.additions_j == pytest.approx(4 * 12 * 50e-12)
    reduced = exchange_energy(schedule_of("sharp", TREE, 4), TREE, 1)
    assert reduced.total_j - reduced.additions_j == pytest.approx(4 * 8 * 50e-12 / 0.95)
    # adding is negligible beside sending
    assert reduced.additions_j < 1e-3 * reduced.total_j


@pytest.mark.parametrize("optics", OPTICS)
def test_energy_is_proportional_to_the_size(optics):
    small, large = (exchange_energy(ring(8), SWITCH, size, optics).total_j for size in (1e3, 3e3))
    assert large == pytest.approx(3 * small)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exchange_energy(ring(4), SWITCH, -1.0), "ring: -1.0 bytes"),
        (lambda: exchange_energy(ring(4), SWITCH, float("nan")), "ring: nan bytes|size_bytes = nan"),
        (lambda: exchange_energy(ring(4), SWITCH, 1.0, "copper"), "'copper'; give one of pluggable, copackaged"),
        (lambda: exchange_energy(ring(4), load_system("fat_tree"), 1.0), "fat_tree: energy: .*add"),
        (lambda: exchange_energy(optinc_star(4), load_system("optinc_star"), 1.0), "optinc_star: .*link_energy"),
        (lambda: exchange_energy(ring(4), TREE, 1.0), "ring of 4 nodes on sharp"),
        (lambda: exchange_energy(sharp(100, 100), TREE, 1.0), "100 ports, its radix is 72"),
        (lambda: exchange_energy("ring", SWITCH, 1.0), "exchange_energy: schedule = 'ring'"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
