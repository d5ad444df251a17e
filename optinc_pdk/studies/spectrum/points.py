"""Data of a wavelength sweep: results at single wavelengths, exact windows, and validity range of the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from optinc_pdk.averaging.word_score import accuracy

LIGHT_NM_GHZ = 299_792_458.0
"""Speed of light: wavelength in nm times frequency in GHz."""


class JudgedPoint(Protocol):
    """Result at one carrier wavelength."""

    @property
    def wavelength_nm(self) -> float:
        """Carrier wavelength."""
        ...

    @property
    def passed(self) -> bool:
        """Whether the chip computes what it shall."""
        ...


@dataclass(frozen=True)
class WavelengthPoint:
    """Result of all inputs at one carrier wavelength.

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
class WavelengthWindow:
    """Range of wavelengths around the carrier in which every word is exact.

    Attributes:
        low_nm: Lowest wavelength that was found exact.
        high_nm: Highest wavelength that was found exact.
        resolution_nm: Uncertainty of both ends.
        to_limit: Whether the low and the high end are at the limit of the models or of the grid, beyond which nothing
            was evaluated.
    """

    low_nm: float
    high_nm: float
    resolution_nm: float
    to_limit: tuple[bool, bool]

    @property
    def width_nm(self) -> float:
        """Width of the window."""
        return self.high_nm - self.low_nm

    def drift_nm(self, carrier_nm: float) -> float:
        """Return the largest laser drift in nm that stays within the window in either direction."""
        return min(carrier_nm - self.low_nm, self.high_nm - carrier_nm)


@dataclass(frozen=True)
class WavelengthRange:
    """Range of wavelengths in which all models of a circuit are valid.

    Attributes:
        low_nm: Lowest wavelength.
        high_nm: Highest wavelength.
        low_by: Name of the component whose model limits the low end.
        high_by: Name of the component whose model limits the high end.
    """

    low_nm: float
    high_nm: float
    low_by: str
    high_by: str

    def __str__(self) -> str:
        """Return the range and the limiting devices as text."""
        limited_by = self.low_by if self.low_by == self.high_by else f"{self.low_by}, {self.high_by}"
        return f"{self.low_nm:g} … {self.high_nm:g} nm ({limited_by})"


@dataclass(frozen=True, eq=False)
class WavelengthSweep:
    """Exactness of a chip against the carrier wavelength.

    Attributes:
        carrier_nm: Wavelength that the bias was programmed for.
        models: Range in which the models are valid.
        fixed: Points with the fixed bias, on the grid and close to its window; wavelengths ascend.
        rebiased: Points with a new bias for each wavelength of the grid; wavelengths ascend.
        fixed_window: Window of the fixed bias; None if the chip is not exact at the carrier.
        rebiased_window: Window with a new bias for each wavelength; None if the chip is not exact at the carrier.
        delays_ps: For each hidden layer, delay of the local oscillators relative to the signals.
        by_fibre: For each hidden layer, whether its signals arrive by fibres, whose lengths can be changed; signals of
            on-chip modulators do not.
        matched: Points with the fixed bias and fibres that delay the signals by ``delays_ps``.
        matched_window: Window with the fixed bias and these fibres; None if the chip is not exact at the carrier.
        channels: Points with a new bias at the channels of a link; ``fault`` marks channels outside the models' range.
        spacing_ghz: Channel spacing.
    """

    carrier_nm: float
    models: WavelengthRange
    fixed: tuple[WavelengthPoint, ...]
    rebiased: tuple[WavelengthPoint, ...]
    fixed_window: WavelengthWindow | None
    rebiased_window: WavelengthWindow | None
    delays_ps: tuple[float, ...]
    by_fibre: tuple[bool, ...]
    matched: tuple[WavelengthPoint, ...]
    matched_window: WavelengthWindow | None
    channels: tuple[WavelengthPoint, ...]
    spacing_ghz: float

    @property
    def served(self) -> int:
        """Number of channels that are exact with a new bias: the number of parallel chips in a link."""
        return sum(channel.passed for channel in self.channels)

    @property
    def shared(self) -> int:
        """Number of channels within the window of the fixed bias. One chip can use any of them, one at a time."""
        window = self.fixed_window
        if window is None:
            return 0
        return sum(window.low_nm <= channel.wavelength_nm <= window.high_nm for channel in self.channels)
