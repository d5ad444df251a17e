"""Wavelength dependence: the range of carrier wavelengths over which a chip computes exactly."""

from optinc_pdk.studies.spectrum._windows import (
    LIGHT_NM_GHZ,
    Progress,
    WavelengthRange,
    WavelengthWindow,
    find_window,
    model_range,
)
from optinc_pdk.studies.spectrum.sweep import (
    SweptChip,
    WavelengthPoint,
    WavelengthSweep,
    oscillator_delays,
    sweep_wavelength,
)
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
