"""Wavelength dependence: range of carrier wavelengths over which a chip computes exactly."""

from optinc_pdk.tolerance.spectrum.points import LIGHT_NM_GHZ, Point, Range, Spectrum, Window
from optinc_pdk.tolerance.spectrum.sweep import Progress, Subject, model_range, oscillator_delays, spectrum
from optinc_pdk.tolerance.spectrum.windows import find_window

__all__ = [
    "LIGHT_NM_GHZ",
    "Point",
    "Progress",
    "Range",
    "Spectrum",
    "Subject",
    "Window",
    "find_window",
    "model_range",
    "oscillator_delays",
    "spectrum",
]
