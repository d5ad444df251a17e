"""Comparison of sampled chips with a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.assemble import matrix_labels
from optinc_pdk.matrices import MatrixTarget, compare_matrices
from optinc_pdk.simulate import Scattering
from optinc_pdk.tolerance.calibration.matrix_tuning import MatrixSetting, tune_matrix
from optinc_pdk.tolerance.calibration.virtual_matrix_bench import VirtualMatrixBench
from optinc_pdk.tolerance.montecarlo.check_outcome import Quantity
from optinc_pdk.tolerance.montecarlo.sample_study import AFTER
from optinc_pdk.tolerance.variation.nominal_chip import NominalChip
from optinc_pdk.tolerance.variation.sampling import ChipSample


@dataclass(frozen=True, eq=False)
class MatrixCheck:
    """The fields at the output fibres, compared with a matrix up to common scale and free phases.

    Attributes:
        target: The matrix, how it is read, and its tolerance.
    """

    target: MatrixTarget

    tuned_stages = (AFTER,)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Errors of the entries, fidelity and loss, as of a build."""
        return (
            Quantity("worst_error", "largest error of an entry", "%", True, self.target.tolerance),
            Quantity("insertion_loss_db", "insertion loss", "dB"),
            Quantity("rms_error", "rms error of the entries", "%"),
            Quantity("fidelity", "fidelity", rising=False),
        )

    def header(self) -> dict[str, Any]:
        """Return what the comparison depends on."""
        target = self.target
        return {"kind": "matrix", "sha256": target.digest, "read": target.read, "tolerance": target.tolerance}

    def stated_setting(self, chip: NominalChip) -> MatrixSetting:
        """Return the voltages of the bias file; sources and receivers are equal."""
        return MatrixSetting(chip.voltage_v, np.ones(self.target.outputs), np.ones(self.target.inputs))

    def calibrated(self, chip: NominalChip, sample: ChipSample, bits: float | None) -> Mapping[str, MatrixSetting]:
        """Tune a sample on a bench that reads fields."""
        bench = VirtualMatrixBench(chip, sample, bits, *matrix_labels(self.target))
        return {AFTER: tune_matrix(bench, chip, self.target)}

    def measured(self, s: Scattering, setting: MatrixSetting) -> tuple[bool, Mapping[str, float]]:
        """Compare the matrix of a biased sample with the target."""
        inputs, outputs = matrix_labels(self.target)
        found = compare_matrices(setting.equalised(s.between(outputs, inputs)[0]), self.target)
        return found.passed, {
            "worst_error": found.worst,
            "insertion_loss_db": found.insertion_loss_db,
            "rms_error": found.rms,
            "fidelity": found.fidelity,
        }
