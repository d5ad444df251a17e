"""Wavelength dependence: the range of carrier wavelengths over which a chip computes exactly."""

from optinc_pdk.studies.spectrum.judged_points import Progress, model_range
from optinc_pdk.studies.spectrum.points import (
    LIGHT_NM_GHZ,
    WavelengthPoint,
    WavelengthRange,
    WavelengthSweep,
    WavelengthWindow,
)
from optinc_pdk.studies.spectrum.sweep import SweptChip, oscillator_delays, sweep_wavelength
from optinc_pdk.studies.spectrum.windows import find_window
from optinc_pdk.validation import validate_api

__all__ = [
    "LIGHT_NM_GHZ",
    "Progress",
    "SweptChip",
    "WavelengthPoint",
    "WavelengthRange",
    "WavelengthSweep",
    "WavelengthWindow",
    "find_window",
    "model_range",
    "oscillator_delays",
    "sweep_wavelength",
]

validate_api(__name__)
