"""Layers of a network as optics and electronics: distinct rows with the 2-norm 1, and gains and offsets of units.

Errors of the optics are relative to this form: units whose rows differ only in a positive factor share one detector,
and every row makes full use of the light, whatever the gain of its units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.onn.network import FactorMethod, Layer, shared_rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OpticalLayer:
    """One layer as an optical matrix and the electronics of its units.

    Attributes:
        matrix: (rows, in) distinct rows of equal norm; the 2-norm of the matrix is 1.
        row: (out,) row that each unit reads; -1 for a unit without weights.
        gain: (out,) factor by which each unit multiplies its row.
        bias: (out,) offset of each unit.
    """

    matrix: Floats
    row: NDArray[np.int64]
    gain: Floats
    bias: Floats

    def units(self, fields: Floats) -> Floats:
        """Computes the pre-activations (..., out) of the units from the detected fields (..., rows)."""
        if self.row.min() >= 0:
            return fields[..., self.row] * self.gain + self.bias
        return np.where(self.row >= 0, fields[..., self.row] * self.gain, 0.0) + self.bias


def optical_layers(
    layers: Sequence[Layer], scale: Floats | None = None, factor: Sequence[FactorMethod] | None = None
) -> tuple[OpticalLayer, ...]:
    """Returns the optical form of consecutive layers.

    Args:
        layers: The layers; every one has a weight other than 0.
        scale: Maxima of the inputs, (K,); the first matrix then reads inputs of 0 to 1. None for maxima of 1.
        factor: Factorisation of each layer; rows are shared only in hidden layers with "svd", which is the default.
    """
    result = []
    for index, layer in enumerate(layers):
        weight = layer.weight if index or scale is None else layer.weight * scale
        norm = np.linalg.norm(weight, axis=1)
        shared = index < len(layers) - 1 and (factor is None or factor[index] == "svd")
        row = shared_rows(weight) if shared else np.arange(len(weight))
        units = np.flatnonzero(norm > 0.0)[::-1]
        matrix = np.zeros((int(row.max()) + 1, layer.inputs))
        matrix[row[units]] = weight[units] / norm[units, np.newaxis]
        largest = float(np.linalg.norm(matrix, 2))
        result.append(OpticalLayer(matrix / largest, row, norm * largest, layer.bias))
    return tuple(result)
