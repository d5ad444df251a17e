"""Outputs of the chips of matrices and general networks with noise, against the noiseless chip and formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from optinc_pdk.assemble import CARRIER_TREE, assemble, draft_matrix
from optinc_pdk.cards import load_process, with_field_outputs
from optinc_pdk.errors import InputError
from optinc_pdk.matrices import MatrixReading, MatrixTarget, compare_matrices, factor_matrix
from optinc_pdk.networks import GeneralNetwork, Layer, NetworkComparison, NetworkLimits, check_data
from optinc_pdk.report.noise_curve import checked_csv, checked_lines, checked_png
from optinc_pdk.simulate import program, program_matrix, scattering, transmit_vectors
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.studies.noise_curves import CheckedCurve, checked_noise_curve
from optinc_pdk.studies.noisy_outputs import NoisyMatrix, NoisyNetwork

PROCESS = load_process()
FAST = load_process("soi220_fast")
REAL = np.random.default_rng(1).normal(size=(3, 2))


def noisy_matrix(matrix: np.ndarray, read: MatrixReading) -> NoisyMatrix:
    target = MatrixTarget(matrix, read)
    circuit = draft_matrix(target, factor_matrix(target, PROCESS), PROCESS, "chip").complete(CARRIER_TREE)
    bias = program_matrix(circuit, target, PROCESS).bias
    # without resistances of heaters, the phases of the bias are driven
    s = scattering(circuit, bias, float(PROCESS.guide.wavelength_nm), PROCESS)
    return NoisyMatrix.of(s, target)


@pytest.fixture(scope="module")
def network() -> NoisyNetwork:
    rng, process = np.random.default_rng(2), with_field_outputs(PROCESS)
    layers = [Layer(rng.normal(size=(3, 2)), rng.normal(size=3)), Layer(rng.normal(size=(2, 3)), rng.normal(size=2))]
    x = rng.uniform(-1.0, 1.0, (100, 2))
    found = GeneralNetwork.of_layers(layers).with_data(x)
    circuit = assemble(found, process, "network")
    assert circuit.board is not None
    bias = program(circuit, circuit.board, found, process).bias
    s = scattering(circuit, bias, float(process.guide.wavelength_nm), process)
    data = check_data(x, found.forward(x).argmax(axis=1), found)
    return NoisyNetwork(s, circuit.board, bias, found, data, NetworkLimits(agreement=0.9, accuracy=0.9))


def silent(rate_bd: float = 1e6) -> object:
    """Noise model without any noise, whose symbols do not run into each other."""
    noise = noise_of(FAST, None, rate_bd).only()
    return replace(noise, shape=replace(noise.shape, transmitter=np.inf, receiver=np.inf))


def test_without_noise_a_network_computes_what_the_check_finds(network: NoisyNetwork) -> None:
    passed, values = network.measured(silent(), 2, 3)
    outputs = transmit_vectors(network.data.x, network.s, network.board, network.bias).outputs
    check = NetworkComparison(network.data, network.limits, network.network.forward(network.data.x), outputs)
    assert passed is check.passed and values["agreement"] == check.agreement
    assert values["accuracy"] == check.chip_accuracy
    assert values["worst_deviation"] == pytest.approx(float(check.deviations.max()), rel=1e-9)


@pytest.mark.parametrize("read", ["field", "real", "power"])
def test_without_noise_a_matrix_multiplies_as_the_check_finds(read: MatrixReading) -> None:
    noisy = noisy_matrix(REAL, read)
    values = noisy.measured(silent(), 1, 0)[1]
    found = compare_matrices(noisy.fields, noisy.target)
    x = np.random.default_rng(5).uniform(-1.0, 1.0, (20_000, 2))
    got, wanted = x @ found.matrix.T, x @ REAL.T
    if read == "power":
        got, wanted = np.abs(got) ** 2, np.abs(wanted) ** 2
    error = np.sqrt(np.mean(np.abs(got - wanted) ** 2) / np.mean(wanted**2))
    assert values["rms_error"] == pytest.approx(float(error), rel=0.05, abs=1e-12)
    assert values["worst_signal_to_noise_db"] == pytest.approx(300.0)


def test_receiver_noise_has_the_ratio_of_the_formula() -> None:
    """Var of a homodyne reading with amplifier noise alone: i² B / (2 (P_o / P) (R P)²), constant in the field."""
    noisy = noisy_matrix(np.asarray(scipy.stats.unitary_group(3, seed=2).rvs()), "field")
    noise = noise_of(FAST, None, 1e7).only("receiver")
    noise = replace(noise, shape=replace(noise.shape, transmitter=np.inf, receiver=np.inf))
    # entries uniform from -1 to 1 have the mean square 1/3, and both quadratures are read
    signal = (np.abs(noisy.fields) ** 2).sum(axis=1) / 3.0
    variance = 2.0 * float(noise.field_variance(np.zeros(1))[0])
    expected = 10.0 * np.log10(signal / variance)
    values = noisy.measured(noise, 2, 0)[1]
    assert values["signal_to_noise_db"] == pytest.approx(float(np.median(expected)), abs=0.1)
    assert values["worst_signal_to_noise_db"] == pytest.approx(float(expected.min()), abs=0.15)


def curve_of(outputs: NoisyNetwork | NoisyMatrix) -> CheckedCurve:
    seen: list[float] = []
    curve = checked_noise_curve(outputs, FAST, [1e10, 1e6, 1e8], seed=1, on_rate=seen.append)
    assert seen == [1e6, 1e8, 1e10] == [point.symbol_rate_bd for point in curve.points]
    return curve


def test_errors_grow_with_the_symbol_rate(network: NoisyNetwork) -> None:
    curve = curve_of(network)
    deviations = [point.values["rms_deviation"] for point in curve.points]
    assert deviations == sorted(deviations) and curve.receiver_oscillator_w == pytest.approx(0.01)
    assert curve.highest_bd == max((point.symbol_rate_bd for point in curve.points if point.passed), default=None)
    rows = checked_csv(curve).decode().splitlines()
    assert rows[0].endswith("sent,passed,agreement,accuracy,worst_deviation,rms_deviation") and len(rows) == 4
    assert checked_png(curve, "chip").startswith(b"\x89PNG")
    text = "\n".join(checked_lines(curve, PROCESS))
    assert "within the limits" in text and "states no link.oscillator_w" in text
    ratios = [point.values["signal_to_noise_db"] for point in curve_of(noisy_matrix(REAL, "real")).points]
    assert ratios == sorted(ratios, reverse=True)


def test_photodiodes_have_no_oscillators() -> None:
    curve = curve_of(noisy_matrix(REAL, "power"))
    assert curve.receiver_oscillator_w is None and curve.highest_bd is None and not curve.limited
    assert "photodiodes read the outputs" in next(iter(checked_lines(curve, PROCESS)))
    assert "passed" not in curve.to_json()["points"][0] and b"passed" not in checked_csv(curve)


def test_numbers_out_of_range_are_refused() -> None:
    noisy = noisy_matrix(REAL, "real")
    for options in ({"passes": 0}, {"seed": -1}, {"symbol_rates_bd": []}):
        with pytest.raises(InputError):
            checked_noise_curve(noisy, FAST, **{"symbol_rates_bd": [1e6], **options})
