"""Sweeps of heaters whose blocks share detectors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from optinc_pdk.studies.calibration._heater_model import _patterns_in_turn


def block(detector, sources):
    """A block with patterns that have one of its sources on."""
    return SimpleNamespace(plus=np.array([detector]), sources=np.array(sources), patterns=np.eye(len(sources)))


def test_blocks_whose_light_is_summed_are_read_in_turn():
    # the light of the first two is summed; the third has a detector of its own
    layers = [block(0, [0, 1]), block(0, [2, 3, 4]), block(5, [5, 6])]
    amplitude, starts = _patterns_in_turn(SimpleNamespace(sources=tuple(range(7))), layers)
    assert starts == [0, 2, 0] and amplitude.shape == (5, 7)
    assert not (amplitude[:, :2].any(axis=1) & amplitude[:, 2:5].any(axis=1)).any()
    for layer, start in zip(layers, starts, strict=True):
        assert np.array_equal(amplitude[start : start + len(layer.patterns), layer.sources], layer.patterns)
