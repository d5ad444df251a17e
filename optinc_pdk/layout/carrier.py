"""Layout of the carrier light: fibre array, supply tree, and the local-oscillator tree in the middle of the die."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.layout.canvas import Canvas, fibre_row_pitch, snap
from optinc_pdk.layout.cell_frames import Point
from optinc_pdk.layout.placement_view import PlacementView
from optinc_pdk.layout.trees import TreePlacer


def carrier_block(canvas: Canvas, netlist: PlacementView, process: Process) -> Point | None:
    """Place the carrier block: the fibres of the carrier, the first splitter and the supply tree.

    The fibre couplers are at x = 0, the first of them at y = 0 and the others below.

    Args:
        canvas: Canvas that receives instances and guides.
        netlist: The circuit.
        process: Process.

    Returns:
        Position at which the guide to the local-oscillator tree leaves the block to the right, in µm; None if fibres
        feed the local oscillators.
    """
    pitch, r = fibre_row_pitch(process), float(process.guide.radius_um)
    coupler = process.fibres.coupler
    fibres = [n for n in netlist.section("carrier") if netlist.component[n] == coupler]
    leaves: dict[str, list[Point]] = {}
    for name in fibres:
        y = -netlist.grid[name][2] * pitch
        canvas.place(name, coupler, 0.0, y, rotation=180)
        leaves[f"{name},o1"] = [(0.0, y)]
    laser = "fibre_carrier,o1"
    y = leaves.pop(laser)[0][1]
    if "carrier_split" not in netlist.component:
        root = TreePlacer(canvas, netlist, process, 0.0, +1).place(netlist.partner[laser], leaves)
        turn = root.x + r + 0.5
        canvas.guide((0.0, y), (turn, y), (turn, root.y), (root.x, root.y))
        return None
    supply = TreePlacer(canvas, netlist, process, 0.0, +1).place(netlist.partner["carrier_split,o2"], leaves)
    split = supply.x
    canvas.place("carrier_split", "mmi1x2", split, y)
    canvas.guide((0.0, y), (split, y))
    upper, lower = canvas.port("carrier_split,o2"), canvas.port("carrier_split,o3")
    turn = upper.x + r + 0.5
    canvas.guide((upper.x, upper.y), (turn, upper.y), (turn, supply.y), (supply.x, supply.y))
    return lower.x, lower.y


def oscillator_tree(
    canvas: Canvas, netlist: PlacementView, process: Process, feed: Point, middle: float, roots: dict[int, str]
) -> None:
    """Draw the local-oscillator tree of a die and connect it to the trees of the strips above and below.

    Args:
        canvas: The die, on which carrier block and strips are placed.
        netlist: The circuit.
        process: Process.
        feed: Position at which the guide from the carrier block starts to the right, in µm.
        middle: y of the middle of the die's channel between the strips, in µm; the tree is centred on it.
        roots: Index of each layer to the port at the root of its strip's local-oscillator tree.

    Raises:
        ValueError: A strip ends left of the tree.
    """
    r = float(process.guide.radius_um)
    above = [index for index in sorted(roots) if index % 2]
    below = [index for index in sorted(roots) if not index % 2][::-1]
    track = 6 * r
    order = above + below
    top = middle + track * (len(order) - 1) / 2
    down = feed[0] + 4 * r
    root = netlist.partner["carrier_split,o3"]
    depth = (len(order) - 1).bit_length() + 1
    placer = TreePlacer(canvas, netlist, process, 0.0, -1)
    placer.x = down + 2 * r + depth * placer.pitch
    leaves: dict[str, list[Point]] = {}
    for i, index in enumerate(order):
        end = canvas.port(roots[index])
        y = snap(top - i * track)
        # a layer of one row has no tree, and its oscillator's trim lies left of the gratings
        mixers = max(canvas.instance_box(name)[2] for name in netlist.section(f"l{index}_mix"))
        riser = max(end.x, mixers + float(process.floorplan.guide_space_um)) + 2 * r
        if riser < placer.x + r:
            raise ValueError(f"layer {index}'s oscillators lie left of their tree; place its strip further right")
        leaves[roots[index]] = [(end.x, end.y), (riser, end.y), (riser, y), (placer.x, y)]
    tree = placer.place(root, leaves)
    if root in leaves:
        canvas.guide(feed, (down, feed[1]), (down, tree.y), *leaves[root][::-1])
    else:
        canvas.guide(feed, (down, feed[1]), (down, tree.y), (tree.x, tree.y))
