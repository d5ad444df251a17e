"""Fit of a digital twin's unknowns to readings by least squares, separately for the unknowns of each layer.

Prior knowledge from the card and from earlier readings is kept as a quadratic form around its estimate. Later readings,
closer to the operating point, update it recursively (as a Kalman filter with static state).

A fit starts with the relative phases of the sources and of the local oscillators. Their light passes waveguides of
different lengths, so these phases are arbitrary, whereas the design is a good initial guess inside a mesh. With the
design's fields E, a slope 2 Re(E_c* E_j e^{i(ψ_j - λ_k)}) at detectors k is linear in cosine and sine of ψ_j - λ_k; so
are products of two sources. Least squares over many settings determine both, and the best rank-1 approximation gives
the phases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.simulate.programming.phase_fit import Damping
from optinc_pdk.studies.calibration._digital_twin import DigitalTwin
from optinc_pdk.studies.calibration._measurement import BenchLayer, BenchProtocol, LayerResponse, measure_layers
from optinc_pdk.studies.calibration._twin_readings import (
    LayerLight,
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
REGULARISATION = 1e-9
"""Regularisation of the normal equations, relative to their mean."""
READINGS = 10
"""Readings at random settings for each unknown of a layer; each further attempt adds as many."""
INDEPENDENT_READINGS = 6
"""Smallest number of independent readings for each unknown of a part of the last layer: the products of J sources at a
receiver depend on about 2 J numbers. With two, a fit for two receivers ended far from the chip (misfit 0.1 of its own
readings, 0.44 of others)."""
ASSIGNMENT_SETTINGS = 3
"""Settings at which unknowns are assigned to layers."""
COARSE, FINE = 0.1, 0.01
"""Expected misfit of the twin, relative to the rms of the readings: in the first fit, and in the refined one."""
GOOD_MISFIT, LOST_MISFIT, TRIES = 0.06, 0.1, 4
"""Misfit of a layer's signals above which its fit is in a local minimum and starts again with more readings; misfit
above which it counts as not fitted; largest number of attempts. Of 100 sampled chips of the bundled networks, two
had fits that programmed another matrix than asked for, with misfits of 0.11 and 0.13, although those of all of their
readings were 0.033 and 0.038; the others had up to 0.055 at the first attempt and up to 0.094 at the last."""
GOOD_PART, LOST_PART = 0.13, 0.15
"""The same for parts of layers. Of the 26 parts of a sampled classifier in blocks of 8 × 8, fits that programmed the
right matrix had misfits of 0.04 to 0.125, those in local minima 0.16 and more."""
START_SHARE = 0.5
"""Standard deviation of the static phases at which further attempts start, over that of the card. With more readings
alone, the first layer of one of 20 sampled 4-bit chips at 8.5 bits stayed in its local minimum for four attempts. Tuned
in the loop without a twin, that chip read words wrongly with noise, because much of its light was in quadrature. Of 150
samples of a chip with two layers, 118 were fitted at the first attempt, and 22, 29 and 30 of the other 32 after two,
three and four; with all attempts from the nominal chip 24, 30 and 31, with the full deviation 13, 23 and 26."""


@dataclass(frozen=True, eq=False)
class TwinReadings:
    """Responses of all layers at heater settings.

    Attributes:
        design_phase: (S, H) design phases of the heaters at each setting.
        responses: For each layer, its measured responses at the S settings.
        vectors: For each layer, (S, R) numbers that contain the responses, see
            :func:`_twin_readings.response_vectors`.
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
    """Least-squares problem of the unknowns of one layer, by its index.

    Attributes:
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

    def _residual(self, unknown: Floats) -> tuple[TwinEstimate, LayerLight, Floats, Floats]:
        """Return the estimate and its light, the (S, R) weighted residuals, and (n,) distances from the prior."""
        estimate = TwinEstimate(self.twin, unknown)
        light = estimate.light(self.index, estimate.phases(self.index, self.design_phase))
        residual = self._scale * (predicted_vectors(light, self.twin.layers[self.index]) - self.measured)
        return estimate, light, residual, unknown[self.known.chosen] - self.known.centre

    def cost(self, unknown: Floats) -> float:
        """Return the sum of squares of prior and residuals for (N,) values of the twin's unknowns."""
        _, _, residual, off = self._residual(unknown)
        return float(np.sum(residual**2) + off @ self.known.normal @ off)

    def normal_equations(self, unknown: Floats) -> tuple[Floats, Floats]:
        """Return half the (n,) gradient of the cost, and half its (n, n) second derivative by Gauss and Newton."""
        estimate, light, residual, off = self._residual(unknown)
        slope = predicted_derivatives(estimate, self.design_phase, light, self.index, self.known.chosen)
        slope *= self._scale
        gradient = self.known.normal @ off + slope @ residual.reshape(-1)
        return gradient, self.known.normal + slope @ slope.T


def take_readings(laboratory: BenchProtocol, twin: DigitalTwin, voltage_v: Floats) -> TwinReadings:
    """Read all layers at (S, H) heater voltages, with the sources of one layer at a time on."""
    responses = tuple(zip(*measure_layers(laboratory, twin.layers, voltage_v), strict=True))
    design_phase = np.array([twin.heaters.phases(one) for one in voltage_v])
    vectors = tuple(response_vectors(each, layer) for each, layer in zip(responses, twin.layers, strict=True))
    return TwinReadings(design_phase, responses, vectors)


def card_priors(twin: DigitalTwin, voltage_v: Floats) -> list[ParameterKnowledge]:
    """Assign the unknowns to layers and return, for each layer, their prior distribution from the card.

    An unknown may affect several layers, for instance in the splitter tree of the carrier. It is assigned to the layer
    whose readings at (S, H) voltages it affects most; unknowns of the other layers absorb its effect there.
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


def relative_misfits(
    twin: DigitalTwin,
    unknown: Floats,
    evidence: TwinReadings,
    part: Callable[[Floats, BenchLayer], Floats] = lambda vectors, layer: vectors,
) -> Floats:
    """Compute the (layers,) rms of predicted minus measured response vectors, or of a part of them, over their rms."""
    estimate = TwinEstimate(twin, unknown)
    misfit = []
    for i, layer in enumerate(twin.layers):
        design_phase, measured = evidence.of_layer(i)
        difference = predicted_vectors(estimate.light(i, estimate.phases(i, design_phase)), layer) - measured
        misfit.append(np.sqrt(np.mean(part(difference, layer) ** 2) / np.mean(part(measured, layer) ** 2)))
    return np.array(misfit)


def signal_misfits(twin: DigitalTwin, unknown: Floats, evidence: TwinReadings) -> Floats:
    """Compute the relative misfits of the part of the readings that shows a layer's matrix.

    Slopes show the matrix of a layer of neurons. Constants, the light of the local oscillators alone, are larger, and
    a twin with another matrix than the chip's predicts them as well as the right twin.
    """
    return relative_misfits(twin, unknown, evidence, signal_part)


def fit_unknowns(
    twin: DigitalTwin,
    unknown: Floats,
    known: list[ParameterKnowledge],
    evidence: TwinReadings,
    trust: Floats,
    active: Ints,
) -> Floats:
    """Fit the unknowns of active layers, by their indices, with the Levenberg–Marquardt algorithm, from (N,) values.

    ``trust`` is the (layers,) expected misfit of each layer, relative to the rms of its response vectors.
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
    """Return, for each layer, the posterior distribution of its unknowns after a fit; arguments as for `fit_unknowns`.

    The (N,) fitted unknowns become the centres. Layers that were not fitted keep their prior.
    """
    after = list(known)
    for i in active.tolist():
        problem = LayerProblem(twin, i, known[i], *evidence.of_layer(i), float(trust[i]))
        _, normal = problem.normal_equations(unknown)
        after[i] = ParameterKnowledge(known[i].chosen, unknown[known[i].chosen], normal)
    return after


def fit_source_phases(
    twin: DigitalTwin, unknown: Floats, index: int, design_phase: Floats, responses: Sequence[LayerResponse]
) -> Floats:
    """Return (N,) unknowns with phases of a layer's sources and oscillators fitted to its responses at S settings."""
    estimate, layer = TwinEstimate(twin, unknown), twin.layers[index]
    field = estimate.light(index, estimate.phases(index, design_phase)).detected
    static, _, _, _, edge_phase, _, _ = twin.parts(np.arange(twin.spread.size))
    updated = unknown.copy()
    if layer.target.last:
        predicted = field[:, :, 1:, np.newaxis].conj() * field[:, :, np.newaxis, 1:]
        factor = _fit_phase_factors(predicted, np.stack([response.product for response in responses])).sum(axis=0)
        np.fill_diagonal(factor, np.abs(factor).mean())
        sources = -np.angle(np.linalg.eigh(factor + factor.conj().T)[1][:, -1])
    else:
        pairs = layer.plus.size
        shape = (len(design_phase) * 2, pairs, layer.sources.size)
        predicted = (2.0 * field[:, :, :1].conj() * field[:, :, 1:]).reshape(shape)
        factor = _fit_phase_factors(
            predicted[:, np.newaxis], np.stack([response.slope for response in responses]).reshape(shape)[:, np.newaxis]
        )[0]
        sources = np.angle(np.linalg.svd(factor)[2][0])
        oscillators = np.angle((factor.conj() * np.exp(1j * sources)).sum(axis=1))
        updated[static[layer.oscillators]] += oscillators / twin.spread[static[layer.oscillators]]
    for edges, phase in zip(twin.source_edges[index], sources.tolist(), strict=True):
        updated[edge_phase[edges]] += phase / twin.spread[edge_phase[edges]]
    return updated


def _fit_phase_factors(predicted: Complexes, measured: Floats) -> Complexes:
    """Solve Re(predicted z) = measured, both (S, n, a, b), for (n, a, b) z by least squares, weighted by certainty."""
    parts = np.stack([predicted.real, -predicted.imag], axis=-1)
    normal = np.einsum("snabp,snabq->nabpq", parts, parts)
    weight = np.trace(normal, axis1=-2, axis2=-1)
    normal += REGULARISATION * weight.mean() * np.eye(2)
    real, imaginary = np.moveaxis(
        np.linalg.solve(normal, np.einsum("snabp,snab->nabp", parts, measured)[..., None]), -2, 0
    )
    return np.asarray((real + 1j * imaginary)[..., 0] * np.sqrt(weight))


def fit_twin(
    laboratory: BenchProtocol, twin: DigitalTwin, random: np.random.Generator
) -> tuple[Floats, list[ParameterKnowledge], Ints]:
    """Fit the unknowns of a twin to readings at random heater settings.

    The first attempt starts at the nominal chip, further ones at random static phases around it. Layers whose fit stays
    in a local minimum are not fitted; in-loop tuning handles them.

    Returns:
        (N,) unknowns, the posterior distribution of each layer, and the indices of the layers that were fitted.
    """
    full_turn = 2.0 * np.pi / np.where(twin.efficiency > 0.0, twin.efficiency, 1.0)

    def settings(count: int) -> Floats:
        return np.array([twin.heaters.voltages(full_turn * random.uniform(size=full_turn.size)) for _ in range(count)])

    priors = card_priors(twin, settings(ASSIGNMENT_SETTINGS))
    counts = np.array([_settings(layer, prior) for layer, prior in zip(twin.layers, priors, strict=True)])
    whole = np.array([layer.target.whole for layer in twin.layers])
    good = np.where(whole, GOOD_MISFIT, GOOD_PART)
    unknown, misfit = np.zeros(twin.spread.size), np.full(len(priors), np.inf)
    static, _, crosstalk, *_ = twin.parts(np.arange(twin.spread.size))
    lost, evidence = np.arange(len(priors)), take_readings(laboratory, twin, settings(int(counts.max())))
    for number in range(TRIES):
        if number:
            evidence = evidence.extended_by(take_readings(laboratory, twin, settings(int(counts[lost].max()))))
        # a part takes no more settings than it needs, because there are many parts
        taken = np.where(whole, len(evidence.design_phase), counts * (number + 1))
        own = evidence.restricted(taken)
        trial = unknown.copy()
        for i in lost.tolist():
            trial[priors[i].chosen] = 0.0
            if number:
                # from the start of an earlier attempt, the fit often reaches the same local minimum
                phases = np.intersect1d(priors[i].chosen, static)
                trial[phases] = START_SHARE * random.standard_normal(phases.size)
                # parts of a chip differ little in their crosstalk, and those that are fitted show it
                shown = crosstalk[~whole & (misfit <= good)]
                if shown.size and not whole[i]:
                    trial[crosstalk[i]] = np.median(unknown[shown])
            trial = fit_source_phases(twin, trial, i, own.of_layer(i)[0], own.responses[i])
        for expected in (COARSE, FINE):
            trial = fit_unknowns(twin, trial, priors, own, np.full(len(priors), expected), lost)
        found = signal_misfits(twin, trial, own)
        for i in lost[found[lost] < misfit[lost]].tolist():
            unknown[priors[i].chosen], misfit[i] = trial[priors[i].chosen], found[i]
        lost = np.flatnonzero(misfit > good)
        if not lost.size:
            break
    fitted_layers = np.flatnonzero(misfit <= np.where(whole, LOST_MISFIT, LOST_PART))
    trust = np.maximum(relative_misfits(twin, unknown, own), FINE)
    return unknown, posteriors(twin, unknown, priors, own, trust, fitted_layers), fitted_layers


def _settings(layer: BenchLayer, prior: ParameterKnowledge) -> int:
    """Return the number of settings that a layer's first attempt takes."""
    readings = len(layer.patterns) * (layer.plus.size + layer.minus.size)
    count = READINGS * prior.chosen.size / readings
    if layer.target.last and not layer.target.whole:
        count = max(count, INDEPENDENT_READINGS * prior.chosen.size / (2 * layer.sources.size * layer.plus.size))
    return int(np.ceil(count))
