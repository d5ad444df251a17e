"""Fixtures of the tolerance tests: a small chip with a geometry as from a layout."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from chip_geometry import with_geometry

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.cards.process import with_link
from optinc_pdk.circuit import write_bias, write_netlist
from optinc_pdk.drive import SharedGround
from optinc_pdk.extract import extract
from optinc_pdk.layout import lay_out_network, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer, carry_chain, linked_network
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.electrical.wiring import read_wiring
from optinc_pdk.simulate import analyse, program
from optinc_pdk.studies import chip_of, imperfections, read_chip
from optinc_pdk.studies.chip_checks import WordCheck
from optinc_pdk.studies.montecarlo.study import YieldStudy

TASK = Averaging(4, 4, 2)


def small_onn(hidden=(3,), seed=0):
    """Return a network with random weights; its biases keep every unit active."""
    rng = np.random.default_rng(seed)
    layers = [
        Layer(0.1 * rng.standard_normal((out, into)), rng.uniform(1.0, 2.0, out))
        for into, out in pairwise((2, *hidden, 2))
    ]
    layers[-1] = replace(layers[-1], bias=np.zeros(2))
    return AveragingNetwork(tuple(layers), TASK)


@pytest.fixture(scope="session")
def process():
    return load_process()


@pytest.fixture(scope="session")
def onn():
    return small_onn()


@pytest.fixture(scope="session")
def circuit(onn, process):
    return with_geometry(assemble(onn, process, "small"), 1)


@pytest.fixture(scope="session")
def ground(circuit):
    """A ground network of 0.5 Ω common resistance plus 0.1 Ω per preceding heater; real networks are symmetric."""
    labels = analyse(circuit).channel
    return SharedGround(labels, lambda current: 0.5 * current.sum() + 0.1 * np.cumsum(current))


@pytest.fixture(scope="session")
def chip(circuit, onn, process, ground):
    board = assemble(onn, process, "small").board
    bias = program(circuit, board, onn, process, ground=ground).bias
    return chip_of(circuit, board, bias, process, ground)


@pytest.fixture(scope="session")
def every(process):
    return imperfections(process)


@pytest.fixture(scope="session")
def tiny(process, tmp_path_factory):
    """Files of a chip with a layout: average of four words of two bits, with a margin of half a level."""
    folder = tmp_path_factory.mktemp("tiny")
    network = carry_chain(Averaging(2, 4, 1))
    network.save(folder / "tiny.npz")
    get_pdk("soi220").activate()
    circuit, chip = lay_out_network(network, process, "tiny")
    write_gds(to_layout(chip, process, "tiny"), folder / "tiny.gds")
    write_netlist(circuit, folder / "tiny.pic.yml")
    extracted, wiring = extract(folder / "tiny.gds", process).circuit, read_wiring(folder / "tiny.gds", process)
    bias = program(extracted, circuit.board, network, process, ground=wiring.common_ground).bias
    write_bias(bias, folder / "tiny.bias.yml")
    return folder


@pytest.fixture(scope="session")
def work(tiny, process, every):
    """Work on samples of the tiny chip with small amounts of four imperfections; some samples read words wrong."""
    kinds = {"coupler": 0.2, "phase": 0.1, "dac": 1.0, "wavelength": 0.2}
    selected = every.only(*kinds)
    for kind, amount in kinds.items():
        selected = selected.scaled(kind, amount)
    chip = read_chip(*(tiny / f"tiny{ending}" for ending in (".gds", ".pic.yml", ".bias.yml")), process)
    return YieldStudy(WordCheck(chip, Averaging(2, 4, 1)), selected, 7)


@pytest.fixture(scope="session")
def locked():
    """Work on samples of a chip with output neurons and coherent receivers, whose modulators leak."""
    task, card = Averaging(2, 4, 1), with_link(load_process("soi220_fast"), "neurons", "coherent")
    network = linked_network(carry_chain(task), True)
    drawn = assemble(network, card, "locked")
    circuit = with_geometry(drawn, 2)
    bias = program(circuit, drawn.board, network, card).bias
    return YieldStudy(WordCheck(chip_of(circuit, drawn.board, bias, card), task), imperfections(card), 7)
