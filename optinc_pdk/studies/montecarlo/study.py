"""Monte-Carlo study of a chip that averages words: words that its sampled chips read, before and after calibration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import RangeError
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.signoff.function import FunctionInputs, check_board, function_inputs
from optinc_pdk.simulate import Scattering, UnsettledError
from optinc_pdk.simulate.transmission.noise import Noise, noise_choices, noise_of
from optinc_pdk.simulate.transmission.oscillator_limits import check_oscillator_power, relative_oscillator_power
from optinc_pdk.studies.calibration.procedure import calibrate
from optinc_pdk.studies.calibration.virtual_bench import VirtualBench
from optinc_pdk.studies.error_estimate import error_margins
from optinc_pdk.studies.highest_rates import best_noise
from optinc_pdk.studies.montecarlo.sample_noise import BENCH_AVERAGES, scaled_noise
from optinc_pdk.studies.montecarlo.sample_study import (
    AFTER,
    BEFORE,
    BETWEEN,
    DRIFTED,
    digest,
    sample_seed,
)
from optinc_pdk.studies.montecarlo.summary import WordSummary
from optinc_pdk.studies.montecarlo.word_statistics import (
    WordOutcome,
    estimated_error_rate,
    read_words,
    reads_every_word,
    unusable_outcome,
)
from optinc_pdk.studies.oscillator_power import with_oscillator_power
from optinc_pdk.studies.variation.imperfections import Imperfections
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.phase_lock import locked_bias
from optinc_pdk.studies.variation.sampled_response import sample_scattering
from optinc_pdk.studies.variation.sampling import ChipSample, aged_sample, draw_sample, nominal_sample


@dataclass(frozen=True, eq=False)
class YieldStudy:
    """Parameters of a yield analysis; sent once to workers in other processes.

    Attributes:
        chip: The nominal chip with board and bias.
        task: Task of the chip.
        imperfections: Imperfections of the samples.
        seed: Seed of all samples.
        target: Share of exact inputs, 0 … 1, that a sample must reach.
        noise: Noise while words are read, with the receiver of every sample; None for no noise.
        onn: Network to which samples are calibrated; None for no calibration.
        rates_bd: Further symbol rates at which words are read with noise, at the card's laser power.

    Raises:
        InputError: The board of the chip is for another task.
    """

    chip: NominalChip
    task: Averaging
    imperfections: Imperfections
    seed: int
    target: float
    noise: Noise | None = None
    onn: AveragingNetwork | None = None
    rates_bd: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Validate the task."""
        check_board(self.chip.board, self.task)

    @property
    def calibrated(self) -> bool:
        """Whether samples are calibrated."""
        return self.onn is not None

    @property
    def judged_stage(self) -> str:
        """Name of the stage that contributions and tolerances refer to: ``after`` if calibrated, else ``before``."""
        return AFTER if self.calibrated else BEFORE

    @property
    def outcome(self) -> type[WordOutcome]:
        """Class of the outcomes."""
        return WordOutcome

    @property
    def summary(self) -> WordSummary:
        """Statistics of the outcomes."""
        return WordSummary(self.target)

    def header(self) -> dict[str, Any]:
        """Return what the results depend on besides chip, process and imperfections, as JSON-compatible data."""
        return {
            "task": asdict(self.task),
            "target": self.target,
            "noise": None if self.noise is None else self.noise.to_json(),
            "calibrated_to": None if self.onn is None else digest(b"".join(_bytes_of(self.onn))),
            "rates_bd": list(self.rates_bd),
        }

    def outcomes(self, imperfections: Imperfections, sample: int) -> dict[str, WordOutcome]:
        """Sample a chip and evaluate it at each stage of its calibration, see :func:`stage_outcomes`."""
        return stage_outcomes(self, imperfections, sample)

    def uncalibrated_outcomes(
        self, s: Scattering | ValueError, imperfections: Imperfections, seed: int
    ) -> dict[str, WordOutcome]:
        """Evaluate a sample with the bias of the file, as :func:`stage_outcomes` without calibration."""
        return read_sample(self, s, self.chip.bias, noises_of(self, BEFORE, imperfections), seed)

    def reached(self, outcome: WordOutcome) -> bool:
        """Return whether a sample has its target."""
        return outcome.accuracy >= self.target

    def reached_uncalibrated(self, s: Scattering | ValueError, imperfections: Imperfections, seed: int) -> bool:
        """Return whether a sample with the bias of the file reaches its target; it may end at the first wrong word.

        Raises:
            ValueError: The sample has no S-parameters.
        """
        noise = scaled_noise(self.noise, imperfections)
        if self.target < 1.0:
            return self.reached(read_sample(self, s, self.chip.bias, {BEFORE: noise}, seed)[BEFORE])
        if isinstance(s, ValueError):
            raise s
        bias = locked_bias(s, self.chip.board, self.chip.locked_source, self.chip.bias)
        return reads_every_word(s, inputs_of_task(self.task), self.chip.board, bias, noise, seed)


def _bytes_of(onn: AveragingNetwork) -> Iterator[bytes]:
    for layer in onn.layers:
        yield from (layer.weight.tobytes(), layer.bias.tobytes())


class SampleBias(NamedTuple):
    """Bias of a sample.

    Attributes:
        voltage_v: (H,) heater voltages.
        bias: Settings of the electronics.
    """

    voltage_v: Floats
    bias: Bias


@lru_cache(maxsize=1)
def inputs_of_task(task: Averaging) -> FunctionInputs:
    """Return the inputs of a task in column-major order, in which words are simulated and compared."""
    inputs = function_inputs(task)
    # as floats, which are sent
    symbols = inputs.symbols.astype(np.float64)
    return replace(inputs, symbols=_column_major(symbols), levels=_column_major(inputs.levels))


def _column_major(values: Any) -> Any:
    """Return an array whose first axis is contiguous in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 0, -1)), -1, 0)


def stage_outcomes(work: YieldStudy, imperfections: Imperfections, sample: int) -> dict[str, WordOutcome]:
    """Sample a chip and evaluate it at each stage of its calibration.

    Args:
        work: Parameters of the analysis.
        imperfections: Imperfections of the sample.
        sample: Index of the sample.

    Returns:
        Name of the stage to its outcome. The stage is ``before`` (bias file), ``between`` (programmed by the digital
        twin), ``after`` (tuned in the loop) or ``drifted`` (after drift of the resistances); without calibration, only
        ``before``. Further symbol rates add entries such as ``before at 1e+06 Bd``.
    """
    seed = sample_seed(work.seed, sample)
    sample_parameters = draw_sample(work.chip, imperfections, seed)
    outcomes: dict[str, WordOutcome] = {}
    noise = scaled_noise(work.noise, imperfections)
    for stage, parameters, drive in biased_stages(work, sample_parameters, imperfections.effective_bits, noise, seed):
        noises = noises_of(work, stage, imperfections)
        if isinstance(drive, RangeError):
            outcomes |= read_sample(work, drive, work.chip.bias, noises, seed)
            continue
        answer: Scattering | ValueError
        try:
            answer = sample_scattering(work.chip, parameters, drive.voltage_v, imperfections.effective_bits)
        except RangeError as fault:
            answer = fault
        outcomes |= read_sample(work, answer, drive.bias, noises, seed)
    return outcomes


def noises_of(work: YieldStudy, stage: str, imperfections: Imperfections) -> dict[str, Noise | None]:
    """Return the noise of a stage by name: that of the study, and at the judged stage that of further rates."""
    noises = {stage: scaled_noise(work.noise, imperfections)}
    if stage == work.judged_stage:
        for rate in work.rates_bd:
            at_rate = noise_of(work.chip.process, symbol_rate_bd=rate)
            noises[f"{stage} at {rate:.3g} Bd"] = scaled_noise(at_rate, work.imperfections)
    return noises


def read_sample(
    work: YieldStudy, s: Scattering | ValueError, bias: Bias, noises: Mapping[str, Noise | None], seed: int
) -> dict[str, WordOutcome]:
    """Return the outcomes of a biased sample by name of the noise.

    Raises:
        ValueError: The sample has no S-parameters, and its drive is not the reason.
    """
    board, inputs = work.chip.board, inputs_of_task(work.task)
    if isinstance(s, RangeError):
        return {name: unusable_outcome(inputs, board, str(s), noise) for name, noise in noises.items()}
    if isinstance(s, ValueError):
        raise s
    locked = locked_bias(s, board, work.chip.locked_source, bias)
    outcomes = {}
    for name, noise in noises.items():
        try:
            outcomes[name] = read_words(s, inputs, board, locked, noise, seed)
            if noise is not None:
                rate = estimated_error_rate(s, inputs, board, locked, noise)
                outcomes[name] = replace(outcomes[name], estimated_word_error_rate=rate)
        except UnsettledError as fault:
            outcomes[name] = unusable_outcome(inputs, board, str(fault), noise)
    return outcomes


def best_receiver(
    chip: NominalChip, task: Averaging, laser_w: float | None = None, symbol_rate_bd: float | None = None
) -> Noise:
    """Return the noise with the receiver (amplifier and window) that suits the nominal chip best, for all its samples.

    Args:
        chip: The nominal chip.
        task: Task of the chip.
        laser_w: Power launched into every waveguide, in W; by default the card's.
        symbol_rate_bd: Symbols per second; by default the card's.

    Raises:
        InputError: The process has no noise or no budget section, or power or rate are out of range; or the light of
            the nominal chip does not settle.
    """
    choices = noise_choices(chip.process, laser_w, symbol_rate_bd)
    check_oscillator_power(chip.process, laser_w, chip.board.oscillator_power)
    s = sample_scattering(chip, nominal_sample(chip), chip.voltage_v)
    bias = locked_bias(s, chip.board, chip.locked_source, chip.bias)
    return best_noise(error_margins(s, inputs_of_task(task), chip.board, bias), choices)


def with_oscillators(chip: NominalChip, laser_w: float | None, oscillator_w: float) -> NominalChip:
    """Return a chip with another power of its local oscillators, and gains and offsets set for it on the nominal chip.

    Args:
        chip: The nominal chip.
        laser_w: Power launched into every other waveguide, in W; by default the card's.
        oscillator_w: Power launched into every fibre that leads to local oscillators, in W.

    Raises:
        InputError: The process has no noise or no budget section, or a power is out of range.
        RangeError: A neuron needs a gain or offset beyond the card's range.
    """
    ratio = relative_oscillator_power(chip.process, laser_w, oscillator_w)
    s = sample_scattering(chip, nominal_sample(chip), chip.voltage_v)
    board, bias = with_oscillator_power(s, chip.board, chip.bias, chip.process, ratio)
    return replace(chip, board=board, bias=bias)


def biased_stages(
    work: YieldStudy, sample: ChipSample, bits: float | None, noise: Noise | None, seed: int
) -> Iterator[tuple[str, ChipSample, SampleBias | RangeError]]:
    """Yield stage, sample and bias of each stage; instead of the bias, the error if there is none."""
    chip = work.chip
    yield BEFORE, sample, SampleBias(chip.voltage_v, chip.bias)
    if work.onn is None:
        return
    bench = VirtualBench(chip, sample, bits, noise, seed, BENCH_AVERAGES)
    fitted: SampleBias | RangeError
    tuned: SampleBias | RangeError
    try:
        calibration = calibrate(bench, chip, work.onn, chip.process)
        fitted, tuned = (SampleBias(one.voltage_v, one.bias) for one in (calibration.fitted, calibration.tuned))
    except RangeError as fault:
        fitted = tuned = fault
    except np.linalg.LinAlgError as fault:
        # a singular system makes this sample unusable but must not end the run
        fitted = tuned = RangeError(f"calibration failed: {fault}")
    yield BETWEEN, sample, fitted
    yield AFTER, sample, tuned
    yield DRIFTED, aged_sample(sample), tuned
