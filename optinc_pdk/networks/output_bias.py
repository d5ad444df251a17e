"""Output biases: a constant hidden unit that supplies them, because light has no constant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.network import Layer, Network, NetworkT


def without_output_bias(onn: NetworkT) -> NetworkT:
    """Return a network with the same function whose last layer has no bias.

    Receivers detect the field of the last layer, to which no electronics can add a constant. The bias therefore becomes
    the column of one more unit of the last hidden layer, which has weights 0 and bias 1. On the chip this unit is a
    modulator with a constant drive; it needs no detector. If the last layer is approximated by blocks, it is factored
    by singular value decomposition instead, as a column of its own has no unitary block.

    The receivers of a general network read its outputs as numbers, and add the bias themselves.

    Args:
        onn: The network; it is not changed.

    Returns:
        The network itself if its output bias is zero, it has no hidden layer, or it is a general network; otherwise one
        with the constant unit.
    """
    if len(onn.layers) < 2 or not onn.layers[-1].bias.any() or not isinstance(onn.task, Averaging):
        return onn
    *lower, below, last = onn.layers
    constant = Layer(np.vstack([below.weight, np.zeros((1, below.inputs))]), np.append(below.bias, 1.0))
    output = Layer(np.column_stack([last.weight, last.bias]), np.zeros(last.outputs))
    return replace(onn, layers=(*lower, constant, output), factor=(*onn.factor[:-1], "svd"))


def output_bias_notes(onn: Network) -> list[str]:
    """State what :func:`without_output_bias` adds to a network; empty if it adds nothing."""
    if without_output_bias(onn) is onn:
        return []
    last = len(onn.layers) - 1
    note = f"layers.{last - 1} gets one more unit, a constant 1, whose column of layers.{last} is its bias"
    return [note + ("" if onn.factor[last] == "svd" else f"; layers.{last} is factored by svd instead of in blocks")]
