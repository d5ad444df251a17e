"""How netlists of another PDK call devices, their ports and their dimensions, and which of its cells are guides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import StrictBool, StrictFloat, StrictInt

from optinc_pdk.cards.quantity import Name, NonNegative, PortName, StrictModel, Text

ROUNDING = 1e-6
"""Relative difference of two numbers in netlists that count as equal."""


class LengthName(StrictModel):
    """Argument of a cell that states its length.

    Attributes:
        argument: Name of the argument, in µm.
        end_um: Length of guide between each optical port of the cell and its heated part; twice this is not a part of
            the device's length.
    """

    argument: Name
    end_um: NonNegative


class DeviceNames(StrictModel):
    """How netlists call a device.

    Attributes:
        cells: Names of the functions that draw the device; if there are none, the name of the device.
        settings: Arguments of the functions with the values that the device has. A cell of other values is not this
            device. Arguments that are not listed may have any value.
        ports: Further names of ports: name in netlists to port of the card.
        length: Argument that states the length of a phase shifter; None if it is ``length_um``.
    """

    cells: tuple[Name, ...] = ()
    settings: Mapping[Name, StrictBool | StrictInt | StrictFloat | Text | None] = {}
    ports: Mapping[PortName, PortName] = {}
    length: LengthName | None = None

    def differing(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of some settings that have another value than the device's; settings it lacks are ignored."""
        stated = {key: settings[key] for key in self.settings if key in settings}
        return {key: value for key, value in stated.items() if not _agree(self.settings[key], value)}


class NetlistNames(StrictModel):
    """How netlists call what is no device.

    Attributes:
        guides: Names of further cells that are parts of guides and wires.
    """

    guides: tuple[Name, ...] = ()


def _agree(expected: Any, value: Any) -> bool:
    """Return whether a value of a netlist is the one expected; numbers may differ by rounding."""
    if isinstance(expected, bool) or isinstance(value, bool) or not isinstance(expected, int | float):
        return bool(expected == value)
    return isinstance(value, int | float) and abs(value - expected) <= ROUNDING * max(abs(expected), 1.0)
