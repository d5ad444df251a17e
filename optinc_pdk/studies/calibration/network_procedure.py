"""Calibration of the chip of a general network on a bench, without words.

The stages are those of :mod:`optinc_pdk.studies.calibration.procedure` that do not depend on words: efficiency sweep,
programming by a digital twin, and, where a layer keeps a large error, tuning in the loop with joint rounding to DAC
codes. Photodiodes read the powers in the output fibres. The electronics follow from the measured layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import RangeError
from optinc_pdk.networks import GeneralNetwork, LayerFactor
from optinc_pdk.simulate.programming.block_targets import block_targets, part_targets, with_electronics
from optinc_pdk.simulate.programming.detection_jacobian import LinearResponse
from optinc_pdk.simulate.programming.electronics import output_offsets
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.simulate.programming.targets import LayerTarget, layer_targets
from optinc_pdk.studies.calibration.dac_rounding import round_to_codes
from optinc_pdk.studies.calibration.heater_model import HeaterModel, design_heater_model, measure_efficiencies
from optinc_pdk.studies.calibration.in_loop_steps import (
    MeasuredSetting,
    measure_jacobians,
    measure_setting,
    with_adjustable_shifts,
)
from optinc_pdk.studies.calibration.in_loop_tuning import RESTARTS, sufficient_errors, tune_layers
from optinc_pdk.studies.calibration.measured_bias import bias_of_voltages, measured_bias
from optinc_pdk.studies.calibration.measurement import (
    BenchLayer,
    BenchProtocol,
    bench_layers,
    detection_coefficients,
    measure_layers,
)
from optinc_pdk.studies.calibration.twin_programming import program_by_twin
from optinc_pdk.studies.variation.nominal_chip import NominalChip


@dataclass(frozen=True, eq=False)
class NetworkSetting:
    """A complete setting of the chip of a general network.

    Attributes:
        voltage_v: (H,) heater voltages in the order of the chip's heaters, rounded to the drive.
        bias: The same voltages by pad label, with the settings of neurons, receivers and inputs.
        error: (parts,) measured rms matrix error of each part of the layers over the 2-norm of its weight, see
            :func:`optinc_pdk.simulate.programming.block_targets.part_targets`.
    """

    voltage_v: Floats
    bias: Bias
    error: Floats


def calibrate_network(
    laboratory: BenchProtocol, chip: NominalChip, network: GeneralNetwork, factors: Sequence[LayerFactor]
) -> tuple[NetworkSetting, NetworkSetting]:
    """Calibrate a chip on a bench so that its layers realise those of a general network.

    Args:
        laboratory: The bench.
        chip: The nominal chip.
        network: The network.
        factors: Factorisation of its layers.

    Returns:
        The setting programmed by the digital twin, and that after tuning in the loop. The former has the nominal
        electronics if the measured chip would need gains or offsets beyond the card's range.

    Raises:
        RangeError: No heater has any effect, or the range of the drive or of the electronics is too small.
        ValueError: Chip, bench and network do not belong together.
    """
    session = _session(laboratory, chip, network, factors)
    heaters, parts = session.heaters, session.bench_layers(part_targets(session.problem.targets))
    efficiency = session.efficiencies(heaters.quantise(chip.voltage_v))
    found = list(program_by_twin(laboratory, session.problem, parts, heaters, efficiency))
    best, fitted_heaters = min(found, key=lambda one: _total(one[0].sizes))
    session = replace(session, heaters=fitted_heaters)
    try:
        fitted = session.setting(best)
    except RangeError:
        # tuning may still succeed, such as where a row has the opposite sign
        fitted = session.designed(best)
    else:
        if _sufficient(best):
            return fitted, fitted
    tuned = session.tuned(best.layers, best.voltage_v, 2.0 * np.pi / efficiency)
    return fitted, fitted if _total(tuned.error) >= _total(fitted.error) else tuned


def retune_network(
    laboratory: BenchProtocol,
    chip: NominalChip,
    network: GeneralNetwork,
    factors: Sequence[LayerFactor],
    voltage_v: Floats,
) -> NetworkSetting:
    """Tune a chip that has drifted in the loop, and set its electronics again.

    Args:
        laboratory: The bench.
        chip: The nominal chip.
        network: The network.
        factors: Factorisation of its layers.
        voltage_v: (H,) voltages of the setting in use, which are the start.

    Raises:
        RangeError: No heater has any effect, or the range of the drive or of the electronics is too small.
        ValueError: Chip, bench and network do not belong together.
    """
    session = _session(laboratory, chip, network, factors)
    heaters, start = session.heaters, session.heaters.quantise(voltage_v)
    parts = session.parts_at(start)
    state = measure_setting(laboratory, with_adjustable_shifts(parts, heaters, start), heaters, start)
    if _sufficient(state):
        return session.setting(state)
    tuned = session.tuned(parts, start, 2.0 * np.pi / session.efficiencies(start), restarts=0)
    return session.setting(state) if _total(tuned.error) >= _total(state.sizes) else tuned


def _total(sizes: Floats) -> float:
    """Return the rms of the errors of all layers and parts."""
    return float(np.sqrt(np.mean(sizes**2)))


def _sufficient(state: MeasuredSetting) -> bool:
    """Return whether no layer or part of a layer has to be tuned in the loop."""
    return bool(np.all(state.sizes <= sufficient_errors(state.layers)))


def _session(
    laboratory: BenchProtocol, chip: NominalChip, network: GeneralNetwork, factors: Sequence[LayerFactor]
) -> _Session:
    """Prepare the models of a calibration."""
    targets = layer_targets(network, chip.board, factors)
    wavelength = float(chip.process.guide.wavelength_nm)
    problem = ProgrammingProblem(chip.structure, chip.board, targets, wavelength, chip.process)
    layers = bench_layers(problem, laboratory)
    return _Session(laboratory, chip, network, problem, design_heater_model(chip, laboratory), layers)


@dataclass(frozen=True, eq=False)
class _Session:
    """Bench, chip and models of one calibration."""

    laboratory: BenchProtocol
    chip: NominalChip
    network: GeneralNetwork
    problem: ProgrammingProblem
    heaters: HeaterModel
    layers: tuple[BenchLayer, ...]

    def bench_layers(self, targets: tuple[LayerTarget, ...]) -> tuple[BenchLayer, ...]:
        """Return other targets of the chip in terms of the bench's channels."""
        return bench_layers(replace(self.problem, targets=targets), self.laboratory)

    def parts_at(self, voltage_v: Floats) -> tuple[BenchLayer, ...]:
        """Return the parts of the layers with the electronics that rows need at (H,) voltages."""
        (responses,) = measure_layers(self.laboratory, self.layers, voltage_v[np.newaxis])

        def detect(target: LayerTarget) -> LinearResponse:
            return detection_coefficients(self.layers[target.index], responses[target.index])

        whole = self.problem.targets
        return self.bench_layers(with_electronics(whole, part_targets(whole), detect))

    def efficiencies(self, voltage_v: Floats) -> Floats:
        """Measure the (H,) efficiencies of the heaters around (H,) voltages, one heater of every block at a time."""
        blocks = self.bench_layers(block_targets(self.problem.targets))
        return measure_efficiencies(self.laboratory, blocks, self.heaters, voltage_v)

    def setting(self, state: MeasuredSetting) -> NetworkSetting:
        """Complete a heater setting with electronics that match the measurement."""
        bias = measured_bias(self.laboratory, self.chip, self.problem, self.heaters, self.layers, state.voltage_v)
        values = self.network.task.input_values().tolist()
        labels = [label for row in self.chip.board.inputs for label in row]
        # a source that is attenuated sends its largest value with less than full amplitude
        scales = {label: value / bias.inputs[label] for label, value in zip(labels, values, strict=True)}
        offsets = output_offsets(self.problem.targets[-1])
        bias = replace(bias, inputs={}, input_scales=scales, output_offsets=offsets, phases=self.chip.bias.phases)
        return NetworkSetting(state.voltage_v, bias, state.sizes)

    def designed(self, state: MeasuredSetting) -> NetworkSetting:
        """Complete a heater setting with the nominal electronics."""
        nominal, bias = self.chip.bias, bias_of_voltages(self.chip, self.heaters, state.voltage_v)
        bias = replace(
            bias,
            activations=nominal.activations,
            outputs=nominal.outputs,
            phases=nominal.phases,
            input_scales=nominal.input_scales,
            output_offsets=nominal.output_offsets,
        )
        return NetworkSetting(state.voltage_v, bias, state.sizes)

    def tuned(
        self, layers: tuple[BenchLayer, ...], voltage_v: Floats, turn_rad: Floats, restarts: int = RESTARTS
    ) -> NetworkSetting:
        """Tune layers or their parts in the loop from (H,) voltages, and round their voltages jointly to DAC codes."""
        active = np.arange(len(layers))

        def jacobians(at: MeasuredSetting) -> list[Floats]:
            return measure_jacobians(self.laboratory, self.heaters, turn_rad, at, active)

        heaters = self.heaters
        tuning = tune_layers(self.laboratory, layers, heaters, turn_rad, voltage_v, None, restarts)
        return self.setting(round_to_codes(self.laboratory, self.heaters, tuning.state, jacobians))
