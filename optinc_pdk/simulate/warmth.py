"""Heaters that warm each other's guides, as the process card states it: what they make together, and each by itself.

Of every phase that heater j makes in its own guide, the share X[i, j] appears in guide i, see :mod:`optinc_pdk.drive`.
Chips may have tens of thousands of heaters, so that nothing here but :attr:`Warmth.matrix` holds all of X.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.drive import RangeError, crosstalk
from optinc_pdk.simulate.structure import Structure

Floats = NDArray[np.float64]
Rows = tuple[slice, Floats]

BLOCK = 1 << 14
"""Pairs of heaters at a time, 128 kB of shares, which caches hold."""
KEPT = 1 << 24
"""Pairs whose shares are calculated once, 128 MB; those of more heaters are calculated anew every time."""
SWEEPS = 100
SETTLED_RAD = 1e-9
OVERLAP = 0.02
"""Share of a turn beyond a whole one that a heater may make. A turn less of it would warm its neighbours less and them
more, which warms it by up to some 0.1 %: without an overlap it could turn there and back for ever."""


@dataclass(frozen=True, eq=False)
class Warmth:
    """Thermal crosstalk between H heaters that falls as 1 / distance.

    Attributes:
        place_um: (H, 2) their middles.
        share: Share of a heater's phase in a guide at the distance; nearer guides get at most 1.
        distance_um: That distance.
    """

    place_um: Floats
    share: float
    distance_um: float

    def made(self, own: Floats) -> Floats:
        """(H,) phases in the guides of heaters that make phases (H,) by themselves."""
        found = own.copy()
        for rows, shares in self._shares():
            found[rows] += shares @ own
        return found

    def own(self, wanted: Floats) -> Floats:
        """(H,) phases for heaters to make by themselves, so that guides get those wanted up to whole turns.

        They are 0 or more, and at most little more than a turn: a heater whose neighbours warm its guide by more than
        what is wanted makes a turn more. By Gauss and Seidel, which a symmetric positive definite X lets converge.

        Raises:
            RangeError: There are none: neighbours' shares are too large.
        """
        goal, own = wanted.copy(), wanted.copy()
        every = list(self._shares()) if wanted.size**2 <= KEPT else None
        for _ in range(SWEEPS):
            before = own.copy()
            _sweep(goal, own, self._shares() if every is None else every)
            if np.max(np.abs(own - before), initial=0.0) <= SETTLED_RAD:
                return own
        raise RangeError(
            f"no powers of {wanted.size} heaters after {SWEEPS} sweeps: thermal crosstalk of {self.share:.3g} at "
            f"{self.distance_um:g} µm is too much for them; place heaters further apart, or lower the card's share"
        )

    @property
    def matrix(self) -> Floats:
        """(H, H) the whole X, 1 on the diagonal; for chips of no more than some thousands of heaters."""
        return crosstalk(self.place_um, self.share, self.distance_um)

    def _shares(self) -> Iterator[Rows]:
        """Rows of X - 1, some at a time."""
        heaters = len(self.place_um)
        step = max(1, BLOCK // max(heaters, 1))
        x, y = np.ascontiguousarray(self.place_um.T)
        for start in range(0, heaters, step):
            rows = slice(start, min(start + step, heaters))
            apart = np.square(x[rows, np.newaxis] - x)
            apart += np.square(y[rows, np.newaxis] - y)
            np.sqrt(apart, out=apart)
            apart[np.arange(apart.shape[0]), np.arange(rows.start, rows.stop)] = np.inf
            yield rows, np.minimum(self.share * self.distance_um / apart, 1.0)


def nominal_warmth(structure: Structure, process: Process) -> Warmth | None:
    """The crosstalk that a process's card expects between heaters as placed.

    None where the card states none, and where the circuit has no places or resistances, which only a layout gives.
    """
    circuit = structure.circuit
    if process.imperfections is None or not circuit.position_um.size or "resistance_ohm" not in circuit.settings:
        return None
    card = process.imperfections.crosstalk
    return Warmth(circuit.position_um[structure.heater], float(card.share), float(card.distance_um))


def _sweep(goal: Floats, own: Floats, every: Iterable[Rows]) -> None:
    """Set every heater by what all others make by now; ``goal`` gets a whole turn more or less where it has to."""
    turn = 2.0 * np.pi
    for rows, shares in every:
        for i, row in enumerate(shares, start=rows.start):
            left = float(goal[i] - row @ own)
            if not 0.0 <= left <= (1.0 + OVERLAP) * turn:
                whole = turn * np.floor(left / turn)
                goal[i] -= whole
                left -= whole
            own[i] = left
