"""Power of all parts of a chip at a symbol rate, counted by hand, and parts whose cards state none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from comparator_toy import BOARD, TASK, comparators

from optinc_pdk.cards import Process, load_process
from optinc_pdk.simulate import noise_of
from optinc_pdk.studies.link_energy import link_energy, oscillator_light_w


def biased():
    _, bias = comparators()
    watts = np.array([0.01, 0.02])
    return replace(bias, labels=("a", "b"), power_w=watts, phase_rad=watts, voltage_v=watts, code=np.array([1, 2]))


@pytest.fixture
def process() -> Process:
    return load_process("soi220_fast")


def test_every_part_counts_with_its_card(process: Process) -> None:
    noise = noise_of(process, 0.01, 2e10)
    found = link_energy(BOARD, biased(), TASK, process, noise)
    amplifier = {float(one.a_per_sqrt_hz): one.power_w for one in process.noise.amplifiers}[
        noise.receiver_a_per_sqrt_hz
    ]
    # the server's modulator is a guide, the carrier leads to oscillators; the neurons' modulators are on the chip
    assert found.power_w["laser"] == found.power_w["oscillators"] == pytest.approx(0.01 / 0.22)
    assert found.power_w["heaters"] == pytest.approx(0.03)
    assert found.power_w["heater drives"] == pytest.approx(2 * 0.01)
    # one pair of detectors that three neurons share, and one receiver
    assert found.power_w["amplifiers"] == pytest.approx(3 * float(amplifier))
    assert found.power_w["modulator drivers"] == pytest.approx(4 * 0.53)
    assert found.power_w["decisions"] == pytest.approx(2e10 * 2.8e-12)
    assert found.power_w["converters"] == pytest.approx(2e10 * 3.26e-12)
    assert found.power_w["SerDes"] == pytest.approx(2 * 2e10 * 2.48e-12)
    # the carrier's fibre is the reference of the server's
    assert found.power_w["phase locks"] == pytest.approx(0.05)
    assert found.power_w["temperature control"] == pytest.approx(2 * 0.01 / 0.22 + 0.03)
    # nothing is known of the predistortion of modulators
    assert found.missing == ("linearisers (activation.lineariser.power_w)",)
    assert found.bits == 2
    assert found.word_j == pytest.approx(sum(found.power_w.values()) / 2e10)
    assert found.bit_j == pytest.approx(found.word_j / 2)


def test_coherent_receivers_have_oscillators_and_two_detectors(process: Process) -> None:
    noise = noise_of(process, 0.01, 2e10)
    plain = link_energy(BOARD, biased(), TASK, process, noise).power_w
    coherent = link_energy(replace(BOARD, coherent=True), biased(), TASK, process, noise).power_w
    assert coherent["oscillators"] - plain["oscillators"] == pytest.approx(0.01 / 0.22)
    assert coherent["laser"] == plain["laser"]
    assert coherent["phase locks"] - plain["phase locks"] == pytest.approx(0.05)
    assert coherent["amplifiers"] / plain["amplifiers"] == pytest.approx(4 / 3)


def test_parts_without_a_number_are_named_and_light_off_the_chip_counts_for_every_modulator() -> None:
    process = load_process()
    found = link_energy(BOARD, biased(), TASK, process, noise_of(process, 0.01, 1e8))
    assert set(found.power_w) == {"heaters", "amplifiers"}
    assert [part.split(" (")[0] for part in found.missing] == [
        "laser",
        "oscillators",
        "heater drives",
        "modulator drivers",
        "decisions",
        "converters",
        "SerDes",
        "phase locks",
        "temperature control",
        "linearisers",
    ]
    budget = process.budget.model_copy(update={"laser_efficiency": 0.5})
    lit = link_energy(
        BOARD, biased(), TASK, process.model_copy(update={"budget": budget}), noise_of(process, 0.01, 1e8)
    )
    assert lit.power_w["laser"] == pytest.approx(4 * 0.01 / 0.5)
    assert lit.power_w["oscillators"] == pytest.approx(0.01 / 0.5)


def test_light_of_oscillators_counts_by_its_own_power(process: Process) -> None:
    """With fibres of their own, the carrier's fibre counts as a guide, at the power of every guide."""
    noise = noise_of(process, 0.01, 2e10)
    board = replace(BOARD, oscillators=("lo_a", "lo_b"), oscillator_power=1.5)
    found = link_energy(board, biased(), TASK, process, noise).power_w
    assert found["oscillators"] == pytest.approx(2 * 0.015 / 0.22)
    assert found["laser"] == pytest.approx(2 * 0.01 / 0.22)
    assert oscillator_light_w(replace(board, coherent=True), noise) == pytest.approx(2 * 0.015 + 0.01)
