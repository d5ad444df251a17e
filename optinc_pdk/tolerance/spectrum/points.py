"""What a chip computes at one carrier wavelength after another, and the windows in which that is exact."""

from __future__ import annotations

from dataclasses import dataclass

LIGHT_NM_GHZ = 299_792_458.0
"""Speed of light: wavelength in nm times frequency in GHz."""


@dataclass(frozen=True)
class Point:
    """All inputs at one wavelength.

    Attributes:
        wavelength_nm: The carrier.
        inputs: Number of inputs; 0 where no bias could be made.
        exact: Inputs for which every server reads the ideal word.
        margin: min of 0.5 - |output - ideal level| in levels; NaN where no bias could be made.
        fault: Why none could be made; empty where it could.
    """

    wavelength_nm: float
    inputs: int
    exact: int
    margin: float
    fault: str = ""

    @property
    def accuracy(self) -> float:
        """Share of exact inputs; 0 where no bias could be made."""
        return self.exact / self.inputs if self.inputs else 0.0

    @property
    def passed(self) -> bool:
        """Whether every input is exact."""
        return not self.fault and self.exact == self.inputs


@dataclass(frozen=True)
class Window:
    """Wavelengths around the carrier at which every word is exact.

    Attributes:
        low_nm: The lowest that was found exact.
        high_nm: The highest.
        resolution_nm: How far beyond an end it was found not to be.
        to_limit: Whether beyond the low and the high end nothing was tried: there the models end, or the grid.
    """

    low_nm: float
    high_nm: float
    resolution_nm: float
    to_limit: tuple[bool, bool]

    @property
    def width_nm(self) -> float:
        """From end to end."""
        return self.high_nm - self.low_nm

    def drift_nm(self, carrier_nm: float) -> float:
        """How far a laser may drift either way."""
        return min(carrier_nm - self.low_nm, self.high_nm - carrier_nm)


@dataclass(frozen=True)
class Range:
    """Wavelengths that all models of a circuit hold for, and the devices that set its ends."""

    low_nm: float
    high_nm: float
    low_by: str
    high_by: str

    def __str__(self) -> str:
        """For messages."""
        by = self.low_by if self.low_by == self.high_by else f"{self.low_by}, {self.high_by}"
        return f"{self.low_nm:g} … {self.high_nm:g} nm ({by})"


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A chip's exactness against the carrier's wavelength.

    Attributes:
        carrier_nm: The wavelength that the bias is for.
        models: What the models hold for.
        fixed: With the bias as it is: on the grid, and close around its window; ascending.
        rebiased: Programmed anew: on the grid; ascending.
        fixed_window: Where the bias as it is computes exactly; None where it does not even at the carrier.
        rebiased_window: The same, programmed anew.
        delays_ps: Per hidden layer, by how much later its oscillators arrive than its signals.
        by_fibre: Whether its signals come by fibres, which can be longer; those of modulators on the chip do not.
        matched: With the bias as it is, and fibres that delay the signals by as much.
        matched_window: Where that computes exactly.
        channels: Programmed anew, the channels of a link; ``fault`` says where one is beyond the models.
        spacing_ghz: Distance between them.
    """

    carrier_nm: float
    models: Range
    fixed: tuple[Point, ...]
    rebiased: tuple[Point, ...]
    fixed_window: Window | None
    rebiased_window: Window | None
    delays_ps: tuple[float, ...]
    by_fibre: tuple[bool, ...]
    matched: tuple[Point, ...]
    matched_window: Window | None
    channels: tuple[Point, ...]
    spacing_ghz: float

    @property
    def served(self) -> int:
        """Channels that a chip of their own computes exactly, hence the chips that a link needs in parallel."""
        return sum(channel.passed for channel in self.channels)

    @property
    def shared(self) -> int:
        """Channels within the fixed bias's window: one bias is right for them, one at a time."""
        window = self.fixed_window
        if window is None:
            return 0
        return sum(window.low_nm <= channel.wavelength_nm <= window.high_nm for channel in self.channels)
