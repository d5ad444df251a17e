"""Chips at another power of their local oscillators: against programming, against shot noise by hand, and rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from comparator_toy import BOARD, FIELD, PROCESS, TASK, comparators
from scipy.special import ndtr

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Quantity
from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.networks import carry_chain
from optinc_pdk.signoff.function import function_inputs, oscillator_powers
from optinc_pdk.simulate import noise_of, program, scattering, transmit
from optinc_pdk.simulate.transmission.noise import ELECTRON_C, Noise, check_oscillator_power, relative_oscillator_power
from optinc_pdk.simulate.transmission.symbol_shape import SymbolShape
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors
from optinc_pdk.studies.highest_rates import highest_rate
from optinc_pdk.studies.oscillators import oscillator_light, oscillator_rates, with_oscillator_power

INPUTS = function_inputs(TASK)


def test_a_chip_set_to_another_power_is_the_chip_programmed_for_it(chip, onn, process, ground) -> None:
    """The card states the power; the board of the assembled chip has it, and so has its bias."""
    board = replace(chip.board, oscillator_power=1.6)
    circuit = chip.structure.circuit
    made = program(circuit, board, onn, process, ground=ground).bias
    assert np.array_equal(made.code, chip.bias.code)
    s = scattering(circuit, chip.bias, 1550.0, process, ground=ground)
    other, found = with_oscillator_power(s, chip.board, chip.bias, process, 1.6)
    assert other == board and found.activations != chip.bias.activations
    for label, expected in made.activations.items():
        now = found.activations[label]
        assert now.balance == expected.balance
        assert (now.gain, now.offset) == pytest.approx((expected.gain, expected.offset), rel=1e-3)
    words = np.random.default_rng(1).integers(0, 4, (200, len(board.inputs), len(board.inputs[0])))
    one, two, before = (
        transmit(words, s, *each).outputs for each in ((board, made), (other, found), (chip.board, chip.bias))
    )
    span = np.ptp(before, axis=0).max()
    assert np.abs(one - two).max() < 1e-2 * span and np.abs(two - before).max() < 5e-2 * span
    # the same bias at another power is not the same chip
    assert np.abs(transmit(words, s, board, chip.bias).outputs - before).max() > 0.2 * span
    assert with_oscillator_power(s, chip.board, chip.bias, process, 1.0) == (chip.board, chip.bias)


def shot_only(rate_bd: float, laser_w: float) -> Noise:
    noise = replace(noise_of(PROCESS, laser_w, rate_bd), shape=SymbolShape(np.inf, np.inf, 0.875))
    return noise.only("shot")


@pytest.mark.parametrize("power", [0.04, 1.0, 25.0])
def test_errors_are_those_of_the_shot_noise_of_oscillator_and_signal(power: float) -> None:
    """The beat of signal and oscillator grows with the oscillator's field, both photocurrents with its power."""
    s, bias = comparators()
    noise = shot_only(1e6, 2e-7)
    margins = error_margins(s, INPUTS, *with_oscillator_power(s, BOARD, bias, PROCESS, power))
    current = noise.responsivity_a_per_w * noise.laser_w * FIELD**2
    expected = 0.0
    for level in range(4):
        signal = 0.1 * level / 3
        half_step = 0.5 * 4 * 0.3 * np.sqrt(power) * 0.1 / 3 * current
        variance = 2 * ELECTRON_C * noise.bandwidth_hz * current * 2 * (0.3**2 * power + signal**2)
        sides = (level < 3) + (level > 0)
        expected += 0.25 * sides * ndtr(-half_step / np.sqrt(variance))
    assert 1e-3 < expected < 0.2
    # the receiver's share counts the same noise again
    assert estimate_errors(margins, noise).layers == (pytest.approx(expected, rel=0.02),)


def test_the_light_of_oscillators_is_summed_up() -> None:
    s, _ = comparators()
    board = replace(BOARD, oscillator_power=1.5)
    powers = oscillator_powers(s, board)
    assert [each.tolist() for each in powers] == [[pytest.approx(2 * (0.3 * FIELD) ** 2 * 1.5)]]
    light = oscillator_light(board, (np.array([1e-3, 3e-3]), np.zeros(0)), 0.01)
    assert (light.fibres, light.fibre_w, light.total_w) == (1, pytest.approx(0.015), pytest.approx(0.015))
    assert (light.mixers, light.mixer_mean_w, light.mixer_least_w) == (2, pytest.approx(2e-5), pytest.approx(1e-5))
    assert light.split_carrier
    apart = oscillator_light(replace(board, oscillators=("a", "b")), powers, 0.01)
    assert (apart.fibres, apart.total_w, apart.split_carrier) == (2, pytest.approx(0.03), False)


def test_rates_rise_with_the_power_and_are_those_of_the_chip_at_it() -> None:
    s, bias = comparators()
    seen: list[float] = []
    found = oscillator_rates(s, INPUTS, BOARD, bias, PROCESS, None, [0.1, 0.01, 1e-3], seen.append)
    rates = [one.symbol_rate_bd for one in found.points]
    assert seen == [0.1, 0.01, 1e-3] and None not in rates and rates == sorted(rates, reverse=True)
    assert rates[0] > 1.5 * rates[2]
    assert rates[1] == highest_rate(error_margins(s, INPUTS, BOARD, bias), PROCESS, 1e-9)
    assert found.light is not None and found.light.fibre_w == pytest.approx(0.01)
    assert found.to_json()["enough_w"] == found.enough_w
    default = oscillator_rates(s, INPUTS, BOARD, bias, PROCESS)
    assert [one.oscillator_w for one in default.points] == [0.1, 0.05, 0.025, 0.0125, 0.00625]


def test_powers_and_electronics_beyond_the_cards_are_refused() -> None:
    s, bias = comparators()
    assert relative_oscillator_power(PROCESS, None, 0.1) == pytest.approx(10.0)
    assert check_oscillator_power(PROCESS, 0.02, 1.5) == pytest.approx(0.03)
    for power in (0.2, 0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match=r"at most 0\.1 W, the limit of noise\.laser_max_w.*--oscillator-w"):
            relative_oscillator_power(PROCESS, None, power)
    with pytest.raises(InputError, match=r"0\.15 W .*0\.1 W"):
        check_oscillator_power(PROCESS, 0.1, 1.5)
    with pytest.raises(InputError, match="'noise'"):
        check_oscillator_power(PROCESS.model_copy(update={"noise": None}), None, 1.0)
    with pytest.raises(RangeError, match=r"'l0_0' needs gain .*1e\+06 .*activation\.gain_max"):
        with_oscillator_power(s, BOARD, bias, PROCESS, 1e-6)
    # where the electronics cannot be set, there is no rate
    assert oscillator_rates(s, INPUTS, BOARD, bias, PROCESS, None, [1e-8]).points[0].symbol_rate_bd is None


def test_constants_keep_their_electronics() -> None:
    s, bias = comparators()
    most = float(PROCESS.activation.offset_max)
    constant = replace(bias.activations["l0_1"], gain=0.01, offset=most)
    given = replace(bias, activations=dict(bias.activations) | {"l0_1": constant})
    found = with_oscillator_power(s, BOARD, given, PROCESS, 4.0)[1].activations
    assert found["l0_1"] == constant and found["l0_0"] != bias.activations["l0_0"]


def test_the_card_sets_the_board(process) -> None:
    budget = process.budget.model_copy(update={"oscillator_w": Quantity(0.016, "default")})
    network = carry_chain(Averaging(2, 4, 1))
    board = assemble(network, process.model_copy(update={"budget": budget}), "tiny").board
    assert board.oscillator_power == pytest.approx(1.6)
    assert assemble(network, process, "tiny").board.oscillator_power == 1.0
