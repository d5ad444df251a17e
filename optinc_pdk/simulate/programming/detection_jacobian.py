"""Detection coefficients of every layer of a solved chip, their errors and exact derivatives.

A neuron's detectors read D = |p|² - ρ |n|² with p = p_c + Σ_j p_j a_j: carrier and signals. Constants go into
the offset, and ρ cancels the terms quadratic in the signals (exactly without reflections, because both detectors
belong to one mixer). The rest is linear: D = const + Σ_j R_j a_j, R_j = 2 Re(p_c* p_j - ρ n_c* n_j). A receiver
reads |Σ_j y_j a_j|, so that a common phase of its y_j is free.

Where several blocks contribute to a neuron, each has a pair of detectors, and D is the sum over the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Floats, Ints
from optinc_pdk.circuit import Board
from optinc_pdk.simulate.programming.targets import LayerTarget, RowElectronics, layer_parts
from optinc_pdk.simulate.s_parameters._sparse_solver import FieldSolution


class DetectedLight(Protocol):
    """Fields at the detectors of the layers of a chip, and their derivatives by heater phases."""

    def at_detectors(self, detectors: tuple[str, ...], target: LayerTarget) -> tuple[Complexes, Complexes]:
        """Return the (D,) fields at some detectors from the carrier, and (D, J) fields from the layer's inputs."""
        ...

    def changes(self, detectors: tuple[str, ...], target: LayerTarget, heaters: Ints) -> Complexes:
        """Return the (h, D, 1 + J) derivatives of these fields by the phases of h heaters, per rad."""
        ...


@dataclass(frozen=True, eq=False)
class LayerFields:
    """Fields of one layer for light of unit amplitude from each of its 1 + J sources: the carrier, then its inputs.

    Rows of ``s``, (detectors, 1 + J), are given by label. If they are kept, ``near`` has the (h, 2, 1 + J) waves into
    both ports of the layer's heaters, and the (h,) numbers of these.
    """

    row: dict[str, int]
    s: Complexes
    near: tuple[Complexes, Ints] | None


@dataclass(frozen=True, eq=False)
class SourceFields:
    """Fields in a solved chip for light of unit amplitude from the sources of some layers.

    Each layer has its own sources: first the carrier, that is, all carrier fibres together, then its inputs. Fields are
    kept at its detectors and heaters only, so that memory does not grow with the product of ports and sources.

    Attributes:
        solution: The chip at one wavelength and one set of phases.
        carrier: Labels of the carrier's fibres.
        strength: Field of each modulator and of each of the carrier's fibres at amplitude 1, by label.
        layers: Fields by index of the layer.
    """

    solution: FieldSolution
    carrier: tuple[str, ...]
    strength: dict[str, complex]
    layers: dict[int, LayerFields]

    def at_detectors(self, detectors: tuple[str, ...], target: LayerTarget) -> tuple[Complexes, Complexes]:
        """Return the fields at D detectors: (D,) from the carrier, and (D, J) from the layer's inputs."""
        layer = self.layers[target.index]
        s = layer.s[[layer.row[label] for label in detectors]]
        return s[:, 0], s[:, 1:]

    def at_heaters(self, target: LayerTarget, heaters: Ints) -> Complexes:
        """Return the (h, 2, 1 + J) waves into both ports of some heaters for the sources of a layer."""
        kept = self.layers[target.index].near
        if kept is not None and np.array_equal(kept[1], heaters):
            return kept[0]
        return self._at_ports(target, self.solution.structure.heater_port[heaters].reshape(-1)).reshape(
            heaters.size, 2, -1
        )

    def changes(self, detectors: tuple[str, ...], target: LayerTarget, heaters: Ints) -> Complexes:
        """Return the (h, D, 1 + J) derivatives of the fields at D detectors by the phases of h heaters, per rad."""
        ports = self.solution.structure.heater_port[heaters].reshape(-1)
        out = self.solution.fields_at(ports, [(label,) for label in detectors]).reshape(heaters.size, 2, -1)
        return self.solution.derivative(out, self.at_heaters(target, heaters), heaters)

    def _at_ports(self, target: LayerTarget, ports: Ints) -> Complexes:
        return self.solution.fields_at(ports, [self.carrier, *target.inputs], self.strength)


@dataclass(frozen=True, eq=False)
class LinearResponse:
    """Detection coefficients of one layer: readings of its detectors to first order in its J input amplitudes.

    Attributes:
        coefficient: (rows, J) real coefficients R for neurons, complex fields y for receivers.
        balance: (rows,) balance ρ of the neurons, the weight of the negative detector; 0 for receivers.
        constant: (rows,) reading without input light; 0 for receivers.
    """

    coefficient: Complexes | Floats
    balance: Floats
    constant: Floats


def source_fields(
    solution: FieldSolution, board: Board, found: tuple[LayerTarget, ...], heaters: Mapping[int, Ints] | None = None
) -> SourceFields:
    """Solve for the fields of the sources of some layers; ``heaters`` are those at which fields are kept, by layer."""
    carrier = board.launched
    light = SourceFields(solution, tuple(carrier), solution.modulator_fields(carrier) | carrier, {})
    for target in found:
        light.layers[target.index] = _layer_fields(light, target, (heaters or {}).get(target.index))
        if heaters is None:
            # without derivatives, the factors are not needed again
            solution.systems.release()
    return light


def _layer_fields(light: SourceFields, target: LayerTarget, heaters: Ints | None) -> LayerFields:
    structure, detectors = light.solution.structure, (*target.plus, *target.minus)
    leaving = light.solution.leaving[structure.label_positions(detectors)]
    seen = np.unique(leaving.indices)
    near = np.zeros(0, dtype=np.int64) if heaters is None else structure.heater_port[heaters].reshape(-1)
    waves = light.solution.fields_at(np.concatenate([seen, near]), [light.carrier, *target.inputs], light.strength)
    kept = None if heaters is None else (waves[seen.size :].reshape(heaters.size, 2, -1), heaters)
    row = {label: i for i, label in enumerate(detectors)}
    return LayerFields(row, np.asarray(leaving[:, seen] @ waves[: seen.size]), kept)


def linear_response(light: DetectedLight, target: LayerTarget, balance: Floats | None = None) -> LinearResponse:
    """Compute the detection coefficients of a layer; see the module's description for the formulas.

    The (rows,) balance ρ of the neurons is by default the target's, or else the one that minimises the terms quadratic
    in the inputs.
    """
    p_c, p = light.at_detectors(target.plus, target)
    if target.last:
        return LinearResponse(p, np.zeros(p_c.size), np.zeros(p_c.size))
    n_c, n = light.at_detectors(target.minus, target)
    if balance is None and target.electronics is not None:
        balance = target.electronics.balance
    rho = _balance(p, n, target) if balance is None else balance
    part = rho[target.owner]
    mixed = p_c.conj()[:, np.newaxis] * p - (part * n_c.conj())[:, np.newaxis] * n
    constant = np.abs(p_c) ** 2 - part * np.abs(n_c) ** 2
    return LinearResponse(target.by_row(2.0 * mixed.real), rho, target.by_row(constant))


def _balance(p: Complexes, n: Complexes, target: LayerTarget) -> Floats:
    """ρ that minimises |Re(p* p) - ρ Re(n* n)|, Frobenius, of each row's quadratic terms."""
    shared = np.abs(np.einsum("kj,kj->k", p, n.conj())) ** 2 + np.abs(np.einsum("kj,kj->k", p, n)) ** 2
    square = np.einsum("kj,kj->k", n, n.conj()).real ** 2 + np.abs(np.einsum("kj,kj->k", n, n)) ** 2
    balance: Floats = target.by_row(shared) / target.by_row(square)
    return balance


def row_scales(coefficient: Complexes | Floats, target: LayerTarget) -> Complexes | Floats:
    """Return the (rows,) factors c in coefficient ≈ c · weight: the target's, or else fitted by least squares.

    They are complex for receivers; a row whose weights are all 0 gets the mean magnitude of the others.
    """
    if target.electronics is not None:
        return target.electronics.scale
    weight = _rows(target)
    power = (weight**2).sum(axis=1)
    products = (coefficient * weight).sum(axis=1)
    empty = power == 0.0
    scales: Complexes | Floats = products / np.where(empty, 1.0, power)
    scales[empty] = np.abs(scales[~empty]).mean()
    return scales


def _scale_slopes(slope: Floats, scales: Floats, target: LayerTarget) -> Floats:
    """(heaters, rows) derivatives of the real factors of :func:`row_scales`, from (heaters, rows, J) derivatives."""
    if target.electronics is not None:
        return np.zeros(slope.shape[:2])
    power = (target.weight**2).sum(axis=1)
    empty = power == 0.0
    along: Floats = np.einsum("hkj,kj->hk", slope, target.weight) / np.where(empty, 1.0, power)
    along[:, empty] = (along[:, ~empty] * np.sign(scales[~empty])).mean(axis=1, keepdims=True)
    return along


def residual(coefficient: Complexes | Floats, target: LayerTarget) -> Floats:
    """Compute the relative matrix error coefficient / c - weight, over the 2-norm of the target matrix.

    The factor c of each row is that of :func:`row_scales`. Errors of inputs that are never on are 0, and those of
    hidden units without weights, which are constants: their electronics have a gain of almost 0.

    Returns:
        (rows, J) for neurons; (rows, 2 J) for receivers, real parts first.
    """
    scales = row_scales(coefficient, target)
    error = coefficient / scales[:, np.newaxis] - _rows(target)
    error = np.where(_counted(target), error, 0.0) / np.linalg.norm(target.mesh_weight, 2)
    return _real(error)


def realised_matrix(light: DetectedLight, target: LayerTarget) -> tuple[Floats, Complexes | Floats]:
    """Return the (rows, J) target matrix of a layer and the one that the chip realises, up to a factor of each row.

    The latter is complex for receivers, and NaN where errors do not count, see :func:`residual`.
    """
    coefficient = linear_response(light, target).coefficient
    realised = coefficient / row_scales(coefficient, target)[:, np.newaxis]
    return _rows(target), np.where(_counted(target), realised, np.nan)


def jacobian(light: DetectedLight, target: LayerTarget, heaters: Ints) -> Floats:
    """Compute the (residual entries, h) derivatives of :func:`residual` by h heater phases, in 1/rad, at fixed balance.

    With R the coefficients and W the weights of a row, c = <R, W> / |W|² unless the target fixes it, and
    d(R/c) = (dR - R/c · <dR, W> / |W|²) / c.
    """
    seen = linear_response(light, target)
    scales = row_scales(seen.coefficient, target)[:, np.newaxis]
    slope = _slopes(light, target, seen.balance, heaters)
    if target.electronics is None:
        weight = _rows(target)
        power = (weight**2).sum(axis=1)
        along = np.einsum("hkj,kj->hk", slope, weight) / np.where(power == 0.0, 1.0, power)
        slope = slope - along[..., np.newaxis] * (seen.coefficient / scales)
    slope = slope / scales
    slope = np.where(_counted(target), slope, 0.0) / np.linalg.norm(target.mesh_weight, 2)
    return _real(slope).reshape(heaters.size, -1).T


def quadrature(light: DetectedLight, target: LayerTarget) -> Floats:
    """Compute the (pieces, J) part of a hidden layer's signals in quadrature with the local oscillators.

    Neurons do not detect it. As long as phases are exact, it only wastes light. With phase noise between the fibres it
    becomes detected noise. It is scaled as :func:`residual`.
    """
    p_c, p = light.at_detectors(target.plus, target)
    n_c, n = light.at_detectors(target.minus, target)
    part = _balance(p, n, target)[target.owner, np.newaxis]
    mixed = p_c.conj()[:, np.newaxis] * p - part * n_c.conj()[:, np.newaxis] * n
    return _quadrature(light, target, mixed)


def quadrature_jacobian(light: DetectedLight, target: LayerTarget, heaters: Ints) -> Floats:
    """Compute the (pieces · J, h) derivatives of :func:`quadrature` by h heater phases, in 1/rad, at fixed balance.

    The factors of the rows change as in :func:`jacobian`. Were they fixed, less light would seem to be less light in
    quadrature, and a fit would turn it down.
    """
    seen = linear_response(light, target)
    scales = np.real(row_scales(seen.coefficient, target))
    change = _changes(light, target, seen.balance, heaters)
    brighter = _scale_slopes(target.by_row(2.0 * change.real, axis=1), scales, target) / scales
    slope = _quadrature(light, target, change)
    slope -= brighter[:, target.owner, np.newaxis] * quadrature(light, target)
    return np.asarray(slope.reshape(heaters.size, -1).T)


def _quadrature(light: DetectedLight, target: LayerTarget, mixed: Complexes) -> Floats:
    """Imaginary parts of (..., pieces, J) mixed signals, over the rows' factors and the target's 2-norm."""
    scales = np.real(row_scales(linear_response(light, target).coefficient, target))[target.owner, np.newaxis]
    return np.asarray(
        np.where(target.illuminated, 2.0 * mixed.imag / scales, 0.0) / np.linalg.norm(target.mesh_weight, 2)
    )


def _slopes(light: DetectedLight, target: LayerTarget, balance: Floats, heaters: Ints) -> Complexes | Floats:
    """d coefficient / d phase, (heaters, rows, J)."""
    if target.last:
        return light.changes(target.plus, target, heaters)[..., 1:]
    slopes: Floats = target.by_row(2.0 * _changes(light, target, balance, heaters).real, axis=1)
    return slopes


def _changes(light: DetectedLight, target: LayerTarget, balance: Floats, heaters: Ints) -> Complexes:
    """d mixed / d phase, (heaters, pieces, J)."""

    def mixed(detectors: tuple[str, ...]) -> Complexes:
        s_c, s = light.at_detectors(detectors, target)
        d = light.changes(detectors, target, heaters)
        return np.asarray(d[..., :1].conj() * s + s_c.conj()[:, np.newaxis] * d[..., 1:])

    return mixed(target.plus) - balance[target.owner, np.newaxis] * mixed(target.minus)


def _counted(target: LayerTarget) -> Bools:
    """(rows, J) or (J,) mask of the coefficients whose errors count."""
    if target.last:
        return target.illuminated
    return np.asarray(target.weight.any(axis=1, keepdims=True) & target.illuminated)


def _rows(target: LayerTarget) -> Floats:
    """(rows, J) weights, once per server for receivers."""
    return np.tile(target.weight, (len(target.plus) // target.weight.shape[0], 1)) if target.last else target.weight


def _real(values: Complexes | Floats) -> Floats:
    if np.iscomplexobj(values):
        return np.concatenate([values.real, values.imag], axis=-1)
    return np.asarray(values, dtype=np.float64)


def with_shared_electronics(
    targets: Sequence[LayerTarget],
    parts: Sequence[LayerTarget],
    detect: Callable[[LayerTarget], LinearResponse],
    share: float = 1.0,
) -> tuple[LayerTarget, ...]:
    """Fix the electronics of rows that several parts share: scale and balance that a setting of the chip has.

    ``parts`` are those of the same layers, see :func:`~optinc_pdk.simulate.programming.targets.part_targets`.
    ``detect`` returns a hidden layer's detection coefficients, with free electronics. The scale of the parts' rows is
    ``share`` of that of the setting.
    """
    remaining: Iterator[LayerTarget] = iter(parts)
    found: list[LayerTarget] = []
    for target in targets:
        of_layer = list(islice(remaining, len(layer_parts(target))))
        if target.split and not target.last:
            seen = detect(target)
            scale = share * np.real(row_scales(seen.coefficient, target))
            rows = [np.array(blocks[0].rows) for blocks in layer_parts(target)]
            of_layer = [
                replace(part, electronics=RowElectronics(scale[places], seen.balance[places]))
                for part, places in zip(of_layer, rows, strict=True)
            ]
        found += of_layer
    return tuple(found)
