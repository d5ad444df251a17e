"""Tolerance analysis: process variation, sampled chips, calibration, and the resulting word errors."""

from optinc_pdk.tolerance.variation.chip import Chip, chip_of, read_chip
from optinc_pdk.tolerance.variation.draw import Sample, aged, draw
from optinc_pdk.tolerance.variation.imperfections import Imperfections, imperfections
from optinc_pdk.tolerance.variation.truth import fields, light, lights, phases

__all__ = [
    "Chip",
    "Imperfections",
    "Sample",
    "aged",
    "chip_of",
    "draw",
    "fields",
    "imperfections",
    "light",
    "lights",
    "phases",
    "read_chip",
]
