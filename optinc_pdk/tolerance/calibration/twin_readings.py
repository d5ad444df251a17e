"""Readings that a digital twin predicts at a heater setting, and their derivatives by its unknowns.

A detector reads |E|², where E is the field of carrier and sources together; d|E|² = 2 Re(E* dE). Devices are
reciprocal, so dE follows from the adjoint method: field sent back from the detector × change of the device × field that
arrives at the device. Changes of the carrier at on-chip modulators are not part of dE; the unknowns of the modulators'
edge waveguides have the same effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.programming.detection_jacobian import SourceFields
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem, solve_fields
from optinc_pdk.tolerance.calibration.digital_twin import NEPER, DigitalTwin
from optinc_pdk.tolerance.calibration.measurement import BenchLayer

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]

ANGLE_STEP, LOSS_STEP_DB = 1e-4, 1e-3
"""Steps of the central differences of the couplers' S-parameters; their error is of second order in the step."""


@dataclass(frozen=True, eq=False)
class TwinEstimate:
    """A digital twin evaluated at given values of its unknowns.

    Attributes:
        twin: The twin.
        unknown: (N,) values of the unknowns.
        chip: Programming problem of the chip with these values.
        crosstalk: (H, H) thermal crosstalk: share of heater j's phase in the waveguide under heater i; 1 on the
            diagonal.
        by_angle: For each component of couplers, (I, p, p) derivatives of its S-parameters by the coupling angle, per
            rad.
        by_loss: For each component of couplers, (I, p, p) derivatives of its S-parameters by the loss, per dB.
    """

    twin: DigitalTwin
    unknown: Floats
    chip: ProgrammingProblem
    crosstalk: Floats
    by_angle: tuple[Complexes, ...]
    by_loss: tuple[Complexes, ...]

    def light(self, design_phase: Floats, layers: Ints | None = None) -> SourceFields:
        """Compute the light on the chip.

        Args:
            design_phase: (H,) design phases of the heaters.
            layers: Indices of the layers whose sources are included; all layers if None.
        """
        return solve_fields(self.chip, self.twin.total_phases(self.unknown, self.crosstalk, design_phase), layers)


def evaluate_twin(twin: DigitalTwin, unknown: Floats) -> TwinEstimate:
    """Compute the programming problem, crosstalk and derivatives of a twin at (N,) values of its unknowns."""
    process, carrier = twin.problem.process, twin.problem.wavelength_nm
    *_, angle, loss_db = twin.deviations(unknown)
    by_angle, by_loss = [], []
    for each, chosen_by_type in twin.coupler_slices():
        now, loss = angle[chosen_by_type], loss_db[chosen_by_type]
        up, down = (each.s(process, carrier, now + step, loss) for step in (ANGLE_STEP, -ANGLE_STEP))
        more, less = (each.s(process, carrier, now, loss + step) for step in (LOSS_STEP_DB, -LOSS_STEP_DB))
        by_angle.append((up - down) / (2.0 * ANGLE_STEP))
        by_loss.append((more - less) / (2.0 * LOSS_STEP_DB))
    return TwinEstimate(
        twin, unknown, twin.problem_at(unknown), twin.crosstalk_matrix(unknown), tuple(by_angle), tuple(by_loss)
    )


def detector_fields(light: SourceFields, layer: BenchLayer) -> Complexes:
    """Return the (D, 1 + J) fields at a layer's detectors, positive detectors first.

    Column 0 is the field of the carrier, the others are the fields of the layer's sources at amplitude 1.
    """
    carrier, inputs = light.at_detectors(_detectors(layer), layer.target)
    return np.column_stack([carrier, inputs])


def predicted_readings(light: SourceFields, layer: BenchLayer) -> Floats:
    """Return the readings that the twin predicts for the test patterns of a layer.

    Args:
        light: Fields of the evaluated twin.
        layer: Layer whose sources are driven with its test patterns.

    Returns:
        (P, D) readings of D detectors for P patterns, as the squared field amplitude.
    """
    return np.abs(_amplitudes(layer) @ detector_fields(light, layer).T) ** 2


def predicted_derivatives(
    estimate: TwinEstimate, design_phase: Floats, light: SourceFields, layer: BenchLayer, chosen: Ints
) -> tuple[Floats, Floats]:
    """Predict the readings of a layer's detectors and their derivatives by some of the unknowns.

    Args:
        estimate: The evaluated twin.
        design_phase: (H,) design phases of the heaters.
        light: Light on the chip at these phases.
        layer: The layer.
        chosen: Indices of the unknowns, ascending.

    Returns:
        (P D,) readings, and their (P D, chosen) derivatives per standard deviation of each unknown.
    """
    amplitude = _amplitudes(layer)
    field = amplitude @ detector_fields(light, layer).T
    change = (
        _field_derivatives(estimate, design_phase, light, layer, chosen)
        * estimate.twin.spread[chosen, np.newaxis, np.newaxis]
    )
    by_pattern = (change @ amplitude.T).transpose(2, 1, 0)
    slope = 2.0 * (field.conj()[:, :, np.newaxis] * by_pattern).real
    return (np.abs(field) ** 2).reshape(-1), slope.reshape(field.size, -1)


def _field_derivatives(
    estimate: TwinEstimate, design_phase: Floats, light: SourceFields, layer: BenchLayer, chosen: Ints
) -> Complexes:
    """Return (chosen, D, 1 + J) derivatives of the fields by unknowns in rad, dB and ratios."""
    part_starts = estimate.twin.part_starts
    parts = np.split(chosen, np.searchsorted(chosen, part_starts[1:]))
    chosen_by_type = [part - first for part, first in zip(parts, part_starts.tolist(), strict=True)]
    back = light.solution.fields(_detectors(layer))
    into = light.waves(layer.target)
    by_heaters = _by_heaters(estimate, design_phase, light, (back, into), chosen_by_type[:3])
    return np.concatenate([*by_heaters, *_by_devices(estimate, light, (back, into), chosen_by_type[3:])])


def _by_heaters(
    estimate: TwinEstimate,
    design_phase: Floats,
    light: SourceFields,
    waves: tuple[Complexes, Complexes],
    chosen_by_type: list[Ints],
) -> list[Complexes]:
    """Return derivatives by static phases, efficiencies and the layers' crosstalk, all of which act through phases."""
    (static, heater, share), twin, solution = chosen_by_type, estimate.twin, light.solution
    back, into = (solution.at_heaters(each)[static] for each in waves)
    by_phase = solution.derivative(back, into, static)
    self_phase = twin.efficiency * design_phase
    crosstalk = estimate.crosstalk[static]
    heated = twin.heaters.crosstalk[static] @ (self_phase * (1.0 + twin.deviations(estimate.unknown)[1]))
    in_layer = np.zeros((share.size, static.size), dtype=bool)
    for row, layer in enumerate(share.tolist()):
        in_layer[row] = np.isin(static, twin.layers[layer].heaters)
    return [
        by_phase,
        _combined((crosstalk[:, heater] * self_phase[heater]).T, by_phase),
        _combined(in_layer * heated, by_phase),
    ]


def _by_devices(
    estimate: TwinEstimate, light: SourceFields, waves: tuple[Complexes, Complexes], chosen_by_type: list[Ints]
) -> Iterator[Complexes]:
    """Yield derivatives by losses and phases of edge waveguides, then by angles and losses of couplers."""
    back, into = waves
    lossy_edges, phased_edges, angled_couplers, lossy_couplers = chosen_by_type
    for selected, factor in ((lossy_edges, -NEPER), (phased_edges, 1j)):
        near, far = estimate.twin.edge[selected].T
        # the field that leaves a waveguide at one end entered it at the other end
        derivative = back[near][:, :, np.newaxis] * into[far][:, np.newaxis]
        derivative += back[far][:, :, np.newaxis] * into[near][:, np.newaxis]
        yield derivative * (factor / light.solution.guides[near])[:, np.newaxis, np.newaxis]
    for indices, changes in ((angled_couplers, estimate.by_angle), (lossy_couplers, estimate.by_loss)):
        for (each, places), change in zip(estimate.twin.coupler_slices(), changes, strict=True):
            selected = indices[(indices >= places.start) & (indices < places.stop)] - places.start
            ports = each.group.port[selected]
            yield back[ports].transpose(0, 2, 1) @ change[selected] @ into[ports]


def _combined(weight: Floats, change: Complexes) -> Complexes:
    """Combine (b, D, S) derivatives with (a, b) weights to (a, D, S)."""
    return np.asarray((weight @ change.reshape(len(change), -1)).reshape(len(weight), *change.shape[1:]))


def _detectors(layer: BenchLayer) -> tuple[str, ...]:
    return layer.target.plus + layer.target.minus


def _amplitudes(layer: BenchLayer) -> Floats:
    """Return (P, 1 + J) amplitudes of the carrier, which is always on, and of the sources."""
    patterns = layer.patterns
    return np.concatenate([np.ones((len(patterns), 1)), patterns], axis=1)
