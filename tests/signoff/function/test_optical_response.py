"""Losses by layer for S-parameters with known transmissions and matrices."""

import numpy as np
import pytest

from optinc_pdk.circuit import Board, Neuron
from optinc_pdk.signoff.function import hop_losses_db
from optinc_pdk.simulate import Scattering


def orthogonal(size: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(size).normal(size=(size, size)))[0]


def test_losses_are_the_given_transmissions_for_any_matrices() -> None:
    """Two servers of one symbol into two neurons, these into two outputs of one symbol for each server."""
    neurons = tuple(Neuron(f"n{i}", 0, f"p{i}", f"m{i}", f"to{i}") for i in range(2))
    board = Board("carrier", (), (), (("a0",), ("a1",)), neurons, (("y0",), ("y1",)))
    labels = ("a0", "a1", "p0", "p1", "m0", "m1", "to0", "to1", "y0", "y1")
    s = np.zeros((1, len(labels), len(labels)), complex)
    place = {label: i for i, label in enumerate(labels)}
    # each arm of the combiner has half the power, and both detectors of a neuron share its light
    column = np.array([0.6, 0.8])
    for server in ("a0", "a1"):
        for i in range(2):
            for side in ("p", "m"):
                s[0, place[f"{side}{i}"], place[server]] = 0.1 * column[i] / 2
    row = orthogonal(2)[0]
    for output, transmission in (("y0", 0.02), ("y1", 0.01)):
        for i in range(2):
            s[0, place[output], place[f"to{i}"]] = transmission * row[i] * np.exp(0.3j)
    first, last = hop_losses_db(Scattering(np.array([1550.0]), labels, s), board)
    # the fields of two servers add to twice the field, so each detector receives half the power through P
    assert first == pytest.approx(-20 * np.log10(0.1 * np.sqrt(2)))
    assert last == pytest.approx(40.0)
