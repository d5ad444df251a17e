"""Noise of chips that are compared with a matrix or a general network: their outputs against the symbol rate.

Sources of noise and bandwidths are those of chips of words, see :mod:`optinc_pdk.simulate.transmission.noise`. At every
rate, amplifier and window are the quietest ones that suit any chip (`noise_of`). Symbols are sent one after the other
in random order, so that they run into each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.studies.noisy_outputs import operating_noise
from optinc_pdk.studies.outcomes import Quantity


class NoisyOutputs(Protocol):
    """Outputs of a chip with noise, compared with its target."""

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Quantities of the comparison."""
        ...

    @property
    def sent(self) -> int:
        """Number of vectors that one pass sends."""
        ...

    @property
    def coherent(self) -> bool:
        """Whether receivers with local oscillators read the outputs, not photodiodes."""
        ...

    def measured(self, noise: Noise, passes: int, seed: int) -> tuple[bool, Mapping[str, float]]:
        """Send vectors with noise, and compare what is read: whether it keeps all limits, and the quantities.

        Args:
            noise: Noise of laser, fibres and receivers, and the shape of symbols.
            passes: Number of times that every vector is sent.
            seed: Seed of the noise.
        """
        ...


@dataclass(frozen=True)
class NoisyPoint:
    """Comparison at one symbol rate.

    Attributes:
        symbol_rate_bd: Symbols per second.
        integration_s: Integration time of each reading.
        passed: Whether the chip keeps all limits.
        values: The quantities by key.
    """

    symbol_rate_bd: float
    integration_s: float
    passed: bool
    values: Mapping[str, float]


@dataclass(frozen=True)
class CheckedCurve:
    """Comparison of a chip's outputs with its target against the symbol rate.

    Attributes:
        laser_w: Optical power launched into every guide, in W.
        receiver_oscillator_w: Power of the local oscillator at a coherent receiver, in W; None for photodiodes.
        seed: Seed of the noise.
        sent: Number of vectors sent at every rate.
        quantities: Quantities of the comparison.
        noise: Noise model at each symbol rate.
        points: Results at each symbol rate, ascending.
    """

    laser_w: float
    receiver_oscillator_w: float | None
    seed: int
    sent: int
    quantities: tuple[Quantity, ...]
    noise: tuple[Noise, ...]
    points: tuple[NoisyPoint, ...]

    @property
    def limited(self) -> bool:
        """Whether a quantity has a limit."""
        return any(quantity.limit is not None for quantity in self.quantities)

    @property
    def highest_bd(self) -> float | None:
        """Highest of the rates up to which all keep the limits; None for none, or without limits."""
        found = None
        for point in self.points if self.limited else ():
            if not point.passed:
                break
            found = point.symbol_rate_bd
        return found

    def to_json(self) -> dict[str, Any]:
        """Return assumptions and results as JSON-compatible data."""
        rows = [
            {"symbol_rate_bd": point.symbol_rate_bd, "integration_s": point.integration_s}
            | ({"passed": point.passed} if self.limited else {})
            | dict(point.values)
            | {"noise": noise.to_json()}
            for noise, point in zip(self.noise, self.points, strict=True)
        ]
        return {
            "laser_w": self.laser_w,
            "receiver_oscillator_w": self.receiver_oscillator_w,
            "seed": self.seed,
            "sent": self.sent,
            "limits": {one.key: one.limit for one in self.quantities if one.limit is not None},
            "points": rows,
            "highest_bd": self.highest_bd,
        }


def checked_noise_curve(
    outputs: NoisyOutputs,
    process: Process,
    symbol_rates_bd: Sequence[float],
    laser_w: float | None = None,
    passes: int = 1,
    seed: int = 0,
    on_rate: Callable[[float], None] | None = None,
) -> CheckedCurve:
    """Compare a chip's outputs with its target at several symbol rates, with the same random numbers at each.

    Args:
        outputs: What is sent and compared.
        process: Process of the cards.
        symbol_rates_bd: Symbols per second.
        laser_w: Optical power launched into every guide, in W; by default the card's.
        passes: Number of times that every vector is sent.
        seed: Seed of the noise.
        on_rate: Called with each rate before it is evaluated.

    Raises:
        InputError: A power, rate, seed or number of passes is out of range.
    """
    if passes < 1 or seed < 0 or not len(symbol_rates_bd):
        raise InputError(
            f"{len(symbol_rates_bd)} symbol rates, passes {passes}, seed {seed}: give at least 1 rate, 1 pass and a "
            "seed of at least 0"
        )
    noises = [operating_noise(process, laser_w, rate) for rate in sorted(set(symbol_rates_bd))]
    points = []
    for noise in noises:
        if on_rate is not None:
            on_rate(noise.symbol_rate_bd)
        found = outputs.measured(noise, passes, seed)
        points.append(NoisyPoint(noise.symbol_rate_bd, noise.integration_s, *found))
    return CheckedCurve(
        laser_w=noises[0].laser_w,
        receiver_oscillator_w=noises[0].oscillator_w if outputs.coherent else None,
        seed=seed,
        sent=passes * outputs.sent,
        quantities=outputs.quantities,
        noise=tuple(noises),
        points=tuple(points),
    )
