"""Simulation: S-parameters of circuits, light through the network, programming of imperfect chips."""

from optinc_pdk.simulate.circuit_optics import CircuitOptics, analyse
from optinc_pdk.simulate.heater_drive import heater_phases
from optinc_pdk.simulate.programming._program import Programming, program
from optinc_pdk.simulate.programming.electronics import trim_offsets
from optinc_pdk.simulate.programming.matrix_program import MatrixProgramming, program_matrix
from optinc_pdk.simulate.s_parameters._plan import ScatteringPlan
from optinc_pdk.simulate.s_parameters._sparse_solver import FieldSolution, solve
from optinc_pdk.simulate.s_parameters.scattering import Scattering, prepare, s_matrices, scattering
from optinc_pdk.simulate.transmission.noise import Noise, noise_of
from optinc_pdk.simulate.transmission.reception import Reception, VectorReception, transmit, transmit_vectors
from optinc_pdk.simulate.transmission.settling import UnsettledError
from optinc_pdk.validation import validate_api

__all__ = [
    "CircuitOptics",
    "FieldSolution",
    "MatrixProgramming",
    "Noise",
    "Programming",
    "Reception",
    "Scattering",
    "ScatteringPlan",
    "UnsettledError",
    "VectorReception",
    "analyse",
    "heater_phases",
    "noise_of",
    "prepare",
    "program",
    "program_matrix",
    "s_matrices",
    "scattering",
    "solve",
    "transmit",
    "transmit_vectors",
    "trim_offsets",
]

validate_api(__name__, nan=("heater_phases", "s_matrices"))  # these name the heater
