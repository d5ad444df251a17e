"""Programming by a digital twin: fit the twin to readings, program the chip by the twin, measure the result.

The twin is fitted first at random settings, to find the chip's parameters, then around the operating point. There,
errors of a few mrad that no parameter of the twin describes, such as variations of pairwise crosstalk, act as static
phases.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.programming.phase_fit import MAX_ITERATIONS, ProgrammingProblem, fit_phases
from optinc_pdk.simulate.programming.program import aligned_initial_phases
from optinc_pdk.tolerance.calibration.digital_twin import DigitalTwin, build_twin
from optinc_pdk.tolerance.calibration.heater_model import HeaterModel
from optinc_pdk.tolerance.calibration.in_loop_steps import MeasuredSetting, measure_setting
from optinc_pdk.tolerance.calibration.measurement import BenchLayer, BenchProtocol
from optinc_pdk.tolerance.calibration.twin_fit import (
    ParameterKnowledge,
    card_priors,
    fit_unknowns,
    posteriors,
    relative_misfits,
    take_readings,
)
from optinc_pdk.tolerance.calibration.twin_initial_guess import fit_source_phases

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

READINGS = 10
"""Readings at random settings for each unknown of a layer; each further attempt adds as many."""
ASSIGNMENT_SETTINGS = 3
"""Settings at which unknowns are assigned to layers."""
COARSE, FINE = 0.1, 0.01
"""Expected misfit of the twin, relative to the rms of the readings: in the first fit, and in the refined one."""
LOST_MISFIT, TRIES = 0.1, 5
"""Misfit after the coarse fit that indicates a local minimum, and number of attempts with more settings to leave it."""
ROUNDS, GAIN = 3, 0.7
"""Refinements around a measured setting; they end when every layer keeps more than this share of its error."""
STEPS = 3
"""Programming iterations in refinements: solutions are not unique, so stay close to the measured setting."""
NEAR, NEAR_RAD, NEAR_SHRINK = 8, 0.2, 0.3
"""Settings around a measured one, their rms distance, and its reduction factor in every refinement."""
QUADRATURE_WEIGHT = 0.01
"""Weight of the signals' quadrature component while the twin is programmed. It selects, among many solutions of equally
small error, one that wastes no light, which matters with noise."""
MISFIT_SHARE = 0.3
"""Expected misfit of the readings around a setting after their fit, relative to the misfit before."""


def program_by_twin(
    laboratory: BenchProtocol,
    problem: ProgrammingProblem,
    layers: tuple[BenchLayer, ...],
    heaters: HeaterModel,
    efficiency: Floats,
) -> tuple[MeasuredSetting, HeaterModel]:
    """Fit a digital twin to a chip and program the chip by it.

    Args:
        laboratory: The bench.
        problem: Programming problem of the nominal chip.
        layers: The layers.
        heaters: Design model of the heaters.
        efficiency: (H,) efficiencies, real phase over design phase; NaN for heaters without effect.

    Returns:
        The best measured setting, and the heater model with the fitted crosstalk.
    """
    random = np.random.default_rng(0)
    twin = build_twin(problem, layers, heaters, efficiency)
    unknown, known, fitted_layers = fit_twin(laboratory, twin, random)
    state = best = _programmed(
        laboratory, twin, unknown, aligned_initial_phases(twin.problem_at(unknown)), MAX_ITERATIONS
    )
    for number in range(ROUNDS):
        settings = _around(heaters, state.voltage_v, NEAR_RAD * NEAR_SHRINK**number, random)
        evidence = take_readings(laboratory, twin, settings)
        trust = MISFIT_SHARE * relative_misfits(twin, unknown, evidence)
        unknown = fit_unknowns(twin, unknown, known, evidence, trust, fitted_layers)
        known = posteriors(twin, unknown, known, evidence, trust, fitted_layers)
        before = state.sizes
        state = _programmed(laboratory, twin, unknown, twin.phases(unknown, state.voltage_v), STEPS)
        best = (
            state if state.sizes[fitted_layers].max(initial=0.0) < best.sizes[fitted_layers].max(initial=0.0) else best
        )
        if np.all(state.sizes[fitted_layers] > GAIN * before[fitted_layers]):
            break
    return best, twin.fitted_heaters(unknown)


def _programmed(
    laboratory: BenchProtocol, twin: DigitalTwin, unknown: Floats, start: Floats, steps: int
) -> MeasuredSetting:
    """Program the twin from (H,) starting phases in at most ``steps`` iterations and measure the chip at the result."""
    chip = replace(twin.problem_at(unknown), quadrature_weight=QUADRATURE_WEIGHT)
    start = np.where(twin.efficiency > 0.0, start, twin.phases(unknown, np.zeros_like(start)))
    phases = fit_phases(chip, start, iterations=steps).phases
    return measure_setting(laboratory, twin.layers, twin.fitted_heaters(unknown), twin.voltages(unknown, phases))


def fit_twin(
    laboratory: BenchProtocol, twin: DigitalTwin, random: np.random.Generator
) -> tuple[Floats, list[ParameterKnowledge], Ints]:
    """Fit the unknowns of a twin to readings at random heater settings.

    Layers whose fit stays in a local minimum are not fitted; in-loop tuning handles them.

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
    reading_counts = [len(layer.patterns) * (layer.plus.size + layer.minus.size) for layer in twin.layers]
    count = int(
        np.ceil(max(READINGS * prior.chosen.size / size for prior, size in zip(priors, reading_counts, strict=True)))
    )
    unknown, lost = np.zeros(twin.spread.size), np.arange(len(twin.layers))
    evidence = take_readings(laboratory, twin, settings(count))
    for number in range(TRIES):
        if number:
            evidence = evidence.extended_by(take_readings(laboratory, twin, settings(count)))
        for i in lost.tolist():
            unknown[priors[i].chosen] = 0.0
            unknown = fit_source_phases(
                twin, unknown, twin.layers[i], evidence.design_phase, evidence.responses(twin.layers, i)
            )
        unknown = fit_unknowns(twin, unknown, priors, evidence, np.full(len(priors), COARSE), lost)
        lost = np.flatnonzero(relative_misfits(twin, unknown, evidence) > LOST_MISFIT)
        if not lost.size:
            break
    # the extra readings only served to leave local minima; without them the remaining fits are faster
    evidence = evidence.first_settings(count)
    fitted_layers = np.setdiff1d(np.arange(len(priors)), lost)
    unknown = fit_unknowns(twin, unknown, priors, evidence, np.full(len(priors), FINE), fitted_layers)
    trust = np.maximum(relative_misfits(twin, unknown, evidence), FINE)
    return unknown, posteriors(twin, unknown, priors, evidence, trust, fitted_layers), fitted_layers


def _around(heaters: HeaterModel, voltage_v: Floats, far_rad: float, random: np.random.Generator) -> Floats:
    """Return (NEAR, H) voltages: a setting and random ones around it."""
    phase = heaters.phases(voltage_v)
    moved = [heaters.voltages(np.abs(phase + far_rad * random.standard_normal(phase.size))) for _ in range(NEAR - 1)]
    return np.array([voltage_v, *moved])
