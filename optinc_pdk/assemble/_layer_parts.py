"""Parts of one layer's circuit: fibre couplers, meshes and attenuators, homodyne mixers and modulators."""

from __future__ import annotations

from collections.abc import Sequence

from optinc_pdk.assemble._splitter_trees import add_tree
from optinc_pdk.assemble._weight_blocks import MeshSlot, WeightBlock, chain_slots, rectangular_slots
from optinc_pdk.assemble.die_plan import add_pad
from optinc_pdk.cards import Process
from optinc_pdk.cards.technology import Coupler
from optinc_pdk.circuit import CircuitBuilder
from optinc_pdk.factor import chain_output


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

    def mesh(self, name: str, modes: int, slots: Sequence[MeshSlot] | None = None, output: int | None = None) -> None:
        """Append a mesh, by default a rectangular one, on modes 0 to ``modes`` - 1; names begin with ``name``.

        A mode without an open port carries no light; its input is a terminator. If light leaves at one ``output`` only,
        every other mode ends in a terminator behind its last MZI.
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
            if output is not None:
                # the mode that is further from the output
                self._dump(f"{name}_dump", slot.row + (slot.row >= output), self.column + slot.column + 1)
        self.column += 1 + max((slot.column for slot in slots), default=-1)

    def _dump(self, name: str, row: int, column: int) -> None:
        """Terminate a mode."""
        dump = self.builder.add(f"{name}_r{row}", "terminator", (self.section, column, row))
        self.builder.connect(self.ends.pop(row), f"{dump},o1")

    def dummies(self, name: str, columns: int) -> None:
        """Append columns of dummy MZIs on all modes."""
        b = self.builder
        for number in range(columns):
            for row, end in sorted(self.ends.items()):
                at = (self.section, self.column, row)
                dummy = b.add(f"{name}_c{number}_r{row}_dummy", "mzi_dummy", at)
                b.connect(end, f"{dummy},o1")
                self.ends[row] = f"{dummy},o2"
            self.column += 1

    def attenuators(self, name: str, modes: int) -> None:
        """Append an attenuator to each of the modes 0 to ``modes`` - 1, and a terminator to every other mode."""
        b = self.builder
        for row, end in sorted(self.ends.items()):
            if row >= modes:
                self._dump(f"{name}_dump", row, self.column)
                continue
            attenuator = b.add(f"{name}_r{row}", "attenuator", (self.section, self.column, row))
            b.connect(end, f"{attenuator},o1")
            self.ends[row] = f"{attenuator},o2"
            add_pad(b, attenuator, f"{attenuator},e1", f"{attenuator},e2")
        self.column += 1


def add_fibre(b: CircuitBuilder, coupler: Coupler, label: str, section: str, row: int) -> tuple[str, str]:
    """Add a fibre coupler with a labelled fibre in column 0 of a section; return its guide port and the label."""
    name = b.add(f"fibre_{label}", coupler, (section, 0, row))
    b.ports[label] = f"{name},o2"
    return f"{name},o1", label


def add_linear_block(b: CircuitBuilder, block: WeightBlock, light: Sequence[str]) -> list[str]:
    """Add the meshes and attenuators that realise a block of a weight matrix.

    ``light`` are the ports of its inputs, one for each column; the ports of its outputs, one for each row, are
    returned.
    """
    rows, columns, name = len(block.rows), len(block.columns), block.name
    modes = BlockBuilder(b, name, dict(enumerate(light)))
    if block.chain:
        modes.column = block.padding[0]
        output = chain_output(columns)
        modes.mesh(f"{name}_v", columns, chain_slots(columns), output)
        modes.attenuators(f"{name}_att", columns)
        return [modes.ends[output]]
    if block.modes is None:
        modes.dummies(f"{name}_before", block.padding[0])
        modes.mesh(f"{name}_v", columns)
        modes.attenuators(f"{name}_att", min(rows, columns))
        modes.mesh(f"{name}_u", rows)
        modes.dummies(f"{name}_behind", block.padding[1])
    else:
        modes.mesh(f"{name}_v", block.modes)
        modes.attenuators(f"{name}_att", rows)
    return [modes.ends[row] for row in range(rows)]


def add_mixers(b: CircuitBuilder, name: str, rows: Sequence[str], process: Process) -> tuple[str, list[str], list[str]]:
    """Add a homodyne mixer and a trim phase shifter for its local oscillator to each output of a bank's blocks.

    If activations are on the chip, the detectors are photodiodes, each with a pad. Otherwise they are on the board, and
    each mixer output leads to a fibre.

    Returns:
        The open root port of the splitter tree that feeds the local oscillators, the labels of the positive detectors,
        and the labels of the negative detectors; labels are in the order of ``rows``.
    """
    leaves: list[str] = []
    plus: list[str] = []
    minus: list[str] = []
    section = f"{name}_mix"
    for row, light in enumerate(rows):
        mixer = b.add(f"{name}_mix_r{row}", "mmi2x2", (section, 0, row))
        trim = b.add(f"{name}_lo_r{row}", "phase_shifter", (section, 0, row))
        add_pad(b, trim, f"{trim},e1", f"{trim},e2")
        b.connect(light, f"{mixer},o2")
        b.connect(f"{trim},o1", f"{mixer},o1")
        leaves.append(f"{trim},o2")
        for side, port, labels in (("p", "o3", plus), ("n", "o4", minus)):
            label = f"{name}_{side}_r{row}"
            if process.activation.realisation == "onchip":
                guide = _photodiode(b, label, section, row)
            else:
                guide, _ = add_fibre(b, process.fibres.coupler, label, section, row)
            b.connect(f"{mixer},{port}", guide)
            labels.append(label)
    return add_tree(b, f"{name}_lo", section, None, leaves), plus, minus


def _photodiode(b: CircuitBuilder, label: str, section: str, row: int) -> str:
    """Add a photodiode with a labelled pad; return its guide port."""
    photodiode = b.add(f"photodiode_{label}", "photodiode", (section, 0, row))
    add_pad(b, label, f"{photodiode},e1", f"{photodiode},e2")
    return f"{photodiode},o1"


def add_modulators(b: CircuitBuilder, coupler: Coupler, bank: str, section: str, count: int) -> list[tuple[str, str]]:
    """Add a bank of modulators with a labelled pad each, and a splitter tree that feeds all of them.

    The carrier enters the tree from one fibre, ``carrier_<bank>``. The tree has a power of two of leaves, so that all
    modulators receive the same power; unused leaves are terminated.

    Returns:
        For each modulator, its output port and the label of its pad.
    """
    ends: list[tuple[str, str]] = []
    leaves: list[str] = []
    for row in range(count):
        label = f"{bank}_in_r{row}"
        modulator = b.add(f"modulator_{label}", "modulator", (section, 0, row))
        add_pad(b, label, f"{modulator},e1", f"{modulator},e2")
        leaves.append(f"{modulator},o1")
        ends.append((f"{modulator},o2", label))
    # a tree whose number of leaves is no power of two would feed the modulators unequally
    for row in range(len(leaves), 1 << (len(leaves) - 1).bit_length()):
        dark = b.add(f"{bank}_carrier_dark_r{row}", "terminator", (section, 0, row))
        leaves.append(f"{dark},o1")
    carrier, _ = add_fibre(b, coupler, f"carrier_{bank}", section, len(leaves))
    add_tree(b, f"{bank}_carrier", section, carrier, leaves)
    return ends
