"""First-order sensitivities of the output levels to every heater and to the electronics, measured on the bench.

Every heater is perturbed up and down and all layers are read, so thermal crosstalk into other layers is included. The
effect of a neuron's detected signal on the outputs follows by backpropagation through the measured detection matrices
of the following layers and the known electronics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.studies.calibration.end_to_end import ElectronicsSettings, WordTransmission
from optinc_pdk.studies.calibration.heater_model import HeaterModel
from optinc_pdk.studies.calibration.in_loop_steps import measure_in_batches
from optinc_pdk.studies.calibration.measurement import (
    BenchLayer,
    BenchProtocol,
    LayerResponse,
    detection_coefficients,
)

PERTURBATION_RAD, MIN_PERTURBATION_STEPS = 0.03, 1.5
"""Perturbation of each heater in both directions: an angle, or a number of DAC steps where that is more."""
MIN_LEVEL = 0.5
"""The level error is (|y|² - target²) / (2 target); this is the least target in the denominator."""


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """First-order model of a chip with H heaters around one setting.

    Attributes:
        unit_rad: (H,) unit of each heater in rad of design phase: one DAC step, or the perturbation if the drive has no
            steps.
        matrix: For each hidden layer, (neurons, J) detection matrix.
        product: (receivers, J, J) real parts of y_i* y_j in the last layer, with y_i the field per amplitude of source
            i.
        change: For each layer, change per unit of each heater: (H, neurons, 1 + J) of constant and detection matrix, or
            (H, receivers, J, J) of the products.
    """

    unit_rad: Floats
    matrix: tuple[Floats, ...]
    product: Floats
    change: tuple[Floats, ...]


def measure_sensitivities(
    laboratory: BenchProtocol,
    layers: Sequence[BenchLayer],
    heaters: HeaterModel,
    voltage_v: Floats,
    electronics: ElectronicsSettings,
) -> Sensitivities:
    """Measure the sensitivities of all layers to every heater by finite differences.

    Args:
        laboratory: The bench.
        layers: The layers.
        heaters: Design model of the heaters.
        voltage_v: (H,) voltages of the setting.
        electronics: Electronics at the setting; their balances define the detection matrices.
    """
    rise = heaters.rise_ohm @ heaters.currents(voltage_v)
    phase = heaters.phases_at_rise(voltage_v, rise)
    step = heaters.phases_at_rise(voltage_v + heaters.step_v, rise) - phase
    nudge = np.maximum(PERTURBATION_RAD, MIN_PERTURBATION_STEPS * step)
    up, down = (
        heaters.quantise(heaters.voltages_at_rise(np.maximum(phase + turn, 0.0), rise)) for turn in (nudge, -nudge)
    )
    distance = heaters.phases_at_rise(up, rise) - heaters.phases_at_rise(down, rise)
    unit = step if heaters.step_v else nudge
    share = np.divide(unit, distance, out=np.zeros_like(unit), where=distance > 0.0)
    settings = np.tile(voltage_v, (1 + 2 * phase.size, 1))
    for moved, rows in ((up, settings[1 : 1 + phase.size]), (down, settings[1 + phase.size :])):
        np.fill_diagonal(rows, moved)
    responses = measure_in_batches(laboratory, layers, list(settings))
    change = []
    for i, layer in enumerate(layers):
        entries = np.stack([_entries(layer, row[i], electronics, i) for row in responses[1:]])
        raised, lowered = entries[: phase.size], entries[phase.size :]
        change.append((raised - lowered) * share.reshape(-1, *(1,) * (raised.ndim - 1)))
    entries_now = [
        _entries(layer, response, electronics, i)
        for i, (layer, response) in enumerate(zip(layers, responses[0], strict=True))
    ]
    return Sensitivities(unit, tuple(entries[:, 1:] for entries in entries_now[:-1]), entries_now[-1], tuple(change))


def _entries(layer: BenchLayer, response: LayerResponse, electronics: ElectronicsSettings, index: int) -> Floats:
    """Return (neurons, 1 + J) constant and detection matrix at the present balance, or (receivers, J, J) products."""
    if layer.target.last:
        return response.product
    detection = detection_coefficients(layer, response, electronics.balance[index][layer.target.first_unit])
    rows = np.concatenate([detection.constant[:, np.newaxis], detection.coefficient.real], axis=1)
    return np.asarray(layer.target.by_unit(rows))


def linearise(
    passage: WordTransmission, electronics: ElectronicsSettings, effects: Sensitivities
) -> tuple[Floats, Floats]:
    """Compute the output errors relative to the network, averaged over the servers, and their Jacobian.

    Args:
        passage: Transmission of N words with M outputs.
        electronics: Electronics during the transmission.
        effects: Sensitivities of the chip.

    Returns:
        (N M,) errors in levels and their (N M, H + E) Jacobian. Its columns are the derivatives by the H heaters in
        units of ``effects.unit_rad``, then, layer by layer, by the logarithms of the gains and by gain × offset, and
        finally by the logarithms of the output scales; E is the number of electronic parameters.
    """
    target, output = passage.words.network_level, passage.output
    count, servers = target.shape[1], output.shape[1]
    denominator = 2.0 * np.maximum(target, MIN_LEVEL)
    level = (output**2).mean(axis=1)
    # for each output, the receivers of all servers, which receive the same field
    receivers = np.arange(count)[:, np.newaxis] + count * np.arange(servers)
    square = electronics.scale[receivers] ** 2 / servers
    last = passage.source[-1]
    products = np.einsum("ms,msij->mij", square, effects.product[receivers])
    sensitivity = 2.0 * np.einsum("nj,mji->nmi", last, products) / denominator[:, :, np.newaxis]
    pairs = (last[:, :, np.newaxis] * last[:, np.newaxis, :]).reshape(len(last), -1)
    heater_jacobian = np.empty((*target.shape, len(effects.unit_rad)))
    for output_number in range(count):
        change = np.einsum("s,hsij->hij", square[output_number], effects.change[-1][:, receivers[output_number]])
        heater_jacobian[:, output_number] = (
            pairs @ change.reshape(len(change), -1).T / denominator[:, output_number, np.newaxis]
        )
    electronic_parts = [np.eye(count) * (2.0 * level / denominator)[:, :, np.newaxis]]
    for i in range(len(effects.matrix) - 1, -1, -1):
        next_source = passage.source[i + 1][:, np.newaxis]
        active = (next_source > 0.0) & (next_source < 1.0)
        electronic_parts[:0] = [sensitivity * next_source * active, sensitivity * active]
        differences = sensitivity * (active * electronics.gain[i])
        heater_jacobian += _heater_jacobian(differences, passage.source[i], effects.change[i])
        sensitivity = differences @ effects.matrix[i]
    jacobian = np.concatenate([heater_jacobian, *electronic_parts], axis=2)
    return ((level - target**2) / denominator).reshape(-1), jacobian.reshape(target.size, -1)


def _heater_jacobian(differences: Floats, source: Floats, change: Floats) -> Floats:
    """Return the (N, M, H) Jacobian by heaters of one layer.

    Args:
        differences: (N, M, rows) sensitivities of the outputs to the detected signals.
        source: (N, J) amplitudes of the layer's sources.
        change: (H, rows, 1 + J) changes of constant and matrix.
    """
    count, outputs, _ = differences.shape
    amplitudes = np.concatenate([np.ones((count, 1)), source], axis=1)
    weights = differences[:, :, :, np.newaxis] * amplitudes[:, np.newaxis, np.newaxis, :]
    flat = weights.reshape(count * outputs, -1) @ change.reshape(len(change), -1).T
    return np.asarray(flat.reshape(count, outputs, -1))
