"""The schema of `report.json`: the numbers of a build.

Fields with a default are missing in files of earlier versions; there, None means that the number is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from optinc_pdk.budgets import LightBudget, LimitNumbers
from optinc_pdk.io.formatting import format_percent
from optinc_pdk.io.json_files import json_text
from optinc_pdk.io.report_models import Count, Fraction, NotNegative, Positive, Sha256, StrictModel
from optinc_pdk.options import Activation

SCHEMA: Final = 1


class TaskNumbers(StrictModel):
    """The averaging task: bits of a word, servers, and network inputs, each for one group of symbols.

    Attributes:
        remainder: Whether the last output carries the fraction of the average in steps of 1/servers (level 1 of a
            cascade).
        finer_input: Whether the last group is in steps of 1/servers² (level 2 of a cascade).
    """

    bits: Count
    servers: Count
    groups: Count
    remainder: bool
    finer_input: bool


class MatrixTaskNumbers(StrictModel):
    """The task of a chip that multiplies by a matrix.

    Attributes:
        kind: Always ``matrix``; the averaging task has no such field.
        read: What is read at the outputs: their fields, the real parts of the fields, or their powers.
        extra_columns: Number of redundant columns of MZIs of each mesh.
        tolerance: Largest accepted error of an entry, relative to the largest entry.
        sha256: Digest of the matrix and its reading, as `optinc_pdk.matrices.MatrixTarget.digest`.
    """

    kind: Literal["matrix"]
    outputs: Count
    inputs: Count
    read: Literal["field", "real", "power"]
    extra_columns: Count
    mesh: Literal["rectangle", "triangle"] = "rectangle"
    tolerance: Positive
    sha256: Sha256


class GeneralTaskNumbers(StrictModel):
    """The task of a chip of a general network.

    Attributes:
        kind: Always ``network``; the averaging task has no such field.
        data: What was sent: samples with labels, samples with outputs, samples with neither, or random inputs within
            the range of the network.
        data_sha256: Digest of the samples, as `optinc_pdk.networks.NetworkData.digest`.
        agreement: Smallest accepted share of samples on which chip and network agree.
        tolerance: Largest accepted deviation of an output without labels, relative to the largest output.
        accuracy: Smallest accepted share of samples for which the chip chooses the label; None for no limit.
        rms_error: Largest accepted root mean square of the differences of the chip's outputs from those of the data;
            None for no limit.
    """

    kind: Literal["network"]
    outputs: Count
    inputs: Count
    data: Literal["labels", "outputs", "inputs", "random"]
    data_sha256: Sha256
    agreement: Positive
    tolerance: Positive
    accuracy: Fraction | None
    rms_error: Annotated[float, Field(ge=0)] | None = None


class ProcessNumbers(StrictModel):
    """Name of the process, and the digest of every part of its cards, see `optinc_pdk.cards.card_digests`."""

    name: str
    cards: dict[str, str]


class OnnNumbers(StrictModel):
    """The network in floating point, evaluated on its whole lattice, or on a sample of one above 2^25 points.

    Attributes:
        structure: Number of units of each layer, from inputs to outputs.
        accuracy: Fraction of exact words.
        margin: Smallest margin in levels.
        activation: Activation of the hidden layers.
        sha256: Digest of the network that was read, as `optinc_pdk.networks.AveragingNetwork.digest`.
    """

    structure: list[Count]
    accuracy: Fraction
    margin: float
    activation: Activation = "relu"
    sha256: str | None = None


class FactorNumbers(StrictModel):
    """Factorisation of the weight matrices; MZIs by the convention of arXiv 2603.28290, weights only.

    Attributes:
        mzis_full_svd: Number of MZIs if every layer were factored by a full SVD; ``ratio`` is ``mzis`` over it.
        max_error: Largest error of an entry of any factored matrix, over the matrix's 2-norm.
    """

    mzis: Count
    mzis_full_svd: Count
    ratio: NotNegative
    max_error: NotNegative


class OscillatorNumbers(StrictModel):
    """Light of the local oscillators of the neurons.

    Attributes:
        fibres: Number of fibres that lead it to the chip.
        fibre_w: Optical power launched into each of them, in W.
        total_w: Optical power launched into all of them, in W.
        mixers: Number of mixers.
        mixer_mean_w: Mean power of a local oscillator at its mixer, in W: what both detectors receive.
        mixer_least_w: The smallest of these powers, in W.
        split_carrier: Whether the fibre is that of the carrier, of which the chip splits off the local oscillators.
    """

    fibres: Count
    fibre_w: Positive
    total_w: Positive
    mixers: Count
    mixer_mean_w: Positive
    mixer_least_w: NotNegative
    split_carrier: bool


class SpectrumCurveNumbers(StrictModel):
    """Transmission from the sources of a group: power that reaches other fibres and photodiodes, over that of a source.

    Attributes:
        name: The group: carrier, inputs, or neurons of a layer.
        sources: Number of its fibres, and of modulators on the chip.
        mean_db: Mean of the powers of all sources in dB, at each wavelength.
        lowest_db: The same of the source with the lowest transmission.
        highest_db: The same of the source with the highest.
    """

    name: str
    sources: Count
    mean_db: list[float]
    lowest_db: list[float]
    highest_db: list[float]


class SpectrumNumbers(StrictModel):
    """Transmission of the extracted chip, as driven, at wavelengths around that of its bias.

    Attributes:
        carrier_nm: Wavelength of the bias.
        wavelengths_nm: Wavelengths, ascending; that of the bias is among them.
        curves: A curve for each group of sources; empty if they were left out.
        left_out: Why there are no curves; None if there are.
    """

    carrier_nm: Positive
    wavelengths_nm: list[Positive] = Field(default_factory=list)
    curves: list[SpectrumCurveNumbers] = Field(default_factory=list)
    left_out: str | None = None


class RateCountNumbers(StrictModel):
    """Words that were counted at the highest estimated symbol rate, in Bd, and how many of them were wrong."""

    symbol_rate_bd: Positive
    words: Count
    wrong: Annotated[int, Field(ge=0)]


class SystemEffectNumbers(StrictModel):
    """An imperfection of the system; see :class:`optinc_pdk.studies.system_budget.SystemEffect`.

    ``ratio`` is the tolerated over the stated size.
    """

    name: str
    size: Positive | None
    tolerated: NotNegative | None
    unit: str
    ratio: NotNegative | None


class SpeedNumbers(StrictModel):
    """Highest symbol rate of the extracted chip, estimated, and energy at this rate.

    Attributes:
        word_error_rate: Accepted word-error rate.
        words: Number of random words that the estimate rests on.
        symbol_rate_bd: Highest symbol rate in Bd; None if no useful rate is acceptable, or if the count refutes it.
        counted: Words that were counted at the highest estimated rate; None without such a rate.
        highest_bd: Highest rate in Bd of the process, beyond which none was tried.
        main_limit: Name of the limit without which the rate could be higher by a tenth; None where several limit it.
        without: Where there is no ``main_limit``, highest symbol rate in Bd without one limit, by its name; None
            otherwise.
        delays_s: Time in s from the servers' modulators to their decisions at this rate, by part; None without a rate,
            as the following.
        delays_missing: Parts whose cards state no delay.
        power_w: Electrical power in W by part, of those whose cards state it.
        missing: Parts whose cards state no power.
        system: Imperfections of the system, with what the chip tolerates of each alone at this rate.
        word_j: Energy in J for the average of one word of every server.
        bit_j: Energy in J for each bit of a word of one server.
    """

    word_error_rate: Positive
    words: Count
    symbol_rate_bd: Positive | None
    counted: RateCountNumbers | None = None
    highest_bd: Positive
    main_limit: str | None
    without: dict[str, Positive | None] | None = None
    delays_s: dict[str, NotNegative] | None = None
    delays_missing: list[str] | None = None
    system: list[SystemEffectNumbers] | None = None
    power_w: dict[str, NotNegative] | None = None
    missing: list[str] | None = None
    word_j: NotNegative | None = None
    bit_j: NotNegative | None = None


class CrosstalkNumbers(StrictModel):
    """Thermal crosstalk that the process card states.

    Attributes:
        share: Phase in a neighbouring guide over the phase of the heater's own guide, at the stated distance.
        distance_um: Distance in µm from the heater to that guide; the share falls as 1 / distance.
    """

    share: Fraction
    distance_um: Positive


class ChipNumbers(StrictModel):
    """The chip: numbers of parts on the dies and off-chip, dimensions, power, loss and limits.

    Attributes:
        mzis: Number of MZIs, dummies and attenuators.
        pads: Number of pads or bumps.
        width_um: Width of the layout in µm, all dies together, as for ``height_um``.
        area_mm2: Area of all dies in mm².
        power_w: Power of all heaters at the bias, in W.
        loss_db: Loss in dB from the worst source fibre to the detector that receives most of its light.
        fit: Fit on the dies of the process, in words.
        offchip: Number of parts off the chip, by name.
        limits: Budgets by name, see `optinc_pdk.options.Budget`: size, pads and power of every chip, loss and rate of
            those that average words. In files of earlier versions, ``area`` takes the place of size.
        light: Light budget; None if the network tolerates no noise or the process card has no budget.
        oscillators: Light of the local oscillators; None if the process card has no budget or no neuron has detectors.
        crosstalk: Thermal crosstalk that the bias compensates and the function check applies; None if the process card
            states none.
    """

    mzis: Count
    phase_shifters: Count
    pads: Count
    fibres: Count
    width_um: Positive
    height_um: Positive
    area_mm2: Positive
    power_w: NotNegative
    loss_db: NotNegative
    fit: str
    offchip: dict[str, Count]
    limits: dict[str, LimitNumbers] | None = None
    light: LightBudget | None = None
    oscillators: OscillatorNumbers | None = None
    crosstalk: CrosstalkNumbers | None = None


class DrcNumbers(StrictModel):
    """Results of the design-rule check.

    Attributes:
        violations: Number of violations of rules of severity error.
        not_run: Number of rules that were not checked because they need a bias.
        current_ma_per_um: Highest current density in metal at the bias, in mA/µm; None if the electrical rules were not
            run.
        ground_rise_mv: Highest ground rise of a heater at the bias, in mV; None if the electrical rules were not run.
    """

    rules: Count
    violations: Count
    not_run: Count = 0
    current_ma_per_um: NotNegative | None = None
    ground_rise_mv: NotNegative | None = None


class LvsNumbers(StrictModel):
    """Result of LVS: devices and nets that match, and whether the circuit of the polygons is that of the netlist."""

    devices: Count
    nets: Count
    match: bool


class ErrorNumbers(StrictModel):
    """Number of wrong words with one error value (word read minus ideal word), and their share of all wrong words."""

    value: int
    count: Count
    share: Fraction


class CertificateNumbers(StrictModel):
    """Bounds on the errors of the extracted chip for all words and all assignments of symbols to servers.

    Attributes:
        margin: Lower bound of the margin in levels; the certificate holds if it is above 0.
        margins: Lower bound of the margin of each symbol, most significant symbol first.
        layer_errors: Upper bound of the error of a pre-activation, by hidden layer; 1 is a modulator's full scale.
        layer_reserves: Smallest difference between the error that a comparator removes and its error bound, by hidden
            layer; None for a layer without comparators.
        signal_errors: Upper bound of the error of a modulator's amplitude, by hidden layer.
    """

    margin: float
    margins: list[float]
    layer_errors: list[NotNegative]
    layer_reserves: list[float | None]
    signal_errors: list[NotNegative]


class FaultNumbers(StrictModel):
    """A fault of the layout that the simulation does not include.

    Attributes:
        kind: Kind, a key of `optinc_pdk.signoff.layout_faults.FAULT_KINDS`.
        place_um: Position (x, y) in µm; None if it has none.
        text: What was found.
        affects_function: Whether the fabricated chip may compute something else than the simulated one.
    """

    kind: str
    place_um: list[float] | None
    text: str
    affects_function: bool


class FunctionNumbers(StrictModel):
    """Result of the function check, which compares the extracted circuit with the ideal average.

    Attributes:
        inputs: Number of inputs.
        exact: Number of inputs for which every server reads the ideal word; ``accuracy`` is their fraction.
        margin: Smallest margin in levels.
        words: Number of words read by all servers.
        margins: Smallest margin of each symbol in levels, most significant symbol first.
        errors: Wrong words by error value, the most frequent first.
        coverage: Which inputs were tried: all combinations of symbols at the fibres, all points of the lattice, or a
            sample of random words and corner cases.
        corners: Number of corner cases among the inputs of a sample.
        certificate: Bounds for all words; None if there is no certificate.
        no_certificate: Why there is no certificate; None if there is one.
        basis: What the verdict on the function rests on, as text.
    """

    inputs: Count
    exact: Count
    accuracy: Fraction
    margin: float
    words: Count | None = None
    margins: list[float] | None = None
    errors: list[ErrorNumbers] | None = None
    coverage: Literal["combinations", "lattice", "sample"] | None = None
    corners: Count | None = None
    certificate: CertificateNumbers | None = None
    no_certificate: str | None = None
    basis: str | None = None

    @property
    def sampled_only(self) -> bool:
        """Whether the inputs are a sample, and no certificate holds for all words."""
        return self.coverage == "sample" and (self.certificate is None or self.certificate.margin <= 0.0)


class MatrixNumbers(StrictModel):
    """The matrix of the extracted chip, as driven, against the target, see `optinc_pdk.matrices.target`.

    Errors are relative to the largest entry of the target.

    Attributes:
        form: Why the matrix has one mesh or two, as text.
        worst_error: Largest error of an entry, which is that of ``worst_output`` and ``worst_input``, from 0.
        scale: Common scale: the chip's fields are those of the target, in the target's units, times this number.
        insertion_loss_db: Loss in dB beyond that of an ideal passive chip, which realises the target divided by its
            largest singular value.
        start_error: Largest error at the initial phases.
        fitted_error: Largest error at the fitted phases, before they are rounded to DAC codes.
        clipped: Number of MZIs with splittings that the couplers cannot reach.
    """

    form: str
    fidelity: Annotated[float, Field(ge=0, le=1 + 1e-9)]
    rms_error: NotNegative
    worst_error: NotNegative
    worst_output: Count
    worst_input: Count
    scale: Positive
    insertion_loss_db: float
    start_error: NotNegative
    fitted_error: NotNegative
    clipped: Count


class NetworkNumbers(StrictModel):
    """Outputs of the extracted chip, as driven, against those of its general network in floating point.

    Deviations are relative to the largest output of the network over the samples, see
    `optinc_pdk.networks.NetworkComparison`.

    Attributes:
        structure: Number of units of each layer, from inputs to outputs.
        sha256: Digest of the network that was read, as `optinc_pdk.networks.Network.digest`.
        agreeing: Number of samples on which chip and network agree; ``agreement`` is their share.
        network_accuracy: Share of samples for which the network chooses the label, as ``chip_accuracy`` for the chip;
            None without labels.
        confusion: Numbers of samples by label, and by the class that the chip chooses; None without labels.
        network_rms_error: Root mean square of the differences of the network's outputs from those of the data, as
            ``chip_rms_error`` for the chip; None without outputs.
        saturated: Number of modulator amplitudes that were clipped to full scale.
    """

    structure: list[Count]
    activation: Activation
    sha256: Sha256
    samples: Count
    agreeing: Count
    agreement: Fraction
    worst_deviation: NotNegative
    rms_deviation: NotNegative
    network_accuracy: Fraction | None
    chip_accuracy: Fraction | None
    confusion: list[list[Count]] | None
    network_rms_error: NotNegative | None
    chip_rms_error: NotNegative | None
    saturated: Count


class Report(StrictModel):
    """Content of `report.json`.

    A chip has either the sections ``onn``, ``function`` and ``speed``, or, for a general network, ``network``, or, for
    the task of a matrix, ``matrix``.

    A section is None if the build did not reach its stage; the verdict is then "fail". ``speed`` is None also if words
    are wrong without noise, or if the process card has no noise or budget section.
    """

    schema_number: Literal[1] = Field(default=SCHEMA, alias="schema")
    name: str
    verdict: Literal["pass", "fail"]
    task: TaskNumbers | GeneralTaskNumbers | MatrixTaskNumbers
    process: ProcessNumbers | None = None
    onn: OnnNumbers | None = None
    factor: FactorNumbers | None = None
    chip: ChipNumbers | None = None
    drc: DrcNumbers | None = None
    lvs: LvsNumbers | None = None
    function: FunctionNumbers | None = None
    network: NetworkNumbers | None = None
    matrix: MatrixNumbers | None = None
    speed: SpeedNumbers | None = None
    spectrum: SpectrumNumbers | None = None
    faults: list[FaultNumbers] = Field(default_factory=list)
    files: dict[str, Sha256] = Field(default_factory=dict)
    seconds: dict[str, NotNegative] = Field(default_factory=dict)

    def failures(self) -> list[str]:
        """List failed checks, and missed budgets that were not accepted, one line each; empty if the chip passes."""
        missed = ((name, limit) for name, limit in self.limits.items() if limit.holds is False)
        budgets = [f"budget: {limit.text(name)}" for name, limit in missed if limit.accepted is False]
        return self.check_failures() + budgets

    def check_failures(self) -> list[str]:
        """List the checks that failed or did not run, one line each; budgets of the process are not among them."""
        own = {"averaging": ("function",), "network": ("network",), "matrix": ("matrix",)}[self.kind]
        network = ("onn",) if self.kind == "averaging" else ()
        stages = (*network, "factor", "chip", "drc", "lvs", *own)
        failures = [f"{stage}: not run" for stage in stages if getattr(self, stage) is None]
        drc, function = self.drc, self.function
        if drc is not None and drc.rules == 0:
            failures.append("drc: no rule ran")
        if drc is not None and drc.violations:
            failures.append(f"drc: {drc.violations:,} violations of {drc.rules} rules")
        if drc is not None and drc.not_run:
            failures.append(f"drc: {drc.not_run:,} of {drc.rules} rules not run")
        if self.lvs is not None and not self.lvs.match:
            failures.append("lvs: the extracted circuit differs from the netlist")
        if serious := sum(fault.affects_function for fault in self.faults):
            failures.append(f"layout: {serious:,} faults that can affect the function and are not simulated")
        if function is not None and function.inputs == 0:
            failures.append("function: no input was tried")
        if function is not None and function.exact != function.inputs:
            failures.append(f"function: {function.inputs - function.exact:,} of {function.inputs:,} words wrong")
        return [*failures, *self.network_failures(), *self._matrix_failures()]

    def network_failures(self) -> list[str]:
        """List the limits that the chip of a general network does not reach; empty for other chips."""
        task, network, failures = self.task, self.network, []
        if not isinstance(task, GeneralTaskNumbers) or network is None:
            return []
        if network.samples == 0:
            failures.append("network: no sample was tried")
        if network.agreement < task.agreement:
            failures.append(
                f"network: chip and network agree on {network.agreement:.3%} of {network.samples:,} samples, required "
                f"are {task.agreement:.3%}"
            )
        if task.accuracy is not None and (network.chip_accuracy is None or network.chip_accuracy < task.accuracy):
            found = "not known without labels" if network.chip_accuracy is None else f"{network.chip_accuracy:.2%}"
            failures.append(f"network: the accuracy of the chip is {found}, required are {task.accuracy:.2%}")
        error = network.chip_rms_error
        if task.rms_error is not None and (error is None or error > task.rms_error):
            found = "not known without outputs" if error is None else f"{error:.4g}"
            failures.append(f"network: the rms error of the chip is {found}, allowed are {task.rms_error:.4g}")
        return failures

    def _matrix_failures(self) -> list[str]:
        if not isinstance(self.task, MatrixTaskNumbers) or self.matrix is None:
            return []
        error, tolerance = self.matrix.worst_error, self.task.tolerance
        if error <= tolerance:
            return []
        wrong = f"an entry is wrong by {format_percent(error)} of the largest"
        return [f"matrix: {wrong}, the tolerance is {format_percent(tolerance)}"]

    @property
    def limits(self) -> dict[str, LimitNumbers]:
        """Budgets of the process by name; empty if the chip was not programmed."""
        return {} if self.chip is None else self.chip.limits or {}

    @property
    def accepted(self) -> list[str]:
        """Missed budgets that were accepted, as text such as ``loss 54.1 of 24.2 dB``."""
        return [limit.text(name) for name, limit in self.limits.items() if limit.accepted]

    @property
    def verdict_text(self) -> str:
        """The verdict, with what a pass does not cover: words that were not tried, and accepted budgets."""
        sampled = ", the function on sampled words only" * (self.function is not None and self.function.sampled_only)
        return self.verdict + sampled + accepted_text(self.accepted if self.verdict == "pass" else ())

    @model_validator(mode="after")
    def _check_verdict(self) -> Self:
        if self.verdict == "pass" and (failures := self.failures()):
            raise ValueError(f"verdict: 'pass' contradicts {'; '.join(failures)}; say 'fail'")
        return self

    @property
    def kind(self) -> Literal["averaging", "network", "matrix"]:
        """What the chip was built for: the average of words, a general network, or a matrix."""
        return "averaging" if isinstance(self.task, TaskNumbers) else self.task.kind

    @property
    def averaging(self) -> TaskNumbers | None:
        """The averaging task; None for the chip of a general network or of a matrix."""
        return self.task if isinstance(self.task, TaskNumbers) else None

    def to_json(self) -> str:
        """Return the text of `report.json`: fields in the order of the schema, files sorted by name."""
        data = self.model_dump(by_alias=True)
        for other in ("network", "matrix"):
            if self.kind != other:
                del data[other]
        data["files"] = dict(sorted(self.files.items()))
        return json_text(data)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of a `report.json`.

        Raises:
            ValueError: Not JSON, a key is missing or unknown, or a value has a wrong type; the message names the field.
        """
        return cls.model_validate_json(text)


def accepted_text(accepted: Sequence[str]) -> str:
    """Format the accepted budgets as the end of a verdict; empty if there are none."""
    return f", accepted: {', '.join(accepted)}" if accepted else ""
