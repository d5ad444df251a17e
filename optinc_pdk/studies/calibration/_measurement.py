"""Measurement of a chip's layers with modulators and photodiodes only.

A detector reads |p_c + Σ_j p_j a_j|² for carrier field p_c and sources with amplitudes a_j. Readings with one source at
zero, half and full amplitude give the constant |p_c|², the slope 2 Re(p_c* p_j) and the square |p_j|². Receivers have
no carrier; pairs of sources give Re(y_i* y_j), and also Im(y_i* y_j) if a heater shifts the phase of one of them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.simulate.programming.detection_jacobian import LinearResponse, SourceFields
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem, solve_fields
from optinc_pdk.simulate.programming.targets import LayerTarget

MIN_SOURCE_LEVEL = 0.5
"""Smallest fitted source strength, relative to the largest, that server levels compensate."""
PHASE_SHIFT_RAD = 0.5
"""Phase shift of sources for measuring imaginary parts (quadratures)."""
MAX_STRAY_LIGHT = 0.1
"""Largest stray light of all other sources at a heater, relative to one source, that counts as reflections."""


class HeaterDrive(Protocol):
    """Drive of the heaters of a bench.

    Attributes:
        full_scale_v: Highest voltage of the drive.
        step_v: DAC step of the drive in volts; 0 if voltages are not rounded.
        settings: Number of heater settings applied so far.
    """

    full_scale_v: float
    step_v: float
    settings: int


class BenchProtocol(HeaterDrive, Protocol):
    """Interface of a bench with a chip on its board: everything that calibration can observe.

    Attributes:
        channels: (H,) pad labels of the heaters, in the order of voltages.
        sources: (F,) groups of labels with a common modulation.
        detectors: (D,) labels of the photodiodes.
        averages: Number of symbols that every reading is the mean of; may be changed.
    """

    channels: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]
    detectors: tuple[str, ...]
    averages: int

    def read(self, voltage_v: ArrayLike, amplitude: ArrayLike) -> Floats:
        """Return (S, P, D) readings for (S, H) heater voltages and (P, F) source amplitudes."""
        ...


class MatrixBench(HeaterDrive, Protocol):
    """Interface of a bench with the chip of a matrix: everything that calibration can observe."""

    def read(self, voltage_v: ArrayLike) -> Complexes:
        """Return (S, m, n) fields at the outputs for (S, H) heater voltages and a field of 1 at one input at a time."""
        ...


@dataclass(frozen=True, eq=False)
class BenchLayer:
    """One layer of a chip in terms of the bench's channels, with J sources.

    All indices refer to the bench's ``channels``, ``sources`` and ``detectors``.

    Attributes:
        target: Target matrix of the layer.
        heaters: Indices of its heaters.
        oscillators: Indices of its local-oscillator heaters, one per pair of detectors; empty for the last layer.
        sources: (J,) indices of its sources.
        plus: Indices of its positive detectors; of the receivers for the last layer.
        minus: Indices of its negative detectors; empty for the last layer.
        shift_heaters: For the last layer, heaters that the light of a single source passes before any interference.
        shifted_sources: (shift_heaters,) positions of those sources in ``sources``.
    """

    target: LayerTarget
    heaters: Ints
    oscillators: Ints
    sources: Ints
    plus: Ints
    minus: Ints
    shift_heaters: Ints
    shifted_sources: Ints

    @property
    def patterns(self) -> Floats:
        """(P, J) source amplitudes for one measurement of the layer.

        The first pattern has all sources off, the next J have one source on each. They are followed by each source at
        half amplitude for neurons, or by each pair of sources for receivers.
        """
        count = self.sources.size
        alone = np.eye(count)
        if not self.target.last:
            return np.concatenate([np.zeros((1, count)), alone, 0.5 * alone])
        one, other = np.triu_indices(count, 1)
        return np.concatenate([np.zeros((1, count)), alone, alone[one] + alone[other]])


@dataclass(frozen=True, eq=False)
class LayerResponse:
    """Measured response of one layer at one heater setting.

    A reading is constant + slope · a + square · a² for one source at amplitude a. y_i denotes the field at a receiver
    per amplitude of source i.

    Attributes:
        constant: (D,) readings with all sources off; positive detectors first.
        slope: (D, J) linear coefficient of each source's amplitude.
        square: (D, J) quadratic coefficient of each source's amplitude.
        product: (receivers, J, J) real parts of y_i* y_j; empty for neurons.
        quadrature: (receivers, shifted, others) imaginary parts of y_i* y_j times sin(``PHASE_SHIFT_RAD``),
            for sources i that were shifted in phase and sources j that were not; empty if no source was shifted.
    """

    constant: Floats
    slope: Floats
    square: Floats
    product: Floats
    quadrature: Floats


def bench_layers(problem: ProgrammingProblem, laboratory: BenchProtocol) -> tuple[BenchLayer, ...]:
    """Express the layers of the nominal chip's programming problem in terms of a bench's channels.

    Raises:
        ValueError: The bench holds a different chip.
    """
    if laboratory.channels != problem.structure.channel:
        raise ValueError("the bench's chip has other heaters than the chip as designed; give the same chip")
    # at random phases, light of different sources mixes at every heater that more than one of them can reach
    light = solve_fields(problem, np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, len(laboratory.channels)))
    source = {labels: i for i, labels in enumerate(laboratory.sources)}
    detector = {label: i for i, label in enumerate(laboratory.detectors)}
    return tuple(
        BenchLayer(
            target=target,
            heaters=problem.heaters(target.index),
            oscillators=_oscillators(problem, target),
            sources=np.array([source[labels] for labels in target.inputs], dtype=np.int64),
            plus=np.array([detector[label] for label in target.plus], dtype=np.int64),
            minus=np.array([detector[label] for label in target.minus], dtype=np.int64),
            shift_heaters=shift_heaters,
            shifted_sources=shifted_sources,
        )
        for target in problem.targets
        for shift_heaters, shifted_sources in (_shift_heaters(problem, light, target),)
    )


def _oscillators(problem: ProgrammingProblem, target: LayerTarget) -> Ints:
    pieces = () if target.last else target.pieces
    return np.array([problem.channel[piece.label("lo")] for piece in pieces], dtype=np.int64)


def _shift_heaters(problem: ProgrammingProblem, light: SourceFields, target: LayerTarget) -> tuple[Ints, Ints]:
    """Return the heaters of the last layer that the light of one source passes alone, and the index of that source."""
    if not target.last:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    heaters = problem.heaters(target.index)
    fields = np.abs(light.at_heaters(target, heaters)[:, :, 1:]).max(axis=1)
    order = np.argsort(fields, axis=1)
    first = order[:, -1]
    strongest = fields[np.arange(first.size), first]
    others = fields.sum(axis=1) - strongest
    alone = (others < MAX_STRAY_LIGHT * strongest) & (strongest > MAX_STRAY_LIGHT * strongest.max())
    # one heater for each source is enough
    chosen = [int(np.flatnonzero(alone & (first == source))[0]) for source in np.unique(first[alone]).tolist()]
    return heaters[chosen], first[chosen]


def measure_layers(
    laboratory: BenchProtocol, layers: Sequence[BenchLayer], voltage_v: Floats
) -> list[list[LayerResponse]]:
    """Measure every layer at (S, H) heater voltages, with the sources of one layer at a time on.

    Returns:
        For each setting, the response of each layer.
    """
    patterns = [layer.patterns for layer in layers]
    starts = np.cumsum([0, *map(len, patterns)])
    amplitude = np.zeros((starts[-1], len(laboratory.sources)))
    for layer, pattern, start in zip(layers, patterns, starts.tolist(), strict=False):
        amplitude[start : start + len(pattern), layer.sources] = pattern
    read = laboratory.read(voltage_v, amplitude)
    borders = list(zip(layers, starts[:-1].tolist(), starts[1:].tolist(), strict=True))
    return [[_response(layer, readings[start:end]) for layer, start, end in borders] for readings in read]


def measure_layers_at_once(
    laboratory: BenchProtocol, layers: Sequence[BenchLayer], voltage_v: Floats
) -> list[list[LayerResponse]]:
    """Measure as :func:`measure_layers`, with the sources of all layers on at the same time.

    This needs fewer readings, but they include stray light between layers.
    """
    read = laboratory.read(voltage_v, simultaneous_patterns(laboratory, layers))
    return [[_response(layer, one[: len(layer.patterns)]) for layer in layers] for one in read]


def simultaneous_patterns(laboratory: BenchProtocol, layers: Sequence[BenchLayer]) -> Floats:
    """Return (P, F) source amplitudes that apply the patterns of all layers at the same time.

    P is the largest number of patterns of a layer. Sources of a layer with fewer patterns are off in the remaining
    ones.
    """
    patterns = [layer.patterns for layer in layers]
    amplitude = np.zeros((max(map(len, patterns)), len(laboratory.sources)))
    for layer, pattern in zip(layers, patterns, strict=True):
        amplitude[: len(pattern), layer.sources] = pattern
    return amplitude


def _response(layer: BenchLayer, read: Floats) -> LayerResponse:
    """Compute the response of a layer from (P, all detectors) readings of its patterns."""
    readings = read[:, np.concatenate([layer.plus, layer.minus])]
    count = layer.sources.size
    dark = readings[0]
    constant, alone, rest = dark, readings[1 : 1 + count].T - dark[:, np.newaxis], readings[1 + count :].T
    if not layer.target.last:
        # slope m and square q give m + q at full and m / 2 + q / 4 at half amplitude
        slope = 4.0 * (rest - constant[:, np.newaxis]) - alone
        return LayerResponse(constant, slope, alone - slope, np.zeros((0, count, count)), np.zeros((0, 0, 0)))
    one, other = np.triu_indices(count, 1)
    product = np.zeros((readings.shape[1], count, count))
    both = 0.5 * (rest - constant[:, np.newaxis] - alone[:, one] - alone[:, other])
    product[:, one, other] = product[:, other, one] = both
    product[:, range(count), range(count)] = alone
    return LayerResponse(constant, np.zeros_like(alone), alone, product, np.zeros((len(product), 0, 0)))


def detection_coefficients(layer: BenchLayer, response: LayerResponse, balance: Floats | None = None) -> LinearResponse:
    """Compute the detection matrix of a layer of neurons from its measured response.

    The detection matrix is the linear dependence of the neurons' balanced currents on the source amplitudes. The
    detectors' squares of the signal fields (the quadratic coefficients) cancel in a balanced pair, with (rows,) weights
    ρ of the negative detectors: by default the target's, or else those that minimise the quadratic coefficients.
    """
    target, pairs = layer.target, layer.plus.size
    plus, minus = response.square[:pairs], response.square[pairs:]
    if balance is None and target.electronics is not None:
        balance = target.electronics.balance
    if balance is None:
        balance = target.by_row((plus * minus).sum(axis=1)) / target.by_row((minus**2).sum(axis=1))
    balance_by_pair = np.asarray(balance)[target.owner]
    slope = response.slope[:pairs] - balance_by_pair[:, np.newaxis] * response.slope[pairs:]
    constant = response.constant[:pairs] - balance_by_pair * response.constant[pairs:]
    return LinearResponse(target.by_row(slope), np.asarray(balance), target.by_row(constant))


def with_quadrature(
    layer: BenchLayer, response: LayerResponse, ahead: LayerResponse, behind: LayerResponse | None = None
) -> LayerResponse:
    """Add the imaginary parts of y_i* y_j to a response of receivers, from measurements with phase-shifted sources.

    Re(y_i* y_j) depends on small imaginary parts of nominally real fields to second order only, Im(y_i* y_j) to first.
    The sources are shifted by ``PHASE_SHIFT_RAD`` in ``ahead``, and by its negative in ``behind``, which cancels the
    real parts exactly.
    """
    others = np.setdiff1d(np.arange(layer.sources.size), layer.shifted_sources)
    entries = np.ix_(np.arange(len(response.product)), layer.shifted_sources, others)
    if behind is None:
        return replace(
            response, quadrature=ahead.product[entries] - np.cos(PHASE_SHIFT_RAD) * response.product[entries]
        )
    return replace(response, quadrature=0.5 * (ahead.product[entries] - behind.product[entries]))


def matrix_errors(layer: BenchLayer, response: LayerResponse) -> Floats:
    """Compute the (entries,) errors of a layer's measured matrix relative to its target, over the 2-norm of the weight.

    Unless the target fixes their electronics, rows are scaled to the norm of the target's rows, and full-scale
    amplitudes of the servers are adjusted, because both are free parameters of the electronics. Near the target,
    scaling to the norm equals scaling by the best factor; far from the target it stays finite. Receivers measure
    products of fields; an error of a product is twice the row's norm times the error of the field.
    """
    target = layer.target
    norm = float(np.linalg.norm(target.mesh_weight, 2))
    if not target.last:
        matrix = detection_coefficients(layer, response).coefficient
        rows = np.where(target.illuminated, matrix * source_levels(layer, matrix), 0.0)
        return np.asarray((_scaled(rows, target) - target.weight).reshape(-1) / norm)
    weight = _receiver_weights(layer, target.weight)
    one, other = np.triu_indices(layer.sources.size)
    pair_weight = np.where(one == other, 1.0, np.sqrt(2.0))
    target_products = pair_weight * weight[:, one] * weight[:, other]
    products = np.where(
        target.illuminated[one] & target.illuminated[other], pair_weight * response.product[:, one, other], 0.0
    )
    product_norm = np.sqrt(2.0 * (weight**2).sum(axis=1, keepdims=True))
    product_norm = np.where(product_norm > 0.0, product_norm, 1.0)
    real = (_at_norm(products, target_products) - target_products) / product_norm
    measured_norm = np.linalg.norm(products, axis=1, keepdims=True)
    factor = np.linalg.norm(target_products, axis=1, keepdims=True) / np.where(measured_norm > 0.0, measured_norm, 1.0)
    imaginary = (
        np.sqrt(2.0) * response.quadrature.reshape(len(weight), -1) * factor / (np.sin(PHASE_SHIFT_RAD) * product_norm)
    )
    return np.asarray(np.concatenate([real, imaginary], axis=1).reshape(-1) / norm)


def _scaled(matrix: Floats, target: LayerTarget) -> Floats:
    """Divide rows by the target's factors, or else scale them to the norm of the target's rows."""
    if target.electronics is None:
        return _at_norm(matrix, target.weight)
    return np.asarray(matrix / target.electronics.scale[:, np.newaxis])


def _at_norm(matrix: Complexes | Floats, target: Floats) -> Floats:
    """Scale rows to the norm of the target rows; rows with a zero target get the mean factor of the others."""
    found_norm, target_norm = np.linalg.norm(matrix, axis=1), np.linalg.norm(target, axis=1)
    factor = np.divide(target_norm, found_norm, out=np.zeros_like(target_norm), where=found_norm > 0.0)
    factor[target_norm == 0.0] = factor[target_norm > 0.0].mean()
    return np.asarray(matrix.real * factor[:, np.newaxis])


def receiver_gains(layer: BenchLayer, response: LayerResponse) -> Floats:
    """Return the (receivers,) optical power per squared target level of each receiver, by least squares."""
    weight = _receiver_weights(layer, layer.target.unit_weight)
    gain: Floats = np.einsum("ri,rij,rj->r", weight, response.product, weight) / (weight**2).sum(axis=1) ** 2
    return gain


def _receiver_weights(layer: BenchLayer, weight: Floats) -> Floats:
    """Return (receivers, J) weights of the sources: those of the outputs, repeated for every server."""
    return np.tile(weight, (layer.plus.size // weight.shape[0], 1))


def rms_matrix_error(layer: BenchLayer, deviation: Floats) -> float:
    """Return the rms matrix error of a layer over the 2-norm of its weight, from its :func:`matrix_errors`."""
    entries = layer.target.weight.size * (layer.plus.size // len(layer.target.weight) if layer.target.last else 1)
    return float(np.sqrt(np.sum(deviation**2) / entries))


def source_levels(layer: BenchLayer, matrix: Complexes | Floats) -> Floats:
    """Compute (J,) full-scale amplitudes of the sources, at most 1, that equalise the servers at the neurons.

    Combiners and gratings transmit the servers' light unequally, which no heater can compensate. All servers are
    therefore attenuated to the weakest one, by the (rows, J) detection matrix for sources at amplitude 1. Hidden
    neurons are equalised by their gains instead, so their amplitudes are 1.
    """
    weight = layer.target.weight
    if layer.target.index > 0 or not layer.target.whole:
        return np.ones(weight.shape[1])
    power = (weight**2).sum(axis=1)
    scale = (matrix * weight).real.sum(axis=1) / np.where(power > 0.0, power, 1.0)
    scaled_target = scale[:, np.newaxis] * weight
    square = (scaled_target**2).sum(axis=0)
    strength = np.divide(
        (matrix * scaled_target).real.sum(axis=0), square, out=np.ones_like(square), where=square > 0.0
    )
    # while phases are far from the target, do not let a level compensate more than loss can explain
    strength = np.maximum(strength, MIN_SOURCE_LEVEL * max(float(strength.max()), 1.0))
    return np.asarray(strength.min() / strength)
