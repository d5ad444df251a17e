"""Initial phases of a mesh: its modes are followed from left to right, and each heater is set as they reach it.

With D = diag(e^{i δ}) in front of an MZI on modes (k, k + 1), phi - (δ_k - δ_{k+1}) makes both outputs carry
e^{i δ_{k+1}}; so phase errors are carried along mode by mode to the outputs, where they do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.assemble import mesh_slots
from optinc_pdk.factor import Mesh
from optinc_pdk.factor.devices import MeshDevices
from optinc_pdk.simulate.programming.light_paths import COUPLER, LightPath, PathTracer


def heater_number(channel: dict[str, int], label: str) -> int:
    """Return the number of the heater that a pad drives.

    Args:
        channel: Heater number by pad label.
        label: Label of the pad.

    Raises:
        ValueError: No heater has this label.
    """
    if label not in channel:
        raise ValueError(f"no heater is driven by channel {label!r}; the circuit does not belong to this network")
    return channel[label]


def first_coupler(walk: PathTracer, channel: dict[str, int], name: str) -> int:
    """Return the input port of an MZI's first coupler that is connected to the outer heater (phi).

    Args:
        walk: Tracer of light paths in the circuit.
        channel: Heater number by pad label.
        name: Prefix of the MZI's pad labels, which end in ``_phi`` and ``_theta``.

    Raises:
        ValueError: The two channels do not heat one MZI.
    """
    outer, inner = heater_number(channel, f"{name}_phi"), heater_number(channel, f"{name}_theta")
    for port in walk.structure.heater_port[outer].tolist():
        path = walk.follow(port)
        if walk.ends(path.port) == COUPLER and inner in walk.follow(walk.bar(path.port)).heaters:
            return path.port
    raise ValueError(f"channels {name}_phi and {name}_theta do not heat one MZI of this circuit")


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

        Args:
            mesh: The ideal mesh, which gives the positions of the MZIs.
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

    Args:
        record: Devices as the modes passed them.
        mesh: The ideal mesh, which gives the positions of the MZIs.
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
        channel: Heater number by pad label.
        ends: For each mode, the port at which its light leaves the last device, or its path to the next coupler; None
            for a mode without light.
        error: For each mode, its phase in rad relative to the ideal mesh, δ.
        phases: (H,) phases in rad, written in place.
        recorded: Devices of each mesh that the modes have passed, by prefix of its pad labels.
    """

    walker: PathTracer
    channel: dict[str, int]
    ends: dict[int, LightPath | int | None]
    error: dict[int, float]
    phases: Floats
    recorded: dict[str, MeshRecord] = field(default_factory=dict)

    def arrive(self, row: int) -> LightPath | None:
        """Return the path of a mode's light to the next coupler; None for a mode without light."""
        end = self.ends[row]
        return self.walker.follow(end) if isinstance(end, int) else end

    def mesh(self, name: str, mesh: Mesh) -> None:
        """Advance the modes through a mesh and set the phases of its heaters.

        Args:
            name: Prefix of the pad labels of the mesh.
            mesh: Ideal phases of the mesh.
        """
        count = mesh.row.size
        record = MeshRecord(
            np.zeros((count, 2), dtype=np.int64), np.ones((count, 2, 2)), np.ones((count, 2)), np.ones((count, 2))
        )
        self.recorded[name] = record
        theta = {(c, r): i for i, (c, r) in enumerate(zip(mesh.column.tolist(), mesh.row.tolist(), strict=True))}
        for slot in mesh_slots(mesh.modes, mesh.row.tolist(), mesh.column.tolist()):
            if slot.dummy:
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
        outer, inner = heater_number(self.channel, f"{name}_phi"), heater_number(self.channel, f"{name}_theta")
        upper, lower = self.arrive(row), self.arrive(row + 1)
        first = first_coupler(walk, self.channel, name)
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
        """Advance the modes through a column of attenuators and set their phases.

        An attenuator has the field transmission i e^{iθ/2} sin(θ/2). Modes without an attenuator are removed.

        Args:
            name: Prefix of the attenuators' pad labels.
            attenuation: (r,) magnitudes of the field transmission, 0 ... 1.
        """
        walk, record = self.walker, list(self.recorded.values())[-1]
        for row in sorted(self.ends):
            if row >= attenuation.size:
                del self.ends[row], self.error[row]
                continue
            path = self.arrive(row)
            if path is None:
                continue
            attenuator = heater_number(self.channel, f"{name}_r{row}")
            heated, plain = walk.follow(walk.bar(path.port)), walk.follow(walk.cross(path.port))
            theta = 2.0 * float(np.arcsin(attenuation[row]))
            self.phases[attenuator] = theta - (static_phase(heated) - static_phase(plain))
            record.attenuation.append(theta)
            self.error[row] += static_phase(path) + (np.pi + theta) / 2.0 + static_phase(plain)
            self.ends[row] = walk.bar(heated.port)


def static_phase(path: LightPath | None) -> float:
    """Return the phase of a path at zero heater phases, in rad; 0 for None."""
    return 0.0 if path is None else float(np.angle(path.transmission))
