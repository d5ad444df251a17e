"""Light paths between couplers, and the modes of a mesh that are followed along them from left to right.

Each heater is set when the modes reach it. With D = diag(e^{i δ}) in front of an MZI on modes (k, k + 1),
phi - (δ_k - δ_{k+1}) makes both outputs carry e^{i δ_{k+1}}; so phase errors are carried along mode by mode to the
outputs, where they do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.assemble import mesh_slots
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.factor import Mesh
from optinc_pdk.factor.mesh_devices import MeshDevices
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
        """Index the ports by device; ``guides`` are (ports,) field transmissions, by default the card's."""
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
        self.channel = {label: h for h, label in enumerate(structure.channel)}

    def heater_number(self, label: str) -> int:
        """Return the number of the heater that a pad drives, by its label; raise ValueError if there is none."""
        if label not in self.channel:
            raise ValueError(f"no heater is driven by channel {label!r}; the circuit does not belong to this network")
        return self.channel[label]

    def first_coupler(self, name: str) -> int:
        """Return the input port of an MZI's first coupler that is connected to the outer heater (phi).

        Raises:
            ValueError: The channels ``name`` + ``_phi`` and ``_theta`` do not heat one MZI.
        """
        outer, inner = self.heater_number(f"{name}_phi"), self.heater_number(f"{name}_theta")
        for port in self.structure.heater_port[outer].tolist():
            path = self.follow(port)
            if self.ends(path.port) == COUPLER and inner in self.follow(self.bar(path.port)).heaters:
                return path.port
        raise ValueError(f"channels {name}_phi and {name}_theta do not heat one MZI of this circuit")

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
        far = self.sibling(fibre, 1 - int(self.local[fibre]))
        return self._onward(far, self.amplitude(far, fibre), ())

    def source(self, label: str) -> LightPath:
        """Trace the path of light from the label of a fibre or a modulator.

        The path of a modulator starts at its output; its transmission includes the path from the carrier's fibre.
        """
        place = int(self.structure.label_positions([label])[0])
        port, supply = int(self.structure.label_port[place]), int(self.structure.carrier_port[place])
        if supply == UNCONNECTED:
            return self.enter(port)
        # models are reciprocal: the path back to the carrier's fibre has the same transmission
        carrier = self.follow(supply).transmission * self.amplitude(port, supply)
        return self._onward(port, carrier, ())

    def branches(self, path: LightPath) -> list[LightPath]:
        """Trace a path on through the splitter tree at whose root it ends, if any, to the leaves of the tree."""
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


@dataclass(eq=False)
class MeshRecord:
    """Devices of a mesh as its modes pass them.

    Attributes:
        heater: (MZIs, 2) numbers of the outer and the inner heater of each MZI, in the order of the ideal mesh.
        coupler: (MZIs, 2, 2) magnitudes of bar and cross transmission of the first and the second coupler.
        inner: (MZIs, 2) magnitudes of the transmission of the arms between the couplers, heated one first.
        outer: (MZIs, 2) magnitudes of the transmission of the input arms, heated one first; 1 for a dark one.
        idle: Magnitudes of the transmission of modes through dummies.
        idle_column: Column of each of these dummies.
        attenuation: Phase differences of the arms of the attenuators behind the mesh, in rad.
    """

    heater: Ints
    coupler: Floats
    inner: Floats
    outer: Floats
    idle: list[float] = field(default_factory=list)
    idle_column: list[int] = field(default_factory=list)
    attenuation: list[float] = field(default_factory=list)

    def devices(self, mesh: Mesh) -> MeshDevices:
        """Return the devices as a mesh that propagates light from left to right without reflections.

        Phases are relative to those of the ideal mesh, so that its static phases are 0.
        """
        power = np.sum(self.coupler**2, axis=2)
        angle = np.arctan2(self.coupler[:, :, 1], self.coupler[:, :, 0])
        count = mesh.row.size
        return MeshDevices(
            modes=mesh.modes,
            row=mesh.row,
            column=mesh.column,
            first=angle[:, 0],
            second=angle[:, 1],
            theta_offset=np.zeros(count),
            phi_offset=np.zeros(count),
            inner=np.minimum(self.inner * np.sqrt(power[:, 1:]), 1.0),
            outer=np.minimum(self.outer * np.sqrt(power[:, :1]), 1.0),
            idle=min(float(np.mean(self.idle)), 1.0) if self.idle else 1.0,
        )


def relative_devices(record: MeshRecord, mesh: Mesh) -> MeshDevices:
    """Return the devices of a mesh without the losses that all modes share, column by column.

    Where a folded mesh turns, all modes lose light in long guides. The loss of an idle mode is one number for all
    columns, so that a loss of one column may not be part of it.
    """
    devices = record.devices(mesh)
    common = np.ones(devices.columns)
    for mzis, _, _ in devices.schedule:
        common[devices.column[mzis[0]]] = devices.outer[mzis].max()
    idle = np.array(record.idle) / common[record.idle_column] if record.idle else np.ones(1)
    return replace(
        devices,
        outer=devices.outer / common[devices.column][:, np.newaxis],
        idle=min(float(np.mean(idle)), 1.0),
    )


@dataclass
class ModeTracker:
    """Follows the modes of a mesh from left to right, and sets each heater when they reach it.

    Attributes:
        walker: Tracer of light paths in the circuit.
        ends: For each mode, the port at which its light leaves the last device, or its path to the next coupler; None
            for a mode without light.
        error: For each mode, its phase in rad relative to the ideal mesh, δ.
        phases: (H,) phases in rad, written in place.
        recorded: Devices of each mesh that the modes have passed, by prefix of its pad labels.
    """

    walker: PathTracer
    ends: dict[int, LightPath | int | None]
    error: dict[int, float]
    phases: Floats
    recorded: dict[str, MeshRecord] = field(default_factory=dict)

    def arrive(self, row: int) -> LightPath | None:
        """Return the path of a mode's light to the next coupler; None for a mode without light."""
        end = self.ends[row]
        return self.walker.follow(end) if isinstance(end, int) else end

    def mesh(self, name: str, mesh: Mesh, dummies: bool = True) -> None:
        """Advance the modes through a mesh with this prefix of its pad labels, and set the phases of its heaters.

        Without ``dummies``, modes beside the MZIs of a column have guides only.
        """
        count = mesh.row.size
        record = MeshRecord(
            np.zeros((count, 2), dtype=np.int64), np.ones((count, 2, 2)), np.ones((count, 2)), np.ones((count, 2))
        )
        self.recorded[name] = record
        theta = {(c, r): i for i, (c, r) in enumerate(zip(mesh.column.tolist(), mesh.row.tolist(), strict=True))}
        for slot in mesh_slots(mesh.modes, mesh.row.tolist(), mesh.column.tolist()):
            if slot.dummy:
                if dummies:
                    self._dummy(slot.row, record, slot.column)
                continue
            at = theta[slot.column, slot.row]
            self._mzi(f"{name}_c{slot.column}_r{slot.row}", slot.row, mesh.theta[at], mesh.phi[at], record, at)
        for row in range(mesh.modes):
            self.error[row] -= float(mesh.output_phase[row])

    def dummies(self, columns: int) -> None:
        """Advance all modes through columns of dummy MZIs."""
        for _ in range(columns):
            for row in sorted(self.ends):
                self._dummy(row, None)

    def _mzi(self, name: str, row: int, theta: float, phi: float, record: MeshRecord, at: int) -> None:
        walk = self.walker
        outer, inner = walk.heater_number(f"{name}_phi"), walk.heater_number(f"{name}_theta")
        upper, lower = self.arrive(row), self.arrive(row + 1)
        first = walk.first_coupler(name)
        other = walk.bar(walk.cross(first))
        for path, port in ((upper, first), (lower, other)):
            if path is not None and path.port != port:
                raise ValueError(f"light of mode {row} does not reach the MZI of channel {name}_phi by its own arm")
        heated, plain = walk.follow(walk.bar(first)), walk.follow(walk.cross(first))
        above = self.error[row] + static_phase(upper)
        below = self.error[row + 1] + static_phase(lower)
        self.phases[outer] = phi - (above - below)
        self.phases[inner] = theta - (static_phase(heated) - static_phase(plain))
        self.error[row] = self.error[row + 1] = below + static_phase(plain)
        self.ends[row], self.ends[row + 1] = walk.bar(heated.port), walk.cross(heated.port)
        record.heater[at] = outer, inner
        for i, port in enumerate((first, heated.port)):
            record.coupler[at, i] = [abs(walk.amplitude(out(port), port)) for out in (walk.bar, walk.cross)]
        record.inner[at] = abs(heated.transmission), abs(plain.transmission)
        record.outer[at] = [1.0 if path is None else abs(path.transmission) for path in (upper, lower)]

    def _dummy(self, row: int, record: MeshRecord | None, column: int = -1) -> None:
        path = self.arrive(row)
        if path is None:
            return
        walk = self.walker
        straight, across = walk.bar(path.port), walk.cross(path.port)
        one, two = walk.follow(straight), walk.follow(across)
        out = walk.cross(one.port)
        passed = walk.amplitude(straight, path.port) * one.transmission * walk.amplitude(out, one.port)
        passed += walk.amplitude(across, path.port) * two.transmission * walk.amplitude(out, two.port)
        self.error[row] += static_phase(path) + float(np.angle(passed))
        self.ends[row] = out
        if record is not None:
            record.idle.append(abs(path.transmission * passed))
            record.idle_column.append(column)

    def attenuate(self, name: str, attenuation: Floats) -> None:
        """Advance the modes through a column of attenuators of (r,) field transmissions, 0 ... 1, and set their phases.

        An attenuator has the field transmission i e^{iθ/2} sin(θ/2). Modes without an attenuator are removed.
        """
        walk, record = self.walker, list(self.recorded.values())[-1]
        for row in sorted(self.ends):
            if row >= attenuation.size:
                del self.ends[row], self.error[row]
                continue
            path = self.arrive(row)
            if path is None:
                continue
            attenuator = walk.heater_number(f"{name}_r{row}")
            heated, plain = walk.follow(walk.bar(path.port)), walk.follow(walk.cross(path.port))
            theta = 2.0 * float(np.arcsin(attenuation[row]))
            self.phases[attenuator] = theta - (static_phase(heated) - static_phase(plain))
            record.attenuation.append(theta)
            self.error[row] += static_phase(path) + (np.pi + theta) / 2.0 + static_phase(plain)
            self.ends[row] = walk.bar(heated.port)


def static_phase(path: LightPath | None) -> float:
    """Return the phase of a path at zero heater phases, in rad; 0 for None."""
    return 0.0 if path is None else float(np.angle(path.transmission))
