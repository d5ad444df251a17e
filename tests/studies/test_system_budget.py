"""What a chip tolerates of each imperfection of its system, against noise and words at the limits that it states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import optinc_pdk as op
from optinc_pdk.cards import load_process
from optinc_pdk.networks import carry_chain
from optinc_pdk.signoff.extracted_chip import ExtractedChip, read_extracted_chip
from optinc_pdk.signoff.function import FunctionInputs, function_inputs
from optinc_pdk.simulate import Scattering, noise_of, scattering
from optinc_pdk.simulate.transmission.noise import LIGHT_SPEED_M_S
from optinc_pdk.simulate.transmission.settling import UnsettledError
from optinc_pdk.studies.chip_checks import read_words
from optinc_pdk.studies.error_estimate import ErrorMargins, error_margins, estimate_errors
from optinc_pdk.studies.highest_rates import CHOICE_WORDS, ERROR_RATE
from optinc_pdk.studies.latency import near_scattering
from optinc_pdk.studies.outcomes import WordOutcome
from optinc_pdk.studies.system_budget import SystemEffect, _largest_factor, system_budget

TASK = op.Averaging(2, 2, 1)
PROCESS = load_process()
NOISE = noise_of(PROCESS, symbol_rate_bd=1e8)
Subject = tuple[ExtractedChip, Scattering, FunctionInputs, ErrorMargins, dict[str, SystemEffect]]


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder: Path = tmp_path_factory.mktemp("chip")
    op.build(carry_chain(TASK), folder, op.BuildOptions(name="chip"))
    chip = read_extracted_chip(folder / "chip.gds", folder / "chip.pic.yml", folder / "chip.bias.yml", PROCESS)
    s = scattering(chip.circuit, chip.bias, float(PROCESS.guide.wavelength_nm), PROCESS, ground=chip.ground)
    inputs = function_inputs(TASK)
    margins = error_margins(s, inputs, chip.board, chip.bias)
    longer = near_scattering(chip, chip.bias, PROCESS)
    found = system_budget(s, longer, inputs, chip.board, chip.bias, PROCESS, margins, NOISE)
    return chip, s, inputs, margins, {effect.name.split(",")[0]: effect for effect in found}


def test_noise_at_its_limit_has_the_accepted_error_rate_and_more_has_not(subject: Subject) -> None:
    *_, margins, effects = subject
    lock = effects["phase lock of a fibre"]
    assert lock.size == NOISE.fibre_phase_rad and lock.ratio is not None and lock.ratio > 1.0
    few = margins.first(CHOICE_WORDS)
    for factor, accepted in ((1.0, True), (1.03, False)):
        alone = replace(NOISE.only("fibre"), polarisation=0.0, fibre_phase_rad=factor * (lock.tolerated or 0.0))
        assert (estimate_errors(few, alone).rate <= ERROR_RATE) is accepted


def test_words_are_right_within_the_window_of_the_laser_and_wrong_beyond_it(subject: Subject) -> None:
    chip, _, inputs, _, effects = subject
    window_hz = effects["frequency of the laser"].tolerated
    assert window_hz is not None
    carrier = float(PROCESS.guide.wavelength_nm)
    apart_nm = window_hz * carrier**2 / (1e9 * LIGHT_SPEED_M_S)
    exact = {}
    for share in (0.9, 1.15):
        sides = []
        for side in (1.0, -1.0):
            s = scattering(chip.circuit, chip.bias, carrier + side * share * apart_nm, PROCESS, ground=chip.ground)
            sides.append(read_words(s, inputs, chip.board, chip.bias).wrong == 0)
        exact[share] = all(sides)
    assert exact == {0.9: True, 1.15: False}


def test_a_warmer_chip_reads_as_far_as_the_budget_says(subject: Subject) -> None:
    chip, _, inputs, _, effects = subject
    kelvin = effects["temperature of the chip"].tolerated
    assert kelvin is not None and PROCESS.guide.index_per_k is not None
    exact = []
    for share in (0.9, 1.15):
        sides = []
        for side in (1.0, -1.0):
            index = float(PROCESS.guide.index) + side * share * kelvin * float(PROCESS.guide.index_per_k)
            guide = PROCESS.guide.model_copy(update={"index": type(PROCESS.guide.index)(index, "default")})
            warm = PROCESS.model_copy(update={"guide": guide})
            s = scattering(chip.circuit, chip.bias, float(PROCESS.guide.wavelength_nm), warm, ground=chip.ground)
            sides.append(read_words(s, inputs, chip.board, chip.bias).wrong == 0)
        exact.append(all(sides))
    assert exact == [True, False]


def test_modulators_that_leak_beyond_the_limit_spoil_words(subject: Subject) -> None:
    chip, s, inputs, _, effects = subject
    leak = effects["field that a dark modulator sends"].tolerated
    assert leak is not None
    wrong = [
        read_words(replace(s, modulator=replace(s.modulator, leak=factor * leak)), inputs, chip.board, chip.bias).wrong
        for factor in (0.98, 1.03)
    ]
    assert wrong[0] == 0 < wrong[1]


def test_light_that_does_not_settle_is_beyond_a_limit(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reflections move a comparator near its threshold back and forth, which a shifted carrier may bring about."""
    chip, s, inputs, margins, _ = subject

    def read(changed: Scattering, *rest: Any) -> WordOutcome:
        if changed is not s:
            raise UnsettledError(0.1)
        return read_words(changed, *rest)

    monkeypatch.setattr("optinc_pdk.studies.system_budget.read_words", read)
    longer = near_scattering(chip, chip.bias, PROCESS)
    found = system_budget(s, longer, inputs, chip.board, chip.bias, PROCESS, margins, NOISE)
    assert {effect.tolerated for effect in found if effect.size is None} == {0.0}


@pytest.mark.parametrize("limit", [1e-3, 0.3, 1.0, 7.0, 4000.0])
def test_the_largest_factor_is_found_from_both_sides(limit: float) -> None:
    found = _largest_factor(lambda factor: factor <= limit)
    assert found is not None and limit / 1.03 < found <= limit


def test_factors_without_an_end_are_named() -> None:
    assert _largest_factor(lambda _: True) is None
    assert _largest_factor(lambda _: False) == 0.0
    assert SystemEffect("x", None, 1.0, "").ratio is None
    assert SystemEffect("x", 2.0, 5.0, "").ratio == pytest.approx(2.5)
