"""Function check of small chips of comparators: enumerated, certified and sampled, with and without faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.networks import AveragingNetwork, carry_chain, comparator_network, saturation_margins
from optinc_pdk.report.build_numbers import function_numbers
from optinc_pdk.report.findings import function_basis
from optinc_pdk.report.schema import FunctionNumbers
from optinc_pdk.signoff.function import FunctionResult, check_scattering
from optinc_pdk.signoff.function import _word_inputs as inputs
from optinc_pdk.signoff.function._certificate import (
    NoCertificateError,
    amplitude_scales,
    certify_closed_form,
    pre_activations,
    scaled,
)
from optinc_pdk.simulate import Scattering, program, scattering
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.studies.chip_checks import read_words, unusable_outcome
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors

TASK = Averaging(4, 4, 2)
Chip = tuple[Scattering, Board, Bias, AveragingNetwork]


def chip_of(task: Averaging) -> Chip:
    """A chip of comparators on the default process, as assembled and programmed."""
    process = load_process()
    onn = comparator_network(task)
    circuit = assemble(onn, process, "chip")
    assert circuit.board is not None
    bias = program(circuit, circuit.board, onn, process).bias
    return scattering(circuit, bias, float(process.guide.wavelength_nm), process), circuit.board, bias, onn


@pytest.fixture(scope="module")
def chip() -> Chip:
    """The 4-bit chip of comparators."""
    return chip_of(TASK)


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lattices of more than 10 points count as too large, and 500 random inputs as enough."""
    for name in ("EXHAUSTIVE", "MAX_ENUMERATED", "MAX_ENUMERATED_IF_CERTIFIED"):
        monkeypatch.setattr(inputs, name, 10)
    monkeypatch.setattr(inputs, "RANDOM_INPUTS", 500)


def check(chip: Chip, bias: Bias | None = None, onn: AveragingNetwork | None = None) -> FunctionResult:
    s, board, programmed, network = chip
    return check_scattering(s, board, programmed if bias is None else bias, TASK, onn=network if onn is None else onn)


def stated(result: FunctionResult) -> FunctionNumbers:
    return FunctionNumbers.model_validate(function_numbers(result))


def test_the_certified_margin_is_a_tight_lower_bound(chip: Chip) -> None:
    result = check(chip)
    assert result.coverage == "combinations"
    assert (result.exact, result.inputs, result.word_count) == (65_536, 65_536, 4 * 65_536)
    assert result.certified and result.certificate is not None
    assert np.all(result.certificate.symbol_margins <= result.symbol_margins)
    assert 0.5 - result.certificate.margin < 3.0 * (0.5 - result.margin)
    assert result.certificate.margin > 0.3
    assert min(result.certificate.layer_reserves) > 1.0
    assert function_basis(result) == "enumerated: every combination of symbols at the fibres"


@pytest.mark.parametrize(
    "task", [Averaging(4, 2, 1), Averaging(4, 2, 2, remainder=True), Averaging(4, 2, 2, finer_input=True)]
)
def test_groups_of_symbols_and_both_levels_of_a_cascade_are_certified(task: Averaging) -> None:
    s, board, bias, onn = chip_of(task)
    result = check_scattering(s, board, bias, task, onn=onn)
    assert result.passed and result.certificate is not None
    assert np.all(result.certificate.symbol_margins > 0.0)
    assert np.all(result.certificate.symbol_margins <= result.symbol_margins)
    assert 0.5 - result.certificate.margin < 3.0 * (0.5 - result.margin)


@pytest.mark.usefixtures("sampled")
def test_studies_of_a_large_lattice_use_a_sample(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "STUDY_POINTS", 10)
    monkeypatch.setattr(inputs, "STUDY_INPUTS", 100)
    s, board, bias, _ = chip
    tried = inputs.function_inputs(TASK)
    assert (tried.coverage, len(tried.ideal)) == ("sample", 300)
    outcome = read_words(s, tried, board, bias)
    assert (outcome.inputs, outcome.exact, outcome.words) == (300, 300, 1200)
    unusable = unusable_outcome(tried, board, "no gain")
    assert unusable.words == 1200 and unusable.exact == int((tried.ideal == 0).sum())
    result = check_scattering(s, board, bias, TASK, inputs=tried)
    assert (result.inputs, result.exact, result.coverage) == (300, 300, "sample")
    assert result.margin == pytest.approx(outcome.margin, abs=1e-8)
    noise = noise_of(load_process(), laser_w=1e-6, symbol_rate_bd=1e6)
    assert 0.0 <= estimate_errors(error_margins(s, tried, board, bias), noise).rate < 1.0


@pytest.mark.usefixtures("sampled")
def test_a_lattice_that_is_not_enumerated_rests_on_the_certificate(chip: Chip) -> None:
    done: list[tuple[int, int]] = []
    s, board, bias, onn = chip
    result = check_scattering(s, board, bias, TASK, onn=onn, on_progress=lambda *step: done.append(step))
    assert result.coverage == "sample" and result.passed and result.certified
    assert result.inputs == result.word_count // 4 == 500 + 2 * result.corners
    assert done[-1] == (result.inputs, result.inputs)
    numbers = stated(result)
    assert not numbers.sampled_only
    assert numbers.basis is not None
    for part in ("certified for all words", f"{result.certificate.margin:.3f}", "500 random", f"{result.corners}"):  # type: ignore[union-attr]
        assert part in numbers.basis


@pytest.mark.usefixtures("sampled")
def test_a_fault_is_found_by_the_sample_and_leaves_no_certificate(chip: Chip) -> None:
    _, board, bias, _ = chip
    outputs = dict(bias.outputs)
    outputs[board.outputs[2][1]] *= 1.3
    result = check(chip, replace(bias, outputs=outputs))
    assert not result.passed and not result.certified
    assert result.certificate is not None and result.certificate.margin < 0.0
    assert stated(result).sampled_only


@pytest.mark.usefixtures("sampled")
def test_errors_beyond_a_comparators_margin_are_named(chip: Chip) -> None:
    _, board, bias, onn = chip
    neuron = next(n for n in board.neurons if n.layer == 1)
    one = bias.activations[neuron.label]
    margin = float(saturation_margins(onn)[1][0])
    shifted = replace(one, offset=one.offset + 1.2 * margin / one.gain)
    nominal, result = check(chip), check(chip, replace(bias, activations=bias.activations | {neuron.label: shifted}))
    assert result.certificate is not None and not result.certified
    assert nominal.certificate is not None and nominal.certificate.layer_reserves[1] is not None
    expected = nominal.certificate.layer_reserves[1] - 1.2 * margin
    assert result.certificate.layer_reserves[1] == pytest.approx(expected, rel=0.05) and expected < 0.0
    assert "bounds are too wide" in function_basis(result) and "layer 1" in function_basis(result)


@pytest.mark.usefixtures("sampled")
def test_relu_networks_are_sampled_only_and_say_so(chip: Chip) -> None:
    result = check(chip, onn=carry_chain(TASK))
    assert result.passed and result.certificate is None
    numbers = stated(result)
    assert numbers.sampled_only and numbers.no_certificate == result.no_certificate
    assert numbers.basis is not None and "sampled only" in numbers.basis and "ReLU" in numbers.basis


def test_networks_that_are_no_closed_form_have_no_certificate(chip: Chip) -> None:
    s, board, bias, onn = chip
    with pytest.raises(NoCertificateError, match="no proof"):
        certify_closed_form(s, board, bias, replace(onn, card={}))
    with pytest.raises(NoCertificateError):
        certify_closed_form(s, board, bias, comparator_network(Averaging(8, 4, 4)))


@pytest.mark.full
def test_signals_in_units_of_their_maxima_give_the_same_outputs() -> None:
    """For 8 servers, peaks of the closed form exceed what words produce: units are dark or below 1."""
    onn = comparator_network(Averaging(6, 8, 3))
    scales = amplitude_scales(onn)
    values = np.concatenate(scales)
    assert np.all((values >= 0.0) & (values <= 1.0)) and values.min() < 1.0
    same, points = scaled(onn, scales), onn.task.lattice()
    np.testing.assert_allclose(same.forward(points), onn.forward(points), atol=1e-9)
    signal = points
    for layer, scale in zip(same.layers[:-1], scales, strict=True):
        signal = np.clip(signal @ layer.weight.T + layer.bias, 0.0, 1.0)
        np.testing.assert_allclose(signal.max(axis=0), np.where(scale > 0.0, 1.0, 0.0), atol=1e-9)
    large = comparator_network(Averaging(16, 4, 8))
    assert all(np.all(scale == 1.0) for scale in amplitude_scales(large))


def test_pre_activations_stay_within_their_stated_bounds() -> None:
    onn = comparator_network(Averaging(6, 3, 3))
    signal = onn.task.lattice()
    for layer, bounds in zip(onn.layers[:-1], pre_activations(onn), strict=True):
        z = signal @ layer.weight.T + layer.bias
        assert np.all(z >= bounds.low - 1e-9) and np.all(z <= bounds.high + 1e-9)
        signal = np.clip(z, 0.0, 1.0)
