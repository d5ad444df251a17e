"""Certificate of a chip whose network is a closed form of comparators: proof of the network, bounds of the chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.networks import AveragingNetwork, Layer, ProofError, prove, realised_network, saturation_margins
from optinc_pdk.networks.closed_form.comparators import card_form
from optinc_pdk.networks.closed_form.stage import unit_functions
from optinc_pdk.networks.normalisation import DEAD_FRACTION, hidden_maxima
from optinc_pdk.signoff.function.certificate import Certificate, Interval, certify
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.detection import network_of

PROOF_SAMPLES = 2**12
"""Random lattice points that the proof of the network evaluates besides."""


class NoCertificateError(ValueError):
    """The network admits no certificate; the message states why."""


def certify_closed_form(s: Scattering, board: Board, bias: Bias, onn: AveragingNetwork) -> Certificate:
    """Prove that a network is exact, and bound the errors of the chip that realises it.

    Args:
        s: S-parameters of the whole chip at one wavelength.
        board: Connections outside the chip.
        bias: Settings of neurons and receivers.
        onn: Network that the chip computes.

    Raises:
        NoCertificateError: The network is not a closed form of comparators, cannot be proved exact, or is not the one
            of the chip.
    """
    if onn.activation != "clipped_relu":
        raise NoCertificateError("the network is a ReLU network, in which no unit removes errors")
    try:
        prove(onn, samples=PROOF_SAMPLES)
        margins, ideal = list(saturation_margins(onn)), pre_activations(onn)
    except (ProofError, ValueError) as fault:
        raise NoCertificateError(f"the network has no proof: {fault}") from fault
    try:
        onn = realised_network(onn, board.layers)
    except ValueError as fault:
        raise NoCertificateError(str(fault)) from fault
    if len(onn.layers) > len(margins) + 1:
        # output neurons pass their signals on, which are the levels over the largest one
        margins.append(np.full(onn.task.symbols, np.nan))
        ideal.append(Interval(np.zeros(onn.task.symbols), np.ones(onn.task.symbols)))
    scales = amplitude_scales(onn)
    for index, scale in enumerate(scales):
        dead = scale == 0.0
        divisor = np.where(dead, 1.0, scale)
        margins[index] = np.where(scale == 1.0, margins[index], np.nan)
        low, high = (np.where(dead, 0.0, bound / divisor) for bound in (ideal[index].low, ideal[index].high))
        ideal[index] = Interval(low, high)
    try:
        network = network_of(s, board, bias, 0)
        return certify(network, board, bias, scaled(onn, scales), margins, ideal)
    except ValueError as fault:
        raise NoCertificateError(str(fault)) from fault


def amplitude_scales(onn: AveragingNetwork) -> list[Floats]:
    """Compute the hidden signals that the chip sends with amplitude 1: their maxima over all words.

    The peaks of a closed form may be larger than what words produce. Then a signal's maximum is below 1, and it is 0
    for a comparator of a carry that never occurs; programming leaves such a unit dark.

    Args:
        onn: Network.

    Returns:
        For each hidden layer, (units,) maxima over the enumerated lattice; 1 if the lattice is too large.
    """
    if not onn.task.enumerable:
        return [np.ones(layer.outputs) for layer in onn.layers[:-1]]
    return [np.where(maximum > DEAD_FRACTION, maximum, 0.0) for maximum in hidden_maxima(onn)]


def scaled(onn: AveragingNetwork, scales: Sequence[Floats]) -> AveragingNetwork:
    """Return a network with the same outputs for all words, whose hidden signals are divided by their maxima.

    Args:
        onn: Network with clipped signals.
        scales: For each hidden layer, (units,) maxima; a unit with maximum 0 loses its weights, bias and columns.
    """
    above = [np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0) for scale in scales]
    rows = [*above, np.ones(onn.layers[-1].outputs)]
    columns = [np.ones(onn.layers[0].inputs), *scales]
    layers = tuple(
        Layer(layer.weight * row[:, np.newaxis] * column, layer.bias * row)
        for layer, row, column in zip(onn.layers, rows, columns, strict=True)
    )
    return replace(onn, layers=layers)


def pre_activations(onn: AveragingNetwork) -> list[Interval]:
    """Return bounds of the ideal pre-activations of a network of comparators, for all words.

    Every unit reads one integer signal between 0 and its peak, see
    `optinc_pdk.networks.closed_form.stage.unit_functions`.

    Args:
        onn: Network of comparators, unchanged.

    Returns:
        Bounds of the units of each hidden layer.

    Raises:
        ValueError: The network's card does not describe its stages.
    """
    values = [unit_functions(stage)[1] for stage in card_form(onn.task, onn.card).stages]
    return [Interval(np.array([z.min() for z in unit]), np.array([z.max() for z in unit])) for unit in values]
