"""A network without an averaging task, such as a classifier, as the task of a chip."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.assemble import CircuitDraft, draft_circuit
from optinc_pdk.cards import Process, with_field_outputs
from optinc_pdk.chip_tasks.chip_task import SizeEstimate, Stages, board_of
from optinc_pdk.circuit import Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.file_writing import write_atomic
from optinc_pdk.onn import (
    GeneralNetwork,
    LayerFactor,
    NetworkComparison,
    NetworkData,
    NetworkLimits,
    factorise,
    without_output_bias,
)
from optinc_pdk.onn.build_memory import circuit_memory_gb
from optinc_pdk.onn.conditioning import check_gains
from optinc_pdk.onn.output_bias import output_bias_notes

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout
    from optinc_pdk.signoff.function import ChipLight
    from optinc_pdk.simulate import Programming

SCHEMA = 1
DIGITS = 9
"""Decimal places of outputs in the file, relative to the largest: the last bits of a sparse solution vary."""


@dataclass(frozen=True, eq=False)
class GeneralResult:
    """Results of the check of a general network.

    Attributes:
        comparison: Outputs of chip and network.
        saturated: Number of modulator amplitudes above 1, which were limited to 1.
        light: Losses, and power of the local oscillators.
    """

    comparison: NetworkComparison
    saturated: int
    light: ChipLight


@dataclass(frozen=True, eq=False)
class GeneralTask:
    """A general network between input fibres and receivers of fields.

    Attributes:
        given: Network that was read, with the inputs over which its signals are scaled.
        data: Samples that the check sends.
        limits: What the chip must reach.
        stated: Process as its cards state it.
    """

    given: GeneralNetwork
    data: NetworkData
    limits: NetworkLimits
    stated: Process

    @cached_property
    def process(self) -> Process:
        """Process whose outputs are read as signed fields."""
        return with_field_outputs(self.stated)

    @cached_property
    def onn(self) -> GeneralNetwork:
        """The network with the constant unit that supplies its output biases."""
        return without_output_bias(self.given)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the build adds to the network."""
        return tuple(output_bias_notes(self.given))

    def estimate(self) -> SizeEstimate:
        """Estimate the memory of the build."""
        return SizeEstimate(
            circuit_memory_gb(self.onn),
            f"a chip of {self.onn.mzis:,} MZIs",
            "use a machine with more memory, fewer or narrower layers, or 'factor' with smaller blocks",
        )

    def factor(self) -> tuple[LayerFactor, ...]:
        """Factor the layers, and check that the electronics reach the gains that they need."""
        from optinc_pdk.report.detection_loss import detection_losses

        factors = factorise(self.onn)
        check_gains(factors, self.process, detection_losses(self.onn, self.process))
        return factors

    def draft(self, factors: tuple[LayerFactor, ...], name: str) -> CircuitDraft:
        """Assemble the circuit, which the shapes of the layers determine."""
        return draft_circuit(self.onn, self.process, name)

    def check_layout(self, chip: ChipLayout) -> None:
        """Accept every layout: networks beyond the dies are drawn, and the design rules refuse them."""

    def program(
        self, reference: Circuit, extracted: Circuit, factors: tuple[LayerFactor, ...], ground: SharedGround
    ) -> Programming:
        """Find the bias of the extracted circuit on the board of its netlist."""
        from optinc_pdk.simulate import program

        return program(extracted, board_of(reference), self.given, self.process, ground=ground, factors=factors)

    def check(
        self, reference: Circuit, extracted: Circuit, programming: Programming, ground: SharedGround, stages: Stages
    ) -> GeneralResult:
        """Send all samples through the extracted chip, and compare its outputs with those of the network."""
        from optinc_pdk.signoff.function import chip_light
        from optinc_pdk.simulate import scattering, transmit_vectors

        board, bias = board_of(reference), programming.bias
        with stages.stage("function"):
            wavelength = float(self.process.guide.wavelength_nm)
            s = scattering(extracted, bias, wavelength, self.process, ground=ground)
            received = transmit_vectors(self.data.x, s, board, bias)
            expected = self.given.forward(self.data.x)
            comparison = NetworkComparison(self.data, self.limits, expected, received.outputs)
            return GeneralResult(comparison, received.saturated, chip_light(s, board))

    def write(self, result: GeneralResult, stem: Path) -> None:
        """Write inputs and outputs of all samples, ``.network.npz``."""
        found, stream = result.comparison, io.BytesIO()
        given = self.data.labels if self.data.labels is not None else self.data.outputs
        arrays: dict[str, Any] = {
            "schema": np.array(SCHEMA),
            "x": self.data.x,
            "network": found.expected,
            "chip": np.round(found.outputs / found.largest, DIGITS) * found.largest,
        }
        np.savez_compressed(stream, **arrays | ({} if given is None else {"y": given}))
        write_atomic(stem.with_name(f"{stem.name}.network.npz"), stream.getvalue())

    def sections(
        self,
        factors: tuple[LayerFactor, ...],
        reference: Circuit,
        chip: ChipLayout,
        programming: Programming | None,
        result: GeneralResult | None,
    ) -> dict[str, Any]:
        """Return the sections of the report about task, factors, chip and network."""
        from optinc_pdk.report.build_numbers import factor_numbers
        from optinc_pdk.report.network_numbers import general_chip_numbers, general_task_numbers, network_numbers

        light = None if result is None else result.light
        return {
            "task": general_task_numbers(self.given, self.data, self.limits),
            "factor": factor_numbers(self.onn, factors),
            "chip": general_chip_numbers(reference, chip, self.process, programming, light),
            "network": None if result is None else network_numbers(self.given, result.comparison, result.saturated),
        }

    def findings(self, programming: Programming | None, result: GeneralResult | None) -> list[str]:
        """List why the network fails, what the data says of it, saturated modulators and matrix errors."""
        from optinc_pdk.report.network_numbers import network_findings

        lines = [] if result is None else network_findings(result.comparison, result.saturated, self.given.activation)
        if programming is not None:
            errors = ", ".join(f"{error:.1e}" for error in programming.driven_error)
            lines.append(f"matrix error as driven, rms over the 2-norm, by layer: {errors}")
        return lines

    def pictures(self, result: GeneralResult) -> dict[str, bytes]:
        """Return the picture of the confusion matrix, or of the chip's outputs against the network's."""
        from optinc_pdk.report.network_picture import network_png

        return {"network": network_png(result.comparison)}
