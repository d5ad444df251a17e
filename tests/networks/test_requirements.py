"""Layers that no chip can realise, recognised from their factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights, factorise
from optinc_pdk.networks.requirements import DetectionLoss, check_gains, describe_rows, least_gains


def no_loss(factors, columns=0, column_db=0.0):
    """The same loss for every hidden layer; none by default."""
    return [DetectionLoss(columns, column_db, 0.0, 0.0)] * (len(factors) - 1)


def test_bundled_networks_pass():
    factors = factorise(AveragingNetwork.load(bundled_weights(4, 4)))
    check_gains(factors, load_process(), no_loss(factors))


def test_gains_beyond_the_card_are_refused_with_the_reason():
    factors = factorise(AveragingNetwork.load(bundled_weights(4, 4)))
    steep = replace(factors[0], row_norm=1e8 * factors[0].row_norm)
    expected = least_gains(steep).max()
    assert expected == pytest.approx(1e8 * least_gains(factors[0]).max())
    with pytest.raises(InputError, match=r"layers\.0.*even without loss") as fault:
        check_gains((steep, *factors[1:]), load_process(), no_loss(factors))
    assert f"{expected:.4g}" in str(fault.value) and "1e+06" in str(fault.value)


def test_loss_counts_twenty_decibels_a_factor_of_ten():
    factors, process = factorise(AveragingNetwork.load(bundled_weights(4, 4))), load_process()
    most = max(least_gains(factor).max() for factor in factors[:-1])
    spare_db = 20.0 * np.log10(float(process.activation.gain_max) / most)
    check_gains(factors, process, no_loss(factors, 10, spare_db / 10 - 0.01))
    with pytest.raises(InputError, match="10 MZIs and attenuators in series") as fault:
        check_gains(factors, process, no_loss(factors, 10, spare_db / 10 + 0.01))
    assert f"{spare_db + 0.1:.1f} dB" in str(fault.value)


def test_blocks_side_by_side_need_the_gain_of_the_larger_one():
    """Each has detectors of its own, so one block with a row of norm 0.8 transmits it as a row of norm 1."""
    rows = np.array([[0.6, 0.0, 0.8, 0.0], [0.0, 0.6, 0.0, 0.8]])
    layers = (Layer(np.ones((4, 2)), np.ones(4)), Layer(rows, np.zeros(2)))
    factor = factorise(AveragingNetwork(layers, Averaging(4, 4, 2), ("svd", ("approx", 2))))[1]
    assert least_gains(factor) == pytest.approx(0.8 * factor.row_norm / 2.0)


def test_nearly_equal_rows_are_named():
    matrix = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1e-3, 0.0]])
    text = describe_rows(matrix)
    assert "rows 0 and 2" in text
    condition = np.linalg.cond(matrix / np.linalg.norm(matrix, axis=1)[:, np.newaxis])
    assert condition > 1e2 or np.isinf(condition)
