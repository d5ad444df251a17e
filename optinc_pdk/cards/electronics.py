"""Sections of a process card that describe electronics: heater drive, activations and links to the servers."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from optinc_pdk.cards.quantity import Bits, Count, Positive, SignificantBits, StrictModel

Holds = Literal["voltage", "power"]


class DriveCard(StrictModel):
    """Heater drive: one unipolar voltage DAC per channel.

    Attributes:
        holds: ``voltage``: a channel holds the voltage of its code at its pad. ``power``: it measures its current as
            well, and holds the power that this voltage would cause in a heater of the resistance drawn, behind its
            wires and without ground rise.
        dac_bits: Resolution.
        full_scale_v: Voltage of the highest code.
        channel_w: Electrical power of one channel, without the heater; None if it is not known.
    """

    holds: Holds = "voltage"
    dac_bits: Bits
    full_scale_v: Positive
    channel_w: Positive | None = None


class ActivationCard(StrictModel):
    """Realisation of activations, and the range of their electronics.

    Fields are relative to a launched amplitude of 1, which is the full scale of every modulator.

    Attributes:
        realisation: Whether detectors and modulators of the activations are off or on the chip.
        gain_max: Largest gain of an activation.
        offset_max: Largest absolute offset of an activation, in units of the detected difference.
        resolution_bits: Significant bits to which gains, offsets, detector balances and receiver scales are rounded.
        fan_out_max: Largest number of neurons that one pair of detectors and its amplifier drive; None for no limit.
        bandwidth_hz: Bandwidth of the electronics between an amplifier and a modulator, with the modulator's driver;
            None if it is not known.
        driver_w: Electrical power of one modulator's driver with the electronics before it; None if it is not known.
    """

    realisation: Literal["offchip", "onchip"]
    gain_max: Positive
    offset_max: Positive
    resolution_bits: SignificantBits
    fan_out_max: Count | None = None
    bandwidth_hz: Positive | None = None
    driver_w: Positive | None = None


Link = Literal["direct", "neurons"]
Receivers = Literal["photodiodes", "coherent"]


class LinkCard(StrictModel):
    """The link from the outputs of the network to the servers.

    Attributes:
        kind: ``direct``: the servers' photodiodes receive the light of the last layer. ``neurons``: every output ends
            in a neuron, whose modulator sends light of full scale to the servers.
        receivers: ``photodiodes``: the servers detect the power of this light. ``coherent``: they detect its field,
            with a local oscillator of the carrier whose phase is locked to it and two balanced photodiodes.
        oscillator_w: Power of the local oscillator at a coherent receiver; needed for coherent receivers.
        decision_j: Energy with which a server decides a symbol; None if it is not known.
    """

    kind: Link = "neurons"
    receivers: Receivers = "photodiodes"
    oscillator_w: Positive | None = None
    decision_j: Positive | None = None

    @model_validator(mode="after")
    def _oscillator_is_known(self) -> LinkCard:
        if self.receivers == "coherent" and self.oscillator_w is None:
            raise ValueError("link.oscillator_w is missing, which coherent receivers need; add it")
        return self
