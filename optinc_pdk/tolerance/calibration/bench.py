"""A virtual bench: a sampled chip with electronics around it, of which only what a real bench shows can be seen.

Voltages go in through the drive's converters, amplitudes through the modulators; readings of photodiodes come out.
What the chip is made of stays inside. Calibration takes whatever keeps to
:class:`optinc_pdk.tolerance.calibration.measure.Laboratory`, of which this is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arguments import of_type
from optinc_pdk.circuit import labels
from optinc_pdk.files import InputError
from optinc_pdk.simulate import prepare
from optinc_pdk.tolerance.variation.chip import Chip
from optinc_pdk.tolerance.variation.draw import Sample
from optinc_pdk.tolerance.variation.truth import drive_step_v, fields

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

CHUNK = 32
"""Settings of the heaters that are solved side by side."""


class ReadingNoise(Protocol):
    """What readings scatter by."""

    def variance(self, power: Floats) -> Floats:
        """Variance of a reading, in units of a field of amplitude 1 squared, for the light that a detector sees."""
        ...


class Bench:
    """One sampled chip on its board.

    Attributes:
        channels: (H,) pad labels of the heaters, in the order of voltages.
        sources: (F,) labels of what is modulated alike: each input's fibre, then each neuron's modulators.
        detectors: (D,) labels of the photodiodes.
        full_scale_v: Highest voltage of the drive.
        step_v: Step of the drive's voltages; 0 where they are not rounded.
        settings: Settings of the heaters made so far.
        readings: Readings of single photodiodes taken so far, averages counted.
    """

    def __init__(
        self,
        chip: Chip,
        sample: Sample,
        effective_bits: float | None,
        noise: ReadingNoise | None = None,
        seed: int = 0,
        averages: int = 1,
    ) -> None:
        """Put a sample on the bench.

        Args:
            chip: The chip as drawn.
            sample: What it became.
            effective_bits: Of the drive's converters; voltages are not rounded without.
            noise: What readings scatter by; nothing where left out.
            seed: Of that scatter.
            averages: Readings of which each returned one is the mean.

        Raises:
            InputError: No whole number of readings from 1, no seed from 0, or bits that no drive has.
        """
        if of_type("Bench: averages", averages, int) < 1:
            raise InputError(f"averages is {averages}; a reading is the mean of 1 or more")
        if of_type("Bench: seed", seed, int) < 0:
            raise InputError(f"seed is {seed}; give a whole number from 0")
        board = chip.board
        inputs = tuple((label,) for row in board.inputs for label in row)
        self.channels = chip.structure.channel
        self.sources = inputs + tuple(labels(neuron.to) for neuron in board.neurons)
        pairs = (label for n in board.neurons for names in (n.plus, n.minus) for label in labels(names))
        self.detectors = (*pairs, *(label for row in board.outputs for label in row))
        self.full_scale_v = float(chip.process.drive.full_scale_v)
        self.step_v = 0.0 if effective_bits is None else drive_step_v(chip.process, effective_bits)
        self.settings = 0
        self.readings = 0
        self._chip, self._sample, self._bits = _between(chip, self.sources, self.detectors), sample, effective_bits
        self._noise, self._averages = noise, averages
        self._random = np.random.default_rng(seed)

    def read(self, voltage_v: ArrayLike, amplitude: ArrayLike) -> Floats:
        """Read every photodiode for some settings of the heaters and some patterns of light; the carrier is on.

        Args:
            voltage_v: (S, H) voltages, rounded and cut to what the drive can make.
            amplitude: (P, F) amplitudes of the sources, 0 … 1.

        Returns:
            (S, P, D) light on each photodiode, in units of a source's at full amplitude.

        Raises:
            InputError: Shapes that do not fit, or an amplitude that no modulator has.
        """
        voltage, pattern = np.atleast_2d(np.asarray(voltage_v, dtype=np.float64)), np.asarray(amplitude, dtype=float)
        if pattern.ndim != 2 or pattern.shape[1] != len(self.sources) or not np.all((pattern >= 0) & (pattern <= 1)):
            raise InputError(
                f"amplitudes have shape {pattern.shape}; give (patterns, {len(self.sources)} sources) of 0 … 1"
            )
        light = np.concatenate([np.ones((len(pattern), 1)), pattern], axis=1).astype(np.complex128)
        power = np.concatenate([np.abs(light @ response) ** 2 for response in self._responses(voltage)])
        self.settings += len(power)
        self.readings += self._averages * power.size
        if self._noise is not None:
            scatter = np.sqrt(self._noise.variance(power) / self._averages)
            power = power + scatter * self._random.standard_normal(power.shape)
        return power

    def _responses(self, voltage_v: Floats) -> Iterator[Complexes]:
        """Per chunk, (S, 1 + F, D) fields at the detectors from the carrier and from each source."""
        board = self._chip.board
        place = {label: i for i, label in enumerate(self._chip.plan.outs)}
        groups = (board.steady, *self.sources)
        sent = [label for group in groups for label in group]
        row = np.array([place[label] for label in self.detectors])
        starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
        # modulators on the chip let out a share of the carrier that reaches them
        driven = np.isin(sent, self._chip.structure.modulators)
        supplied = np.array([place[label] for label in np.array(sent)[driven].tolist()], dtype=np.int64)
        for first in range(0, len(voltage_v), CHUNK):
            s = fields(self._chip, self._sample, voltage_v[first : first + CHUNK], self._bits)[:, 0]
            strength = np.ones((len(s), len(sent)), dtype=np.complex128)
            strength[:, driven] = s[:, supplied, : len(board.steady)].sum(axis=2)
            light = s[:, row] * strength[:, np.newaxis]
            yield np.add.reduceat(light, starts, axis=2).swapaxes(1, 2)


def _between(chip: Chip, sources: Sequence[Sequence[str]], detectors: Sequence[str]) -> Chip:
    """The chip solved for the ways that a bench shows: from carrier and sources, in this order, to photodiodes.

    Modulators on the chip are looked at too, for the carrier that they let out.
    """
    sent = tuple(label for group in (chip.board.steady, *sources) for label in group)
    seen = (*detectors, *(label for label in chip.structure.modulators if label in sent))
    wavelength = float(chip.process.guide.wavelength_nm)
    return replace(chip, plan=prepare(chip.structure, wavelength, chip.process, outs=seen, ins=sent))
