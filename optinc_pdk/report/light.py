"""The light budget: what shot noise asks of every symbol, and the symbol rate that is left.

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
    """Symbols per second that light and electronics allow.

    Attributes:
        field_noise: σ, relative to full scale at the detector.
        hop_loss_db: Per layer, full scale at its detectors against the light that a modulator launches.
        laser_w: Light launched into every guide.
        energy_j: Energy per symbol and guide that the layer of the largest loss needs.
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
        """The lower of both rates."""
        return self.light_bd if self.electronics_bd is None else min(self.light_bd, self.electronics_bd)


def photon_energy_j(wavelength_nm: float) -> float:
    """h ν."""
    return PLANCK_J_S * LIGHT_SPEED_M_S / (wavelength_nm * 1e-9)


def symbol_energy_j(field_noise: float, loss_db: float, wavelength_nm: float) -> float:
    """E = h ν / (4 σ² T), energy per symbol and guide for a field noise σ relative to full scale.

    Raises:
        ValueError: The noise is not above 0.
    """
    if not 0.0 < field_noise < math.inf:
        raise ValueError(f"field_noise = {field_noise} must be a finite number above 0: no light is free of noise")
    return photon_energy_j(wavelength_nm) / (4.0 * field_noise**2) * math.pow(10.0, loss_db / 10.0)


def light_budget(process: Process, field_noise: float, hop_loss_db: tuple[float, ...]) -> LightBudget | None:
    """The budget of a chip whose layers lose so much; None where the process card has no budget.

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
    """Loss of a layer at which the light just carries the slowest useful symbols; None without a budget."""
    if process.budget is None:
        return None
    unattenuated = symbol_energy_j(field_noise, 0.0, float(process.guide.wavelength_nm))
    return 10.0 * math.log10(float(process.budget.laser_w / process.budget.symbol_rate_min_bd) / unattenuated)


def light_numbers(budget: LightBudget) -> dict[str, Any]:
    """The budget as plain data."""
    return asdict(budget) | {"hop_loss_db": list(budget.hop_loss_db), "symbol_rate_bd": budget.symbol_rate_bd}
