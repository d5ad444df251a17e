"""Optical neural networks: layers, weight files, normalisation, error tolerance, closed-form and trained networks.

PyTorch, safetensors and ONNX are imported only where they are used.
"""

from optinc_pdk.networks.closed_form.chains import carry_chain, regenerating_chain, unary_chain
from optinc_pdk.networks.closed_form.comparator_search import comparator_network
from optinc_pdk.networks.closed_form.comparators import saturation_margins
from optinc_pdk.networks.closed_form.proof import ExactnessProof, ProofError, prove
from optinc_pdk.networks.error_tolerance import input_error_accuracy, lattice_score, matrix_error_accuracy
from optinc_pdk.networks.factorisation import (
    LayerFactor,
    factorise,
    linked_network,
    output_notes,
    realised_network,
    with_output_neurons,
    without_output_bias,
)
from optinc_pdk.networks.layers import FactorMethod, Layer, LayerPart, WeightsError
from optinc_pdk.networks.network import AveragingNetwork, GeneralNetwork, Network, check_data, read_data
from optinc_pdk.networks.network_data import NetworkComparison, NetworkData, NetworkLimits
from optinc_pdk.networks.normalisation import NormalisedNetwork, normalise
from optinc_pdk.networks.tasks import NetworkTask, VectorTask
from optinc_pdk.networks.weight_files import bundled_weights
from optinc_pdk.options import Activation
from optinc_pdk.validation import validate_api

__all__ = [
    "Activation",
    "AveragingNetwork",
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
    "NormalisedNetwork",
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
