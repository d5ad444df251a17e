"""A chip's digital twin: exact slopes, readings foretold that were not fitted, and a bias that is right by it."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.onn import carry_chain
from optinc_pdk.simulate.fit import Problem
from optinc_pdk.simulate.noise import noise_of
from optinc_pdk.simulate.target import targets
from optinc_pdk.tolerance import draw
from optinc_pdk.tolerance.calibration.bench import Bench
from optinc_pdk.tolerance.calibration.measure import layers_of
from optinc_pdk.tolerance.calibration.model import heaters_of
from optinc_pdk.tolerance.calibration.rebias import fitted, rebias
from optinc_pdk.tolerance.calibration.steps import look
from optinc_pdk.tolerance.calibration.twin import twin_of
from optinc_pdk.tolerance.calibration.twin_fit import gather, misfits
from optinc_pdk.tolerance.calibration.twin_light import guess, readings, slopes

BITS = 16.0


class Place:
    """A sample of the tiny chip on a bench, its layers, and heaters whose efficiencies are known to 1 %."""

    def __init__(self, work, sample, process, **noise):
        self.chip = chip = work.chip
        found = targets(carry_chain(work.task), chip.board)
        self.problem = Problem(chip.structure, chip.board, found, float(process.guide.wavelength_nm), process)
        self.bench = Bench(chip, sample, BITS, **noise)
        self.heaters = heaters_of(chip, self.bench)
        self.layers = layers_of(self.problem, self.bench)
        resistance = chip.resistance_ohm * sample.resistance_scale
        nominal = (chip.resistance_ohm + chip.wire_ohm) ** 2 / chip.resistance_ohm
        real = resistance / (resistance + chip.wire_ohm) ** 2 * nominal / sample.power_scale
        self.efficiency = real * np.random.default_rng(4).normal(1.0, 0.01, real.size)

    @property
    def twin(self):
        return twin_of(self.problem, self.layers, self.heaters, self.efficiency)

    def settings(self, count, seed):
        phases = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, (count, self.efficiency.size))
        return np.array([self.heaters.voltages(one) for one in phases])

    def rebiased(self):
        return rebias(self.bench, self.problem, self.layers, self.heaters, self.efficiency)[0]


@pytest.fixture(scope="module")
def sample(work, every):
    return draw(work.chip, every, 5)


def test_slopes_of_readings_are_their_difference_quotients(work, sample, process):
    place = Place(work, sample, process)
    twin, random = place.twin, np.random.default_rng(0)
    unknown, way = 0.5 * random.standard_normal((2, twin.spread.size))
    made, step, every = place.heaters.phases(place.settings(1, 1)[0]), 1e-6, np.arange(twin.spread.size)
    now, up, down = (guess(twin, unknown + change * way) for change in (0.0, step, -step))
    for layer in place.layers:
        _, slope = slopes(now, made, now.light(made), layer, every)
        more, less = (readings(each.light(made), layer).reshape(-1) for each in (up, down))
        quotient = (more - less) / (2.0 * step)
        assert np.abs(slope @ way - quotient).max() < 1e-6 * np.abs(quotient).max()


def test_a_fitted_twin_foretells_readings_that_it_was_not_fitted_to(work, sample, process):
    place = Place(work, sample, process)
    twin = place.twin
    unseen = gather(place.bench, twin, place.settings(6, 7))
    unknown, *_ = fitted(place.bench, twin, np.random.default_rng(1))
    assert misfits(twin, np.zeros(twin.spread.size), unseen).max() > 0.3
    assert misfits(twin, unknown, unseen).max() < 0.03


def test_a_chip_is_nearly_right_when_it_is_biased_by_its_twin(work, sample, process):
    place = Place(work, sample, process)
    before = look(place.bench, place.layers, place.heaters, place.heaters.rounded(work.chip.voltage_v))
    after = place.rebiased()
    assert before.sizes.max() > 0.1
    assert after.sizes.max() < before.sizes.max() / 50.0
    assert place.bench.settings < 10 * place.efficiency.size


def test_noise_of_readings_does_not_lead_the_twin_astray(work, sample, process):
    place = Place(work, sample, process, noise=noise_of(process), seed=3, averages=10_000)
    assert place.rebiased().sizes.max() < 0.02


def test_the_twin_works_around_a_heater_without_effect(work, sample, process):
    place = Place(work, sample, process)
    dead = int(place.layers[0].heaters[0])

    class Open(Bench):
        def read(self, voltage_v, amplitude):
            voltage = np.array(voltage_v, dtype=float)
            voltage[:, dead] = 0.0
            return super().read(voltage, amplitude)

    place.bench = Open(work.chip, sample, BITS)
    place.efficiency[dead] = np.nan
    twin = place.twin
    unknown, *_ = fitted(place.bench, twin, np.random.default_rng(1))
    assert misfits(twin, unknown, gather(place.bench, twin, place.settings(6, 7))).max() < 0.03
    # programming leaves it alone
    assert dead not in twin.chip(unknown).heaters(0)
