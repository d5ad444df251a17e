"""Edge couplers of a die: they are moved to its left and right edge, and straight guides lead to them."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.layout.canvas import Canvas, snap


def reach_edges(canvas: Canvas, process: Process, width: float) -> None:
    """Move the edge couplers of a die outwards, until their tips are at its left or right edge.

    A straight guide leads from the place where a coupler was to the place where it is. A die without edge couplers is
    not changed.

    Args:
        canvas: The die, with its left edge at x = 0. Beside each edge coupler there is nothing up to the edge it faces.
        process: Process; its card states the distance of tips from the edge.
        width: Width of the die in µm.
    """
    if process.fibres.facet_um is None:
        return
    inner = float(process.fibres.facet_um) + process.device("edge_coupler").size("length_um")
    for name, placed in list(canvas.placed.items()):
        if placed.component != "edge_coupler":
            continue
        x = snap(inner if placed.rotation == 180 else width - inner)
        canvas.guide((placed.x, placed.y), (x, placed.y))
        canvas.placed[name] = placed._replace(x=x)
