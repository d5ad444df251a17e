"""Simulated times against closed formulas, a transfer-by-transfer reference, and hand calculations; energy by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_collective.interconnect import (
    ExchangeSchedule,
    binary_tree,
    exchange_energy,
    hierarchical_ring,
    load_system,
    optinc_cascade,
    optinc_star,
    recursive_doubling,
    repetitions,
    ring,
    schedule_of,
    sharp,
    simulate,
    wrht,
)
from optinc_collective.interconnect._systems import OpticsEnergy
from optinc_collective.interconnect.exchange_schedule import exchange_step
from optinc_collective.interconnect.exchange_simulation import OPTICS, fair_rates, routes
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.errors import InputError


def system(name, **changed):
    values = {key: Quantity(value, "default") for key, value in changed.items()}
    return load_system(name).model_copy(update=values)


RING = system("wdm_ring", spacing_m=0.0)
SMALL = {"down_ports": 4, "up_ports": 4, "levels": 3, "cable_m": 0.0}
OVERHEAD, RATE = 25e-6, 40e9


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 300), st.floats(0, 1e9))
def test_closed_formulas_on_an_optical_ring(nodes, size):
    """arXiv 2207.10982: a step takes the time of its bits at the rate of a wavelength plus the overhead."""
    bits = 8 * size
    whole = OVERHEAD + bits / RATE
    assert simulate(ring(nodes), RING, size).seconds == pytest.approx(
        2 * (nodes - 1) * (OVERHEAD + bits / nodes / RATE)
    )
    assert simulate(binary_tree(nodes), RING, size).seconds == pytest.approx(2 * (nodes - 1).bit_length() * whole)
    schedule = wrht(nodes, 64)
    assert simulate(schedule, RING, size).seconds == pytest.approx(schedule.count * whole)


def test_propagation_delay_is_counted_link_by_link():
    slow = system("wdm_ring", spacing_m=1000.0)
    link = 1000.0 * 1.468 / 299_792_458.0
    far = simulate(binary_tree(16), slow, 0).seconds - simulate(binary_tree(16), RING, 0).seconds
    assert far == pytest.approx(2 * (1 + 2 + 4 + 8) * link)


def reference_seconds(schedule, system, size):
    """Time by a loop over all transfers of all repetitions, for schedules without concurrently shared links."""
    ready = np.zeros(schedule.nodes)
    free = {}
    for step, _turn in repetitions(schedule):
        route = routes(system, schedule, step)
        links = [route.link[route.transfer == t].tolist() for t in range(len(step.source))]
        ends = []
        for t, (a, b) in enumerate(zip(step.source, step.target, strict=True)):
            start = max(ready[a], ready[b], *(free.get(link, 0.0) for link in links[t]))
            ends.append(start + system.overhead_s + route.delay_s[t] + 8 * size / step.parts[t] / system.bit_per_s)
        for t, (a, b) in enumerate(zip(step.source, step.target, strict=True)):
            ready[a], ready[b] = max(ready[a], ends[t]), max(ready[b], ends[t])
            free |= {link: ends[t] for link in links[t]}
    return ready.max()


@pytest.mark.parametrize("nodes", [5, 16, 23, 50])
@pytest.mark.parametrize("size", [0.0, 1e6])
def test_fat_tree_against_the_reference(nodes, size):
    """Paths of different lengths, so nodes get out of step before the repetitions become periodic."""
    tree = system("fat_tree", **SMALL, switch_s=3e-6)
    for schedule in (ring(nodes), binary_tree(nodes)):
        assert simulate(schedule, tree, size).seconds == pytest.approx(
            reference_seconds(schedule, tree, size), rel=1e-12
        )


def test_periodic_repetitions_are_extrapolated():
    tree = system("fat_tree", **SMALL, switch_s=3e-6)
    timing = simulate(ring(128), tree, 1e6)
    assert timing.simulated_repetitions < 130
    assert timing.steps == 254
    assert timing.seconds == pytest.approx(reference_seconds(ring(128), tree, 1e6), rel=1e-12)


def test_100_000_nodes():
    timing = simulate(ring(100_000), load_system("wdm_ring"), 1e8)
    assert timing.simulated_repetitions < 10
    assert timing.seconds == pytest.approx(199_998 * (OVERHEAD + 8e8 / 1e5 / RATE + 1.468 / 299_792_458.0))


@pytest.mark.parametrize(("uplinks", "slower"), [(4, 1), (2, 2), (1, 4)])
def test_shared_uplinks_count(uplinks, slower):
    """Four nodes of a switch send to four of another switch: over one uplink each has a quarter of the rate."""
    tree = system("fat_tree", **{**SMALL, "up_ports": uplinks}, switch_s=0.0, overhead_s=0.0)
    step = exchange_step(np.arange(4), np.arange(4, 8), reduce=True)
    assert simulate(ExchangeSchedule("four", 8, (step,)), tree, 5e9).seconds == pytest.approx(slower * 1.0)


@pytest.mark.parametrize(("target", "seconds"), [([4, 8], 2.0), ([4, 9], 1.0)])
def test_ports_are_chosen_by_the_target(target, seconds):
    """Two nodes of a switch send to two others: targets that are equal modulo 4 share a port."""
    tree = system("fat_tree", **SMALL, switch_s=0.0, overhead_s=0.0)
    step = exchange_step([0, 1], target, reduce=True)
    assert simulate(ExchangeSchedule("two", 16, (step,)), tree, 5e9).seconds == pytest.approx(seconds)


@pytest.mark.parametrize("shift", [1, 4, 5, 16, 23])
def test_shifts_have_no_contention_in_a_full_fat_tree(shift):
    """D-mod-k routes any shift without contention: Zahavi, J. Parallel Distrib. Comput. 72, 1423 (2012)."""
    tree = system("fat_tree", **SMALL, switch_s=0.0, overhead_s=0.0)
    nodes = np.arange(128)
    step = exchange_step(nodes, (nodes + shift) % 128, reduce=True)
    assert simulate(ExchangeSchedule("shift", 128, (step,)), tree, 5e9).seconds == pytest.approx(1.0)


def test_a_transfer_waits_for_a_node_that_still_receives():
    steps = (exchange_step(0, 1, reduce=True, direction=1), exchange_step(2, 1, reduce=True, direction=-1))
    assert simulate(ExchangeSchedule("both", 4, steps), RING, 1e6).seconds == pytest.approx(2 * (OVERHEAD + 8e6 / RATE))


def test_repetitions_that_are_not_periodic_are_all_simulated():
    """A pair with half the data needs half the time and then sends the longest transfers."""
    pairs = exchange_step([0, 2], [1, 3], reduce=True, direction=1, parts=[1, 2], repeat=10)
    then = exchange_step(2, 3, reduce=True, direction=1, repeat=20)
    schedule = ExchangeSchedule("apart", 5, (pairs, then))
    timing = simulate(schedule, RING, 1e6)
    assert timing.seconds == pytest.approx(30 * OVERHEAD + 25 * 8e6 / RATE)
    assert timing.seconds == pytest.approx(reference_seconds(schedule, RING, 1e6))


def test_the_rate_of_a_flow_that_ends_is_shared_by_the_others():
    tree = system("fat_tree", **SMALL, switch_s=0.0, overhead_s=0.0)
    step = exchange_step([0, 1, 2], 3, reduce=True, part=0, parts=[1, 2, 4])
    # a third of the rate until the quarter is sent, half until the half is sent, then the full rate
    assert simulate(ExchangeSchedule("into one", 4, (step,)), tree, 5e9).seconds == pytest.approx(1.75)
    late = exchange_step([0, 5], [1, 1], reduce=True)
    # the flow from farther away starts 2 switches (0.2 s) later; the first has the full rate until then
    far = system("fat_tree", **SMALL, switch_s=0.1, overhead_s=0.0)
    assert simulate(ExchangeSchedule("late", 6, (late,)), far, 5e9).seconds == pytest.approx(0.1 + 2.0)


def test_repetitions_never_exceed_the_rate_of_a_link():
    """A whole and half a buffer over one uplink, three times: 4.5 buffers, even if the nodes get out of step."""
    tree = system("fat_tree", **{**SMALL, "up_ports": 1}, switch_s=0.0, overhead_s=0.0)
    step = exchange_step([0, 1], [4, 5], reduce=True, parts=[1, 2], repeat=3)
    assert simulate(ExchangeSchedule("thrice", 8, (step,)), tree, 5e9).seconds == pytest.approx(4.5)


def test_max_min_fairness_by_hand():
    """Links of 1: flows 0, 1, 2 on link 0, flow 2 with flow 3 on link 1, flow 4 alone, flow 5 waits."""
    transfer, link = np.array([0, 1, 2, 2, 3, 4, 5]), np.array([0, 0, 0, 1, 1, 2, 0])
    rates = fair_rates(np.array([True] * 5 + [False]), transfer, link, 1.0)
    assert rates == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3, 1.0, 0.0])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=12))
def test_max_min_fairness_gives_every_flow_a_bottleneck_link(paths):
    transfer = np.concatenate([np.full(len(path), flow) for flow, path in enumerate(paths)])
    link = np.concatenate([np.array(sorted(path)) for path in paths])
    rates = fair_rates(np.ones(len(paths), bool), transfer, link, 1.0)
    use = np.bincount(link, rates[transfer], 6)
    assert (use <= 1 + 1e-9).all()
    for path, rate in zip(paths, rates, strict=True):
        # a full link on which no flow has a higher rate
        assert any(use[each] > 1 - 1e-9 and (rates[transfer[link == each]] <= rate + 1e-9).all() for each in path)


def test_a_transfer_waits_for_a_wavelength_used_by_an_earlier_step():
    first = exchange_step(0, 3, reduce=True, direction=1)
    for wavelength, steps in ((0, 2), (1, 1)):
        then = exchange_step(1, 2, reduce=True, direction=1, wavelength=wavelength)
        schedule = ExchangeSchedule("over it", 5, (first, then))
        assert simulate(schedule, RING, 1e6).seconds == pytest.approx(steps * (OVERHEAD + 8e6 / RATE))


def test_unchanged_circuits_need_no_reconfiguration():
    slow = system("wdm_ring", spacing_m=0.0, reconfiguration_s=1.0)
    assert simulate(ring(8), slow, 0).seconds == pytest.approx(1 + 14 * OVERHEAD)
    assert simulate(binary_tree(8), slow, 0).seconds == pytest.approx(5 + 6 * OVERHEAD + 1)


def test_optinc_takes_the_time_of_one_buffer_and_the_propagation_delay():
    for name, schedule in (("optinc_star", optinc_star(4)), ("optinc_cascade", optinc_cascade(16))):
        far = system(name, fibre_m=100.0)
        flight = len(schedule.steps) * 100.0 * 1.468 / 299_792_458.0
        assert simulate(schedule, far, 1e8).seconds == pytest.approx(8e8 / 6.4e12 + flight)


CABLE = 10.0 * 1.468 / 299_792_458.0


def test_sharp_has_the_published_latency():
    """Graham et al., COMHPC 2016: 2.83 µs for 8 bytes of 128 hosts, which takes two levels of switches."""
    tree = load_system("sharp")
    assert simulate(schedule_of("sharp", tree, 128), tree, 8).seconds == pytest.approx(2.83e-6, rel=1e-3)
    # one level: one switch and two cables
    assert simulate(schedule_of("sharp", tree, 72), tree, 0).seconds == pytest.approx(1.734e-6 + 0.3e-6 + 2 * CABLE)
    assert simulate(sharp(72**2 + 1, 72), tree, 0).seconds == pytest.approx(1.734e-6 + 5 * 0.3e-6 + 6 * CABLE)


@pytest.mark.parametrize("servers", [4, 72, 500, 100_000])
def test_sharp_streams_a_buffer_once_at_the_published_share_of_the_rate(servers):
    """Graham et al., ISC 2020: 95 % of the network's rate, whatever the number of servers."""
    tree = load_system("sharp")
    schedule = schedule_of("sharp", tree, servers)
    none, whole = (simulate(schedule, tree, size) for size in (0.0, 1e9))
    assert whole.seconds - none.seconds == pytest.approx(8e9 / (0.95 * 6.4e12))
    assert whole.sent_bytes == 1e9


@pytest.mark.parametrize(
    ("schedule", "name", "message"),
    [
        (recursive_doubling(1024), "wdm_ring", "512 wavelengths, .* 64"),
        (wrht(1000, 65), "wdm_ring", "65 wavelengths, .* 64"),
        (ring(300), "server_switch", "300 nodes on server_switch: .* 64"),
        (ring(4), "optinc_star", "ring of 4 nodes on optinc_star"),
        (optinc_star(4), "fat_tree", "OptINC of 4 nodes on fat_tree: .*in_network"),
        (optinc_star(4), "optinc_cascade", "levels: 2, .* 1"),
        (optinc_star(4), "sharp", "OptINC of 4 nodes on sharp: .*only SHARP"),
        (sharp(4, 8), "optinc_star", "SHARP of 4 nodes on optinc_star: .*only OptINC"),
        (sharp(4, 8), "switch_800g", "SHARP of 4 nodes on switch_800g: .*kind sharp"),
        (ring(4), "sharp", "ring of 4 nodes on sharp: .*only SHARP"),
        (sharp(100, 100), "sharp", "100 ports, its radix is 72"),
        (sharp(20, 2), "sharp", "levels: 3, the schedule has 5"),
        (
            ExchangeSchedule("twice", 6, (exchange_step([0, 1], [2, 3], reduce=True, direction=1),)),
            "wdm_ring",
            "0→2 and 1→3 .*wavelength 0",
        ),
    ],
)
def test_schedules_that_a_system_cannot_run_are_refused(schedule, name, message):
    with pytest.raises(InputError, match=message):
        simulate(schedule, load_system(name), 1e6)


@pytest.mark.parametrize("size", [-1.0, float("nan"), float("inf")])
def test_invalid_sizes_are_refused(size):
    with pytest.raises(InputError, match=f"hierarchical ring: {size} bytes|size_bytes = {size}"):
        simulate(hierarchical_ring(6, 3), RING, size)


NEIGHBOURS, SWITCH, TREE = (load_system(name) for name in ("ring_800g", "switch_800g", "sharp"))


MODULES = {"pluggable": 2.0, "linear": 1.5, "copackaged": 1.0}
SERDES = {"pluggable": 7.0, "linear": 8.0, "copackaged": 4.0}
"""Energies for a bit in J, by kind of optics."""
CORRECTION, ADDITION, SWITCHING = 16.0, 0.5, 3.0


def with_energies(system):
    """Copy of a system with the energies above."""
    given = {"correction_j_per_bit": CORRECTION, "addition_j_per_bit": ADDITION, "switch_j_per_bit": SWITCHING}
    found = {key: Quantity(value, "default") for key, value in given.items() if hasattr(system.energy, key)}
    for kind in OPTICS:
        values = {"module_j_per_bit": MODULES[kind], "serdes_j_per_bit": SERDES[kind]}
        found[kind] = OpticsEnergy(**{key: Quantity(value, "default") for key, value in values.items()})
    return system.model_copy(update={"energy": system.energy.model_copy(update=found)})


@pytest.mark.parametrize("optics", OPTICS)
def test_a_ring_between_neighbours_by_hand(optics):
    """4 servers, 100 bytes: 6 steps of 4 pieces of 200 bits, each on one link; pieces are added in 3 of them."""
    energy = exchange_energy(ring(4), with_energies(NEIGHBOURS), 100, optics)
    assert (energy.transceivers_j, energy.switches_j, energy.additions_j) == (4800 * MODULES[optics], 0.0, 2400 * 0.5)
    # both ends of every link are servers
    assert (energy.serdes_j, energy.corrections_j) == (4800 * SERDES[optics], 4800 * CORRECTION)
    assert energy.total_j == 4800 * (MODULES[optics] + SERDES[optics] + CORRECTION) + 1200


@pytest.mark.parametrize("optics", OPTICS)
def test_a_ring_through_a_switch_by_hand(optics):
    """As between neighbours, but two links and one switch for every piece; the switch has its own SerDes."""
    energy = exchange_energy(ring(4), with_energies(SWITCH), 100, optics)
    assert energy.transceivers_j == 2 * 4800 * MODULES[optics]
    assert (energy.serdes_j, energy.corrections_j) == (4800 * SERDES[optics], 4800 * CORRECTION)
    assert energy.switches_j == 4800 * 3.0
    assert energy.additions_j == 2400 * 0.5


def test_paths_over_several_levels_by_hand():
    """Switches of 2 ports: servers 0 and 1, 2 and 3 exchange over one switch, then 0 and 2, 1 and 3 over three."""
    small = with_energies(SWITCH)
    small = small.model_copy(update={key: Quantity(2, "default") for key in ("down_ports", "up_ports", "levels")})
    energy = exchange_energy(recursive_doubling(4), small, 100)
    assert energy.transceivers_j == 4 * 800 * (2 + 4) * 2.0
    assert energy.switches_j == 4 * 800 * (1 + 3) * 3.0
    assert energy.additions_j == 8 * 800 * 0.5


def test_sharp_by_hand():
    """4 servers under one switch: 4 links up and 4 down; the switch takes in 4 buffers, at 95 % of its rate."""
    energy = exchange_energy(sharp(4, 72), with_energies(TREE), 100)
    assert energy.transceivers_j == pytest.approx(8 * 800 * 2.0 / 0.95)
    # half of it at the one end of a link that is a server
    assert energy.serdes_j == pytest.approx(8 * 800 * 7.0 / 2 / 0.95)
    assert energy.corrections_j == pytest.approx(8 * 800 * CORRECTION / 2 / 0.95)
    assert energy.switches_j == pytest.approx(4 * 800 * 3.0 / 0.95)
    assert energy.additions_j == 4 * 800 * 0.5


def test_sharp_over_two_levels_by_hand():
    """4 servers under 2 switches under one: 6 links, each in both directions; the switches take in 6 + 2 buffers."""
    tree = with_energies(TREE).model_copy(update={"streaming": Quantity(1, "default")})
    energy = exchange_energy(sharp(4, 2), tree, 100)
    assert energy.transceivers_j == 12 * 800 * 2.0
    assert (energy.serdes_j, energy.corrections_j) == (8 * 800 * 7.0 / 2, 8 * 800 * CORRECTION / 2)
    assert energy.switches_j == 8 * 800 * 3.0
    assert energy.additions_j == 6 * 800 * 0.5


def test_energies_of_the_cards_for_one_gradient_of_eight_bits():
    """A ring over a switch: 4 servers send 12 bits, at 2 × 20 + 7.27 + 10 pJ/bit; SHARP: 8 bits, 1/0.95 as long."""
    for optics, joules in (("pluggable", 57.27e-12), ("linear", 38.47e-12), ("copackaged", 23.58e-12)):
        through = exchange_energy(ring(4), SWITCH, 1, optics)
        assert through.total_j - through.additions_j == pytest.approx(4 * 12 * joules)
        reduced = exchange_energy(schedule_of("sharp", TREE, 4), TREE, 1, optics)
        assert reduced.total_j - reduced.additions_j == pytest.approx(4 * 8 * joules / 0.95)
    # adding is negligible beside sending
    assert reduced.additions_j < 2e-3 * reduced.total_j


@pytest.mark.parametrize("optics", OPTICS)
def test_energy_is_proportional_to_the_size(optics):
    small, large = (exchange_energy(ring(8), SWITCH, size, optics).total_j for size in (1e3, 3e3))
    assert large == pytest.approx(3 * small)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exchange_energy(ring(4), SWITCH, -1.0), "ring: -1.0 bytes"),
        (lambda: exchange_energy(ring(4), SWITCH, float("nan")), "ring: nan bytes|size_bytes = nan"),
        (
            lambda: exchange_energy(ring(4), SWITCH, 1.0, "copper"),
            "'copper'; .* pluggable, linear, copackaged",
        ),
        (lambda: exchange_energy(ring(4), load_system("wdm_ring"), 1.0), "wdm_ring: energy: .*add"),
        (lambda: exchange_energy(optinc_star(4), load_system("optinc_star"), 1.0), "optinc_star: .*link_energy"),
        (lambda: exchange_energy(ring(4), TREE, 1.0), "ring of 4 nodes on sharp"),
        (lambda: exchange_energy(sharp(100, 100), TREE, 1.0), "100 ports, its radix is 72"),
        (lambda: exchange_energy("ring", SWITCH, 1.0), "exchange_energy: schedule = 'ring'"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
