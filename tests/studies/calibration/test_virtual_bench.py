"""The virtual bench: readings with noise and DAC steps agree with the simulated light."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.circuit import detector_groups, label_tuple
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.transmission.detection import network_of, receiver_fields
from optinc_pdk.studies import draw_sample, sample_scattering
from optinc_pdk.studies.calibration._virtual_bench import VirtualBench
from optinc_pdk.studies.variation.nominal_chip import locked_bias


class Fixed:
    def variance(self, power):
        return np.full_like(power, 1e-6)

    def field_variance(self, field):
        return np.full_like(field, 4e-6)


@pytest.fixture(scope="module")
def sample(chip, every):
    return draw_sample(chip, every, 3)


def test_readings_are_the_light_on_each_photodiode(chip, sample):
    bench = VirtualBench(chip, sample, 16.0)
    amplitude = np.linspace(0.0, 1.0, len(bench.sources))
    read = bench.read(chip.voltage_v, amplitude[np.newaxis])
    s = sample_scattering(chip, sample, chip.voltage_v, 16.0)
    labels = [label for group in bench.sources for label in group]
    field = s.between(bench.detectors, chip.board.unmodulated)[0].sum(axis=1)
    field = field + s.between(bench.detectors, labels)[0] @ (
        amplitude + 1j * s.modulator.leak * np.sqrt(1.0 - amplitude**2)
    )
    assert s.modulator.leak > 0.0 and np.allclose(read[0, 0], np.abs(field) ** 2, rtol=1e-12, atol=1e-15)
    assert bench.settings == 1


def test_local_oscillators_have_the_power_that_the_board_states(chip, sample):
    dark = np.zeros((1, len(VirtualBench(chip, sample, 16.0).sources)))
    strong = replace(chip, board=replace(chip.board, oscillator_power=4.0))
    weak_read, strong_read = (VirtualBench(each, sample, 16.0).read(chip.voltage_v, dark) for each in (chip, strong))
    mixers = slice(0, -len([label for row in chip.board.outputs for label in row]))
    ratio = strong_read[0, 0, mixers] / weak_read[0, 0, mixers]
    # modulators leak the same in both
    assert np.allclose(ratio, 4.0, rtol=0.05) and not np.allclose(ratio, 1.0)


def test_voltages_are_rounded_to_the_drives_steps(chip, sample):
    bench = VirtualBench(chip, sample, 8.5)
    dark = np.zeros((1, len(bench.sources)))
    on = np.rint(chip.voltage_v / bench.step_v) * bench.step_v
    near = bench.read(np.stack([on, on + 0.4 * bench.step_v, on + 0.6 * bench.step_v]), dark)
    assert np.array_equal(near[0], near[1])
    assert not np.allclose(near[0], near[2], rtol=1e-6)


def test_a_setting_that_is_read_again_reads_the_same_and_other_settings_do_not(chip, sample):
    bench = VirtualBench(chip, sample, 16.0)
    pattern = np.ones((1, len(bench.sources)))
    first, again = bench.read(chip.voltage_v, pattern), bench.read(chip.voltage_v, pattern)
    other = bench.read(0.9 * chip.voltage_v, pattern)
    assert np.array_equal(first, again) and bench.settings == 3
    both = bench.read(np.stack([chip.voltage_v, 0.9 * chip.voltage_v]), pattern)
    assert np.allclose(both, np.concatenate([first, other]), rtol=1e-9)
    assert np.array_equal(bench.read(chip.voltage_v, pattern), first) and not np.allclose(other, first, rtol=1e-3)


def test_noise_has_its_seed_and_falls_with_averages(chip, sample):
    pattern = np.zeros((400, len(VirtualBench(chip, sample, 16.0).sources)))

    def scatter(seed, averages):
        return VirtualBench(chip, sample, 16.0, Fixed(), seed, averages).read(chip.voltage_v, pattern)[0]

    assert np.array_equal(scatter(1, 1), scatter(1, 1))
    assert not np.array_equal(scatter(1, 1), scatter(2, 1))
    assert scatter(1, 1).std(axis=0).mean() == pytest.approx(1e-3, rel=0.1)
    assert scatter(1, 100).std(axis=0).mean() == pytest.approx(1e-4, rel=0.1)


def test_invalid_amplitudes_averages_bits_and_seeds_are_refused(chip, sample):
    bench = VirtualBench(chip, sample, 16.0)
    with pytest.raises(InputError, match=r"0 … 1"):
        bench.read(chip.voltage_v, np.full((1, len(bench.sources)), 1.1))
    with pytest.raises(InputError, match="averages is 0"):
        VirtualBench(chip, sample, 16.0, averages=0)
    with pytest.raises(InputError, match=r"Bench: averages.*1\.5"):
        VirtualBench(chip, sample, 16.0, averages=1.5)
    for bits in (0.5, np.nan, 2000.0):
        with pytest.raises(InputError, match=f"effective_bits is {bits}"):
            VirtualBench(chip, sample, bits)
    with pytest.raises(InputError, match="seed is -1"):
        VirtualBench(chip, sample, 16.0, seed=-1)


def test_coherent_receivers_read_the_square_of_the_field_of_their_own_modulator(locked):
    chip = locked.chip
    sample = draw_sample(chip, locked.imperfections, 3)
    bench = VirtualBench(chip, sample, 16.0)
    s = sample_scattering(chip, sample, chip.voltage_v, 16.0)
    receivers, symbols = len(chip.locked_sources), len(chip.board.outputs[0])
    own_source = chip.locked_sources.argmax(axis=1)
    alone = np.zeros((symbols, len(bench.sources)))
    alone[np.arange(symbols), len(bench.sources) - symbols + np.arange(symbols)] = 1.0
    # at two settings, of which each has its own phases
    read = bench.read(np.stack([chip.voltage_v, 0.9 * chip.voltage_v]), alone)[..., -receivers:]
    fields = receiver_fields(s, chip.board)[np.arange(receivers), own_source]
    own = read[0, own_source, np.arange(receivers)]
    assert np.allclose(own, np.abs(fields) ** 2, rtol=0.01) and np.all(own > 0.0)
    assert np.all(read[1, own_source, np.arange(receivers)] > 0.5 * own)


def test_noise_of_coherent_receivers_is_that_of_fields(locked):
    sample, pattern = draw_sample(locked.chip, locked.imperfections, 3), None
    bench = VirtualBench(locked.chip, sample, 16.0, Fixed(), 1)
    pattern = np.ones((2000, len(bench.sources)))
    read = bench.read(locked.chip.voltage_v, pattern)[0]
    receivers = len(locked.chip.locked_sources)
    assert np.sqrt(read[:, -receivers:]).std(axis=0) == pytest.approx(2e-3, rel=0.1)
    assert read[:, :-receivers].std(axis=0) == pytest.approx(1e-3, rel=0.1)


def test_modulators_of_the_bench_leak_as_in_the_simulator(locked):
    chip, board = locked.chip, locked.chip.board
    sample = draw_sample(chip, locked.imperfections, 3)
    bench = VirtualBench(chip, sample, 16.0)
    s = sample_scattering(chip, sample, chip.voltage_v, 16.0)
    layer = network_of(s, board, locked_bias(s, board, chip.locked_sources, chip.bias), 0).layers[0]
    amplitude = np.linspace(0.0, 0.9, len(bench.sources))
    expected = layer.detection.readings(np.append(1.0, amplitude)[np.newaxis], None, None)[0]
    first = [neuron for neuron in board.neurons if neuron.layer == 0]
    rows, _ = detector_groups(first)
    labels = [label for side in ("plus", "minus") for n in rows for label in label_tuple(getattr(n, side))]
    read = bench.read(chip.voltage_v, amplitude[np.newaxis])[0, 0]
    assert s.modulator.leak == 0.01
    assert np.allclose([read[bench.detectors.index(label)] for label in labels], expected, rtol=1e-9, atol=1e-15)
