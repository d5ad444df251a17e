"""Light paths between couplers, through devices that do not branch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Complexes
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.models import device_s, net_transmission
from optinc_pdk.simulate.circuit_optics import CROSSING, CircuitOptics

COUPLER, SPLITTER, TWO_ENDED = 4, 3, 2
# Ports o1 … o4 of a 2×2 coupler as 0 … 3: bar o2-o3 and o1-o4, cross o2-o4 and o1-o3.
_BAR = (3, 2, 1, 0)
_CROSS = (2, 3, 0, 1)


@dataclass(frozen=True)
class LightPath:
    """A path of light that does not branch.

    Attributes:
        port: Optical port at which the path ends: a port of a coupler or terminator, the root of a splitter, or a
            fibre.
        transmission: Field transmission of the path at zero heater phases.
        heaters: Numbers of the heaters on the path, in the direction of light.
    """

    port: int
    transmission: complex
    heaters: tuple[int, ...]


class PathTracer:
    """Traces light paths through a circuit at zero heater phases."""

    def __init__(
        self, structure: CircuitOptics, wavelength_nm: float, process: Process, guides: Complexes | None = None
    ) -> None:
        """Index the ports by device.

        Args:
            structure: The circuit.
            wavelength_nm: Wavelength in nm.
            process: Process of the cards.
            guides: (ports,) field transmissions of the guides; by the card where left out.
        """
        self.structure = structure
        self.group = np.zeros(structure.ports, dtype=np.int64)
        self.member = np.zeros(structure.ports, dtype=np.int64)
        self.local = np.zeros(structure.ports, dtype=np.int64)
        self.s: list[Complexes] = []
        for i, devices in enumerate(structure.devices):
            self.group[devices.port] = i
            self.member[devices.port] = np.arange(devices.port.shape[0])[:, np.newaxis]
            self.local[devices.port] = np.arange(devices.port.shape[1])
            self.s.append(device_s(process, devices.name, wavelength_nm)[0])
        self.guide = net_transmission(process, structure.length_um, wavelength_nm) if guides is None else guides
        self.crossing = [devices.name == CROSSING for devices in structure.devices]
        self.heater = {int(p): h for h, pair in enumerate(structure.heater_port.tolist()) for p in pair}

    def ends(self, port: int) -> int:
        """Return the number of optical ports of the device that a port belongs to."""
        return int(self.structure.devices[self.group[port]].port.shape[1])

    def sibling(self, port: int, local: int) -> int:
        """Return the port with the number ``local``, from 0, of the device that ``port`` belongs to."""
        return int(self.structure.devices[self.group[port]].port[self.member[port], local])

    def bar(self, port: int) -> int:
        """Return the port of a 2×2 coupler to which light from ``port`` passes straight."""
        return self.sibling(port, _BAR[self.local[port]])

    def cross(self, port: int) -> int:
        """Return the port of a 2×2 coupler to which light from ``port`` crosses over."""
        return self.sibling(port, _CROSS[self.local[port]])

    def amplitude(self, out: int, into: int) -> complex:
        """Return the S-parameter from port ``into`` to port ``out`` of one device."""
        return complex(self.s[self.group[out]][self.local[out], self.local[into]])

    def enter(self, fibre: int) -> LightPath:
        """Trace the path of light that enters the chip at the optical port of a fibre."""
        return self._through(fibre, 1.0 + 0.0j, ())

    def source(self, label: str) -> LightPath:
        """Trace the path of light from a source.

        Args:
            label: Label of a fibre or a modulator. The path of a modulator starts at its output; its transmission
                includes the path from the carrier's fibre to the modulator.
        """
        place = int(self.structure.label_positions([label])[0])
        port, supply = int(self.structure.label_port[place]), int(self.structure.carrier_port[place])
        if supply == UNCONNECTED:
            return self.enter(port)
        # models are reciprocal: the path back to the carrier's fibre has the same transmission
        carrier = self.follow(supply).transmission * self.amplitude(port, supply)
        return self._onward(port, carrier, ())

    def branches(self, path: LightPath) -> list[LightPath]:
        """Trace a path on through the splitter tree at whose root it ends.

        Returns:
            Paths to the leaves of the tree; the path itself if it does not end at the root of a splitter.
        """
        if self.ends(path.port) != SPLITTER or self.local[path.port] != 0:
            return [path]
        paths = []
        for local in (1, 2):
            port = self.sibling(path.port, local)
            passed = path.transmission * self.amplitude(port, path.port)
            paths += self.branches(self._onward(port, passed, path.heaters))
        return paths

    def follow(self, port: int) -> LightPath:
        """Trace the path of light that leaves a device at a port."""
        return self._onward(port, 1.0 + 0.0j, ())

    def _onward(self, port: int, transmission: complex, heaters: tuple[int, ...]) -> LightPath:
        for _ in range(self.structure.ports):
            far = int(self.structure.partner[port])
            if far == UNCONNECTED:
                return LightPath(port, transmission, heaters)
            transmission *= complex(self.guide[port])
            if self.crossing[self.group[far]]:
                port = self.cross(far)
                transmission *= self.amplitude(port, far)
                continue
            ends = self.ends(far)
            if ends not in (TWO_ENDED, SPLITTER) or (ends == SPLITTER and self.local[far] == 0):
                return LightPath(far, transmission, heaters)
            if far in self.heater:
                heaters = (*heaters, self.heater[far])
            port = self.sibling(far, 0 if ends == SPLITTER else 1 - int(self.local[far]))
            transmission *= self.amplitude(port, far)
        name = self.structure.circuit.name
        raise ValueError(f"circuit {name!r} has a closed ring of guides without a coupler; open it")

    def _through(self, port: int, transmission: complex, heaters: tuple[int, ...]) -> LightPath:
        """Path of light that enters a two-ended device from outside."""
        far = self.sibling(port, 1 - int(self.local[port]))
        return self._onward(far, transmission * self.amplitude(far, port), heaters)
