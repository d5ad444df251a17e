"""Thermal crosstalk between heaters as placed: what they make together, and codes that make it good."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import RangeError, crosstalk
from optinc_pdk.onn import Layer, Onn
from optinc_pdk.simulate import analyse, heater_phases, program, warmth
from optinc_pdk.simulate.warmth import OVERLAP, Warmth, nominal_warmth

from .conftest import chip, two_heaters, with_geometry

TURN = 2.0 * np.pi


def grid(heaters, share=0.029, pitch=(60.0, 52.0)):
    """Heaters in rows of 16; the share is that at 25 µm."""
    return Warmth(np.stack(np.divmod(np.arange(heaters), 16), axis=1) * np.array(pitch), share, 25.0)


def missed(made, wanted):
    """The largest difference but for whole turns."""
    return np.abs(np.angle(np.exp(1j * (made - wanted)))).max(initial=0.0)


@pytest.mark.parametrize("heaters", [0, 1, 40, 300])
def test_what_heaters_make_is_the_matrix_times_their_phases(heaters, monkeypatch):
    warm, own = grid(heaters), np.random.default_rng(0).uniform(0.0, TURN, heaters)
    expected = crosstalk(warm.place_um, 0.029, 25.0) @ own
    assert np.allclose(warm.made(own), expected, rtol=1e-13)
    assert np.array_equal(warm.matrix, crosstalk(warm.place_um, 0.029, 25.0))
    # few rows at a time, the last of them fewer
    monkeypatch.setattr(warmth, "BLOCK", 7 * heaters)
    assert np.allclose(warm.made(own), expected, rtol=1e-13)


@given(st.integers(1, 200), st.floats(0.0, 0.1), st.integers(0, 2**31))
def test_guides_get_what_is_wanted_from_heaters_of_at_most_a_turn(heaters, share, seed):
    warm = grid(heaters, share)
    wanted = np.random.default_rng(seed).uniform(0.0, TURN, heaters)
    own = warm.own(wanted)
    assert np.all((own >= 0.0) & (own <= (1.0 + OVERLAP) * TURN))
    assert missed(warm.matrix @ own, wanted) < 1e-7


def test_shares_that_are_calculated_anew_give_the_same(monkeypatch):
    warm, wanted = grid(100), np.random.default_rng(1).uniform(0.0, TURN, 100)
    kept = warm.own(wanted)
    monkeypatch.setattr(warmth, "KEPT", 0)
    assert np.array_equal(warm.own(wanted), kept)


def test_a_heater_too_warm_already_makes_a_turn_more():
    """0.1 of pi arrives unasked at the second guide, 25 µm away, which wants 0.1."""
    warm = Warmth(np.array([[0.0, 0.0], [25.0, 0.0]]), 0.1, 25.0)
    own = warm.own(np.array([np.pi, 0.1]))
    assert own == pytest.approx(np.linalg.solve([[1.0, 0.1], [0.1, 1.0]], [np.pi, 0.1 + TURN]))


def test_heaters_that_are_off_stay_off():
    assert not np.any(grid(50).own(np.zeros(50)))


def test_crosstalk_beyond_reason_is_refused():
    with pytest.raises(RangeError, match=r"100 heaters after 100 sweeps: thermal crosstalk of 0\.9 at 25 µm"):
        grid(100, 0.9, (20.0, 20.0)).own(np.random.default_rng(0).uniform(0.0, TURN, 100))


@pytest.fixture(scope="module")
def placed(process):
    """A small network, its board and its circuit as from a layout, with places."""
    v = np.random.default_rng(5).uniform(0.5, 1.0, (4, 1))
    onn = Onn((Layer(v, -0.25 * v[:, 0]), Layer(v.T / np.sum(v**2), np.zeros(1))), Averaging(2, 2, 1))
    circuit, board = chip(onn, process)
    place = np.random.default_rng(2).uniform(0.0, 1500.0, (len(circuit.instances), 2))
    return onn, board, replace(circuit, position_um=place)


def wanted_of(bias, structure):
    wanted = dict(zip(bias.labels, bias.phase_rad.tolist(), strict=True))
    return np.array([wanted[label] for label in structure.channel])


def test_programmed_codes_make_good_what_the_card_states(placed, process):
    onn, board, circuit = placed
    structure = analyse(circuit)
    made = program(circuit, board, onn, process)
    assert missed(heater_phases(structure, made.bias, process), wanted_of(made.bias, structure)) < 1e-3
    assert made.driven_error.max() < 2e-4
    blind = program(circuit, board, onn, process, crosstalk=np.eye(structure.heater.size))
    assert np.array_equal(blind.bias.phase_rad, made.bias.phase_rad)
    assert missed(heater_phases(structure, blind.bias, process), wanted_of(blind.bias, structure)) > 0.05


def test_a_matrix_of_ones_own_is_what_the_same_card_gives(placed, process):
    onn, board, circuit = placed
    warm = nominal_warmth(analyse(circuit), process)
    mine = program(circuit, board, onn, process, crosstalk=warm.matrix)
    assert np.abs(mine.bias.code - program(circuit, board, onn, process).bias.code).max() <= 1


def test_without_crosstalk_in_the_card_heaters_are_alone(placed, process):
    onn, board, circuit = placed
    silent = process.model_copy(update={"imperfections": None})
    assert nominal_warmth(analyse(circuit), silent) is None
    alone = program(circuit, board, onn, silent).bias
    assert alone.power_w == pytest.approx(0.025 * alone.phase_rad / np.pi)
    assert missed(heater_phases(analyse(circuit), alone, silent), wanted_of(alone, analyse(circuit))) < 1e-3


def test_phases_by_label_are_those_of_the_guides(placed, process):
    _, _, circuit = placed
    structure = analyse(circuit)
    wanted = {label: 1.0 + i for i, label in enumerate(structure.channel)}
    assert heater_phases(structure, wanted, process).tolist() == list(wanted.values())


def test_heaters_that_are_not_driven_warm_no_others(process):
    circuit = with_geometry(two_heaters(), 0)
    circuit = replace(circuit, position_um=25.0 * np.arange(2 * len(circuit.instances)).reshape(-1, 2))
    structure = analyse(circuit)
    codes = {"pad_of_first": 30000, "pad_of_second": 10000}

    def phases(*driven):
        zeros = np.zeros(len(driven))
        bias = Bias("soi220", "small", 16, driven, zeros, zeros, zeros, np.array([codes[label] for label in driven]))
        return heater_phases(structure, bias, process, unbiased=0.3)

    (x, y), share = np.diff(circuit.position_um[structure.heater], axis=0)[0], 0.029 * 25.0
    share /= np.hypot(x, y)
    first, second = phases("pad_of_first"), phases("pad_of_second")
    assert first[1] == second[0] == 0.3
    expected = [first[0] + share * second[1], second[1] + share * first[0]]
    assert phases("pad_of_first", "pad_of_second") == pytest.approx(expected)
