"""Heat maps of a chip's matrices in the report's page: target, chip and difference of every entry."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Floats
from optinc_pdk.simulate import Programming

DIGITS = 4
"""Significant digits of the values on the page."""


@dataclass(frozen=True, eq=False)
class MatrixMap:
    """A matrix of a chip and its target.

    Attributes:
        name: Name of the matrix.
        target: (m, n) target.
        chip: (m, n) matrix as driven, without its free scale; NaN for entries that are not used.
    """

    name: str
    target: NDArray[Any]
    chip: NDArray[Any]

    def to_json(self) -> dict[str, Any]:
        """Return magnitudes of target, chip and difference, row by row; the difference over the largest target."""
        rows, columns = self.target.shape
        largest = float(np.abs(self.target).max()) or 1.0
        error = np.abs(self.chip - self.target) / largest
        return {
            "name": self.name,
            "rows": rows,
            "columns": columns,
            "target": _values(np.abs(self.target)),
            "chip": _values(np.abs(self.chip)),
            "error": _values(error),
        }


def layer_maps(programming: Programming) -> list[MatrixMap]:
    """Return the matrix of each layer of a network, as programmed."""
    return [
        MatrixMap(f"Layer {number}", target, driven) for number, (target, driven) in enumerate(programming.matrices)
    ]


def maps_text(maps: Sequence[MatrixMap]) -> str:
    """Return matrices as base64 of gzip-compressed JSON. Equal matrices give equal text."""
    text = json.dumps([each.to_json() for each in maps], separators=(",", ":"), ensure_ascii=False)
    return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _values(values: Floats) -> list[float | None]:
    """Return values with `DIGITS` significant digits, and None for NaN."""
    return [None if np.isnan(value) else float(f"{value:.{DIGITS}g}") for value in values.ravel().tolist()]
