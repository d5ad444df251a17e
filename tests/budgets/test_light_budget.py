"""The light budget compared with counted photons, and losses from the cards with the gains of programmed chips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.assemble.die_plan import LOCAL_STRIPS
from optinc_pdk.averaging import Averaging
from optinc_pdk.budgets.light_budget import (
    detection_losses,
    light_budget,
    loss_limit_db,
    photon_energy_j,
    symbol_energy_j,
)
from optinc_pdk.cards import Quantity, load_process
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights, factorise, linked_network
from optinc_pdk.networks.requirements import check_gains, least_gains
from optinc_pdk.simulate import program


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
    assert budget is not None and budget.mixer_w == [1e-5, None, None]
    signal, oscillator, photon = 0.1 * laser, 1e-5, photon_energy_j(1550.0)
    # one electron a photon: currents R P with R = q / hν, variance q (R L + R S) / T in a symbol T
    symbol_s = budget.energy_j / laser
    electrons = symbol_s / photon
    variance = (oscillator + signal) * electrons / (2.0 * np.sqrt(oscillator * signal) * electrons) ** 2
    assert np.sqrt(variance) == pytest.approx(1e-2)


def test_zero_noise_is_refused_and_a_card_without_budget_has_no_limit() -> None:
    with pytest.raises(ValueError, match="field_noise = 0"):
        symbol_energy_j(0.0, 3.0, 1550.0)
    bare = load_process().model_copy(update={"budget": None})
    assert light_budget(bare, 3e-4, (3.0,)) is None and loss_limit_db(bare, 3e-4) is None


def lossless_guides(name: str):
    """A process whose guides lose nothing, as those of a circuit without layout, and with any offset."""
    process = load_process(name)
    guide = process.guide.model_copy(update={"loss_db_per_cm": Quantity(0.0, "test")})
    activation = process.activation.model_copy(update={"offset_max": Quantity(1e3, "test")})
    return process.model_copy(update={"guide": guide, "activation": activation})


def in_blocks() -> AveragingNetwork:
    """A network with two blocks side by side, and two that share their inputs, in hidden layers."""
    rng = np.random.default_rng(5)
    shapes = ((4, 2), (8, 4), (4, 8), (2, 4))
    layers = [Layer(0.1 * rng.standard_normal(shape), rng.uniform(2.0, 4.0, shape[0])) for shape in shapes]
    layers[-1] = Layer(np.abs(layers[-1].weight), np.zeros(2))
    return AveragingNetwork(tuple(layers), Averaging(4, 4, 2), ("svd", ("approx", 4), ("approx", 4), "svd"))


NETWORKS = {
    "comparators": lambda: AveragingNetwork.load(bundled_weights(4, 4)),
    "8 bits": lambda: AveragingNetwork.load(bundled_weights(8, 4)),
    "blocks": in_blocks,
    "rows": lambda: replace(AveragingNetwork.load(bundled_weights(8, 4)), factor=("rows",) * 5),
}


@pytest.mark.parametrize("process", ["soi220", "soi220_fast"])
@pytest.mark.parametrize("name", NETWORKS)
def test_programmed_chips_need_more_gain_but_not_much_more(name: str, process: str) -> None:
    """Gains are above the bound; by less than a factor of 5, for the 2-norms of the layers and unequal splitters."""
    card = lossless_guides(process)
    onn = linked_network(NETWORKS[name](), card.link.kind == "neurons")
    circuit, factors = assemble(onn, card, "x", LOCAL_STRIPS), factorise(onn)
    bias = program(circuit, circuit.board, onn, card, factors=factors).bias
    for index, (factor, loss) in enumerate(zip(factors[:-1], detection_losses(onn, card), strict=True)):
        least = least_gains(factor) * 10.0 ** (loss.total_db / 20.0)
        gain = np.array([bias.activations[n.label].gain for n in circuit.board.neurons if n.layer == index])
        ratio = gain[least > 0.0] / least[least > 0.0]
        assert ratio.min() > 1.0 and ratio.max() < 5.0, (index, ratio)


def test_a_mesh_that_loses_too_much_is_refused() -> None:
    task = Averaging(8, 4, 4)
    rng = np.random.default_rng(0)
    wide = np.linalg.qr(rng.standard_normal((160, 160)))[0]
    layers = (
        Layer(np.abs(rng.standard_normal((160, 4))), np.zeros(160)),
        Layer(wide, np.ones(160)),
        Layer(np.abs(rng.standard_normal((4, 160))), np.zeros(4)),
    )
    onn = AveragingNetwork(layers, task, ("svd", ("approx", 160), "svd"))
    factors = factorise(onn)
    process = load_process("soi220_fast")
    with pytest.raises(InputError, match=r"layers\.1: .*161 MZIs and attenuators in series of 0\.504 dB each"):
        check_gains(factors, process, detection_losses(onn, process))
    low_loss = load_process("tests/processes/low_loss")
    check_gains(factors, low_loss, detection_losses(onn, low_loss))
