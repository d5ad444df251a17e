"""The tiny chip on a bench: its network, a sample, and what is known of its heaters."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.networks import carry_chain
from optinc_pdk.simulate.programming.targets import layer_targets
from optinc_pdk.studies import draw_sample
from optinc_pdk.studies.calibration._procedure import programming_problem
from optinc_pdk.studies.calibration._virtual_bench import VirtualBench

BITS = 16.0


@pytest.fixture(scope="session")
def network(work):
    return carry_chain(work.check.task)


@pytest.fixture(scope="session")
def sample(work, every):
    return draw_sample(work.chip, every, 5)


@pytest.fixture(scope="session")
def problem(work, network):
    return programming_problem(work.chip, layer_targets(network, work.chip.board))


@pytest.fixture(scope="session")
def open_heater(work):
    """Return a function of sample and heater: a bench with a chip of which the wire of this heater is open."""

    def bench(sample, cut):
        class OpenHeater(VirtualBench):
            def read(self, voltage_v, amplitude):
                voltage = np.array(voltage_v, dtype=float)
                voltage[:, cut] = 0.0
                return super().read(voltage, amplitude)

        return OpenHeater(work.chip, sample, BITS)

    return bench


@pytest.fixture(scope="session")
def efficiencies(work):
    """Return a function of a sample: real phase over design phase of its heaters."""
    chip = work.chip

    def real(sample):
        resistance = chip.resistance_ohm * sample.resistance_scale
        nominal = (chip.resistance_ohm + chip.wire_ohm) ** 2 / chip.resistance_ohm
        return resistance / (resistance + chip.wire_ohm) ** 2 * nominal / sample.power_scale

    return real
