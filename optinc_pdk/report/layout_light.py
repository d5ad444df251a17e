"""Optical power on the layout of the report's page: of every guide and device, for a few inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.report.layout_items import LayoutItem
from optinc_pdk.simulate.circuit_optics import CircuitOptics

STEP_DB = 0.5
"""Powers are rounded to multiples of this."""
DARK_DB = -100.0
"""Powers below are stated as this: they are reflections of reflections, and rounding errors."""


@dataclass(frozen=True, eq=False)
class LayoutLight:
    """Optical powers in steps of `STEP_DB`, relative to an input of full scale, for B inputs.

    Attributes:
        titles: What each input is.
        guides: (B, guides) power that leaves each guide at its ends.
        items: (B, items) power that enters each item through its optical ports; `DARK_DB` for items without.
        optical: (items,) whether an item has optical ports.
    """

    titles: tuple[str, ...]
    guides: Ints
    items: Ints
    optical: Bools

    def to_json(self) -> dict[str, Any]:
        """Return the powers as dicts and lists; null for items without optical ports."""
        items = [
            [value if optical else None for value, optical in zip(row, self.optical.tolist(), strict=True)]
            for row in self.items.tolist()
        ]
        dark = round(DARK_DB / STEP_DB)
        return {
            "titles": list(self.titles),
            "step_db": STEP_DB,
            "dark": dark,
            "guides": self.guides.tolist(),
            "items": items,
        }


def layout_light(
    titles: tuple[str, ...], powers: Floats, structure: CircuitOptics, items: Sequence[LayoutItem]
) -> LayoutLight:
    """Assign the powers at the ports of a circuit to the guides and items of its layout.

    Args:
        titles: What each of the B inputs is.
        powers: (B, ports) power that enters the devices at every port.
        structure: The extracted circuit.
        items: Items of its layout.
    """
    circuit = structure.circuit
    optical = circuit.optical_mask()
    port = np.cumsum(optical) - 1
    # in the order of `layout_guides`
    ends = port[circuit.nets[circuit.net_length_um > 0]]
    owner = np.repeat(np.arange(len(circuit.instances)), np.diff(circuit.offset))[optical]
    entering = np.zeros((len(circuit.instances) + 1, len(titles)))
    np.add.at(entering, owner, powers.T)
    # the last row is that of items that are no instance
    instance = np.array([-1 if item.instance is None else item.instance for item in items], dtype=np.int64)
    lit = np.append(np.bincount(owner, minlength=len(circuit.instances)) > 0, False)
    return LayoutLight(titles, _steps(powers[:, ends].sum(axis=2)), _steps(entering[instance].T), lit[instance])


def _steps(powers: Floats) -> Ints:
    """Return powers in steps of `STEP_DB`, those below `DARK_DB` as that."""
    level_db = 10.0 * np.log10(np.maximum(powers, 10.0 ** (DARK_DB / 10.0)))
    return np.asarray(np.rint(level_db / STEP_DB), dtype=np.int64)
