"""Calibration of one chip on a bench: fit a digital twin, program by it, trim the electronics, tune in the loop.

Calibration uses only the nominal layout, the network and the readings of the bench, never the sampled parameters of the
devices. Its stages are: efficiency sweep of all heaters; programming by a digital twin that was fitted to readings of
every layer alone; trimming of thresholds, gains and scales to words. It ends as soon as the words have their margin,
and comparators their distance from the thresholds.
Otherwise the twin is fitted again around the setting, and predicts corrections and joint rounding to DAC codes. What
is left to do is in-loop tuning with measured derivatives: end to end, and before it layer by layer where words are
wrong or their margin stays small.

Layers are read with modulators that the bench drives, off, at half and at full amplitude; neurons drive nothing, so no
signal saturates. On five sampled chips of the bundled 8-bit network of comparators, with 16 bits, a calibration took
321 to 406 heater settings, 11,512 to 15,780 patterns of modulators and 5 to 8 transmissions of 4,096 words. With 10 ms
for a pattern or a word (10,000 symbols at 1 MBd; all detectors are read at the same time), these are 2 to 3 minutes for
patterns and 3 to 6 minutes for words, in addition to the time in which heaters settle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.simulate.programming.targets import layer_targets
from optinc_pdk.studies.calibration.dac_rounding import round_to_codes
from optinc_pdk.studies.calibration.end_to_end import (
    ElectronicsSettings,
    WordSample,
    electronics_of,
    sample_words,
    with_electronics,
)
from optinc_pdk.studies.calibration.heater_model import HeaterModel, design_heater_model, measure_efficiencies
from optinc_pdk.studies.calibration.in_loop_steps import (
    MeasuredSetting,
    measure_jacobians,
    measure_setting,
    with_adjustable_shifts,
)
from optinc_pdk.studies.calibration.in_loop_tuning import RESTARTS, tune_layers
from optinc_pdk.studies.calibration.measured_bias import bias_of_voltages, measured_bias
from optinc_pdk.studies.calibration.measurement import (
    BenchLayer,
    BenchProtocol,
    bench_layers,
)
from optinc_pdk.studies.calibration.trimming import trim_electronics
from optinc_pdk.studies.calibration.twin_programming import program_by_twin
from optinc_pdk.studies.calibration.word_tuning import EvaluatedSetting, TuningContext, tune_to_words
from optinc_pdk.studies.variation.nominal_chip import NominalChip

Progress = Callable[[str, float], None]

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
        bias: The same voltages by pad label, with the settings of neurons, receivers and servers.
        error: (layers,) measured rms matrix error of each layer over the 2-norm of its weight; for the last layer, with
            equalised rows.
    """

    voltage_v: Floats
    bias: Bias
    error: Floats


@dataclass(frozen=True, eq=False)
class CalibrationResult:
    """Result of the calibration of a chip.

    Attributes:
        fitted: Setting programmed by the digital twin. It has the nominal electronics if the measured chip would need
            gains or offsets beyond the card's range.
        rounded: Setting after in-loop tuning of the layers and rounding to DAC codes.
        tuned: Setting after end-to-end tuning.
        wrong_symbols: Numbers of wrong symbols in a sample of the lattice, with ``rounded`` and with ``tuned``.
        efficiency: (H,) efficiencies, real phase over design phase; NaN for heaters without effect.
        broken: Pad labels of heaters without effect.
        history: (rounds, layers) rms matrix errors during tuning, over all attempts.
        settings: Number of heater settings applied.
        readings: Number of single photodiode readings taken.
    """

    fitted: ChipSetting
    rounded: ChipSetting
    tuned: ChipSetting
    wrong_symbols: tuple[int, int]
    efficiency: Floats
    broken: tuple[str, ...]
    history: Floats
    settings: int
    readings: int


def calibrate(
    laboratory: BenchProtocol,
    chip: NominalChip,
    onn: AveragingNetwork,
    process: Process,
    progress: Progress | None = None,
) -> CalibrationResult:
    """Calibrate a chip on a bench so that it computes its network.

    Args:
        laboratory: The bench.
        chip: The nominal chip.
        onn: The network.
        process: Process of the cards.
        progress: Called after each step with the name of the stage (``fit``, ``tune``, ``round`` or ``words``) and the
            largest rms matrix error of a layer.

    Raises:
        RangeError: No heater has any effect, or the range of the drive or of the electronics is too small.
        InputError: The cards belong to a different process than the chip, or the chip is a level of a cascade.
        ValueError: Chip, bench and network do not belong together.
    """
    if process.name != chip.process.name:
        raise InputError(f"the chip is of process {chip.process.name!r}, not {process.name!r}; give its cards")
    if onn.task.remainder or onn.task.finer_input:
        raise InputError(
            "the chip is a level of a cascade, whose outputs or inputs have fractions of levels; calibration supports "
            "single chips only: give remainder = false and finer_input = false"
        )
    problem = ProgrammingProblem(
        chip.structure, chip.board, layer_targets(onn, chip.board), float(process.guide.wavelength_nm), process
    )
    heaters = design_heater_model(chip, laboratory)
    layers = bench_layers(problem, laboratory)
    report = progress if progress is not None else _silent
    efficiency = measure_efficiencies(laboratory, layers, heaters, heaters.quantise(chip.voltage_v))
    session = CalibrationSession(laboratory, chip, problem, heaters, layers, sample_words(onn.task, layers))
    candidates, history = list[CandidateSetting](), list[Floats]()
    for state, fitted_heaters in program_by_twin(laboratory, problem, layers, heaters, efficiency):
        report("fit", float(state.sizes.max()))
        history.append(state.sizes[np.newaxis])
        session = replace(session, heaters=fitted_heaters)
        candidates.append(session.trimmed(state))
        if candidates[-1].rank <= session.good_rank:
            break
    fitted = min(candidates, key=lambda one: one.rank)
    result = StartResult(fitted.setting, fitted.setting, (fitted.rank[0],) * 2, fitted.rank)
    if fitted.rank > session.good_rank:
        tuned, rounds = session.tuned(fitted, 2.0 * np.pi / efficiency, report)
        history.append(rounds)
        result = min(tuned, result, key=lambda one: one.rank)
    return CalibrationResult(
        fitted=fitted.setting,
        rounded=result.rounded,
        tuned=result.tuned,
        wrong_symbols=result.wrong_symbols,
        efficiency=efficiency,
        broken=tuple(chip.structure.channel[i] for i in np.flatnonzero(np.isnan(efficiency)).tolist()),
        history=np.concatenate(history),
        settings=laboratory.settings,
        readings=laboratory.readings,
    )


def _silent(what: str, error: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True, eq=False)
class CandidateSetting:
    """A heater setting with trimmed electronics.

    Attributes:
        setting: Heaters and electronics. They are the nominal electronics if the measured chip would need gains or
            offsets beyond the card's range.
        rank: Sort key; lower is better. See :attr:`word_tuning.EvaluatedSetting.rank`.
    """

    setting: ChipSetting
    rank: tuple[int, float]


@dataclass(frozen=True, eq=False)
class StartResult:
    """Result of one attempt at in-loop and end-to-end tuning.

    Attributes:
        rounded: Setting before end-to-end tuning.
        tuned: Setting after end-to-end tuning.
        wrong_symbols: Numbers of wrong symbols before and after end-to-end tuning.
        rank: Sort key; lower is better. See :attr:`word_tuning.EvaluatedSetting.rank`.
    """

    rounded: ChipSetting
    tuned: ChipSetting
    wrong_symbols: tuple[int, int]
    rank: tuple[int, float]


@dataclass(frozen=True, eq=False)
class CalibrationSession:
    """Bench, chip and models of one calibration.

    Attributes:
        laboratory: The bench.
        chip: The nominal chip.
        problem: Programming problem of the nominal chip.
        heaters: Design model of the heaters, with the fitted crosstalk once it is known.
        layers: The layers.
        words: Sample of inputs that settings are judged by.
    """

    laboratory: BenchProtocol
    chip: NominalChip
    problem: ProgrammingProblem
    heaters: HeaterModel
    layers: tuple[BenchLayer, ...]
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

    def trimmed(self, state: MeasuredSetting) -> CandidateSetting:
        """Complete a heater setting with electronics that match the measurement and are trimmed to the words."""
        context = self._context()
        try:
            setting = self.setting(state)
        except RangeError:
            designed = self.chip.bias
            bias = replace(self._bias(state.voltage_v), activations=designed.activations, outputs=designed.outputs)
            setting = ChipSetting(state.voltage_v, bias, state.sizes)
        best = _trimmed(context, context.evaluate(state.voltage_v, self._electronics(setting)))
        bias = with_electronics(self._bias(state.voltage_v), self.chip.board, self.layers, best.electronics)
        return CandidateSetting(ChipSetting(state.voltage_v, bias, state.sizes), best.rank)

    def _context(self) -> TuningContext:
        return TuningContext(self.laboratory, self.heaters, self.layers, self.problem.process, self.words)

    def _electronics(self, setting: ChipSetting) -> ElectronicsSettings:
        return electronics_of(setting.bias, self.chip.board, self.layers)

    def setting(self, state: MeasuredSetting) -> ChipSetting:
        """Measure the layers at a heater setting and complete it with electronics that match the measurement.

        Raises:
            RangeError: A neuron needs a gain or offset beyond the card's range.
        """
        bias = measured_bias(self.laboratory, self.chip, self.problem, self.heaters, self.layers, state.voltage_v)
        return ChipSetting(state.voltage_v, bias, state.sizes)

    def tuned(self, start: CandidateSetting, turn_rad: Floats, report: Progress) -> tuple[StartResult, Floats]:
        """Tune end to end, and before it layer by layer if words are wrong or their margin remains small.

        Layers of a setting that reads every word have small errors, mostly of the rounding to DAC codes, which tuning
        layer by layer does not reduce. Stuck layers are restarted only if words are wrong or the margin is small,
        because matrix errors that do not affect the words are harmless.

        Args:
            start: Setting to start from.
            turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
            report: Called after each step with the name of the stage and the largest rms matrix error of a layer.

        Returns:
            The best result, and the (rounds, layers) rms matrix errors.

        Raises:
            RangeError: A neuron needs a gain or offset beyond the card's range.
        """
        results, range_errors = list[StartResult](), list[RangeError]()
        history, voltage_v = [np.zeros((0, len(self.layers)))], start.setting.voltage_v
        active = np.arange(len(self.layers))
        if start.rank[0] == 0:
            results.append(self._tuned_end_to_end(start.setting))
            report("words", float(results[-1].tuned.error.max()))
            if results[-1].rank <= self.sufficient_rank:
                return results[-1], history[0]

        def measured(state: MeasuredSetting) -> list[Floats]:
            return measure_jacobians(self.laboratory, self.heaters, turn_rad, state, active)

        for restarts in (0, RESTARTS):
            tuning = tune_layers(self.laboratory, self.layers, self.heaters, turn_rad, voltage_v, report, restarts)
            history.append(tuning.history)
            rounded = round_to_codes(self.laboratory, self.heaters, tuning.state, measured)
            report("round", float(rounded.sizes.max()))
            voltage_v = rounded.voltage_v
            try:
                results.append(self._tuned_end_to_end(self.setting(rounded)))
            except RangeError as fault:
                range_errors.append(fault)
                continue
            report("words", float(results[-1].tuned.error.max()))
            if results[-1].rank <= self.sufficient_rank:
                break
        if not results:
            raise range_errors[-1]
        return min(results, key=lambda one: one.rank), np.concatenate(history)

    def _tuned_end_to_end(self, start: ChipSetting) -> StartResult:
        """Tune end to end from a setting."""
        context = self._context()
        first = _trimmed(context, context.evaluate(start.voltage_v, self._electronics(start)))
        best = tune_to_words(context, start.voltage_v, first.electronics)
        best = min(best, _trimmed(context, best), key=lambda one: one.rank)
        layers = with_adjustable_shifts(self.layers, self.heaters, best.voltage_v)
        state = measure_setting(self.laboratory, layers, self.heaters, best.voltage_v)
        bias = with_electronics(self._bias(best.voltage_v), self.chip.board, self.layers, best.electronics)
        wrong = first.passage.wrong_symbols, best.passage.wrong_symbols
        return StartResult(start, ChipSetting(best.voltage_v, bias, state.sizes), wrong, best.rank)

    def _bias(self, voltage_v: Floats) -> Bias:
        return bias_of_voltages(self.chip, self.heaters, voltage_v)


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
