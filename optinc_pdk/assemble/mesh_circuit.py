"""Meshes and attenuators of one linear block, with dummy MZIs at the edges and terminators on unused modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optinc_pdk.assemble.grounds import HUB
from optinc_pdk.circuit import CircuitBuilder


@dataclass(frozen=True)
class MeshSlot:
    """Position of one MZI or dummy MZI in a mesh.

    Attributes:
        row: Upper mode of the MZI, or the only mode of the dummy, counted from 0 at the top.
        column: Column, counted from 0 at the inputs.
        dummy: True for a dummy.
        narrow: True for a dummy beside others; see :func:`optinc_pdk.cells.interferometers.mzi_dummy`.
    """

    row: int
    column: int
    dummy: bool
    narrow: bool = False


def rectangular_slots(modes: int) -> list[MeshSlot]:
    """Return the positions of all MZIs and dummies of a rectangular mesh (Clements et al., Optica 3, 1460 (2016)).

    A mode that has no partner in a column gets a dummy, so that all paths have the same insertion loss.

    Args:
        modes: Number of modes N. The mesh has N columns for N ≥ 3, one for N = 2 and none for N = 1.

    Returns:
        Positions, column by column; in each column, MZIs come before dummies.
    """
    places = [(row, column) for column in range(mesh_depth(modes)) for row in range(column % 2, modes - 1, 2)]
    return mesh_slots(modes, [row for row, _ in places], [column for _, column in places])


def mesh_slots(modes: int, row: Sequence[int], column: Sequence[int]) -> list[MeshSlot]:
    """Return the positions of all MZIs and dummies of a mesh.

    A mode that has no partner in a column gets a dummy, so that all paths have the same insertion loss.

    Args:
        modes: Number of modes N.
        row: Upper mode of each MZI.
        column: Column of each MZI.

    Returns:
        Positions, column by column; in each column, MZIs come before dummies.
    """
    uppers: dict[int, list[int]] = {number: [] for number in range(1 + max(column, default=-1))}
    for upper, number in sorted(zip(row, column, strict=True)):
        uppers[number].append(upper)
    slots: list[MeshSlot] = []
    for number, pairs in uppers.items():
        covered = {mode for upper in pairs for mode in (upper, upper + 1)}
        slots += [MeshSlot(upper, number, False) for upper in pairs]
        idle = [mode for mode in range(modes) if mode not in covered]
        slots += [MeshSlot(mode, number, True, mode + 1 in idle or mode - 1 in idle) for mode in idle]
    return slots


def mesh_depth(modes: int) -> int:
    """Return the number of columns of a rectangular mesh of ``modes`` modes."""
    return modes if modes > 2 else modes - 1


class BlockBuilder:
    """Adds the components of a linear block from left to right and tracks the open port at the end of each mode.

    Attributes:
        builder: Circuit under construction.
        section: Section of the floorplan in which components are placed.
        ends: Mode number to the open port at the end of that mode.
        column: Column of the section at which the next component is placed.
    """

    def __init__(self, builder: CircuitBuilder, section: str, ends: dict[int, str]) -> None:
        """Start with the ports at which light enters; modes without a port have no light."""
        self.builder = builder
        self.section = section
        self.ends = dict(ends)
        self.column = 0

    def mesh(self, name: str, modes: int, slots: Sequence[MeshSlot] | None = None) -> None:
        """Append a mesh on modes 0 to ``modes`` - 1.

        A mode without an open port carries no light; its input is a terminator.

        Args:
            name: Prefix of the instance names.
            modes: Number of modes.
            slots: Positions of its MZIs and dummies; None for a rectangular mesh.
        """
        b = self.builder
        for row in range(modes):
            if row not in self.ends:
                dark = b.add(f"{name}_dark_r{row}", "terminator", (self.section, self.column, row))
                self.ends[row] = f"{dark},o1"
        slots = rectangular_slots(modes) if slots is None else slots
        for slot in slots:
            at = (self.section, self.column + slot.column, slot.row)
            if slot.dummy:
                component = "mzi_narrow_dummy" if slot.narrow else "mzi_dummy"
                dummy = b.add(f"{name}_c{slot.column}_r{slot.row}_dummy", component, at)
                b.connect(self.ends[slot.row], f"{dummy},o1")
                self.ends[slot.row] = f"{dummy},o2"
                continue
            mzi = b.add(f"{name}_c{slot.column}_r{slot.row}", "mzi_unit", at)
            b.connect(self.ends[slot.row], f"{mzi},o2")
            b.connect(self.ends[slot.row + 1], f"{mzi},o1")
            self.ends[slot.row], self.ends[slot.row + 1] = f"{mzi},o3", f"{mzi},o4"
            add_pad(b, f"{mzi}_phi", f"{mzi},e1", f"{mzi},e2")
            add_pad(b, f"{mzi}_theta", f"{mzi},e3", f"{mzi},e4")
        self.column += 1 + max((slot.column for slot in slots), default=-1)

    def dummies(self, name: str, columns: int) -> None:
        """Append columns of dummy MZIs on all modes.

        Args:
            name: Prefix of the instance names.
            columns: Number of columns.
        """
        b = self.builder
        for number in range(columns):
            for row, end in sorted(self.ends.items()):
                at = (self.section, self.column, row)
                dummy = b.add(f"{name}_c{number}_r{row}_dummy", "mzi_dummy", at)
                b.connect(end, f"{dummy},o1")
                self.ends[row] = f"{dummy},o2"
            self.column += 1

    def attenuators(self, name: str, modes: int) -> None:
        """Append an attenuator to each of the modes 0 to ``modes`` - 1, and a terminator to every other mode.

        Args:
            name: Prefix of the instance names.
            modes: Number of modes that continue.
        """
        b = self.builder
        for row, end in sorted(self.ends.items()):
            at = (self.section, self.column, row)
            if row >= modes:
                dump = b.add(f"{name}_dump_r{row}", "terminator", at)
                b.connect(end, f"{dump},o1")
                del self.ends[row]
                continue
            attenuator = b.add(f"{name}_r{row}", "attenuator", at)
            b.connect(end, f"{attenuator},o1")
            self.ends[row] = f"{attenuator},o2"
            add_pad(b, attenuator, f"{attenuator},e1", f"{attenuator},e2")
        self.column += 1


def add_pad(b: CircuitBuilder, label: str, signal: str, ground: str) -> None:
    """Add a labelled pad, connect it to a port, and connect a second port to ground.

    Args:
        b: Circuit under construction.
        label: Label of the pad.
        signal: Electrical port of the heater, photodiode or modulator that the pad drives or reads.
        ground: Other electrical port of this device; it is joined to ``grounds.HUB``.
    """
    b.add(f"pad_{label}", "pad")
    b.ports[label] = f"pad_{label},e1"
    b.connect(f"pad_{label},e1", signal)
    b.connect(HUB, ground)
