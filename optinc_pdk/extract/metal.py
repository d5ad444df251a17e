"""Electrical nets: connected metal, the pads that name it, and the resistance of wires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.extract.gds import NM_PER_UM, Label, Mask
from optinc_pdk.extract.lookup import Finder, plain
from optinc_pdk.extract.silicon import Device, Fault

GROUND_PREFIX = "GND"
PAD = "pad"


@dataclass(frozen=True)
class Pad:
    """A labelled pad: its label, metal net and position in nm."""

    label: str
    net: int
    center: tuple[float, float]

    @property
    def device(self) -> Device:
        """The pad as a device without light."""
        return Device(PAD, self.center, np.zeros((0, 2, 2), dtype=np.int64), ())


class Metal:
    """Connected metal; a net is a number in order of position."""

    def __init__(self, mask: Mask) -> None:
        """Merge the metal of a layout."""
        self.region = mask.region("metal").merged()
        self.polygons = sorted(plain(self.region), key=lambda p: (p.bbox().left, p.bbox().bottom, str(p)))
        self._finder = Finder(self.polygons)

    def net_at(self, x: int, y: int) -> int | None:
        """The net under a point."""
        return self._finder.at(x, y)


def find_pads(metal: Metal, labels: Sequence[Label], size_nm: int) -> tuple[list[Pad], list[Fault]]:
    """Pads: labels on metal that is at least as wide as a pad both ways.

    Args:
        metal: Metal.
        labels: Texts that name no fibre.
        size_nm: Least width of a pad.

    Returns:
        Pads sorted by label, and faults. A label on no metal, as the chip's name, is none.
    """
    # metal exactly as wide as a pad must survive the shrink
    shrink = size_nm // 2 - 1
    squares = plain(metal.region.sized(-shrink).sized(shrink).merged())
    finder = Finder(squares)
    pads: list[Pad] = []
    faults: list[Fault] = []
    named: dict[int, Pad] = {}
    for label in labels:
        net = metal.net_at(label.x, label.y)
        if net is None:
            continue
        square = finder.at(label.x, label.y)
        if square is None:
            text = f"label {label.text!r} lies on metal narrower than a pad, {size_nm / NM_PER_UM:g} µm"
            faults.append(Fault("label", text, label.position_um))
            continue
        box = squares[square].bbox()
        middle = ((box.left + box.right) / 2, (box.bottom + box.top) / 2)
        alone = squares[square].is_box() and box.width() == box.height() == size_nm
        pad = Pad(label.text, net, middle if alone else (label.x, label.y))
        faults += _conflicts(pad, named.get(net), pads)
        named[net] = pad
        pads.append(pad)
    return pads, faults


def _conflicts(pad: Pad, other: Pad | None, pads: Sequence[Pad]) -> list[Fault]:
    at = pad.device.position_um
    faults = []
    if pads and pads[-1].label == pad.label:
        faults.append(Fault("label", f"pad label {pad.label!r} is used twice", at))
    if other is not None and not (is_ground(pad.label) and is_ground(other.label)):
        faults.append(Fault("short", f"pads {other.label!r} and {pad.label!r} are joined in metal", at))
    return faults


def is_ground(label: str) -> bool:
    """Whether a pad's label says that it is ground."""
    return label.startswith(GROUND_PREFIX)


def wire_ohm(metal: Metal, net: int, pads: int, contacts: int, process: Process) -> float:
    """Resistance of a wire from one pad to one contact.

    The wire's length is taken as its area outside pad and contact over its width, so corners count in full
    (about half a square each too much) and widened places count as longer instead of less resistive.

    Returns:
        Ohm, or NaN for a net that does not join one pad to one heater.
    """
    if pads != 1 or contacts != 1:
        return float("nan")
    contact = process.device("phase_shifter").size("contact_width_um")
    area_um2 = metal.polygons[net].area() / NM_PER_UM**2 - float(process.pads.size_um) ** 2 - contact**2
    return float(process.metal.sheet_ohm) * max(area_um2, 0.0) / float(process.metal.wire_width_um) ** 2
