"""Trimming of the electronics against the words: thresholds and gains of the neurons, scales of the receivers.

Heaters stay as they are. What remains of a layer's matrix errors is partly an error of a constant or of a factor, and
trimming removes that part. A *comparator* is a neuron whose ideal pre-activation is never between 0 and 1; its
threshold is set to the middle of the gap between the detected signals for which it must be off and those for which it
must be on. Gains and offsets of the other neurons, which pass values on, are fitted by least squares.

On a bench, the servers send a sample of words, the heaters stay at rest, and every detector is read for every word.
With 10,000 symbols of 1 MBd for each of 4096 words, this takes 41 s.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optinc_pdk.arrays import Bools, Floats
from optinc_pdk.cards import Process
from optinc_pdk.simulate.programming.electronics import round_significant
from optinc_pdk.studies.calibration.end_to_end import ElectronicsSettings, WordTransmission

MAX_SOURCE_ERROR = 0.25
"""Words for which a source of a layer is further from its ideal amplitude do not count for the layer."""
MIN_WORDS = 16
"""Least number of words from which a neuron is trimmed."""


def trim_electronics(
    electronics: ElectronicsSettings, passage: WordTransmission, process: Process
) -> ElectronicsSettings:
    """Trim thresholds, gains and scales to the signals that words cause.

    Args:
        electronics: Settings at which the words were sent.
        passage: Their transmission.
        process: Process of the cards, for range and resolution of the electronics.

    Returns:
        Trimmed settings. A neuron whose words do not suffice, or that would leave the card's range, keeps its settings.
    """
    card, bits = process.activation, int(process.activation.resolution_bits)
    words, gains, offsets = passage.words, list[Floats](), list[Floats]()
    source = words.amplitude
    for i, ideal in enumerate(words.network_signal):
        right = _right_words(passage.source[i] if i else source, source)
        gain, offset = electronics.gain[i].copy(), electronics.offset[i].copy()
        for n in range(gain.size):
            found = _trimmed(passage.detected[i][right, n], ideal[right, n])
            if found is None:
                continue
            new_gain, new_offset = (float(round_significant(np.array(value), bits)) for value in found)
            if 0.0 < new_gain <= float(card.gain_max) and abs(new_offset) <= float(card.offset_max):
                gain[n], offset[n] = new_gain, new_offset
        gains.append(gain)
        offsets.append(offset)
        source = np.clip(ideal, 0.0, 1.0)
    right = _right_words(passage.source[-1], source)
    output, level = passage.output[right], words.network_level[right, np.newaxis]
    power = (output**2).sum(axis=0)
    factor = np.divide((output * level).sum(axis=0), power, out=np.ones_like(power), where=power > 0.0)
    scale = round_significant(electronics.scale * factor.reshape(-1), bits)
    return replace(electronics, gain=tuple(gains), offset=tuple(offsets), scale=scale)


def _right_words(source: Floats, ideal: Floats) -> Bools:
    """(N,) whether all sources of a layer are near their ideal amplitudes."""
    return np.asarray((np.abs(source - ideal) < MAX_SOURCE_ERROR).all(axis=1))


def _trimmed(detected: Floats, ideal: Floats) -> tuple[float, float] | None:
    """Return gain and offset of a neuron; None if the words do not determine them.

    Args:
        detected: (n,) detected signals without offset.
        ideal: (n,) ideal pre-activations, gain · (detected + offset).
    """
    centred = np.abs(ideal - 0.5)
    # far from the threshold, a neuron saturates whatever its gain and offset are
    near = centred <= max(1.0, 1.5 * float(centred.min(initial=np.inf)))
    signal, value = detected[near], ideal[near]
    if signal.size < MIN_WORDS:
        return None
    spread = signal - signal.mean()
    power = float(spread @ spread)
    gain = float(spread @ (value - value.mean())) / power if power > 0.0 else 0.0
    if gain <= 0.0:
        return None
    off, on = signal[value <= 0.0], signal[value >= 1.0]
    if off.size + on.size == signal.size and off.size and on.size:
        return gain, 0.5 / gain - 0.5 * float(off.max() + on.min())
    return gain, float(value.mean()) / gain - float(signal.mean())
