"""Wavelength sweep: exactness of a chip with a fixed bias, and with a new bias for each wavelength.

The chip uses one carrier at a time. Detectors add the light of all wavelengths, and a heater shifts all of them, so a
chip has no bias per channel: every channel of a link that is averaged at the same time needs its own chip.

As in the models, all fibres are phase-locked at every wavelength, and heater phases do not depend on wavelength.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, detector_groups, label_tuple
from optinc_pdk.drive import RangeError, SharedGround
from optinc_pdk.networks import AveragingNetwork, factorise, realised_network
from optinc_pdk.signoff.function import check_board, check_scattering, function_inputs
from optinc_pdk.simulate import (
    CircuitOptics,
    Scattering,
    UnsettledError,
    analyse,
    heater_phases,
    prepare,
    program,
    s_matrices,
    scattering,
)
from optinc_pdk.simulate.s_parameters.scattering import modulator_leak
from optinc_pdk.studies.spectrum.judged_points import (
    Progress,
    all_points,
    channel_points,
    check_sweep,
    points_around,
)
from optinc_pdk.studies.spectrum.points import LIGHT_NM_GHZ, WavelengthPoint, WavelengthRange, WavelengthSweep
from optinc_pdk.studies.spectrum.windows import window_between

_SLOPE_NM = 1e-4


@dataclass(frozen=True, eq=False)
class SweptChip:
    """Chip whose carrier wavelength is swept.

    Attributes:
        circuit: The extracted circuit.
        board: Board netlist that joins the chip's fibres.
        bias: Programmed bias at the carrier.
        onn: The network.
        process: Process of the cards.
        ground: Ground network of the heaters; ideal grounds if None.
    """

    circuit: Circuit
    board: Board
    bias: Bias
    onn: AveragingNetwork
    process: Process
    ground: SharedGround | None = None


def sweep_wavelength(
    subject: SweptChip,
    grid_nm: Floats,
    *,
    resolution_nm: float,
    channels: int,
    spacing_ghz: float,
    progress: Progress | None = None,
) -> WavelengthSweep:
    """Sweep the carrier wavelength of a chip and find the windows in which every word is exact.

    The window of the fixed bias is found from the carrier with doubled steps until a word is wrong, then by bisection;
    the window with new biases by bisection between grid points. Wavelengths between evaluated points are assumed to
    behave like their neighbours.

    Args:
        subject: The chip.
        grid_nm: (W,) wavelengths to evaluate; the carrier is added.
        resolution_nm: Resolution of the windows with the fixed bias; that with new biases is 1/32 of the grid spacing.
        channels: Number of channels of a link.
        spacing_ghz: Channel spacing; the carrier is one of the channels.
        progress: Called after each wavelength with the name of the step and the numbers of finished and of all
            wavelengths.

    Raises:
        InputError: A wavelength is outside the models' range, the board is for another network, or an option is out of
            range.
    """
    check_board(subject.board, subject.onn.task)
    structure, carrier = analyse(subject.circuit), float(subject.process.guide.wavelength_nm)
    models, grid = check_sweep(structure, subject.process, grid_nm, resolution_nm, channels, spacing_ghz)
    report = progress or (lambda what, done, total: None)
    light, new_bias = _light(subject, structure, models), _new_bias(subject)
    fixed_points, window = points_around(
        _fixed_bias(subject, light, {}), carrier, grid, resolution_nm, models, "fixed bias", report
    )
    delays_ps, by_fibre, late = oscillator_delays(light, subject.board, carrier)
    matched = points_around(
        _fixed_bias(subject, light, late), carrier, grid[:0], resolution_nm, models, "matched fibres", report
    )
    rebiased = all_points(new_bias, grid, "rebiased", report)
    rebiased_window = window_between(new_bias, rebiased, carrier)
    return WavelengthSweep(
        carrier,
        models,
        fixed_points,
        rebiased,
        window,
        rebiased_window,
        delays_ps,
        by_fibre,
        *matched,
        channel_points(new_bias, models, carrier, channels, spacing_ghz, _unusable, report),
        spacing_ghz,
    )


def oscillator_delays(
    light: Callable[[float], Scattering], board: Board, carrier_nm: float
) -> tuple[tuple[float, ...], tuple[bool, ...], dict[str, float]]:
    """Compute the mean delays of local oscillators relative to signals at the detectors, weighted by beat power.

    Args:
        light: Function that returns the S-parameters at a wavelength in nm.
        board: Board netlist with the labels of detectors and sources.
        carrier_nm: Carrier wavelength.

    Returns:
        For each hidden layer, the delay in ps; for each hidden layer, whether its sources are fibres, whose length can
        compensate for the delay; and the delay in ps by label of these fibres.
    """
    near = [light(carrier_nm + side * _SLOPE_NM) for side in (1.0, -1.0)]
    phase_per_ps = 2e-3 * np.pi * LIGHT_NM_GHZ * (1.0 / (carrier_nm - _SLOPE_NM) - 1.0 / (carrier_nm + _SLOPE_NM))
    launched = board.launched
    layers: list[float] = []
    by_fibre: list[bool] = []
    delay_by_label: dict[str, float] = {}
    for layer in range(board.layers - 1):
        detectors = [
            label
            for n in detector_groups([n for n in board.neurons if n.layer == layer])[0]
            for ends in (n.plus, n.minus)
            for label in label_tuple(ends)
        ]
        sources = [label for n in board.neurons if n.layer == layer - 1 for label in label_tuple(n.to)]
        sources = sources or [label for row in board.inputs for label in row]
        below, above = (
            (each.between(detectors, list(launched))[0] * list(launched.values())).sum(axis=1).conj()[:, np.newaxis]
            * each.between(detectors, sources)[0]
            * each.strength(sources, launched)[0]
            for each in near
        )
        beat = np.abs(above) ** 2
        phase = np.angle(below * above.conj())
        layers.append(float((beat * phase).sum() / beat.sum() / phase_per_ps))
        by_fibre.append(not set(sources) & set(near[0].modulators))
        delay_by_label |= {label: layers[-1] for label in sources if label not in near[0].modulators}
    return tuple(layers), tuple(by_fibre), delay_by_label


def _light(subject: SweptChip, structure: CircuitOptics, models: WavelengthRange) -> Callable[[float], Scattering]:
    """Return a function that computes the S-parameters at a wavelength with the fixed bias."""
    process = subject.process
    phases = heater_phases(structure, subject.bias, process, ground=subject.ground)
    ends = [wavelength for wavelength in (models.low_nm, models.high_nm) if np.isfinite(wavelength)]
    plan = prepare(structure, [*ends, float(process.guide.wavelength_nm)], process)

    def at(wavelength_nm: float) -> Scattering:
        s = s_matrices(plan, phases, wavelength_nm, process)[0]
        return Scattering(np.array([wavelength_nm]), structure.labels, s, structure.modulators, modulator_leak(process))

    return at


def _fixed_bias(
    subject: SweptChip, light: Callable[[float], Scattering], late_ps: Mapping[str, float]
) -> Callable[[float], WavelengthPoint]:
    """Return a function that evaluates the fixed bias; it was programmed with the fibre delays ``late_ps``.

    The delays therefore cause no phase at the carrier.
    """
    carrier = float(subject.process.guide.wavelength_nm)

    def at(wavelength_nm: float) -> WavelengthPoint:
        scattering = light(wavelength_nm)
        ps = np.array([late_ps.get(label, 0.0) for label in scattering.labels])
        phase = 2e-3 * np.pi * LIGHT_NM_GHZ * (1.0 / wavelength_nm - 1.0 / carrier) * ps
        return _evaluated(replace(scattering, s=scattering.s * np.exp(1j * phase)), subject, subject.bias)

    return at


def _new_bias(subject: SweptChip) -> Callable[[float], WavelengthPoint]:
    factors = factorise(realised_network(subject.onn, subject.board.layers))

    def at(wavelength_nm: float) -> WavelengthPoint:
        circuit, process, ground = subject.circuit, subject.process, subject.ground
        try:
            bias = program(
                circuit, subject.board, subject.onn, process, wavelength_nm, ground=ground, factors=factors
            ).bias
        except RangeError as fault:
            return _unusable(wavelength_nm, str(fault))
        return _evaluated(scattering(circuit, bias, wavelength_nm, process, ground=ground), subject, bias)

    return at


def _evaluated(light: Scattering, subject: SweptChip, bias: Bias) -> WavelengthPoint:
    wavelength_nm = float(light.wavelengths_nm[0])
    try:
        task = subject.onn.task
        result = check_scattering(light, subject.board, bias, task, inputs=function_inputs(task))
    except UnsettledError as fault:
        return _unusable(wavelength_nm, str(fault))
    return WavelengthPoint(wavelength_nm, result.inputs, result.exact, result.margin)


def _unusable(wavelength_nm: float, fault: str) -> WavelengthPoint:
    return WavelengthPoint(wavelength_nm, 0, 0, float("nan"), fault)
