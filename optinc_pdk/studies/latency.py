"""Time from the servers' modulators to their decisions: symbols, guides, fibres, modulators and electronics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, detector_groups, label_tuple
from optinc_pdk.signoff.extracted_chip import ExtractedChip
from optinc_pdk.simulate import Scattering, scattering
from optinc_pdk.simulate.transmission.noise import LIGHT_SPEED_M_S, fibre_delay_s

APART_NM = 0.002
"""Difference of the wavelengths between which phases change by delays; it is unique up to 4 ns."""
FAINT = 0.01
"""Share of the largest field in a layer below which light does not count."""


@dataclass(frozen=True)
class Latency:
    """Time from the servers' modulators to their decisions at a symbol rate.

    Attributes:
        parts_s: Time in s by part: ``symbols``, one for each layer; ``guides``, on the chip; ``fibres``, to the chip
            and back; ``modulators`` and ``electronics`` of the servers and of each layer, if their cards state them.
        missing: Parts whose cards state no delay, with the key.
    """

    parts_s: Mapping[str, float]
    missing: tuple[str, ...]

    @property
    def total_s(self) -> float:
        """Sum of the parts that are known."""
        return sum(self.parts_s.values())


def near_scattering(chip: ExtractedChip, bias: Bias, process: Process) -> Scattering:
    """Return the S-parameters of a chip at a wavelength that is longer than the carrier's by ``APART_NM``."""
    wavelength_nm = float(process.guide.wavelength_nm) + APART_NM
    return scattering(chip.circuit, bias, wavelength_nm, process, ground=chip.ground)


def link_latency(s: Scattering, longer: Scattering, board: Board, process: Process, symbol_rate_bd: float) -> Latency:
    """Add up the time from the servers' modulators to their decisions.

    Fibres on the board are short and count nothing.

    Args:
        s: S-parameters of the extracted chip, whose guides have lengths, at a wavelength.
        longer: The same at a wavelength that is longer by ``APART_NM``.
        board: Board of the chip.
        process: Process of the cards.
        symbol_rate_bd: Symbols per second.
    """
    parts = {
        "symbols": board.layers / symbol_rate_bd,
        "guides": float(layer_delays_s(s, longer, board).sum()),
    }
    missing = []
    if process.noise is not None:
        fibres = process.noise.fibres
        parts["fibres"] = 2.0 * fibre_delay_s(fibres, float(fibres.length_m))
    # every layer ends in electronics, the last one at the servers; the light of every layer begins in modulators
    for name, key in (("modulators", "modulator_delay_s"), ("electronics", "delay_s")):
        each = getattr(process.activation, key)
        if each is None:
            missing.append(f"{name} (activation.{key})")
        else:
            parts[name] = board.layers * float(each)
    return Latency(parts, tuple(missing))


def layer_delays_s(s: Scattering, longer: Scattering, board: Board) -> Floats:
    """Return, for each layer, the longest group delay in s from its modulators to its detectors.

    Args:
        s: S-parameters of the chip at a wavelength.
        longer: The same at a wavelength that is longer by a little.
        board: Board of the chip.
    """
    turn = 2e9 * np.pi * LIGHT_SPEED_M_S * float(1.0 / s.wavelengths_nm[0] - 1.0 / longer.wavelengths_nm[0])
    sources = [label for row in board.inputs for label in row]
    found = []
    for layer in range(board.layers):
        neurons = [neuron for neuron in board.neurons if neuron.layer == layer]
        rows = detector_groups(neurons)[0]
        detectors = [label for row in rows for side in (row.plus, row.minus) for label in label_tuple(side)]
        ends = detectors or [label for row in board.outputs for label in row]
        low, high = (each.between(ends, sources)[0] for each in (s, longer))
        seen = np.abs(low) > FAINT * np.abs(low).max()
        # the phase of fields exp(-i ω t) grows with the frequency by the delay
        found.append(np.max(np.angle(low[seen] * high[seen].conj()) % (2.0 * np.pi)) / turn)
        sources = [label for neuron in neurons for label in label_tuple(neuron.to)]
    return np.array(found)
