"""Spectra of a circuit, of its comparison with a netlist, and of a chip as driven: transmission against wavelength."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, label_tuple
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.io.writing import png_bytes
from optinc_pdk.report.schema import SpectrumCurveNumbers, SpectrumNumbers
from optinc_pdk.signoff.spectrum_comparison import SpectrumComparison
from optinc_pdk.simulate import CircuitOptics, heater_phases, prepare, s_matrices
from optinc_pdk.simulate.s_parameters.scattering import Scattering
from optinc_pdk.studies.spectrum import model_range

MOST_PANELS = 8
"""Inputs with a panel of their own; those that transmit most come first."""
MOST_CURVES = 8
"""Outputs that a panel shows: those that receive most."""
FLOOR_DB = -70.0
"""Transmission below which a curve is not drawn."""
_COLUMNS = 2


def spectra_png(s: Scattering, name: str) -> bytes | None:
    """Draw the transmission from every input to every other port in dB as PNG; None if no light reaches another port.

    With a single wavelength, points are drawn.
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
    """Draw the power in dB that netlist and layout transmit between the ports at which they deviate most, as PNG."""
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


REACH_NM = 50.0
"""Largest distance of a wavelength from the carrier's."""
LOWEST_DB = -150.0
"""Transmission that stands for all lower ones."""
STEPS = ((4_000, 40), (15_000, 10))
"""Numbers of devices up to which a chip is simulated, and numbers of steps of wavelength between the ends."""
FONT_PT = 13.0
"""Size of the picture's text, which telephones show at about half its size."""
DPI = 180
TABLE_NM = 10.0
"""Smallest distance of two wavelengths of the page's table, apart from the carrier's."""


def network_sources(board: Board) -> dict[str, tuple[str, ...]]:
    """Return the labels that launch light into a network's chip: carrier, inputs, and neurons by layer."""
    groups = {"carrier": board.unmodulated, "inputs": tuple(label for row in board.inputs for label in row)}
    for layer in range(board.layers):
        to = [label_tuple(neuron.to) for neuron in board.neurons if neuron.layer == layer]
        groups[f"neurons of layer {layer}"] = tuple(label for labels in to for label in labels)
    return {name: labels for name, labels in groups.items() if labels}


def source_spectra(
    structure: CircuitOptics,
    sources: Mapping[str, Sequence[str]],
    bias: Bias,
    process: Process,
    ground: SharedGround | None,
) -> SpectrumNumbers:
    """Simulate the transmission from the sources of a chip at wavelengths around the carrier's.

    Args:
        structure: The circuit, driven by the DAC codes of the bias.
        sources: Labels that launch light, by the name of their group.
        bias: Bias of its heaters.
        process: Process of the cards.
        ground: Ground rise that results from the heaters' currents; None for no ground rise.

    Returns:
        Transmissions within the range of the models, at most `REACH_NM` from the carrier; or why there are none.
    """
    carrier, devices = float(process.guide.wavelength_nm), len(structure.circuit.instances)
    steps = next((count for most, count in STEPS if devices <= most), None)
    if steps is None:
        return _left_out(carrier, f"the chip has {devices:,} devices, more than the {STEPS[-1][0]:,} of this section")
    models = model_range(structure, process)
    low, high = max(models.low_nm, carrier - REACH_NM), min(models.high_nm, carrier + REACH_NM)
    wavelengths = np.union1d(np.linspace(low, high, steps + 1), [carrier])
    ins = [label for labels in sources.values() for label in labels]
    phases = heater_phases(structure, bias, process, ground=ground)
    try:
        plan = prepare(structure, [low, carrier, high], process, ins=ins)
        power = np.abs(s_matrices(plan, phases, wavelengths, process)[0]) ** 2
    except InputError as fault:
        return _left_out(carrier, str(fault))
    # light that returns into its own source is a reflection
    power[:, [structure.labels.index(label) for label in ins], np.arange(len(ins))] = 0.0
    reaching = power.sum(axis=1)
    starts = np.cumsum([0, *(len(labels) for labels in sources.values())])
    return SpectrumNumbers(
        carrier_nm=carrier,
        wavelengths_nm=wavelengths.tolist(),
        curves=[
            _curve(name, reaching[:, first:last])
            for name, first, last in zip(sources, starts[:-1], starts[1:], strict=True)
        ],
    )


def spectrum_rows(spectrum: SpectrumNumbers) -> list[tuple[str, list[str]]]:
    """Return wavelengths, and the mean transmissions of the curves there, as text: the carrier's and some others."""
    rows: list[tuple[str, list[str]]] = []
    last = -np.inf
    for place, wavelength in enumerate(spectrum.wavelengths_nm):
        if wavelength != spectrum.carrier_nm and wavelength - last < TABLE_NM * (1.0 - 1e-9):
            continue
        last = wavelength
        rows.append((f"{wavelength:g}", [f"{curve.mean_db[place]:.1f}" for curve in spectrum.curves]))
    return rows


def spectrum_png(spectrum: SpectrumNumbers) -> bytes:
    """Draw transmissions, at least one, against the wavelength as PNG: means, and the range over a group's sources."""
    figure = Figure(figsize=(7.0, 4.6), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.tick_params(labelsize=FONT_PT)
    for curve in spectrum.curves:
        count = f" ({curve.sources})" if curve.sources > 1 else ""
        (line,) = axes.plot(spectrum.wavelengths_nm, curve.mean_db, linewidth=1.4, label=f"{curve.name}{count}")
        axes.fill_between(
            spectrum.wavelengths_nm, curve.lowest_db, curve.highest_db, color=line.get_color(), alpha=0.15, linewidth=0
        )
    axes.axvline(spectrum.carrier_nm, color="#444c54", linewidth=0.8, linestyle=":", label="wavelength of the bias")
    axes.set_xlabel("wavelength / nm", fontsize=FONT_PT)
    axes.set_ylabel("transmission / dB", fontsize=FONT_PT)
    axes.margins(x=0.0)
    axes.grid(linewidth=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    # below the curves, which fill the axes
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=FONT_PT)
    return png_bytes(figure, DPI)


def _left_out(carrier_nm: float, reason: str) -> SpectrumNumbers:
    return SpectrumNumbers(carrier_nm=carrier_nm, left_out=reason)


def _curve(name: str, power: Floats) -> SpectrumCurveNumbers:
    """Return a curve from the (W, sources) powers that reach other ports, of a group."""
    low = 10.0 ** (LOWEST_DB / 10.0)
    mean, lowest, highest = (
        [round(value, 3) for value in (10.0 * np.log10(np.maximum(each, low))).tolist()]
        for each in (power.mean(axis=1), power.min(axis=1), power.max(axis=1))
    )
    return SpectrumCurveNumbers(name=name, sources=power.shape[1], mean_db=mean, lowest_db=lowest, highest_db=highest)
