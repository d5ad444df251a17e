"""Calibration of the chip of a matrix on a bench that reads fields: Levenberg–Marquardt with measured Jacobians.

Light enters one input at a time, and receivers with local oscillators read the fields of all outputs. The deviation of
the measured matrix from its target is that of :func:`optinc_pdk.matrices.compare_matrices`, so that common scale and
free phases do not count. To measure a Jacobian, every heater is perturbed once. Nothing is known of the devices.

Fibres and couplers transmit the light of inputs and outputs unequally, which a mesh cannot compensate. The sources of
the inputs are therefore attenuated, and the receivers of the outputs have gains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.matrices import MatrixTarget, compare_matrices
from optinc_pdk.simulate.programming.phase_fit import FIRST_DAMPING, Damping, damped_step
from optinc_pdk.studies.calibration._heater_model import HeaterModel, design_heater_model
from optinc_pdk.studies.calibration._layer_tuning import nearest_moves, perturbed_voltages, wrapped_into_range
from optinc_pdk.studies.calibration._measurement import MatrixBench
from optinc_pdk.studies.variation.nominal_chip import NominalChip

ROUNDS = 40
TRIES = 4
"""Steps of one Jacobian that are tried with more damping until one succeeds."""
SUFFICIENT = 1e-4
"""Rms error of the entries over the largest one at which tuning ends; about that of 16-bit codes."""
LEAST_GAIN, PATIENCE = 0.97, 4
"""Tuning ends after so many rounds that each leave more than this share of the error."""
RESTARTS, RESTART_RAD = 8, 0.5
"""Largest number of random restarts of a chip that is stuck, and their rms change of the design phases."""
ROUNDINGS = 3
"""Largest number of joint roundings to DAC codes."""
EQUALISATIONS = 12
"""Iterations of the levels and gains."""
LEAST_LEVEL = 0.7
"""Smallest level and gain, relative to the largest, so that they compensate no more than loss can explain."""
SEED = 0


@dataclass(frozen=True, eq=False)
class MatrixSetting:
    """Setting of the chip of a matrix: (H,) heater voltages.

    Attributes:
        gain: (m,) gains of the receivers of the outputs, at most 1.
        level: (n,) amplitudes of the sources of the inputs, at most 1.
    """

    voltage_v: Floats
    gain: Floats
    level: Floats

    def equalised(self, fields: Complexes) -> Complexes:
        """Return the (m, n) matrix with these levels and gains for (m, n) fields."""
        return np.asarray(self.gain[:, np.newaxis] * fields * self.level)


@dataclass(frozen=True, eq=False)
class _Measured:
    """A setting, the (2 m n,) deviations of its entries over the largest entry, and the largest one."""

    setting: MatrixSetting
    error: Floats
    worst: float

    @property
    def rms(self) -> float:
        return float(np.sqrt(2.0 * np.mean(self.error**2)))


def equalise(fields: Complexes, target: MatrixTarget) -> tuple[Floats, Floats]:
    """Return (m,) gains and (n,) levels that make (m, n) fields most like a target, by alternating least squares."""
    wanted = target.matrix
    gain, level = np.ones(target.outputs), np.ones(target.inputs)
    for _ in range(EQUALISATIONS):
        found = compare_matrices(gain[:, np.newaxis] * fields * level, target)
        gain = _scaled(gain, found.matrix, wanted, 1)
        found = compare_matrices(gain[:, np.newaxis] * fields * level, target)
        level = _scaled(level, found.matrix, wanted, 0)
    return gain, level


def _scaled(factors: Floats, found: Complexes, wanted: Complexes, axis: int) -> Floats:
    """Multiply factors by those that fit found to wanted best, within their range; a dark row keeps its factor."""
    power = (np.abs(found) ** 2).sum(axis=axis)
    overlap = (found.conj() * wanted).real.sum(axis=axis)
    best = factors * np.where((power > 0.0) & (overlap > 0.0), overlap / np.where(power > 0.0, power, 1.0), 1.0)
    return np.asarray(np.maximum(best / best.max(), LEAST_LEVEL))


def tune_matrix(bench: MatrixBench, chip: NominalChip, target: MatrixTarget) -> MatrixSetting:
    """Tune heaters, levels and gains of a chip, from its nominal voltages, until its matrix stops improving.

    Raises:
        RangeError: The ground resistance is too high for a solution.
        ValueError: No light of the chip is like the target.
    """
    search = _Search(bench, design_heater_model(chip, bench), target)
    random = np.random.default_rng(SEED)
    start = search.measured(search.heaters.quantise(chip.voltage_v))
    best = search.tuned(start)
    for _ in range(RESTARTS):
        if best.worst <= target.tolerance / 2.0:
            break
        phase = search.heaters.phases(best.setting.voltage_v) + RESTART_RAD * random.standard_normal(search.turn.size)
        again = search.tuned(search.measured(search.voltages(phase)))
        best = min(best, again, key=lambda one: one.worst)
    return search.rounded(best).setting


def retune_matrix(bench: MatrixBench, chip: NominalChip, target: MatrixTarget, voltage_v: Floats) -> MatrixSetting:
    """Tune a chip that has drifted as :func:`tune_matrix`, from the (H,) voltages in use and without restarts."""
    search = _Search(bench, design_heater_model(chip, bench), target)
    return search.rounded(search.tuned(search.measured(search.heaters.quantise(voltage_v)))).setting


@dataclass(frozen=True, eq=False)
class _Search:
    """Bench, heaters and target of a calibration."""

    bench: MatrixBench
    heaters: HeaterModel
    target: MatrixTarget

    @property
    def turn(self) -> Floats:
        """(H,) design phases of a whole turn; efficiencies are those of the design."""
        return np.full(self.heaters.power_pi_w.size, 2.0 * np.pi)

    def voltages(self, phase: Floats) -> Floats:
        """Return the (H,) voltages of (H,) design phases, by whole turns within the range of the drive."""
        return self.heaters.voltages(wrapped_into_range(self.heaters, self.turn, phase))

    def measured(self, voltage_v: Floats) -> _Measured:
        """Measure a setting, and set levels and gains."""
        (fields,) = self.bench.read(voltage_v[np.newaxis])
        setting = MatrixSetting(voltage_v, *equalise(fields, self.target))
        found = compare_matrices(setting.equalised(fields), self.target)
        return _Measured(setting, self._error(found.matrix), found.worst)

    def _error(self, matrix: Complexes) -> Floats:
        """Return (2 m n,) real and imaginary deviations over the largest entry."""
        deviation = (matrix - self.target.matrix).reshape(-1) / float(np.abs(self.target.matrix).max())
        return np.concatenate([deviation.real, deviation.imag])

    def slope(self, start: _Measured) -> Floats:
        """Measure the (2 m n, H) derivatives of the errors by the design phases, at fixed levels and gains."""
        heaters, voltage = self.heaters, start.setting.voltage_v
        rise, phase = heaters.rise_and_phases(voltage)
        perturbed = perturbed_voltages(heaters, self.turn, phase, rise)
        change = heaters.phases_at_rise(perturbed, rise) - phase
        settings = np.tile(voltage, (voltage.size, 1))
        np.fill_diagonal(settings, perturbed)
        errors = [
            self._error(compare_matrices(start.setting.equalised(fields), self.target).matrix)
            for fields in self.bench.read(settings)
        ]
        effect = np.stack(errors, axis=1) - start.error[:, np.newaxis]
        return np.divide(effect, change, out=np.zeros_like(effect), where=change != 0.0)

    def tuned(self, state: _Measured) -> _Measured:
        """Take damped steps with measured Jacobians until the error is sufficient or stops falling."""
        damping, layer = Damping(np.array([FIRST_DAMPING]), np.array([2.0])), np.array([0])
        idle = 0
        for _ in range(ROUNDS):
            before = state.rms
            if before <= SUFFICIENT or idle == PATIENCE:
                break
            slope, phase = self.slope(state), self.heaters.phases(state.setting.voltage_v)
            for _ in range(TRIES):
                step, predicted = damped_step(slope, state.error, float(damping.value[0]))
                trial = self.measured(self.voltages(phase + step))
                cost, tried = np.mean(state.error**2), np.mean(trial.error**2)
                damping.update(layer, np.array([cost - tried]), np.array([cost - predicted**2]))
                if tried < cost:
                    state = trial
                    break
            idle = idle + 1 if state.rms > LEAST_GAIN * before else 0
        return state

    def rounded(self, state: _Measured) -> _Measured:
        """Round the voltages jointly to DAC codes."""
        for _ in range(ROUNDINGS if self.heaters.step_v else 0):
            heaters, voltage = self.heaters, state.setting.voltage_v
            moves = nearest_moves(self.slope(state), state.error, heaters.phases_per_step(voltage))
            trial = self.measured(heaters.quantise(voltage + moves * heaters.step_v))
            if trial.worst >= state.worst:
                break
            state = trial
        return state
