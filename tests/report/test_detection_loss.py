"""Losses from the cards compared with the gains of programmed chips."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.assemble.die_plan import LOCAL_STRIPS
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Quantity, load_process
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights, factorise, linked_network
from optinc_pdk.networks.conditioning import check_gains, least_gains
from optinc_pdk.report.detection_loss import detection_losses
from optinc_pdk.simulate import program


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
