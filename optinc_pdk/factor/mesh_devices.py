r"""Devices of an imperfect mesh: coupler angles, losses and static phases of every MZI.

The devices of one MZI, from left to right (the ideal one is in :mod:`optinc_pdk.factor.mesh`)::

    row     --[outer 0, phi_offset + phi]--\         /--[inner 0, theta_offset + theta]--\          /---
                                            C(first)                                      C(second)
    row + 1 --[outer 1]--------------------/         \--[inner 1]------------------------/          \---

with C(x) = [[cos x, i sin x], [i sin x, cos x]]. A coupler of ratio r couples the share r = sin^2 x of the power
across, so 50:50 is x = pi/4. A static phase of a lower arm equals the opposite phase of the upper arm and a phase
common to both; common phases of all MZIs are included in phi_offset of the next MZIs and in the output phases.

Gradients of functions of the mesh's matrix follow from one forward and one backward pass (the adjoint method of arXiv
1805.09943): with the fields F at an MZI's inputs and the adjoint rows C at its outputs, its transfer T contributes
sum C T F, whose derivative by T[m, o] is sum_v C[m, v] F[o, v]. Fields inside the mesh are not stored: the backward
pass inverts the light MZI by MZI, with N^3 work and N^2 memory, for which the transfers must be invertible.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.factor.mesh import Mesh

_DB = np.log(10.0) / 20.0


@dataclass(frozen=True, eq=False)
class MeshDevices:
    """Positions and imperfections of all MZIs of a mesh. Columns behind the rectangle or triangle are redundant.

    Attributes:
        modes: Number of guides N.
        row: (MZIs,) upper mode of each MZI.
        column: (MZIs,) column of each MZI; light passes column 0 first.
        first: (MZIs,) angle of the first coupler in rad, pi/4 for 50:50.
        second: (MZIs,) angle of the second coupler in rad.
        theta_offset: (MZIs,) phase of the heated inner arm relative to the other one with the heater off, in rad.
        phi_offset: (MZIs,) phase of the heated input arm relative to the other one with the heater off, in rad.
        inner: (MZIs, 2) field transmission of the arms between the couplers, heated one first, in (0, 1].
        outer: (MZIs, 2) field transmission of the input arms, heated one first, in (0, 1]. The loss of the couplers
            is included in either.
        idle: Field transmission of a mode where a column has no MZI, in (0, 1]: that of a dummy, or 1.

    Raises:
        ValueError: Shapes disagree, a number is out of range, or two MZIs of a column share a mode.
    """

    modes: int
    row: Ints
    column: Ints
    first: Floats
    second: Floats
    theta_offset: Floats
    phi_offset: Floats
    inner: Floats
    outer: Floats
    idle: float = 1.0

    def __post_init__(self) -> None:
        """Checks shapes, ranges and positions."""
        if self.modes < 1:
            raise ValueError(f"modes is {self.modes}; a mesh has at least 1")
        count = self.row.size
        for field in fields(self):
            values = getattr(self, field.name)
            if not isinstance(values, np.ndarray):
                continue
            shape = (count, 2) if field.name in ("inner", "outer") else (count,)
            if values.shape != shape:
                raise ValueError(f"{field.name} has shape {values.shape}; for {count} MZIs give {shape}")
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{field.name} holds {values[~np.isfinite(values)][0]}; give finite numbers")
        for name, values in (("inner", self.inner), ("outer", self.outer), ("idle", np.array([self.idle]))):
            wrong = values[~((values > 0.0) & (values <= 1.0))]
            if wrong.size:
                raise ValueError(f"{name} holds {wrong[0]}; a field transmission is above 0 and at most 1")
        self._check_positions()

    def _check_positions(self) -> None:
        for name, positions, limit in (("row", self.row, self.modes - 2), ("column", self.column, np.inf)):
            wrong = positions[(positions < 0) | (positions > limit)]
            if wrong.size:
                raise ValueError(f"{name} holds {wrong[0]}; with {self.modes} modes it must be 0 to {limit}")
        used = np.concatenate([self.column * self.modes + self.row + side for side in (0, 1)])
        slots, uses = np.unique(used, return_counts=True)
        if np.any(uses > 1):
            column, mode = divmod(int(slots[np.argmax(uses > 1)]), self.modes)
            raise ValueError(f"two MZIs of column {column} touch mode {mode}; move one to another column")

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self.column.max(initial=-1)) + 1

    @cached_property
    def order(self) -> Ints:
        """Indices of the MZIs, (MZIs,), sorted by column, then row."""
        return np.lexsort((self.row, self.column))

    @cached_property
    def hot_transfers(self) -> Complexes:
        """(MZIs, 2, 2) parts of the transfers through the heated inner arm with heaters off, in the order of light.

        Indexed [MZI, output, input]; relative to the transmission of an idle mode, as `cold_transfers`.
        """
        heated = np.exp(1j * self.theta_offset[self.order])[:, np.newaxis, np.newaxis]
        return np.asarray(self._arm(0) * heated)

    @cached_property
    def cold_transfers(self) -> Complexes:
        """(MZIs, 2, 2) parts of the transfers through the other inner arm with heaters off, in the order of light."""
        return self._arm(1)

    def _arm(self, arm: int) -> Complexes:
        """(MZIs, 2, 2) transfers through one inner arm, without its own phase offset."""
        first, second = (np.stack([np.cos(x), 1j * np.sin(x)]) for x in (self.first, self.second))
        # into the upper arm straight from the upper input and across from the lower one, and out of it alike
        into, out_of = (first, second) if arm == 0 else (first[::-1], second[::-1])
        outer = self.outer * np.stack([np.exp(1j * self.phi_offset), np.ones(self.row.size)], axis=1)
        through = self.inner[:, arm] / self.idle
        return np.asarray(np.einsum("om,m,im,mi->moi", out_of, through, into, outer)[self.order])

    @cached_property
    def schedule(self) -> tuple[tuple[Ints, Ints, Ints], ...]:
        """For each column, from left to right: indices of its MZIs, their upper modes, and the modes without an MZI."""
        starts = np.searchsorted(self.column[self.order], np.arange(1, self.columns))
        parts = []
        for mzis in np.split(self.order, starts) if self.columns else []:
            upper = self.row[mzis]
            idle = np.setdiff1d(np.arange(self.modes), np.concatenate([upper, upper + 1]))
            parts.append((mzis, upper, idle))
        return tuple(parts)


def mesh_devices(
    mesh: Mesh,
    *,
    first_ratio: ArrayLike = 0.5,
    second_ratio: ArrayLike = 0.5,
    theta_offset: ArrayLike = 0.0,
    phi_offset: ArrayLike = 0.0,
    inner_loss_db: ArrayLike = 0.0,
    outer_loss_db: ArrayLike = 0.0,
    idle_loss_db: float = 0.0,
    redundant_columns: int = 0,
) -> MeshDevices:
    """Create the devices of a mesh from measurable parameters: power ratios, dB and rad. The defaults are ideal.

    Args:
        mesh: Positions of the MZIs; its phases are not used.
        first_ratio: (MZIs,) or one number, fraction of the power that the first coupler couples across.
        second_ratio: The same for the second coupler.
        theta_offset: (MZIs,) or one number, phase of the heated inner arm relative to the other arm with the heater
            off, in rad.
        phi_offset: The same for the input arms.
        inner_loss_db: (MZIs, 2), (MZIs, 1) or one number, power loss in dB of the arms between the couplers, heated arm
            first.
        outer_loss_db: The same for the input arms.
        idle_loss_db: Power loss in dB of a mode where a column has no MZI, for example the loss of a dummy.
        redundant_columns: Number of columns of MZIs appended at the outputs. In all arrays their MZIs follow those of
            the mesh, sorted by column and row.

    Raises:
        ValueError: A ratio is outside [0, 1], a loss is negative, or :class:`MeshDevices` rejects a value.
    """
    row, column = _positions(mesh, redundant_columns)
    count = row.size
    return MeshDevices(
        modes=mesh.modes,
        row=row,
        column=column,
        first=_coupler_angle("first_ratio", first_ratio, count),
        second=_coupler_angle("second_ratio", second_ratio, count),
        theta_offset=_broadcast("theta_offset", theta_offset, (count,)),
        phi_offset=_broadcast("phi_offset", phi_offset, (count,)),
        inner=_transmission("inner_loss_db", inner_loss_db, (count, 2)),
        outer=_transmission("outer_loss_db", outer_loss_db, (count, 2)),
        idle=float(_transmission("idle_loss_db", idle_loss_db, ())),
    )


def random_mesh_devices(
    mesh: Mesh, rng: np.random.Generator, splitter_rms: float, redundant_columns: int = 0
) -> MeshDevices:
    """Create lossless MZIs whose couplers have independent random power ratios from N(1/2, splitter_rms^2).

    A ``splitter_rms`` of 0.02 makes a 50:50 coupler 52:48 at one sigma. ``redundant_columns`` is that of
    :func:`mesh_devices`.

    Raises:
        ValueError: splitter_rms is outside [0, 0.1]; beyond that a ratio may leave [0, 1].
    """
    if not 0.0 <= splitter_rms <= 0.1:
        raise ValueError(f"splitter_rms is {splitter_rms}; give 0 to 0.1, it is a share of the power")
    count = _positions(mesh, redundant_columns)[0].size
    ratio = 0.5 + splitter_rms * rng.standard_normal((2, count))
    return mesh_devices(mesh, first_ratio=ratio[0], second_ratio=ratio[1], redundant_columns=redundant_columns)


def _positions(mesh: Mesh, redundant: int) -> tuple[Ints, Ints]:
    if isinstance(redundant, bool) or not isinstance(redundant, int | np.integer) or redundant < 0:
        raise ValueError(f"redundant_columns is {redundant!r}; give a whole number, 0 or more")
    row, column = [mesh.row], [mesh.column]
    start = int(mesh.column.max(initial=-1)) + 1
    # each column joins the pairs that the one in front of it does not
    shift = 1 + (int(mesh.row[mesh.column == start - 1].min()) if start else 0)
    for extra in range(start, start + redundant):
        upper = np.arange((shift + extra - start) % 2 if mesh.modes > 2 else 0, mesh.modes - 1, 2, dtype=np.int64)
        row.append(upper)
        column.append(np.full(upper.size, extra, dtype=np.int64))
    return np.concatenate(row), np.concatenate(column)


def _coupler_angle(name: str, ratio: ArrayLike, count: int) -> Floats:
    values = _broadcast(name, ratio, (count,))
    wrong = values[~((values >= 0.0) & (values <= 1.0))]
    if wrong.size:
        raise ValueError(f"{name} holds {wrong[0]}; a share of the power is 0 to 1")
    angle: Floats = np.arcsin(np.sqrt(values))
    return angle


def _transmission(name: str, loss_db: ArrayLike, shape: tuple[int, ...]) -> Floats:
    values = _broadcast(name, loss_db, shape)
    wrong = values[~((values >= 0.0) & (values < np.inf))]
    if wrong.size:
        raise ValueError(f"{name} holds {wrong[0]} dB; a passive device loses 0 dB or more")
    transmission: Floats = np.exp(-_DB * values)
    return transmission


def _broadcast(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    array: NDArray[Any] = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} has dtype {array.dtype}; give real numbers")
    try:
        return np.broadcast_to(array.astype(np.float64), shape).copy()
    except ValueError:
        raise ValueError(f"{name} has shape {array.shape}; give one number or shape {shape}") from None


def transmit(devices: MeshDevices, theta: Floats, phi: Floats, fields: Complexes) -> Complexes:
    """Return the (N, vectors) fields behind an imperfect mesh, without output phases, for (MZIs,) phases and input
    fields.
    """
    from optinc_pdk.factor import kernels

    light = np.empty(fields.shape, dtype=np.complex128)
    inputs = np.ascontiguousarray(fields, dtype=np.complex128)
    kernels.propagate_forward(devices.row[devices.order], _transfers(devices, theta, phi)[0], inputs, light)
    light *= devices.idle**devices.columns
    return light


def phase_gradients(
    devices: MeshDevices, theta: Floats, phi: Floats, light: Complexes, rows: Complexes
) -> tuple[Floats, Floats]:
    """Return the derivatives of Re sum(rows * light) by theta and by phi of all MZIs, two times (MZIs,), per rad.

    ``light`` has the (N, vectors) output fields that :func:`transmit` returns for these phases, ``rows`` their weights.
    """
    from optinc_pdk.factor import kernels

    transfer, by_theta_transfer = _transfers(devices, theta, phi)
    derivative = np.empty_like(transfer)
    idle_transmission = devices.idle**devices.columns
    outputs = np.ascontiguousarray(light) / idle_transmission
    adjoint = np.ascontiguousarray(rows) * idle_transmission
    kernels.transfer_derivatives(devices.row[devices.order], transfer, outputs, adjoint, derivative)
    by_theta, by_phi = np.empty(theta.size), np.empty(theta.size)
    by_theta[devices.order] = np.sum(by_theta_transfer * derivative, axis=(1, 2)).real
    by_phi[devices.order] = -np.sum(transfer[:, :, 0] * derivative[:, :, 0], axis=1).imag
    return by_theta, by_phi


def _transfers(devices: MeshDevices, theta: Floats, phi: Floats) -> tuple[Complexes, Complexes]:
    """(M, 2, 2) transfers of the MZIs, in the order of light, and their derivatives by theta.

    Both are relative to the transmission of an idle mode, which becomes one factor of the whole mesh.
    """
    order = devices.order
    hot = devices.hot_transfers * np.exp(1j * theta[order])[:, np.newaxis, np.newaxis]
    transfer, by_theta = hot + devices.cold_transfers, 1j * hot
    heated = np.exp(1j * phi[order])[:, np.newaxis]
    transfer[:, :, 0] *= heated
    by_theta[:, :, 0] *= heated
    return transfer, by_theta
