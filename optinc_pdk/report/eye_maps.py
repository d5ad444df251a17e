"""Eye diagrams in the report's page: densities of traces, which a script draws, and openings as a table."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.report.eye_picture import eye_texts, worst_eyes
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES
from optinc_pdk.studies.eye_diagram import Eye

WIDE, HIGH = 8 * SAMPLES, 96
"""Columns and rows of a density: eight columns for each half of a sample of two symbols."""
MARGIN = 0.05
"""Part of the range of values that is drawn beyond it."""


@dataclass(frozen=True, eq=False)
class RateEyes:
    """Eye diagrams of a chip at a symbol rate.

    Attributes:
        eyes: Eyes of the rows of all hidden layers and of the outputs, at least one.
        noise: Noise model with the symbol rate.
    """

    eyes: Sequence[Eye]
    noise: Noise


def eye_rows(eyes: Sequence[Eye]) -> list[tuple[str, str, str]]:
    """Return signal, opening and deviation of the eyes that are shown, as text."""
    return [(eye.name, *eye_texts(eye)) for eye in worst_eyes(eyes)]


def eyes_text(eyes: Sequence[Eye], window: float) -> str:
    """Return the densities of the eyes that are shown, as base64 of gzip-compressed JSON.

    Args:
        eyes: Eyes of a chip.
        window: Part of a symbol over which a reading is averaged, which ends with the symbol.
    """
    data = {"window": window, "eyes": [eye_density(eye) for eye in worst_eyes(eyes)]}
    return b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)).decode()


def eye_density(eye: Eye) -> dict[str, Any]:
    """Return how many traces pass each place of a diagram of two symbols, from the middle of the one before.

    Args:
        eye: The eye.

    Returns:
        ``name``, ``low`` and ``high`` of the values, ``wide`` and ``high_cells`` of the grid, and ``counts`` of its
        cells, row by row from the highest value.
    """
    starts = SAMPLES // 2 - 1 + SAMPLES * np.arange(len(eye.readings) - 3)
    traces = eye.instants[starts[:, np.newaxis] + np.arange(2 * SAMPLES + 1)]
    low, high = float(traces.min()), float(traces.max())
    margin = MARGIN * (high - low) or 1.0
    low, high = low - margin, high + margin
    # between two instants, a trace is a straight line
    at = (np.arange(WIDE) + 0.5) * (2 * SAMPLES / WIDE)
    before, share = np.floor(at).astype(np.int64), at % 1.0
    values: Floats = traces[:, before] * (1.0 - share) + traces[:, before + 1] * share
    row = np.clip(((high - values) / (high - low) * HIGH).astype(np.int64), 0, HIGH - 1)
    cells = row * WIDE + np.arange(WIDE)
    counts = np.bincount(cells.ravel(), minlength=HIGH * WIDE)
    return {
        "name": eye.name,
        "low": round(low, 6),
        "high": round(high, 6),
        "wide": WIDE,
        "high_cells": HIGH,
        "counts": counts.tolist(),
    }
