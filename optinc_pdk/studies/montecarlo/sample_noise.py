"""Noise of sampled chips: of the readings of their calibration, and in operation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.studies.montecarlo.sample_study import NOISE_KINDS
from optinc_pdk.studies.variation.imperfections import Imperfections

BENCH_AVERAGES = 10_000
"""Symbols averaged for one reading of the bench: 10 ms at 1 MBd."""


@dataclass(frozen=True)
class SampleConditions:
    """Electronics and noise with which a sample is calibrated and measured.

    Attributes:
        bits: Effective bits of the drive; None if voltages are not rounded.
        noise: Noise of lasers and detectors; None for no noise.
        seed: Seed of the noise.
    """

    bits: float | None
    noise: Noise | None = None
    seed: int = 0


def scaled_noise(noise: Noise | None, imperfections: Imperfections) -> Noise | None:
    """Scale noise by the factors of the imperfections ``laser`` and ``detector``, which act on standard deviations.

    Returns:
        The scaled noise; None if there is no noise or both factors are 0.
    """
    laser, detector = (imperfections.of(kind) for kind in NOISE_KINDS)
    if noise is None or laser == detector == 0.0:
        return None
    return replace(
        noise,
        intensity_per_hz=laser**2 * noise.intensity_per_hz,
        linewidth_hz=laser**2 * noise.linewidth_hz,
        fibre_phase_rad=laser * noise.fibre_phase_rad,
        receiver_a_per_sqrt_hz=detector * noise.receiver_a_per_sqrt_hz,
        shot=noise.shot and detector > 0.0,
    )
