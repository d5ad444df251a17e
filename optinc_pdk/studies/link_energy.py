"""Electrical power of a chip in operation, with its servers, and energy for each word at a symbol rate.

Every part counts with the number of its card. A part whose card states none is listed as missing and counts nothing, so
that the sum is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, detector_groups, label_tuple
from optinc_pdk.simulate.transmission.noise import Noise


@dataclass(frozen=True)
class LinkEnergy:
    """Power of a chip, its board and the servers' optical interfaces.

    Attributes:
        symbol_rate_bd: Symbols per second, one of which carries a symbol of every word.
        power_w: Power in W by part, of those whose cards state it.
        missing: Parts whose cards state no power, with the key.
        bits: Bits of all words that servers send and receive in one symbol: bits of a word times servers.
    """

    symbol_rate_bd: float
    power_w: Mapping[str, float]
    missing: tuple[str, ...]
    bits: int

    @property
    def word_j(self) -> float:
        """Energy in J for the average of one word of every server."""
        return sum(self.power_w.values()) / self.symbol_rate_bd

    @property
    def bit_j(self) -> float:
        """Energy in J for each bit of a word of one server."""
        return self.word_j / self.bits

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON-compatible data."""
        return {
            "symbol_rate_bd": self.symbol_rate_bd,
            "power_w": dict(self.power_w),
            "missing": list(self.missing),
            "word_j": self.word_j,
            "bit_j": self.bit_j,
        }


def link_energy(board: Board, bias: Bias, task: Averaging, process: Process, noise: Noise) -> LinkEnergy:
    """Add up the electrical power of a chip, its board and the servers' optical interfaces, in W by part.

    Parts are lasers, heaters and their drives, amplifiers, modulator drivers, decisions, the servers' converters of
    levels and their electrical lanes, phase locks and temperature control. There is no error correction: words are not
    coded, because the average of code words is not a code word. The energy of a word in J is ``word_j`` of the result.

    Args:
        board: Board of the chip.
        bias: Codes of the heaters, which state their power.
        task: The average, which states the bits of a word.
        process: Process with the power of each part.
        noise: Symbol rate, laser power, and the amplifier of the detectors.
    """
    inputs, outputs = (sum(map(len, side)) for side in (board.inputs, board.outputs))
    rows = 0
    for layer in range(board.layers - 1):
        neurons = [neuron for neuron in board.neurons if neuron.layer == layer]
        rows += sum(len(label_tuple(row.plus)) for row in detector_groups(neurons)[0])
    modulators = inputs + sum(len(label_tuple(neuron.to)) for neuron in board.neurons)
    onchip = process.activation.realisation == "onchip"
    # modulators on the chip get their light from the carrier's fibres
    guides = len(board.unmodulated) - len(board.oscillator_fibres) + (inputs if onchip else modulators)
    detectors = 2 * rows + outputs * (2 if board.coherent else 1)
    amplifiers = {float(each.a_per_sqrt_hz): each.power_w for each in process.noise.amplifiers} if process.noise else {}
    amplifier = amplifiers.get(noise.receiver_a_per_sqrt_hz)
    lineariser = process.activation.lineariser
    budget, link, rate = process.budget, process.link, noise.symbol_rate_bd
    efficiency = None if budget is None else budget.laser_efficiency
    laser_w = _lasers(guides * noise.laser_w, efficiency)
    oscillators_w = _lasers(oscillator_light_w(board, noise), efficiency)
    heaters_w = float(bias.power_w.sum())
    control_w = None
    if budget is not None and laser_w is not None and oscillators_w is not None:
        control_w = _times(laser_w + oscillators_w + heaters_w, budget.temperature_control)
    # all fibres to the chip but one, to which the phases of the others refer, and those to coherent receivers
    locks = guides + len(board.oscillator_fibres) - 1 + (outputs if board.coherent else 0)
    parts = {
        "laser": ("budget.laser_efficiency", laser_w),
        "oscillators": ("budget.laser_efficiency", oscillators_w),
        "heaters": ("", heaters_w),
        "heater drives": ("drive.channel_w", _times(len(bias.labels), process.drive.channel_w)),
        "amplifiers": ("noise.amplifiers: power_w", _times(detectors, amplifier)),
        "modulator drivers": ("activation.driver_w", _times(modulators, process.activation.driver_w)),
        "decisions": ("link.decision_j", _times(outputs * rate, link.decision_j)),
        "converters": ("link.converter_j", _times(inputs * rate, link.converter_j)),
        "SerDes": ("link.serdes_j", _times((inputs + outputs) * rate, link.serdes_j)),
        "phase locks": ("link.lock_w", _times(locks, link.lock_w)),
        "temperature control": ("budget.temperature_control", control_w),
    }
    if lineariser is not None:
        parts["linearisers"] = ("activation.lineariser.power_w", _times(modulators, lineariser.power_w))
    return LinkEnergy(
        symbol_rate_bd=noise.symbol_rate_bd,
        power_w={name: watts for name, (_, watts) in parts.items() if watts is not None},
        missing=tuple(f"{name} ({key})" for name, (key, watts) in parts.items() if watts is None),
        bits=task.bits * task.servers,
    )


def oscillator_light_w(board: Board, noise: Noise) -> float:
    """Return the optical power in W of all local oscillators: into their fibres, and at coherent receivers.

    A carrier that is split on the chip counts as a whole, with the part that leads to servers and board.
    """
    received = sum(map(len, board.outputs)) * (noise.oscillator_w or 0.0) if board.coherent else 0.0
    return len(board.oscillator_fibres) * board.oscillator_power * noise.laser_w + received


def _lasers(light_w: float, efficiency: float | None) -> float | None:
    """Electrical power of lasers for light in fibres."""
    return None if efficiency is None else light_w / float(efficiency)


def _times(count: float, each: float | None) -> float | None:
    return None if each is None else count * float(each)
