"""General networks: ranges, scales of signals, files, and their comparison with chips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.networks import (
    AveragingNetwork,
    GeneralNetwork,
    Layer,
    NetworkComparison,
    NetworkLimits,
    VectorTask,
    WeightsError,
    bundled_weights,
    check_data,
    factorise,
    linked_network,
    without_output_bias,
)
from optinc_pdk.networks.factorisation import HEADROOM
from optinc_pdk.networks.network import load_network
from optinc_pdk.networks.normalisation import LEAST_SHARE, hidden_maxima
from optinc_pdk.networks.tasks import RESERVE

LAYERS = (
    Layer(np.array([[1.0, -2.0], [0.5, 0.5], [-1.0, 0.0]]), np.array([0.1, -0.2, -5.0])),
    Layer(np.array([[1.0, -1.0, 2.0]]), np.array([0.3])),
)
X = np.array([[0.5, 0.25], [-0.25, -1.0], [1.5, 0.5]])


def test_inputs_are_sent_relative_to_their_largest_magnitude() -> None:
    assert GeneralNetwork.of_layers(LAYERS).task.input_values().tolist() == [1.0, 1.0]
    assert GeneralNetwork.of_layers(LAYERS, input_range=[-3.0, 2.0]).task.input_values().tolist() == [3.0, 3.0]
    each = GeneralNetwork.of_layers(LAYERS, input_range=[[0.0, -4.0], [5.0, 1.0]])
    assert each.task.input_values().tolist() == [5.0, 4.0]
    assert GeneralNetwork.of_layers(LAYERS).with_data(X).task.input_values().tolist() == [1.5, 1.0]
    # an input that is always 0 does not become infinite
    assert VectorTask(2, 1, data=X * [1.0, 0.0]).input_values().tolist() == [1.5, 1.5]
    assert VectorTask(2, 1, data=0.0 * X).input_values().tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="values, not levels"):
        VectorTask(2, 1).input_values([1.0, 1.0])


def test_random_inputs_fill_the_range_and_are_the_same_at_every_call() -> None:
    task = VectorTask(2, 1, np.array([[0.0, -4.0], [5.0, 1.0]]))
    points = task.points
    assert points.shape == (4096, 2)
    np.testing.assert_array_equal(points, VectorTask(2, 1, np.array([[0.0, -4.0], [5.0, 1.0]])).points)
    assert np.all((points >= [0.0, -4.0]) & (points <= [5.0, 1.0]))
    np.testing.assert_allclose(points.min(axis=0), [0.0, -4.0], atol=0.01)
    np.testing.assert_allclose(points.max(axis=0), [5.0, 1.0], atol=0.01)
    assert sum(len(batch) for batch in task.batches(1000)) == 4096


@pytest.mark.parametrize(
    "stated", [[1.0, -1.0], [0.0, np.nan], [0.0, 0.0], [0.0, 1.0, 2.0], np.zeros((3, 2)), ["a", "b"]]
)
def test_a_range_that_is_none_is_refused(stated: object) -> None:
    with pytest.raises(InputError, match="input_range"):
        GeneralNetwork.of_layers(LAYERS, input_range=stated)


def test_hidden_signals_are_scaled_to_their_maxima_over_the_data_with_a_reserve() -> None:
    network = GeneralNetwork.of_layers(LAYERS).with_data(X)
    found = hidden_maxima(network)[0]
    hidden = np.maximum(X @ LAYERS[0].weight.T + LAYERS[0].bias, 0.0).max(axis=0)
    bound = np.array([1.5 + 2.0 + 0.1, 0.5 * 1.5 + 0.5 * 0.5 - 0.2])
    # the second unit reaches its bound in the data; the third is never positive, and needs no gain
    np.testing.assert_allclose(found[:2], np.minimum(RESERVE * hidden[:2], bound))
    assert found[2] == pytest.approx(LEAST_SHARE * 1.75)
    factors = factorise(network)
    amplitudes = np.maximum((X / [1.5, 1.0]) @ factors[0].weight.T + factors[0].bias, 0.0)
    np.testing.assert_allclose(amplitudes.max(axis=0)[:2], HEADROOM * hidden[:2] / found[:2])
    outputs = amplitudes @ factors[1].weight.T + factors[1].bias
    np.testing.assert_allclose(outputs, network.forward(X), atol=1e-12)


def test_clipped_signals_are_scaled_to_bounds_so_that_none_clips_too_early() -> None:
    network = GeneralNetwork.of_layers(LAYERS, "clipped_relu").with_data(X)
    np.testing.assert_allclose(hidden_maxima(network)[0], [1.0, 0.8, 0.0])


def test_the_receivers_add_the_output_bias_and_read_signs() -> None:
    network = GeneralNetwork.of_layers(LAYERS)
    assert without_output_bias(network) is network
    assert linked_network(network, neurons=False) is network
    with pytest.raises(InputError, match="signed"):
        linked_network(network, neurons=True)


@pytest.mark.parametrize("activation", ["relu", "clipped_relu"])
def test_files_keep_the_network(tmp_path: Path, activation: object) -> None:
    network = GeneralNetwork.of_layers(LAYERS, activation, [[0.0, -1.0], [2.0, 1.0]], card={"accuracy": 0.9})
    network.save(tmp_path / "net.npz")
    read = GeneralNetwork.load(tmp_path / "net.npz")
    assert read.digest == network.digest and read.card == network.card and read.activation == activation
    np.testing.assert_array_equal(read.task.input_range, network.task.input_range)
    assert read.digest != GeneralNetwork.of_layers(LAYERS, activation).digest
    # the data is no part of the network
    assert network.with_data(np.abs(X)).digest == network.digest
    with pytest.raises(WeightsError, match="no averaging task"):
        AveragingNetwork.load(tmp_path / "net.npz")
    with pytest.raises(WeightsError, match="averaging task"):
        GeneralNetwork.load(bundled_weights())
    assert isinstance(load_network(bundled_weights()), AveragingNetwork)


def test_a_range_is_refused_for_words(tmp_path: Path) -> None:
    with np.load(bundled_weights()) as arrays:
        np.savez(tmp_path / "words.npz", **arrays, input_range=np.array([0.0, 1.0]))
    with pytest.raises(WeightsError, match="input_range"):
        AveragingNetwork.load(tmp_path / "words.npz")


def test_layers_and_range_must_fit() -> None:
    with pytest.raises(ValueError, match=r"2 inputs.*3"):
        GeneralNetwork(LAYERS, VectorTask(3, 1))
    with pytest.raises(ValueError, match=r"1 outputs.*2"):
        GeneralNetwork(LAYERS, VectorTask(2, 2))
    with pytest.raises(ValueError, match="layers is empty"):
        GeneralNetwork.of_layers(())


def test_agreement_counts_classes_with_labels_and_deviations_without() -> None:
    network = GeneralNetwork.of_layers([Layer(np.eye(2), np.zeros(2)), Layer(np.eye(2), np.zeros(2))])
    x = np.array([[2.0, 1.0], [1.0, 1.1], [0.0, 4.0], [3.0, 0.0]])
    expected = network.forward(x)
    chip = expected + np.array([[0.01, 0.0], [0.2, 0.0], [0.0, 0.0], [0.0, -0.03]])
    labelled = NetworkComparison(check_data(x, np.array([0, 1, 1, 1]), network), NetworkLimits(0.7), expected, chip)
    assert labelled.agreeing.tolist() == [True, False, True, True] and labelled.passed
    assert labelled.network_accuracy == 0.75 and labelled.chip_accuracy == 0.5 and labelled.constant_accuracy == 0.75
    assert labelled.confusion is not None and labelled.confusion.tolist() == [[1, 0], [2, 1]]
    assert labelled.worst == pytest.approx(0.2 / 4.0) and labelled.decision_margins[1] == pytest.approx(0.1 / 4.0)
    strict = NetworkLimits(0.7, accuracy=0.6)
    assert not NetworkComparison(labelled.data, strict, expected, chip).passed
    plain = NetworkComparison(check_data(x, None, network), NetworkLimits(0.75, 0.01), expected, chip)
    assert plain.agreeing.tolist() == [True, False, True, True] and plain.passed
    assert plain.network_accuracy is None and plain.confusion is None and plain.rms_error(chip) is None
    exact = NetworkComparison(check_data(x, expected, network), NetworkLimits(1.0, 0.001), expected, chip)
    assert not exact.passed and exact.rms_error(expected) == 0.0
    assert exact.rms_error(chip) == pytest.approx(np.sqrt((0.01**2 + 0.2**2 + 0.03**2) / 8))
