"""Eye diagrams of classifiers: open at low rates, closed by noise, and those of a single output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.cards import load_process, with_field_outputs
from optinc_pdk.networks import GeneralNetwork, Layer, NetworkLimits, check_data
from optinc_pdk.report.eye_diagrams import axis_label, eyes_png, worst_eyes
from optinc_pdk.simulate import program, scattering
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES
from optinc_pdk.studies.eye_diagrams import WORDS, class_eyes, leads
from optinc_pdk.studies.noisy_outputs import NoisyNetwork, operating_noise

PROCESS = load_process()


def classifier(outputs: int, classes: list[str] | None = None, agreement: float = 1.0) -> NoisyNetwork:
    """A chip of random weights, and data on which the network decides clearly."""
    rng, process = np.random.default_rng(2), with_field_outputs(PROCESS)
    layers = [
        Layer(rng.normal(size=(4, 2)), rng.normal(size=4)),
        Layer(rng.normal(size=(outputs, 4)), np.zeros(outputs)),
    ]
    plain = GeneralNetwork.of_layers(layers, card={} if classes is None else {"classes": classes})
    x = rng.uniform(-1.0, 1.0, (400, 2))
    found = plain.forward(x)
    ordered = np.sort(found, axis=1)
    clear = np.abs(found[:, 0]) if outputs == 1 else ordered[:, -1] - ordered[:, -2]
    x = x[clear > 0.2 * np.abs(found).max()]
    network = plain.with_data(x)
    circuit = assemble(network, process, "network")
    assert circuit.board is not None
    bias = program(circuit, circuit.board, network, process).bias
    s = scattering(circuit, bias, float(process.guide.wavelength_nm), process)
    y = network.forward(x)
    chosen = (y[:, 0] > 0.0).astype(int) if outputs == 1 else y.argmax(axis=1)
    data = check_data(x, chosen if classes is None else np.array(classes)[chosen], network)
    return NoisyNetwork(s, circuit.board, bias, network, data, NetworkLimits(agreement=agreement))


@pytest.fixture(scope="module")
def three() -> NoisyNetwork:
    return classifier(3)


def test_leads_are_distances_from_the_largest_other_output() -> None:
    assert leads(np.array([[3.0, 1.0, -2.0], [0.0, 0.5, 0.25]])).tolist() == [[2.0, -2.0, -5.0], [-0.5, 0.25, -0.25]]
    assert leads(np.array([[-1.5]])).tolist() == [[-1.5]]


def test_slow_symbols_have_open_eyes_and_noise_closes_them(three: NoisyNetwork) -> None:
    slow, fast, weak = (
        class_eyes(three, operating_noise(PROCESS, power, rate), 0)
        for power, rate in ((None, 1e5), (None, 1e9), (1e-6, 1e8))
    )
    assert [eye.name for eye in slow.eyes] == ["class 0", "class 1", "class 2"]
    chosen = set(three.data.labels.tolist())
    assert len(chosen) >= 2
    for number, eye in enumerate(slow.eyes):
        if number not in chosen:
            assert eye.opening is None and eye.deviation is None
            continue
        assert 0.1 < eye.opening <= 1.0 and eye.deviation < 0.01
        assert eye.instants.shape == (WORDS * SAMPLES,) and eye.readings == pytest.approx(eye.levels, abs=0.05)
    assert slow.agreement == 1.0 and weak.agreement < 0.95
    for number in chosen:
        assert weak.eyes[number].opening < 0.0 < slow.eyes[number].opening
        assert slow.eyes[number].deviation < fast.eyes[number].deviation < weak.eyes[number].deviation


def test_samples_that_may_be_read_otherwise_are_left_out(three: NoisyNetwork) -> None:
    noise = operating_noise(PROCESS, None, 1e5)
    strict = class_eyes(three, noise, 0).eyes
    spared = class_eyes(replace(three, limits=NetworkLimits(agreement=0.9)), noise, 0).eyes
    openings = [
        (one.opening, other.opening) for one, other in zip(strict, spared, strict=True) if one.opening is not None
    ]
    assert all(one < other for one, other in openings)


def test_one_output_has_the_eye_of_class_1_with_the_name_of_the_card() -> None:
    two = classifier(1, ["cat", "dog $x"])
    noise = operating_noise(PROCESS, None, 1e5)
    found = class_eyes(two, noise, 0)
    (eye,) = found.eyes
    assert eye.name == "class dog $x" and eye.opening > 0.1 and found.agreement == 1.0
    assert worst_eyes(found.eyes) == found.eyes
    assert eyes_png(found.eyes, noise, 0.01, "chip").startswith(b"\x89PNG")


def test_axes_have_a_quantity_and_a_unit() -> None:
    assert axis_label("class dog $x") == "lead over the other outputs\n/ largest output"
    assert axis_label("layer 0, row 3") == "difference of the detectors\n/ its largest value"
    assert axis_label("out_s0_m1") == "output / levels"
