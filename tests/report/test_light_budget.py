"""The light budget compared with the example of the design notes and with counted photons."""

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.report.light_budget import (
    light_budget,
    light_numbers,
    loss_limit_db,
    photon_energy_j,
    symbol_energy_j,
)


def test_sixty_six_columns_need_32_nanojoules_and_allow_a_third_of_a_megabaud() -> None:
    budget = light_budget(load_process(), 3e-4, (66 * 0.75,))
    assert budget is not None and budget.laser_w == 0.010
    assert budget.energy_j == pytest.approx(32e-9, rel=0.02)
    assert budget.light_bd == pytest.approx(0.3e6, rel=0.06)
    assert budget.symbol_rate_bd == budget.light_bd


def test_counted_photons_scatter_by_sigma() -> None:
    """The photons of a full-scale symbol are Poisson distributed; the field is the square root of their number."""
    sigma, loss_db = 0.01, 12.0
    launched = symbol_energy_j(sigma, loss_db, 1550.0) / photon_energy_j(1550.0)
    arriving = np.random.default_rng(1).poisson(launched * 10 ** (-loss_db / 10), 40_000)
    field = np.sqrt(arriving)
    assert np.std(field) / np.mean(field) == pytest.approx(sigma, rel=0.02)


def test_the_worst_layer_and_the_lower_rate_count() -> None:
    process = load_process()
    low = light_budget(process, 1e-2, (3.0, 9.0, 6.0))
    assert low is not None and low.energy_j == symbol_energy_j(1e-2, 9.0, 1550.0)
    assert low.symbol_rate_bd == low.electronics_bd == 1e9 < low.light_bd


def test_at_the_loss_limit_light_allows_the_lowest_rate() -> None:
    process = load_process()
    limit = loss_limit_db(process, 3e-4)
    assert limit is not None and process.budget is not None
    budget = light_budget(process, 3e-4, (limit,))
    assert budget is not None
    assert budget.light_bd == pytest.approx(process.budget.symbol_rate_min_bd)


def test_shot_noise_of_signals_counts_where_local_oscillators_are_weak() -> None:
    """Both photocurrents' noise over the square of their difference, by hand; layers without mixers have none."""
    process, laser = load_process(), 0.010
    powers = (np.array([3e-3, 1e-3]), np.zeros(0))
    budget = light_budget(process, 1e-2, (10.0, 7.0, 3.0), powers)
    assert budget is not None and budget.mixer_w == (1e-5, np.inf, np.inf)
    signal, oscillator, photon = 0.1 * laser, 1e-5, photon_energy_j(1550.0)
    # one electron a photon: currents R P with R = q / hν, variance q (R L + R S) / T in a symbol T
    symbol_s = budget.energy_j / laser
    electrons = symbol_s / photon
    variance = (oscillator + signal) * electrons / (2.0 * np.sqrt(oscillator * signal) * electrons) ** 2
    assert np.sqrt(variance) == pytest.approx(1e-2)
    assert light_numbers(budget)["mixer_w"] == [1e-5, None, None]


def test_zero_noise_is_refused_and_a_card_without_budget_has_no_limit() -> None:
    with pytest.raises(ValueError, match="field_noise = 0"):
        symbol_energy_j(0.0, 3.0, 1550.0)
    bare = load_process().model_copy(update={"budget": None})
    assert light_budget(bare, 3e-4, (3.0,)) is None and loss_limit_db(bare, 3e-4) is None
