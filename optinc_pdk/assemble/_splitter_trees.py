"""Splitter trees that copy the inputs to several blocks, and combiner trees that sum the blocks' outputs.

Trees of 1×2 splitters are built level by level. Each level splits (or joins) all guides of a group and then permutes
them half by half, which takes n (n - 1) / 2 crossings for n guides. Complete trees followed by one permutation would
take B / 2 times as many crossings for B blocks, and every crossing adds loss and crosstalk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optinc_pdk.assemble._weight_blocks import WeightBlock
from optinc_pdk.assemble.die_plan import add_pad
from optinc_pdk.cards import Process
from optinc_pdk.circuit import CircuitBuilder
from optinc_pdk.errors import InputError


def add_tree(b: CircuitBuilder, name: str, section: str, root: str | None, leaves: list[str]) -> str:
    """Connect a root port, None to leave it open, to leaf ports, uppermost first, through a tree of 1×2 splitters.

    Splitters are reciprocal, so a combiner is the same tree. In a subtree of n leaves, the first ⌈n/2⌉ leaves are on
    the upper branch. ``name`` is the prefix of the splitters' names.

    Returns:
        The port at the root: o1 of the first splitter, or the leaf itself if there is only one.
    """
    top = _branch(b, name, section, leaves, 0)[0]
    if root is not None:
        b.connect(root, top)
    return top


def _branch(b: CircuitBuilder, name: str, section: str, leaves: list[str], first: int) -> tuple[str, int]:
    """Add a branch; return the port at its root and its height in levels."""
    if len(leaves) == 1:
        return leaves[0], 0
    half = (len(leaves) + 1) // 2
    upper, high = _branch(b, name, section, leaves[:half], first)
    lower, low = _branch(b, name, section, leaves[half:], first + half)
    height = max(high, low) + 1
    node = b.add(f"{name}_{first}_{first + len(leaves) - 1}", "mmi1x2", (section, height, first))
    b.connect(f"{node},o2", upper)
    b.connect(f"{node},o3", lower)
    return f"{node},o1", height


def swap_columns(order: Sequence[int]) -> list[list[int]]:
    """Return columns of adjacent swaps that permute n guides, by odd-even transposition (Knuth, TAOCP 3, 5.3.4).

    Guide ``order[i]``, counted from 0 at the top, is moved to row i. A column lists the upper rows of its swaps. The
    number of swaps is the minimum: it equals the number of inversions of the permutation. Both variants of the
    transposition, which start with even or with odd rows, are tried, and the one with fewer columns is returned.
    """
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"order is {list(order)}; give every guide 0 … {len(order) - 1} once")
    return min((_transposition(order, first) for first in (0, 1)), key=len)


def _transposition(order: Sequence[int], first: int) -> list[list[int]]:
    destination = [0] * len(order)
    for place, guide in enumerate(order):
        destination[guide] = place
    columns: list[list[int]] = []
    for step in range(first, first + len(destination) + 1):
        swaps = [row for row in range(step % 2, len(destination) - 1, 2) if destination[row] > destination[row + 1]]
        for row in swaps:
            destination[row], destination[row + 1] = destination[row + 1], destination[row]
        if swaps:
            columns.append(swaps)
    return columns


def permute(
    b: CircuitBuilder, section: str, ends: Sequence[str], order: Sequence[int], column: int = 0, row: int = 0
) -> list[str]:
    """Permute the guides at open ports ``ends``, uppermost first, by adding waveguide crossings; return the open ports.

    Guide ``order[i]`` is moved to position i. A crossing has ports o1 (lower left), o2 (upper left), o3 (upper right)
    and o4 (lower right); light from o1 leaves at o3, and light from o2 at o4. It is in the row of the upper of its two
    guides, where the uppermost guide has the number ``row``.
    """
    moved = list(ends)
    if len(order) != len(moved):
        raise ValueError(f"order names {len(order)} guides of {len(moved)}; name every one")
    for step, swaps in enumerate(swap_columns(order), column):
        for upper in swaps:
            crossing = b.add(f"{section}_x_c{step}_r{row + upper}", "crossing", (section, step, row + upper))
            b.connect(moved[upper], f"{crossing},o2")
            b.connect(moved[upper + 1], f"{crossing},o1")
            moved[upper], moved[upper + 1] = f"{crossing},o3", f"{crossing},o4"
    return moved


def check_crossings(process: Process, layers: Sequence[Sequence[WeightBlock]]) -> None:
    """Check that the process has the device ``crossing`` if the chip's layers need waveguide crossings.

    Crossings are needed if several blocks of the first layer use the same inputs, and more than one input is copied
    together; or if several outputs of several blocks of the last layer are summed together.
    """
    shares = any(block.place[0] for block in layers[0]) and any(len(group) > 1 for group in _copied_together(layers[0]))
    sums = any(block.place[1] and len(block.rows) > 1 for block in layers[-1])
    if (shares or sums) and "crossing" not in process.devices:
        raise InputError(
            f"process {process.name!r} has no device 'crossing', which the first layer's inputs and the "
            f"last layer's outputs need for several blocks; add components/{process.name}/devices/crossing.yml, or "
            "choose blocks as large as these layers"
        )


def copy_inputs(b: CircuitBuilder, layer: str, blocks: Sequence[WeightBlock], light: Sequence[str]) -> list[list[str]]:
    """Add splitters and crossings that copy every input of a layer to the blocks that use it.

    The components are in the section ``<layer>_split``. Each level of the splitter trees is one column of splitters,
    followed by the columns of crossings that permute the copies. A row number counts the guides after the last level,
    from the top. Where blocks of the same columns are neighbours, only the copies of these columns cross, in place of
    those of all inputs.

    Returns:
        For each block, from top to bottom, the ports that feed the columns of its weight matrix, in order.
    """
    copies, together = 1 + max(block.place[0] for block in blocks), _copied_together(blocks)
    widest = max(map(len, together))
    moved: dict[int, list[str]] = {}
    for columns in together:
        group = _CopiedInputs(f"{layer}_split", columns, copies * columns[0], widest)
        ends = _split(b, group, [light[column] for column in columns], range(copies), 0)
        moved |= {column: ends[place :: len(columns)] for place, column in enumerate(columns)}
    return [[moved[column][block.place[0]] for column in block.columns] for block in blocks]


def _copied_together(blocks: Sequence[WeightBlock]) -> list[Sequence[int]]:
    """Groups of inputs whose copies cross each other: those of the blocks of the same columns where these blocks are
    neighbours, else all inputs.
    """
    copies = 1 + max(block.place[0] for block in blocks)
    if len({block.place[1] for block in blocks[:copies]}) == 1:
        return list(dict.fromkeys(block.columns for block in blocks))
    return [range(1 + max(column for block in blocks for column in block.columns))]


@dataclass(frozen=True)
class _CopiedInputs:
    """Inputs whose copies cross each other, and no other guides.

    Attributes:
        section: Section of the floorplan.
        inputs: Their numbers.
        above: Number of guides above them after the last level.
        widest: Number of inputs of the largest group of the section, whose crossings take the most columns.
    """

    section: str
    inputs: Sequence[int]
    above: int
    widest: int


def _split(b: CircuitBuilder, group: _CopiedInputs, guides: list[str], copies: range, column: int) -> list[str]:
    """Add one level and the levels after it; return the ports copy by copy."""
    if len(copies) == 1:
        return guides
    first = group.above + len(guides) * copies[0]
    ends: list[str] = []
    for i, (number, guide) in enumerate(zip(group.inputs, guides, strict=True)):
        name, place = f"{group.section}_m{number}_{copies[0]}_{copies[-1]}", (group.section, column, first + i)
        node = b.add(name, "mmi1x2", place)
        b.connect(guide, f"{node},o1")
        ends += [f"{node},o2", f"{node},o3"]
    ends = permute(b, group.section, ends, _halves(len(guides)), column + 1, first)
    following, half = column + 1 + len(swap_columns(_halves(group.widest))), (len(copies) + 1) // 2
    upper = _split(b, group, ends[: len(guides)], copies[:half], following)
    return upper + _split(b, group, ends[len(guides) :], copies[half:], following)


def sum_outputs(
    b: CircuitBuilder, layer: str, blocks: Sequence[WeightBlock], rows: Sequence[Sequence[str]]
) -> list[str]:
    """Add phase shifters, crossings and combiners that sum the output fields of blocks in the same rows of a layer.

    The components are in the section ``<layer>_sum``. Column 0 holds a trim phase shifter for each block and row,
    because the summed fields interfere. Each level of the combiner trees is the columns of its crossings, followed by
    one column of combiners. A row number counts the guides before the first level, from the top.

    Returns:
        One port for each row of the layer's weight matrix; those in ``rows``, of blocks in row-major order, if every
        row has one block only.
    """
    parts = 1 + max(block.place[1] for block in blocks)
    if parts == 1:
        return [port for ports in rows for port in ports]
    section = f"{layer}_sum"
    outputs: list[str] = []
    for top in range(0, len(blocks), parts):
        trimmed = [
            _trims(b, section, block, ports, len(outputs) * parts + len(block.rows) * i)
            for i, (block, ports) in enumerate(zip(blocks[top : top + parts], rows[top : top + parts], strict=True))
        ]
        outputs += _sum(b, section, trimmed, range(parts), len(outputs))[0]
    return outputs


def _trims(b: CircuitBuilder, section: str, block: WeightBlock, ports: Sequence[str], first: int) -> list[str]:
    ends: list[str] = []
    for row, port in enumerate(ports):
        trim = b.add(f"{block.name}_sum_r{row}", "phase_shifter", (section, 0, first + row))
        b.connect(port, f"{trim},o1")
        add_pad(b, trim, f"{trim},e1", f"{trim},e2")
        ends.append(f"{trim},o2")
    return ends


def _sum(b: CircuitBuilder, section: str, parts: list[list[str]], chosen: range, output: int) -> tuple[list[str], int]:
    """Sum the parts of a range; ``output`` is the number of the first output.

    Returns:
        The ports of the sums, and the column after them.
    """
    if len(chosen) == 1:
        return parts[chosen[0]], 1
    half = (len(chosen) + 1) // 2
    upper, above = _sum(b, section, parts, chosen[:half], output)
    lower, below = _sum(b, section, parts, chosen[half:], output)
    count, column = len(upper), max(above, below)
    first = output * len(parts) + count * chosen[0]
    order = [guide for i in range(count) for guide in (i, count + i)]
    ends = permute(b, section, upper + lower, order, column, first)
    column += len(swap_columns(order))
    sums: list[str] = []
    for i in range(count):
        node = b.add(f"{section}_m{output + i}_{chosen[0]}_{chosen[-1]}", "mmi1x2", (section, column, first + i))
        b.connect(ends[2 * i], f"{node},o2")
        b.connect(ends[2 * i + 1], f"{node},o3")
        sums.append(f"{node},o1")
    return sums, column + 1


def _halves(guides: int) -> list[int]:
    """Order of guides that puts the upper branches of all splitters before the lower ones."""
    return [*range(0, 2 * guides, 2), *range(1, 2 * guides, 2)]
