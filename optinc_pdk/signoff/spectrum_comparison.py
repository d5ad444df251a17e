"""Comparison of what a layout does with what its netlist does: S-parameters of both circuits between the same fibres.

LVS compares parts. This shows what their deviations within the tolerances do together, and bounds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.errors import InputError
from optinc_pdk.extract.guide_couplers import coupler_card
from optinc_pdk.signoff.lvs._lengths import GUIDES, length_tolerance_um
from optinc_pdk.simulate.s_parameters.scattering import set_scattering

TIE = 1e-6
"""Relative difference below which two deviations are equal: those from one port to another and back, for example."""
TOLERANCE = 0.3
"""Largest accepted deviation by default: a share of the transmitted power, and a phase in rad.

A delay arm that is 100 nm longer causes 0.5 of the power and 0.5 rad. Most circuits of examples/circuits deviate by
less than 0.06 of the power and 0.22 rad, which is the rounding of lengths in their netlists.
"""
WEAKEST = 0.01
"""Power over that of the strongest output of the same input, from which on an output counts fully."""
BRIGHT = 0.5
"""Power over the largest one at any wavelength from which on the phase is compared: a null has no phase."""
POINTS_PER_FRINGE = 16
FEWEST_POINTS = 1001
"""Wavelengths for circuits with short guides: steps of 0.01 nm over the default range, which resolve rings."""
MOST_POINTS = 4001
MOST_CASES = 100_000
"""Wavelengths times instances that are simulated, if this leaves ``LEAST_POINTS`` wavelengths."""
LEAST_POINTS = 11
MOST_NUMBERS = 4_000_000
"""Wavelengths times pairs of ports."""


@dataclass(frozen=True)
class Deviation:
    """A deviation of the layout from the netlist.

    Attributes:
        value: Its size: a share of the largest transmitted power, or a phase in rad.
        source: Label of the input.
        output: Label of the output.
        wavelength_nm: Wavelength.
    """

    value: float
    source: str
    output: str
    wavelength_nm: float

    def __str__(self) -> str:
        return f"{self.source} to {self.output}, {self.wavelength_nm:.2f} nm"

    def to_json(self) -> dict[str, Any]:
        """Return value, ports and wavelength for JSON."""
        ports = {"from": self.source, "to": self.output}
        return {"value": round(self.value, 6), **ports, "wavelength_nm": round(self.wavelength_nm, 4)}


@dataclass(frozen=True, eq=False)
class SpectrumComparison:
    """S-parameters of a layout beside those of its netlist, heaters off in both.

    Attributes:
        wavelengths_nm: (W,) wavelengths.
        resolving: Number of wavelengths that resolve the fringes of the circuit; W may be smaller.
        power: Largest change of the transmitted power, as a share of the largest one between the two ports.
        phase: Largest change of the phase in rad at wavelengths at which at least half of the largest power passes.
        tolerance: Largest accepted values of both.
        netlist_power: (W,) transmitted power of the netlist between the ports of `power`.
        layout_power: (W,) that of the layout.
    """

    wavelengths_nm: Floats
    resolving: int
    power: Deviation
    phase: Deviation
    tolerance: tuple[float, float]
    netlist_power: Floats
    layout_power: Floats

    @property
    def within(self) -> bool:
        """Whether both deviations are within the tolerance."""
        return self.power.value <= self.tolerance[0] and self.phase.value <= self.tolerance[1]

    def to_json(self) -> dict[str, Any]:
        """Return the deviations for JSON."""
        return {
            "within": self.within,
            "power": self.power.to_json() | {"tolerance": round(self.tolerance[0], 6)},
            "phase_rad": self.phase.to_json() | {"tolerance": round(self.tolerance[1], 6)},
            "wavelengths": len(self.wavelengths_nm),
            "resolving_wavelengths": self.resolving,
        }


def compare_spectra(
    netlist: Circuit, layout: Circuit, wavelengths_nm: Floats, process: Process, tolerance: float | None = None
) -> SpectrumComparison:
    """Simulate a netlist and the circuit extracted from its layout, and compare both.

    Args:
        netlist: Flat circuit of the netlist, with the labels of the layout.
        layout: Extracted circuit.
        wavelengths_nm: (W,) wavelengths whose range is simulated, in steps that resolve the fringes of the circuit.
        tolerance: Largest accepted deviation, a share of the power and a phase in rad. If None, it is ``TOLERANCE``, or
            more where guides that differ by the tolerance of LVS cause more: a ring multiplies what rounding does.

    Raises:
        ModelError: A device has no model, or a wavelength is outside its range.
        InputError: The netlist states no lengths, the circuits have other fibres, or cannot be simulated; the message
            says why.
    """
    if len(netlist.nets) and not netlist.net_length_um.size:
        raise InputError("the netlist states no lengths of guides, and so no phases")
    wavelengths, resolving = comparison_wavelengths(layout, np.unique(wavelengths_nm), process)
    expected, found = (set_scattering(circuit, {}, wavelengths, process) for circuit in (netlist, layout))
    if expected.labels != found.labels:
        single = sorted(set(expected.labels) ^ set(found.labels))[0]
        raise InputError(f"{single!r} is in the netlist or in the layout only")
    deviations = _deviations(expected.s, found.s)
    largest = [float(each.max(initial=0.0)) for each in deviations]
    allowed = [TOLERANCE if tolerance is None else tolerance] * 2
    if tolerance is None and max(largest) > TOLERANCE:
        for other in _within_tolerance(netlist, process):
            s = set_scattering(other, {}, wavelengths, process).s
            allowed = [
                max(limit, float(each.max())) for limit, each in zip(allowed, _deviations(expected.s, s), strict=True)
            ]
    places = [_first_largest(each) for each in deviations]
    power, phase = (
        Deviation(value, expected.labels[source], expected.labels[out], float(wavelengths[at]))
        for value, (at, out, source) in zip(largest, places, strict=True)
    )
    _, out, source = places[0]
    curves = (np.abs(each.s[:, out, source]) ** 2 for each in (expected, found))
    return SpectrumComparison(wavelengths, resolving, power, phase, (allowed[0], allowed[1]), *curves)


def _first_largest(values: Floats) -> tuple[int, ...]:
    """Return the first place of the largest value; light takes as long back as there, and rounding must not decide."""
    first = int(np.argmax(values >= values.max() * (1 - TIE)))
    return tuple(int(index) for index in np.unravel_index(first, values.shape))


def _deviations(expected: Complexes, found: Complexes) -> tuple[Floats, Floats]:
    """Return the deviations (W, outs, ins) of the power, as shares of the largest one, and of the phase in rad."""
    before, after = np.abs(expected) ** 2, np.abs(found) ** 2
    largest = before.max(axis=0)
    full = np.maximum(largest, WEAKEST * largest.max(axis=0))
    # an input without any output has no deviation
    power = np.divide(np.abs(after - before), full, out=np.zeros_like(after), where=full > 0)
    bright = (before >= BRIGHT * largest) & (largest >= full)
    return power, np.where(bright, np.abs(np.angle(found * expected.conj())), 0.0)


def _within_tolerance(netlist: Circuit, process: Process) -> Iterator[Circuit]:
    """Yield circuits whose guides are longer or shorter by the tolerances of LVS: all, every other one, or pairs."""
    tolerance = length_tolerance_um(netlist, process)
    card = coupler_card(process)
    for period in (0, 1, 2):
        signs = [
            1.0 - 2.0 * (np.arange(n) // period % 2 if period else np.zeros(n))
            for n in (len(tolerance), len(netlist.instances))
        ]
        of_couplers = {
            key: netlist.settings[key] + signs[1] * card.size("guide_tolerance_um")
            for key in GUIDES
            if card is not None and key in netlist.settings
        }
        lengths = np.maximum(netlist.net_length_um + signs[0] * tolerance, 0.0)
        yield replace(netlist, net_length_um=lengths, settings={**netlist.settings, **of_couplers})


def comparison_wavelengths(circuit: Circuit, asked_nm: Floats, process: Process) -> tuple[Floats, int]:
    """Return wavelengths over a range that resolve the finest fringe of a circuit and the resonances of its rings.

    The finest fringe is that of the longest guide against light that does not pass through it, λ² / (n_g L) wide.
    There are ``POINTS_PER_FRINGE`` wavelengths for it, at least ``FEWEST_POINTS`` and those that were asked for, but no
    more than a bounded effort allows.

    Args:
        asked_nm: (W,) wavelengths, ascending.

    Returns:
        (W,) wavelengths, and the number that resolves the fringes, which is larger if the effort bounds W.
    """
    first, last = float(asked_nm[0]), float(asked_nm[-1])
    longest_um = float(np.max(circuit.net_length_um, initial=0.0))
    fringes = (last - first) * float(process.guide.group_index) * longest_um * 1e3 / (first * last)
    most = min(
        MOST_POINTS, MOST_CASES // max(len(circuit.instances), 1), MOST_NUMBERS // max(len(circuit.ports), 1) ** 2
    )
    if first == last:
        return asked_nm, 1
    resolving = max(math.ceil(POINTS_PER_FRINGE * fringes), FEWEST_POINTS, len(asked_nm))
    points = min(resolving, max(most, LEAST_POINTS))
    return asked_nm if points == len(asked_nm) else np.linspace(first, last, points), resolving
