"""Steps of a measured setting that a digital twin predicts: corrections of errors, and joint rounding to codes.

A measured derivative takes one heater setting for every heater of a layer; a predicted one takes none. Errors of hidden
layers are measured after every step, so errors of the twin do not remain. Errors of the last layer are those that the
twin predicts: products of fields at a receiver hardly depend on small phases of the fields, which matter where large
fields cancel. Many settings have equally small errors; predicted signals in quadrature count with a small weight, so
that steps do not move light there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.simulate.programming.detection_jacobian import residual, row_scales
from optinc_pdk.simulate.programming.phase_fit import FIRST_DAMPING, Damping, damped_step
from optinc_pdk.studies.calibration.dac_rounding import nearest_moves
from optinc_pdk.studies.calibration.heater_model import HeaterModel
from optinc_pdk.studies.calibration.in_loop_steps import MeasuredSetting, measure_setting, stepped_voltages
from optinc_pdk.studies.calibration.measurement import (
    BenchLayer,
    BenchProtocol,
    LayerResponse,
    detection_coefficients,
    matrix_errors,
)
from optinc_pdk.studies.calibration.twin_readings import LayerLight, TwinEstimate, predicted_responses

CORRECTIONS, ROUNDINGS, GAIN = 4, 4, 0.7
"""Largest numbers of steps; they end when every layer keeps more than this share of its error."""
PART_CORRECTIONS, PART_IDLE, PART_DAMPING = 8, 3, 1e-2
"""For parts of layers: largest number of corrections, consecutive ones without such a gain after which they end, and
initial damping. Their twins are less exact: with the damping of layers, corrections of 26 parts of a sampled classifier
ended without a gain, and left a rms error of 0.0080 in place of 0.0050."""
DIFFERENCE_RAD = 1e-5
"""Change of a phase for derivatives of predicted errors."""


@dataclass(frozen=True, eq=False)
class TwinGuide:
    """A twin that predicts steps of the heaters of a chip on a bench.

    Attributes:
        laboratory: The bench.
        estimate: The fitted twin.
        heaters: Design model of the heaters with the fitted crosstalk.
        quadrature_weight: (layers,) weights of the signals in quadrature with their local oscillators, relative to
            matrix errors; 0 for layers of which the twin does not know them.
    """

    laboratory: BenchProtocol
    estimate: TwinEstimate
    heaters: HeaterModel
    quadrature_weight: Floats

    def errors(self, state: MeasuredSetting) -> list[Floats]:
        """Return the errors of each layer: measured ones of hidden layers, predicted ones of the last layer.

        Where they are weighted, predicted signals in quadrature follow the errors of a hidden layer; photodiodes do not
        show them.
        """
        phase = self._design_phase(state)[np.newaxis]
        predicted = [self._predicted(i, phase)[0] for i in range(len(state.layers))]
        return [
            also if layer.target.last else np.concatenate([measured, also[measured.size :]])
            for layer, measured, also in zip(state.layers, state.error, predicted, strict=True)
        ]

    def jacobians(self, state: MeasuredSetting) -> list[Floats]:
        """Predict, for each layer, the (entries, heaters) derivatives of its errors by design phases in rad."""
        slopes, phase = [], self._design_phase(state)
        for i, layer in enumerate(state.layers):
            settings = np.tile(phase, (1 + layer.heaters.size, 1))
            settings[1 + np.arange(layer.heaters.size), layer.heaters] += DIFFERENCE_RAD
            errors = self._predicted(i, settings)
            slopes.append((errors[1:] - errors[0]).T / DIFFERENCE_RAD)
        return slopes

    def improved(self, state: MeasuredSetting, move: Callable[[list[Floats]], Floats]) -> MeasuredSetting:
        """Move the heaters of all layers and return the setting of those layers whose errors decrease.

        Args:
            state: The setting to start from.
            move: Returns the (H,) voltages after the moves of each layer's heaters, which it calculates from the
                layers' masks: for each layer, (heaters,) 1 to move its heaters and 0 to keep them.
        """
        before = _sizes(self.errors(state))
        masks = [np.ones(layer.heaters.size) for layer in state.layers]
        trial = measure_setting(self.laboratory, state.layers, self.heaters, move(masks))
        worse = np.flatnonzero(_sizes(self.errors(trial)) >= before)
        if not worse.size:
            return trial
        if worse.size == len(masks):
            return state
        for i in worse.tolist():
            masks[i][:] = 0.0
        return measure_setting(self.laboratory, state.layers, self.heaters, move(masks))

    def _design_phase(self, state: MeasuredSetting) -> Floats:
        return self.estimate.twin.heaters.phases(state.voltage_v)

    def _predicted(self, index: int, design_phase: Floats) -> Floats:
        """Return (S, entries) predicted errors of a layer, and its signals in quadrature, at (S, H) design phases."""
        layer = self.estimate.twin.layers[index]
        light = self.estimate.light(index, self.estimate.phases(index, design_phase))
        if layer.target.last:
            return _field_errors(light, self.estimate, index)
        responses = predicted_responses(light, layer)
        errors = np.stack([matrix_errors(layer, one) for one in responses])
        weight = float(self.quadrature_weight[index])
        if weight == 0.0:
            return errors
        return np.concatenate([errors, weight * _quadratures(light, layer, responses)], axis=1)


def _quadratures(light: LayerLight, layer: BenchLayer, responses: list[LayerResponse]) -> Floats:
    """(S, pieces · J) signals of a layer in quadrature.

    They are scaled as those of :func:`optinc_pdk.simulate.programming.detection_jacobian.quadrature`.
    """
    target, pairs = layer.target, layer.plus.size
    mixed = 2.0 * (light.detected[:, :, :1].conj() * light.detected[:, :, 1:]).imag
    found = []
    for one, response in zip(mixed, responses, strict=True):
        seen = detection_coefficients(layer, response)
        balance, scale = (
            each[target.owner, np.newaxis] for each in (seen.balance, row_scales(seen.coefficient, target))
        )
        found.append(np.where(target.illuminated, (one[:pairs] - balance * one[pairs:]) / scale, 0.0).reshape(-1))
    return np.stack(found) / float(np.linalg.norm(target.mesh_weight, 2))


def _field_errors(light: LayerLight, estimate: TwinEstimate, index: int) -> Floats:
    """(S, entries) errors of the fields at the receivers of the last layer, real parts and imaginary parts."""
    target = estimate.twin.layers[index].target
    return np.stack([residual(one[:, 1:], target).reshape(-1) for one in light.detected])


def correct(guide: TwinGuide, turn_rad: Floats, state: MeasuredSetting) -> MeasuredSetting:
    """Correct the errors of a setting in damped least-squares steps until no layer improves.

    Args:
        guide: The twin that predicts the steps.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        state: The setting to start from.
    """
    whole = np.array([layer.target.whole for layer in state.layers])
    damping = Damping(np.where(whole, FIRST_DAMPING, PART_DAMPING), np.full(len(state.layers), 2.0))
    every, idle = np.arange(len(state.layers)), 0
    most, patience = (CORRECTIONS, 1) if whole.all() else (PART_CORRECTIONS, PART_IDLE)
    for _ in range(most):
        errors, phase = guide.errors(state), guide.heaters.phases(state.voltage_v)
        before = _sizes(errors)
        triples = zip(guide.jacobians(state), errors, damping.value.tolist(), strict=True)
        found = [damped_step(*each) for each in triples]
        steps, predicted = [step for step, _ in found], np.array([size for _, size in found])

        def move(
            masks: list[Floats], steps: list[Floats] = steps, state: MeasuredSetting = state, phase: Floats = phase
        ) -> Floats:
            total = np.zeros_like(phase)
            for layer, mask, step in zip(state.layers, masks, steps, strict=True):
                total[layer.heaters] = mask * step
            return stepped_voltages(guide.heaters, turn_rad, state, phase, total)

        state = guide.improved(state, move)
        after = _sizes(guide.errors(state))
        damping.update(every, before**2 - after**2, before**2 - predicted**2)
        idle = idle + 1 if np.all(after > GAIN * before) else 0
        if idle == patience:
            break
    return state


def round_by_twin(guide: TwinGuide, state: MeasuredSetting) -> MeasuredSetting:
    """Optimise the DAC codes of all heaters jointly, in whole steps, until no layer improves.

    Args:
        guide: The twin that predicts the effect of a step. If its drive has no DAC step, ``state`` is returned.
        state: The setting to start from.
    """
    heaters = guide.heaters
    if heaters.step_v == 0.0:
        return state
    for _ in range(ROUNDINGS):
        before = _sizes(guide.errors(state))
        rise = heaters.rise_ohm @ heaters.currents(state.voltage_v)
        phase = heaters.phases_at_rise(state.voltage_v, rise)
        per_step = heaters.phases_at_rise(state.voltage_v + heaters.step_v, rise) - phase
        triples = zip(state.layers, guide.jacobians(state), guide.errors(state), strict=True)
        steps = [nearest_moves(slope, error, per_step[layer.heaters]) for layer, slope, error in triples]

        def move(masks: list[Floats], steps: list[Floats] = steps, state: MeasuredSetting = state) -> Floats:
            voltage = state.voltage_v.copy()
            for layer, mask, step in zip(state.layers, masks, steps, strict=True):
                voltage[layer.heaters] += mask * step * heaters.step_v
            return heaters.quantise(voltage)

        state = guide.improved(state, move)
        if np.all(_sizes(guide.errors(state)) > GAIN * before):
            break
    return state


def _sizes(errors: list[Floats]) -> Floats:
    """Return the (layers,) rms errors."""
    return np.array([np.sqrt(np.mean(error**2)) for error in errors])
