"""A network that averages words, as the task of a chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.assemble import CircuitDraft, draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.averaging.score import Score
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.io.chip_files import ChipFiles
from optinc_pdk.networks import AveragingNetwork, LayerFactor, factorise, lattice_score, linked_network, output_notes
from optinc_pdk.networks.layers import ACTIVATIONS
from optinc_pdk.networks.requirements import check_gains, estimated_memory_gb
from optinc_pdk.tasks.chip_task import (
    MOST_SAMPLES,
    Begin,
    Findings,
    Measurement,
    NetworkTask,
    SizeEstimate,
    Stages,
    Steps,
    board_of,
    driven_errors,
    driven_scattering,
    eye_findings,
    network_estimate,
    sweep_findings,
)

if TYPE_CHECKING:
    from optinc_pdk.arrays import Floats
    from optinc_pdk.layout import ChipLayout
    from optinc_pdk.options import Activation
    from optinc_pdk.report.eye_diagrams import RateEyes
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.signoff.function import FunctionResult
    from optinc_pdk.simulate import Programming, Scattering
    from optinc_pdk.simulate.transmission.settling import LightSamples
    from optinc_pdk.studies import NominalChip
    from optinc_pdk.studies.chip_checks import WordCheck
    from optinc_pdk.studies.drift.word_drift import WordDrift
    from optinc_pdk.studies.montecarlo.study import YieldStudy


_WORD_OPENING = (
    "smallest gap between readings of adjacent levels; 1 without noise at low rates, below 0 if the eye is closed"
)
_WORD_DEVIATION = "largest standard deviation of the readings of a level"


COUNTED_WORDS = 1 << 16
"""Words that a build counts at the highest symbol rate; ``optinc noise`` counts more."""


@dataclass(frozen=True, eq=False)
class AveragingResult:
    """Results of the check of a network.

    Attributes:
        s: S-parameters of the extracted chip.
        function: Words that the extracted chip reads.
        speed: Section ``speed`` of the report; None if words are wrong, or the process card does not state noise.
        eyes: Eye diagrams at the highest symbol rate; None without a useful rate or without bandwidths in the cards.
    """

    s: Scattering
    function: FunctionResult
    speed: dict[str, Any] | None
    eyes: RateEyes | None


@dataclass(frozen=True, eq=False)
class AveragingTask(NetworkTask[tuple[LayerFactor, ...], AveragingResult]):
    """The average of words, computed by a network.

    Attributes:
        process: Process with the options of this build.
        averaging: The average.
        activation: Activation of the network's hidden layers.
        network: Network that was read; None if the task is that of a report, which contains no network.
        inputs: (M,) amplitude of level 3 of each symbol in the input fibres; None for the default.
        source: File of the network with a colon, for messages; empty if there is none.
    """

    process: Process
    averaging: Averaging
    activation: Activation
    network: AveragingNetwork | None
    inputs: Sequence[float] | None = None
    source: str = ""

    options = frozenset({"activation", "input_amplitudes", "link", "receivers", "oscillator_w", "target"})
    ending = ".function.npz"

    @staticmethod
    def of(
        network: AveragingNetwork, process: Process, inputs: Sequence[float] | None = None, source: str = ""
    ) -> AveragingTask:
        """Return the task of a network.

        Raises:
            InputError: The amplitudes are not one for each symbol, or out of range.
        """
        symbols = network.task.symbols
        if inputs is not None and (len(inputs) != symbols or not all(0.0 < amplitude <= 1.0 for amplitude in inputs)):
            raise InputError(
                f"input amplitudes {[float(a) for a in inputs]}: give {symbols}, one for each symbol, above 0 and "
                "at most 1, the carrier's amplitude"
            )
        return AveragingTask(process, network.task, network.activation, network, inputs, source)

    @property
    def given(self) -> AveragingNetwork:
        """The network that was read.

        Raises:
            InputError: It is not known.
        """
        if self.network is None:
            raise InputError("this command needs the network, which no report contains: give the file with --weights")
        return self.network

    @property
    def digest(self) -> str | None:
        """Digest of the network."""
        return None if self.network is None else self.network.digest

    @property
    def _neurons(self) -> bool:
        return self.process.link.kind == "neurons"

    @cached_property
    def onn(self) -> AveragingNetwork:
        """The network with the output neurons that the link needs."""
        return linked_network(self.given, self._neurons)

    @cached_property
    def score(self) -> Score:
        """What the network computes in floating point."""
        return lattice_score(self.given)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the build adds to the network, and whether the network is exact."""
        from optinc_pdk.simulate.modulator_drive import drive_notes

        notes = [*self.given.remarks, *drive_notes(self.process), *output_notes(self.given, self._neurons)]
        score, activation = self.score, self.activation
        if score.exact < score.inputs:
            others = " or ".join(one for one in ACTIVATIONS if one != activation)
            notes.append(
                f"network: without any error it computes {score.exact:,} of {score.inputs:,} inputs exactly, with the "
                f"activation {activation}; train it again, or, if it was trained with another one, state it: "
                f"--activation {others}"
            )
        return tuple(notes)

    def estimate(self) -> SizeEstimate:
        """Estimate the memory of the build."""
        return network_estimate(estimated_memory_gb(self.onn), self.onn.mzis)

    def factor(self) -> tuple[LayerFactor, ...]:
        """Factor the layers, and check that the electronics reach the gains that they need."""
        from optinc_pdk.budgets.light_budget import detection_losses
        from optinc_pdk.simulate.modulator_drive import check_activation

        check_activation(self.onn.activation, self.process)
        factors = factorise(self.onn, self.inputs, self.process.activation.analogue_swing)
        check_gains(factors, self.process, detection_losses(self.onn, self.process))
        return factors

    def draft(self, factors: tuple[LayerFactor, ...], name: str) -> CircuitDraft:
        """Assemble the circuit, which the shapes of the layers determine."""
        return draft_circuit(self.onn, self.process, name)

    def program(
        self, reference: Circuit, extracted: Circuit, factors: tuple[LayerFactor, ...], ground: SharedGround
    ) -> Programming:
        """Find the bias of the extracted circuit on the board of its netlist."""
        from optinc_pdk.simulate import program

        return program(
            extracted, board_of(reference), self.given, self.process, ground=ground, factors=factors, inputs=self.inputs
        )

    def read_chip(self, files: ChipFiles) -> tuple[AveragingTask, ExtractedChip]:
        """Extract a chip that averages words."""
        from optinc_pdk.signoff.extracted_chip import read_extracted_chip
        from optinc_pdk.signoff.function import check_board

        chip = read_extracted_chip(files.gds, files.netlist, files.bias, self.process)
        check_board(chip.board, self.averaging)
        return self, chip

    def check(self, chip: ExtractedChip, steps: Steps) -> AveragingResult:
        """Read the words of all inputs, or of random ones and corner cases; networks of comparators are certified."""
        from optinc_pdk.signoff.function import check_scattering

        s = driven_scattering(chip, self.process)
        function = check_scattering(s, chip.board, chip.bias, self.averaging, onn=self.network, on_progress=steps)
        return AveragingResult(s, function, None, None)

    def rated(self, result: AveragingResult, chip: ExtractedChip, stages: Stages) -> AveragingResult:
        """Return the result with the symbol rate, if all words are right and the process card states the noise."""
        if not result.function.passed or self.process.noise is None or self.process.budget is None:
            return result
        with stages.stage("rate"):
            speed, eyes = _speed(result.s, chip, self.averaging, self.process)
        return replace(result, speed=speed, eyes=eyes)

    def write(self, result: AveragingResult, path: Path) -> None:
        """Write the table of words."""
        from optinc_pdk.signoff.function import write_function

        write_function(result.function, path)

    def check_findings(self, result: AveragingResult) -> Findings:
        """Return exact words and margins."""
        from optinc_pdk.report.build_numbers import function_numbers
        from optinc_pdk.report.findings import function_basis, function_findings

        words = result.function
        lines = (
            f"{words.exact:,}/{words.inputs:,} words exact, margin {words.margin:.3f} levels",
            "margins by symbol: " + ", ".join(f"{margin:.3f}" for margin in words.symbol_margins),
            function_basis(words),
            *function_findings(words, self.activation),
        )
        return Findings(function_numbers(words) or {}, lines, words.passed)

    def nominal_check(self, chip: NominalChip, share: float = 1.0) -> WordCheck:
        """Return the check of words, calibrated to the network if it is known."""
        from optinc_pdk.studies.chip_checks import WordCheck

        return WordCheck(chip, self.averaging, self.network, share)

    def drift(self, work: YieldStudy) -> WordDrift:
        """Return how words drift, with tracking."""
        from optinc_pdk.studies.drift.word_drift import WordDrift

        return WordDrift(work)

    def noise_stages(self, how: Measurement) -> tuple[str, ...]:
        """Return the names of the stages of :meth:`noise`."""
        return ("light", *super().noise_stages(how), "highest rate", "oscillators")

    def noise(self, chip: ExtractedChip, how: Measurement, name: str, begin: Begin) -> Findings:
        """Count wrong words, and estimate the highest rate, what limits it, and its energy."""
        from optinc_pdk.report.noise_curve import curve_csv, curve_lines, curve_png
        from optinc_pdk.signoff.function import function_inputs
        from optinc_pdk.studies.latency import link_latency, near_scattering
        from optinc_pdk.studies.link_energy import link_energy
        from optinc_pdk.studies.noise_curves import word_error_curve
        from optinc_pdk.studies.oscillators import oscillator_rates

        task, process, names = self.averaging, self.process, how.rate_names
        begin("light")
        s, board, bias = how.light(chip, process)
        curve = word_error_curve(
            s,
            board,
            bias,
            task,
            process,
            how.rates_bd,
            how.laser_w,
            how.passes,
            how.seed,
            lambda rate: begin("highest rate" if rate is None else names[rate]),
        )
        begin("oscillators")
        against = oscillator_rates(s, function_inputs(task), board, bias, process, how.laser_w)
        limits, energy, latency = curve.limits, None, None
        if limits.symbol_rate_bd is not None:
            energy = link_energy(board, bias, task, process, limits.noise)
            latency = link_latency(s, near_scattering(chip, bias, process), board, process, limits.symbol_rate_bd)
        numbers = {
            **curve.to_json(),
            "energy": None if energy is None else energy.to_json(),
            "latency": None if latency is None else asdict(latency),
            "oscillators": against.to_json(),
        }
        lines = tuple(curve_lines(curve, against, energy, latency))
        return Findings(numbers, lines, picture=curve_png(curve, name), table=curve_csv(curve))

    def sweep(self, chip: ExtractedChip, grid_nm: Floats, name: str, **options: Any) -> Findings:
        """Sweep the carrier's wavelength; also with fibres that match the delays of the local oscillators."""
        from optinc_pdk.studies.spectrum.sweep import SweptChip, sweep_wavelength

        subject = SweptChip(chip.circuit, chip.board, chip.bias, self.given, self.process, chip.ground)
        return sweep_findings(sweep_wavelength(subject, grid_nm, **options), grid_nm, name)

    def check_levels(self) -> None:
        """Accept: words have levels."""

    def eyes_at(self, chip: ExtractedChip, how: Measurement, name: str) -> Findings:
        """Draw the eyes of hidden rows and of the first server's outputs."""
        from optinc_pdk.signoff.function import function_inputs
        from optinc_pdk.simulate.transmission.noise import noise_choices
        from optinc_pdk.studies.error_estimate import error_margins, estimate_errors
        from optinc_pdk.studies.eyes import eye_diagrams
        from optinc_pdk.studies.highest_rates import best_noise

        s, board, bias = how.light(chip, self.process)
        inputs = function_inputs(self.averaging)
        margins = error_margins(s, inputs, board, bias)
        noise = best_noise(margins, noise_choices(self.process, how.laser_w, how.rates_bd[0]))
        rate = estimate_errors(margins, noise).rate
        eyes = eye_diagrams(s, inputs, board, bias, noise, how.seed)
        text = f"estimated word-error rate {rate:.2g}; relative to the distance of adjacent levels:"
        return eye_findings(eyes, noise, board, name, {"word_error_rate": rate}, (text, _WORD_OPENING, _WORD_DEVIATION))

    def sections(
        self,
        factors: tuple[LayerFactor, ...],
        reference: Circuit,
        chip: ChipLayout,
        programming: Programming | None,
        result: AveragingResult | None,
    ) -> dict[str, Any]:
        """Return the sections of the report about task, network, factors, chip, function and speed."""
        from optinc_pdk.report.build_numbers import chip_numbers, factor_numbers, function_numbers, task_numbers

        function, speed = (None, None) if result is None else (result.function, result.speed)
        return {
            "task": task_numbers(self.averaging),
            "onn": {
                "structure": list(self.given.structure),
                "accuracy": self.score.accuracy,
                "margin": self.score.margin,
                "activation": self.activation,
                "sha256": self.given.digest,
            },
            "factor": factor_numbers(self.given, factors),
            "chip": chip_numbers(reference, chip, self.onn, self.process, programming, function, speed),
            "function": function_numbers(function),
            "speed": speed,
        }

    def findings(self, programming: Programming | None, result: AveragingResult | None) -> list[str]:
        """List wrong words and matrix errors."""
        from optinc_pdk.report.findings import function_findings

        lines = [] if result is None else function_findings(result.function, self.activation)
        return lines + driven_errors(programming)

    def pictures(self, result: AveragingResult) -> dict[str, bytes]:
        """Return the picture of the outputs against their ideal levels."""
        from optinc_pdk.report.plots import outputs_png

        function, task = result.function, self.averaging
        levels = np.broadcast_to(function.levels[np.newaxis, :, np.newaxis], function.outputs.shape)
        outputs = outputs_png(
            function.outputs.reshape(-1, task.symbols),
            levels.reshape(-1, task.symbols).astype(float),
            task.output_resolution,
        )
        return {"outputs": outputs}

    def eyes(self, result: AveragingResult) -> RateEyes | None:
        """Return the eye diagrams at the highest symbol rate."""
        return result.eyes

    def light(self, reference: Circuit, programming: Programming, result: AveragingResult) -> LightSamples:
        """Return the light of words of the check: first, last, that with the smallest margin, and some between."""
        from optinc_pdk.averaging.score import output_margins
        from optinc_pdk.simulate.transmission.reception import server_amplitudes
        from optinc_pdk.simulate.transmission.settling import sample_network, spread_rows

        board, found = board_of(reference), result.function
        worst = int(np.argmin(found.margins.min(axis=1)))
        rows = spread_rows(len(found.rows), MOST_SAMPLES, also=worst)
        # of the assignments of symbols to servers, the first; of the worst word, the one with its smallest margin
        assignments = np.zeros(rows.size, dtype=np.int64)
        margins = output_margins(found.outputs[:, worst], found.levels[worst], self.averaging.output_resolution)
        assignments[rows == worst] = int(np.argmin(margins.min(axis=(1, 2))))
        symbols = found.symbols[assignments, rows]
        remarks = {int(rows[0]): "first", int(rows[-1]): "last"} | {worst: "smallest margin"}
        titles = tuple(
            _word_title(int(found.rows[row]), sent, remarks.get(row))
            for row, sent in zip(rows.tolist(), symbols, strict=True)
        )
        inputs = server_amplitudes(symbols, board, programming.bias)
        return sample_network(titles, inputs, result.s, board, programming.bias)


def _word_title(number: int, symbols: Any, remark: str | None) -> str:
    """Return the name of an input: its number, and the symbols of each server."""
    servers = ", ".join(" ".join(f"{symbol:g}" for symbol in server) for server in symbols.tolist())
    return f"input {number:,}{f' ({remark})' if remark else ''}: {servers}"


def _speed(
    s: Scattering, chip: ExtractedChip, task: Averaging, card: Process
) -> tuple[dict[str, Any], RateEyes | None]:
    """Estimate the highest symbol rate of a chip, what limits it, and energy, latency and eyes at this rate."""
    from optinc_pdk.report.build_numbers import speed_numbers
    from optinc_pdk.report.eye_diagrams import RateEyes
    from optinc_pdk.signoff.function import function_inputs
    from optinc_pdk.simulate.transmission.noise import missing_bandwidths
    from optinc_pdk.studies.error_estimate import error_margins
    from optinc_pdk.studies.eyes import eye_diagrams
    from optinc_pdk.studies.highest_rates import find_rate_limits, rates_without_limits
    from optinc_pdk.studies.latency import link_latency, near_scattering
    from optinc_pdk.studies.link_energy import link_energy
    from optinc_pdk.studies.noise_curves import confirmed_limits
    from optinc_pdk.studies.system_budget import system_budget

    inputs, board, bias = function_inputs(task), chip.board, chip.bias
    margins = error_margins(s, inputs, board, bias)
    limits = confirmed_limits(find_rate_limits(margins, card), s, inputs, board, bias, COUNTED_WORDS)
    named = limits.main_limit is not None or limits.symbol_rate_bd in (None, limits.highest_bd)
    without = None if named else rates_without_limits(margins, card, limits)
    energy = latency = eyes = effects = None
    if limits.symbol_rate_bd is not None:
        energy = link_energy(board, bias, task, card, limits.noise)
        longer = near_scattering(chip, bias, card)
        latency = link_latency(s, longer, board, card, limits.symbol_rate_bd)
        effects = system_budget(s, longer, inputs, board, bias, card, margins, limits.noise)
    if limits.symbol_rate_bd is not None and not missing_bandwidths(card):
        eyes = RateEyes(eye_diagrams(s, inputs, board, bias, limits.noise, 0), limits.noise)
    return speed_numbers(limits, without, energy, latency, effects, len(margins.wrong)), eyes
