"""What a chip tolerates of each imperfection of its system, alone, beside the size that the cards state.

Noise is scaled until the estimated word-error rate is ``ERROR_RATE`` while all other noise is left out. Light of
another frequency, a warmer chip and leaking modulators are increased until a word is wrong without noise, with the bias
as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.signoff.function import FunctionInputs
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import LIGHT_SPEED_M_S, Noise, path_phase_variance
from optinc_pdk.simulate.transmission.settling import UnsettledError
from optinc_pdk.studies.chip_checks import read_words
from optinc_pdk.studies.error_estimate import ErrorMargins, estimate_errors
from optinc_pdk.studies.highest_rates import CHOICE_WORDS, ERROR_RATE

WORDS = 2048
"""Words of the tests without noise, drawn at random."""
WIDEST = 2.0**20
"""Largest factor that is tried in either direction."""
PRECISION = 1.02
SEED = 8


@dataclass(frozen=True)
class SystemEffect:
    """One imperfection of the system of a chip.

    Attributes:
        name: What it is.
        size: Size that the cards state; None if they state none.
        tolerated: Largest size that the chip tolerates if there is nothing else; None if no size spoils a word.
        unit: Unit of both; ``""`` for a share of a field.
    """

    name: str
    size: float | None
    tolerated: float | None
    unit: str

    @property
    def ratio(self) -> float | None:
        """Tolerated over stated size; None if either is missing, or the size is 0."""
        return self.tolerated / self.size if self.size and self.tolerated is not None else None


def system_budget(
    s: Scattering,
    longer: Scattering,
    inputs: FunctionInputs,
    board: Board,
    bias: Bias,
    process: Process,
    margins: ErrorMargins,
    noise: Noise,
) -> tuple[SystemEffect, ...]:
    """Return what a chip tolerates of each imperfection of its system at the symbol rate of a noise model.

    Args:
        s: S-parameters of the chip at the carrier's wavelength.
        longer: The same at a wavelength that is longer by a little.
        inputs: Inputs, of which some are sent.
        board: Board of the chip.
        bias: Codes of the heaters and electronics.
        process: Process of the cards.
        margins: Margins of the chip, see :func:`optinc_pdk.studies.error_estimate.error_margins`.
        noise: Noise at the symbol rate and laser power in question, with the receiver that suits the chip.
    """
    few = margins.first(CHOICE_WORDS)

    def noisy(change: Callable[[float], Noise]) -> Callable[[float], bool]:
        return lambda factor: estimate_errors(few, change(factor)).rate <= ERROR_RATE

    laser, fibre = noise.only("linewidth"), noise.only("fibre")
    lock, polarised = replace(fibre, polarisation=0.0), replace(fibre, fibre_phase_rad=0.0)
    intensity, receiver = noise.only("intensity"), noise.only("receiver")
    path = path_phase_variance(laser.linewidth_hz, laser.server_delay_s, laser.integration_s) ** 0.5
    scaled: list[tuple[str, float, str, Callable[[float], Noise]]] = [
        (
            "noise of amplifiers",
            receiver.receiver_a_per_sqrt_hz,
            "A/√Hz",
            lambda f: replace(receiver, receiver_a_per_sqrt_hz=f * receiver.receiver_a_per_sqrt_hz),
        ),
        (
            "intensity of the laser in a reading, rms",
            intensity.intensity,
            "",
            lambda f: replace(intensity, intensity_per_hz=f**2 * intensity.intensity_per_hz),
        ),
        (
            "phase of the laser between servers and oscillators, rms",
            path,
            "rad",
            lambda f: replace(laser, linewidth_hz=f**2 * laser.linewidth_hz),
        ),
        (
            "phase lock of a fibre, rms",
            lock.fibre_phase_rad,
            "rad",
            lambda f: replace(lock, fibre_phase_rad=f * lock.fibre_phase_rad),
        ),
        (
            "field from the other polarisation of a fibre, rms",
            polarised.polarisation,
            "",
            lambda f: replace(polarised, polarisation=f * polarised.polarisation),
        ),
    ]
    found = [
        SystemEffect(name, size, _times(size, _largest_factor(noisy(change))), unit)
        for name, size, unit, change in scaled
        if size > 0.0
    ]
    most_w = process.device("photodiode").model.parameters.get("power_max_w")
    if most_w is not None:
        power_w = noise.laser_w * _largest_power(margins, noise)
        found.append(SystemEffect("power at a photodiode, at most", power_w, float(most_w), "W"))
    return (*found, *_static_effects(s, longer, inputs, board, bias, process))


def _largest_power(margins: ErrorMargins, noise: Noise) -> float:
    """Largest power at any photodiode for any word, relative to that of a field of amplitude 1."""
    network, light = margins.network, margins.light
    layers = [layer.detection for layer in network.layers]
    largest = max((float(each.power(each.fields(light)).max()) for each in layers), default=0.0)
    fields = network.receivers.fields(light)
    if network.receivers.phase is None:
        return max(largest, float(network.receivers.power(fields).max()))
    # of a coherent receiver, one of two photodiodes gets half of (oscillator + signal)² where both are in phase
    signal = math.sqrt(float(network.receivers.power(fields).max()))
    oscillator = math.sqrt((noise.oscillator_w or 0.0) / noise.laser_w)
    return max(largest, 0.5 * (oscillator + signal) ** 2)


def _static_effects(
    s: Scattering, longer: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, process: Process
) -> list[SystemEffect]:
    """Effects that spoil words without noise: leaking modulators, light of another frequency, a warmer chip."""
    rows = np.random.default_rng(SEED).permutation(len(inputs.ideal))[:WORDS]
    chosen = inputs.rows(rows)

    def right(changed: Scattering) -> bool:
        try:
            return read_words(changed, chosen, board, bias).wrong == 0
        except UnsettledError:
            # a comparator near its threshold, whose reflected light moves it back and forth
            return False

    def leaking(field: float) -> bool:
        return field <= 1.0 and right(replace(s, modulator=replace(s.modulator, leak=field)))

    # phases turn in proportion to the frequency, by the delay of each way through the chip
    turn = np.where(s.s != 0.0, np.angle(longer.s * s.s.conj()), 0.0)

    def shifted(steps: float) -> bool:
        return all(right(replace(s, s=s.s * np.exp(1j * side * steps * turn))) for side in (1.0, -1.0))

    step_hz = 1e9 * LIGHT_SPEED_M_S * float(1.0 / s.wavelengths_nm[0] - 1.0 / longer.wavelengths_nm[0])
    window_hz = _times(step_hz, _largest_factor(shifted))
    leak = _largest_factor(leaking)
    found = [
        SystemEffect("field that a dark modulator sends", s.modulator.leak or None, leak, ""),
        SystemEffect("frequency of the laser, ±", None, window_hz, "Hz"),
    ]
    guide = process.guide
    if guide.index_per_k is not None:
        frequency_hz = 1e9 * LIGHT_SPEED_M_S / float(s.wavelengths_nm[0])
        # the phase of a guide changes with its index as with a frequency, whose light sees the group index
        kelvin = float(guide.group_index) / abs(float(guide.index_per_k)) / frequency_hz
        found.append(SystemEffect("temperature of the chip, ±", None, _times(kelvin, window_hz), "K"))
    return found


def _times(size: float, factor: float | None) -> float | None:
    return None if factor is None else size * factor


def _largest_factor(holds: Callable[[float], bool]) -> float | None:
    """Largest factor at which a condition holds, up to ``WIDEST``; None if it holds there, 0 if it never does."""
    low, high = (1.0, 2.0) if holds(1.0) else (0.5, 1.0)
    while low >= 1.0 and holds(high):
        low, high = high, 2.0 * high
        if low >= WIDEST:
            return None
    while low < 1.0 and not holds(low):
        low, high = 0.5 * low, low
        if low <= 1.0 / WIDEST:
            return 0.0
    while high > PRECISION * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
