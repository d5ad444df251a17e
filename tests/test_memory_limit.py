"""Refusal of work beyond the machine's memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies import read_data

from optinc_pdk import memory_limit
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights, comparator_network, weight_files
from optinc_pdk.networks.requirements import estimated_memory_gb
from optinc_pdk.pipeline import building


def test_memory_of_the_machine_is_known():
    assert 0.1 < memory_limit.machine_memory_gb() < 1e5


def test_cgroup_limits_the_memory(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    limit.write_text("2000000000\n")
    monkeypatch.setattr(memory_limit, "CGROUP_LIMITS", (limit,))
    assert memory_limit.machine_memory_gb() <= 2.0
    limit.write_text("max\n")
    assert memory_limit.machine_memory_gb() > 2.0


def test_a_chip_beyond_memory_is_refused_before_work_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_limit, "machine_memory_gb", lambda: 0.3)
    stages = []
    with pytest.raises(InputError, match=r"0\.3 GB") as fault:
        building.build(bundled_weights(4, 4), tmp_path / "out", on_stage=stages.append)
    assert "MZIs" in str(fault.value) and stages == ["read"]
    assert not (tmp_path / "out").exists()


SCENARIOS = read_data("scenarios", {})
NETWORKS = {
    "4/4": lambda: comparator_network(Averaging(4, 4, 2)),
    "8/4": lambda: comparator_network(Averaging(8, 4, 4)),
    "8/8": lambda: comparator_network(Averaging(8, 8, 4)),
    "16/4, K = 8": lambda: comparator_network(Averaging(16, 4, 8)),
    "4-32-32-32-32-4": lambda: AveragingNetwork.load(bundled("average_8bit_4servers_wide")),
    "8/8, trained": lambda: AveragingNetwork.load(bundled("average_8bit_8servers")),
    "4-64-128-256-128-64-4": lambda: AveragingNetwork.load(PAPER),
}
PAPER = Path(__file__).parents[1] / "benchmarks" / "paper_8bit_4servers.npz"


def bundled(name):
    return weight_files.NETWORKS / f"{name}.npz"


@pytest.mark.full(every=4)
@pytest.mark.parametrize("name", NETWORKS)
def test_estimates_agree_with_measured_peaks(name):
    peak_gb = SCENARIOS[name]["peak_gb"]
    assert peak_gb <= estimated_memory_gb(NETWORKS[name]()) <= 1.5 * peak_gb


def test_the_jacobian_of_a_wide_layer_counts():
    rng = np.random.default_rng(0)
    layers = (Layer(rng.random((256, 4)), np.ones(256)), Layer(rng.random((4, 256)), np.zeros(4)))
    wide = AveragingNetwork(layers, Averaging(8, 4, 4))
    blocks = AveragingNetwork(layers, Averaging(8, 4, 4), (("approx", 4), ("approx", 4)))
    assert estimated_memory_gb(wide) > 3 * 8e-9 * 1024 * 65000
    assert estimated_memory_gb(blocks) < 1.0
