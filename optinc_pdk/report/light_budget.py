"""The light budget: the energy of a symbol against shot noise, and the symbol rate that it allows.

A coherent field of n photons has a noise of half a photon's field in each quadrature, so after a transmission T it is
known to σ = 1 / (2 √(n T)) of full scale: homodyne detection with a strong local oscillator adds nothing, and loss
before the detector counts in full. Hence E = h ν / (4 σ² T) per symbol and guide.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from optinc_pdk.cards import Process

PLANCK_J_S = 6.62607015e-34
LIGHT_SPEED_M_S = 299_792_458.0


@dataclass(frozen=True)
class LightBudget:
    """The symbol rates that light and electronics allow.

    Attributes:
        field_noise: σ, relative to full scale at the detector.
        hop_loss_db: By layer, loss from the light that a modulator launches to full scale at the detectors.
        laser_w: Optical power launched into every guide.
        energy_j: Energy per symbol and guide that the layer with the largest loss needs.
        light_bd: Symbol rate at this energy.
        electronics_bd: Symbol rate of the electronics; None where the process card gives none.
    """

    field_noise: float
    hop_loss_db: tuple[float, ...]
    laser_w: float
    energy_j: float
    light_bd: float
    electronics_bd: float | None

    @property
    def symbol_rate_bd(self) -> float:
        """The lower of the two rates."""
        return self.light_bd if self.electronics_bd is None else min(self.light_bd, self.electronics_bd)


def photon_energy_j(wavelength_nm: float) -> float:
    """Energy of a photon, h ν."""
    return PLANCK_J_S * LIGHT_SPEED_M_S / (wavelength_nm * 1e-9)


def symbol_energy_j(field_noise: float, loss_db: float, wavelength_nm: float) -> float:
    """E = h ν / (4 σ² T), energy per symbol and guide for a field noise σ relative to full scale.

    Raises:
        ValueError: The noise is not a finite number above 0.
    """
    if not 0.0 < field_noise < math.inf:
        raise ValueError(f"field_noise = {field_noise} must be a finite number above 0: light always has noise")
    return photon_energy_j(wavelength_nm) / (4.0 * field_noise**2) * math.pow(10.0, loss_db / 10.0)


def light_budget(process: Process, field_noise: float, hop_loss_db: tuple[float, ...]) -> LightBudget | None:
    """The light budget of a chip; None where the process card has no budget.

    Args:
        process: Process card.
        field_noise: σ that the network tolerates, relative to full scale.
        hop_loss_db: Loss from modulator to detector, by layer.

    Raises:
        ValueError: The noise is not above 0.
    """
    if process.budget is None:
        return None
    rate = process.budget.symbol_rate_max_bd
    energy = symbol_energy_j(field_noise, max(hop_loss_db), float(process.guide.wavelength_nm))
    laser = float(process.budget.laser_w)
    return LightBudget(field_noise, hop_loss_db, laser, energy, laser / energy, None if rate is None else float(rate))


def loss_limit_db(process: Process, field_noise: float) -> float | None:
    """Loss of a layer, in dB, at which the light allows just the lowest useful symbol rate; None without a budget."""
    if process.budget is None:
        return None
    unattenuated = symbol_energy_j(field_noise, 0.0, float(process.guide.wavelength_nm))
    return 10.0 * math.log10(float(process.budget.laser_w / process.budget.symbol_rate_min_bd) / unattenuated)


def light_numbers(budget: LightBudget) -> dict[str, Any]:
    """The budget as plain data."""
    return asdict(budget) | {"hop_loss_db": list(budget.hop_loss_db), "symbol_rate_bd": budget.symbol_rate_bd}
