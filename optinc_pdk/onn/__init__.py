"""Optical neural networks: layers, weight files, normalisation, error tolerance, closed-form and trained networks.

PyTorch, safetensors and ONNX are imported only where they are used.
"""

from optinc_pdk.onn.closed_form.chain import carry_chain, regenerating_chain
from optinc_pdk.onn.closed_form.proof import ExactnessProof, ProofError, prove
from optinc_pdk.onn.closed_form.unary import unary_chain
from optinc_pdk.onn.factorisation import LayerFactor, factorise
from optinc_pdk.onn.files import bundled
from optinc_pdk.onn.gauge import Gauge, gauge, input_error_accuracy, lattice_score, matrix_error_accuracy
from optinc_pdk.onn.network import Factor, Layer, Onn, WeightsError

__all__ = [
    "ExactnessProof",
    "Factor",
    "Gauge",
    "Layer",
    "LayerFactor",
    "Onn",
    "ProofError",
    "WeightsError",
    "bundled",
    "carry_chain",
    "factorise",
    "gauge",
    "input_error_accuracy",
    "lattice_score",
    "matrix_error_accuracy",
    "prove",
    "regenerating_chain",
    "unary_chain",
]
