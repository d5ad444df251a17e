"""The interface of what a chip is for.

The stages of the pipeline and the commands on a chip are the same for every chip. A task says what differs: which
circuit, which bias, what the extracted chip must compute, and how it is measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from optinc_pdk.assemble import CircuitPlan
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import ArgumentError, InputError
from optinc_pdk.io.chip_files import ChipFiles

if TYPE_CHECKING:
    from rich.table import Table

    from optinc_pdk.arrays import Floats
    from optinc_pdk.layout import ChipLayout
    from optinc_pdk.report.eye_diagrams import RateEyes
    from optinc_pdk.report.matrix_pictures import MatrixMap
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.simulate import Programming as NetworkProgramming
    from optinc_pdk.simulate import Scattering
    from optinc_pdk.simulate.transmission.noise import Noise
    from optinc_pdk.simulate.transmission.settling import LightSamples
    from optinc_pdk.studies import NominalChip
    from optinc_pdk.studies.chip_checks import ChipCheck
    from optinc_pdk.studies.drift.drift_run import DriftStudy
    from optinc_pdk.studies.eyes import Eye
    from optinc_pdk.studies.montecarlo.study import YieldStudy
    from optinc_pdk.studies.noisy_outputs import NoisyMatrix, NoisyNetwork
    from optinc_pdk.studies.spectrum.sweep import CheckedSweep, WavelengthSweep

MOST_SAMPLES = 8
"""Inputs for which the report's page shows the light on the chip."""


class Stages(Protocol):
    """Reports the stages of a build."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Measure a stage within a ``with`` block."""
        ...

    def steps(self, stage: str, done: int, total: int) -> None:
        """Report the progress within a long stage."""
        ...


class Programmed(Protocol):
    """Result of programming a chip."""

    @property
    def bias(self) -> Bias:
        """DAC codes of the heaters, and settings of the electronics."""
        ...


@dataclass(frozen=True)
class SizeEstimate:
    """Memory that a build needs, estimated before any work.

    Attributes:
        memory_gb: Peak in GB.
        chip: What needs it, for a message.
        remedy: What to do if the machine has less.
    """

    memory_gb: float
    chip: str
    remedy: str


def board_of(reference: Circuit) -> Board:
    """Return the board of a network's circuit.

    Raises:
        ValueError: The circuit has none.
    """
    if reference.board is None:
        raise ValueError(f"circuit {reference.name!r} has no board; a network has one")
    return reference.board


def network_estimate(memory_gb: float, mzis: int) -> SizeEstimate:
    """Return the estimate for the chip of a network, given its peak of memory in GB and its number of MZIs."""
    remedy = "use a machine with more memory, fewer or narrower layers, or 'factor' with smaller blocks"
    return SizeEstimate(memory_gb, f"a chip of {mzis:,} MZIs", remedy)


def driven_errors(programming: NetworkProgramming | None) -> list[str]:
    """Return a line with the matrix errors of a network's layers; none if its chip was not programmed."""
    if programming is None:
        return []
    errors = ", ".join(f"{error:.1e}" for error in programming.driven_error)
    return [f"matrix error as driven, rms over the 2-norm, by layer: {errors}"]


Steps = Callable[[int, int], None]
"""Called with the number of finished steps and their total."""
Begin = Callable[[str], None]
"""Called with the name of a stage when it begins."""


def driven_scattering(chip: ExtractedChip, process: Process) -> Scattering:
    """Return the S-parameters of an extracted chip at the process's wavelength, driven by the codes of its bias."""
    from optinc_pdk.simulate import scattering

    return scattering(chip.circuit, chip.bias, float(process.guide.wavelength_nm), process, ground=chip.ground)


@dataclass(frozen=True)
class Measurement:
    """How light is sent through an extracted chip.

    Attributes:
        laser_w: Power launched into every guide, in W; None for the card's.
        oscillator_ratio: Power of the local oscillators relative to that of a guide; None for that of the netlist.
        seed: Seed of the noise.
        rates_bd: Symbols per second.
        passes: Number of times that every input is sent.
    """

    laser_w: float | None
    oscillator_ratio: float | None
    seed: int
    rates_bd: tuple[float, ...]
    passes: int = 1

    @property
    def rate_names(self) -> dict[float, str]:
        """Names of the stages of the rates, ascending."""
        from optinc_pdk.io.formatting import format_si

        return {rate: format_si(rate, "Bd") for rate in sorted(set(self.rates_bd))}

    def light(self, chip: ExtractedChip, process: Process) -> tuple[Scattering, Board, Bias]:
        """Return S-parameters, board and electronics of a network's chip, with the power of its local oscillators.

        Raises:
            InputError: The power is out of range.
        """
        from optinc_pdk.simulate.transmission.noise import check_oscillator_power
        from optinc_pdk.studies.oscillators import with_oscillator_power

        ratio = self.oscillator_ratio
        check_oscillator_power(process, self.laser_w, chip.board.oscillator_power if ratio is None else ratio)
        s = driven_scattering(chip, process)
        if ratio is None:
            return s, chip.board, chip.bias
        return s, *with_oscillator_power(s, chip.board, chip.bias, process, ratio)


@dataclass(frozen=True, eq=False)
class Findings:
    """What a command finds about a chip: its files, its JSON and its text.

    Attributes:
        numbers: JSON-compatible data.
        lines: Lines and tables to print.
        passed: Whether the chip does what was asked.
        picture: A PNG file; empty for none.
        table: A CSV file; empty for none.
    """

    numbers: Mapping[str, Any]
    lines: tuple[str | Table, ...]
    passed: bool = True
    picture: bytes = b""
    table: bytes = b""


OPTIONS_OF = {
    "input_amplitudes": "a network that averages words",
    "link": "a network that averages words",
    "receivers": "a network that averages words",
    "activation": "a network",
    "data": "a general network, which has no averaging task",
    "agreement": "a general network, which has no averaging task",
    "accuracy": "a general network, which has no averaging task",
    "tolerance": "a general network or a matrix",
    "read": "a matrix",
    "mesh": "a matrix",
    "extra_columns": "a matrix",
    "oscillator_w": "a network, whose chip has local oscillators",
    "target": "a network that averages words",
}
"""Options that only the chips of some tasks have, and which chips these are, for messages."""


def refuse_options(of: str, **options: object) -> None:
    """Refuse options that have no effect on this input; None stands for an option that is not given.

    Raises:
        ArgumentError: One of them is given.
    """
    for name, value in options.items():
        if value is not None:
            shown = value if isinstance(value, str | Path) else "of arrays" if name == "data" else repr(value)
            # a flag has no value
            text = "" if value is True else f"{shown} "
            raise ArgumentError(name, f"{text}has no effect here: it is an option of {of}; drop it")


Factors = TypeVar("Factors")
Programming = TypeVar("Programming", bound=Programmed)
Result = TypeVar("Result")


class ChipTask(ABC, Generic[Factors, Programming, Result]):
    """What a chip is for: how it is factored, assembled, programmed, checked and measured, and what its report says.

    ``Factors`` are the factors of its matrices, ``Programming`` is the bias with its errors, ``Result`` that of the
    check of the function.
    """

    options: ClassVar[frozenset[str]]
    """Those of ``OPTIONS_OF`` that have an effect."""
    ending: ClassVar[str]
    """Ending of the file of a check."""

    process: Process
    """Process with the options of this build."""
    source: str
    """File of the network or matrix with a colon, for messages; empty if there is none."""

    @classmethod
    def refuse(cls, **options: object) -> None:
        """Refuse options that have no effect on the task; None stands for an option that is not given.

        Raises:
            ArgumentError: One of them is given.
        """
        for name, value in options.items():
            if name in OPTIONS_OF and name not in cls.options:
                refuse_options(OPTIONS_OF[name], **{name: value})

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Remarks before the build, one line each."""

    @property
    @abstractmethod
    def digest(self) -> str | None:
        """Digest of the network or matrix, as reports state it; None if it is not known."""

    @abstractmethod
    def fitted_to(self, circuit: Circuit, where: str) -> ChipTask[Factors, Programming, Result]:
        """Return the task for an existing chip, of which only the netlist was read.

        Args:
            circuit: Netlist of the chip.
            where: Its file, for messages.

        Raises:
            InputError: The chip is for something of another shape.
        """

    def check_report(self, gds: Path) -> None:
        """Check that the report beside a layout does not contradict the task.

        Raises:
            InputError: The report cannot be used, or it does.
        """

    @abstractmethod
    def estimate(self) -> SizeEstimate:
        """Estimate the memory of the build."""

    @abstractmethod
    def factor(self) -> Factors:
        """Factor the matrices.

        Raises:
            InputError: No chip of the process can realise them.
        """

    @abstractmethod
    def draft(self, factors: Factors, name: str) -> CircuitPlan:
        """Assemble the circuit, without the parts that depend on the dies."""

    def too_large(self, size: str) -> InputError | None:
        """Return the error for a chip that is larger than the dies of the process; ``size`` says how large it is.

        None if the chip is drawn nevertheless, and the design rules refuse it.
        """
        return None

    @abstractmethod
    def program(self, reference: Circuit, extracted: Circuit, factors: Factors, ground: SharedGround) -> Programming:
        """Find the bias of the extracted circuit.

        Raises:
            RangeError: A heater or the electronics need more than their range.
        """

    @abstractmethod
    def read_chip(self, files: ChipFiles) -> tuple[ChipTask[Factors, Programming, Result], ExtractedChip]:
        """Extract an existing chip from its layout, and return the task as this chip has it.

        Raises:
            InputError: A file cannot be used, or the chip is for another task.
        """

    @abstractmethod
    def check(self, chip: ExtractedChip, steps: Steps) -> Result:
        """Simulate an extracted chip, driven by the DAC codes of its bias, and check what it computes.

        Raises:
            UnsettledError: The light on the chip does not settle.
        """

    def rated(self, result: Result, chip: ExtractedChip, stages: Stages) -> Result:
        """Return the result of a check with the highest symbol rate, where rates are estimated."""
        return result

    @abstractmethod
    def write(self, result: Result, path: Path) -> None:
        """Write the file of a check."""

    @abstractmethod
    def check_findings(self, result: Result) -> Findings:
        """Return what a check found, as a command states it."""

    @abstractmethod
    def nominal_check(self, chip: NominalChip, share: float = 1.0) -> ChipCheck:
        """Return what samples of a chip are compared with; they must reach a share of exact words."""

    def refuse_for_noise(self, tolerance: float | None) -> None:
        """Refuse a tolerance that is no limit of :meth:`noise`; None stands for one that is not given.

        Raises:
            ArgumentError: It is given.
        """

    def noise_stages(self, how: Measurement) -> tuple[str, ...]:
        """Return the names of the stages of :meth:`noise`."""
        return tuple(how.rate_names.values())

    @abstractmethod
    def noise(self, chip: ExtractedChip, how: Measurement, name: str, begin: Begin) -> Findings:
        """Measure errors against the symbol rate.

        Args:
            chip: The extracted chip.
            how: Powers, rates and seed.
            name: Name of the chip, for the picture.
            begin: Called with the name of each of ``noise_stages`` when it begins.
        """

    def sweep(self, chip: ExtractedChip, grid_nm: Floats, name: str, **options: Any) -> Findings:
        """Sweep the carrier's wavelength.

        Args:
            chip: The extracted chip.
            grid_nm: (W,) wavelengths to evaluate.
            name: Name of the layout, for the picture.
            options: Those of :func:`optinc_pdk.studies.spectrum.sweep.sweep_wavelength`.
        """
        from optinc_pdk.studies.spectrum.sweep import CheckedChip, sweep_checked

        check: Any = self.nominal_check(self.nominal(chip))
        subject = CheckedChip(chip.circuit, check, chip.ground)
        return sweep_findings(sweep_checked(subject, grid_nm, **options), grid_nm, name)

    def nominal(self, chip: ExtractedChip) -> NominalChip:
        """Return an extracted chip as the nominal one, of which samples are drawn."""
        from optinc_pdk.studies import chip_of

        return chip_of(chip.circuit, chip.board, chip.bias, self.process, chip.ground)

    def drift(self, work: YieldStudy) -> DriftStudy:
        """Return how calibrated samples drift."""
        from optinc_pdk.studies.drift.check_drift import CheckDrift

        return CheckDrift(work)

    @abstractmethod
    def check_levels(self) -> None:
        """Check that the outputs have levels, between which there are eyes.

        Raises:
            InputError: They have none.
        """

    @abstractmethod
    def eyes_at(self, chip: ExtractedChip, how: Measurement, name: str) -> Findings:
        """Draw the eye diagrams of signals at a symbol rate."""

    @abstractmethod
    def sections(
        self,
        factors: Factors,
        reference: Circuit,
        chip: ChipLayout,
        programming: Programming | None,
        result: Result | None,
    ) -> dict[str, Any]:
        """Return the sections of `report.json` that depend on the task."""

    @abstractmethod
    def findings(self, programming: Programming | None, result: Result | None) -> list[str]:
        """List the findings about programming and function, one line each."""

    @abstractmethod
    def pictures(self, result: Result) -> dict[str, bytes]:
        """Return the pictures of the check as PNG, by name of the page's argument."""

    def eyes(self, result: Result) -> RateEyes | None:
        """Return eye diagrams at the highest symbol rate, for the page; None where rates are not estimated."""
        return None

    @abstractmethod
    def matrices(self, programming: Programming, result: Result) -> list[MatrixMap]:
        """Return the chip's matrices with their targets, for the page."""

    @abstractmethod
    def sources(self, reference: Circuit) -> dict[str, tuple[str, ...]]:
        """Return the labels that launch light into the chip, by the name of their group."""

    @abstractmethod
    def light(self, reference: Circuit, programming: Programming, result: Result) -> LightSamples:
        """Return the light that a few inputs of the check launch into the chip, at most `MOST_SAMPLES`."""


class NetworkTask(ChipTask[Factors, "NetworkProgramming", Result]):
    """What the tasks of all networks have in common."""

    def fitted_to(self, circuit: Circuit, where: str) -> NetworkTask[Factors, Result]:
        """Return the task itself: assembling the circuit shows whether the chip fits."""
        return self

    def sources(self, reference: Circuit) -> dict[str, tuple[str, ...]]:
        """Return the labels of the carrier, of the inputs, and of the neurons of each layer."""
        from optinc_pdk.report.spectra import network_sources

        return network_sources(board_of(reference))

    def matrices(self, programming: NetworkProgramming, result: Any) -> list[MatrixMap]:
        """Return the matrix of each layer."""
        from optinc_pdk.report.matrix_pictures import layer_maps

        return layer_maps(programming)


def sweep_findings(sweep: WavelengthSweep | CheckedSweep, grid_nm: Floats, name: str) -> Findings:
    """Return a sweep of the wavelength, as a command states it; ``name`` is that of the layout."""
    from optinc_pdk.studies.spectrum.sweep_report import (
        spectrum_csv,
        spectrum_json,
        spectrum_lines,
        spectrum_png,
        spectrum_table,
    )

    return Findings(
        spectrum_json(sweep),
        (spectrum_table(sweep, set(grid_nm.tolist())), *spectrum_lines(sweep)),
        sweep.fixed_window is not None,
        spectrum_png(sweep, f"{name}: {sweep.title} against the carrier's wavelength"),
        spectrum_csv(sweep).encode(),
    )


def noise_findings(
    outputs: NoisyNetwork | NoisyMatrix, process: Process, how: Measurement, name: str, begin: Begin
) -> Findings:
    """Compare noisy outputs with those of a network or matrix at symbol rates, as a command states it."""
    from optinc_pdk.report.noise_curve import checked_csv, checked_lines, checked_png
    from optinc_pdk.studies.noise_curves import checked_noise_curve

    names = how.rate_names
    curve = checked_noise_curve(
        outputs, process, how.rates_bd, how.laser_w, how.passes, how.seed, lambda rate: begin(names[rate])
    )
    lines = tuple(checked_lines(curve, process))
    return Findings(curve.to_json(), lines, picture=checked_png(curve, name), table=checked_csv(curve))


def eye_findings(
    eyes: list[Eye], noise: Noise, board: Board, name: str, shares: Mapping[str, float], lines: tuple[str, str, str]
) -> Findings:
    """Return eye diagrams, as a command states them.

    Args:
        eyes: The diagrams.
        noise: Their noise.
        board: Board of the chip.
        name: Name of the chip, for the picture.
        shares: What is read wrong, or right, by name.
        lines: What is printed about the shares, about openings and about deviations.
    """
    from optinc_pdk.io.formatting import format_si
    from optinc_pdk.report.eye_diagrams import eyes_png, eyes_table
    from optinc_pdk.studies.eyes import eyes_json

    fibre_w = board.oscillator_power * noise.laser_w
    text, opening, deviation = lines
    return Findings(
        {**shares, **eyes_json(eyes, noise, fibre_w)},
        (
            f"{format_si(noise.symbol_rate_bd, 'Bd')}: {text}",
            eyes_table(eyes),
            f"opening: {opening}",
            f"deviation: {deviation}",
        ),
        picture=eyes_png(eyes, noise, fibre_w, name),
    )
