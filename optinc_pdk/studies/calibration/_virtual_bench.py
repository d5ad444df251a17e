"""Virtual benches: a sampled chip, observable only through what a real bench can measure.

Inputs are heater voltages (through the drive's DACs) and the amplitudes of the sources; outputs are what photodiodes or
receivers read. The sampled device parameters are hidden. Calibration accepts any implementation of the protocols in
:mod:`optinc_pdk.studies.calibration._measurement`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.circuit import label_tuple
from optinc_pdk.errors import InputError
from optinc_pdk.simulate import prepare
from optinc_pdk.simulate.modulator_drive import modulator_of
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.studies.variation.nominal_chip import NominalChip, locked_phases
from optinc_pdk.studies.variation.sampled_response import drive_step_v, sample_s_matrices
from optinc_pdk.studies.variation.sampling import ChipSample
from optinc_pdk.validation import validate_type

CHUNK = 32
"""Heater settings that are simulated as one batch."""


class _DrivenSample:
    """A sampled chip at the drive of a bench; it implements :class:`_measurement.HeaterDrive`."""

    def __init__(
        self,
        chip: NominalChip,
        sample: ChipSample,
        effective_bits: float | None,
        outs: Sequence[str],
        ins: Sequence[str],
        noise: Noise | None,
        seed: int,
        averages: int,
    ) -> None:
        """Set up a sample of which only the S-parameters from ``ins`` to ``outs`` are needed.

        Raises:
            InputError: ``averages`` is below 1, the seed is below 0, or the number of bits is out of range.
        """
        if validate_type("Bench: averages", averages, int) < 1:
            raise InputError(f"averages is {averages}; give 1 or more")
        if validate_type("Bench: seed", seed, int) < 0:
            raise InputError(f"seed is {seed}; give a whole number from 0")
        self.full_scale_v = float(chip.process.drive.full_scale_v)
        self.step_v = 0.0 if effective_bits is None else drive_step_v(chip.process, effective_bits)
        self.settings, self.averages = 0, averages
        plan = prepare(chip.structure, float(chip.process.guide.wavelength_nm), chip.process, outs=outs, ins=ins)
        self._chip, self._sample, self._bits = replace(chip, plan=plan), sample, effective_bits
        self._noise, self._random = noise, np.random.default_rng(seed)

    def _s_matrices(self, voltage_v: Floats) -> Iterator[tuple[Floats, Complexes]]:
        """Yield the voltages of each batch of settings and its (S, outs, ins) S-matrices."""
        for first in range(0, len(voltage_v), CHUNK):
            rows = voltage_v[first : first + CHUNK]
            yield rows, sample_s_matrices(self._chip, self._sample, rows, self._bits)[:, 0]


class VirtualBench(_DrivenSample):
    """Simulated laboratory with one sampled chip on its board; it implements :class:`_measurement.BenchProtocol`.

    The sources are the fibre of each input, then the modulators of each neuron.

    Attributes:
        reuses_batches: Whether a setting that was read in the last batch of settings is not simulated again. The last
            bits of its readings may then differ.
        simulated_s: Processor time of the readings so far.
    """

    def __init__(
        self,
        chip: NominalChip,
        sample: ChipSample,
        effective_bits: float | None,
        noise: Noise | None = None,
        seed: int = 0,
        averages: int = 1,
    ) -> None:
        """Set up the bench for one sample.

        Args:
            chip: The nominal chip.
            sample: Sampled device parameters.
            effective_bits: Effective bits of the drive's DACs; no rounding if None.
            noise: Noise of the readings; none if None.
            seed: Seed of the noise.
            averages: Number of readings that each returned reading is the mean of.

        Raises:
            InputError: ``averages`` is below 1, the seed is below 0, or the number of bits is out of range.
        """
        board = chip.board
        inputs = tuple((label,) for row in board.inputs for label in row)
        self.channels = chip.structure.channel
        self.sources = inputs + tuple(label_tuple(neuron.to) for neuron in board.neurons)
        pairs = (label for n in board.neurons for names in (n.plus, n.minus) for label in label_tuple(names))
        # neurons may share detectors
        self.detectors = (*dict.fromkeys(pairs), *(label for row in board.outputs for label in row))
        # sources are in the order of the layers
        last = [neuron for neuron in board.neurons if neuron.layer == board.layers - 2]
        self._last_sources = len(last) if last else len(inputs)
        self._latest: tuple[Floats, Complexes] | None = None
        self.reuses_batches, self.simulated_s = False, 0.0
        labels = tuple(label for group in (board.unmodulated, *self.sources) for label in group)
        # on-chip modulators count as outputs too, for the carrier that they receive
        outputs = (*self.detectors, *(label for label in chip.structure.modulators if label in labels))
        super().__init__(chip, sample, effective_bits, outputs, labels, noise, seed, averages)

    def hold(self, sample: ChipSample) -> None:
        """Continue with other parameters of the chip on the bench, which has drifted."""
        self._sample, self._latest = sample, None

    def read(self, voltage_v: ArrayLike, amplitude: ArrayLike) -> Floats:
        """Read every photodiode for each heater setting and each pattern of source amplitudes, with the carrier on.

        Sources leak in quadrature as their modulators' extinction allows, as in operation.

        Args:
            voltage_v: (S, H) voltages; the drive clips and rounds them.
            amplitude: (P, F) amplitudes of the sources, 0 … 1.

        Returns:
            (S, P, D) optical power on each photodiode, relative to a source at full amplitude. For a coherent receiver,
            the square of the field in phase with its local oscillator, which is locked to the light of its own source
            at every heater setting, see :mod:`optinc_pdk.studies.variation.nominal_chip`.

        Raises:
            InputError: Shapes do not match, or an amplitude is outside 0 … 1.
        """
        start = time.process_time()
        voltage, pattern = np.atleast_2d(np.asarray(voltage_v, dtype=np.float64)), np.asarray(amplitude, dtype=float)
        if pattern.ndim != 2 or pattern.shape[1] != len(self.sources) or not np.all((pattern >= 0) & (pattern <= 1)):
            raise InputError(
                f"amplitudes have shape {pattern.shape}; give (patterns, {len(self.sources)} sources) of 0 … 1"
            )
        leaking = 1j * modulator_of(self._chip.process).leak * np.sqrt(1.0 - pattern**2)
        light = np.concatenate([np.ones((len(pattern), 1)), pattern + leaking], axis=1)
        read = np.concatenate([self._detected(light, response) for response in self._responses(voltage)])
        self.settings += len(read)
        coherent = slice(len(self.detectors) - len(self._chip.locked_sources), None)
        if self._noise is not None:
            variance = self._noise.variance(np.abs(read))
            if self._chip.board.coherent:
                variance[..., coherent] = self._noise.field_variance(read[..., coherent])
            read = read + np.sqrt(variance / self.averages) * self._random.standard_normal(read.shape)
        read[..., coherent] **= 2
        self.simulated_s += time.process_time() - start
        return read

    def _detected(self, light: Complexes, response: Complexes) -> Floats:
        """Return (S, P, D) powers, or fields of coherent receivers, for (P, 1 + F) light."""
        fields, sources = light @ response, self._chip.locked_sources
        read = np.asarray(np.abs(fields) ** 2)
        if receivers := len(sources):
            last = response[:, -self._last_sources :, -receivers:].swapaxes(1, 2)
            turned = np.exp(-1j * locked_phases(last, sources))
            read[..., -receivers:] = (fields[..., -receivers:] * turned[:, np.newaxis]).real
        return read

    def _responses(self, voltage_v: Floats) -> Iterator[Complexes]:
        """Yield, for each batch of S settings, (S, 1 + F, D) fields at the detectors from carrier and sources."""
        board = self._chip.board
        index_of = {label: i for i, label in enumerate(self._chip.plan.outs)}
        groups = (board.unmodulated, *self.sources)
        source_labels = [label for group in groups for label in group]
        row = np.array([index_of[label] for label in self.detectors])
        starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
        launched = np.array(list(board.launched.values()))
        # on-chip modulators emit a fraction of the carrier that reaches them
        driven = np.isin(source_labels, self._chip.structure.modulators)
        carrier_rows = np.array([index_of[label] for label in np.array(source_labels)[driven].tolist()], dtype=np.int64)
        known = self._latest is not None and (self.reuses_batches or len(self._latest[0]) == 1)
        if len(voltage_v) == 1 and self._latest is not None and known:
            for found in np.flatnonzero((self._latest[0] == voltage_v).all(axis=1))[:1].tolist():
                yield self._latest[1][found : found + 1]
                return
        for rows, s in self._s_matrices(voltage_v):
            strength = np.ones((len(s), len(source_labels)), dtype=np.complex128)
            strength[:, : launched.size] = launched
            strength[:, driven] = (s[:, carrier_rows, : launched.size] * launched).sum(axis=2)
            response = s[:, row] * strength[:, np.newaxis]
            fields = np.add.reduceat(response, starts, axis=2).swapaxes(1, 2)
            # words that pass several layers read one setting again and again
            self._latest = (rows.copy(), fields)
            yield fields


class VirtualMatrixBench(_DrivenSample):
    """Simulated laboratory with the chip of a matrix; it implements :class:`_measurement.MatrixBench`."""

    def __init__(
        self,
        chip: NominalChip,
        sample: ChipSample,
        effective_bits: float | None,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        noise: Noise | None = None,
        seed: int = 0,
        averages: int = 1,
    ) -> None:
        """Set up the bench for one sample; ``inputs`` and ``outputs`` are fibres, see :class:`VirtualBench`."""
        super().__init__(chip, sample, effective_bits, outputs, inputs, noise, seed, averages)

    def read(self, voltage_v: ArrayLike) -> Complexes:
        """Read the (S, m, n) fields at all outputs for (S, H) voltages and a field of 1 at one input at a time.

        The drive clips and rounds the voltages.
        """
        rows = np.atleast_2d(np.asarray(voltage_v, dtype=np.float64))
        self.settings += len(rows)
        fields = np.concatenate([s for _, s in self._s_matrices(rows)])
        return fields + self._errors(fields.real) + 1j * self._errors(fields.imag)

    def _errors(self, field: Floats) -> Floats:
        """Draw the errors of averaged readings of one part of fields, by a receiver of its own."""
        if self._noise is None:
            return np.zeros_like(field)
        spread = np.sqrt(self._noise.field_variance(field) / self.averages)
        return np.asarray(spread * self._random.standard_normal(field.shape))
