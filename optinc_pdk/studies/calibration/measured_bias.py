"""Bias of a chip on a bench: codes of its voltages, and electronics that match what the layers were measured to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.circuit import Bias
from optinc_pdk.simulate.programming.detection_jacobian import LinearResponse
from optinc_pdk.simulate.programming.electronics import neuron_electronics, round_significant
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.studies.calibration.heater_model import HeaterModel
from optinc_pdk.studies.calibration.measurement import (
    BenchLayer,
    BenchProtocol,
    LayerResponse,
    detection_coefficients,
    measure_layers,
    receiver_gains,
    source_levels,
)
from optinc_pdk.studies.variation.nominal_chip import NominalChip


def bias_of_voltages(chip: NominalChip, heaters: HeaterModel, voltage_v: Floats) -> Bias:
    """Return a bias without electronics; codes are the nearest at the drive's full number of bits.

    Args:
        chip: The nominal chip.
        heaters: Design model of the heaters.
        voltage_v: (H,) heater voltages.
    """
    order = np.argsort(np.array(chip.structure.channel))
    bits = int(chip.process.drive.dac_bits)
    phase = heaters.phases(voltage_v)
    step = heaters.full_scale_v / (2**bits - 1)
    return Bias(
        process=chip.process.name,
        circuit=chip.name,
        dac_bits=bits,
        labels=tuple(chip.structure.channel[i] for i in order),
        phase_rad=phase[order],
        power_w=(phase * heaters.power_pi_w / np.pi)[order],
        voltage_v=voltage_v[order],
        code=np.rint(voltage_v / step).astype(np.int64)[order],
    )


def measured_bias(
    laboratory: BenchProtocol,
    chip: NominalChip,
    problem: ProgrammingProblem,
    heaters: HeaterModel,
    layers: Sequence[BenchLayer],
    voltage_v: Floats,
) -> Bias:
    """Measure the layers at heater voltages and return the bias with electronics that match the measurement.

    Args:
        laboratory: The bench.
        chip: The nominal chip.
        problem: Programming problem of the nominal chip.
        heaters: Design model of the heaters.
        layers: The layers.
        voltage_v: (H,) heater voltages.

    Raises:
        RangeError: A neuron needs a gain or offset beyond the card's range.
    """
    process, matrices = problem.process, problem.targets
    bits = int(process.activation.resolution_bits)
    (responses,) = measure_layers(laboratory, layers, voltage_v[np.newaxis])
    sent = _sent(layers[0], responses[0], bits)

    def detect(target: LayerTarget, balance: Floats | None) -> LinearResponse:
        measured = detection_coefficients(layers[target.index], responses[target.index], balance)
        return replace(measured, coefficient=measured.coefficient * sent) if target.index == 0 else measured

    gains = receiver_gains(layers[-1], responses[-1])
    scale = round_significant(1.0 / np.sqrt(np.maximum(gains, np.finfo(np.float64).tiny)), bits)
    return replace(
        bias_of_voltages(chip, heaters, voltage_v),
        activations=neuron_electronics(detect, matrices, chip.board, process),
        outputs=dict(zip(matrices[-1].plus, scale.tolist(), strict=True)),
        inputs={labels[0]: level for labels, level in zip(matrices[0].inputs, sent.tolist(), strict=True)},
    )


def _sent(layer: BenchLayer, response: LayerResponse, bits: int) -> Floats:
    """Return (J,) levels of the sources, rounded to their converters, which have as many bits as the neurons'."""
    if layer.target.last:
        return np.ones(layer.sources.size)
    return np.minimum(
        round_significant(source_levels(layer, detection_coefficients(layer, response).coefficient), bits), 1.0
    )
