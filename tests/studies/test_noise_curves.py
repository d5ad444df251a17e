"""Outputs of chips with noise against the symbol rate: words, matrices and networks, against formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from scipy.special import ndtr

from optinc_pdk.assemble import CARRIER_TREE, assemble, draft_matrix
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process, with_field_outputs
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.matrices import MatrixReading, MatrixTarget, compare_matrices, factor_matrix
from optinc_pdk.networks import GeneralNetwork, Layer, NetworkComparison, NetworkLimits, check_data
from optinc_pdk.report.noise_curve import checked_csv, checked_lines, checked_png
from optinc_pdk.simulate import Scattering, program, program_matrix, scattering, transmit_vectors
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.studies.noise_curves import CheckedCurve, checked_noise_curve, parse_rates, word_error_curve
from optinc_pdk.studies.noisy_outputs import NoisyMatrix, NoisyNetwork

PROCESS = load_process()
SYMBOLS = 5
TASK = Averaging(2 * SYMBOLS, 1, SYMBOLS)
INS, OUTS = ([f"{side}{i}" for i in range(SYMBOLS)] for side in ("in", "out"))
BOARD = Board("c", (), (), (tuple(INS),), (), (tuple(OUTS),))
NONE = np.zeros(0)
FIELD = 0.003
S = np.zeros((1, 2 * SYMBOLS + 1, 2 * SYMBOLS + 1), dtype=complex)
S[0, 1 + SYMBOLS :, 1 : 1 + SYMBOLS] = FIELD * np.eye(SYMBOLS)
CHIP = Scattering(np.array([1550.0]), ("c", *INS, *OUTS), S)
BIAS = Bias("soi220", "toy", 16, (), NONE, NONE, NONE, NONE.astype(int), {}, dict.fromkeys(OUTS, 3 / FIELD))


def curve(*rates, **options):
    return word_error_curve(CHIP, BOARD, BIAS, TASK, PROCESS, rates, **options)


def test_counts_and_estimate_agree_with_the_formula_of_a_receiver():
    """One server is wired to its receiver: a level is wrong if the noise of its square crosses a threshold."""
    done = curve(3e6, 1e6, passes=40)
    assert [point.symbol_rate_bd for point in done.points] == [1e6, 3e6]
    # at such rates no symbol runs into another
    assert all(noise.shape.negligible for noise in done.noise)
    for noise, point in zip(done.noise, done.points, strict=True):
        level = np.arange(4)
        sigma = np.sqrt(noise.variance((FIELD * level / 3) ** 2)) * 9 / FIELD**2
        up = ndtr(-((level + 0.5) ** 2 - level**2) / sigma) * (level < 3)
        down = ndtr(-(level**2 - (level - 0.5) ** 2) / sigma) * (level > 0)
        expected = 1 - (1 - np.mean(up + down)) ** SYMBOLS
        assert point.low < expected < point.high and point.wrong > 100
        assert point.gaussian_estimate == pytest.approx(expected, rel=0.02)
        assert point.sent == point.words == 40 * 4**SYMBOLS
        assert sum(point.errors.values()) == point.wrong and 0 not in point.errors


def test_words_depend_on_the_seed_only():
    one, same, other = (curve(3e6, passes=1, seed=seed).points[0] for seed in (1, 1, 2))
    assert one == same
    assert one.wrong != other.wrong


def test_rates_are_lists_or_series():
    assert parse_rates("1e6,3e6", PROCESS) == [1e6, 3e6]
    assert parse_rates("1e5:1e9:3", PROCESS) == pytest.approx([1e5, 1e7, 1e9])
    assert len(parse_rates(None, PROCESS)) == 13
    # above the limit that the process states
    assert parse_rates("2e9", PROCESS) == [2e9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1e6,x", "'1e6,x'"),
        ("1e6:1e7", "'1e6:1e7'"),
        ("1e6:1e7:0", "'1e6:1e7:0'"),
        ("1e6:1e7:1", "'1e6:1e7:1'"),
        ("1e6:1e7:102", "101"),
        ("nan", "symbol rate nan"),
        ("-1:1e6:3", "symbol rate -1 "),
        ("1e6:inf:3", "symbol rate inf"),
        ("1e6,2e11", r"2e\+11 .* beyond every bandwidth"),
    ],
)
def test_invalid_rates_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_rates(text, PROCESS)


def test_another_networks_task_is_refused():
    with pytest.raises(InputError, match=r"1 servers of 5 symbols.*4 .*2"):
        word_error_curve(CHIP, BOARD, BIAS, Averaging(4, 4, 2), PROCESS, [1e6])


def test_invalid_passes_seed_power_and_process_are_refused():
    with pytest.raises(InputError, match="passes 0, seed 0"):
        curve(1e6, passes=0)
    with pytest.raises(InputError, match="passes 1, seed -1"):
        curve(1e6, seed=-1)
    with pytest.raises(InputError, match="laser power -1 "):
        curve(1e6, laser_w=-1.0)
    with pytest.raises(InputError, match="'noise'"):
        word_error_curve(CHIP, BOARD, BIAS, TASK, PROCESS.model_copy(update={"noise": None}), [1e6])


def test_errors_without_noise_are_part_of_the_estimate():
    loud = replace(BIAS, outputs={**BIAS.outputs, OUTS[-1]: 4 / FIELD})
    point = word_error_curve(CHIP, BOARD, loud, TASK, PROCESS, [1e3]).points[0]
    # the last symbol's level 2 becomes 2.67 and 3 becomes 4, which a receiver reads as 3
    assert point.errors == {1: 4 ** (SYMBOLS - 1)} and point.gaussian_estimate == pytest.approx(0.25)


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
