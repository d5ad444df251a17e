"""Instances of an extracted circuit: their names in the netlist, and what they connect to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optinc_pdk.circuit import UNCONNECTED, Circuit, flatten
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.device_matching import FibreCoupler
from optinc_pdk.extract.metal_nets import PAD
from optinc_pdk.signoff.lvs.comparison import LvsResult


@dataclass(frozen=True)
class ExtractedNames:
    """The extracted circuit, and the names of its instances in the netlist.

    Attributes:
        circuit: Extracted circuit.
        names: Name of each instance in the netlist; in the extraction for one without counterpart.
    """

    circuit: Circuit
    names: Sequence[str]

    @staticmethod
    def of(extraction: Extraction, reference: Circuit, lvs: LvsResult) -> ExtractedNames:
        """Return the names that the comparison of an extraction with a netlist gives."""
        names = list(extraction.circuit.instances)
        for name, device in zip(flatten(reference).instances, lvs.device_map.tolist(), strict=True):
            if device != UNCONNECTED:
                names[device] = name
        return ExtractedNames(extraction.circuit, names)

    @cached_property
    def instances(self) -> Mapping[tuple[str, float, float], int]:
        """Number of each instance of the extracted circuit, by device name, x and y in µm."""
        kinds = [self.circuit.kinds[kind].name for kind in self.circuit.kind.tolist()]
        places = self.circuit.position_um.tolist()
        return {(kind, x, y): i for i, (kind, (x, y)) in enumerate(zip(kinds, places, strict=True))}

    @cached_property
    def _net_members(self) -> Mapping[int, list[int]]:
        """Instances other than pads by number of electrical net."""
        owner = np.repeat(np.arange(len(self.circuit.instances)), np.diff(self.circuit.offset))
        members: dict[int, list[int]] = {}
        for port in np.flatnonzero(self.circuit.electrical != UNCONNECTED).tolist():
            if self.kind(int(owner[port])) != PAD:
                members.setdefault(int(self.circuit.electrical[port]), []).append(int(owner[port]))
        return members

    @cached_property
    def _partners(self) -> list[int]:
        partners: list[int] = self.circuit.partners().tolist()
        return partners

    def kind(self, instance: int) -> str:
        """Return the device name of an instance."""
        return self.circuit.kinds[int(self.circuit.kind[instance])].name

    def at_pad(self, position_um: tuple[float, float]) -> list[int]:
        """Return the devices on the net of a pad."""
        port = int(self.circuit.offset[self.instances[PAD, *position_um]])
        return self._net_members.get(int(self.circuit.electrical[port]), [])

    def at_coupler(self, coupler: FibreCoupler) -> list[int]:
        """Return the devices at the other ends of a coupler's guides."""
        instance = self.instances[coupler.kind, *coupler.position_um]
        ports = range(*self.circuit.offset[instance : instance + 2].tolist())
        ends = [self._partners[port] for port in ports if self._partners[port] != UNCONNECTED]
        return [int(np.searchsorted(self.circuit.offset, end, side="right")) - 1 for end in ends]
