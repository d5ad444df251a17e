"""Calibration of one chip on a bench: fit a digital twin, program by it, trim the electronics, tune in the loop.

Calibration uses only the nominal layout, the network and the readings of the bench, never the sampled parameters of the
devices. Its stages are: efficiency sweep of all heaters; programming by a digital twin that was fitted to readings of
every layer alone; for a chip of words, trimming of thresholds, gains and scales to words. It ends as soon as the words
have their margin, and comparators their distance from the thresholds, or as the layers of a general network have small
errors. Otherwise the twin is fitted again around the setting, and predicts corrections and joint rounding to DAC codes.
What is left to do is in-loop tuning with measured derivatives: layer by layer where words are wrong, their margin stays
small or a layer keeps a large error; for words also end to end.

Layers are read with modulators that the bench drives, off, at half and at full amplitude; neurons drive nothing, so no
signal saturates. On five sampled chips of the bundled 8-bit network of comparators, with 16 bits, a calibration took
321 to 406 heater settings, 11,512 to 15,780 patterns of modulators and 5 to 8 transmissions of 4,096 words. With 10 ms
for a pattern or a word (10,000 symbols at 1 MBd; all detectors are read at the same time), these are 2 to 3 minutes for
patterns and 3 to 6 minutes for words, in addition to the time in which heaters settle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, GeneralNetwork, LayerFactor
from optinc_pdk.simulate.modulator_drive import modulator_of
from optinc_pdk.simulate.programming.detection_jacobian import LinearResponse, with_shared_electronics
from optinc_pdk.simulate.programming.electronics import neuron_electronics, output_offsets, round_significant
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.simulate.programming.targets import LayerTarget, block_targets, layer_targets, part_targets
from optinc_pdk.studies.calibration._heater_model import HeaterModel, design_heater_model, measure_efficiencies
from optinc_pdk.studies.calibration._layer_tuning import (
    RESTARTS,
    MeasuredSetting,
    measure_setting,
    round_to_codes,
    sufficient_errors,
    tune_layers,
    with_adjustable_shifts,
)
from optinc_pdk.studies.calibration._measurement import (
    BenchLayer,
    BenchProtocol,
    LayerResponse,
    bench_layers,
    detection_coefficients,
    measure_layers,
    receiver_gains,
    source_levels,
)
from optinc_pdk.studies.calibration._twin_programming import program_by_twin
from optinc_pdk.studies.calibration._word_transmission import (
    ElectronicsSettings,
    WordSample,
    electronics_of,
    sample_words,
    trim_electronics,
    with_electronics,
)
from optinc_pdk.studies.calibration._word_tuning import EvaluatedSetting, TuningContext, tune_to_words
from optinc_pdk.studies.variation.nominal_chip import NominalChip

GOOD_SHARE, GOOD_LEVELS = 0.9, 0.35
"""Calibration ends at this share of the network's margin, or at this margin in levels if that is less; the sample of
words does not contain every word."""
SUFFICIENT_SHARE = 0.6
"""Share of the network's margin at which in-loop tuning is not repeated with restarts."""
TRIMS = 3
"""Largest number of times that the electronics are trimmed to one heater setting."""


@dataclass(frozen=True, eq=False)
class ChipSetting:
    """A complete setting of a chip: heaters and electronics.

    Attributes:
        voltage_v: (H,) heater voltages in the order of the chip's heaters, rounded to the drive.
        bias: The same voltages by pad label, with the settings of neurons, receivers and servers or inputs.
        error: (layers or parts,) measured rms matrix error of each layer, or of each part of the layers of a general
            network, over the 2-norm of its weight; for the last layer of words, with equalised rows.
    """

    voltage_v: Floats
    bias: Bias
    error: Floats


@dataclass(frozen=True, eq=False)
class CalibrationResult:
    """Result of the calibration of a chip of words.

    Attributes:
        fitted: Setting programmed by the digital twin. It has the nominal electronics if the measured chip would need
            gains or offsets beyond the card's range.
        tuned: Setting after tuning in the loop and end to end.
        efficiency: (H,) efficiencies, real phase over design phase; NaN for heaters without effect.
        broken: Pad labels of heaters without effect.
    """

    fitted: ChipSetting
    tuned: ChipSetting
    efficiency: Floats
    broken: tuple[str, ...]


def calibrate(laboratory: BenchProtocol, chip: NominalChip, onn: AveragingNetwork) -> CalibrationResult:
    """Calibrate a chip on a bench so that it computes its network of words.

    Raises:
        RangeError: No heater has any effect, or the range of the drive or of the electronics is too small.
        InputError: The chip is a level of a cascade.
        ValueError: Chip, bench and network do not belong together.
    """
    if onn.task.remainder or onn.task.finer_input:
        raise InputError(
            "the chip is a level of a cascade, whose outputs or inputs have fractions of levels; calibration supports "
            "single chips only: give remainder = false and finer_input = false"
        )
    process = chip.process
    targets = layer_targets(onn, chip.board, swing=process.activation.analogue_swing)
    problem = programming_problem(chip, targets)
    heaters, layers = design_heater_model(chip, laboratory), bench_layers(problem, laboratory)
    efficiency = measure_efficiencies(laboratory, layers, heaters, heaters.quantise(chip.voltage_v))
    words = sample_words(onn.task, layers, modulator_of(process))
    session = _WordSession(laboratory, chip, problem, heaters, layers, words)
    candidates = list[_RankedSetting]()
    for state, fitted_heaters in program_by_twin(laboratory, problem, layers, heaters, efficiency):
        session = replace(session, heaters=fitted_heaters)
        candidates.append(session.trimmed(state))
        if candidates[-1].rank <= session.good_rank:
            break
    fitted = result = min(candidates, key=lambda one: one.rank)
    if fitted.rank > session.good_rank:
        result = min(session.tuned(fitted, 2.0 * np.pi / efficiency), fitted, key=lambda one: one.rank)
    broken = tuple(chip.structure.channel[i] for i in np.flatnonzero(np.isnan(efficiency)).tolist())
    return CalibrationResult(fitted.setting, result.setting, efficiency, broken)


def calibrate_network(
    laboratory: BenchProtocol, chip: NominalChip, network: GeneralNetwork, factors: Sequence[LayerFactor]
) -> tuple[ChipSetting, ChipSetting]:
    """Calibrate a chip on a bench so that its layers realise those of a general network, without words.

    Photodiodes read the powers in the output fibres. The electronics follow from the measured layers.

    Returns:
        The setting programmed by the digital twin, and that after tuning in the loop. The former has the nominal
        electronics if the measured chip would need gains or offsets beyond the card's range.

    Raises:
        RangeError: No heater has any effect, or the range of the drive or of the electronics is too small.
        ValueError: Chip, bench and network do not belong together.
    """
    session = _network_session(laboratory, chip, network, factors)
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
    tuned = session.setting(session.rounded(best.layers, best.voltage_v, 2.0 * np.pi / efficiency, RESTARTS))
    return fitted, fitted if _total(tuned.error) >= _total(fitted.error) else tuned


def retune_network(
    laboratory: BenchProtocol,
    chip: NominalChip,
    network: GeneralNetwork,
    factors: Sequence[LayerFactor],
    voltage_v: Floats,
) -> ChipSetting:
    """Tune a chip that has drifted in the loop, from the (H,) voltages in use, and set its electronics again.

    Raises:
        RangeError: No heater has any effect, or the range of the drive or of the electronics is too small.
        ValueError: Chip, bench and network do not belong together.
    """
    session = _network_session(laboratory, chip, network, factors)
    heaters, start = session.heaters, session.heaters.quantise(voltage_v)
    parts = session.parts_at(start)
    state = measure_setting(laboratory, with_adjustable_shifts(parts, heaters, start), heaters, start)
    if _sufficient(state):
        return session.setting(state)
    tuned = session.setting(session.rounded(parts, start, 2.0 * np.pi / session.efficiencies(start), 0))
    return session.setting(state) if _total(tuned.error) >= _total(state.sizes) else tuned


def _total(sizes: Floats) -> float:
    """Return the rms of the errors of all layers and parts."""
    return float(np.sqrt(np.mean(sizes**2)))


def _sufficient(state: MeasuredSetting) -> bool:
    """Return whether no layer or part of a layer has to be tuned in the loop."""
    return bool(np.all(state.sizes <= sufficient_errors(state.layers)))


def programming_problem(chip: NominalChip, targets: tuple[LayerTarget, ...]) -> ProgrammingProblem:
    """Return the programming problem of a nominal chip at the carrier of its process."""
    wavelength_nm = float(chip.process.guide.wavelength_nm)
    return ProgrammingProblem(chip.structure, chip.board, targets, wavelength_nm, chip.process)


@dataclass(frozen=True, eq=False)
class _Session:
    """Bench, chip and models of one calibration; ``heaters`` have the fitted crosstalk once it is known."""

    laboratory: BenchProtocol
    chip: NominalChip
    problem: ProgrammingProblem
    heaters: HeaterModel
    layers: tuple[BenchLayer, ...]

    def bias(self, voltage_v: Floats) -> Bias:
        """Return a bias without electronics; codes are the nearest at the drive's full number of bits."""
        chip, heaters = self.chip, self.heaters
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

    def measured_bias(self, voltage_v: Floats) -> Bias:
        """Measure the layers at (H,) voltages and return the bias with electronics that match the measurement.

        Raises:
            RangeError: A neuron needs a gain or offset beyond the card's range.
        """
        layers, matrices, process = self.layers, self.problem.targets, self.problem.process
        bits = int(process.activation.resolution_bits)
        (responses,) = measure_layers(self.laboratory, layers, voltage_v[np.newaxis])
        sent = _sent(layers[0], responses[0], bits)

        def detect(target: LayerTarget, balance: Floats | None) -> LinearResponse:
            measured = detection_coefficients(layers[target.index], responses[target.index], balance)
            return replace(measured, coefficient=measured.coefficient * sent) if target.index == 0 else measured

        gains = receiver_gains(layers[-1], responses[-1])
        scale = round_significant(1.0 / np.sqrt(np.maximum(gains, np.finfo(np.float64).tiny)), bits)
        return replace(
            self.bias(voltage_v),
            activations=neuron_electronics(detect, matrices, self.chip.board, process),
            outputs=dict(zip(matrices[-1].plus, scale.tolist(), strict=True)),
            inputs={labels[0]: level for labels, level in zip(matrices[0].inputs, sent.tolist(), strict=True)},
        )

    def rounded(
        self, layers: tuple[BenchLayer, ...], voltage_v: Floats, turn_rad: Floats, restarts: int
    ) -> MeasuredSetting:
        """Tune layers or their parts in the loop from (H,) voltages, and round their voltages jointly to DAC codes."""
        state = tune_layers(self.laboratory, layers, self.heaters, turn_rad, voltage_v, restarts)
        return round_to_codes(self.laboratory, self.heaters, turn_rad, state)


def _sent(layer: BenchLayer, response: LayerResponse, bits: int) -> Floats:
    """Return (J,) levels of the sources, rounded to their converters, which have as many bits as the neurons'."""
    if layer.target.last:
        return np.ones(layer.sources.size)
    levels = source_levels(layer, detection_coefficients(layer, response).coefficient)
    return np.minimum(round_significant(levels, bits), 1.0)


@dataclass(frozen=True, eq=False)
class _RankedSetting:
    """A setting and its rank, a sort key of which lower is better, see :attr:`word_tuning.EvaluatedSetting.rank`."""

    setting: ChipSetting
    rank: tuple[int, float]


@dataclass(frozen=True, eq=False)
class _WordSession(_Session):
    """Calibration of a chip of words; settings are judged by a sample of inputs."""

    words: WordSample

    @property
    def good_rank(self) -> tuple[int, float]:
        """Rank at which calibration ends."""
        return 0, -min(GOOD_SHARE * self._network_margin, GOOD_LEVELS)

    @property
    def sufficient_rank(self) -> tuple[int, float]:
        """Rank at which in-loop tuning is not repeated."""
        return 0, -SUFFICIENT_SHARE * self._network_margin

    @property
    def _network_margin(self) -> float:
        return float(0.5 - np.abs(self.words.network_level - self.words.ideal_level).max())

    @property
    def _context(self) -> TuningContext:
        return TuningContext(self.laboratory, self.heaters, self.layers, self.problem.process, self.words)

    def trimmed(self, state: MeasuredSetting) -> _RankedSetting:
        """Complete a heater setting with electronics that match the measurement and are trimmed to the words.

        They start at the nominal electronics if the measured chip would need gains or offsets beyond the card's range.
        """
        try:
            bias = self.measured_bias(state.voltage_v)
        except RangeError:
            designed = self.chip.bias
            bias = replace(self.bias(state.voltage_v), activations=designed.activations, outputs=designed.outputs)
        best = _trimmed(self._context, self._context.evaluate(state.voltage_v, self._electronics(bias)))
        return self._ranked(best, state)

    def _electronics(self, bias: Bias) -> ElectronicsSettings:
        return electronics_of(bias, self.chip.board, self.layers)

    def _ranked(self, best: EvaluatedSetting, state: MeasuredSetting) -> _RankedSetting:
        bias = with_electronics(self.bias(best.voltage_v), self.chip.board, self.layers, best.electronics)
        return _RankedSetting(ChipSetting(best.voltage_v, bias, state.sizes), best.rank)

    def tuned(self, start: _RankedSetting, turn_rad: Floats) -> _RankedSetting:
        """Tune end to end, and before it layer by layer if words are wrong or their margin remains small.

        Layers of a setting that reads every word have small errors, mostly of the rounding to DAC codes, which tuning
        layer by layer does not reduce. Stuck layers are restarted only if words are wrong or the margin is small,
        because matrix errors that do not affect the words are harmless.

        Raises:
            RangeError: A neuron needs a gain or offset beyond the card's range.
        """
        results, range_errors = list[_RankedSetting](), list[RangeError]()
        voltage_v = start.setting.voltage_v
        if start.rank[0] == 0:
            results.append(self._tuned_end_to_end(voltage_v, start.setting.bias))
            if results[-1].rank <= self.sufficient_rank:
                return results[-1]
        for restarts in (0, RESTARTS):
            voltage_v = self.rounded(self.layers, voltage_v, turn_rad, restarts).voltage_v
            try:
                results.append(self._tuned_end_to_end(voltage_v, self.measured_bias(voltage_v)))
            except RangeError as fault:
                range_errors.append(fault)
                continue
            if results[-1].rank <= self.sufficient_rank:
                break
        if not results:
            raise range_errors[-1]
        return min(results, key=lambda one: one.rank)

    def _tuned_end_to_end(self, voltage_v: Floats, bias: Bias) -> _RankedSetting:
        context = self._context
        first = _trimmed(context, context.evaluate(voltage_v, self._electronics(bias)))
        best = tune_to_words(context, voltage_v, first.electronics)
        best = min(best, _trimmed(context, best), key=lambda one: one.rank)
        layers = with_adjustable_shifts(self.layers, self.heaters, best.voltage_v)
        return self._ranked(best, measure_setting(self.laboratory, layers, self.heaters, best.voltage_v))


def _trimmed(context: TuningContext, start: EvaluatedSetting) -> EvaluatedSetting:
    """Trim the electronics until the words stop improving, and return the best setting by rank."""
    best = start
    for _ in range(TRIMS):
        electronics = trim_electronics(best.electronics, best.passage, context.process)
        trial = context.evaluate(best.voltage_v, electronics)
        if trial.rank >= best.rank:
            break
        best = trial
    return best


@dataclass(frozen=True, eq=False)
class _NetworkSession(_Session):
    """Calibration of the chip of a general network; its layers may be in parts, see :func:`part_targets`."""

    network: GeneralNetwork

    def bench_layers(self, targets: tuple[LayerTarget, ...]) -> tuple[BenchLayer, ...]:
        """Return other targets of the chip in terms of the bench's channels."""
        return bench_layers(replace(self.problem, targets=targets), self.laboratory)

    def parts_at(self, voltage_v: Floats) -> tuple[BenchLayer, ...]:
        """Return the parts of the layers with the electronics that rows need at (H,) voltages."""
        (responses,) = measure_layers(self.laboratory, self.layers, voltage_v[np.newaxis])

        def detect(target: LayerTarget) -> LinearResponse:
            return detection_coefficients(self.layers[target.index], responses[target.index])

        whole = self.problem.targets
        return self.bench_layers(with_shared_electronics(whole, part_targets(whole), detect))

    def efficiencies(self, voltage_v: Floats) -> Floats:
        """Measure the (H,) efficiencies of the heaters around (H,) voltages, one heater of every block at a time."""
        layers = self.bench_layers(block_targets(self.problem.targets))
        return measure_efficiencies(self.laboratory, layers, self.heaters, voltage_v)

    def setting(self, state: MeasuredSetting) -> ChipSetting:
        """Complete a heater setting with electronics that match the measurement."""
        bias = self.measured_bias(state.voltage_v)
        values = self.network.task.input_values().tolist()
        labels = [label for row in self.chip.board.inputs for label in row]
        # a source that is attenuated sends its largest value with less than full amplitude
        scales = {label: value / bias.inputs[label] for label, value in zip(labels, values, strict=True)}
        offsets = output_offsets(self.problem.targets[-1])
        bias = replace(bias, inputs={}, input_scales=scales, output_offsets=offsets, phases=self.chip.bias.phases)
        return ChipSetting(state.voltage_v, bias, state.sizes)

    def designed(self, state: MeasuredSetting) -> ChipSetting:
        """Complete a heater setting with the nominal electronics."""
        nominal = self.chip.bias
        bias = replace(
            self.bias(state.voltage_v),
            activations=nominal.activations,
            outputs=nominal.outputs,
            phases=nominal.phases,
            input_scales=nominal.input_scales,
            output_offsets=nominal.output_offsets,
        )
        return ChipSetting(state.voltage_v, bias, state.sizes)


def _network_session(
    laboratory: BenchProtocol, chip: NominalChip, network: GeneralNetwork, factors: Sequence[LayerFactor]
) -> _NetworkSession:
    """Prepare the models of a calibration."""
    problem = programming_problem(chip, layer_targets(network, chip.board, factors))
    layers, heaters = bench_layers(problem, laboratory), design_heater_model(chip, laboratory)
    return _NetworkSession(laboratory, chip, problem, heaters, layers, network)
