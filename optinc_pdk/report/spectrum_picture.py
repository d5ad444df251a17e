"""Spectra of a circuit as a picture: transmission from every input, against the wavelength."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optinc_pdk.io.writing import png_bytes
from optinc_pdk.signoff.spectrum_comparison import SpectrumComparison
from optinc_pdk.simulate.s_parameters.scattering import Scattering

MOST_PANELS = 8
"""Inputs with a panel of their own; those that transmit most come first."""
MOST_CURVES = 8
"""Outputs that a panel shows: those that receive most."""
FLOOR_DB = -70.0
"""Transmission below which a curve is not drawn."""
_COLUMNS = 2


def spectra_png(s: Scattering, name: str) -> bytes | None:
    """Draw the transmission from every input to every other port in dB.

    Args:
        s: S-parameters at W wavelengths; with W = 1, points are drawn.
        name: Name of the circuit, for the title.

    Returns:
        Content of the PNG file; None if no light reaches another port.
    """
    with np.errstate(divide="ignore"):
        power = 20.0 * np.log10(np.abs(s.s))
    ports = np.arange(len(s.labels))
    power[:, ports, ports] = -np.inf
    # every pair is drawn once, from the port that comes first
    power[:, ports[:, np.newaxis] < ports] = -np.inf
    strongest = power.max(axis=0, initial=-np.inf)
    inputs = [i for i in np.argsort(-strongest.max(axis=0), kind="stable").tolist() if strongest[:, i].max() > FLOOR_DB]
    if not inputs:
        return None
    shown = sorted(inputs[:MOST_PANELS])
    rows = math.ceil(len(shown) / _COLUMNS)
    figure = Figure(figsize=(10.0, 0.6 + 3.0 * rows), dpi=120, layout="constrained", facecolor="white")
    axes = np.atleast_1d(figure.subplots(rows, min(_COLUMNS, len(shown)))).ravel()
    for panel, source in zip(axes, shown, strict=False):
        outs = np.argsort(-strongest[:, source], kind="stable").tolist()[:MOST_CURVES]
        for out in (one for one in outs if strongest[one, source] > FLOOR_DB):
            marker = "o" if len(s.wavelengths_nm) == 1 else None
            panel.plot(
                s.wavelengths_nm, power[:, out, source], linewidth=1.0, marker=marker, markersize=4, label=s.labels[out]
            )
        panel.set_title(f"from {s.labels[source]} to", fontsize=9, loc="left")
        _label(panel)
    for panel in axes[len(shown) :]:
        panel.set_visible(False)
    more = f"; {len(inputs) - len(shown)} more inputs are in the file" if len(inputs) > len(shown) else ""
    figure.suptitle(f"{name}: S-parameters of the extracted circuit{more}", fontsize=10)
    return png_bytes(figure)


def comparison_png(spectra: SpectrumComparison) -> bytes:
    """Draw the power that netlist and layout transmit between the two ports at which they deviate most, in dB.

    Returns:
        Content of the PNG file.
    """
    figure = Figure(figsize=(10.0, 3.0), dpi=120, layout="constrained", facecolor="white")
    panel = figure.subplots()
    marker = "o" if len(spectra.wavelengths_nm) == 1 else None
    for power, name, style in ((spectra.netlist_power, "netlist", "-"), (spectra.layout_power, "layout", "--")):
        decibel = 10.0 * np.log10(np.maximum(power, 10.0 ** (FLOOR_DB / 10.0)))
        panel.plot(spectra.wavelengths_nm, decibel, style, linewidth=1.0, marker=marker, markersize=4, label=name)
    panel.set_title(f"from {spectra.power.source} to {spectra.power.output}", fontsize=9, loc="left")
    _label(panel)
    return png_bytes(figure)


def _label(panel: Axes) -> None:
    """Label the axes of a panel of transmissions against wavelength, and add its legend."""
    panel.set_xlabel("wavelength / nm", fontsize=8)
    panel.set_ylabel("transmission / dB", fontsize=8)
    panel.tick_params(labelsize=7)
    panel.grid(linewidth=0.3)
    panel.legend(fontsize=7, frameon=False, loc="best")
    panel.spines[["top", "right"]].set_visible(False)
