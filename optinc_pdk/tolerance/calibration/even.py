"""Receivers' rows with equal light: a scale behind each makes good what its row's norm was.

A row whose weights are a few percent of the strongest row's is dark where all rows share one scale: its light is what
many paths leave of each other, errors of it count for little, and while it is dark no small step brings it nearer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optinc_pdk.simulate.fit import Problem
from optinc_pdk.simulate.target import Target
from optinc_pdk.tolerance.calibration.measure import Layer


def even(target: Target) -> Target:
    """The last layer's target with the strongest row's norm for all rows; others as they are."""
    norm = np.linalg.norm(target.weight, axis=1)
    if not target.last or not norm.any():
        return target
    factor = np.divide(norm.max(), norm, out=np.ones_like(norm), where=norm > 0.0)[:, np.newaxis]
    return replace(target, weight=factor * target.weight, mesh_weight=factor * target.mesh_weight)


def even_problem(problem: Problem) -> Problem:
    """A chip whose receivers' rows are to be equally bright."""
    return replace(problem, targets=tuple(even(target) for target in problem.targets))


def even_layers(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Layers whose receivers' rows are to be equally bright."""
    return tuple(replace(layer, target=even(layer.target)) for layer in layers)
