"""Lengths of guides, where the reference states them: netlists of drawn circuits do, those of builds do not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.signoff.lvs.differences import Difference, MatchedCircuits

RELATIVE_TOLERANCE = 1e-4
"""Added to ``guide.length_match_um`` per length: bends are polygons, and a long spiral adds up many roundings."""


def guide_lengths(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each guide whose length in the layout is not that of the reference.

    A guide is everything between two devices. Guides of unknown length, and guides that lead elsewhere in the layout,
    are left out; other checks report the latter.
    """
    stated = pair.ref.circuit.net_length_um
    if not stated.size:
        return
    limit = float(pair.process.guide.length_match_um)
    for (a, b), length in zip(pair.ref.circuit.nets.tolist(), stated.tolist(), strict=True):
        p, q = int(pair.map.port[a]), int(pair.map.port[b])
        if np.isnan(length) or UNCONNECTED in (p, q) or pair.ext.partners[p] != q:
            continue
        found, allowed = pair.ext.lengths[p], limit + RELATIVE_TOLERANCE * length
        if abs(found - length) <= allowed:
            continue
        ends = f"{pair.ref_names[a]} - {pair.ref_names[b]}"
        text = f"guide {ends} is {found:.3f} µm long, in the reference {length:.3f} µm, allowed is ±{allowed:.3f} µm"
        where = pair.position(int(pair.ext.owner[p]))
        yield Difference("length", text, ends, f"{pair.ext_names[p]} - {pair.ext_names[q]}", where)


def unstated_lengths(pair: MatchedCircuits) -> int:
    """Count the guides whose length a drawn reference does not state."""
    return int(np.isnan(pair.ref.circuit.net_length_um).sum())
