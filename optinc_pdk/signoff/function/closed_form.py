"""Certificate of a chip whose network is a closed form of comparators: proof of the network, bounds of the chip."""

from __future__ import annotations

import numpy as np

from optinc_pdk.circuit import Bias, Board
from optinc_pdk.onn import Onn, ProofError, prove, saturation_margins
from optinc_pdk.onn.closed_form.comparators import card_form
from optinc_pdk.onn.closed_form.stage import unit_functions
from optinc_pdk.signoff.function.certificate import Certificate, Interval, certify
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.detection import network_of

PROOF_SAMPLES = 2**12
"""Random lattice points that the proof of the network evaluates besides."""


class NoCertificateError(ValueError):
    """The network admits no certificate; the message states why."""


def certify_closed_form(s: Scattering, board: Board, bias: Bias, onn: Onn) -> Certificate:
    """Prove that a network is exact, and bound the errors of the chip that realises it.

    Args:
        s: S-parameters of the whole chip at one wavelength.
        board: Connections outside the chip.
        bias: Settings of neurons and receivers.
        onn: Network that the chip realises.

    Raises:
        NoCertificateError: The network is not a closed form of comparators, cannot be proved exact, or is not the one
            of the chip.
    """
    if onn.activation != "clipped_relu":
        raise NoCertificateError("the network is a ReLU network, in which no unit removes errors")
    try:
        prove(onn, samples=PROOF_SAMPLES)
        margins, ideal = saturation_margins(onn), pre_activations(onn)
    except (ProofError, ValueError) as fault:
        raise NoCertificateError(f"the network has no proof: {fault}") from fault
    try:
        return certify(network_of(s, board, bias, 0), board, bias, onn, margins, ideal)
    except ValueError as fault:
        raise NoCertificateError(str(fault)) from fault


def pre_activations(onn: Onn) -> list[Interval]:
    """Return bounds of the ideal pre-activations of a network of comparators, for all words.

    Every unit reads one integer signal between 0 and its peak, see `optinc_pdk.onn.closed_form.stage.unit_functions`.

    Args:
        onn: Network of comparators, unchanged.

    Returns:
        Bounds of the units of each hidden layer.

    Raises:
        ValueError: The network's card does not describe its stages.
    """
    values = [unit_functions(stage)[1] for stage in card_form(onn.task, onn.card).stages]
    return [Interval(np.array([z.min() for z in unit]), np.array([z.max() for z in unit])) for unit in values]
