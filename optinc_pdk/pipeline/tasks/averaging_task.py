"""A network that averages words, as the task of a chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.assemble import CircuitDraft, draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.averaging.score import Score
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.networks import AveragingNetwork, LayerFactor, factorise, lattice_score, linked_network, output_notes
from optinc_pdk.networks.layers import ACTIVATIONS
from optinc_pdk.networks.requirements import check_gains, estimated_memory_gb
from optinc_pdk.pipeline.tasks.chip_task import (
    MOST_SAMPLES,
    NetworkTask,
    SizeEstimate,
    Stages,
    board_of,
    driven_errors,
    network_estimate,
)

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout
    from optinc_pdk.report.eye_diagrams import RateEyes
    from optinc_pdk.signoff.function import FunctionResult
    from optinc_pdk.simulate import Programming, Scattering
    from optinc_pdk.simulate.transmission.settling import LightSamples


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
class AveragingTask(NetworkTask):
    """The average of words, computed by a network.

    Attributes:
        given: Network that was read.
        process: Process with the options of this build.
        inputs: (M,) amplitude of level 3 of each symbol in the input fibres; None for the default.
    """

    given: AveragingNetwork
    process: Process
    inputs: Sequence[float] | None

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
        notes = output_notes(self.given, self._neurons)
        score, activation = self.score, self.given.activation
        if score.exact < score.inputs:
            other = next(one for one in ACTIVATIONS if one != activation)
            notes.append(
                f"network: without any error it computes {score.exact:,} of {score.inputs:,} inputs exactly, with the "
                f"activation {activation}; train it again, or, if its file does not state the activation, state "
                f"it: optinc task FILE --activation {other}"
            )
        return tuple(notes)

    def estimate(self) -> SizeEstimate:
        """Estimate the memory of the build."""
        return network_estimate(estimated_memory_gb(self.onn), self.onn.mzis)

    def factor(self) -> tuple[LayerFactor, ...]:
        """Factor the layers, and check that the electronics reach the gains that they need."""
        from optinc_pdk.budgets.light_budget import detection_losses

        factors = factorise(self.onn, self.inputs)
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

    def check(
        self, reference: Circuit, extracted: Circuit, programming: Programming, ground: SharedGround, stages: Stages
    ) -> AveragingResult:
        """Read the words of all inputs, and estimate the symbol rate if all are right."""
        from optinc_pdk.signoff.function import check_scattering
        from optinc_pdk.simulate import scattering

        board, bias, task = board_of(reference), programming.bias, self.onn.task
        with stages.stage("function"):
            wavelength = float(self.process.guide.wavelength_nm)
            s = scattering(extracted, bias, wavelength, self.process, ground=ground)
            function = check_scattering(
                s, board, bias, task, onn=self.given, on_progress=partial(stages.steps, "function")
            )
        speed, eyes = None, None
        if function.passed and self.process.noise is not None and self.process.budget is not None:
            with stages.stage("rate"):
                speed, eyes = _speed(s, board, bias, task, self.process)
        return AveragingResult(s, function, speed, eyes)

    def write(self, result: AveragingResult, stem: Path) -> None:
        """Write the table of words, ``.function.npz``."""
        from optinc_pdk.signoff.function import write_function

        write_function(result.function, stem.with_name(f"{stem.name}.function.npz"))

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
            "task": task_numbers(self.onn.task),
            "onn": {
                "structure": list(self.given.structure),
                "accuracy": self.score.accuracy,
                "margin": self.score.margin,
                "activation": self.onn.activation,
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

        lines = [] if result is None else function_findings(result.function, self.onn.activation)
        return lines + driven_errors(programming)

    def pictures(self, result: AveragingResult) -> dict[str, bytes]:
        """Return the picture of the outputs against their ideal levels."""
        from optinc_pdk.report.plots import outputs_png

        function, task = result.function, self.onn.task
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
        margins = output_margins(found.outputs[:, worst], found.levels[worst], self.onn.task.output_resolution)
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
    s: Scattering, board: Board, bias: Bias, task: Averaging, card: Process
) -> tuple[dict[str, Any], RateEyes | None]:
    """Estimate the highest symbol rate of the extracted chip, what limits it, and energy and eyes at this rate."""
    from optinc_pdk.report.build_numbers import speed_numbers
    from optinc_pdk.report.eye_diagrams import RateEyes
    from optinc_pdk.signoff.function import function_inputs
    from optinc_pdk.simulate.transmission.noise import missing_bandwidths
    from optinc_pdk.studies.error_estimate import error_margins
    from optinc_pdk.studies.eyes import eye_diagrams
    from optinc_pdk.studies.highest_rates import find_rate_limits, rates_without_limits
    from optinc_pdk.studies.link_energy import link_energy

    inputs = function_inputs(task)
    margins = error_margins(s, inputs, board, bias)
    limits = find_rate_limits(margins, card)
    named = limits.main_limit is not None or limits.symbol_rate_bd in (None, limits.highest_bd)
    without = None if named else rates_without_limits(margins, card, limits)
    energy = None if limits.symbol_rate_bd is None else link_energy(board, bias, task, card, limits.noise)
    eyes = None
    if limits.symbol_rate_bd is not None and not missing_bandwidths(card):
        eyes = RateEyes(eye_diagrams(s, inputs, board, bias, limits.noise, 0), limits.noise)
    return speed_numbers(limits, without, energy, len(margins.wrong)), eyes
