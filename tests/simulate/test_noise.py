"""Noise against the formulas of its sources, and against a simulated random walk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board, NetlistError, Neuron
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.errors import InputError
from optinc_pdk.simulate import Scattering, noise_of, transmit
from optinc_pdk.simulate.modulator_drive import Modulator
from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.simulate.transmission.noise import (
    BLOCK,
    KINDS,
    noise_choices,
    path_phase_variance,
    rate_limits,
    stated_rate_limit,
)

ELECTRON_C = 1.602176634e-19
ZEROS = np.zeros(0)
BOARD = Board("c", (), (), (("in",),), (Neuron("a", 0, "p", "n", "t"),), (("out",),))
LABELS = ("c", "in", "n", "out", "p", "t")
WORDS = np.full((200_000, 1, 1), 3)


def chip(paths, driven=()):
    """A chip with the given S-parameters between labels (out, in); all others are zero."""
    s = np.zeros((1, len(LABELS), len(LABELS)), dtype=complex)
    for (out, source), field in paths.items():
        s[0, LABELS.index(out), LABELS.index(source)] = field
    return Scattering(np.array([1550.0]), LABELS, s, tuple(driven))


def bias(balance=1.0, offset=0.0):
    codes = ZEROS.astype(np.int64)
    electronics = {"a": Activation(1.0, offset, balance)}
    return Bias("soi220", "toy", 16, (), ZEROS, ZEROS, ZEROS, codes, electronics, {"out": 1.0})


def nominal(*kinds, **changes):
    return replace(noise_of(load_process()), **changes).only(*kinds)


def test_shot_noise_and_receivers_have_the_mean_and_variance_of_the_formulas():
    noise = nominal("shot", "receiver", laser_w=2e-3, receiver_a_per_sqrt_hz=4e-12)
    noise = replace(noise, symbol_rate_bd=1e8)
    received = transmit(WORDS, chip({("out", "in"): 0.2}), BOARD, bias(), noise=noise, seed=5).outputs.ravel() ** 2
    power = 0.2**2
    current = noise.responsivity_a_per_w * 2e-3 * power
    variance = (2 * ELECTRON_C * current + 4e-12**2) * noise.bandwidth_hz / (noise.responsivity_a_per_w * 2e-3) ** 2
    # both parts are significant
    assert 0.5 < 2 * ELECTRON_C * current / 4e-12**2 < 2
    assert received.mean() == pytest.approx(power, abs=4 * np.sqrt(variance / WORDS.size))
    assert received.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / WORDS.size))


def test_a_neuron_adds_the_noise_of_both_its_detectors():
    """The receiver sees the neuron's amplitude, the difference of two readings."""
    noise = nominal("shot", symbol_rate_bd=1e6)
    paths = {("p", "in"): 0.3, ("p", "c"): 0.1, ("n", "in"): 0.2j, ("out", "t"): 1.0}
    bright = replace(noise, laser_w=1e-6)
    received = transmit(WORDS, chip(paths), BOARD, bias(balance=0.5, offset=0.2), noise=bright, seed=1)
    plus, minus = 0.4**2, 0.2**2
    scale = bright.responsivity_a_per_w * 1e-6
    variance = 2 * ELECTRON_C * noise.bandwidth_hz / scale * (plus + 0.25 * minus)
    amplitude = plus - 0.5 * minus + 0.2
    own = 2 * ELECTRON_C * noise.bandwidth_hz / scale / 4
    assert received.outputs.mean() == pytest.approx(amplitude, abs=1e-5)
    # the receiver reads x², with variance 4 x² var(x), and adds its shot noise, a quarter of it in x
    assert received.outputs.var() == pytest.approx(variance + own, rel=0.02)


def test_intensity_noise_is_common_to_paths_without_delay():
    noise = nominal("intensity", intensity_per_hz=1e-9, symbol_rate_bd=1e6, server_delay_s=0.0)
    paths = {("out", "t"): 1.0, ("p", "c"): 0.3, ("p", "in"): 0.3}
    balanced = paths | {("n", "c"): 0.6}
    both = transmit(WORDS, chip(paths), BOARD, bias(), noise=noise).outputs
    # relative to power at the neuron and to field at the receiver, independent in the two layers
    assert both.std() == pytest.approx(0.36 * noise.intensity * np.sqrt(1 + 1 / 4), rel=0.01)
    none = transmit(WORDS, chip(balanced), BOARD, bias(offset=0.5), noise=noise).outputs
    # the mixer's difference is zero, so the first layer's noise cancels; the receiver's remains
    assert none.std() == pytest.approx(0.5 * noise.intensity / 2, rel=0.01)
    apart = transmit(WORDS, chip(balanced), BOARD, bias(offset=0.5), noise=replace(noise, server_delay_s=1e-3)).outputs
    # half of each relative power is in an amplitude, and 2 * 0.6 * 0.3 of that in the difference
    assert apart.std() == pytest.approx(noise.intensity * np.sqrt(2 * 0.18**2 + 0.25**2), rel=0.01)


@pytest.mark.parametrize(("delay", "steps"), [(3, 20), (20, 20), (50, 20)])
def test_phase_between_paths_is_that_of_a_random_walk(delay, steps):
    rng = np.random.default_rng(delay)
    linewidth, step = 1e5, 1e-10
    walk = np.cumsum(np.sqrt(2 * np.pi * linewidth * step) * rng.standard_normal((8_000, 16 * (steps + delay))), axis=1)
    fine = walk.reshape(8_000, steps + delay, 16).mean(axis=2) / 4
    del walk
    difference = (fine[:, delay:] - fine[:, :-delay])[:, :steps].mean(axis=1)
    expected = path_phase_variance(linewidth, delay * step, steps * step)
    assert difference.var() == pytest.approx(expected, rel=0.07)


def test_phases_of_fibres_do_not_affect_modulators_on_the_chip():
    noise = nominal("fibre", fibre_phase_rad=0.1, polarisation=0.0)
    paths = {("p", "c"): 0.5, ("p", "in"): 0.5j, ("n", "c"): 0.5, ("n", "in"): -0.5j, ("out", "t"): 1.0}
    received = transmit(WORDS, chip(paths), BOARD, bias(offset=0.5), noise=noise).outputs
    # light in quadrature rotates into the difference of both detectors, 4 * 0.25 sin(phase)
    assert received.std() == pytest.approx(0.1, rel=0.02)
    onchip = chip({("p", "in"): 0.5, ("out", "t"): 1.0, ("t", "c"): 1.0, ("out", "c"): 0.5j}, driven=("t",))
    off = chip({("p", "in"): 0.5, ("out", "t"): 1.0, ("out", "c"): 0.5j})
    still, moved = (transmit(WORDS, each, BOARD, bias(), noise=noise).outputs.std() for each in (onchip, off))
    assert still < 1e-12 < moved


def test_light_from_the_other_polarisation_adds_a_field_of_any_phase():
    noise = nominal("fibre", fibre_phase_rad=0.0, polarisation=0.02)
    # half of the added power is in phase; the difference of the detectors is the input's field, less 0.5, and what the
    # neuron sends passes a fibre as well
    paths = {("p", "c"): 0.5, ("p", "in"): 0.5, ("n", "c"): 0.5, ("n", "in"): -0.5, ("out", "t"): 1.0}
    received = transmit(WORDS, chip(paths), BOARD, bias(offset=-0.5), noise=noise).outputs
    assert received.std() == pytest.approx(np.hypot(1.0, 0.5) * 0.02 / np.sqrt(2), rel=0.02)


def test_local_oscillators_that_stay_at_the_chip_see_the_whole_way_to_the_servers():
    process = load_process()
    fibres = process.noise.fibres
    stay = process.noise.model_copy(update={"fibres": fibres.model_copy(update={"oscillator": "on_chip"})})
    delayed, direct = (noise_of(one) for one in (process, process.model_copy(update={"noise": stay})))
    way = 2.0 * float(fibres.length_m) * float(fibres.index) / 299_792_458.0
    assert direct.server_delay_s - delayed.server_delay_s == pytest.approx(way)
    assert direct.board_delay_s == delayed.board_delay_s == delayed.server_delay_s
    assert direct.phase("board") == delayed.phase("board") > delayed.phase("chip")


def test_the_noise_of_a_word_does_not_depend_on_other_words():
    noise = nominal(*KINDS)
    one = chip({("p", "c"): 0.4, ("p", "in"): 0.4, ("n", "c"): 0.4, ("n", "in"): -0.4, ("out", "t"): 1.0})
    symbols = np.arange(9 * BLOCK + 7).reshape(-1, 1, 1) % 4
    all_words = transmit(symbols, one, BOARD, bias(), noise=noise, seed=3).outputs
    assert np.array_equal(
        transmit(symbols[: BLOCK + 9], one, BOARD, bias(), noise=noise, seed=3).outputs, all_words[: BLOCK + 9]
    )
    assert not np.array_equal(transmit(symbols, one, BOARD, bias(), noise=noise, seed=4).outputs, all_words)
    assert np.unique(all_words[3::4]).size == all_words[3::4].size
    none = transmit(symbols, one, BOARD, bias(), noise=noise.only()).outputs
    assert np.array_equal(none, transmit(symbols, one, BOARD, bias()).outputs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"laser_w": -1e-3}, "-0.001 W .* 0.1 W"),
        ({"laser_w": 1e-300}, "1e-300 W must be at least 1e-12 and at most 0.1 W"),
        ({"symbol_rate_bd": 1e-300}, "1e-300 Bd must be finite and at least 1 Bd"),
        ({"laser_w": float("nan")}, "laser_w = nan"),
        ({"symbol_rate_bd": 0.0}, " 0 Bd"),
        ({"symbol_rate_bd": float("inf")}, "inf Bd must be finite and at least 1 Bd"),
    ],
)
def test_values_beyond_the_cards_limits_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        noise_of(load_process(), **given)


def test_a_process_without_noise_is_refused():
    with pytest.raises(InputError, match=r"'soi220'.*'noise'"):
        noise_of(load_process().model_copy(update={"noise": None}))


def test_a_modulator_of_finite_extinction_leaks_in_quadrature():
    symbols = np.arange(4).reshape(-1, 1, 1)
    paths = {("out", "in"): 0.2}
    leaking = replace(chip(paths), modulator=Modulator(leak=0.1))
    found = transmit(symbols, leaking, BOARD, bias()).outputs.ravel()
    amplitude = np.arange(4) / 3
    assert found == pytest.approx(0.2 * np.sqrt(amplitude**2 + 0.01 * (1.0 - amplitude**2)))
    # receivers that know the power at the null subtract it
    dark = replace(bias(), dark={"out": (0.2 * 0.1) ** 2})
    assert transmit(symbols, leaking, BOARD, dark).outputs.ravel() == pytest.approx(
        0.2 * amplitude * np.sqrt(1.0 - 0.01), abs=1e-12
    )
    # a mixer does not see what is in quadrature with its local oscillator
    mixer = {("p", "c"): 0.5, ("p", "in"): 0.1, ("n", "c"): 0.5, ("n", "in"): -0.1, ("out", "t"): 1.0}
    still, lossy = (
        transmit(symbols, each, BOARD, bias(), noise=None).hidden[0]
        for each in (chip(mixer), replace(chip(mixer), modulator=Modulator(leak=0.1)))
    )
    assert lossy == pytest.approx(still, abs=1e-12)


COHERENT = replace(BOARD, coherent=True)


def coherent_bias(phase):
    return replace(bias(), phases={"out": phase})


@pytest.mark.full
def test_coherent_receivers_read_the_field_in_phase_with_their_oscillator():
    symbols = np.arange(4).reshape(-1, 1, 1)
    one = chip({("out", "in"): 0.2 * np.exp(0.7j)})
    for turn, share in ((0.7, 1.0), (0.7 + np.pi / 3, 0.5), (0.7 + np.pi, 0.0)):
        found = transmit(symbols, one, COHERENT, coherent_bias(turn)).outputs.ravel()
        assert found == pytest.approx(share * 0.2 * np.arange(4) / 3, abs=1e-12)
    with pytest.raises(NetlistError, match="no phase_rad for the coherent receiver of fibre 'out'"):
        transmit(symbols, one, COHERENT, bias())


def test_noise_of_coherent_receivers_is_that_of_both_detectors():
    noise = nominal("shot", "receiver", laser_w=1e-5, receiver_a_per_sqrt_hz=1e-12, oscillator_w=2e-5)
    received = transmit(WORDS, chip({("out", "in"): 0.3}), COHERENT, coherent_bias(0.0), noise=noise, seed=2).outputs
    r, b = noise.responsivity_a_per_w, noise.bandwidth_hz
    current = 2 * r * np.sqrt(2e-5 * 1e-5)  # by field
    variance = (2 * ELECTRON_C * r * (2e-5 + 1e-5 * 0.09) + 2 * 1e-12**2) * b / current**2
    assert received.mean() == pytest.approx(0.3, abs=4 * np.sqrt(variance / WORDS.size))
    assert received.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / WORDS.size))
    with pytest.raises(InputError, match=r"link\.oscillator_w"):
        transmit(WORDS[:1], chip({}), COHERENT, coherent_bias(0.0), noise=replace(noise, oscillator_w=None))


def test_receivers_get_noisier_and_faster_with_the_rate():
    process = load_process("soi220_fast")
    for rate in (1e9, 1e10, 4e10):
        choices = noise_choices(process, None, rate)
        opening = [each.shape.opening for each in choices]
        spread = [each.receiver_a_per_sqrt_hz * np.sqrt(each.bandwidth_hz) for each in choices]
        assert len(choices) > 3 and np.all(np.diff(opening) > 0.0) and np.all(np.diff(spread) >= 0.0)
        assert noise_of(process, None, rate) in choices
    assert noise_of(process, None, 1e8).receiver_a_per_sqrt_hz == 2e-12
    assert noise_of(process, None, 2e10).receiver_a_per_sqrt_hz > 1e-11


def test_rates_beyond_every_bandwidth_are_refused():
    with pytest.raises(InputError, match=r"8e\+10 Bd is beyond every bandwidth of process 'soi220_fast'.* 7e\+10 Hz"):
        noise_of(load_process("soi220_fast"), None, 8e10)
    assert rate_limits(load_process("soi220_fast")) == (1e6, 7e10)
    assert rate_limits(load_process()) == (1e6, 1e9)


def test_rates_above_the_stated_limit_are_not_refused():
    """Only the search of the highest rate ends there."""
    process = load_process()
    limit = stated_rate_limit(process)
    assert limit == 1e9 == rate_limits(process)[1]
    slow, fast = (noise_of(process, None, factor * limit).shape.opening for factor in (1.0, 3.0))
    assert 0.0 < fast < slow
    assert stated_rate_limit(load_process("soi220_fast")) == np.inf


def test_settings_of_other_receivers_are_refused():
    symbols = np.arange(4).reshape(-1, 1, 1)
    with pytest.raises(NetlistError, match="a phase_rad for fibre 'out', which ends in a photodiode"):
        transmit(symbols, chip({("out", "in"): 0.2}), BOARD, coherent_bias(0.1))
    dark = replace(coherent_bias(0.1), dark={"out": 0.1})
    with pytest.raises(NetlistError, match="a dark for fibre 'out', which ends in a coherent receiver"):
        transmit(symbols, chip({("out", "in"): 0.2}), COHERENT, dark)


@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("board", [BOARD, COHERENT])
def test_readings_are_those_of_the_light_at_all_instants(leak, board):
    """What leaks through modulators is interpolated within a symbol, which hardly counts."""
    paths = {("p", "c"): 0.5, ("p", "in"): 0.4 + 0.1j, ("n", "c"): 0.5, ("n", "in"): -0.4, ("out", "t"): 0.3j}
    one = replace(chip(paths), modulator=Modulator(leak=leak))
    given = bias(offset=0.1) if board is BOARD else replace(bias(offset=0.1), phases={"out": 1.0})
    network, light = network_of(one, board, given, 0), np.random.default_rng(3).random((40, 3))
    light[:, 0] = 1.0
    noise = noise_of(load_process("soi220_fast"), None, 4e10)
    for matrix in (network.layers[0].detection, network.receivers):
        expected = noise.shape.readings(matrix.instants(light, noise, None))
        assert matrix.readings(light, noise, None) == pytest.approx(expected, abs=1e-12 if leak == 0.0 else 2e-4)
        still = matrix.detected(matrix.fields(light))
        assert np.abs(expected - still).max() > 1e-3
