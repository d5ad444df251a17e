"""Pilot words: a small fixed set of known words, which servers send between data.

Pilots have to show every signal of every layer: with source amplitudes a, a detector reads constant + Σ m_j a_j, so the
patterns (1, a) of a layer's sources must be linearly independent, as many as there are for words. The words are chosen
one after another, each with the largest part that is orthogonal to the patterns of those before (QR decomposition with
pivoting; Businger and Golub, Numer. Math. 7, 269 (1965)).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import qr

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.studies.calibration.end_to_end import WordSample
from optinc_pdk.studies.calibration.measurement import BenchLayer

ROUNDS = 2
"""Number of times that a set of words with all patterns is chosen; every further one averages errors."""
MIN_PART = 1e-6
"""Orthogonal part of a pattern, relative to the largest, below which a set is complete."""


def choose_pilots(words: WordSample, layers: Sequence[BenchLayer]) -> WordSample:
    """Choose pilot words from a sample of words.

    Args:
        words: The sample.
        layers: Layers of the chip.

    Returns:
        The pilots, in the order in which they are chosen.
    """
    patterns = _patterns(words, layers)
    rest, chosen = np.arange(len(patterns)), list[Ints]()
    for _ in range(ROUNDS):
        _, triangle, order = qr(patterns[rest].T, mode="economic", pivoting=True)
        part = np.abs(np.diagonal(triangle))
        count = int(np.count_nonzero(part > MIN_PART * part[:1]))
        chosen.append(rest[order[:count]])
        rest = np.delete(rest, order[:count])
        if not rest.size:
            break
    return subset(words, np.concatenate(chosen))


def _patterns(words: WordSample, layers: Sequence[BenchLayer]) -> Floats:
    """Return (N, features) patterns: a constant, and the ideal amplitudes of the sources of all layers."""
    amplitudes = [words.amplitude, *(np.clip(signal, 0.0, 1.0) for signal in words.network_signal)]
    return np.column_stack([np.ones(len(words.amplitude)), *amplitudes])


def subset(words: WordSample, index: Ints) -> WordSample:
    """Return some of the words of a sample, by (n,) indices."""
    return WordSample(
        words.amplitude[index],
        words.ideal_level[index],
        tuple(signal[index] for signal in words.network_signal),
        words.network_level[index],
    )
