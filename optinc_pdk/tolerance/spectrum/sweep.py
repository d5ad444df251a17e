"""Over which carrier wavelengths a chip computes exactly: with its bias fixed, and programmed anew for each.

One carrier at a time. Detectors add what all wavelengths bring, and a heater turns the light of all of them, so that a
chip has no bias per channel: every channel of a link that is to be averaged at once needs a chip of its own.

All fibres are phase-locked at every wavelength, and a heater's phase does not depend on it, as in the models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, labels
from optinc_pdk.drive import Ground, RangeError
from optinc_pdk.files import InputError
from optinc_pdk.models import read_measured
from optinc_pdk.onn import Onn, factorise
from optinc_pdk.signoff.function import check_light, refuse_other_board
from optinc_pdk.simulate import (
    Scattering,
    Structure,
    UnsettledError,
    analyse,
    heater_phases,
    prepare,
    program,
    s_matrices,
    scattering,
)
from optinc_pdk.tolerance.spectrum.points import LIGHT_NM_GHZ, Point, Range, Spectrum, Window
from optinc_pdk.tolerance.spectrum.windows import find_window, narrowed, window_between

Floats = NDArray[np.float64]
Progress = Callable[[str, int, int | None], None]
"""Called with what is done, how many wavelengths of it are, and of how many; None where nobody can know."""

FINEST_NM = 1e-9
"""Least resolution of a window; wavelengths are told apart to 2e-13 nm."""
NEAR = 25
"""Wavelengths around the fixed bias's window, over four times its width."""
_BEYOND = 4.0
_SLOPE_NM = 1e-4


@dataclass(frozen=True, eq=False)
class Subject:
    """A chip as it is looked at: the circuit as extracted, what drives it, and what it is to compute."""

    circuit: Circuit
    board: Board
    bias: Bias
    onn: Onn
    process: Process
    ground: Ground | None = None


def model_range(structure: Structure, process: Process) -> Range:
    """What the models of all devices of a circuit hold for."""
    low, high = (-np.inf, ""), (np.inf, "")
    for group in structure.devices:
        card = process.device(group.name)
        ends = [tuple(float(card.limits.get(f"wavelength_{end}_nm", far)) for end, far in _ENDS)]
        if card.model.file is not None:
            ends.append(tuple(read_measured(card.model.file).wavelengths_nm[[0, -1]].tolist()))
        for least, most in ends:
            low, high = max(low, (least, group.name)), min(high, (most, group.name))
    return Range(low[0], high[0], low[1], high[1])


_ENDS = (("min", -np.inf), ("max", np.inf))


def spectrum(
    subject: Subject,
    grid_nm: Floats,
    *,
    resolution_nm: float,
    channels: int,
    spacing_ghz: float,
    progress: Progress | None = None,
) -> Spectrum:
    """Find out over which wavelengths a chip computes exactly.

    The fixed bias's window is found by going out from the carrier in doubled steps until a word is wrong, and by
    bisection from there; that of the chip programmed anew between the grid's wavelengths. Those between what was tried
    are taken for as good as their neighbours.

    Args:
        subject: The chip.
        grid_nm: (W,) wavelengths to try; the carrier's is added.
        resolution_nm: To which the fixed bias's window is found; the other's to 1/32 of the grid's steps.
        channels: Channels of a link.
        spacing_ghz: Their distance; one of them is the carrier's.
        progress: Called as wavelengths are done.

    Raises:
        InputError: A wavelength that models do not hold for, or a board that is not this network's.
    """
    refuse_other_board(subject.board, subject.onn.task)
    structure, carrier = analyse(subject.circuit), float(subject.process.guide.wavelength_nm)
    models = model_range(structure, subject.process)
    grid = np.union1d(grid_nm, [carrier])
    for wavelength in grid.tolist():
        if not models.low_nm <= wavelength <= models.high_nm:
            raise InputError(f"wavelength {wavelength:g} nm: the models hold for {models}; stay within them")
    if not resolution_nm >= FINEST_NM or channels < 1 or not spacing_ghz > 0.0:
        raise InputError(
            f"resolution {1e3 * resolution_nm:g} pm, {channels} channels, spacing {spacing_ghz:g} GHz: all must be "
            f"positive, and the resolution {1e3 * FINEST_NM:g} pm or more; correct them"
        )
    told = progress or (lambda what, done, total: None)
    light, anew = _light(subject, structure, models), _rebiased(subject)
    seen, window = _around(_fixed(subject, light, {}), carrier, grid, resolution_nm, models, "fixed bias", told)
    delays_ps, by_fibre, late = oscillator_delays(light, subject.board, carrier)
    matched = _around(_fixed(subject, light, late), carrier, grid[:0], resolution_nm, models, "matched fibres", told)
    rebiased = _all(anew, grid, "rebiased", told)
    rebiased_window = window_between(anew, rebiased, carrier)
    return Spectrum(
        carrier,
        models,
        seen,
        rebiased,
        window,
        rebiased_window,
        delays_ps,
        by_fibre,
        *matched,
        _channels(anew, models, carrier, channels, spacing_ghz, told),
        spacing_ghz,
    )


def _around(
    judge: Callable[[float], Point],
    carrier_nm: float,
    grid: Floats,
    resolution_nm: float,
    models: Range,
    what: str,
    told: Progress,
) -> tuple[tuple[Point, ...], Window | None]:
    """The points of a grid and close around the window, and the window."""
    window = find_window(judge, carrier_nm, resolution_nm, models, lambda n: told(what, n, None))
    near = np.array([carrier_nm])
    if window is not None:
        middle, half = (window.low_nm + window.high_nm) / 2.0, window.width_nm / 2.0
        near = middle + _BEYOND * half * np.linspace(-1.0, 1.0, NEAR)
        near = near[(near >= models.low_nm) & (near <= models.high_nm)]
    seen = _all(judge, np.union1d(grid, near), what, told)
    return seen, narrowed(judge, seen, window, carrier_nm)


def oscillator_delays(
    light: Callable[[float], Scattering], board: Board, carrier_nm: float
) -> tuple[tuple[float, ...], tuple[bool, ...], dict[str, float]]:
    """By how much later oscillators reach detectors than signals, in ps, weighted with the light of both.

    Args:
        light: S-parameters at a wavelength.
        board: Detectors and sources.
        carrier_nm: The wavelength.

    Returns:
        Per hidden layer; whether its sources are fibres, which may be longer for it; and by label of those fibres.
    """
    near = [light(carrier_nm + side * _SLOPE_NM) for side in (1.0, -1.0)]
    turn = 2e-3 * np.pi * LIGHT_NM_GHZ * (1.0 / (carrier_nm - _SLOPE_NM) - 1.0 / (carrier_nm + _SLOPE_NM))
    layers: list[float] = []
    by_fibre: list[bool] = []
    late: dict[str, float] = {}
    for layer in range(board.layers - 1):
        detectors = [
            label for n in board.neurons if n.layer == layer for ends in (n.plus, n.minus) for label in labels(ends)
        ]
        sources = [label for n in board.neurons if n.layer == layer - 1 for label in labels(n.to)]
        sources = sources or [label for row in board.inputs for label in row]
        below, above = (
            each.between(detectors, board.steady)[0].sum(axis=1).conj()[:, np.newaxis]
            * each.between(detectors, sources)[0]
            * each.strength(sources, board.steady)[0]
            for each in near
        )
        beat = np.abs(above) ** 2
        ahead = np.angle(below * above.conj())
        layers.append(float((beat * ahead).sum() / beat.sum() / turn))
        by_fibre.append(not set(sources) & set(near[0].modulators))
        late |= {label: layers[-1] for label in sources if label not in near[0].modulators}
    return tuple(layers), tuple(by_fibre), late


def _light(subject: Subject, structure: Structure, models: Range) -> Callable[[float], Scattering]:
    """S-parameters as the bias drives the chip."""
    process = subject.process
    phases = heater_phases(structure, subject.bias, process, ground=subject.ground)
    ends = [wavelength for wavelength in (models.low_nm, models.high_nm) if np.isfinite(wavelength)]
    plan = prepare(structure, [*ends, float(process.guide.wavelength_nm)], process)

    def at(wavelength_nm: float) -> Scattering:
        s = s_matrices(plan, phases, wavelength_nm, process)[0]
        return Scattering(np.array([wavelength_nm]), structure.labels, s, structure.modulators)

    return at


def _fixed(
    subject: Subject, light: Callable[[float], Scattering], late_ps: Mapping[str, float]
) -> Callable[[float], Point]:
    """The bias as it is; fibres that are longer were so when it was made, hence turn nothing at the carrier."""
    carrier = float(subject.process.guide.wavelength_nm)

    def at(wavelength_nm: float) -> Point:
        found = light(wavelength_nm)
        ps = np.array([late_ps.get(label, 0.0) for label in found.labels])
        turn = 2e-3 * np.pi * LIGHT_NM_GHZ * (1.0 / wavelength_nm - 1.0 / carrier) * ps
        return _judged(replace(found, s=found.s * np.exp(1j * turn)), subject, subject.bias)

    return at


def _rebiased(subject: Subject) -> Callable[[float], Point]:
    factors = factorise(subject.onn)

    def at(wavelength_nm: float) -> Point:
        circuit, process, ground = subject.circuit, subject.process, subject.ground
        try:
            bias = program(
                circuit, subject.board, subject.onn, process, wavelength_nm, ground=ground, factors=factors
            ).bias
        except RangeError as fault:
            return _dark(wavelength_nm, str(fault))
        return _judged(scattering(circuit, bias, wavelength_nm, process, ground=ground), subject, bias)

    return at


def _judged(light: Scattering, subject: Subject, bias: Bias) -> Point:
    wavelength_nm = float(light.wavelengths_nm[0])
    try:
        found = check_light(light, subject.board, bias, subject.onn.task)
    except UnsettledError as fault:
        return _dark(wavelength_nm, str(fault))
    return Point(wavelength_nm, found.inputs, found.exact, found.margin)


def _dark(wavelength_nm: float, fault: str) -> Point:
    return Point(wavelength_nm, 0, 0, float("nan"), fault)


def _all(judge: Callable[[float], Point], wavelengths: Floats, what: str, told: Progress) -> tuple[Point, ...]:
    points = []
    for done, wavelength in enumerate(wavelengths.tolist(), start=1):
        points.append(judge(wavelength))
        told(what, done, wavelengths.size)
    return tuple(points)


def _channels(
    judge: Callable[[float], Point], models: Range, carrier_nm: float, channels: int, spacing_ghz: float, told: Progress
) -> tuple[Point, ...]:
    frequency = LIGHT_NM_GHZ / carrier_nm + spacing_ghz * (np.arange(channels) - channels // 2)
    points = []
    for done, wavelength in enumerate((LIGHT_NM_GHZ / frequency[::-1]).tolist(), start=1):
        inside = models.low_nm <= wavelength <= models.high_nm
        points.append(judge(wavelength) if inside else _dark(wavelength, f"the models hold for {models}"))
        told("channels", done, channels)
    return tuple(points)
