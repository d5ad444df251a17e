"""A network without an averaging task, such as a classifier, as the task of a chip."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.assemble import CircuitDraft, draft_circuit
from optinc_pdk.cards import Process, with_field_outputs
from optinc_pdk.circuit import Bias, Board, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.networks import GeneralNetwork, LayerFactor, NetworkComparison, factorise
from optinc_pdk.networks.requirements import check_gains, circuit_memory_gb
from optinc_pdk.pipeline.tasks.chip_task import (
    MOST_SAMPLES,
    NetworkTask,
    SizeEstimate,
    Stages,
    board_of,
    driven_errors,
    network_estimate,
)
from optinc_pdk.pipeline.tasks.sources import CheckedNetwork

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout
    from optinc_pdk.report.eye_diagrams import RateEyes
    from optinc_pdk.signoff.function import ChipLight
    from optinc_pdk.simulate import Programming, Scattering
    from optinc_pdk.simulate.transmission.settling import LightSamples

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
class GeneralTask(NetworkTask):
    """A general network between input fibres and receivers of fields.

    Attributes:
        source: The network that was read, with its data and limits.
        stated: Process as its cards state it.
    """

    source: CheckedNetwork
    stated: Process

    @property
    def given(self) -> GeneralNetwork:
        """The network that was read, with the inputs over which its signals are scaled."""
        return self.source.network

    @cached_property
    def process(self) -> Process:
        """Process whose outputs are read as signed fields."""
        return with_field_outputs(self.stated)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the weight file's card states and data without labels or outputs cannot show."""
        if self.source.data.kind != "inputs":
            return ()
        return tuple(
            f"the card of the network states {name} = {self.given.card[name]}, which was not checked: give data with y"
            for name in ("accuracy", "rms_error")
            if name in self.given.card
        )

    def estimate(self) -> SizeEstimate:
        """Estimate the memory of the build."""
        return network_estimate(circuit_memory_gb(self.given), self.given.mzis)

    def factor(self) -> tuple[LayerFactor, ...]:
        """Factor the layers, and check that the electronics reach the gains that they need."""
        from optinc_pdk.budgets.light_budget import detection_losses

        check_gains(self._factors, self.process, detection_losses(self.given, self.process))
        return self._factors

    @cached_property
    def _factors(self) -> tuple[LayerFactor, ...]:
        return factorise(self.given)

    def draft(self, factors: tuple[LayerFactor, ...], name: str) -> CircuitDraft:
        """Assemble the circuit, which the shapes of the layers determine."""
        return draft_circuit(self.given, self.process, name)

    def program(
        self, reference: Circuit, extracted: Circuit, factors: tuple[LayerFactor, ...], ground: SharedGround
    ) -> Programming:
        """Find the bias of the extracted circuit on the board of its netlist, and trim its offsets."""
        from optinc_pdk.simulate import program, scattering, trim_offsets

        board, process = board_of(reference), self.process
        found = program(extracted, board, self.given, process, ground=ground, factors=factors)
        s = scattering(extracted, found.bias, float(process.guide.wavelength_nm), process, ground=ground)
        return replace(found, bias=trim_offsets(s, board, found.bias, self.given, factors, process))

    def check(
        self, reference: Circuit, extracted: Circuit, programming: Programming, ground: SharedGround, stages: Stages
    ) -> GeneralResult:
        """Send all samples through the extracted chip, and compare its outputs with those of the network."""
        with stages.stage("function"):
            return check_network(
                extracted, board_of(reference), programming.bias, self.source, self.process, ground=ground
            )

    def write(self, result: GeneralResult, stem: Path) -> None:
        """Write inputs and outputs of all samples, ``.network.npz``."""
        write_network(result.comparison, stem.with_name(f"{stem.name}.network.npz"))

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
            "task": general_task_numbers(self.given, self.source.data, self.source.limits),
            "factor": factor_numbers(self.given, factors),
            "chip": general_chip_numbers(reference, chip, self.process, programming, light),
            "network": None if result is None else network_numbers(self.given, result.comparison, result.saturated),
        }

    def findings(self, programming: Programming | None, result: GeneralResult | None) -> list[str]:
        """List why the network fails, what the data says of it, saturated modulators and matrix errors."""
        from optinc_pdk.report.findings import network_findings

        lines = []
        if result is not None:
            lines = network_findings(result.comparison, result.saturated, self.given, self._factors)
        return lines + driven_errors(programming)

    def pictures(self, result: GeneralResult) -> dict[str, bytes]:
        """Return the picture of the confusion matrix, or of the chip's outputs against the network's."""
        from optinc_pdk.report.plots import network_png

        return {"network": network_png(result.comparison)}

    def eyes(self, result: GeneralResult) -> RateEyes | None:
        """Return no eye diagrams: symbol rates are estimated for averages only."""
        return None

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


def check_network(
    circuit: Circuit, board: Board, bias: Bias, source: CheckedNetwork, process: Process, ground: SharedGround | None
) -> GeneralResult:
    """Send samples through an extracted circuit, driven by the DAC codes of a bias, and compare it with its network.

    Args:
        circuit: Extracted circuit.
        board: Connections outside the chip.
        bias: DAC codes, settings of neurons and receivers, and scales of the inputs.
        source: The network, the samples and the limits.
        process: Process of the circuit.
        ground: Ground rise that results from the heaters' currents; None for no ground rise.

    Raises:
        InputError: Circuit, board, bias and network do not belong together, or a sample is beyond what an input sends.
    """
    from optinc_pdk.signoff.function import chip_light
    from optinc_pdk.simulate import scattering, transmit_vectors
    from optinc_pdk.simulate.transmission.reception import check_vector_board

    check_vector_board(board, source.network.task)
    s = scattering(circuit, bias, float(process.guide.wavelength_nm), process, ground=ground)
    received = transmit_vectors(source.data.x, s, board, bias)
    expected = source.network.forward(source.data.x)
    comparison = NetworkComparison(source.data, source.limits, expected, received.outputs)
    return GeneralResult(s, comparison, received.saturated, chip_light(s, board))


def write_network(found: NetworkComparison, path: Path) -> None:
    """Write inputs and outputs of all samples to a ``.network.npz`` file, atomically.

    Args:
        found: Outputs of chip and network.
        path: The file.
    """
    given, stream = found.data.outputs if found.data.labels is None else found.data.labels, io.BytesIO()
    arrays: dict[str, Any] = {
        "schema": np.array(SCHEMA),
        "x": found.data.x,
        "network": found.expected,
        "chip": np.round(found.outputs / found.largest, DIGITS) * found.largest,
    }
    np.savez_compressed(stream, **arrays | ({} if given is None else {"y": given}))
    write_atomic(path, stream.getvalue())
