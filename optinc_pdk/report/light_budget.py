"""The light budget: the energy of a symbol against shot noise, and the symbol rate that it allows.

A coherent field of n photons has a noise of half a photon's field in each quadrature, so after a transmission T it is
known to σ = 1 / (2 √(n T)) of full scale: homodyne detection with a strong local oscillator adds nothing, and loss
before the detector counts in full. Hence E = h ν / (4 σ² T) per symbol and guide.

A local oscillator of the power L at the mixer gives a signal S the photocurrents' difference 2 R √(L S) and their sum
R (L + S), whose shot noise is that of a strong oscillator times 1 + S / L. The energy is larger by this factor, with
S = T P for the power P that is launched into a guide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.simulate.transmission.noise import rate_limits

PLANCK_J_S = 6.62607015e-34
LIGHT_SPEED_M_S = 299_792_458.0


@dataclass(frozen=True)
class LightBudget:
    """Symbol rates that light and electronics allow.

    Attributes:
        field_noise: Standard deviation σ of the field at the detector, relative to full scale.
        hop_loss_db: Loss of each layer in dB, from modulator output to detector, at full scale.
        laser_w: Optical power launched into every guide, in W.
        mixer_w: For each layer, power in W of the weakest local oscillator at a mixer; infinite where there is none, or
            where it is not known and taken as strong.
        energy_j: Energy in J per symbol and guide that the layer with the largest loss needs.
        light_bd: Symbol rate in Bd at which ``laser_w`` provides this energy.
        electronics_bd: Largest symbol rate of the electronics in Bd; None if the process card gives none.
    """

    field_noise: float
    hop_loss_db: tuple[float, ...]
    laser_w: float
    mixer_w: tuple[float, ...]
    energy_j: float
    light_bd: float
    electronics_bd: float | None

    @property
    def symbol_rate_bd(self) -> float:
        """Achievable symbol rate in Bd: the lower one of light and electronics."""
        return self.light_bd if self.electronics_bd is None else min(self.light_bd, self.electronics_bd)


def photon_energy_j(wavelength_nm: float) -> float:
    """Return the energy of a photon, h c / λ, in J."""
    return PLANCK_J_S * LIGHT_SPEED_M_S / (wavelength_nm * 1e-9)


def symbol_energy_j(field_noise: float, loss_db: float, wavelength_nm: float) -> float:
    """Return the energy per symbol and guide, in J, that limits shot noise to a field noise: E = h ν / (4 σ² T).

    It follows from the noise of a coherent state of n photons, σ = 1 / (2 √(n T)); see the module's description.

    Args:
        field_noise: Standard deviation σ of the field, relative to full scale.
        loss_db: Loss in dB before the detector; T = 10^(-loss_db / 10).
        wavelength_nm: Wavelength in nm.

    Raises:
        ValueError: The noise is not a finite number above 0.
    """
    if not 0.0 < field_noise < math.inf:
        raise ValueError(f"field_noise = {field_noise} must be a finite number above 0: light always has noise")
    return photon_energy_j(wavelength_nm) / (4.0 * field_noise**2) * math.pow(10.0, loss_db / 10.0)


def light_budget(
    process: Process,
    field_noise: float,
    hop_loss_db: tuple[float, ...],
    oscillator_powers: Sequence[Floats] = (),
) -> LightBudget | None:
    """Compute the light budget of a chip.

    Args:
        process: Process card.
        field_noise: Standard deviation σ of the field noise that the network tolerates, relative to full scale.
        hop_loss_db: Loss of each layer from modulator to detector, in dB.
        oscillator_powers: For each hidden layer, (mixers,) powers of the local oscillators at the mixers, relative to
            that of a field of amplitude 1; empty for strong ones.

    Returns:
        The budget; None if the process card has none.

    Raises:
        ValueError: The noise is not above 0.
    """
    if process.budget is None:
        return None
    rate = process.budget.symbol_rate_max_bd if process.noise is None else rate_limits(process)[1]
    laser, wavelength = float(process.budget.laser_w), float(process.guide.wavelength_nm)
    weakest = [laser * float(powers.min()) if powers.size else math.inf for powers in oscillator_powers]
    mixers = (*weakest, *[math.inf] * (len(hop_loss_db) - len(weakest)))
    signals = [laser * math.pow(10.0, -loss / 10.0) for loss in hop_loss_db]
    energy = max(
        symbol_energy_j(field_noise, loss, wavelength) * (1.0 + signal / mixer)
        for loss, signal, mixer in zip(hop_loss_db, signals, mixers, strict=True)
    )
    electronics = None if rate is None else float(rate)
    return LightBudget(field_noise, hop_loss_db, laser, mixers, energy, laser / energy, electronics)


def loss_limit_db(process: Process, field_noise: float) -> float | None:
    """Return the largest loss of a layer, in dB, at which the laser power allows the lowest useful symbol rate.

    Local oscillators are taken as strong.

    Args:
        process: Process card, which gives laser power and lowest symbol rate.
        field_noise: Standard deviation σ of the field noise that the network tolerates, relative to full scale.

    Returns:
        The loss; None if the process card has no budget.
    """
    if process.budget is None:
        return None
    unattenuated = symbol_energy_j(field_noise, 0.0, float(process.guide.wavelength_nm))
    return 10.0 * math.log10(float(process.budget.laser_w / process.budget.symbol_rate_min_bd) / unattenuated)


def light_numbers(budget: LightBudget) -> dict[str, Any]:
    """Return a light budget as a dict for `report.json`; the keys are the fields of `LightNumbers`."""
    mixers = [None if math.isinf(power) else power for power in budget.mixer_w]
    lists = {"hop_loss_db": list(budget.hop_loss_db), "mixer_w": mixers}
    return asdict(budget) | lists | {"symbol_rate_bd": budget.symbol_rate_bd}
