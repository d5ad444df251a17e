"""Transmission through a cascade: the light of N chips of level 1 enters one chip of level 2, without receivers.

Each output fibre of level 1 is an input fibre of level 2. Its phase is locked to the carrier of level 2 while all
servers send their largest words, so that every output then arrives with phase 0. Later deviations of the phase, which
depend on the words, are simulated. The N chips of level 1 are equal. Reflections between the chips are neglected,
because isolators suppress them; each chip's own reflections are simulated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.simulate.transmission.detection import ChipNetwork
from optinc_pdk.simulate.transmission.reception import TOP_LEVEL, output_fields


@dataclass(frozen=True, eq=False)
class LinkedChips:
    """Chips of both levels, joined by fibres.

    Attributes:
        first: Every chip of level 1 on its board; it has one output fibre for each of M symbols.
        second: The chip of level 2 on its board.
        send: (N, M) amplitude of level 3 of the servers of a chip of level 1.
        link: (M,) field at the input of level 2 over the field at the output of level 1: loss and locked phase.
    """

    first: ChipNetwork
    second: ChipNetwork
    send: Floats
    link: Complexes


@dataclass(frozen=True, eq=False)
class CascadeReception:
    """Output levels of a cascade for B sets of words.

    Attributes:
        outputs: (B, receivers, M) output levels of level 2 before the decision.
        between: (B, N, M) output levels of the N chips of level 1: real parts of the locked fields times the scales of
            level 1.
        quadrature: (B, N, M) imaginary parts of the same fields, in levels.
    """

    outputs: Floats
    between: Floats
    quadrature: Floats


def link_chips(first: ChipNetwork, second: ChipNetwork, send: Floats, loss_db: float) -> LinkedChips:
    """Connect the outputs of level 1 with the inputs of level 2 and lock the phases of the fibres.

    Args:
        first: Chip of level 1 on its board.
        second: Chip of level 2 on its board.
        send: (N, M) amplitude of level 3 of the servers of level 1.
        loss_db: Loss of a fibre between the levels in dB, with its connectors.

    Raises:
        ValueError: Level 1 has not one output for each symbol.
    """
    if first.scale.size != send.shape[1]:
        raise ValueError(f"level 1 has {first.scale.size} outputs for {send.shape[1]} symbols: give one for each")
    top = output_fields(send.reshape(1, -1), first)[0]
    return LinkedChips(first, second, send, 10.0 ** (-loss_db / 20.0) * np.exp(-1j * np.angle(top)))


def transmit_cascade(symbols: Ints, chips: LinkedChips) -> CascadeReception:
    """Send symbols through N chips of level 1 and the chip of level 2.

    Args:
        symbols: (B, N, N, M) levels 0 … 3 of N² servers, those of a chip on the third axis.
        chips: The linked chips.

    Returns:
        Output levels of both levels.

    Raises:
        UnsettledError: Amplitudes do not converge, because reflections couple the layers.
    """
    batch, units, servers, count = symbols.shape
    sent = (symbols * (chips.send / TOP_LEVEL)).reshape(batch * units, servers * count)
    light = output_fields(sent, chips.first) * chips.link
    fields = output_fields(light.reshape(batch, units * count), chips.second)
    outputs = chips.second.levels(chips.second.receivers.detected(np.hstack([fields.real, fields.imag]))).reshape(
        batch, -1, count
    )
    levels = (light / np.abs(chips.link) * chips.first.scale).reshape(batch, units, count)
    return CascadeReception(outputs, levels.real, levels.imag)
