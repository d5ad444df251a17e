"""Programming by a digital twin: fit the twin to readings, program the chip by it, and correct what is measured.

The twin is fitted first at random settings, to find the chip's parameters, then around the operating point. There,
errors of a few mrad that no parameter of the twin describes, such as variations of pairwise crosstalk, act as static
phases.

Then the twin predicts corrections of the errors, and joint rounding to codes. A measured derivative takes one heater
setting for every heater of a layer; a predicted one takes none. Errors of hidden layers are measured after every step,
so errors of the twin do not remain. Errors of the last layer are those that the twin predicts: products of fields at a
receiver hardly depend on small phases of the fields, which matter where large fields cancel. Many settings have equally
small errors; predicted signals in quadrature count with a small weight, so that steps do not move light there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.simulate.programming.detection_jacobian import (
    LinearResponse,
    linear_response,
    residual,
    row_scales,
    with_shared_electronics,
)
from optinc_pdk.simulate.programming.initial_phases import aligned_initial_phases
from optinc_pdk.simulate.programming.phase_fit import (
    FIRST_DAMPING,
    MAX_ITERATIONS,
    Damping,
    ProgrammingProblem,
    damped_step,
    fit_layers,
    solve_fields,
)
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.studies.calibration._digital_twin import DigitalTwin, build_twin
from optinc_pdk.studies.calibration._heater_model import HeaterModel
from optinc_pdk.studies.calibration._layer_tuning import (
    MeasuredSetting,
    measure_setting,
    rounding_moves,
    stepped_voltages,
)
from optinc_pdk.studies.calibration._measurement import (
    BenchLayer,
    BenchProtocol,
    LayerResponse,
    detection_coefficients,
    matrix_errors,
)
from optinc_pdk.studies.calibration._twin_fit import (
    fit_twin,
    fit_unknowns,
    posteriors,
    relative_misfits,
    take_readings,
)
from optinc_pdk.studies.calibration._twin_readings import LayerLight, TwinEstimate, TwinLight, predicted_responses

CORRECTIONS, ROUNDINGS, STEP_GAIN = 4, 4, 0.7
"""Largest numbers of steps; they end when every layer keeps more than this share of its error."""
PART_CORRECTIONS, PART_IDLE, PART_DAMPING = 8, 3, 1e-2
"""For parts of layers: largest number of corrections, consecutive ones without such a gain after which they end, and
initial damping. Their twins are less exact: with the damping of layers, corrections of 26 parts of a sampled classifier
ended without a gain, and left a rms error of 0.0080 in place of 0.0050."""
DIFFERENCE_RAD = 1e-5
"""Change of a phase for derivatives of predicted errors."""
REFINEMENTS, REFINEMENT_GAIN = 3, 0.7
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

    def improved(self, state: MeasuredSetting, move: Callable[[Floats], Floats]) -> MeasuredSetting:
        """Move the heaters of all layers and return the setting of those layers whose errors decrease.

        ``move`` returns the (H,) voltages after the moves for a (H,) mask: 1 to move a heater and 0 to keep it.
        """
        before = _sizes(self.errors(state))
        mask = np.ones_like(state.voltage_v)
        trial = measure_setting(self.laboratory, state.layers, self.heaters, move(mask))
        worse = np.flatnonzero(_sizes(self.errors(trial)) >= before)
        if not worse.size:
            return trial
        if worse.size == len(state.layers):
            return state
        for i in worse.tolist():
            mask[state.layers[i].heaters] = 0.0
        return measure_setting(self.laboratory, state.layers, self.heaters, move(mask))

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
    """Correct the errors of a setting in damped least-squares steps that the twin predicts, until no layer improves.

    ``turn_rad`` is that of :mod:`_layer_tuning`.
    """
    whole = np.array([layer.target.whole for layer in state.layers])
    damping = Damping(np.where(whole, FIRST_DAMPING, PART_DAMPING), np.full(len(state.layers), 2.0))
    every, idle = np.arange(len(state.layers)), 0
    most, patience = (CORRECTIONS, 1) if whole.all() else (PART_CORRECTIONS, PART_IDLE)
    for _ in range(most):
        errors, phase = guide.errors(state), guide.heaters.phases(state.voltage_v)
        before = _sizes(errors)
        triples = zip(guide.jacobians(state), errors, damping.value.tolist(), strict=True)
        steps, predicted = np.zeros_like(phase), np.zeros(len(state.layers))
        for i, each in enumerate(triples):
            steps[state.layers[i].heaters], predicted[i] = damped_step(*each)

        def move(mask: Floats, steps: Floats = steps, state: MeasuredSetting = state, phase: Floats = phase) -> Floats:
            return stepped_voltages(guide.heaters, turn_rad, state, phase, mask * steps)

        state = guide.improved(state, move)
        after = _sizes(guide.errors(state))
        damping.update(every, before**2 - after**2, before**2 - predicted**2)
        idle = idle + 1 if np.all(after > STEP_GAIN * before) else 0
        if idle == patience:
            break
    return state


def round_by_twin(guide: TwinGuide, state: MeasuredSetting) -> MeasuredSetting:
    """Optimise the DAC codes of all heaters jointly, in whole steps that the twin predicts, until no layer improves."""
    heaters = guide.heaters
    if heaters.step_v == 0.0:
        return state
    for _ in range(ROUNDINGS):
        before = _sizes(guide.errors(state))
        moves = rounding_moves(heaters, state, guide.jacobians(state), guide.errors(state))

        def move(mask: Floats, moves: Floats = moves, state: MeasuredSetting = state) -> Floats:
            return heaters.quantise(state.voltage_v + mask * moves * heaters.step_v)

        state = guide.improved(state, move)
        if np.all(_sizes(guide.errors(state)) > STEP_GAIN * before):
            break
    return state


def _sizes(errors: list[Floats]) -> Floats:
    """Return the (layers,) rms errors."""
    return np.array([np.sqrt(np.mean(error**2)) for error in errors])


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
        layers: The layers, or their parts, see :func:`optinc_pdk.simulate.programming.targets.part_targets`.
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
    for number in range(REFINEMENTS):
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
        if np.all(state.sizes[fitted_layers] > REFINEMENT_GAIN * before[fitted_layers]):
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
    start, _ = aligned_initial_phases(chip)
    if len(twin.layers) == len(problem.targets):
        return twin, start
    light = solve_fields(chip, start)

    def detect(target: LayerTarget) -> LinearResponse:
        return linear_response(light, target)

    targets = with_shared_electronics(problem.targets, twin.problem.targets, detect, SCALE_RESERVE)
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
        phases, _ = fit_layers(chip, phases, np.array([i]), solve, lambda iteration, error: None, steps)
    return measure_setting(laboratory, twin.layers, twin.fitted_heaters(unknown), twin.voltages(unknown, phases))


def _around(heaters: HeaterModel, voltage_v: Floats, far_rad: float, random: np.random.Generator) -> Floats:
    """Return (NEAR, H) voltages: a setting and random ones around it."""
    phase = heaters.phases(voltage_v)
    moved = [heaters.voltages(np.abs(phase + far_rad * random.standard_normal(phase.size))) for _ in range(NEAR - 1)]
    return np.array([voltage_v, *moved])
