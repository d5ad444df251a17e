"""Time of training steps: published figures, workloads, and refused input."""

import numpy as np
import pytest

from optinc_collective.interconnect import (
    SCHEMES,
    all_gather,
    binary_tree,
    daso_step_time,
    execute,
    hierarchical_ring,
    load_system,
    ring,
    simulate,
    step_time,
    with_rate,
    wrht,
)
from optinc_collective.interconnect.training_time import compute_time, llama, resnet50
from optinc_pdk.errors import InputError

SWITCH, STAR = load_system("server_switch"), load_system("optinc_star")


@pytest.mark.parametrize(("servers", "ratio"), [(4, 1.5), (8, 1.75), (16, 1.875)])
def test_traffic_of_ring_and_optinc(servers, ratio):
    """arXiv 2603.28290."""
    assert step_time("ring", SWITCH, 1e6, servers).sent_bytes == pytest.approx(ratio * 1e6)
    assert step_time("optinc", STAR, 1e6, servers).sent_bytes == 1e6


def test_savings_of_wrht_have_the_published_signs():
    """arXiv 2207.10982, 1024 nodes and 64 wavelengths; a network of GoogLeNet's size."""
    system, size = load_system("wdm_ring"), 27.2e6
    best = simulate(wrht(1024, 64), system, size).seconds
    for schedule in (ring(1024), hierarchical_ring(1024, 5), binary_tree(1024)):
        assert 0.4 < 1 - best / simulate(schedule, system, size).seconds < 0.95


def saving(workload, samples, bit_per_s):
    compute = compute_time(STAR.server, samples * workload.flop)
    both = [
        step_time(scheme, with_rate(system, bit_per_s), 4 * workload.parameters, 4, compute).total_s
        for scheme, system in (("ring", SWITCH), ("optinc", STAR))
    ]
    return 1 - both[1] / both[0]


def test_latencies_of_optinc_s_paper_with_800_gb_s_a_server():
    """Over 25 % and about 17 %, with 32-bit gradients, 32 images and 512 tokens per server."""
    assert 0.25 < saving(resnet50(32, 100, False), 32, 800e9) < 0.27
    assert saving(llama(8, 384, 1024, 32_000, 512), 512, 800e9) == pytest.approx(0.17, abs=0.01)
    assert saving(resnet50(32, 100, False), 32, 6.4e12) < 0.12


def test_parameters_and_operations_of_known_networks():
    """ResNet-50 in PyTorch's model zoo: 25,557,032 parameters, 4.09 G multiplications."""
    known = resnet50(224, 1000, False)
    assert known.parameters == 25_557_032
    assert known.multiplications == pytest.approx(4.09e9, rel=1e-3)
    # LLaMA 7B: 6.74 billion parameters
    assert llama(32, 4096, 11_008, 32_000, 2048).parameters == 6_738_415_616


def test_all_gather_sends_every_piece_to_all_nodes():
    values = np.zeros((6, 12), np.int64)
    for node in range(6):
        values[node, 2 * node : 2 * node + 2] = node + 1
    assert (execute(all_gather(6), values) == values.sum(axis=0)).all()
    assert step_time("all-gather", SWITCH, 100.0, 6).sent_bytes == pytest.approx(500.0)


def test_every_scheme_can_be_simulated():
    systems = {"wrht": load_system("wdm_ring"), "optinc": STAR, "sharp": load_system("sharp")}
    for scheme in SCHEMES:
        result = step_time(scheme, systems.get(scheme, SWITCH), 1e8, 16, compute_s=0.01, group=4)
        assert result.total_s > 0.01
        assert result.total_s == result.compute_s + result.communication_s


def test_daso_spreads_the_global_exchange():
    tree = load_system("fat_tree")
    inner = step_time("ring", SWITCH, 1e8, 4).communication_s
    outer = step_time("ring", tree, 1e8, 8).communication_s
    blocking = daso_step_time(SWITCH, tree, 1e8, 32, group=4, every=4, compute_s=0.0, blocking=True)
    assert blocking.communication_s == pytest.approx(inner + outer / 4)
    hidden = daso_step_time(SWITCH, tree, 1e8, 32, group=4, every=4, compute_s=0.1)
    assert hidden.communication_s == pytest.approx(inner)
    short = daso_step_time(SWITCH, tree, 1e8, 32, group=4, every=4, compute_s=0.001)
    assert short.total_s == pytest.approx(outer / 4)
    assert blocking.sent_bytes == pytest.approx(1.5e8 + 1.75e8 / 16)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: step_time("butterfly", SWITCH, 1.0, 4), "'butterfly': .*ring"),
        (lambda: step_time("wrht", SWITCH, 1.0, 4), "wrht on server_switch: .*wdm_ring"),
        (lambda: step_time("sharp", SWITCH, 1.0, 4), "sharp on server_switch: .*do not reduce"),
        (lambda: step_time("hierarchical-ring", SWITCH, 1.0, 4), "hierarchical-ring: .*group"),
        (lambda: step_time("ring", SWITCH, 1.0, 1), "1 nodes.* 2"),
        (lambda: step_time("ring", SWITCH, 1.0, 4, compute_s=-1.0), "-1.0 s"),
        (lambda: daso_step_time(SWITCH, SWITCH, 1.0, 10, 4, 2), "10 nodes in groups of 4"),
        (lambda: daso_step_time(SWITCH, SWITCH, 1.0, 8, 1, 2, compute_s=-1.0), "DASO: -1.0 s"),
        (lambda: step_time("ring", "server_switch", 1.0, 4), "step_time: system = 'server_switch': .*WdmRing"),
        (lambda: step_time("ring", SWITCH, "1", 4), "step_time: payload_bytes = '1'"),
        (lambda: step_time("ring", SWITCH, 1.0, 4.0), "step_time: nodes = 4.0"),
        (lambda: step_time("ring", SWITCH, 1.0, 4, compute_s=True), "step_time: compute_s = True"),
        (lambda: daso_step_time(SWITCH, SWITCH, 1.0, 8, 4, 2.5), "daso_step_time: every = 2.5"),
        (lambda: simulate(ring(4), SWITCH, "1"), "simulate: size_bytes = '1'"),
        (lambda: simulate("ring", SWITCH, 1.0), "simulate: schedule = 'ring'"),
        (lambda: with_rate(SWITCH, "1e9"), "with_rate: bit_per_s = '1e9'"),
        (lambda: load_system(5), "load_system: name = 5"),
        (lambda: compute_time(None, 1.0), "compute_time: server = None"),
        (lambda: llama(8, 384, 1024, 32_000, 51.2), "llama: context = 51.2"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
