"""The interface of what a chip is built for.

The stages of the pipeline are the same for every chip. A task says what differs: which circuit, which bias, and what
the extracted chip must compute.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from optinc_pdk.assemble import CircuitPlan
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit
from optinc_pdk.drive import SharedGround

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout
    from optinc_pdk.report.eye_diagrams import RateEyes
    from optinc_pdk.report.matrix_pictures import MatrixMap
    from optinc_pdk.simulate import Programming as NetworkProgramming
    from optinc_pdk.simulate.transmission.settling import LightSamples

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


class NetworkTask:
    """What the tasks of all networks have in common."""

    def check_layout(self, chip: ChipLayout) -> None:
        """Accept every layout: networks beyond the dies are drawn, and the design rules refuse them."""

    def sources(self, reference: Circuit) -> dict[str, tuple[str, ...]]:
        """Return the labels of the carrier, of the inputs, and of the neurons of each layer."""
        from optinc_pdk.report.spectra import network_sources

        return network_sources(board_of(reference))

    def matrices(self, programming: NetworkProgramming, result: Any) -> list[MatrixMap]:
        """Return the matrix of each layer."""
        from optinc_pdk.report.matrix_pictures import layer_maps

        return layer_maps(programming)


Factors = TypeVar("Factors")
Programming = TypeVar("Programming", bound=Programmed)
Result = TypeVar("Result")


class ChipTask(Protocol[Factors, Programming, Result]):
    """What a chip is built for: how it is factored, assembled, programmed and checked, and what its report says.

    ``Factors`` are the factors of its matrices, ``Programming`` is the bias with its errors, ``Result`` that of the
    check of the function.
    """

    @property
    def process(self) -> Process:
        """Process with the options of this build."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks before the build, one line each."""
        ...

    def estimate(self) -> SizeEstimate:
        """Estimate the memory of the build."""
        ...

    def factor(self) -> Factors:
        """Factor the matrices.

        Raises:
            InputError: No chip of the process can realise them.
        """
        ...

    def draft(self, factors: Factors, name: str) -> CircuitPlan:
        """Assemble the circuit, without the parts that depend on the dies."""
        ...

    def check_layout(self, chip: ChipLayout) -> None:
        """Check the layout before it is written.

        Raises:
            InputError: The chip cannot be built.
        """
        ...

    def program(self, reference: Circuit, extracted: Circuit, factors: Factors, ground: SharedGround) -> Programming:
        """Find the bias of the extracted circuit.

        Raises:
            RangeError: A heater or the electronics need more than their range.
        """
        ...

    def check(
        self, reference: Circuit, extracted: Circuit, programming: Programming, ground: SharedGround, stages: Stages
    ) -> Result:
        """Simulate the extracted circuit, driven by the DAC codes of the bias, and check what it computes.

        Raises:
            UnsettledError: The light on the chip does not settle.
        """
        ...

    def write(self, result: Result, stem: Path) -> None:
        """Write the file of a check; its path is ``stem`` with an ending."""
        ...

    def sections(
        self,
        factors: Factors,
        reference: Circuit,
        chip: ChipLayout,
        programming: Programming | None,
        result: Result | None,
    ) -> dict[str, Any]:
        """Return the sections of `report.json` that depend on the task."""
        ...

    def findings(self, programming: Programming | None, result: Result | None) -> list[str]:
        """List the findings about programming and function, one line each."""
        ...

    def pictures(self, result: Result) -> dict[str, bytes]:
        """Return the pictures of the check as PNG, by name of the page's argument."""
        ...

    def eyes(self, result: Result) -> RateEyes | None:
        """Return eye diagrams at the highest symbol rate, for the page; None if there are none."""
        ...

    def matrices(self, programming: Programming, result: Result) -> list[MatrixMap]:
        """Return the chip's matrices with their targets, for the page."""
        ...

    def sources(self, reference: Circuit) -> dict[str, tuple[str, ...]]:
        """Return the labels that launch light into the chip, by the name of their group."""
        ...

    def light(self, reference: Circuit, programming: Programming, result: Result) -> LightSamples:
        """Return the light that a few inputs of the check launch into the chip, at most `MOST_SAMPLES`."""
        ...
