"""Initial values of a digital twin's fit: relative phases of the sources and of the local oscillators.

Their light passes waveguides of different lengths, so these phases are arbitrary, whereas the design is a good initial
guess inside a mesh. With the design's fields E, a slope 2 Re(E_c* E_j e^{i(ψ_j - λ_k)}) at detectors k is linear in
cosine and sine of ψ_j - λ_k; so are products of two sources. Least squares over many settings determine both, and the
best rank-1 approximation gives the phases.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.studies.calibration.digital_twin import DigitalTwin
from optinc_pdk.studies.calibration.measurement import LayerResponse
from optinc_pdk.studies.calibration.twin_readings import TwinEstimate

REGULARISATION = 1e-9
"""Regularisation of the normal equations, relative to their mean."""


def fit_source_phases(
    twin: DigitalTwin, unknown: Floats, index: int, design_phase: Floats, responses: Sequence[LayerResponse]
) -> Floats:
    """Fit the initial phases of a layer's sources and local oscillators to its measured responses.

    Args:
        twin: The twin.
        unknown: (N,) current values of the unknowns.
        index: Index of the layer.
        design_phase: (S, H) design phases of the heaters at each setting.
        responses: (S,) measured responses of the layer.

    Returns:
        (N,) unknowns with the fitted phases.
    """
    estimate, layer = TwinEstimate(twin, unknown), twin.layers[index]
    field = estimate.light(index, estimate.phases(index, design_phase)).detected
    static, _, _, _, edge_phase, _, _ = twin.parts(np.arange(twin.spread.size))
    updated = unknown.copy()
    if layer.target.last:
        predicted = field[:, :, 1:, np.newaxis].conj() * field[:, :, np.newaxis, 1:]
        factor = _fit_phase_factors(predicted, np.stack([response.product for response in responses])).sum(axis=0)
        np.fill_diagonal(factor, np.abs(factor).mean())
        sources = -np.angle(np.linalg.eigh(factor + factor.conj().T)[1][:, -1])
    else:
        pairs = layer.plus.size
        shape = (len(design_phase) * 2, pairs, layer.sources.size)
        predicted = (2.0 * field[:, :, :1].conj() * field[:, :, 1:]).reshape(shape)
        factor = _fit_phase_factors(
            predicted[:, np.newaxis], np.stack([response.slope for response in responses]).reshape(shape)[:, np.newaxis]
        )[0]
        sources = np.angle(np.linalg.svd(factor)[2][0])
        oscillators = np.angle((factor.conj() * np.exp(1j * sources)).sum(axis=1))
        updated[static[layer.oscillators]] += oscillators / twin.spread[static[layer.oscillators]]
    for edges, phase in zip(twin.source_edges[index], sources.tolist(), strict=True):
        updated[edge_phase[edges]] += phase / twin.spread[edge_phase[edges]]
    return updated


def _fit_phase_factors(predicted: Complexes, measured: Floats) -> Complexes:
    """Solve Re(predicted z) = measured for z by least squares over settings; both are (S, n, a, b).

    Returns:
        (n, a, b) complex z, weighted by its certainty.
    """
    parts = np.stack([predicted.real, -predicted.imag], axis=-1)
    normal = np.einsum("snabp,snabq->nabpq", parts, parts)
    weight = np.trace(normal, axis1=-2, axis2=-1)
    normal += REGULARISATION * weight.mean() * np.eye(2)
    real, imaginary = np.moveaxis(
        np.linalg.solve(normal, np.einsum("snabp,snab->nabp", parts, measured)[..., None]), -2, 0
    )
    return np.asarray((real + 1j * imaginary)[..., 0] * np.sqrt(weight))
