"""Simulation: S-parameters of circuits, light through the network, programming of imperfect chips."""

from optinc_pdk.simulate.heaters import heater_phases
from optinc_pdk.simulate.network import Reception, UnsettledError, transmit
from optinc_pdk.simulate.noise import Noise, noise_of
from optinc_pdk.simulate.plan import Plan
from optinc_pdk.simulate.program import Programming, program
from optinc_pdk.simulate.scatter import Scattering, prepare, s_matrices, scattering
from optinc_pdk.simulate.solution import Solution, solve
from optinc_pdk.simulate.structure import Structure, analyse

__all__ = [
    "Noise",
    "Plan",
    "Programming",
    "Reception",
    "Scattering",
    "Solution",
    "Structure",
    "UnsettledError",
    "analyse",
    "heater_phases",
    "noise_of",
    "prepare",
    "program",
    "s_matrices",
    "scattering",
    "solve",
    "transmit",
]
