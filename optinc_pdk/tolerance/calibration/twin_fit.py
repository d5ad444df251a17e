"""Least-squares fit of a digital twin's unknowns to readings, separately for the unknowns of each layer.

Prior knowledge from the card and from earlier readings is kept as a quadratic form around its estimate. Later readings,
closer to the operating point, update it recursively (as a Kalman filter with static state).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.programming.phase_fit import Damping
from optinc_pdk.tolerance.calibration.digital_twin import DigitalTwin
from optinc_pdk.tolerance.calibration.measurement import BenchLayer, BenchProtocol, LayerResponse, layer_response
from optinc_pdk.tolerance.calibration.twin_readings import evaluate_twin, predicted_derivatives, predicted_readings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIN_EFFECT = 1e-3
"""An unknown belongs to a layer only if its effect on the readings exceeds this share of the strongest unknown's."""
FIRST_DAMPING = 1e-5
ITERATIONS = 25
MIN_DECREASE = 0.02
"""A layer's fit ends at a step that reduces its cost by less than this share."""


@dataclass(frozen=True, eq=False)
class TwinReadings:
    """Readings of all layers at S heater settings.

    Attributes:
        design_phase: (S, H) design phases of the heaters at each setting.
        read: For each layer, (S, P, D) readings of its D detectors for its P patterns of source amplitudes.
    """

    design_phase: Floats
    read: tuple[Floats, ...]

    def responses(self, layers: tuple[BenchLayer, ...], index: int) -> list[LayerResponse]:
        """Return the measured response of one layer at each of the S settings.

        Args:
            layers: The layers.
            index: Index of the layer.
        """
        return [layer_response(layers[index], one) for one in self.read[index]]

    def extended_by(self, more: TwinReadings) -> TwinReadings:
        """Return the readings of both objects, first these and then those of ``more``."""
        read = tuple(np.concatenate(pair) for pair in zip(self.read, more.read, strict=True))
        return TwinReadings(np.concatenate([self.design_phase, more.design_phase]), read)

    def first_settings(self, count: int) -> TwinReadings:
        """Return the readings at the first ``count`` settings only."""
        return TwinReadings(self.design_phase[:count], tuple(each[:count] for each in self.read))


@dataclass(frozen=True, eq=False)
class ParameterKnowledge:
    """Gaussian distribution of the n unknowns of one layer: the prior from the card, or the posterior after a fit.

    Attributes:
        chosen: (n,) indices of these unknowns among all N unknowns of the twin.
        centre: (n,) most likely values.
        normal: (n, n) information matrix: half the second derivative of the cost.
    """

    chosen: Ints
    centre: Floats
    normal: Floats

    def cost(self, value: Floats) -> float:
        """Return (x - centre)ᵀ normal (x - centre) for (n,) values x."""
        return float((value - self.centre) @ self.normal @ (value - self.centre))


@dataclass(frozen=True, eq=False)
class LayerNormalEquations:
    """Cost of one layer's n unknowns and its derivatives at given values.

    Attributes:
        cost: Sum of squares of prior and residuals.
        gradient: (n,) half the gradient of the cost.
        normal: (n, n) half the second derivative of the cost, in the Gauss–Newton approximation.
    """

    cost: float
    gradient: Floats
    normal: Floats


def take_readings(laboratory: BenchProtocol, twin: DigitalTwin, voltage_v: Floats) -> TwinReadings:
    """Read all layers at (S, H) heater voltages, with the sources of one layer at a time on."""
    layers = twin.layers
    patterns = [layer.patterns for layer in layers]
    ends = np.cumsum([len(each) for each in patterns])
    amplitude = np.zeros((ends[-1], len(laboratory.sources)))
    for layer, pattern, end in zip(layers, patterns, ends.tolist(), strict=True):
        amplitude[end - len(pattern) : end, layer.sources] = pattern
    read = np.split(laboratory.read(voltage_v, amplitude), ends[:-1], axis=1)
    detectors = [np.concatenate([layer.plus, layer.minus]) for layer in layers]
    design_phase = np.array([twin.heaters.phases(one) for one in voltage_v])
    return TwinReadings(design_phase, tuple(each[:, :, pattern] for each, pattern in zip(read, detectors, strict=True)))


def card_priors(twin: DigitalTwin, voltage_v: Floats) -> list[ParameterKnowledge]:
    """Assign the unknowns to layers and return, for each layer, their prior distribution from the card.

    An unknown may affect several layers, for instance in the splitter tree of the carrier. It is assigned to the layer
    that it affects most; unknowns of the other layers absorb its effect there.

    Args:
        twin: The twin.
        voltage_v: (S, H) voltages at which the effect of each unknown on the readings is evaluated.
    """
    indices = np.arange(twin.spread.size)
    estimate = evaluate_twin(twin, np.zeros(indices.size))
    effect = np.zeros((len(twin.layers), indices.size))
    for one in voltage_v:
        design_phase = twin.heaters.phases(one)
        light = estimate.light(design_phase)
        for i, layer in enumerate(twin.layers):
            effect[i] += (predicted_derivatives(estimate, design_phase, light, layer, indices)[1] ** 2).sum(axis=0)
    effect = np.sqrt(effect)
    effect /= effect.max(axis=1, keepdims=True)
    by_layer = [
        np.flatnonzero((effect[i] > MIN_EFFECT) & (effect.argmax(axis=0) == i)) for i in range(len(twin.layers))
    ]
    return [ParameterKnowledge(each, np.zeros(each.size), np.eye(each.size)) for each in by_layer]


def relative_misfits(twin: DigitalTwin, unknown: Floats, evidence: TwinReadings) -> Floats:
    """Compute the rms of predicted minus measured readings over the rms of the readings, for each layer.

    Args:
        twin: The twin.
        unknown: (N,) values of the unknowns.
        evidence: The readings.

    Returns:
        (layers,) relative misfits.
    """
    estimate = evaluate_twin(twin, unknown)
    lights = [estimate.light(one) for one in evidence.design_phase]
    misfit = []
    for layer, read in zip(twin.layers, evidence.read, strict=True):
        residual = np.stack([predicted_readings(light, layer) for light in lights]) - read
        misfit.append(np.sqrt(np.mean(residual**2) / np.mean(read**2)))
    return np.array(misfit)


def fit_unknowns(
    twin: DigitalTwin,
    unknown: Floats,
    known: list[ParameterKnowledge],
    evidence: TwinReadings,
    trust: Floats,
    active: Ints | None = None,
) -> Floats:
    """Fit the unknowns to readings and prior with the Levenberg–Marquardt algorithm.

    Args:
        twin: The twin.
        unknown: (N,) starting values.
        known: For each layer, the prior of its unknowns.
        evidence: The readings.
        trust: (layers,) expected misfit of each layer, relative to the rms of its readings; readings are weighted by
            its inverse.
        active: Indices of the layers to fit; all layers if None.

    Returns:
        (N,) fitted unknowns.
    """
    fitting = np.arange(len(twin.layers)) if active is None else active
    damping = Damping(np.full(len(twin.layers), FIRST_DAMPING), np.full(len(twin.layers), 2.0))
    current = _normals(twin, unknown, known, evidence, trust, fitting)
    for _ in range(ITERATIONS):
        trial, decrease, predicted = unknown.copy(), np.zeros(len(known)), np.zeros(len(known))
        for i in fitting.tolist():
            gradient, normal = current[i].gradient, current[i].normal
            damped = normal + damping.value[i] * np.trace(normal) / len(normal) * np.eye(len(normal))
            step = -np.linalg.solve(damped, gradient)
            predicted[i] = -(2.0 * gradient @ step + step @ normal @ step)
            trial[known[i].chosen] += step
        trial_normals = _normals(twin, trial, known, evidence, trust, fitting)
        unknown, continuing = unknown.copy(), []
        for i in fitting.tolist():
            decrease[i] = current[i].cost - trial_normals[i].cost
            # a failed step is repeated with more damping
            if not 0.0 <= decrease[i] < MIN_DECREASE * current[i].cost:
                continuing.append(i)
            if decrease[i] > 0.0:
                current[i] = trial_normals[i]
                unknown[known[i].chosen] = trial[known[i].chosen]
        damping.update(fitting, decrease, predicted)
        fitting = np.array(continuing, dtype=np.int64)
        if not fitting.size:
            break
    return unknown


def posteriors(
    twin: DigitalTwin,
    unknown: Floats,
    known: list[ParameterKnowledge],
    evidence: TwinReadings,
    trust: Floats,
    active: Ints,
) -> list[ParameterKnowledge]:
    """Return, for each layer, the posterior distribution of its unknowns after a fit.

    Layers that were not fitted keep their prior.

    Args:
        twin: The twin.
        unknown: (N,) fitted unknowns, which become the centres.
        known: For each layer, the prior of its unknowns.
        evidence: The readings.
        trust: (layers,) expected misfit of each layer, relative to the rms of its readings.
        active: Indices of the layers that were fitted.
    """
    after = _normals(twin, unknown, known, evidence, trust, active)
    return [
        replace(prior, centre=unknown[prior.chosen], normal=after[i].normal) if i in after else prior
        for i, prior in enumerate(known)
    ]


def _normals(
    twin: DigitalTwin,
    unknown: Floats,
    known: list[ParameterKnowledge],
    evidence: TwinReadings,
    trust: Floats,
    active: Ints,
) -> dict[int, LayerNormalEquations]:
    """Return, by index of each active layer, the cost and its derivatives at some values."""
    estimate = evaluate_twin(twin, unknown)
    indices = active.tolist()
    scale = {i: 1.0 / (trust[i] * np.sqrt(np.mean(evidence.read[i] ** 2))) for i in indices}
    cost = {i: known[i].cost(unknown[known[i].chosen]) for i in indices}
    gradient = {i: known[i].normal @ (unknown[known[i].chosen] - known[i].centre) for i in indices}
    normal = {i: known[i].normal.copy() for i in indices}
    for number, design_phase in enumerate(evidence.design_phase):
        light = estimate.light(design_phase, active)
        for i in indices:
            predicted, slope = predicted_derivatives(estimate, design_phase, light, twin.layers[i], known[i].chosen)
            slope *= scale[i]
            residual = scale[i] * (predicted - evidence.read[i][number].reshape(-1))
            cost[i] += float(residual @ residual)
            gradient[i] += slope.T @ residual
            normal[i] += slope.T @ slope
    return {i: LayerNormalEquations(cost[i], gradient[i], normal[i]) for i in indices}
