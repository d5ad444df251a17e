"""Where a twin's fit starts: phases of the sources, and of the local oscillators, against each other.

They come through guides of different lengths and may be anything, whereas inside a mesh the design is a fair guess. Of
its fields E, a slope 2 Re(E_c* E_j e^{i(ψ_j - λ_k)}) at detectors k is linear in cosine and sine of ψ_j - λ_k, and so
are products of two sources; least squares over many settings give these, and the best rank-1 matrix the phases.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.tolerance.calibration.measure import Layer, Seen
from optinc_pdk.tolerance.calibration.twin import Twin
from optinc_pdk.tolerance.calibration.twin_light import fields, guess

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

LEAST = 1e-9
"""What is added to normal equations, over their mean."""


def in_phase(twin: Twin, unknown: Floats, layer: Layer, made: Floats, seen: Sequence[Seen]) -> Floats:
    """(N,) unknowns with phases of a layer's sources and oscillators that suit what was measured best.

    Args:
        twin: The twin.
        unknown: (N,) unknowns so far.
        layer: The layer.
        made: (S, H) settings, as designed phases of the heaters.
        seen: (S,) what was measured of the layer.
    """
    now = guess(twin, unknown)
    field = np.stack([fields(now.light(one), layer) for one in made])
    static, _, _, _, turned, _, _ = twin.parts(np.arange(twin.spread.size))
    found = unknown.copy()
    if layer.target.last:
        foretold = field[:, :, 1:, np.newaxis].conj() * field[:, :, np.newaxis, 1:]
        turn = _turns(foretold, np.stack([one.product for one in seen])).sum(axis=0)
        np.fill_diagonal(turn, np.abs(turn).mean())
        sources = -np.angle(np.linalg.eigh(turn + turn.conj().T)[1][:, -1])
    else:
        pairs = layer.plus.size
        shape = (len(made) * 2, pairs, layer.sources.size)
        foretold = (2.0 * field[:, :, :1].conj() * field[:, :, 1:]).reshape(shape)
        turn = _turns(foretold[:, np.newaxis], np.stack([one.slope for one in seen]).reshape(shape)[:, np.newaxis])[0]
        sources = np.angle(np.linalg.svd(turn)[2][0])
        oscillators = np.angle((turn.conj() * np.exp(1j * sources)).sum(axis=1))
        found[static[layer.oscillators]] += oscillators / twin.spread[static[layer.oscillators]]
    place = {label: i for i, label in enumerate(twin.edge_labels)}
    for labels, phase in zip(layer.target.inputs, sources.tolist(), strict=True):
        edge = turned[[place[label] for label in labels]]
        found[edge] += phase / twin.spread[edge]
    return found


def _turns(foretold: Complexes, measured: Floats) -> Complexes:
    """(n, a, b) complex z for which Re(foretold z) is measured, by least squares over (S, n, a, b), times certainty."""
    parts = np.stack([foretold.real, -foretold.imag], axis=-1)
    normal = np.einsum("snabp,snabq->nabpq", parts, parts)
    size = np.trace(normal, axis1=-2, axis2=-1)
    normal += LEAST * size.mean() * np.eye(2)
    real, imaginary = np.moveaxis(
        np.linalg.solve(normal, np.einsum("snabp,snab->nabp", parts, measured)[..., None]), -2, 0
    )
    return np.asarray((real + 1j * imaginary)[..., 0] * np.sqrt(size))
