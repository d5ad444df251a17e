"""Loops over the words that a chip receives, compiled by numba at their first call.

Import this module inside functions only, see :mod:`optinc_pdk.compilation`.
"""

from __future__ import annotations

import math

from optinc_pdk.arrays import Floats
from optinc_pdk.compilation import compiled


@compiled
def photodiode_levels(fields: Floats, dark: Floats, scale: Floats, levels: Floats) -> None:
    """Calculates the output levels scale · √(power - dark), or 0 where the power is below the dark power.

    Args:
        fields: (2 R, B) fields at R receivers, real parts first.
        dark: (R,) powers that the receivers subtract.
        scale: (R,) output levels per field amplitude.
        levels: (R, B) output levels; overwritten.
    """
    receivers = len(dark)
    for receiver in range(receivers):
        real, imaginary, level = fields[receiver], fields[receiver + receivers], levels[receiver]
        subtracted, factor = dark[receiver], scale[receiver]
        for word in range(len(level)):
            power = real[word] * real[word] + imaginary[word] * imaginary[word] - subtracted
            level[word] = factor * math.sqrt(0.0 if power < 0.0 else power)


@compiled
def count_saturated(differences: Floats, gain: Floats) -> int:
    """Returns how many amplitudes gain · difference are above 1, for (N, B) detected differences and (N,) gains."""
    count = 0
    for neuron in range(len(gain)):
        difference, factor = differences[neuron], gain[neuron]
        for word in range(len(difference)):
            count += 1 if difference[word] > 0.0 and factor * difference[word] > 1.0 else 0
    return count
