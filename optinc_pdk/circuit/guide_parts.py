"""Parts of guides that a netlist states, and what a layout of the process cannot have of them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from optinc_pdk.cards.device_cell import GUIDE_CELLS
from optinc_pdk.circuit.cross_sections import stated_width_um
from optinc_pdk.circuit.instance_transforms import InstanceTransform
from optinc_pdk.circuit.schematic_cells import SchematicInstance

GUIDE_ENDS = ("o1", "o2")
"""Ports of a part of a guide."""
WIDTH_TOLERANCE_UM = 0.001


@dataclass(frozen=True)
class GuidePart:
    """A straight or bend of a netlist.

    Attributes:
        part: Its instance.
        transform: Its placement; None if it is unknown.
    """

    part: SchematicInstance
    transform: InstanceTransform | None


@dataclass(frozen=True)
class GuideFault:
    """A part of a guide that no layout of the process can have.

    Attributes:
        kind: ``"guide_width"`` or ``"open_guide"``.
        instance: Full name of its instance.
        message: Description.
        position_um: Origin (x, y) of its cell in the layout in µm; None if it is unknown.
    """

    kind: str
    instance: str
    message: str
    position_um: tuple[float, float] | None


def guide_faults(
    parts: Mapping[str, GuidePart], connected: Container[tuple[str, str]], width_um: float
) -> Iterator[GuideFault]:
    """Yield a fault for each part of a guide of another width than the process's, or with an end that leads nowhere.

    LVS compares guides as connections between devices, so that these would have no effect on it.

    Args:
        parts: Parts of guides, by the full names of their instances.
        connected: Ports that are connected, each as instance and name.
        width_um: Width of the process's guides.

    Raises:
        NetlistError: A width is no number.
    """
    for instance, guide in parts.items():
        at = guide.transform
        position = None if at is None else (at.x_um, at.y_um)
        width = stated_width_um(instance, guide.part) if guide.part.component in GUIDE_CELLS else None
        if width is not None and abs(width - width_um) > WIDTH_TOLERANCE_UM:
            text = f"guide {instance!r} of the netlist is {width:g} µm wide, guides of the process are {width_um:g} µm"
            yield GuideFault("guide_width", instance, text, position)
        if ends := [end for end in GUIDE_ENDS if (instance, end) not in connected]:
            text = f"guide {instance!r} of the netlist is not connected at {' and '.join(ends)}"
            yield GuideFault("open_guide", instance, text, position)
