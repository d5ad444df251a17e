"""Noise of lasers, fibres and receivers, as the process card gives it.

Assumptions. A reading is integrated over one symbol, T = 1 / symbol rate, so that white noise of a one-sided density
has the bandwidth B = 1 / (2 T). All light comes from one laser. A layer works one or more symbols after the layer
before it, so that the laser's noise is independent in each layer; within a layer, sources and local oscillators share
it, apart from the difference of their paths.

- **Shot noise**: a photocurrent I has the variance 2 q I B, Gaussian, because readings have thousands of electrons.
- **Receivers**: a current's variance is i² B with the amplifier's input noise density i; each detector has its own.
  At one input capacitance and gain-bandwidth product, an amplifier's feedback resistor may grow as 1 / B², so that
  i = √(4 k T / R) falls as B, down to the floor of the largest resistor.
- **Intensity**: the relative power of the laser in a symbol has the variance r B, with the noise density r. Light
  whose path is longer by τ is averaged over a shifted window: the correlation of both is 1 - τ / T, at least 0.
- **Linewidth**: the laser's phase is a random walk, of variance 2π Δν t after t. The phase of a longer path against
  the shorter one, averaged over T, has :func:`path_phase_variance`; their common part cancels.
- **Fibres**: residual phase of a locked fibre, Gaussian, independent in every word.

Phases and the uncorrelated parts of intensities are drawn per source. The modulators of one neuron count as one source,
and so do the fibres of the carrier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]
Kind = Literal["shot", "receiver", "intensity", "linewidth", "fibre"]

ELECTRON_C = 1.602176634e-19
LIGHT_SPEED_M_S = 299_792_458.0
KINDS: tuple[Kind, ...] = get_args(Kind)
BLOCK = 1024
"""Words that share one stream of random numbers, so that a word's noise does not depend on the batch size."""


@dataclass(frozen=True)
class Noise:
    """Physical noise at one laser power and one symbol rate.

    Attributes:
        laser_w: Power of a field of amplitude 1, as launched into every waveguide, in W.
        symbol_rate_bd: Symbols per second. A reading is integrated over one symbol.
        responsivity_a_per_w: Photocurrent per optical power at a detector.
        shot: Whether photocurrents have shot noise.
        receiver_a_per_sqrt_hz: Input-referred noise current density of a detector's amplifier designed for this rate.
        intensity_per_hz: Relative intensity noise of the laser.
        linewidth_hz: Linewidth of the laser, full width at half maximum.
        fibre_delay_s: Delay, relative to the local oscillator, of light from a modulator off the chip.
        chip_delay_s: Delay, relative to the local oscillator, of light from a modulator on the chip.
        fibre_phase_rad: Rms phase error of a locked fibre.
    """

    laser_w: float
    symbol_rate_bd: float
    responsivity_a_per_w: float
    shot: bool
    receiver_a_per_sqrt_hz: float
    intensity_per_hz: float
    linewidth_hz: float
    fibre_delay_s: float
    chip_delay_s: float
    fibre_phase_rad: float

    @property
    def integration_s(self) -> float:
        """Integration time T of a reading."""
        return 1.0 / self.symbol_rate_bd

    @property
    def bandwidth_hz(self) -> float:
        """Noise bandwidth B = 1 / (2 T) of a reading."""
        return 0.5 * self.symbol_rate_bd

    @property
    def full_scale_a(self) -> float:
        """Photocurrent of a field of amplitude 1, in A."""
        return self.responsivity_a_per_w * self.laser_w

    @property
    def intensity(self) -> float:
        """Standard deviation of the laser's relative power in one symbol."""
        return math.sqrt(self.intensity_per_hz * self.bandwidth_hz)

    def variance(self, power: Floats) -> Floats:
        """Return the variance of a detector's reading at given powers, from shot and amplifier noise.

        The unit of readings and powers is the power of a field of amplitude 1.

        Args:
            power: Optical powers, any shape.

        Returns:
            Variances, same shape.
        """
        current = 2.0 * ELECTRON_C * self.full_scale_a * power if self.shot else np.zeros_like(power)
        total: Floats = (current + self.receiver_a_per_sqrt_hz**2) * self.bandwidth_hz / self.full_scale_a**2
        return total

    def phase(self, fibre: bool) -> float:
        """Return the standard deviation in rad of a source's phase relative to the local oscillators.

        Args:
            fibre: Whether the source's light arrives through a fibre.
        """
        locked = self.fibre_phase_rad**2 if fibre else 0.0
        delay = self.fibre_delay_s if fibre else self.chip_delay_s
        return math.sqrt(locked + path_phase_variance(self.linewidth_hz, delay, self.integration_s))

    def correlation(self, fibre: bool) -> float:
        """Return the correlation, 0 … 1, between the intensities of a source and of the local oscillators.

        Args:
            fibre: Whether the source's light arrives through a fibre.
        """
        return max(0.0, 1.0 - (self.fibre_delay_s if fibre else self.chip_delay_s) / self.integration_s)

    def only(self, *kinds: Kind) -> Noise:
        """Return a copy with the given kinds of noise only.

        Args:
            *kinds: Kinds to keep. The imperfection ``laser`` comprises ``intensity`` and ``linewidth``.
        """
        return replace(
            self,
            shot=self.shot and "shot" in kinds,
            receiver_a_per_sqrt_hz=self.receiver_a_per_sqrt_hz if "receiver" in kinds else 0.0,
            intensity_per_hz=self.intensity_per_hz if "intensity" in kinds else 0.0,
            linewidth_hz=self.linewidth_hz if "linewidth" in kinds else 0.0,
            fibre_phase_rad=self.fibre_phase_rad if "fibre" in kinds else 0.0,
        )


def path_phase_variance(linewidth_hz: float, delay_s: float, integration_s: float) -> float:
    """Return the variance in rad² of the phase difference between two paths of one laser, averaged over one symbol.

    The phase difference is the mean over the integration time T of W(t) - W(t - τ), with the delay τ and a random walk
    W of variance 2π Δν t. The mean weights the steps of the walk by a trapezoid. The integral of the trapezoid's square
    is τ² / T · (1 - τ / 3T) for τ ≤ T, and τ - T / 3 for τ > T.

    Args:
        linewidth_hz: Linewidth Δν of the laser, full width at half maximum.
        delay_s: Delay τ of one path relative to the other.
        integration_s: Integration time T.
    """
    if delay_s <= integration_s:
        seen = delay_s**2 / integration_s * (1.0 - delay_s / (3.0 * integration_s))
    else:
        seen = delay_s - integration_s / 3.0
    return 2.0 * math.pi * linewidth_hz * seen


def noise_of(process: Process, laser_w: float | None = None, symbol_rate_bd: float | None = None) -> Noise:
    """Build the noise model of a process from its cards.

    Args:
        process: Process of the cards.
        laser_w: Power launched into every waveguide, in W; by default the card's.
        symbol_rate_bd: Symbols per second; by default the card's.

    Raises:
        InputError: The process has no noise or no budget section, or a power or rate is out of range.
    """
    card, budget = process.noise, process.budget
    if card is None or budget is None:
        raise InputError(
            f"process {process.name!r} has no 'noise' or no 'budget' in its process.yml: add them, or take a process "
            "that has both"
        )
    laser = float(budget.laser_w) if laser_w is None else laser_w
    rate = float(card.symbol_rate_bd) if symbol_rate_bd is None else symbol_rate_bd
    most = math.inf if budget.symbol_rate_max_bd is None else float(budget.symbol_rate_max_bd)
    _check("laser power", laser, float(card.laser_max_w), "W", "noise.laser_max_w")
    _check("symbol rate", rate, most, "Bd", "budget.symbol_rate_max_bd")
    return Noise(
        laser_w=laser,
        symbol_rate_bd=rate,
        responsivity_a_per_w=process.device("photodiode").parameter("responsivity_a_per_w"),
        shot=True,
        receiver_a_per_sqrt_hz=max(
            float(card.receiver_floor_a_per_sqrt_hz), float(card.receiver_a_per_sqrt_hz / card.receiver_hz) * rate / 2.0
        ),
        intensity_per_hz=math.pow(10.0, float(card.intensity_db_per_hz) / 10.0),
        linewidth_hz=float(card.linewidth_hz),
        fibre_delay_s=float(card.fibre_path_m) * float(card.fibre_index) / LIGHT_SPEED_M_S,
        chip_delay_s=float(card.chip_path_m) * float(process.guide.group_index) / LIGHT_SPEED_M_S,
        fibre_phase_rad=float(card.fibre_phase_rad),
    )


def _check(what: str, value: float, most: float, unit: str, key: str) -> None:
    if not 0.0 < value <= most or not math.isfinite(value):
        raise InputError(
            f"{what} {value:g} {unit} must be above 0 and at most {most:g} {unit}, the limit of {key} in process.yml; "
            "give such a number"
        )


@dataclass(frozen=True)
class DetectionSources:
    """Sources and detectors of one layer.

    Attributes:
        sources: Indices of the layer's sources among the sources of the chip, without the carrier.
        fibre: Whether their light arrives through fibres.
        detectors: Number of detectors.
    """

    sources: slice
    fibre: bool
    detectors: int


@dataclass(frozen=True, eq=False)
class NoiseDraw:
    """Random numbers of the noise of B words in one layer.

    Attributes:
        carrier: (B,) factor on the carrier's amplitude; 1 without noise.
        fields: (B, sources) complex factor on each source's amplitude; 1 without noise.
        readings: (B, detectors) standard normal numbers, one for each reading.
    """

    carrier: Floats
    fields: Complexes
    readings: Floats

    def of_words(self, words: Ints) -> NoiseDraw:
        """Return the random numbers of some words only."""
        return NoiseDraw(self.carrier[words], self.fields[words], self.readings[words])


def draw_noise(noise: Noise, feeds: Sequence[DetectionSources], first: int, count: int, seed: int) -> list[NoiseDraw]:
    """Draw the noise of consecutive words in every layer.

    Args:
        noise: Noise model.
        feeds: Sources and detectors of each layer.
        first: Index of the first word.
        count: Number of words.
        seed: Seed. The noise of a word depends only on the seed and the index of the word.

    Returns:
        The noise of these words in each layer.
    """
    blocks = range(first // BLOCK, -(-(first + count) // BLOCK))
    parts = [[_draw_block(noise, feed, rng) for feed in feeds] for rng in (_stream(seed, block) for block in blocks)]
    piece = slice(first - blocks.start * BLOCK, first - blocks.start * BLOCK + count)
    return [
        NoiseDraw(
            *(
                np.concatenate([getattr(part[i], name) for part in parts])[piece]
                for name in NoiseDraw.__dataclass_fields__
            )
        )
        for i in range(len(feeds))
    ]


def _stream(seed: int, block: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, block))))


def _draw_block(noise: Noise, feed: DetectionSources, rng: np.random.Generator) -> NoiseDraw:
    sources = feed.sources.stop - feed.sources.start
    common, independent, phase_noise = (rng.standard_normal((BLOCK, n)) for n in (1, sources, sources))
    readings = rng.standard_normal((BLOCK, feed.detectors))
    same = noise.correlation(feed.fibre)
    # half of the relative power is the relative amplitude
    amplitude = 1.0 + 0.5 * noise.intensity * (same * common + math.sqrt(1.0 - same**2) * independent)
    fields = amplitude * np.exp(1j * noise.phase(feed.fibre) * phase_noise)
    return NoiseDraw(1.0 + 0.5 * noise.intensity * common[:, 0], fields, readings)
