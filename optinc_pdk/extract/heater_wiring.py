"""Heaters and pads of a layout with the metal nets that connect them, and the faults of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optinc_pdk.cards import Process
from optinc_pdk.extract.bumps import check_bumps
from optinc_pdk.extract.device_matching import ExtractedDevice
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.mask_layout import NM_PER_UM, Label, MaskLayout
from optinc_pdk.extract.metal_nets import LabelledPad, MetalNets, find_pads
from optinc_pdk.extract.phase_shifters import PHASE_SHIFTER, ExtractedHeater, connect_heaters, find_heaters


@dataclass(frozen=True, eq=False)
class HeaterWiring:
    """Heaters and pads of a layout, and the metal nets to which they are connected.

    Attributes:
        mask: Layout.
        metal: Metal nets of the layout.
        pads: Labelled pads.
        heaters: The n heaters.
        devices: The n phase shifters, one per heater, in the same order.
        ends: For each heater, the net numbers of its signal end and of its ground end.
        faults: Faults of heaters, pads, labels on metal, vias, wires and bumps.
    """

    mask: MaskLayout
    metal: MetalNets
    pads: Sequence[LabelledPad]
    heaters: Sequence[ExtractedHeater]
    devices: Sequence[ExtractedDevice]
    ends: Sequence[tuple[int, int]]
    faults: Sequence[Fault]


@dataclass(frozen=True, eq=False)
class DrawnHeaters:
    """Heaters and metal of a layout, before pads are known.

    Attributes:
        mask: Layout.
        metal: Metal nets of the layout.
        heaters: Heaters that form phase shifters.
        faults: Heater shapes that do not.
    """

    mask: MaskLayout
    metal: MetalNets
    heaters: Sequence[ExtractedHeater]
    faults: Sequence[Fault]

    @staticmethod
    def of(mask: MaskLayout, process: Process) -> DrawnHeaters:
        """Find the heaters and the metal of a layout."""
        metal, card = MetalNets(mask, process), process.devices.get(PHASE_SHIFTER)
        taper = 0.0 if card is None else float(card.geometry.get("heater_taper_um", 0.0))
        width, taper_nm = (round(um * NM_PER_UM) for um in (float(process.guide.width_um), taper))
        return DrawnHeaters(mask, metal, *find_heaters(mask, metal.contacts, width, taper_nm))

    def wired(self, labels: Sequence[Label], process: Process) -> HeaterWiring:
        """Find the pads, and connect the heaters to them.

        Args:
            labels: Labels, sorted by text, without those on fibre couplers.
            process: Process of the layout.
        """
        pads, pad_faults = find_pads(self.metal, labels, round(float(process.pads.size_um) * NM_PER_UM))
        devices, ends, wire_faults = connect_heaters(self.heaters, self.metal, pads, process)
        faults = (*self.faults, *pad_faults, *self.metal.faults, *wire_faults, *check_bumps(self.mask, pads, process))
        return HeaterWiring(self.mask, self.metal, pads, self.heaters, devices, ends, faults)
