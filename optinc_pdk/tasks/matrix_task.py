"""A matrix as the task of a chip."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.assemble import (
    MatrixDraft,
    MatrixForm,
    draft_matrix,
    factor_for_chip,
    matrix_form,
    matrix_labels,
)
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.factor import MeshShape
from optinc_pdk.io.chip_files import ChipFiles
from optinc_pdk.io.formatting import format_percent
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.matrices import (
    READINGS,
    RECTANGLE,
    MatrixComparison,
    MatrixFactor,
    MatrixTarget,
    compare_matrices,
    factor_matrix,
)
from optinc_pdk.networks.requirements import BASE_GB, HEATER_GB
from optinc_pdk.tasks.chip_task import (
    MOST_SAMPLES,
    Begin,
    ChipTask,
    Findings,
    Measurement,
    SizeEstimate,
    Steps,
    driven_scattering,
    noise_findings,
    refuse_options,
)

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout
    from optinc_pdk.report.matrix_pictures import MatrixMap
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.simulate import MatrixProgramming
    from optinc_pdk.simulate.transmission.settling import LightSamples
    from optinc_pdk.studies import NominalChip
    from optinc_pdk.studies.chip_checks import MatrixCheck

SCHEMA = 1
NOTABLE_LOSS_DB = 30.0
"""Insertion loss from which a finding says that little light is left. Engineering default."""


@dataclass(frozen=True, eq=False)
class MatrixTask(ChipTask[MatrixFactor, "MatrixProgramming", MatrixComparison]):
    """A matrix between input and output fibres.

    Attributes:
        process: Process.
        target: The matrix, how it is read, and its tolerance.
        shape: Shape of the meshes.
        source: File of the matrix with a colon, for messages; empty if there is none.
        form: Form of an existing chip, which the factors must have; None for a new chip.
        read_given: Whether the user said how the outputs are read.
        stated: Report of an existing chip, how it states that they are read, and the digest; None if it does not.
    """

    process: Process
    target: MatrixTarget
    shape: MeshShape = RECTANGLE
    source: str = ""
    form: MatrixForm | None = None
    read_given: bool = True
    stated: tuple[Path, str, str] | None = None

    options = frozenset({"tolerance", "read", "mesh", "extra_columns"})
    ending = ".matrix.npz"

    @property
    def digest(self) -> str:
        """Digest of the matrix and its reading."""
        return self._as_stated.digest

    @property
    def notes(self) -> tuple[str, ...]:
        """No remarks: a build does not change the matrix."""
        return ()

    def estimate(self) -> SizeEstimate:
        """Estimate the memory of the build from the two meshes that it may need."""
        m, n = self.target.matrix.shape
        mzis = sum(self.shape.positions(modes)[0].size for modes in (m, n))
        heaters = 2 * mzis + min(m, n) + m
        return SizeEstimate(
            BASE_GB + HEATER_GB * heaters,
            f"a chip for a {m} × {n} matrix",
            "use a machine with more memory, or a smaller matrix",
        )

    def factor(self) -> MatrixFactor:
        """Factor the matrix into meshes and attenuators.

        Raises:
            InputError: An existing chip has one mesh, and the matrix is not unitary; or it has too few attenuators.
        """
        if self.form is None:
            return factor_matrix(self.target, self.process, self.shape)
        try:
            return factor_for_chip(self.target, self.form, self.process)
        except InputError as fault:
            raise InputError(f"{self.source}{fault}") from fault

    def draft(self, factors: MatrixFactor, name: str) -> MatrixDraft:
        """Assemble fibres, meshes, attenuators and output phase shifters."""
        return draft_matrix(self.target, factors, self.process, name)

    def fitted_to(self, circuit: Circuit, where: str) -> MatrixTask:
        """Return the task with the meshes of an existing chip, read as its report states, or else as it allows."""
        form, matrix = matrix_form(circuit.ports), self.target.matrix
        if matrix.shape != (form.outputs, form.inputs):
            takes = (
                f"takes matrices of shape ({form.outputs}, {form.inputs})"
                if form.outputs and form.inputs
                else "is not the chip of a matrix"
            )
            raise InputError(
                f"{self.source}the matrix has shape {matrix.shape}, and {where} {takes}; give a matrix of the chip's "
                "shape, or build a chip for it"
            )
        return replace(self, target=self._as_read(form), shape=form.shape, form=form)

    def _as_read(self, form: MatrixForm) -> MatrixTarget:
        """Return the matrix, read as given, as the report states or, if this does not fit a chip, as it allows."""
        if self.read_given or (self.stated is not None and (self.stated[1] == "field") is form.has_phases):
            return self._as_stated
        return self.target if form.has_phases else replace(self.target, read="power")

    @property
    def _as_stated(self) -> MatrixTarget:
        """The matrix, read as the report states unless the user said how."""
        reading = next((each for each in READINGS if self.stated is not None and each == self.stated[1]), None)
        if self.read_given or self.stated is None or reading is None:
            return self.target
        try:
            return replace(self.target, read=reading)
        except InputError as fault:
            raise InputError(
                f"{self.source}{fault}; {self.stated[0]} states that the chip is read as {reading!r}"
            ) from fault

    def too_large(self, size: str) -> InputError:
        """Return the error for a chip that is larger than the dies of the process; ``size`` says how large it is."""
        from optinc_pdk.budgets.limits import largest_die

        m, n = self.target.matrix.shape
        wide, high = (length / 1e3 for length in largest_die(self.process))
        remedies = ["use a smaller matrix"]
        if self.shape.extra_columns:
            remedies.insert(0, f"use fewer redundant columns than {self.shape.extra_columns} (--extra-columns)")
        if "bump" not in self.process.devices:
            remedies.append("a process with bumps such as --process soi220_flipchip")
        return InputError(
            f"{self.source}the chip of this {m} × {n} matrix {size}, the largest die of process {self.process.name!r} "
            f"is {wide:g} × {high:g} mm; {', or '.join(remedies)}"
        )

    def program(
        self, reference: Circuit, extracted: Circuit, factors: MatrixFactor, ground: SharedGround
    ) -> MatrixProgramming:
        """Find the bias of the extracted circuit."""
        from optinc_pdk.simulate import program_matrix

        return program_matrix(extracted, self.target, self.process, factors, ground=ground)

    def read_chip(self, files: ChipFiles) -> tuple[MatrixTask, ExtractedChip]:
        """Extract the chip of a matrix of this shape, with the phase shifters that the reading needs."""
        from optinc_pdk.signoff.extracted_chip import read_extracted_matrix_chip
        from optinc_pdk.simulate.programming.matrix_program import check_matrix_chip

        chip = read_extracted_matrix_chip(files.gds, files.netlist, files.bias, self.process)
        form = matrix_form([*chip.circuit.ports, *chip.bias.labels])
        task = replace(self, target=self._as_read(form))
        try:
            check_matrix_chip(chip.circuit.name, form, task.target)
        except InputError as fault:
            raise InputError(f"{self.source}{fault}") from fault
        return task, chip

    def check(self, chip: ExtractedChip, steps: Steps) -> MatrixComparison:
        """Compare the matrix of the extracted chip, from input to output fibres, with the target."""
        inputs, outputs = matrix_labels(self.target)
        return compare_matrices(driven_scattering(chip, self.process).between(outputs, inputs)[0], self.target)

    def write(self, result: MatrixComparison, path: Path) -> None:
        """Write target, fields and scale of the chip."""
        stream = io.BytesIO()
        np.savez_compressed(
            stream,
            schema=np.array(SCHEMA),
            target=self.target.matrix,
            # rounded relative to the largest field, because the last bits of a sparse solution vary
            chip=np.round(result.matrix / self.target.norm, 9) * self.target.norm,
            scale=np.array(float(f"{result.scale:.9g}")),
            read=np.array(self.target.read),
        )
        write_atomic(path, stream.getvalue())

    def check_findings(self, result: MatrixComparison) -> Findings:
        """Return errors, fidelity and loss."""
        from optinc_pdk.report.build_numbers import comparison_numbers

        wrong, limit = format_percent(result.worst), format_percent(self.target.tolerance)
        row, column = result.worst_entry
        line = (
            f"largest error of an entry {wrong} (output {row}, input {column}; limit {limit}), fidelity "
            f"{min(result.fidelity, 1.0):.6f}, insertion loss {result.insertion_loss_db:.2f} dB"
        )
        return Findings(comparison_numbers(result), (line,), result.passed)

    def nominal_check(self, chip: NominalChip, share: float = 1.0) -> MatrixCheck:
        """Return the comparison with the matrix."""
        from optinc_pdk.studies.chip_checks import MatrixCheck

        return MatrixCheck(chip, self.target)

    def refuse_for_noise(self, tolerance: float | None) -> None:
        """Refuse a tolerance: signal-to-noise ratios have no limit."""
        refuse_options("a general network", tolerance=tolerance)

    def noise_stages(self, how: Measurement) -> tuple[str, ...]:
        """Return the names of the stages of :meth:`noise`."""
        return ("light", *super().noise_stages(how))

    def noise(self, chip: ExtractedChip, how: Measurement, name: str, begin: Begin) -> Findings:
        """Multiply random vectors at every symbol rate."""
        from optinc_pdk.studies.noisy_outputs import NoisyMatrix

        begin("light")
        outputs = NoisyMatrix.of(driven_scattering(chip, self.process), self.target)
        return noise_findings(outputs, self.process, how, name, begin)

    def check_levels(self) -> None:
        """Refuse: the outputs of a matrix have no levels."""
        raise InputError(
            "contains a matrix, whose outputs are sums of all inputs and have no levels, so that there is no eye: use "
            "optinc noise, which compares outputs against the symbol rate"
        )

    def eyes_at(self, chip: ExtractedChip, how: Measurement, name: str) -> Findings:
        """Refuse, as :meth:`check_levels`."""
        self.check_levels()
        raise AssertionError

    def sections(
        self,
        factors: MatrixFactor,
        reference: Circuit,
        chip: ChipLayout,
        programming: MatrixProgramming | None,
        result: MatrixComparison | None,
    ) -> dict[str, Any]:
        """Return the sections of the report about task, factors, chip and matrix."""
        from optinc_pdk.report.build_numbers import (
            matrix_chip_numbers,
            matrix_factor_numbers,
            matrix_numbers,
            matrix_task_numbers,
        )

        return {
            "task": matrix_task_numbers(self.target, self.shape),
            "factor": matrix_factor_numbers(self.target, factors),
            "chip": matrix_chip_numbers(reference, chip, self.target, self.process, programming, result),
            "matrix": matrix_numbers(factors, programming, result),
        }

    def findings(self, programming: MatrixProgramming | None, result: MatrixComparison | None) -> list[str]:
        """List an error beyond the tolerance with its cause, and a large loss."""
        if programming is None or result is None:
            return []
        lines = []
        if not result.passed:
            row, column = result.worst_entry
            wrong, limit = format_percent(result.worst), format_percent(self.target.tolerance)
            remedy = ""
            if programming.clipped and self.form is None:
                # without the option, a build takes two meshes where the couplers limit one
                remedy = "; redundant columns, extra_columns = 2 (--extra-columns 2), often reach them"
            if remedy and self.shape.extra_columns:
                remedy = (
                    f"; leave extra_columns = {self.shape.extra_columns} (--extra-columns) out, so that two meshes are "
                    "taken where one does not suffice"
                )
            lines.append(
                f"matrix: the entry of output {row} and input {column} is wrong by {wrong} of the largest entry, the "
                f"tolerance is {limit}; {_cause(programming, result)}{remedy}"
            )
        if result.insertion_loss_db > NOTABLE_LOSS_DB:
            lines.append(
                f"matrix: the chip loses {result.insertion_loss_db:.1f} dB more than an ideal one; the errors are "
                "relative to the light that is left"
            )
        return lines

    def pictures(self, result: MatrixComparison) -> dict[str, bytes]:
        """Return the picture of target, chip and difference."""
        from optinc_pdk.report.matrix_pictures import matrix_png

        return {"matrix": matrix_png(result)}

    def matrices(self, programming: MatrixProgramming, result: MatrixComparison) -> list[MatrixMap]:
        """Return the matrix, divided by its common scale."""
        from optinc_pdk.report.matrix_pictures import MatrixMap

        return [MatrixMap("Matrix", result.target.matrix, result.matrix)]

    def sources(self, reference: Circuit) -> dict[str, tuple[str, ...]]:
        """Return the labels of the inputs."""
        return {"inputs": matrix_labels(self.target)[0]}

    def light(self, reference: Circuit, programming: MatrixProgramming, result: MatrixComparison) -> LightSamples:
        """Return the light of single inputs: first, last, that of the worst entry, and some between."""
        from optinc_pdk.simulate.transmission.settling import LightSamples, spread_rows

        inputs, _ = matrix_labels(self.target)
        worst = int(result.worst_entry[1])
        rows = spread_rows(len(inputs), MOST_SAMPLES, also=worst)
        titles = tuple(f"light into {inputs[row]}{' (worst entry)' if row == worst else ''}" for row in rows.tolist())
        return LightSamples(titles, inputs, np.eye(len(inputs), dtype=np.complex128)[rows])


def _cause(programming: MatrixProgramming, result: MatrixComparison) -> str:
    """Name what limits the accuracy: the codes, the couplers' range, or reflections and losses of the devices."""
    if programming.fitted.worst <= result.target.tolerance:
        return (
            f"before the phases were rounded to {programming.bias.dac_bits}-bit codes it was "
            f"{format_percent(programming.fitted.worst)}"
        )
    clipped = f"{programming.clipped:,} MZIs need splittings that the couplers cannot reach; " * bool(
        programming.clipped
    )
    return f"{clipped}reflections and unequal losses of the devices leave this much at the fitted phases"
