"""Fibre couplers of a layout: recognised devices with a port to a fibre, and the labels on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optinc_pdk.extract.device_matching import DevicePlacement
from optinc_pdk.extract.faults import Fault, box_center
from optinc_pdk.extract.mask_layout import NM_PER_UM, Label, label_positions
from optinc_pdk.extract.spatial_index import NOT_FOUND, PolygonIndex


@dataclass(frozen=True)
class FibreCoupler:
    """A fibre coupler.

    Attributes:
        label: Label of the fibre; empty if there is none.
        kind: Device name.
        position_um: Centre (x, y) of the device's bounding box in µm.
        fibre_um: Position (x, y) of its port to the fibre in µm.
        angle_deg: Direction in which light leaves through this port, in degrees.
    """

    label: str
    kind: str
    position_um: tuple[float, float]
    fibre_um: tuple[float, float]
    angle_deg: int


@dataclass(frozen=True)
class LabelledFibres:
    """Labels on fibre couplers, and all other labels.

    Attributes:
        devices: Fibre label to the index of its device among the placements.
        others: Labels on no fibre coupler.
        faults: Labels that occur twice, or of which two lie on one coupler.
    """

    devices: dict[str, int]
    others: list[Label]
    faults: list[Fault]


def find_fibre_labels(labels: Sequence[Label], placements: Sequence[DevicePlacement]) -> LabelledFibres:
    """Find the fibre coupler on which each label lies.

    Args:
        labels: Labels, sorted by text.
        placements: Recognised devices.
    """
    couplers = [(i, polygon) for i, p in enumerate(placements) if p.variant.fibre is not None for polygon in p.core]
    index = PolygonIndex(polygon for _, polygon in couplers)
    found = LabelledFibres({}, [], [])
    owner: dict[int, str] = {}
    for label, coupler in zip(labels, index.at(label_positions(labels)).tolist(), strict=True):
        if coupler == NOT_FOUND:
            found.others.append(label)
            continue
        device = couplers[coupler][0]
        if label.text in found.devices:
            found.faults.append(Fault("label", f"fibre label {label.text!r} is used twice", label.position_um))
        elif device in owner:
            kind = placements[device].variant.name.replace("_", " ")
            text = f"fibre labels {owner[device]!r} and {label.text!r} lie on one {kind}"
            found.faults.append(Fault("label", text, label.position_um))
        else:
            found.devices[label.text], owner[device] = device, label.text
    return found


def fibre_couplers(placements: Sequence[DevicePlacement], devices: dict[str, int]) -> tuple[FibreCoupler, ...]:
    """Return all fibre couplers, in the order of the placements.

    Args:
        placements: Recognised devices.
        devices: Fibre label to the index of its device among the placements.
    """
    label = {device: text for text, device in devices.items()}
    couplers = []
    for i, placement in enumerate(placements):
        if (fibre := placement.variant.fibre) is None:
            continue
        at, (x, y) = fibre.at + placement.shift, box_center(placement.box)
        couplers.append(
            FibreCoupler(
                label=label.get(i, ""),
                kind=placement.variant.name,
                position_um=(x / NM_PER_UM, y / NM_PER_UM),
                fibre_um=(at.x / NM_PER_UM, at.y / NM_PER_UM),
                angle_deg=fibre.angle_deg,
            )
        )
    return tuple(couplers)
