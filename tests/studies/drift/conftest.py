"""A sampled chip in service: the bundled 4-bit network, whose outputs end in neurons, calibrated at 12 bits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optinc_pdk.cards import load_process, with_drive, with_link
from optinc_pdk.circuit import write_bias, write_netlist
from optinc_pdk.extract import extract
from optinc_pdk.layout import lay_out_network, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, bundled_weights, linked_network
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.electrical.wiring import read_wiring
from optinc_pdk.simulate import program
from optinc_pdk.studies import imperfections, read_chip
from optinc_pdk.studies.chip_checks import WordCheck
from optinc_pdk.studies.drift.word_drift import start_service
from optinc_pdk.studies.montecarlo.study import YieldStudy


@pytest.fixture(scope="session")
def service_work(tmp_path_factory):
    """Samples of the chip with all imperfections, at 12 effective bits."""
    folder = tmp_path_factory.mktemp("service")
    process, network = with_link(load_process(), "neurons", None), AveragingNetwork.load(bundled_weights(4, 4))
    get_pdk("soi220").activate()
    linked = linked_network(network, True)
    circuit, layout = lay_out_network(linked, process, "chip")
    write_gds(to_layout(layout, process, "chip"), folder / "chip.gds")
    write_netlist(circuit, folder / "chip.pic.yml")
    extracted, wiring = extract(folder / "chip.gds", process).circuit, read_wiring(folder / "chip.gds", process)
    bias = program(extracted, circuit.board, linked, process, ground=wiring.common_ground).bias
    write_bias(bias, folder / "chip.bias.yml")
    chip = read_chip(folder / "chip.gds", folder / "chip.pic.yml", folder / "chip.bias.yml", process)
    drawn = imperfections(process).scaled("dac", 16.0).without("laser", "detector")
    return YieldStudy(WordCheck(chip, network.task, network), drawn, 2603, True)


@pytest.fixture(scope="session")
def service(service_work):
    """The first sample at the start of its service."""
    return start_service(service_work, 0)


@pytest.fixture(scope="session")
def noisy_work(service_work):
    """The same samples with all noise at 300 MBd."""
    noise = service_work.check.operating_noise(None, 3e8)
    drawn = imperfections(service_work.chip.process).scaled("dac", 16.0)
    return replace(service_work, imperfections=drawn, noise=noise)


@pytest.fixture(scope="session")
def noisy_service(noisy_work):
    """The first sample, calibrated and tracked with noise."""
    return start_service(noisy_work, 0)


@pytest.fixture(scope="session")
def power_service(service_work):
    """The same sample with a drive that holds power."""
    chip = service_work.chip
    chip = replace(chip, process=with_drive(chip.process, "power"))
    return start_service(replace(service_work, check=replace(service_work.check, chip=chip)), 0)
