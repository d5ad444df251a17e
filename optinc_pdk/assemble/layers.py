"""One layer on the chip: its blocks' meshes, and the light into, out of and between them."""

from __future__ import annotations

from collections.abc import Sequence

from optinc_pdk.assemble.blocks import Block
from optinc_pdk.assemble.mesh import Modes, add_pad
from optinc_pdk.assemble.shuffle import shuffle
from optinc_pdk.assemble.trees import spread, tree
from optinc_pdk.circuit import Builder


def fibre(b: Builder, label: str, section: str, row: int) -> tuple[str, str]:
    """Add a labelled grating coupler; returns its guide port and its label."""
    coupler = b.add(f"fibre_{label}", "grating_coupler", (section, 0, row))
    b.ports[label] = f"{coupler},o2"
    return f"{coupler},o1", label


def linear_block(b: Builder, block: Block, light: Sequence[str]) -> list[str]:
    """A block's meshes and attenuators, from the light of its columns to the ports of its rows."""
    rows, columns, name = len(block.rows), len(block.columns), block.name
    modes = Modes(b, name, dict(enumerate(light)))
    if block.modes is None:
        modes.mesh(f"{name}_v", columns)
        modes.attenuators(f"{name}_att", min(rows, columns))
        modes.mesh(f"{name}_u", rows)
    else:
        modes.mesh(f"{name}_v", block.modes)
        modes.attenuators(f"{name}_att", rows)
    return [modes.ends[row] for row in range(rows)]


def split(b: Builder, layer: str, blocks: Sequence[Block], light: Sequence[str]) -> list[list[str]]:
    """Copies of every input for the blocks that share it; per block, the ports of its columns.

    One tree per input, then crossings from input-major to block-major order, in the section ``<layer>_split``.
    """
    copies = 1 + max(block.place[0] for block in blocks)
    section = f"{layer}_split"
    ends = [port for i, root in enumerate(light) for port in spread(b, f"{section}_m{i}", section, root, copies)]
    order = [i * copies + copy for copy in range(copies) for i in range(len(light))]
    moved = shuffle(b, section, section, ends, order)
    # a row of blocks takes every input once
    return [[moved[block.place[0] * len(light) + column] for column in block.columns] for block in blocks]


def add(b: Builder, layer: str, blocks: Sequence[Block], rows: Sequence[Sequence[str]]) -> list[str]:
    """Sums of the fields that the blocks have for each output, in the section ``<layer>_sum``.

    A trim per block and row, crossings from block-major to output-major order, a combiner tree per output.
    """
    parts = 1 + max(block.place[1] for block in blocks)
    if parts == 1:
        return [port for block in rows for port in block]
    section = f"{layer}_sum"
    ends: list[str] = []
    source: list[tuple[int, int]] = []
    for block, ports in zip(blocks, rows, strict=True):
        for row, port in enumerate(ports):
            label = f"{block.name}_sum_r{row}"
            trim = b.add(label, "phase_shifter", (section, 0, len(ends)))
            b.connect(port, f"{trim},o1")
            add_pad(b, label, f"{trim},e1", f"{trim},e2")
            ends.append(f"{trim},o2")
            source.append((block.rows[row], block.place[1]))
    order = sorted(range(len(ends)), key=source.__getitem__)
    moved = shuffle(b, section, section, ends, order, column=1)
    outputs = len(ends) // parts
    return [tree(b, f"{section}_m{i}", section, None, moved[i * parts : (i + 1) * parts]) for i in range(outputs)]


def mixers(b: Builder, name: str, rows: Sequence[str], onchip: bool) -> tuple[str, list[str], list[str]]:
    """Homodyne mixers with trimmed local oscillators; returns the oscillators' root and the detectors' labels.

    The detectors are photodiodes with a pad each, or on the board behind a fibre each.
    """
    leaves: list[str] = []
    plus: list[str] = []
    minus: list[str] = []
    for row, light in enumerate(rows):
        mixer = b.add(f"{name}_mix_r{row}", "mmi2x2", (f"{name}_mix", 0, row))
        trim = b.add(f"{name}_lo_r{row}", "phase_shifter", (f"{name}_mix", 0, row))
        add_pad(b, trim, f"{trim},e1", f"{trim},e2")
        b.connect(light, f"{mixer},o2")
        b.connect(f"{trim},o1", f"{mixer},o1")
        leaves.append(f"{trim},o2")
        for side, port, labels in (("p", "o3", plus), ("n", "o4", minus)):
            label = f"{name}_{side}_r{row}"
            guide = _photodiode(b, label, f"{name}_mix", row) if onchip else fibre(b, label, f"{name}_mix", row)[0]
            b.connect(f"{mixer},{port}", guide)
            labels.append(label)
    return tree(b, f"{name}_lo", f"{name}_mix", None, leaves), plus, minus


def _photodiode(b: Builder, label: str, section: str, row: int) -> str:
    """Add a photodiode with a labelled pad; returns its guide port."""
    photodiode = b.add(f"photodiode_{label}", "photodiode", (section, 0, row))
    add_pad(b, label, f"{photodiode},e1", f"{photodiode},e2")
    return f"{photodiode},o1"


def modulators(b: Builder, block: Block) -> list[tuple[str, str]]:
    """A modulator with a labelled pad per column of a block, on the carrier of one fibre.

    Returns:
        Each one's guide port and label.
    """
    ends: list[tuple[str, str]] = []
    leaves: list[str] = []
    for row in range(len(block.columns)):
        label = f"{block.name}_in_r{row}"
        modulator = b.add(f"modulator_{label}", "modulator", (block.name, 0, row))
        add_pad(b, label, f"{modulator},e1", f"{modulator},e2")
        leaves.append(f"{modulator},o1")
        ends.append((f"{modulator},o2", label))
    # a tree of fewer leaves would feed them unequally
    for row in range(len(leaves), 1 << (len(leaves) - 1).bit_length()):
        dark = b.add(f"{block.name}_carrier_dark_r{row}", "terminator", (block.name, 0, row))
        leaves.append(f"{dark},o1")
    carrier, _ = fibre(b, f"carrier_{block.name}", block.name, len(leaves))
    tree(b, f"{block.name}_carrier", block.name, carrier, leaves)
    return ends
