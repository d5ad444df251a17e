"""Response of a layer that a digital twin predicts, at many heater settings, and its derivatives by the unknowns.

The response is what readings at several source amplitudes determine (:class:`_measurement.LayerResponse`): constants,
slopes and squares of the amplitudes at the detectors of neurons, products of two sources at receivers. Devices are
reciprocal, so the derivative of a field E follows from the adjoint method: dE is the field carried back from the
detector times the change of a device times the field that arrives there. Changes of the carrier at on-chip modulators
are not part of dE; the unknowns of the modulators' edge waveguides have the same effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.studies.calibration._digital_twin import NEPER, DigitalTwin
from optinc_pdk.studies.calibration._forward_paths import ForwardPaths, carry_back, carry_forward
from optinc_pdk.studies.calibration._measurement import PHASE_SHIFT_RAD, BenchLayer, LayerResponse

ALL_PAIRS = 16
"""Largest number of sources of which all pairs are fitted."""
UNCHOSEN = -1
"""Row of an unknown whose derivatives are not asked for: the last one."""
ANGLE_STEP = 1e-4
"""Step of the central differences of the couplers' S-parameters; their error is of second order in the step."""


@dataclass(frozen=True, eq=False)
class TwinEstimate:
    """A digital twin evaluated at (N,) values of its unknowns."""

    twin: DigitalTwin
    unknown: Floats

    @cached_property
    def deviations(self) -> list[Floats]:
        """Deviations from the nominal chip, see :meth:`_digital_twin.DigitalTwin.deviations`."""
        return self.twin.deviations(self.unknown)

    def crosstalk(self, index: int) -> Floats:
        """Return the (h, H) rows of the twin's crosstalk matrix for the heaters on a layer's paths."""
        return self.twin.crosstalk_matrix(self.unknown, self.twin.paths[index].heater)

    def phases(self, index: int, design_phase: Floats) -> Floats:
        """Return (S, h) total phases of the heaters on a layer's paths for (S, H) design phases of all heaters.

        Total phases include static phases and thermal crosstalk.
        """
        static, efficiency_error = self.deviations[:2]
        own = self.twin.efficiency * (1.0 + efficiency_error) * design_phase
        return np.asarray(static[self.twin.paths[index].heater] + own @ self.crosstalk(index).T)

    def light(self, index: int, phases: Floats) -> LayerLight:
        """Compute the light of one layer at (S, h) total phases of the heaters on its paths."""
        paths = self.twin.paths[index]
        transmission = paths.transmission.copy()
        segment, member = self.twin.edge_segments[index]
        loss_db, phase = (self.deviations[part][member] for part in (3, 4))
        np.multiply.at(transmission, segment, np.exp(1j * phase - NEPER * loss_db))
        turned = np.zeros((len(phases), transmission.size))
        np.add.at(turned.T, paths.heated, phases.T)
        junction = paths.nominal.copy()
        for junctions, s in self._couplers(index):
            junction[junctions] = s
        return LayerLight(paths, transmission[:, np.newaxis] * np.exp(1j * turned.T), junction)

    def _couplers(self, index: int, step_rad: float = 0.0) -> Iterator[tuple[Ints, Complexes]]:
        """Yield junctions of a layer's couplers and their transmission, for angles that are larger by a step."""
        *_, angle, loss_db = self.deviations
        for each, members, (junctions, device) in self.twin.coupler_junctions[index]:
            used, place = np.unique(device[:, 1], return_inverse=True)
            errors = angle[members][used] + step_rad, loss_db[members][used]
            s = each.s(self.twin.problem.process, self.twin.problem.wavelength_nm, *errors)
            yield junctions, s[place.reshape(-1), device[:, 2], device[:, 3]]

    def coupler_derivatives(self, index: int) -> Iterator[tuple[Ints, Ints, Complexes]]:
        """Yield junctions of a layer's couplers, their coupler, and their derivatives by its angle, per rad."""
        pairs = zip(self._couplers(index, ANGLE_STEP), self._couplers(index, -ANGLE_STEP), strict=True)
        for (_, members, (_, device)), ((junctions, up), (_, down)) in zip(
            self.twin.coupler_junctions[index], pairs, strict=True
        ):
            yield junctions, members.start + device[:, 1], (up - down) / (2.0 * ANGLE_STEP)


@dataclass(frozen=True, eq=False)
class LayerLight:
    """Light of one layer at S settings.

    Attributes:
        paths: Paths of the layer, with D detectors and 1 + J sources.
        transmission: (W, S) field transmission of the segments.
        junction: (E + 1,) field transmission of the junctions.
    """

    paths: ForwardPaths
    transmission: Complexes
    junction: Complexes

    @cached_property
    def field(self) -> Complexes:
        """(W, S, 1 + J) fields at the ends of the segments."""
        return carry_forward(self.paths, self.transmission, self.junction)

    @cached_property
    def back(self) -> Complexes:
        """(W, S, D) derivatives of the fields at the detectors by the fields at the ends of the segments."""
        return carry_back(self.paths, self.transmission, self.junction)

    @cached_property
    def detected(self) -> Complexes:
        """(S, D, 1 + J) fields at the detectors, positive detectors first."""
        segments, settings, sources = self.field.shape
        flat = self.paths.detected @ self.field.reshape(segments, -1)
        return flat.reshape(-1, settings, sources).swapaxes(0, 1)

    def by_segment(self, segments: Ints) -> Complexes:
        """Return the (n, S, D, 1 + J) derivatives of the detected fields by the logarithms of n transmissions."""
        return np.asarray(self.back[segments][..., np.newaxis] * self.field[segments][:, :, np.newaxis])

    def by_junction(self, junctions: Ints) -> Complexes:
        """Return the (n, S, D, 1 + J) derivatives of the detected fields by n transmissions of junctions."""
        head, tail = self.paths.head[junctions], self.paths.tail[junctions]
        back = self.transmission[head][..., np.newaxis] * self.back[head]
        return np.asarray(back[..., np.newaxis] * self.field[tail][:, :, np.newaxis])


@dataclass(frozen=True, eq=False)
class TwinLight:
    """Light of several layers of a twin, by their index, at one setting, for a fit of phases.

    It implements :class:`optinc_pdk.simulate.programming.detection_jacobian.DetectedLight`.
    """

    layers: dict[int, LayerLight]

    def at_detectors(self, detectors: tuple[str, ...], target: LayerTarget) -> tuple[Complexes, Complexes]:
        """Return the (D,) fields at some detectors from the carrier, and (D, J) fields from the layer's inputs."""
        field = self.layers[target.index].detected[0, _places(detectors, target)]
        return field[:, 0], field[:, 1:]

    def changes(self, detectors: tuple[str, ...], target: LayerTarget, heaters: Ints) -> Complexes:
        """Return the (h, D, 1 + J) derivatives of these fields by the phases of h heaters, per rad."""
        light = self.layers[target.index]
        heated = np.isin(heaters, light.paths.heater)
        change = np.zeros((heaters.size, *light.detected.shape[1:]), dtype=np.complex128)
        segments = light.paths.heated[np.searchsorted(light.paths.heater, heaters[heated])]
        change[heated] = 1j * light.by_segment(segments)[:, 0]
        return change[:, _places(detectors, target)]


def _places(detectors: tuple[str, ...], target: LayerTarget) -> Ints:
    place = {label: i for i, label in enumerate((*target.plus, *target.minus))}
    return np.array([place[label] for label in detectors], dtype=np.int64)


def predicted_responses(light: LayerLight, layer: BenchLayer) -> list[LayerResponse]:
    """Return the responses of a layer that a twin predicts, one for each of S settings."""
    carrier, field = light.detected[:, :, 0], light.detected[:, :, 1:]
    count = field.shape[2]
    if not layer.target.last:
        slope, square = 2.0 * (carrier.conj()[:, :, np.newaxis] * field).real, np.abs(field) ** 2
        none = np.zeros((0, count, count)), np.zeros((0, 0, 0))
        return [LayerResponse(*one, *none) for one in zip(np.abs(carrier) ** 2, slope, square, strict=True)]
    product = field.conj()[:, :, :, np.newaxis] * field[:, :, np.newaxis]
    others = np.setdiff1d(np.arange(count), layer.shifted_sources)
    quadrature = np.sin(PHASE_SHIFT_RAD) * product.imag[:, :, layer.shifted_sources][..., others]
    dark = np.abs(carrier) ** 2, np.zeros(field.shape), np.abs(field) ** 2
    return [LayerResponse(*one) for one in zip(*dark, product.real, quadrature, strict=True)]


def fitted_pairs(sources: int) -> tuple[Ints, Ints]:
    """Return the pairs of sources, each with itself included, whose products at receivers a twin is fitted to.

    The J (J + 1) / 2 products at a receiver depend on 2 J - 1 real numbers. Above ``ALL_PAIRS`` sources, those of
    sources at distances 0, 1, 2, 4, ... are enough.
    """
    one, other = np.triu_indices(sources)
    distance = other - one
    kept = (sources <= ALL_PAIRS) | (distance & (distance - 1) == 0)
    return one[kept], other[kept]


def response_vectors(responses: Sequence[LayerResponse], layer: BenchLayer) -> Floats:
    """Return (S, R) numbers that contain S responses: constants, slopes and squares; or the products of receivers."""
    if layer.target.last:
        one, other = fitted_pairs(layer.sources.size)
        return np.stack([each.product[:, one, other].reshape(-1) for each in responses])
    return np.stack(
        [np.column_stack([each.constant, each.slope, each.square]).reshape(-1) for each in responses],
    )


def signal_part(vectors: Floats, layer: BenchLayer) -> Floats:
    """Return the part of (S, R) response vectors that shows a layer's matrix: slopes, or the products of receivers."""
    if layer.target.last:
        return vectors
    sources = layer.sources.size
    return vectors.reshape(len(vectors), -1, 1 + 2 * sources)[..., 1 : 1 + sources]


def predicted_vectors(light: LayerLight, layer: BenchLayer) -> Floats:
    """Return the (S, R) response vectors of a layer that a twin predicts, see :func:`response_vectors`."""
    carrier, field = light.detected[:, :, :1], light.detected[:, :, 1:]
    if layer.target.last:
        one, other = fitted_pairs(layer.sources.size)
        parts = (field[:, :, one].conj() * field[:, :, other]).real
    else:
        parts = np.concatenate([np.abs(carrier) ** 2, 2.0 * (carrier.conj() * field).real, np.abs(field) ** 2], axis=2)
    return np.asarray(parts.reshape(len(parts), -1))


def predicted_derivatives(
    estimate: TwinEstimate, design_phase: Floats, light: LayerLight, index: int, chosen: Ints
) -> Floats:
    """Predict the (n, S R) derivatives of a layer's response vectors, per standard deviation of each chosen unknown.

    The light is that at (S, H) design phases of the heaters; the (n,) indices of the unknowns ascend.
    """
    layer = estimate.twin.layers[index]
    change = _field_derivatives(estimate, design_phase, light, index, chosen)
    change *= estimate.twin.spread[chosen].reshape(-1, 1, 1, 1)
    carrier, field = light.detected[:, :, :1], light.detected[:, :, 1:]
    by_carrier, by_field = change[..., :1], change[..., 1:]
    if layer.target.last:
        one, other = fitted_pairs(layer.sources.size)
        parts = (by_field[..., one].conj() * field[..., other] + field[..., one].conj() * by_field[..., other]).real
    else:
        parts = 2.0 * np.concatenate(
            [
                (carrier.conj() * by_carrier).real,
                (by_carrier.conj() * field + carrier.conj() * by_field).real,
                (field.conj() * by_field).real,
            ],
            axis=3,
        )
    return np.asarray(parts.reshape(chosen.size, -1))


def _field_derivatives(
    estimate: TwinEstimate, design_phase: Floats, light: LayerLight, index: int, chosen: Ints
) -> Complexes:
    """Return (n, S, D, 1 + J) derivatives of the detected fields by unknowns in rad, dB and ratios."""
    twin, paths = estimate.twin, light.paths
    row = np.full(twin.spread.size, UNCHOSEN)
    row[chosen] = np.arange(chosen.size)
    # unknowns that are not chosen share a last row, which is dropped
    derivative = np.zeros((chosen.size + 1, *light.detected.shape), dtype=np.complex128)
    static, efficiency, share, edge_loss, edge_phase, angle, loss = twin.parts(row)
    by_phase = 1j * light.by_segment(paths.heated)
    derivative[static[paths.heater]] = by_phase
    # heater j turns the waveguides under heaters i by crosstalk[i, j] of its own phase
    own = twin.efficiency * design_phase
    turning = np.flatnonzero(efficiency != UNCHOSEN)
    turned = _combined(estimate.crosstalk(index)[:, turning].T, by_phase)
    derivative[efficiency[turning]] = turned * own.T[turning, :, np.newaxis, np.newaxis]
    received = (own * (1.0 + estimate.deviations[1])) @ twin.heaters.crosstalk[paths.heater].T
    for number in np.flatnonzero(share != UNCHOSEN).tolist():
        inside = np.isin(paths.heater, twin.layers[number].heaters)
        derivative[share[number]] = np.einsum("sh,hsdc->sdc", received[:, inside], by_phase[inside])
    segments, members = twin.edge_segments[index]
    by_edge = light.by_segment(segments)
    derivative[edge_loss[members]] = -NEPER * by_edge
    derivative[edge_phase[members]] = 1j * by_edge
    for junctions, coupler, change in estimate.coupler_derivatives(index):
        by_junction = light.by_junction(junctions)
        np.add.at(derivative, angle[coupler], change.reshape(-1, 1, 1, 1) * by_junction)
        np.add.at(derivative, loss[coupler], -NEPER * light.junction[junctions].reshape(-1, 1, 1, 1) * by_junction)
    return derivative[:-1]


def _combined(weight: Floats, change: Complexes) -> Complexes:
    """Combine (b, S, D, C) derivatives with (a, b) weights to (a, S, D, C)."""
    return np.asarray((weight @ change.reshape(len(change), -1)).reshape(len(weight), *change.shape[1:]))
