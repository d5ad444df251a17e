"""Chips as codes and tables compute the same words as direct evaluation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_collective.schemes import AveragingChip, ideal_cascade, ideal_chip, network_cascade, network_chip
from optinc_collective.schemes.chips import mean_truncation
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.networks.cascade import Cascade


def network(name: str) -> AveragingNetwork:
    import optinc_pdk.networks

    return AveragingNetwork.load(Path(optinc_pdk.networks.__file__).parent / "bundled" / f"{name}.npz")


def words(chip: AveragingChip, count: int = 2000) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 1 << chip.bits, (count, chip.servers))


CHIPS = {
    "ideal of 4": lambda: ideal_chip(8, 4),
    "ideal of 3": lambda: ideal_chip(16, 3),
    "ideal of 16": lambda: ideal_chip(8, 16),
    "one server": lambda: ideal_chip(8, 1),
    "cascade of 2²": lambda: ideal_cascade(8, 2),
    "cascade of 4²": lambda: ideal_cascade(16, 4),
    "network": lambda: network_chip(network("average_8bit_4servers")),
    "cascade of networks": lambda: network_cascade(
        Cascade(network("cascade_8bit_4servers_level1"), network("cascade_8bit_4servers_level2"))
    ),
}


@pytest.mark.parametrize("name", CHIPS)
def test_truncation_is_the_mean_difference_to_the_mean_of_the_words(name):
    chip = CHIPS[name]()
    sent = words(chip, 40_000)
    lost = sent.mean(axis=1) - chip.average(sent)[:, 0]
    assert abs(lost.mean() - chip.truncation) <= 4 * lost.std() / np.sqrt(len(lost))
    assert chip.truncation == pytest.approx((chip.servers - 1) / (2 * chip.servers))


def test_a_level_that_drops_its_remainder_has_a_larger_truncation():
    first = Averaging(8, 4, 4)
    assert mean_truncation(first) + mean_truncation(replace(first, finer_input=True)) == 0.375 + 0.46875
    assert mean_truncation(replace(first, remainder=True)) == 0.0


@given(bits=st.sampled_from([2, 4, 8, 16]), servers=st.integers(1, 20), data=st.data())
def test_ideal_average(bits, servers, data):
    chip = ideal_chip(bits, servers)
    sent = np.array(data.draw(st.lists(st.integers(0, (1 << bits) - 1), min_size=servers, max_size=servers)))
    assert set(chip.average(sent)) == {int(Averaging(bits, servers, 1).ideal(sent))}


@pytest.mark.parametrize(("bits", "servers"), [(8, 2), (8, 4), (16, 4)])
def test_ideal_cascade_equals_one_level_for_all_servers(bits, servers):
    cascade, one = ideal_cascade(bits, servers), ideal_chip(bits, servers**2)
    assert cascade.servers == one.servers == servers**2
    assert np.array_equal(cascade.average(words(one)), one.average(words(one)))


@pytest.mark.parametrize("name", ["average_4bit_4servers", "average_8bit_4servers", "average_8bit_4servers_relu"])
def test_exact_network_is_the_ideal_average(name):
    onn = network(name)
    chip, ideal = network_chip(onn), ideal_chip(onn.task.bits, onn.task.servers)
    assert np.array_equal(chip.average(words(chip)), ideal.average(words(chip)))


def test_network_chip_reproduces_the_errors_of_its_network():
    onn = network("average_4bit_4servers_relu")
    last = replace(onn.layers[-1], bias=np.add(onn.layers[-1].bias, [0.3, -0.4]))
    shifted = replace(onn, layers=(*onn.layers[:-1], last))
    chip, task = network_chip(shifted), onn.task
    sent = words(chip)
    fields = shifted.forward(task.preprocess(task.encode(sent)))
    expected = task.decode(np.clip(np.rint(np.abs(fields)), 0, 3).astype(np.int64))
    assert np.array_equal(chip.average(sent), np.broadcast_to(expected[:, None], sent.shape))
    assert (expected != task.ideal(sent)).any()


def test_cascade_of_networks_equals_cascade_average():
    cascade = Cascade(network("cascade_8bit_4servers_level1"), network("cascade_8bit_4servers_level2"))
    chip = network_cascade(cascade)
    sent = words(chip)
    assert np.array_equal(chip.average(sent)[:, 0], cascade.average(sent.reshape(-1, 4, 4)))
    assert np.array_equal(chip.average(sent), ideal_chip(8, 16).average(sent))


def test_one_level_of_a_cascade_is_refused():
    with pytest.raises(InputError, match="network_cascade"):
        network_chip(network("cascade_8bit_4servers_level1"))


@pytest.mark.parametrize(
    ("bits", "servers", "message"),
    [
        (18, 4, "bits = 18.*16"),
        (7, 4, "bits = 7"),
        (8, 0, "servers = 0"),
        (16, 40001, "servers = 40001"),
        ("8", 4, "ideal_chip: bits = '8'"),
        (8.0, 4, "ideal_chip: bits = 8.0"),
        (8, True, "ideal_chip: servers = True"),
    ],
)
def test_unsupported_bits_and_servers_are_refused(bits, servers, message):
    with pytest.raises(InputError, match=message):
        ideal_chip(bits, servers)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ideal_chip(8, 4, 0.01), "ideal_chip: errors = 0.01: .*ErrorHistogram"),
        (lambda: ideal_cascade(8, 2.0), "ideal_cascade: servers = 2.0"),
        (lambda: network_chip("network.npz"), "network_chip: onn = 'network.npz': .*AveragingNetwork"),
        (lambda: network_cascade(network("average_4bit_4servers")), "network_cascade: cascade = .*: .*Cascade"),
        (lambda: replace(ideal_chip(8, 4), bits=8.0), "bits = 8.0"),
        (lambda: replace(ideal_chip(8, 4), levels=4), "levels = 4: .*tuple"),
        (lambda: ideal_chip(8, 4).average([[0.5] * 4]), "words .*float64"),
        (lambda: ideal_chip(8, 4).average([[0, 1, 2, 256]]), r"words .*0 \.\.\. 255.*0 \.\.\. 256"),
        (lambda: ideal_chip(8, 4).average(7), r"words .*\(\) .*\(4\)"),
    ],
)
def test_values_of_wrong_types_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_lattice_too_large_for_a_table_is_refused():
    onn = network("average_8bit_4servers")
    with pytest.raises(InputError, match="8 bits, 1000 servers and 4 groups"):
        network_chip(replace(onn, task=Averaging(8, 1000, 4)))


def test_digests_of_different_chips_differ():
    chips = [ideal_chip(8, 4), ideal_chip(8, 8), ideal_chip(16, 4), ideal_cascade(8, 2)]
    chips.append(network_chip(network("average_4bit_4servers")))
    assert len({chip.digest for chip in chips}) == len(chips)
    assert ideal_chip(8, 4).digest == chips[0].digest
