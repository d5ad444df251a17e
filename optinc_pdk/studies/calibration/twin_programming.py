"""Programming by a digital twin: fit the twin to readings, program the chip by the twin, measure the result.

The twin is fitted first at random settings, to find the chip's parameters, then around the operating point. There,
errors of a few mrad that no parameter of the twin describes, such as variations of pairwise crosstalk, act as static
phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.simulate.programming.block_targets import with_electronics
from optinc_pdk.simulate.programming.detection_jacobian import LinearResponse, linear_response
from optinc_pdk.simulate.programming.phase_fit import MAX_ITERATIONS, ProgrammingProblem, fit_layers, solve_fields
from optinc_pdk.simulate.programming.program import aligned_initial_phases
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.studies.calibration.digital_twin import DigitalTwin, build_twin
from optinc_pdk.studies.calibration.heater_model import HeaterModel
from optinc_pdk.studies.calibration.in_loop_steps import MeasuredSetting, measure_setting
from optinc_pdk.studies.calibration.measurement import BenchLayer, BenchProtocol
from optinc_pdk.studies.calibration.twin_fit import (
    ParameterKnowledge,
    card_priors,
    fit_unknowns,
    posteriors,
    relative_misfits,
    signal_misfits,
    take_readings,
)
from optinc_pdk.studies.calibration.twin_initial_guess import fit_source_phases
from optinc_pdk.studies.calibration.twin_readings import TwinEstimate, TwinLight
from optinc_pdk.studies.calibration.twin_steps import TwinGuide, correct, round_by_twin

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
ROUNDS, GAIN = 3, 0.7
"""Refinements around a measured setting; they end when every layer keeps more than this share of its error."""
SCALE_RESERVE = 0.9
"""Scale of rows that several parts of a layer share, relative to that of the initial phases, so that a fit can also
make a piece stronger."""
STEPS = 3
"""Programming iterations in refinements: solutions are not unique, so stay close to the measured setting."""
NEAR, NEAR_RAD, NEAR_SHRINK = 8, 0.2, 0.3
"""Settings around a measured one, their rms distance, and its reduction factor in every refinement."""
QUADRATURE_WEIGHT = 0.01
"""Weight of the signals' quadrature component while the twin is programmed. It selects, among many solutions of equally
small error, one that wastes no light, which matters with noise: residual phases of fibre locks turn light in quadrature
into signal. A tenth was tried with derivatives that neglected the change of the rows' factors: it made four of five
sampled 8-bit chips better and one worse at 3 GBd and 19 mrad of fibre phase, and left a 4-bit chip in service that
could not be tracked through a walk of its heaters by 1 %."""
MISFIT_SHARE = 0.3
"""Expected misfit of the readings around a setting after their fit, relative to the misfit before."""


def program_by_twin(
    laboratory: BenchProtocol,
    problem: ProgrammingProblem,
    layers: tuple[BenchLayer, ...],
    heaters: HeaterModel,
    efficiency: Floats,
) -> Iterator[tuple[MeasuredSetting, HeaterModel]]:
    """Fit a digital twin to a chip and program the chip by it, better and better.

    The first setting follows from readings at random settings, the next ones from readings around the one before. In
    the last one, the codes of all heaters are rounded jointly. The caller stops when a setting is good enough.

    Args:
        laboratory: The bench.
        problem: Programming problem of the nominal chip.
        layers: The layers, or their parts, see :func:`optinc_pdk.simulate.programming.block_targets.part_targets`.
        heaters: Design model of the heaters.
        efficiency: (H,) efficiencies, real phase over design phase; NaN for heaters without effect.

    Yields:
        A measured setting, and the heater model with the fitted crosstalk.
    """
    random = np.random.default_rng(0)
    parts = replace(problem, targets=tuple(layer.target for layer in layers))
    twin = build_twin(parts, layers, heaters, efficiency)
    unknown, known, fitted_layers = fit_twin(laboratory, twin, random)
    twin, start = _started(problem, twin, unknown)
    state = best = _programmed(laboratory, twin, unknown, start, MAX_ITERATIONS)
    yield state, twin.fitted_heaters(unknown)
    for number in range(ROUNDS):
        settings = _around(heaters, state.voltage_v, NEAR_RAD * NEAR_SHRINK**number, random)
        evidence = take_readings(laboratory, twin, settings)
        trust = MISFIT_SHARE * relative_misfits(twin, unknown, evidence)
        unknown = fit_unknowns(twin, unknown, known, evidence, trust, fitted_layers)
        known = posteriors(twin, unknown, known, evidence, trust, fitted_layers)
        before = state.sizes
        state = _programmed(laboratory, twin, unknown, twin.phases(unknown, state.voltage_v), STEPS)
        yield state, twin.fitted_heaters(unknown)
        if state.sizes[fitted_layers].max(initial=0.0) < best.sizes[fitted_layers].max(initial=0.0):
            best = state
        if np.all(state.sizes[fitted_layers] > GAIN * before[fitted_layers]):
            break
    weight = np.zeros(len(layers))
    weight[fitted_layers] = QUADRATURE_WEIGHT
    guide = TwinGuide(laboratory, TwinEstimate(twin, unknown), twin.fitted_heaters(unknown), weight)
    state = correct(guide, 2.0 * np.pi / efficiency, best)
    yield state, guide.heaters
    yield round_by_twin(guide, state), guide.heaters


def _started(problem: ProgrammingProblem, twin: DigitalTwin, unknown: Floats) -> tuple[DigitalTwin, Floats]:
    """Return the twin with the electronics of shared rows, and the (H,) phases that its programming starts with."""
    chip = replace(twin.problem_at(unknown), targets=problem.targets)
    start = aligned_initial_phases(chip)
    if len(twin.layers) == len(problem.targets):
        return twin, start
    light = solve_fields(chip, start)

    def detect(target: LayerTarget) -> LinearResponse:
        return linear_response(light, target)

    targets = with_electronics(problem.targets, twin.problem.targets, detect, SCALE_RESERVE)
    layers = tuple(replace(layer, target=target) for layer, target in zip(twin.layers, targets, strict=True))
    return replace(twin, problem=replace(twin.problem, targets=targets), layers=layers), start


def _programmed(
    laboratory: BenchProtocol, twin: DigitalTwin, unknown: Floats, start: Floats, steps: int
) -> MeasuredSetting:
    """Program the twin from (H,) starting phases in at most ``steps`` iterations and measure the chip at the result."""
    chip = replace(twin.problem_at(unknown), quadrature_weight=QUADRATURE_WEIGHT)
    phases = np.where(twin.efficiency > 0.0, start, twin.phases(unknown, np.zeros_like(start)))
    estimate = TwinEstimate(twin, unknown)

    def solve(trial: Floats, layers: Ints) -> TwinLight:
        return TwinLight({i: estimate.light(i, trial[np.newaxis, twin.paths[i].heater]) for i in layers.tolist()})

    for i in range(len(twin.layers)):
        phases, _ = fit_layers(chip, phases, np.array([i]), solve, _silent, steps)
    return measure_setting(laboratory, twin.layers, twin.fitted_heaters(unknown), twin.voltages(unknown, phases))


def _silent(iteration: int, error: float) -> None:
    """Ignore progress."""


def fit_twin(
    laboratory: BenchProtocol, twin: DigitalTwin, random: np.random.Generator
) -> tuple[Floats, list[ParameterKnowledge], Ints]:
    """Fit the unknowns of a twin to readings at random heater settings.

    The first attempt starts at the nominal chip, further ones at random static phases around it. Layers whose fit stays
    in a local minimum are not fitted; in-loop tuning handles them.

    Args:
        laboratory: The bench.
        twin: The twin.
        random: Random numbers for the settings.

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


def _around(heaters: HeaterModel, voltage_v: Floats, far_rad: float, random: np.random.Generator) -> Floats:
    """Return (NEAR, H) voltages: a setting and random ones around it."""
    phase = heaters.phases(voltage_v)
    moved = [heaters.voltages(np.abs(phase + far_rad * random.standard_normal(phase.size))) for _ in range(NEAR - 1)]
    return np.array([voltage_v, *moved])
