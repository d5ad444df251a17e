"""Coherent receivers of sampled chips: each locks its local oscillator to the light that reaches it.

A receiver that is reached by the light of one modulator alone has that light's carrier for a phase lock. The phase of
its oscillator is then the angle of the field from this modulator on the sample as it is biased, without error: the lock
follows slow changes, and what it leaves is part of the noise (``fibre``). A receiver that sums the light of several
modulators has no such carrier.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.circuit import Bias, Board, NetlistError
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.detection import receiver_fields

MAX_STRAY_FIELD = 0.1
"""Largest field of another source at a receiver, relative to its own source, that counts as stray light."""


def locked_sources(s: Scattering, board: Board) -> Ints:
    """Find the single source whose light reaches each coherent receiver.

    Args:
        s: S-parameters of the nominal chip at its bias.
        board: Board netlist that joins the chip's fibres.

    Returns:
        (receivers,) positions among the sources of the last layer; empty if the receivers are photodiodes.

    Raises:
        NetlistError: A receiver is reached by the light of several sources, or of none.
    """
    if not board.coherent:
        return np.zeros(0, dtype=np.int64)
    field = np.abs(receiver_fields(s, board))
    source = np.asarray(field.argmax(axis=1), dtype=np.int64)
    strongest = field.max(axis=1)
    others = np.where(np.arange(field.shape[1]) == source[:, np.newaxis], 0.0, field).max(axis=1)
    labels = [label for row in board.outputs for label in row]
    for place in np.flatnonzero((others >= MAX_STRAY_FIELD * strongest) | (strongest == 0.0))[:1].tolist():
        raise NetlistError(
            f"the coherent receiver of fibre {labels[place]!r} is not reached by the light of one modulator alone, to "
            "which it would lock its phase on a sampled chip; build the chip with --link neurons, or with --receivers "
            "photodiodes"
        )
    return np.asarray(source)


def locked_phases(fields: Complexes, source: Ints) -> Floats:
    """Return the phases in rad of the local oscillators of receivers that are locked to their own sources.

    Args:
        fields: (..., receivers, J) fields at the receivers from each source of the last layer at amplitude 1.
        source: (receivers,) source of each receiver, see :func:`locked_sources`.

    Returns:
        (..., receivers) phases.
    """
    own = np.take_along_axis(fields, np.broadcast_to(source[:, np.newaxis], (*fields.shape[:-1], 1)), axis=-1)
    return np.asarray(np.angle(own[..., 0]))


def aligned_bias(s: Scattering, board: Board, nominal: Complexes, bias: Bias) -> Bias:
    """Return the bias of a sample of a general network's chip with the phases of its receivers' oscillators.

    A receiver sums the light of several sources. They are sent one at a time, and the oscillator is set to the phase at
    which their fields are most like those of the nominal chip, which its oscillator of the file reads.

    Args:
        s: S-parameters of the sample as biased.
        board: Board netlist that joins the chip's fibres.
        nominal: (receivers, J) fields at the receivers of the nominal chip, relative to its oscillators.
        bias: Electronics of the sample.
    """
    phases = np.angle((nominal.conj() * receiver_fields(s, board)).sum(axis=1))
    labels = [label for row in board.outputs for label in row]
    return replace(bias, phases=dict(zip(labels, phases.tolist(), strict=True)))


def locked_bias(s: Scattering, board: Board, source: Ints, bias: Bias) -> Bias:
    """Return the bias of a sample with the phases to which its coherent receivers are locked.

    Args:
        s: S-parameters of the sample as biased.
        board: Board netlist that joins the chip's fibres.
        source: (receivers,) source of each receiver, see :func:`locked_sources`; empty for photodiodes.
        bias: Electronics of the sample, returned as it is for photodiodes.
    """
    if not board.coherent:
        return bias
    phases = locked_phases(receiver_fields(s, board), source)
    labels = [label for row in board.outputs for label in row]
    return replace(bias, phases=dict(zip(labels, phases.tolist(), strict=True)))
