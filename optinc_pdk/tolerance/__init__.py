"""Tolerance: imperfections of real devices, sampled chips, and what they do to the words."""

from optinc_pdk.tolerance.chip import Chip, chip_of, read_chip
from optinc_pdk.tolerance.draw import Sample, aged, draw
from optinc_pdk.tolerance.imperfections import Imperfections, imperfections
from optinc_pdk.tolerance.truth import fields, light, lights, phases

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
