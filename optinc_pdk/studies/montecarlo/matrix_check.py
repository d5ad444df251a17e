"""Comparison of sampled chips with a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.assemble import matrix_labels
from optinc_pdk.matrices import MatrixTarget, compare_matrices
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.studies.calibration.matrix_tuning import MatrixSetting, retune_matrix, tune_matrix
from optinc_pdk.studies.calibration.virtual_matrix_bench import VirtualMatrixBench
from optinc_pdk.studies.montecarlo.check_outcome import Quantity
from optinc_pdk.studies.montecarlo.sample_noise import BENCH_AVERAGES, SampleConditions
from optinc_pdk.studies.montecarlo.sample_study import AFTER
from optinc_pdk.studies.noisy_outputs import SIGNAL_TO_NOISE, NoisyMatrix
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampling import ChipSample


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

    @property
    def noise_quantities(self) -> tuple[Quantity, ...]:
        """Signal-to-noise ratios of the outputs for random vectors."""
        return SIGNAL_TO_NOISE

    def header(self) -> dict[str, Any]:
        """Return what the comparison depends on."""
        target = self.target
        return {"kind": "matrix", "sha256": target.digest, "read": target.read, "tolerance": target.tolerance}

    def stated_setting(self, chip: NominalChip) -> MatrixSetting:
        """Return the voltages of the bias file; sources and receivers are equal."""
        return MatrixSetting(chip.voltage_v, np.ones(self.target.outputs), np.ones(self.target.inputs))

    def calibrated(
        self, chip: NominalChip, sample: ChipSample, conditions: SampleConditions
    ) -> Mapping[str, MatrixSetting]:
        """Tune a sample on a bench that reads fields."""
        return {AFTER: tune_matrix(self._bench(chip, sample, conditions), chip, self.target)}

    def recalibrated(
        self, chip: NominalChip, sample: ChipSample, conditions: SampleConditions, setting: MatrixSetting
    ) -> tuple[MatrixSetting, int]:
        """Tune a sample that has drifted, from its setting."""
        bench = self._bench(chip, sample, conditions)
        return retune_matrix(bench, chip, self.target, setting.voltage_v), bench.settings

    def _bench(self, chip: NominalChip, sample: ChipSample, conditions: SampleConditions) -> VirtualMatrixBench:
        noise, averages = conditions.noise, BENCH_AVERAGES
        labels = matrix_labels(self.target)
        return VirtualMatrixBench(chip, sample, conditions.bits, *labels, noise, conditions.seed, averages)

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
