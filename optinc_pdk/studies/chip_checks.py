"""What a chip is for: to average words, or to compute what a general network or a matrix does.

Studies use the verbs of :class:`ChipCheck` and never ask which of the three a chip is for.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.assemble import matrix_labels
from optinc_pdk.averaging import Averaging, error_counts
from optinc_pdk.averaging.score import score_outputs
from optinc_pdk.circuit import Bias, Board, Circuit
from optinc_pdk.drive import RangeError, SharedGround
from optinc_pdk.matrices import MatrixTarget, compare_matrices
from optinc_pdk.networks import (
    AveragingNetwork,
    GeneralNetwork,
    LayerFactor,
    NetworkComparison,
    NetworkData,
    NetworkLimits,
    factorise,
)
from optinc_pdk.signoff.function import FunctionInputs, check_board, function_inputs, symbol_assignments
from optinc_pdk.simulate import Scattering, program, program_matrix, transmit_vectors, trim_offsets
from optinc_pdk.simulate.transmission.detection import network_of, receiver_fields
from optinc_pdk.simulate.transmission.noise import Noise, check_oscillator_power, noise_choices
from optinc_pdk.simulate.transmission.reception import ReceivedBatch, receive_batches
from optinc_pdk.studies.calibration._matrix_tuning import MatrixSetting, retune_matrix, tune_matrix
from optinc_pdk.studies.calibration._procedure import ChipSetting, calibrate, calibrate_network, retune_network
from optinc_pdk.studies.calibration._virtual_bench import VirtualBench, VirtualMatrixBench
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors
from optinc_pdk.studies.highest_rates import ERROR_RATE, best_noise, highest_rate
from optinc_pdk.studies.noisy_outputs import (
    SIGNAL_TO_NOISE,
    NoisyMatrix,
    NoisyNetwork,
    network_quantities,
    network_values,
    operating_noise,
)
from optinc_pdk.studies.outcomes import (
    CheckOutcome,
    CheckSummary,
    OutcomeSummary,
    Quantity,
    SampleOutcome,
    WordOutcome,
    WordSummary,
)
from optinc_pdk.studies.variation.nominal_chip import NominalChip, aligned_bias, bias_voltages, locked_bias
from optinc_pdk.studies.variation.sampled_response import sample_scattering
from optinc_pdk.studies.variation.sampling import ChipSample, nominal_sample

BEFORE, BETWEEN, AFTER, DRIFTED = "before", "between", "after", "drifted"
"""Stages of a sample: bias file; programmed by the digital twin; tuned in the loop; after drift of the resistances."""
BENCH_AVERAGES = 10_000
"""Symbols averaged for one reading of the bench: 10 ms at 1 MBd."""
DIGITS = 9
"""Decimals of a margin that are kept: the last bits of a solution depend on the machine."""
ORDER_SEED = 2604


class BiasedSetting(Protocol):
    """Setting of a chip: voltages of its heaters, and what belongs to them."""

    @property
    def voltage_v(self) -> Floats:
        """(H,) heater voltages."""


@dataclass(frozen=True)
class SampleConditions:
    """Electronics and noise with which a sample is calibrated and compared.

    Attributes:
        bits: Effective bits of the drive; None if voltages are not rounded.
        noise: Noise of lasers and detectors, in operation and in readings of the bench; None for no noise.
        seed: Seed of the noise.
    """

    bits: float | None
    noise: Noise | None = None
    seed: int = 0


class ChipCheck(Protocol):
    """A nominal chip, and what its samples are compared with.

    A study takes the stated setting of a sample or calibrates it, computes the S-parameters at this setting, and
    compares them with the target. An outcome is what one sample computes; a summary is about the outcomes of many.
    """

    @property
    def chip(self) -> NominalChip:
        """The nominal chip with its bias."""

    @property
    def outcome(self) -> type[SampleOutcome]:
        """Class of the outcomes."""

    @property
    def tuned_stages(self) -> tuple[str, ...]:
        """Names of the stages of a calibration; the last one is ``after``."""

    def summary(self, noisy: bool) -> OutcomeSummary:
        """Return the statistics of outcomes, with or without noise."""

    def header(self, noise: Mapping[str, Any] | None, calibrated: bool) -> dict[str, Any]:
        """Return what results depend on besides chip, process and imperfections, as JSON-compatible data.

        Args:
            noise: Noise of the study as JSON-compatible data.
            calibrated: Whether samples are calibrated.
        """

    def operating_noise(self, laser_w: float | None = None, symbol_rate_bd: float | None = None) -> Noise:
        """Return the noise in operation, with the receiver of all samples.

        Args:
            laser_w: Power launched into every guide, in W; by default the card's.
            symbol_rate_bd: Symbols per second; by default the card's.

        Raises:
            InputError: The cards state no noise, or a power or rate is out of range.
        """

    def stated_setting(self) -> Any:
        """Return the setting of the bias file."""

    def calibrated(self, sample: ChipSample, conditions: SampleConditions) -> Mapping[str, Any]:
        """Calibrate a sample on a virtual bench.

        Returns:
            Setting of each of ``tuned_stages``.

        Raises:
            RangeError: The range of the drive or of the electronics is too small.
            UnsettledError: The light of the sample does not settle.
            LinAlgError: The readings of the sample give a singular system.
        """

    def calibration_fault(self, fault: Exception) -> str:
        """Return why a sample whose calibration failed with an error is unusable."""

    def compared(
        self, s: Scattering, setting: Any, noise: Noise | None = None, seed: int = 0, rated: bool = False
    ) -> Any:
        """Compare a biased sample with the target; if it is rated, chips of words state their highest symbol rate.

        Args:
            s: S-parameters of the sample at the setting.
            setting: The setting.
            noise: Noise of lasers and detectors; None for no noise.
            seed: Seed of the noise.

        Raises:
            NoLightError: No light of the sample is like the target.
            UnsettledError: Its light does not settle.
        """

    def unusable(self, fault: str, noise: Noise | None = None) -> Any:
        """Return the outcome of a sample that is unusable for a reason, with the noise that it would have."""

    def passed(self, outcome: Any) -> bool:
        """Return whether a sample reaches the target."""

    def passes(self, s: Scattering, setting: Any, noise: Noise | None, seed: int) -> bool:
        """Return whether a biased sample reaches the target; as :meth:`compared`, but it may end at the first error."""


@dataclass(frozen=True, eq=False)
class WordCheck:
    """Words that servers read of a chip that averages words, compared with the ideal averages.

    Attributes:
        chip: The nominal chip.
        task: Its task.
        onn: Network to which samples are calibrated; None if they are not.
        share: Share of exact inputs, 0 … 1, that a sample must reach.

    Raises:
        InputError: The board of the chip is for another task.
    """

    chip: NominalChip
    task: Averaging
    onn: AveragingNetwork | None = None
    share: float = 1.0

    outcome = WordOutcome
    tuned_stages = (BETWEEN, AFTER)

    def __post_init__(self) -> None:
        """Validate the task."""
        check_board(self.chip.board, self.task)

    @property
    def inputs(self) -> FunctionInputs:
        """All inputs of the task, in column-major order, in which words are simulated and compared."""
        return inputs_of_task(self.task)

    def summary(self, noisy: bool) -> WordSummary:
        """Return the statistics of words."""
        return WordSummary(self.share)

    def header(self, noise: Mapping[str, Any] | None, calibrated: bool) -> dict[str, Any]:
        """Return task, required share, and digest of the network."""
        weights = b"".join(
            each.tobytes() for layer in (self.onn.layers if self.onn else ()) for each in (layer.weight, layer.bias)
        )
        return {
            "task": asdict(self.task),
            "target": self.share,
            "noise": noise,
            "calibrated_to": digest(weights) if calibrated else None,
            # studies at further symbol rates state them
            "rates_bd": [],
        }

    def operating_noise(self, laser_w: float | None = None, symbol_rate_bd: float | None = None) -> Noise:
        """Return the noise with the receiver (amplifier and window) that suits the nominal chip best."""
        chip, choices = self.chip, noise_choices(self.chip.process, laser_w, symbol_rate_bd)
        check_oscillator_power(chip.process, laser_w, chip.board.oscillator_power)
        s = sample_scattering(chip, nominal_sample(chip), chip.voltage_v)
        return best_noise(error_margins(s, self.inputs, chip.board, self._locked(s, chip.bias)), choices)

    def stated_setting(self) -> ChipSetting:
        """Return voltages and electronics of the bias file."""
        return ChipSetting(self.chip.voltage_v, self.chip.bias, np.zeros(0))

    def calibrated(self, sample: ChipSample, conditions: SampleConditions) -> Mapping[str, ChipSetting]:
        """Calibrate a sample to the network.

        Raises:
            ValueError: There is no network.
        """
        if self.onn is None:
            raise ValueError("words are calibrated to a network; give one")
        bench = _bench(self.chip, sample, conditions)
        found = calibrate(bench, self.chip, self.onn)
        return {BETWEEN: found.fitted, AFTER: found.tuned}

    def calibration_fault(self, fault: Exception) -> str:
        """Return the text of an error of the range, which says what failed; name the calibration in others."""
        return str(fault) if isinstance(fault, RangeError) else f"calibration failed: {fault}"

    def compared(
        self, s: Scattering, setting: ChipSetting, noise: Noise | None = None, seed: int = 0, rated: bool = False
    ) -> WordOutcome:
        """Send every input through a sample whose coherent receivers are locked, and score the words.

        If it is rated, the highest symbol rate is searched, with the noise of the cards and the laser power of
        ``noise``.
        """
        board, bias = self.chip.board, self._locked(s, setting.bias)
        outcome = read_words(s, self.inputs, board, bias, noise, seed)
        if noise is None:
            return outcome
        margins = error_margins(s, self.inputs, board, bias)
        estimate = min(estimate_errors(margins, noise).rate, 1.0)
        if not rated:
            return replace(outcome, estimated_word_error_rate=estimate)
        rate = highest_rate(margins, self.chip.process, ERROR_RATE, noise.laser_w) or 0.0
        return replace(outcome, estimated_word_error_rate=estimate, symbol_rate_bd=rate)

    def unusable(self, fault: str, noise: Noise | None = None) -> WordOutcome:
        """Return the outcome of a chip of which all servers read zeros."""
        return unusable_outcome(self.inputs, self.chip.board, fault, noise)

    def passed(self, outcome: WordOutcome) -> bool:
        """Return whether a sample has the required share of exact inputs."""
        return outcome.accuracy >= self.share

    def passes(self, s: Scattering, setting: ChipSetting, noise: Noise | None, seed: int) -> bool:
        """Return whether a sample has the required share of exact inputs; if it is 1, the first wrong word decides."""
        board, bias = self.chip.board, self._locked(s, setting.bias)
        if self.share < 1.0:
            return self.passed(read_words(s, self.inputs, board, bias, noise, seed))
        return all(
            score_outputs(
                [(slice(None), batch.outputs)], self.task, self.inputs.ideal[words], self.inputs.levels[words]
            ).wrong
            == 0
            for words, batch in _received(s, self.inputs, board, bias, noise, seed)
        )

    def _locked(self, s: Scattering, bias: Bias) -> Bias:
        return locked_bias(s, self.chip.board, self.chip.locked_sources, bias)


@dataclass(frozen=True, eq=False)
class _QuantityCheck(ABC):
    """Comparison of the samples of a chip by quantities; subclasses measure them."""

    chip: NominalChip

    outcome = CheckOutcome
    noise_quantities: ClassVar[tuple[Quantity, ...]] = ()

    @property
    @abstractmethod
    def quantities(self) -> tuple[Quantity, ...]:
        """Quantities of the comparison."""

    @abstractmethod
    def programmed(self, circuit: Circuit, ground: SharedGround | None, wavelength_nm: float) -> Any:
        """Return the setting of a bias that is programmed for a wavelength as a build programs it.

        Args:
            circuit: The extracted circuit.
            ground: Ground network of the heaters; ideal grounds if None.
            wavelength_nm: The wavelength.

        Raises:
            RangeError: The range of the drive or of the electronics is too small.
        """

    @abstractmethod
    def measured(self, s: Scattering, setting: Any, noise: Noise | None, seed: int) -> tuple[bool, Mapping[str, float]]:
        """Return whether a biased sample keeps all limits, and its quantities."""

    def summary(self, noisy: bool) -> CheckSummary:
        """Return the statistics of the quantities."""
        return CheckSummary(self.quantities + (self.noise_quantities if noisy else ()))

    def operating_noise(self, laser_w: float | None = None, symbol_rate_bd: float | None = None) -> Noise:
        """Return the noise with the quietest receiver that suits any chip."""
        return operating_noise(self.chip.process, laser_w, symbol_rate_bd)

    def calibration_fault(self, fault: Exception) -> str:
        """Return the text of an error, after the name of what failed."""
        return f"calibration failed: {fault}"

    def compared(
        self, s: Scattering, setting: Any, noise: Noise | None = None, seed: int = 0, rated: bool = False
    ) -> CheckOutcome:
        """Measure the quantities of a biased sample."""
        return CheckOutcome(*self.measured(s, setting, noise, seed))

    def unusable(self, fault: str, noise: Noise | None = None) -> CheckOutcome:
        """Return the outcome of a chip without quantities."""
        return CheckOutcome(False, {}, fault)

    def passed(self, outcome: CheckOutcome) -> bool:
        """Return whether a sample keeps all limits."""
        return outcome.passed

    def passes(self, s: Scattering, setting: Any, noise: Noise | None, seed: int) -> bool:
        """Return whether a biased sample keeps all limits."""
        return self.compared(s, setting, noise, seed).passed


@dataclass(frozen=True, eq=False)
class NetworkCheck(_QuantityCheck):
    """The outputs of a chip for samples of data, compared with those of its general network in floating point.

    Attributes:
        chip: The nominal chip.
        network: The network, with the inputs over which its signals are scaled.
        data: The samples.
        limits: What a chip must reach.
        nominal: (receivers, J) fields at the receivers of the nominal chip, relative to their oscillators, to which
            the oscillators of a sample are aligned.
    """

    network: GeneralNetwork
    data: NetworkData
    limits: NetworkLimits
    nominal: Complexes

    tuned_stages = (BETWEEN, AFTER)

    @staticmethod
    def of(chip: NominalChip, network: GeneralNetwork, data: NetworkData, limits: NetworkLimits) -> NetworkCheck:
        """Return the check of samples of a nominal chip; other arguments are the attributes."""
        s = sample_scattering(chip, nominal_sample(chip), chip.voltage_v)
        phases = np.array([chip.bias.phases[label] for row in chip.board.outputs for label in row])
        fields = receiver_fields(s, chip.board) * np.exp(-1j * phases)[:, np.newaxis]
        return NetworkCheck(chip, network, data, limits, fields)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Agreement, accuracy if there are labels, and deviations, as of a build."""
        return network_quantities(self.data, self.limits)

    @cached_property
    def factors(self) -> tuple[LayerFactor, ...]:
        """Factorisation of the layers."""
        return factorise(self.network, swing=self.chip.process.activation.analogue_swing)

    def header(self, noise: Mapping[str, Any] | None, calibrated: bool) -> dict[str, Any]:
        """Return digests of network and data, and the limits."""
        limits = self.limits
        task = {
            "kind": "network",
            "sha256": self.network.digest,
            "data": self.data.digest,
            "agreement": limits.agreement,
            "tolerance": limits.tolerance,
            "accuracy": limits.accuracy,
            "rms_error": limits.rms_error,
        }
        return {"task": task, "noise": noise, "calibrated": calibrated}

    def operating_noise(self, laser_w: float | None = None, symbol_rate_bd: float | None = None) -> Noise:
        """Return the noise with the quietest receiver; refuses more power of local oscillators than guides carry."""
        noise = super().operating_noise(laser_w, symbol_rate_bd)
        check_oscillator_power(self.chip.process, laser_w, self.chip.board.oscillator_power)
        return noise

    def stated_setting(self) -> ChipSetting:
        """Return voltages and electronics of the bias file."""
        return ChipSetting(self.chip.voltage_v, self.chip.bias, np.zeros(0))

    def calibrated(self, sample: ChipSample, conditions: SampleConditions) -> Mapping[str, ChipSetting]:
        """Calibrate a sample, and trim its offsets as a build does, with the inputs of the network's task.

        Trimming takes means over all of these inputs, which hardly have noise, so that it is simulated without.
        """
        bench = _bench(self.chip, sample, conditions)
        settings = zip(self.tuned_stages, calibrate_network(bench, self.chip, self.network, self.factors), strict=True)
        return {stage: self._trimmed(sample, setting, conditions.bits) for stage, setting in settings}

    def programmed(self, circuit: Circuit, ground: SharedGround | None, wavelength_nm: float) -> ChipSetting:
        """Program the network for a wavelength, and trim its offsets."""
        chip, process = self.chip, self.chip.process
        bias = program(
            circuit, chip.board, self.network, process, wavelength_nm, ground=ground, factors=self.factors
        ).bias
        voltage_v = bias_voltages(chip.structure, bias, process)
        s = sample_scattering(chip, nominal_sample(chip), voltage_v, wavelengths_nm=wavelength_nm)
        trimmed = trim_offsets(s, chip.board, bias, self.network, self.factors, process)
        return ChipSetting(voltage_v, trimmed, np.zeros(0))

    def recalibrated(
        self, sample: ChipSample, conditions: SampleConditions, setting: ChipSetting
    ) -> tuple[ChipSetting, int]:
        """Tune a sample that has drifted, as :meth:`MatrixCheck.recalibrated`, and trim its offsets."""
        bench = _bench(self.chip, sample, conditions)
        tuned = retune_network(bench, self.chip, self.network, self.factors, setting.voltage_v)
        return self._trimmed(sample, tuned, conditions.bits), bench.settings

    def _trimmed(self, sample: ChipSample, setting: ChipSetting, bits: float | None) -> ChipSetting:
        chip, s = self.chip, sample_scattering(self.chip, sample, setting.voltage_v, bits)
        bias = self._aligned(s, setting.bias)
        # signals far from those of the network would need offsets beyond the card's range: these are not trimmed
        with suppress(RangeError):
            bias = trim_offsets(s, chip.board, bias, self.network, self.factors, chip.process)
        return replace(setting, bias=bias)

    def measured(
        self, s: Scattering, setting: ChipSetting, noise: Noise | None = None, seed: int = 0
    ) -> tuple[bool, Mapping[str, float]]:
        """Send all samples of the data through a biased sample of the chip."""
        board, bias = self.chip.board, self._aligned(s, setting.bias)
        if noise is not None:
            return NoisyNetwork(s, board, bias, self.network, self.data, self.limits).measured(noise, 1, seed)
        outputs = transmit_vectors(self.data.x, s, board, bias).outputs
        found = NetworkComparison(self.data, self.limits, self._expected, outputs)
        return found.passed, network_values(found)

    def _aligned(self, s: Scattering, bias: Bias) -> Bias:
        return aligned_bias(s, self.chip.board, self.nominal, bias)

    @cached_property
    def _expected(self) -> Floats:
        return self.network.forward(self.data.x)


@dataclass(frozen=True, eq=False)
class MatrixCheck(_QuantityCheck):
    """The fields at the output fibres, compared with a matrix up to common scale and free phases.

    Attributes:
        chip: The nominal chip.
        target: The matrix, how it is read, and its tolerance.
    """

    target: MatrixTarget

    tuned_stages = (AFTER,)
    noise_quantities = SIGNAL_TO_NOISE

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Errors of the entries, fidelity and loss, as of a build."""
        return (
            Quantity("worst_error", "largest error of an entry", "%", True, self.target.tolerance),
            Quantity("insertion_loss_db", "insertion loss", "dB"),
            Quantity("rms_error", "rms error of the entries", "%"),
            Quantity("fidelity", "fidelity", rising=False),
        )

    def header(self, noise: Mapping[str, Any] | None, calibrated: bool) -> dict[str, Any]:
        """Return the digest of the matrix, how it is read, and its tolerance."""
        target = self.target
        task = {"kind": "matrix", "sha256": target.digest, "read": target.read, "tolerance": target.tolerance}
        return {"task": task, "noise": noise, "calibrated": calibrated}

    def stated_setting(self) -> MatrixSetting:
        """Return the voltages of the bias file; sources and receivers are equal."""
        return MatrixSetting(self.chip.voltage_v, np.ones(self.target.outputs), np.ones(self.target.inputs))

    def programmed(self, circuit: Circuit, ground: SharedGround | None, wavelength_nm: float) -> MatrixSetting:
        """Program the matrix for a wavelength."""
        process = self.chip.process
        bias = program_matrix(circuit, self.target, process, wavelength_nm=wavelength_nm, ground=ground).bias
        return replace(self.stated_setting(), voltage_v=bias_voltages(self.chip.structure, bias, process))

    def calibrated(self, sample: ChipSample, conditions: SampleConditions) -> Mapping[str, MatrixSetting]:
        """Tune a sample on a bench that reads fields."""
        return {AFTER: tune_matrix(self._bench(sample, conditions), self.chip, self.target)}

    def recalibrated(
        self, sample: ChipSample, conditions: SampleConditions, setting: MatrixSetting
    ) -> tuple[MatrixSetting, int]:
        """Tune a sample that has drifted, from its setting.

        Returns:
            The new setting, and the number of heater settings that the bench applied.

        Raises:
            RangeError: The range of the drive or of the electronics is too small.
        """
        bench = self._bench(sample, conditions)
        return retune_matrix(bench, self.chip, self.target, setting.voltage_v), bench.settings

    def _bench(self, sample: ChipSample, conditions: SampleConditions) -> VirtualMatrixBench:
        noise, averages = conditions.noise, BENCH_AVERAGES
        labels = matrix_labels(self.target)
        return VirtualMatrixBench(self.chip, sample, conditions.bits, *labels, noise, conditions.seed, averages)

    def measured(
        self, s: Scattering, setting: MatrixSetting, noise: Noise | None = None, seed: int = 0
    ) -> tuple[bool, Mapping[str, float]]:
        """Compare the matrix of a biased sample with the target, without the noise, and send vectors with it."""
        inputs, outputs = matrix_labels(self.target)
        fields = s.between(outputs, inputs)[0]
        found = compare_matrices(setting.equalised(fields), self.target)
        noisy: Mapping[str, float] = {}
        if noise is not None:
            # gains of receivers amplify signal and noise
            _, noisy = NoisyMatrix(fields * setting.level, self.target).measured(noise, 1, seed)
        return found.passed, {one.key: noisy[one.key] for one in SIGNAL_TO_NOISE if noisy} | {
            "worst_error": found.worst,
            "insertion_loss_db": found.insertion_loss_db,
            "rms_error": found.rms,
            "fidelity": found.fidelity,
        }


def _bench(chip: NominalChip, sample: ChipSample, conditions: SampleConditions) -> VirtualBench:
    return VirtualBench(chip, sample, conditions.bits, conditions.noise, conditions.seed, BENCH_AVERAGES)


def digest(data: bytes) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of some data."""
    return hashlib.sha256(data).hexdigest()[:16]


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


def read_words(
    s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, noise: Noise | None = None, seed: int = 0
) -> WordOutcome:
    """Send every input through a chip and score the words that the servers read.

    For a lattice of inputs, the assignment of symbols to servers that is worst for this chip is tried as well. The seed
    of the noise is that of the first assignment; each further assignment uses the next higher seed.
    """
    saturated = 0

    def outputs() -> Iterator[tuple[slice | Ints, Floats]]:
        nonlocal saturated
        for words, batch in _received(s, inputs, board, bias, noise, seed):
            saturated += batch.saturated()
            yield words, batch.outputs

    score = score_outputs(outputs(), inputs.task, inputs.ideal, inputs.levels)
    return WordOutcome(**asdict(replace(score, margin=round(score.margin, DIGITS))), saturated=saturated)


def _received(
    s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, noise: Noise | None, seed: int
) -> Iterator[tuple[slice | Ints, ReceivedBatch]]:
    """Yield the words and what they cause, of all batches of all assignments."""
    network = network_of(s, board, bias, 0)
    for number, symbols in enumerate(symbol_assignments(inputs, s, board, bias)):
        if noise is None or noise.shape.negligible:
            for batch in receive_batches(symbols, network, board, bias, noise=noise, seed=seed + number):
                yield batch.words, batch
            continue
        # symbols run into each other, and words in use come in random order
        order = np.random.default_rng((ORDER_SEED, seed + number)).permutation(len(symbols))
        sent = symbols[order]
        for batch in receive_batches(sent, network, board, bias, noise=noise, seed=seed + number):
            yield order[batch.words], batch


def unusable_outcome(inputs: FunctionInputs, board: Board, fault: str, noise: Noise | None = None) -> WordOutcome:
    """Return the outcome of an unusable chip, whose servers read zeros for every input, with the noise that it would
    have.
    """
    each = len(board.outputs) * inputs.assignments
    errors = error_counts(-inputs.ideal)
    wrong = sum(errors.values())
    return WordOutcome(
        inputs=len(inputs.ideal),
        exact=int((inputs.ideal == 0).sum()),
        words=each * len(inputs.ideal),
        wrong=each * wrong,
        margin=0.5 - float((inputs.levels * inputs.task.output_resolution).max()),
        saturated=0,
        errors={error: each * count for error, count in errors.items()},
        fault=fault,
        # the words are certain, so their share is no estimate but stands for one
        estimated_word_error_rate=None if noise is None else wrong / len(inputs.ideal),
    )
