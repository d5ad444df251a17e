"""Tolerance analysis: process variation, sampled chips, calibration, and the resulting word errors."""

from optinc_pdk.studies.variation.nominal_chip import NominalChip, chip_of, read_chip
from optinc_pdk.studies.variation.sampled_response import (
    sample_phases,
    sample_s_matrices,
    sample_scattering,
    sample_scatterings,
)
from optinc_pdk.studies.variation.sampling import ChipSample, Imperfections, aged_sample, draw_sample, imperfections
from optinc_pdk.validation import validate_api

__all__ = [
    "ChipSample",
    "Imperfections",
    "NominalChip",
    "aged_sample",
    "chip_of",
    "draw_sample",
    "imperfections",
    "read_chip",
    "sample_phases",
    "sample_s_matrices",
    "sample_scattering",
    "sample_scatterings",
]

validate_api(__name__)
