"""Loop that decodes words, compiled by numba at its first call.

Import this module inside functions only, see :mod:`optinc_pdk.compilation`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.compilation import compiled


@compiled
def word_errors(
    outputs: NDArray[np.float64],
    resolution: NDArray[np.int64],
    places: NDArray[np.int64],
    ideal: NDArray[np.int64],
    errors: NDArray[np.int64],
) -> None:
    """Decides outputs, combines them into words, and compares these with the ideal words.

    Args:
        outputs: (S, M, B) output levels before decision of S servers for B inputs, without NaN.
        resolution: (M,) decision steps per level.
        places: (M,) weight of a step of each output in a word.
        ideal: (B,) ideal words.
        errors: (S, B) decoded minus ideal words; overwritten.
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
