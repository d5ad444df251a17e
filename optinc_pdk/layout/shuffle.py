"""Placeholder until merged."""

from collections.abc import Sequence

from optinc_pdk.cards import Process
from optinc_pdk.layout.canvas import Canvas
from optinc_pdk.layout.frames import Point
from optinc_pdk.layout.netlist import Netlist


def place_shuffle(
    canvas: Canvas, netlist: Netlist, process: Process, section: str, guides: Sequence[tuple[str, Point]], middle: float
) -> list[tuple[str, Point]]:
    """Placeholder."""
    raise NotImplementedError
