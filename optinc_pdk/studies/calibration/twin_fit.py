"""Least-squares fit of a digital twin's unknowns to readings, separately for the unknowns of each layer.

Prior knowledge from the card and from earlier readings is kept as a quadratic form around its estimate. Later readings,
closer to the operating point, update it recursively (as a Kalman filter with static state).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.simulate.programming.phase_fit import Damping
from optinc_pdk.studies.calibration.digital_twin import DigitalTwin
from optinc_pdk.studies.calibration.measurement import BenchLayer, BenchProtocol, LayerResponse, layer_response
from optinc_pdk.studies.calibration.twin_readings import (
    TwinEstimate,
    predicted_derivatives,
    predicted_vectors,
    response_vectors,
    signal_part,
)

MIN_EFFECT = 1e-3
"""An unknown belongs to a layer only if its effect on the readings exceeds this share of the strongest unknown's."""
FIRST_DAMPING = 1e-5
ITERATIONS = 25
MIN_DECREASE = 0.02
"""A layer's fit ends at a step that reduces its cost by less than this share."""


@dataclass(frozen=True, eq=False)
class TwinReadings:
    """Responses of all layers at heater settings.

    Attributes:
        design_phase: (S, H) design phases of the heaters at each setting.
        responses: For each layer, its measured responses at the S settings.
        vectors: For each layer, (S, R) numbers that contain the responses, see
            :func:`twin_readings.response_vectors`.
    """

    design_phase: Floats
    responses: tuple[tuple[LayerResponse, ...], ...]
    vectors: tuple[Floats, ...]

    def restricted(self, counts: Ints) -> TwinReadings:
        """Return the readings of each layer at its first settings only: (layers,) numbers of settings."""
        pairs = zip(self.responses, self.vectors, counts.tolist(), strict=True)
        found = [(responses[:count], vectors[:count]) for responses, vectors, count in pairs]
        return TwinReadings(self.design_phase, tuple(one for one, _ in found), tuple(each for _, each in found))

    def of_layer(self, index: int) -> tuple[Floats, Floats]:
        """Return (S, H) design phases of the heaters and (S, R) vectors of a layer's readings."""
        vectors = self.vectors[index]
        return self.design_phase[: len(vectors)], vectors

    def extended_by(self, more: TwinReadings) -> TwinReadings:
        """Return the readings of both objects, first these and then those of ``more``."""
        return TwinReadings(
            np.concatenate([self.design_phase, more.design_phase]),
            tuple(one + other for one, other in zip(self.responses, more.responses, strict=True)),
            tuple(np.concatenate(pair) for pair in zip(self.vectors, more.vectors, strict=True)),
        )


@dataclass(frozen=True, eq=False)
class ParameterKnowledge:
    """Gaussian distribution of the n unknowns of one layer: the prior from the card, or the posterior after a fit.

    Attributes:
        chosen: (n,) indices of these unknowns among all N unknowns of the twin, ascending.
        centre: (n,) most likely values.
        normal: (n, n) information matrix: half the second derivative of the cost.
    """

    chosen: Ints
    centre: Floats
    normal: Floats


@dataclass(frozen=True, eq=False)
class LayerProblem:
    """Least-squares problem of the unknowns of one layer.

    Attributes:
        twin: The twin.
        index: Index of the layer.
        known: Prior of its unknowns.
        design_phase: (S, H) design phases of the heaters.
        measured: (S, R) measured response vectors.
        trust: Expected misfit, relative to the rms of the response vectors; they are weighted by its inverse.
    """

    twin: DigitalTwin
    index: int
    known: ParameterKnowledge
    design_phase: Floats
    measured: Floats
    trust: float

    @property
    def _scale(self) -> float:
        return 1.0 / (self.trust * float(np.sqrt(np.mean(self.measured**2))))

    def cost(self, unknown: Floats) -> float:
        """Return the sum of squares of prior and residuals for (N,) values of the twin's unknowns."""
        estimate = TwinEstimate(self.twin, unknown)
        light = estimate.light(self.index, estimate.phases(self.index, self.design_phase))
        residual = self._scale * (predicted_vectors(light, self.twin.layers[self.index]) - self.measured)
        off = unknown[self.known.chosen] - self.known.centre
        return float(np.sum(residual**2) + off @ self.known.normal @ off)

    def normal_equations(self, unknown: Floats) -> tuple[Floats, Floats]:
        """Return half the (n,) gradient of the cost, and half its (n, n) second derivative by Gauss and Newton."""
        estimate = TwinEstimate(self.twin, unknown)
        light = estimate.light(self.index, estimate.phases(self.index, self.design_phase))
        residual = self._scale * (predicted_vectors(light, self.twin.layers[self.index]) - self.measured)
        slope = predicted_derivatives(estimate, self.design_phase, light, self.index, self.known.chosen)
        slope *= self._scale
        off = unknown[self.known.chosen] - self.known.centre
        gradient = self.known.normal @ off + slope @ residual.reshape(-1)
        return gradient, self.known.normal + slope @ slope.T


def take_readings(laboratory: BenchProtocol, twin: DigitalTwin, voltage_v: Floats) -> TwinReadings:
    """Read all layers at (S, H) heater voltages, with the sources of one layer at a time on."""
    layers = twin.layers
    patterns = [layer.patterns for layer in layers]
    ends = np.cumsum([len(each) for each in patterns])
    amplitude = np.zeros((ends[-1], len(laboratory.sources)))
    for layer, pattern, end in zip(layers, patterns, ends.tolist(), strict=True):
        amplitude[end - len(pattern) : end, layer.sources] = pattern
    read = np.split(laboratory.read(voltage_v, amplitude), ends[:-1], axis=1)
    responses = tuple(_responses(layer, each) for layer, each in zip(layers, read, strict=True))
    design_phase = np.array([twin.heaters.phases(one) for one in voltage_v])
    vectors = tuple(response_vectors(each, layer) for each, layer in zip(responses, layers, strict=True))
    return TwinReadings(design_phase, responses, vectors)


def _responses(layer: BenchLayer, read: Floats) -> tuple[LayerResponse, ...]:
    """Responses of a layer from (S, P, all detectors) readings of its patterns."""
    detectors = np.concatenate([layer.plus, layer.minus])
    return tuple(layer_response(layer, one[:, detectors]) for one in read)


def card_priors(twin: DigitalTwin, voltage_v: Floats) -> list[ParameterKnowledge]:
    """Assign the unknowns to layers and return, for each layer, their prior distribution from the card.

    An unknown may affect several layers, for instance in the splitter tree of the carrier. It is assigned to the layer
    that it affects most; unknowns of the other layers absorb its effect there.

    Args:
        twin: The twin.
        voltage_v: (S, H) voltages at which the effect of each unknown on the readings is evaluated.
    """
    estimate = TwinEstimate(twin, np.zeros(twin.spread.size))
    design_phase = np.array([twin.heaters.phases(one) for one in voltage_v])
    effect = np.zeros((len(twin.layers), twin.spread.size))
    for i in range(len(twin.layers)):
        reached = twin.reached(i)
        light = estimate.light(i, estimate.phases(i, design_phase))
        slope = predicted_derivatives(estimate, design_phase, light, i, reached)
        effect[i, reached] = np.linalg.norm(slope, axis=1)
    effect /= effect.max(axis=1, keepdims=True)
    by_layer = [
        np.flatnonzero((effect[i] > MIN_EFFECT) & (effect.argmax(axis=0) == i)) for i in range(len(twin.layers))
    ]
    return [ParameterKnowledge(each, np.zeros(each.size), np.eye(each.size)) for each in by_layer]


def relative_misfits(twin: DigitalTwin, unknown: Floats, evidence: TwinReadings) -> Floats:
    """Compute the rms of predicted minus measured response vectors over the rms of the vectors, for each layer.

    Args:
        twin: The twin.
        unknown: (N,) values of the unknowns.
        evidence: The readings.

    Returns:
        (layers,) relative misfits.
    """
    estimate = TwinEstimate(twin, unknown)
    misfit = []
    for i, layer in enumerate(twin.layers):
        design_phase, measured = evidence.of_layer(i)
        light = estimate.light(i, estimate.phases(i, design_phase))
        misfit.append(np.sqrt(np.mean((predicted_vectors(light, layer) - measured) ** 2) / np.mean(measured**2)))
    return np.array(misfit)


def signal_misfits(twin: DigitalTwin, unknown: Floats, evidence: TwinReadings) -> Floats:
    """Compute the relative misfit of the part of the readings that shows a layer's matrix, for each layer.

    Slopes show the matrix of a layer of neurons. Constants, the light of the local oscillators alone, are larger, and
    a twin with another matrix than the chip's predicts them as well as the right twin.

    Args:
        twin: The twin.
        unknown: (N,) values of the unknowns.
        evidence: The readings.

    Returns:
        (layers,) rms of predicted minus measured slopes over the rms of the slopes; for receivers, of the products.
    """
    estimate = TwinEstimate(twin, unknown)
    misfit = []
    for i, layer in enumerate(twin.layers):
        design_phase, measured = evidence.of_layer(i)
        difference = predicted_vectors(estimate.light(i, estimate.phases(i, design_phase)), layer) - measured
        one, other = (signal_part(each, layer) for each in (difference, measured))
        misfit.append(np.sqrt(np.mean(one**2) / np.mean(other**2)))
    return np.array(misfit)


def fit_unknowns(
    twin: DigitalTwin,
    unknown: Floats,
    known: list[ParameterKnowledge],
    evidence: TwinReadings,
    trust: Floats,
    active: Ints,
) -> Floats:
    """Fit the unknowns of some layers to readings and prior with the Levenberg–Marquardt algorithm.

    Args:
        twin: The twin.
        unknown: (N,) starting values.
        known: For each layer, the prior of its unknowns.
        evidence: The readings.
        trust: (layers,) expected misfit of each layer, relative to the rms of its response vectors.
        active: Indices of the layers to fit.

    Returns:
        (N,) fitted unknowns.
    """
    fitted = unknown.copy()
    for i in active.tolist():
        problem = LayerProblem(twin, i, known[i], *evidence.of_layer(i), float(trust[i]))
        # each layer starts from the given values of the others' unknowns
        fitted[known[i].chosen] = _fitted(problem, unknown)[known[i].chosen]
    return fitted


def _fitted(problem: LayerProblem, unknown: Floats) -> Floats:
    """Return (N,) unknowns after the fit of one layer."""
    damping = Damping(np.array([FIRST_DAMPING]), np.array([2.0]))
    chosen, cost = problem.known.chosen, problem.cost(unknown)
    gradient, normal = problem.normal_equations(unknown)
    for _ in range(ITERATIONS):
        damped = normal + damping.value[0] * np.trace(normal) / len(normal) * np.eye(len(normal))
        step = -np.linalg.solve(damped, gradient)
        trial = unknown.copy()
        trial[chosen] += step
        decrease = cost - problem.cost(trial)
        predicted = -(2.0 * gradient @ step + step @ normal @ step)
        damping.update(np.array([0]), np.array([decrease]), np.array([predicted]))
        if decrease <= 0.0:
            # a failed step is repeated with more damping
            continue
        unknown, small = trial, decrease < MIN_DECREASE * cost
        cost -= decrease
        if small:
            break
        gradient, normal = problem.normal_equations(unknown)
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
        trust: (layers,) expected misfit of each layer, relative to the rms of its response vectors.
        active: Indices of the layers that were fitted.
    """
    after = list(known)
    for i in active.tolist():
        problem = LayerProblem(twin, i, known[i], *evidence.of_layer(i), float(trust[i]))
        _, normal = problem.normal_equations(unknown)
        after[i] = ParameterKnowledge(known[i].chosen, unknown[known[i].chosen], normal)
    return after
