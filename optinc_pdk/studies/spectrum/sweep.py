"""Wavelength sweep: what a chip computes with a fixed bias, and with a new bias for each wavelength.

The chip uses one carrier at a time. Detectors add the light of all wavelengths, and a heater shifts all of them, so a
chip has no bias per channel: every channel of a link that is averaged at the same time needs its own chip.

As in the models, all fibres are phase-locked at every wavelength, and heater phases do not depend on wavelength. The
oscillators of a general network's receivers are aligned to the light at every wavelength.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging.score import accuracy
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, detector_groups, label_tuple
from optinc_pdk.drive import RangeError, SharedGround
from optinc_pdk.matrices.target import NoLightError
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
from optinc_pdk.simulate.modulator_drive import modulator_of
from optinc_pdk.studies.chip_checks import BiasedSetting, MatrixCheck, NetworkCheck
from optinc_pdk.studies.outcomes import Quantity
from optinc_pdk.studies.spectrum._windows import (
    LIGHT_NM_GHZ,
    Point,
    Progress,
    WavelengthRange,
    WavelengthWindow,
    all_points,
    check_sweep,
    points_around,
    window_between,
)
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampled_response import sample_scattering
from optinc_pdk.studies.variation.sampling import nominal_sample

_SLOPE_NM = 1e-4


@dataclass(frozen=True)
class WavelengthPoint:
    """Result of all inputs of words at one carrier wavelength.

    Attributes:
        wavelength_nm: Carrier wavelength.
        inputs: Number of inputs; 0 if the chip could not be evaluated.
        exact: Number of inputs for which every server reads the ideal word.
        margin: Least 0.5 - |output - ideal level| in levels; NaN if the chip could not be evaluated.
        fault: Why the chip could not be evaluated; empty if it could.
    """

    wavelength_nm: float
    inputs: int
    exact: int
    margin: float
    fault: str = ""

    @property
    def accuracy(self) -> float:
        """Share of exact inputs, 0 … 1; 0 if the chip could not be evaluated."""
        return accuracy(self.exact, self.inputs)

    @property
    def passed(self) -> bool:
        """Whether every input is exact."""
        return not self.fault and self.exact == self.inputs


@dataclass(frozen=True)
class CheckedPoint:
    """Comparison of a chip with its target, a matrix or a general network, at one carrier wavelength.

    Attributes:
        wavelength_nm: Carrier wavelength.
        passed: Whether it keeps all limits.
        values: The quantities by key; empty if the chip could not be evaluated.
        fault: Why it could not be evaluated; empty if it could.
    """

    wavelength_nm: float
    passed: bool
    values: Mapping[str, float]
    fault: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep(Generic[Point]):
    """What a chip computes against the carrier wavelength.

    Attributes:
        carrier_nm: Wavelength that the bias was programmed for.
        models: Range in which the models are valid.
        fixed: Points with the fixed bias, on the grid and close to its window; wavelengths ascend.
        rebiased: Points with a new bias for each wavelength of the grid; wavelengths ascend.
        fixed_window: Window of the fixed bias; None if the chip fails at the carrier.
        rebiased_window: Window with a new bias for each wavelength; None if the chip fails at the carrier.
        channels: Points with a new bias at the channels of a link; ``fault`` marks channels outside the models' range.
        spacing_ghz: Channel spacing.
    """

    carrier_nm: float
    models: WavelengthRange
    fixed: tuple[Point, ...]
    rebiased: tuple[Point, ...]
    fixed_window: WavelengthWindow | None
    rebiased_window: WavelengthWindow | None
    channels: tuple[Point, ...]
    spacing_ghz: float

    @property
    def served(self) -> int:
        """Number of channels that pass with a new bias: the number of parallel chips in a link."""
        return sum(channel.passed for channel in self.channels)


@dataclass(frozen=True, eq=False, kw_only=True)
class WavelengthSweep(Sweep[WavelengthPoint]):
    """Exactness of a chip of words against the carrier wavelength; see :class:`Sweep` for the other attributes.

    Attributes:
        delays_ps: For each hidden layer, delay of the local oscillators relative to the signals.
        by_fibre: For each hidden layer, whether its signals arrive by fibres, whose lengths can be changed; signals of
            on-chip modulators do not.
        matched: Points with the fixed bias and fibres that delay the signals by ``delays_ps``.
        matched_window: Window with the fixed bias and these fibres; None if the chip is not exact at the carrier.
    """

    delays_ps: tuple[float, ...]
    by_fibre: tuple[bool, ...]
    matched: tuple[WavelengthPoint, ...]
    matched_window: WavelengthWindow | None

    good: ClassVar[str] = "exact"
    title: ClassVar[str] = "exactness"
    columns: ClassVar = ("wavelength_nm", "inputs", "exact", "accuracy", "margin_levels", "fault")

    @property
    def shared(self) -> int:
        """Number of channels within the window of the fixed bias. One chip can use any of them, one at a time."""
        window = self.fixed_window
        if window is None:
            return 0
        return sum(window.low_nm <= channel.wavelength_nm <= window.high_nm for channel in self.channels)

    @property
    def series(self) -> dict[str, tuple[WavelengthPoint, ...]]:
        """All points by the name of their bias."""
        return {"fixed": self.fixed, "matched": self.matched, "rebiased": self.rebiased, "channel": self.channels}

    def row(self, point: WavelengthPoint) -> tuple[Any, ...]:
        """Return the values of the columns; None where the chip could not be evaluated."""
        margin = None if math.isnan(point.margin) else round(point.margin, 6)
        return point.wavelength_nm, point.inputs, point.exact, point.accuracy, margin, point.fault


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckedSweep(Sweep[CheckedPoint]):
    """Comparison of a chip with its target against the carrier wavelength; see :class:`Sweep` for other attributes.

    Attributes:
        quantities: Quantities of the comparison.
    """

    quantities: tuple[Quantity, ...]

    good: ClassVar[str] = "within the limits"

    @property
    def title(self) -> str:
        """Name of the first quantity."""
        return self.quantities[0].text

    @property
    def columns(self) -> tuple[str, ...]:
        """Wavelength, verdict, quantities and fault."""
        return ("wavelength_nm", "passed", *(quantity.key for quantity in self.quantities), "fault")

    @property
    def series(self) -> dict[str, tuple[CheckedPoint, ...]]:
        """All points by the name of their bias."""
        return {"fixed": self.fixed, "rebiased": self.rebiased, "channel": self.channels}

    def row(self, point: CheckedPoint) -> tuple[Any, ...]:
        """Return the values of the columns, with so many digits that the last bits of a solution do not count.

        They are None where the chip could not be evaluated.
        """
        keys = [quantity.key for quantity in self.quantities]
        values = (float(f"{point.values[key]:.6g}") if key in point.values else None for key in keys)
        return (point.wavelength_nm, point.passed, *values, point.fault)


@dataclass(frozen=True, eq=False)
class SweptChip:
    """Chip of words whose carrier wavelength is swept.

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


@dataclass(frozen=True, eq=False)
class CheckedChip:
    """Nominal chip of a matrix or a general network whose wavelength is swept; ideal grounds if ``ground`` is None."""

    circuit: Circuit
    check: MatrixCheck | NetworkCheck
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
    report = progress or _silent
    light = _fixed_light(subject, structure, models)
    delays_ps, by_fibre, late = oscillator_delays(light, subject.board, carrier)
    matched, matched_window = points_around(
        _fixed_bias(subject, light, late), carrier, grid[:0], resolution_nm, models, "matched fibres", report
    )
    judges = _Judges(_fixed_bias(subject, light, {}), _new_bias(subject), _unusable)
    common = judges.swept(carrier, models, grid, resolution_nm, channels, spacing_ghz, report)
    return WavelengthSweep(
        **common, delays_ps=delays_ps, by_fibre=by_fibre, matched=matched, matched_window=matched_window
    )


def sweep_checked(
    subject: CheckedChip,
    grid_nm: Floats,
    *,
    resolution_nm: float,
    channels: int,
    spacing_ghz: float,
    progress: Progress | None = None,
) -> CheckedSweep:
    """Sweep the carrier wavelength of a chip and find the windows in which it keeps its limits.

    Arguments and errors are those of :func:`sweep_wavelength`.
    """
    chip, process = subject.check.chip, subject.check.chip.process
    carrier = float(process.guide.wavelength_nm)
    models, grid = check_sweep(chip.structure, process, grid_nm, resolution_nm, channels, spacing_ghz)
    plan = prepare(chip.structure, [*_finite_ends(models), carrier], process)
    check = replace(subject.check, chip=replace(chip, plan=plan))
    stated = check.stated_setting()

    def fixed(wavelength_nm: float) -> CheckedPoint:
        return _compared(check, stated, wavelength_nm)

    def rebiased(wavelength_nm: float) -> CheckedPoint:
        try:
            setting = check.programmed(subject.circuit, subject.ground, wavelength_nm)
            return _compared(check, setting, wavelength_nm)
        except (RangeError, UnsettledError) as fault:
            return _not_compared(wavelength_nm, str(fault))

    judges = _Judges(fixed, rebiased, _not_compared)
    common = judges.swept(carrier, models, grid, resolution_nm, channels, spacing_ghz, progress or _silent)
    return CheckedSweep(**common, quantities=check.quantities)


def _silent(what: str, done: int, total: int | None) -> None:
    """Ignore progress."""


def _finite_ends(models: WavelengthRange) -> list[float]:
    return [wavelength for wavelength in (models.low_nm, models.high_nm) if np.isfinite(wavelength)]


@dataclass(frozen=True)
class _Judges(Generic[Point]):
    """Evaluation of a chip at a wavelength: with the fixed bias, with a new bias, and one that fails with a message."""

    fixed: Callable[[float], Point]
    rebiased: Callable[[float], Point]
    unusable: Callable[[float, str], Point]

    def swept(
        self,
        carrier_nm: float,
        models: WavelengthRange,
        grid: Floats,
        resolution_nm: float,
        channels: int,
        spacing_ghz: float,
        report: Progress,
    ) -> dict[str, Any]:
        """Evaluate a grid, windows and channels of a link, and return the attributes of :class:`Sweep`.

        The carrier is one of the channels. Channels outside the models' range are unusable.
        """
        points, window = points_around(self.fixed, carrier_nm, grid, resolution_nm, models, "fixed bias", report)
        again = all_points(self.rebiased, grid, "rebiased", report)
        again_window = window_between(self.rebiased, again, carrier_nm)
        frequency = LIGHT_NM_GHZ / carrier_nm + spacing_ghz * (np.arange(channels) - channels // 2)
        wavelengths = np.asarray(LIGHT_NM_GHZ / frequency[::-1])

        def channel(wavelength_nm: float) -> Point:
            if wavelength_nm in models:
                return self.rebiased(wavelength_nm)
            return self.unusable(wavelength_nm, f"the models are valid for {models}")

        return {
            "carrier_nm": carrier_nm,
            "models": models,
            "fixed": points,
            "rebiased": again,
            "fixed_window": window,
            "rebiased_window": again_window,
            "channels": all_points(channel, wavelengths, "channels", report),
            "spacing_ghz": spacing_ghz,
        }


def oscillator_delays(
    light: Callable[[float], Scattering], board: Board, carrier_nm: float
) -> tuple[tuple[float, ...], tuple[bool, ...], dict[str, float]]:
    """Compute the mean delays of local oscillators relative to signals at the detectors, weighted by beat power.

    ``light`` returns the S-parameters at a wavelength in nm.

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


def _fixed_light(
    subject: SweptChip, structure: CircuitOptics, models: WavelengthRange
) -> Callable[[float], Scattering]:
    """Return a function that computes the S-parameters at a wavelength with the fixed bias."""
    process = subject.process
    phases = heater_phases(structure, subject.bias, process, ground=subject.ground)
    plan = prepare(structure, [*_finite_ends(models), float(process.guide.wavelength_nm)], process)

    def at(wavelength_nm: float) -> Scattering:
        s = s_matrices(plan, phases, wavelength_nm, process)[0]
        return Scattering(np.array([wavelength_nm]), structure.labels, s, structure.modulators, modulator_of(process))

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
    factors = factorise(
        realised_network(subject.onn, subject.board.layers), swing=subject.process.activation.analogue_swing
    )

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


def _not_compared(wavelength_nm: float, fault: str) -> CheckedPoint:
    return CheckedPoint(wavelength_nm, False, {}, fault)


def _light(chip: NominalChip, voltage_v: Floats, wavelength_nm: float) -> Scattering:
    """Return the S-parameters of the nominal chip at a wavelength."""
    return sample_scattering(chip, nominal_sample(chip), voltage_v, wavelengths_nm=wavelength_nm)


def _compared(check: MatrixCheck | NetworkCheck, setting: BiasedSetting, wavelength_nm: float) -> CheckedPoint:
    s = _light(check.chip, setting.voltage_v, wavelength_nm)
    try:
        return CheckedPoint(wavelength_nm, *check.measured(s, setting))  # type: ignore[arg-type]
    except (NoLightError, UnsettledError) as fault:
        return _not_compared(wavelength_nm, str(fault))
