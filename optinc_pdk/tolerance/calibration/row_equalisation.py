"""Row equalisation of the last layer: all receivers get the same optical power; receiver scales restore the norms.

With a common scale, a row whose weights are a few percent of the strongest row gets almost no light: its field is the
remainder of many interfering paths, its errors have little weight in the cost, and small steps hardly improve it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem
from optinc_pdk.simulate.programming.targets import LayerTarget
from optinc_pdk.tolerance.calibration.measurement import BenchLayer


def equalise_rows(target: LayerTarget) -> LayerTarget:
    """Return a copy of the last layer's target whose rows all have the norm of its strongest row.

    Targets of hidden layers are returned unchanged. Rows of zeros stay zero.
    """
    norm = np.linalg.norm(target.weight, axis=1)
    if not target.last or not norm.any():
        return target
    factor = np.divide(norm.max(), norm, out=np.ones_like(norm), where=norm > 0.0)[:, np.newaxis]
    return replace(target, weight=factor * target.weight, mesh_weight=factor * target.mesh_weight)


def equalise_problem(problem: ProgrammingProblem) -> ProgrammingProblem:
    """Return a copy of the programming problem with the rows of the last layer scaled to equal norms."""
    return replace(problem, targets=tuple(equalise_rows(target) for target in problem.targets))


def equalise_layers(layers: Sequence[BenchLayer]) -> tuple[BenchLayer, ...]:
    """Return a copy of the layers with the rows of the last layer scaled to equal norms."""
    return tuple(replace(layer, target=equalise_rows(layer.target)) for layer in layers)
