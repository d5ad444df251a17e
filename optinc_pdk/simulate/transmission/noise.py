"""Noise of lasers, fibres and receivers, and bandwidths, as the cards give them.

Assumptions. A reading is the mean over a window T at the end of a symbol, see
:mod:`optinc_pdk.simulate.transmission.symbol_shape`; white noise of a one-sided density has the bandwidth
B = 1 / (2 T), less what photodiode and amplifier filter. All light comes from one laser. A layer works one or more
symbols after the layer before it, so that the laser's noise is independent in each layer; within a layer, sources and
local oscillators share it, apart from the difference of their paths. Noise of consecutive symbols is independent.

- **Shot noise**: a photocurrent I has the variance 2 q I B, Gaussian, because readings have thousands of electrons.
- **Receivers**: a current's variance is i² B with the amplifier's input noise density i; each detector has its own. At
  every rate, an amplifier of the card and a window are chosen.
- **Intensity**: the relative power of the laser in a symbol has the variance r B, with the noise density r. Light
  whose path is longer by τ is averaged over a shifted window: the correlation of both is 1 - τ / T, at least 0.
- **Linewidth**: the laser's phase is a random walk, of variance 2π Δν t after t. The phase of a longer path against
  the shorter one, averaged over T, has :func:`path_phase_variance`; their common part cancels.
- **Fibres**: residual phase of a locked fibre, Gaussian, independent in every word. Light that left the polarisation of
  a fibre and came back adds a field of any phase; it drifts slowly, but is drawn for every word.
- **Paths**: light of servers passes the fibres of the system, light of modulators on the board only short ones, see
  :class:`optinc_pdk.cards.technology.FibreCard`.

Phases and the uncorrelated parts of intensities are drawn per source. The modulators of one neuron count as one source,
and so do the fibres of the carrier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.cards.technology import BudgetCard, FibreCard, NoiseCard
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.transmission.symbol_shape import WINDOWS, SymbolShape, time_constants

Kind = Literal["shot", "receiver", "intensity", "linewidth", "fibre"]
LightPath = Literal["server", "board", "chip"]
"""Place of the modulator of a source. It sets the path difference between its light and the local oscillators."""

ELECTRON_C = 1.602176634e-19
LIGHT_SPEED_M_S = 299_792_458.0
KINDS: tuple[Kind, ...] = get_args(Kind)
LEAST_W, LEAST_BD = 1e-12, 1.0
"""Least laser power and symbol rate, far below what any receiver detects and any link uses."""
OPENING = 0.98
"""Least opening of a receiver that suits any chip."""
BLOCK = 1024
"""Words that share one stream of random numbers, so that a word's noise does not depend on the batch size."""


@dataclass(frozen=True)
class Noise:
    """Physical noise at one laser power and one symbol rate.

    Attributes:
        laser_w: Power of a field of amplitude 1, as launched into every waveguide, in W.
        symbol_rate_bd: Symbols per second.
        responsivity_a_per_w: Photocurrent per optical power at a detector.
        shot: Whether photocurrents have shot noise.
        receiver_a_per_sqrt_hz: Input-referred noise current density of a detector's amplifier.
        intensity_per_hz: Relative intensity noise of the laser.
        linewidth_hz: Linewidth of the laser, full width at half maximum.
        server_delay_s: Delay, relative to the local oscillator, of light from a server.
        board_delay_s: The same for a modulator on the board.
        chip_delay_s: The same for a modulator on the chip.
        fibre_phase_rad: Rms phase error of a locked fibre.
        polarisation: Rms field that comes back from the other polarisation of a fibre, over that of the light.
        oscillator_w: Power of the local oscillator at a coherent receiver; None if the process states none.
        shape: Filters and window of the readings.
    """

    laser_w: float
    symbol_rate_bd: float
    responsivity_a_per_w: float
    shot: bool
    receiver_a_per_sqrt_hz: float
    intensity_per_hz: float
    linewidth_hz: float
    server_delay_s: float
    board_delay_s: float
    chip_delay_s: float
    fibre_phase_rad: float
    polarisation: float
    oscillator_w: float | None
    shape: SymbolShape

    @property
    def integration_s(self) -> float:
        """Window T of a reading."""
        return self.shape.window / self.symbol_rate_bd

    @property
    def bandwidth_hz(self) -> float:
        """Noise bandwidth B of a reading."""
        return self.shape.noise_bandwidth_hz(self.symbol_rate_bd)

    @property
    def full_scale_a(self) -> float:
        """Photocurrent of a field of amplitude 1, in A."""
        return self.responsivity_a_per_w * self.laser_w

    @property
    def intensity(self) -> float:
        """Standard deviation of the laser's relative power in one reading."""
        return math.sqrt(self.intensity_per_hz * self.bandwidth_hz)

    def variance(self, power: Floats) -> Floats:
        """Return the variance of a detector's reading from shot and amplifier noise, at powers of any shape.

        The unit of readings and powers is the power of a field of amplitude 1.
        """
        current = 2.0 * ELECTRON_C * self.full_scale_a * power if self.shot else np.zeros_like(power)
        total: Floats = (current + self.receiver_a_per_sqrt_hz**2) * self.bandwidth_hz / self.full_scale_a**2
        return total

    def field_variance(self, field: Floats) -> Floats:
        """Return the variance of a coherent receiver's reading from shot and amplifier noise, at fields of any shape.

        The difference of its two photocurrents is 2 R √(P_o P) for a local oscillator P_o and a signal P; both currents
        together are R (P_o + P), and both detectors have an amplifier. The fields are those in phase with the local
        oscillator; 1 is the field of amplitude 1.

        Raises:
            InputError: The process states no power of the local oscillator.
        """
        if self.oscillator_w is None:
            raise InputError(
                "coherent receivers, which the netlist states (info.board.receivers), need link.oscillator_w in "
                "process.yml; correct the netlist, or add it"
            )
        ratio = self.oscillator_w / self.laser_w
        total: Floats = self.full_scale_a * (ratio + field**2)
        shot = 2.0 * ELECTRON_C * total if self.shot else np.zeros_like(total)
        return np.asarray(
            (shot + 2.0 * self.receiver_a_per_sqrt_hz**2) * self.bandwidth_hz / (4.0 * ratio * self.full_scale_a**2)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the noise as JSON-compatible data; None stands for the infinitely many time constants of no filter.

        Examples:
            >>> import optinc_pdk as op
            >>> from optinc_pdk.cards import load_process
            >>> op.simulate.noise_of(load_process(), laser_w=0.02).to_json()["laser_w"]
            0.02
        """
        shape = {key: value if math.isfinite(value) else None for key, value in asdict(self.shape).items()}
        return asdict(self) | {"shape": shape}

    def delay_s(self, path: LightPath) -> float:
        """Return the delay in s of light on a path, relative to the local oscillators."""
        return {"server": self.server_delay_s, "board": self.board_delay_s, "chip": self.chip_delay_s}[path]

    def phase(self, path: LightPath) -> float:
        """Return the standard deviation in rad of a source's phase relative to the local oscillators."""
        fibre = 0.0 if path == "chip" else self.fibre_phase_rad**2 + self.polarisation**2 / 2.0
        return math.sqrt(fibre + path_phase_variance(self.linewidth_hz, self.delay_s(path), self.integration_s))

    def correlation(self, path: LightPath) -> float:
        """Return the correlation, 0 … 1, between the intensities of a source's laser light and of the oscillators'."""
        return max(0.0, 1.0 - self.delay_s(path) / self.integration_s)

    def apart(self, path: LightPath) -> float:
        """Return the standard deviation of a source's relative amplitude that it shares with no other source."""
        polarisation = 0.0 if path == "chip" else self.polarisation
        return math.sqrt(0.25 * self.intensity**2 * (1.0 - self.correlation(path) ** 2) + polarisation**2 / 2.0)

    def only(self, *kinds: Kind) -> Noise:
        """Return a copy with the given kinds of noise only."""
        return replace(
            self,
            shot=self.shot and "shot" in kinds,
            receiver_a_per_sqrt_hz=self.receiver_a_per_sqrt_hz if "receiver" in kinds else 0.0,
            intensity_per_hz=self.intensity_per_hz if "intensity" in kinds else 0.0,
            linewidth_hz=self.linewidth_hz if "linewidth" in kinds else 0.0,
            fibre_phase_rad=self.fibre_phase_rad if "fibre" in kinds else 0.0,
            polarisation=self.polarisation if "fibre" in kinds else 0.0,
        )


def path_phase_variance(linewidth_hz: float, delay_s: float, integration_s: float) -> float:
    """Return the variance in rad² of the phase difference between two paths of one laser, averaged over a window.

    The phase difference is the mean over the integration time T of W(t) - W(t - τ), with the delay τ and a random walk
    W of variance 2π Δν t for the linewidth Δν, full width at half maximum. The mean weights the steps of the walk by a
    trapezoid. The integral of the trapezoid's square is τ² / T · (1 - τ / 3T) for τ ≤ T, and τ - T / 3 for τ > T.
    """
    if delay_s <= integration_s:
        seen = delay_s**2 / integration_s * (1.0 - delay_s / (3.0 * integration_s))
    else:
        seen = delay_s - integration_s / 3.0
    return 2.0 * math.pi * linewidth_hz * seen


def noise_of(process: Process, laser_w: float | None = None, symbol_rate_bd: float | None = None) -> Noise:
    """Build the noise model of a process from its cards, with a receiver that suits any chip.

    Amplifier and window are the quietest of those with which symbols before take at most 2 % of the distance between
    two levels; where none is fast enough, those with which they take least.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.cards import load_process
        >>> op.simulate.noise_of(load_process(), laser_w=0.02).laser_w
        0.02

    Args:
        process: Process of the cards.
        laser_w: Power launched into every waveguide, in W; by default the card's.
        symbol_rate_bd: Symbols per second; by default the card's.

    Raises:
        InputError: The process has no noise or no budget section, a power or rate is out of range, or the rate is
            beyond every bandwidth.
    """
    choices = noise_choices(process, laser_w, symbol_rate_bd)
    open_enough = [one for one in choices if one.shape.opening >= OPENING]
    if open_enough:
        return min(open_enough, key=_amplifier_noise)
    return max(choices, key=lambda one: one.shape.opening)


def noise_choices(
    process: Process, laser_w: float | None = None, symbol_rate_bd: float | None = None
) -> tuple[Noise, ...]:
    """Build a noise model for every receiver that a symbol rate may use, from the quietest to the most open one.

    A receiver is an amplifier of the card and a window. Those that are both noisier and less open than another are left
    out; which of the others is best depends on the chip. The rate may exceed ``budget.symbol_rate_max_bd``, which only
    bounds what :func:`rate_limits` returns. Arguments and errors are those of :func:`noise_of`.
    """
    card, budget = _sections(process)
    laser = float(budget.laser_w) if laser_w is None else laser_w
    rate = float(card.symbol_rate_bd) if symbol_rate_bd is None else symbol_rate_bd
    _check_power_and_rate(process, laser, rate)
    diode, sending = photodiode_bandwidths(process), transmitter_bandwidths(process)
    uncompensated = 2.0 * float(card.fibres.length_m) if card.fibres.oscillator == "on_chip" else 0.0
    found: list[Noise] = []
    for amplifier in card.amplifiers:
        receiver = time_constants((*diode, float(amplifier.bandwidth_hz)), rate)
        for window in WINDOWS:
            found.append(
                Noise(
                    laser_w=laser,
                    symbol_rate_bd=rate,
                    responsivity_a_per_w=process.device("photodiode").parameter("responsivity_a_per_w"),
                    shot=True,
                    receiver_a_per_sqrt_hz=float(amplifier.a_per_sqrt_hz),
                    intensity_per_hz=math.pow(10.0, float(card.intensity_db_per_hz) / 10.0),
                    linewidth_hz=float(card.linewidth_hz),
                    server_delay_s=fibre_delay_s(card.fibres, float(card.fibres.mismatch_m) + uncompensated),
                    board_delay_s=fibre_delay_s(card.fibres, float(card.fibres.mismatch_m)),
                    chip_delay_s=float(card.chip_path_m) * float(process.guide.group_index) / LIGHT_SPEED_M_S,
                    fibre_phase_rad=float(card.fibres.phase_rad),
                    polarisation=math.pow(10.0, -float(card.fibres.extinction_db) / 10.0),
                    oscillator_w=None if process.link.oscillator_w is None else float(process.link.oscillator_w),
                    shape=SymbolShape(time_constants(sending, rate), receiver, window),
                )
            )
    best: list[Noise] = []
    for noise in sorted(found, key=_amplifier_noise):
        if not best or noise.shape.opening > best[-1].shape.opening:
            best.append(noise)
    return tuple(best)


def fibre_delay_s(fibres: FibreCard, length_m: float) -> float:
    """Return the delay of light in s in a length of fibre."""
    return length_m * float(fibres.index) / LIGHT_SPEED_M_S


def rate_limits(process: Process) -> tuple[float, float]:
    """Return the lowest useful and the highest possible symbol rate of a process, in Bd.

    The highest is that of its budget, see :func:`stated_rate_limit`, and not beyond every bandwidth.
    """
    budget = _sections(process)[1]
    return float(budget.symbol_rate_min_bd), min(stated_rate_limit(process), _fastest_hz(process))


def stated_rate_limit(process: Process) -> float:
    """Return the highest symbol rate in Bd that the budget of a process states; infinite if it states none."""
    stated = _sections(process)[1].symbol_rate_max_bd
    return math.inf if stated is None else float(stated)


def _sections(process: Process) -> tuple[NoiseCard, BudgetCard]:
    if process.noise is None or process.budget is None:
        raise InputError(
            f"process {process.name!r} has no 'noise' or no 'budget' in its process.yml: add them, or take a process "
            "that has both"
        )
    return process.noise, process.budget


def _check_power_and_rate(process: Process, laser_w: float, rate_bd: float) -> None:
    most, fastest = float(_sections(process)[0].laser_max_w), _fastest_hz(process)
    if not LEAST_W <= laser_w <= most:
        raise InputError(
            f"laser power {laser_w:g} W must be at least {LEAST_W:g} and at most {most:g} W, the limit of "
            "noise.laser_max_w in process.yml; give such a number"
        )
    if not LEAST_BD <= rate_bd < math.inf:
        raise InputError(f"symbol rate {rate_bd:g} Bd must be finite and at least {LEAST_BD:g} Bd; give such a number")
    if rate_bd > fastest:
        raise InputError(
            f"symbol rate {rate_bd:g} Bd is beyond every bandwidth of process {process.name!r}, the largest of which "
            f"is {fastest:g} Hz; give at most {fastest:g} Bd"
        )


def _fastest_hz(process: Process) -> float:
    """Largest bandwidth of a process."""
    amplifier = float(_sections(process)[0].amplifiers[-1].bandwidth_hz)
    return max((*transmitter_bandwidths(process), *photodiode_bandwidths(process), amplifier))


def transmitter_bandwidths(process: Process) -> tuple[float, ...]:
    """Return the bandwidths in Hz of modulators and their electronics, as far as the cards state them."""
    modulator, electronics = process.device("modulator").model.parameters.get("bandwidth_hz"), process.activation
    driver = None if electronics.lineariser is None else electronics.lineariser.bandwidth_hz
    return tuple(float(each) for each in (modulator, electronics.bandwidth_hz, driver) if each is not None)


def missing_bandwidths(process: Process) -> tuple[str, ...]:
    """Return the names of the modulator and the photodiode, as far as their cards state no bandwidth."""
    devices = ("modulator", "photodiode")
    return tuple(name for name in devices if process.device(name).model.parameters.get("bandwidth_hz") is None)


def photodiode_bandwidths(process: Process) -> tuple[float, ...]:
    """Return the bandwidth in Hz of photodiodes, if their card states it."""
    found = process.device("photodiode").model.parameters.get("bandwidth_hz")
    return () if found is None else (float(found),)


def _amplifier_noise(noise: Noise) -> float:
    """Standard deviation in A of a reading without light."""
    return noise.receiver_a_per_sqrt_hz * math.sqrt(noise.bandwidth_hz)


@dataclass(frozen=True)
class DetectionSources:
    """Slice of a layer's sources, the path of their light, and number of detectors.

    The carrier is the source 0 of every chip and not among them.
    """

    sources: slice
    path: LightPath
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
    """Draw the noise of ``count`` words from number ``first`` on, in every layer.

    The noise of a word depends only on the seed and the index of the word. ``feeds`` has the sources of each layer, and
    ``count`` is at least 1.
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
    # half of the relative power is the relative amplitude
    shared = 0.5 * noise.intensity * noise.correlation(feed.path)
    amplitude = 1.0 + shared * common + noise.apart(feed.path) * independent
    fields = amplitude * np.exp(1j * noise.phase(feed.path) * phase_noise)
    return NoiseDraw(1.0 + 0.5 * noise.intensity * common[:, 0], fields, readings)


def check_oscillator_power(process: Process, laser_w: float | None, oscillator_power: float) -> float:
    """Return the power in W in each fibre that leads to local oscillators, given relative to that of the laser.

    Raises:
        InputError: The process has no noise or no budget section, or the power is more than a guide may carry.
    """
    card, budget = _sections(process)
    laser = float(budget.laser_w) if laser_w is None else laser_w
    power, most = oscillator_power * laser, float(card.laser_max_w)
    # a ratio of powers may be rounded up
    if not LEAST_W <= power <= most * (1.0 + 1e-9):
        raise InputError(
            f"power {power:g} W in the fibres of the local oscillators must be at least {LEAST_W:g} and at most "
            f"{most:g} W, the limit of noise.laser_max_w in process.yml; give such a power (--oscillator-w)"
        )
    return power


def relative_oscillator_power(process: Process, laser_w: float | None, oscillator_w: float) -> float:
    """Return the power in each fibre that leads to local oscillators, in W, over that of a field of amplitude 1.

    Raises:
        InputError: As for :func:`check_oscillator_power`.
    """
    laser = check_oscillator_power(process, laser_w, 1.0)
    ratio = oscillator_w / laser
    check_oscillator_power(process, laser_w, ratio)
    return ratio
