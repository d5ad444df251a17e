"""Virtual bench for the chip of a matrix: a sampled chip, observable only through the fields at its output fibres."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.simulate import prepare
from optinc_pdk.studies.calibration.virtual_bench import ReadingNoise
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampled_response import drive_step_v, sample_s_matrices
from optinc_pdk.studies.variation.sampling import ChipSample

CHUNK = 32
"""Heater settings that are simulated as one batch."""


class VirtualMatrixBench:
    """Simulated laboratory with one sampled chip; it implements :class:`matrix_tuning.MatrixBench`.

    Attributes:
        full_scale_v: Highest voltage of the drive.
        step_v: DAC step of the drive in volts; 0 if voltages are not rounded.
        settings: Number of heater settings applied so far.
    """

    def __init__(
        self,
        chip: NominalChip,
        sample: ChipSample,
        effective_bits: float | None,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        noise: ReadingNoise | None = None,
        seed: int = 0,
        averages: int = 1,
    ) -> None:
        """Set up the bench for one sample.

        Args:
            chip: The nominal chip.
            sample: Sampled device parameters.
            effective_bits: Effective bits of the drive's DACs; no rounding if None.
            inputs: Labels of the input fibres.
            outputs: Labels of the output fibres.
            noise: Noise of the readings of coherent receivers; none if None.
            seed: Seed of the noise.
            averages: Number of readings that each returned reading is the mean of.

        Raises:
            InputError: The number of bits is out of range.
        """
        self.full_scale_v = float(chip.process.drive.full_scale_v)
        self.step_v = 0.0 if effective_bits is None else drive_step_v(chip.process, effective_bits)
        self.settings = 0
        wavelength = float(chip.process.guide.wavelength_nm)
        plan = prepare(chip.structure, wavelength, chip.process, outs=outputs, ins=inputs)
        self._chip, self._sample, self._bits = replace(chip, plan=plan), sample, effective_bits
        self._noise, self._averages, self._random = noise, averages, np.random.default_rng(seed)

    def read(self, voltage_v: ArrayLike) -> Complexes:
        """Read the fields at all outputs for a field of 1 at one input at a time.

        Args:
            voltage_v: (S, H) voltages; the drive clips and rounds them.

        Returns:
            (S, m, n) fields.
        """
        rows = np.atleast_2d(np.asarray(voltage_v, dtype=np.float64))
        self.settings += len(rows)
        parts = [
            sample_s_matrices(self._chip, self._sample, rows[first : first + CHUNK], self._bits)[:, 0]
            for first in range(0, len(rows), CHUNK)
        ]
        fields = np.concatenate(parts)
        return fields + self._errors(fields.real) + 1j * self._errors(fields.imag)

    def _errors(self, field: Floats) -> Floats:
        """Draw the errors of averaged readings of one part of fields, by a receiver of its own."""
        if self._noise is None:
            return np.zeros_like(field)
        spread = np.sqrt(self._noise.field_variance(field) / self._averages)
        return np.asarray(spread * self._random.standard_normal(field.shape))
