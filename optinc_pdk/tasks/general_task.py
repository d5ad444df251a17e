"""A network without an averaging task, such as a classifier, as the task of a chip."""

from __future__ import annotations

import io
import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.assemble import CircuitDraft, draft_circuit
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.io.chip_files import ChipFiles
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.networks import (
    GeneralNetwork,
    LayerFactor,
    NetworkComparison,
    NetworkData,
    NetworkLimits,
    factorise,
)
from optinc_pdk.networks.requirements import check_gains, circuit_memory_gb
from optinc_pdk.tasks.chip_task import (
    MOST_SAMPLES,
    Begin,
    Findings,
    Measurement,
    NetworkTask,
    SizeEstimate,
    Steps,
    board_of,
    driven_errors,
    driven_scattering,
    eye_findings,
    network_estimate,
    noise_findings,
)

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.signoff.function import ChipLight
    from optinc_pdk.simulate import Programming, Scattering
    from optinc_pdk.simulate.transmission.settling import LightSamples
    from optinc_pdk.studies import NominalChip
    from optinc_pdk.studies.chip_checks import NetworkCheck
    from optinc_pdk.studies.noisy_outputs import NoisyNetwork

_CLASS_OPENING = (
    "twice the smallest distance of a reading from 0, above which the class is read; below 0 if the eye is closed"
)
_CLASS_DEVIATION = "standard deviation of the readings from those without noise"
SCHEMA = 1
DIGITS = 9
"""Decimal places of outputs in the file, relative to the largest: the last bits of a sparse solution vary."""


@dataclass(frozen=True, eq=False)
class GeneralResult:
    """Results of the check of a general network.

    Attributes:
        s: S-parameters of the extracted chip.
        comparison: Outputs of chip and network.
        saturated: Number of modulator amplitudes above 1, which were limited to 1.
        light: Losses, and power of the local oscillators.
    """

    s: Scattering
    comparison: NetworkComparison
    saturated: int
    light: ChipLight


@dataclass(frozen=True, eq=False)
class GeneralTask(NetworkTask[tuple[LayerFactor, ...], GeneralResult]):
    """A general network between input fibres and receivers of fields.

    Attributes:
        process: Process whose outputs are read as signed fields.
        network: The network that was read; its signals are scaled over the samples.
        data: The samples that the chip is checked with.
        limits: What the chip must reach.
        source: File of the network with a colon, for messages; empty if there is none.
    """

    process: Process
    network: GeneralNetwork
    data: NetworkData
    limits: NetworkLimits
    source: str = ""

    options = frozenset({"activation", "data", "agreement", "accuracy", "tolerance", "oscillator_w"})
    ending = ".network.npz"

    @property
    def digest(self) -> str:
        """Digest of the network."""
        return self.network.digest

    @property
    def notes(self) -> tuple[str, ...]:
        """What the weight file's card states and data without labels or outputs cannot show."""
        from optinc_pdk.simulate.modulator_drive import drive_notes

        remarks = self.network.remarks + drive_notes(self.process)
        if self.data.kind != "inputs":
            return remarks
        return remarks + tuple(
            f"the card of the network states {name} = {self.network.card[name]}, which was not checked: give data "
            "with y"
            for name in ("accuracy", "rms_error")
            if name in self.network.card
        )

    def check_report(self, gds: Path) -> None:
        """Refuse a layout whose report states that the chip averages words.

        For weights of its shape, the message has the command that states the task.
        """
        from optinc_pdk.report.build_files import REBUILD, parse_report, report_path

        path = report_path(gds)
        report = parse_report(path, REBUILD) if path.exists() else None
        if report is None or gds.name not in report.files or report.averaging is None or report.onn is None:
            return
        task, structure = report.averaging, tuple(report.onn.structure)
        says = f"{self.source}states no averaging task, and {path} says that the chip averages words"
        if self.network.structure != structure:
            shapes = ["-".join(map(str, sizes)) for sizes in (structure, self.network.structure)]
            raise InputError(f"{says} with a network of {shapes[0]} units, not {shapes[1]}; give the chip's weights")
        weights = self.source.removesuffix(": ")
        words = ["optinc", "task", weights, "--bits", task.bits, "--servers", task.servers, "--groups", task.groups]
        words += [f"--{name.replace('_', '-')}" for name in ("remainder", "finer_input") if getattr(task, name)]
        words += ["-o", f"{Path(weights).stem}_{task.bits}bit_{task.servers}servers.npz"]
        raise InputError(f"{says}: {shlex.join(map(str, words))}")

    def estimate(self) -> SizeEstimate:
        """Estimate the memory of the build."""
        return network_estimate(circuit_memory_gb(self.network), self.network.mzis)

    def factor(self) -> tuple[LayerFactor, ...]:
        """Factor the layers, and check that the electronics reach the gains that they need."""
        from optinc_pdk.budgets.light_budget import detection_losses
        from optinc_pdk.simulate.modulator_drive import check_activation

        check_activation(self.network.activation, self.process)
        check_gains(self._factors, self.process, detection_losses(self.network, self.process))
        return self._factors

    @cached_property
    def _factors(self) -> tuple[LayerFactor, ...]:
        return factorise(self.network, swing=self.process.activation.analogue_swing)

    def draft(self, factors: tuple[LayerFactor, ...], name: str) -> CircuitDraft:
        """Assemble the circuit, which the shapes of the layers determine."""
        return draft_circuit(self.network, self.process, name)

    def program(
        self, reference: Circuit, extracted: Circuit, factors: tuple[LayerFactor, ...], ground: SharedGround
    ) -> Programming:
        """Find the bias of the extracted circuit on the board of its netlist, and trim its offsets."""
        from optinc_pdk.simulate import program, scattering, trim_offsets

        board, process = board_of(reference), self.process
        found = program(extracted, board, self.network, process, ground=ground, factors=factors)
        s = scattering(extracted, found.bias, float(process.guide.wavelength_nm), process, ground=ground)
        return replace(found, bias=trim_offsets(s, board, found.bias, self.network, factors, process))

    def read_chip(self, files: ChipFiles) -> tuple[GeneralTask, ExtractedChip]:
        """Extract a chip whose board has the network's inputs and outputs."""
        from optinc_pdk.signoff.extracted_chip import read_extracted_chip
        from optinc_pdk.simulate.transmission.reception import check_vector_board

        chip = read_extracted_chip(files.gds, files.netlist, files.bias, self.process)
        try:
            check_vector_board(chip.board, self.network.task)
        except InputError as fault:
            raise InputError(f"{self.source}{fault}") from fault
        return self, chip

    def check(self, chip: ExtractedChip, steps: Steps) -> GeneralResult:
        """Send all samples through the extracted chip, and compare its outputs with those of the network.

        Raises:
            InputError: A sample is beyond what an input sends.
        """
        from optinc_pdk.signoff.function import chip_light
        from optinc_pdk.simulate import transmit_vectors

        s = driven_scattering(chip, self.process)
        received = transmit_vectors(self.data.x, s, chip.board, chip.bias)
        expected = self.network.forward(self.data.x)
        comparison = NetworkComparison(self.data, self.limits, expected, received.outputs)
        return GeneralResult(s, comparison, received.saturated, chip_light(s, chip.board))

    def write(self, result: GeneralResult, path: Path) -> None:
        """Write inputs and outputs of all samples."""
        found, stream = result.comparison, io.BytesIO()
        given = found.data.outputs if found.data.labels is None else found.data.labels
        arrays: dict[str, Any] = {
            "schema": np.array(SCHEMA),
            "x": found.data.x,
            "network": found.expected,
            "chip": np.round(found.outputs / found.largest, DIGITS) * found.largest,
        }
        np.savez_compressed(stream, **arrays | ({} if given is None else {"y": given}))
        write_atomic(path, stream.getvalue())

    def check_findings(self, result: GeneralResult) -> Findings:
        """Return agreement, accuracy and deviations."""
        from optinc_pdk.report.build_numbers import network_numbers
        from optinc_pdk.report.findings import network_findings
        from optinc_pdk.report.schema import NetworkNumbers
        from optinc_pdk.report.summary import network_line

        found = result.comparison
        numbers = network_numbers(self.network, found, result.saturated)
        # decompositions of whole matrices are exact, and take long
        approximate = not all(isinstance(method, str) for method in self.network.factor)
        lines = network_findings(found, result.saturated, self.network, self._factors if approximate else ())
        return Findings(numbers, (network_line(NetworkNumbers.model_validate(numbers)), *lines), found.passed)

    def nominal_check(self, chip: NominalChip, share: float = 1.0) -> NetworkCheck:
        """Return the comparison with the network over the data."""
        from optinc_pdk.studies.chip_checks import NetworkCheck

        return NetworkCheck.of(chip, self.network, self.data, self.limits)

    def noise_stages(self, how: Measurement) -> tuple[str, ...]:
        """Return the names of the stages of :meth:`noise`."""
        return ("light", *super().noise_stages(how))

    def noise(self, chip: ExtractedChip, how: Measurement, name: str, begin: Begin) -> Findings:
        """Compare the outputs with those of the network over the data at every symbol rate."""
        begin("light")
        return noise_findings(self._noisy(chip, how), self.process, how, name, begin)

    def check_levels(self) -> None:
        """Refuse data without labels: only classes have levels."""
        if self.data.labels is None:
            given = "the data has no labels" if self.data.outputs is None else "the data has outputs instead of labels"
            raise InputError(
                f"is a general network, and {given}: only the classes of a classifier are levels with an eye; give "
                "--data with labels y, whole numbers; for other networks use optinc noise, which compares outputs "
                "against the symbol rate"
            )

    def eyes_at(self, chip: ExtractedChip, how: Measurement, name: str) -> Findings:
        """Draw the eyes of the classes."""
        from optinc_pdk.studies.eyes import WORDS, class_eyes
        from optinc_pdk.studies.noisy_outputs import operating_noise

        noise = operating_noise(self.process, how.laser_w, how.rates_bd[0])
        found = class_eyes(self._noisy(chip, how), noise, how.seed)
        text = (
            f"the class of the network is read for {found.agreement:.2%} of {WORDS:,} samples; lead of each output "
            "over the others, relative to the distance of its two levels:"
        )
        lines = (text, _CLASS_OPENING, _CLASS_DEVIATION)
        return eye_findings(found.eyes, noise, chip.board, name, {"agreement": found.agreement}, lines)

    def _noisy(self, chip: ExtractedChip, how: Measurement) -> NoisyNetwork:
        from optinc_pdk.studies.noisy_outputs import NoisyNetwork

        return NoisyNetwork(*how.light(chip, self.process), self.network, self.data, self.limits)

    def sections(
        self,
        factors: tuple[LayerFactor, ...],
        reference: Circuit,
        chip: ChipLayout,
        programming: Programming | None,
        result: GeneralResult | None,
    ) -> dict[str, Any]:
        """Return the sections of the report about task, factors, chip and network."""
        from optinc_pdk.report.build_numbers import (
            factor_numbers,
            general_chip_numbers,
            general_task_numbers,
            network_numbers,
        )

        light = None if result is None else result.light
        return {
            "task": general_task_numbers(self.network, self.data, self.limits),
            "factor": factor_numbers(self.network, factors),
            "chip": general_chip_numbers(reference, chip, self.process, programming, light),
            "network": None if result is None else network_numbers(self.network, result.comparison, result.saturated),
        }

    def findings(self, programming: Programming | None, result: GeneralResult | None) -> list[str]:
        """List why the network fails, what the data says of it, saturated modulators and matrix errors."""
        from optinc_pdk.report.findings import network_findings

        lines = []
        if result is not None:
            lines = network_findings(result.comparison, result.saturated, self.network, self._factors)
        return lines + driven_errors(programming)

    def pictures(self, result: GeneralResult) -> dict[str, bytes]:
        """Return the picture of the confusion matrix, or of the chip's outputs against the network's."""
        from optinc_pdk.report.plots import network_png

        return {"network": network_png(result.comparison)}

    def light(self, reference: Circuit, programming: Programming, result: GeneralResult) -> LightSamples:
        """Return the light of samples: first, last, that with the largest deviation, and some between."""
        from optinc_pdk.simulate.transmission.reception import input_amplitudes
        from optinc_pdk.simulate.transmission.settling import sample_network, spread_rows

        board, x, bias = board_of(reference), result.comparison.data.x, programming.bias
        worst = int(np.argmax(result.comparison.deviations))
        rows = spread_rows(len(x), MOST_SAMPLES, also=worst)
        remarks = {0: " (first)", len(x) - 1: " (last)"} | {worst: " (largest deviation)"}
        titles = tuple(f"sample {row:,}{remarks.get(row, '')}" for row in rows.tolist())
        return sample_network(titles, input_amplitudes(x[rows], board, bias), result.s, board, bias)
