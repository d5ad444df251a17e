"""Eye diagrams of comparators and of classifiers: open at low rates, closed by bandwidth and noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from comparator_toy import BOARD, TASK, comparators, noise_at

from optinc_pdk.assemble import assemble
from optinc_pdk.cards import load_process, with_field_outputs
from optinc_pdk.errors import InputError
from optinc_pdk.networks import GeneralNetwork, Layer, NetworkLimits, check_data
from optinc_pdk.report.eye_diagrams import axis_label, eye_texts, eyes_png, worst_eyes
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import program, scattering
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES, SymbolShape
from optinc_pdk.studies.eyes import WORDS, Eye, class_eyes, eye_diagrams, eyes_json, leads
from optinc_pdk.studies.noisy_outputs import NoisyNetwork, operating_noise


def eyes(shape: SymbolShape, density: float, **changes: float) -> list[Eye]:
    s, bias = comparators()
    noise = replace(noise_at(1e6, receiver_a_per_sqrt_hz=density), shape=shape, **changes)
    return eye_diagrams(s, function_inputs(TASK), BOARD, bias, noise, 0)


def test_slow_symbols_without_noise_have_open_eyes() -> None:
    row, output = eyes(SymbolShape(60.0, 60.0, 0.25), 1e-15)
    assert (row.name, output.name) == ("layer 0, row 0", "out")
    for eye in (row, output):
        assert eye.opening == pytest.approx(1.0, abs=1e-3) and eye.deviation == pytest.approx(0.0, abs=1e-3)
        assert eye.instants.shape == (WORDS * SAMPLES,) and eye.readings == pytest.approx(eye.levels, abs=2e-3)
    assert sorted(set(np.rint(output.levels))) == [0, 1, 2, 3]


def test_bandwidth_closes_eyes_by_the_memory_of_the_shape() -> None:
    s, bias = comparators()
    noise = replace(noise_at(1e6, receiver_a_per_sqrt_hz=1e-15), shape=SymbolShape(1e6, 5.0, 0.25))
    row, _ = eye_diagrams(s, function_inputs(TASK), BOARD, bias, noise, 0)
    # between two levels, the highest level before one and the lowest before the other take a share of three levels
    assert row.opening == pytest.approx(1.0 - 4.0 * (1.0 - noise.shape.memory[0]), abs=0.03)
    closed = eyes(SymbolShape(2.0, 2.0, 0.25), 1e-15)
    assert row.opening is not None
    assert all(eye.opening is not None and eye.opening < row.opening for eye in closed)


def test_noise_has_the_deviation_of_a_reading() -> None:
    shape = SymbolShape(60.0, 60.0, 0.25)
    quiet, loud = eyes(shape, 1e-15)[0], eyes(shape, 5e-11)[0]
    noise = replace(noise_at(1e6, receiver_a_per_sqrt_hz=5e-11), shape=shape)
    sigma = math.sqrt(2.0 * noise.variance(np.zeros(1))[0]) / (0.05**2 * 0.12)  # of both detectors, over level 3
    assert (loud.readings - quiet.readings).std() == pytest.approx(sigma, rel=0.1)
    assert None not in (loud.opening, quiet.opening, loud.deviation, quiet.deviation)
    assert loud.opening < quiet.opening and loud.deviation > quiet.deviation  # type: ignore[operator]


def test_noise_of_laser_and_fibres_is_in_the_eyes_of_the_layer_that_it_reaches() -> None:
    """The one input beats with the carrier: its amplitude noise, and what its phase turns away from the carrier."""
    shape = SymbolShape(60.0, 60.0, 0.25)
    quiet, loud = (
        eyes(shape, 1e-15, fibre_phase_rad=phase, polarisation=field) for phase, field in ((0.0, 0.0), (0.2, 0.1))
    )
    moved = loud[0].readings - quiet[0].readings
    lit, dark = quiet[0].levels > 0.9, quiet[0].levels < 0.1
    # of a phase of variance 0.2² + 0.1² / 2, the in-phase part is lost to second order
    assert moved[lit].mean() / quiet[0].levels[lit].mean() == pytest.approx(-(0.2**2 + 0.1**2 / 2) / 2, rel=0.3)
    assert moved[lit].std() > 10.0 * moved[dark].std()


def test_picture_and_numbers_state_the_worst_rows() -> None:
    shape = SymbolShape(6.0, 6.0, 0.25)
    found = eyes(shape, 1e-11)
    copies = [*found[:1], replace(found[0], name="layer 0, row 1", opening=-0.5), found[1]]
    assert [eye.name for eye in worst_eyes(copies)] == ["layer 0, row 1", "out"]
    noise = replace(noise_at(1e6), shape=shape)
    assert eyes_png(copies, noise, 0.016, "toy").startswith(b"\x89PNG")
    numbers = eyes_json(copies, noise, 0.016)
    assert numbers["oscillator_w"] == 0.016
    assert numbers["window"] == 0.25 and numbers["eyes"][0]["signal"] == "layer 0, row 0"


def test_a_signal_of_one_level_has_no_eye() -> None:
    """Receivers without scale read level 0 of every word."""
    s, bias = comparators()
    shape = SymbolShape(6.0, 6.0, 0.25)
    noise = replace(noise_at(1e6, receiver_a_per_sqrt_hz=1e-11), shape=shape)
    row, output = eye_diagrams(s, function_inputs(TASK), BOARD, replace(bias, outputs={"out": 1e-12}), noise, 0)
    assert output.opening is None and output.deviation is None
    assert row.opening is not None and 0.0 < row.opening < 1.0
    assert eye_texts(output) == ("no eye: one level", "none") and eye_texts(row)[0] == f"{row.opening:.3f}"
    numbers = eyes_json([row, output], noise, 0.016)["eyes"]
    assert numbers[1] == {"signal": "out", "opening": None, "deviation": None}
    constant = replace(output, name="layer 0, row 1")
    for order in ([row, constant], [constant, row]):
        assert worst_eyes(order) == [row]
    assert worst_eyes([constant]) == [constant]
    assert eyes_png([row, output], noise, 0.016, "toy").startswith(b"\x89PNG")


def test_cards_without_bandwidth_are_refused() -> None:
    with pytest.raises(InputError, match=r"no bandwidth of its modulators.*modulator\.yml"):
        eyes(SymbolShape(math.inf, 5.0, 0.25), 1e-12)


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
