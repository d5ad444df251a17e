"""Outputs that end in neurons: the servers receive light of modulators instead of the light that a mesh leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.networks.network import Layer, Network, NetworkT
from optinc_pdk.networks.output_bias import output_bias_notes, without_output_bias


def with_output_neurons(onn: NetworkT) -> NetworkT:
    """Return a network with the same outputs whose last layer is the distribution of its output neurons' light.

    The given last layer becomes a hidden one: a neuron for each output reads it, adds its bias, and sends level / top,
    where top is the largest level of the output. The new last layer multiplies by top. It has one weight for each
    output, so that on the chip it is one attenuator for each symbol, without a mesh, before the splitter trees to the
    servers.

    Args:
        onn: The network; it is not changed.

    Raises:
        InputError: It is a general network, whose outputs are signed, and neurons send no negative light.
    """
    task, last = onn.task, onn.layers[-1]
    if not isinstance(task, Averaging):
        raise InputError("the outputs of a general network are signed, and neurons send none below 0; read its fields")
    top = 4.0 - 1.0 / task.output_resolution
    neurons = Layer(last.weight / top[:, np.newaxis], last.bias / top)
    return replace(
        onn, layers=(*onn.layers[:-1], neurons, Layer(np.diag(top), np.zeros(top.size))), factor=(*onn.factor, "svd")
    )


def realised_network(onn: NetworkT, layers: int) -> NetworkT:
    """Return the network that a chip of a given number of layers realises.

    Args:
        onn: Network that the chip computes, or the network that it realises.
        layers: Number of layers of the chip, see ``Board.layers``.

    Returns:
        For as many layers as the network has, one without output bias; for one more, one with output neurons.

    Raises:
        InputError: The chip has another number of layers.
    """
    if layers not in (len(onn.layers), len(onn.layers) + 1):
        raise InputError(
            f"the chip has {layers} layers, the network {len(onn.layers)}; give weights and netlist of one chip"
        )
    return linked_network(onn, layers > len(onn.layers))


def linked_network(onn: NetworkT, neurons: bool) -> NetworkT:
    """Return the network that a chip with a given link to the servers realises.

    Args:
        onn: Network that the chip computes.
        neurons: Whether the outputs end in neurons.
    """
    return with_output_neurons(onn) if neurons else without_output_bias(onn)


def output_notes(onn: Network, neurons: bool) -> list[str]:
    """State what the chip's link to the servers adds to a network; empty if it adds nothing.

    Args:
        onn: Network as given.
        neurons: Whether the outputs end in neurons.
    """
    if not neurons:
        return output_bias_notes(onn)
    last = len(onn.layers) - 1
    return [
        f"the outputs of layers.{last} end in {onn.task.outputs} neurons, whose modulators send light to the servers: "
        f"one layer more, of {onn.task.outputs} attenuators (link: neurons)"
    ]
