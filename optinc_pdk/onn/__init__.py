"""Optical neural networks: layers, weight files, normalisation, error tolerance, closed-form and trained networks.

PyTorch, safetensors and ONNX are imported only where they are used.
"""

from optinc_pdk.onn.closed_form.chain import carry_chain, regenerating_chain
from optinc_pdk.onn.closed_form.proof import Proof, ProofError, prove
from optinc_pdk.onn.closed_form.unary import unary_chain
from optinc_pdk.onn.files import bundled
from optinc_pdk.onn.gauge import Gauge, gauge, input_tolerance, lattice_score, tolerance
from optinc_pdk.onn.network import Factor, Layer, Onn, WeightsError

__all__ = [
    "Factor",
    "Gauge",
    "Layer",
    "Onn",
    "Proof",
    "ProofError",
    "WeightsError",
    "bundled",
    "carry_chain",
    "gauge",
    "input_tolerance",
    "lattice_score",
    "prove",
    "regenerating_chain",
    "tolerance",
    "unary_chain",
]
