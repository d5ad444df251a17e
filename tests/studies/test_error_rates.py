"""Word-error rates with noise: comparison with formulas, and invalid input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.simulate import Scattering
from optinc_pdk.studies.noise_curves import parse_rates, word_error_curve

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
