"""Lengths of guides, where the reference states them: netlists of drawn circuits do, those of builds do not.

Straights are on the grid. Netlists round the lengths of bends to 1 nm, and extraction measures a bend to a fraction of
that, so that two lengths of one guide differ by at most 1 nm, and 1 nm for each of its bends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.signoff.lvs.differences import Difference, MatchedCircuits, grid_um

ROUNDING_UM = 1e-6
"""Rounding of lengths in files and in sums."""


@dataclass(frozen=True)
class ComparedLengths:
    """Lengths of one kind that LVS compared.

    Attributes:
        what: Kind of lengths.
        count: Number of lengths.
        tolerance_um: Smallest and largest tolerance.
        deviation_um: Largest deviation, positive where the layout is longer.
        place: Names at the largest deviation.
        rad_per_um: Phase of light per length at the wavelength of the process.
    """

    what: str
    count: int
    tolerance_um: tuple[float, float]
    deviation_um: float
    place: str
    rad_per_um: float

    def to_json(self) -> dict[str, Any]:
        """Return the lengths in nm and as phases in rad, for JSON."""
        return {
            "what": self.what,
            "count": self.count,
            "tolerance_nm": [round(each * NM_PER_UM, 3) for each in self.tolerance_um],
            "tolerance_rad": [round(each * self.rad_per_um, 4) for each in self.tolerance_um],
            "deviation_nm": round(self.deviation_um * NM_PER_UM, 3),
            "deviation_rad": round(self.deviation_um * self.rad_per_um, 4),
            "at": self.place,
        }


class LengthCheck(NamedTuple):
    """Result of a comparison of lengths: the differences, and the compared lengths, None if there were none."""

    differences: Sequence[Difference]
    compared: ComparedLengths | None


def guide_phase_rad_per_um(process: Process) -> float:
    """Return the phase of light in a guide per length, in rad per µm, at the wavelength of the process."""
    return 2.0 * math.pi * float(process.guide.index) * NM_PER_UM / float(process.guide.wavelength_nm)


def compared_lengths(
    what: str, deviation_um: ArrayLike, tolerance_um: ArrayLike, place: Callable[[int], str], process: Process
) -> ComparedLengths | None:
    """Summarise deviations of lengths.

    Args:
        what: Kind of lengths.
        deviation_um: (n,) lengths in the layout minus those of the reference.
        tolerance_um: Their tolerances, which broadcast to (n,).
        place: Function that returns the names at a length, given its number.
        process: Process of the layout.

    Returns:
        The summary; None if there are no lengths.
    """
    deviation = np.atleast_1d(np.asarray(deviation_um, dtype=np.float64))
    if not deviation.size:
        return None
    tolerance = np.broadcast_to(tolerance_um, deviation.shape)
    worst = int(np.argmax(np.abs(deviation)))
    limits = float(tolerance.min()), float(tolerance.max())
    return ComparedLengths(
        what, deviation.size, limits, float(deviation[worst]), place(worst), guide_phase_rad_per_um(process)
    )


def length_tolerance_um(circuit: Circuit, process: Process) -> Floats:
    """Return (n,) by how much the guides of a drawn circuit may differ in length from its layout, in µm."""
    bends = circuit.net_bends if circuit.net_bends.size else np.zeros(len(circuit.nets))
    return np.asarray(grid_um(process) * (1.0 + bends))


def guide_lengths(pair: MatchedCircuits) -> LengthCheck:
    """Compare the lengths of guides with those that the reference states.

    A guide is everything between two devices. Guides of unknown length, and guides that lead elsewhere in the layout,
    are left out; other checks report the latter.

    Returns:
        A difference for each guide of another length.
    """
    circuit = pair.ref.circuit
    if not circuit.net_length_um.size:
        return LengthCheck((), None)
    image = pair.map.port[circuit.nets]
    known = np.flatnonzero(~np.isnan(circuit.net_length_um) & np.all(image != UNCONNECTED, axis=1))
    known = known[pair.ext.partner[image[known, 0]] == image[known, 1]]
    nets, ports, stated = circuit.nets[known], image[known], circuit.net_length_um[known]
    found = np.array(pair.ext.lengths)[ports[:, 0]] if len(ports) else stated
    allowed = length_tolerance_um(circuit, pair.process)[known]

    def ends(number: int) -> str:
        a, b = nets[number].tolist()
        return f"{pair.ref_names[a]} - {pair.ref_names[b]}"

    differences = []
    for number in np.flatnonzero(np.abs(found - stated) > allowed + ROUNDING_UM).tolist():
        text = (
            f"guide {ends(number)} is {found[number]:.4f} µm long, in the reference {stated[number]:.4f} µm, "
            f"allowed is ±{allowed[number]:.3f} µm; the deviation shifts the phase by "
            f"{phase_text(found[number] - stated[number], pair.process)}; correct the guide, or the netlist if the "
            "layout is right"
        )
        p, q = ports[number].tolist()
        layout = f"{pair.ext_names[p]} - {pair.ext_names[q]}"
        differences.append(Difference("length", text, ends(number), layout, pair.position(int(pair.ext.owner[p]))))
    return LengthCheck(differences, compared_lengths("guides", found - stated, allowed, ends, pair.process))


def phase_text(deviation_um: float, process: Process) -> str:
    """Return a deviation of a length as a phase with its unit."""
    return f"{abs(deviation_um) * guide_phase_rad_per_um(process):.3f} rad"


def unstated_lengths(pair: MatchedCircuits) -> int:
    """Count the guides whose length a drawn reference does not state."""
    return int(np.isnan(pair.ref.circuit.net_length_um).sum())
