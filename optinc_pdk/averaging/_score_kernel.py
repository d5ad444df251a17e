"""Loop that decodes words, compiled by numba at its first call.

Import this module inside functions only, see :mod:`optinc_pdk.compilation`.
"""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.compilation import compiled

# Words of which the largest deviations are kept side by side, for vector units.
_TILE = 128


@compiled
def word_errors(
    outputs: Floats,
    resolution: Ints,
    places: Ints,
    ideal: Ints,
    errors: Ints,
) -> None:
    """Decides outputs, combines them into words, and writes decoded minus ideal words to ``errors``, (S, B).

    Outputs are (S, M, B) levels of S servers for B inputs, without NaN; ``resolution`` (M,) decision steps per level,
    ``places`` (M,) the weight of a step of each output in a word, ``ideal`` (B,) words.
    """
    for server in range(len(outputs)):
        for word in range(len(ideal)):
            errors[server, word] = -ideal[word]
        for symbol in range(len(places)):
            steps, place = float(resolution[symbol]), places[symbol]
            top = 4.0 * steps - 1.0
            for word in range(len(ideal)):
                step = abs(outputs[server, symbol, word]) * steps + 0.5
                errors[server, word] += place * int(step if step < top else top)


@compiled
def largest_deviation(outputs: Floats, levels: Floats, resolution: Ints) -> float:
    """Returns the largest deviation of an output (S, M, B) from its level (M, B) in decision steps; NaN if an output is
    NaN.
    """
    largest, total = np.zeros(_TILE), np.zeros(_TILE)
    for server in range(len(outputs)):
        for symbol in range(len(resolution)):
            steps = float(resolution[symbol])
            for start in range(0, outputs.shape[2], _TILE):
                output = outputs[server, symbol, start : start + _TILE]
                level = levels[symbol, start : start + _TILE]
                for w in range(len(output)):
                    deviation = abs(output[w] - level[w]) * steps
                    largest[w] = deviation if deviation > largest[w] else largest[w]
                    # a comparison with NaN is false, but their sum is NaN
                    total[w] += deviation
    return np.nan if np.isnan(total.sum()) else largest.max()
