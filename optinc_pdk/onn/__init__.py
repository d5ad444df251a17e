"""Optical neural networks: layers, weight files, normalisation, error tolerance, closed-form and trained networks.

PyTorch, safetensors and ONNX are imported only where they are used.
"""

from optinc_pdk.onn.closed_form.chain import carry_chain, regenerating_chain
from optinc_pdk.onn.closed_form.comparators import comparator_network, saturation_margins
from optinc_pdk.onn.closed_form.proof import ExactnessProof, ProofError, prove
from optinc_pdk.onn.closed_form.unary import unary_chain
from optinc_pdk.onn.factorisation import LayerFactor, factorise
from optinc_pdk.onn.general_network import GeneralNetwork, VectorTask
from optinc_pdk.onn.layer_parts import LayerPart
from optinc_pdk.onn.network import Activation, FactorMethod, Layer, Network, Onn, WeightsError
from optinc_pdk.onn.network_comparison import NetworkComparison, NetworkLimits
from optinc_pdk.onn.network_data import NetworkData, check_data, read_data
from optinc_pdk.onn.network_task import NetworkTask
from optinc_pdk.onn.normalisation import (
    NormalisedOnn,
    input_error_accuracy,
    lattice_score,
    matrix_error_accuracy,
    normalise,
)
from optinc_pdk.onn.output_bias import without_output_bias
from optinc_pdk.onn.output_neurons import linked_network, output_notes, realised_network, with_output_neurons
from optinc_pdk.onn.weight_files import bundled_weights
from optinc_pdk.validation import validate_api

__all__ = [
    "Activation",
    "ExactnessProof",
    "FactorMethod",
    "GeneralNetwork",
    "Layer",
    "LayerFactor",
    "LayerPart",
    "Network",
    "NetworkComparison",
    "NetworkData",
    "NetworkLimits",
    "NetworkTask",
    "NormalisedOnn",
    "Onn",
    "ProofError",
    "VectorTask",
    "WeightsError",
    "bundled_weights",
    "carry_chain",
    "check_data",
    "comparator_network",
    "factorise",
    "input_error_accuracy",
    "lattice_score",
    "linked_network",
    "matrix_error_accuracy",
    "normalise",
    "output_notes",
    "prove",
    "read_data",
    "realised_network",
    "regenerating_chain",
    "saturation_margins",
    "unary_chain",
    "with_output_neurons",
    "without_output_bias",
]

validate_api(__name__)
