"""Layouts of the circuits of examples/circuits, with edits as somebody makes them in KLayout."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb

from optinc_pdk import active_pdk
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import PlacedCircuit, read_reference

FOLDER = Path(__file__).parents[3] / "examples" / "circuits"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
PROCESS: Process = load_process()

Box = tuple[float, float, float, float]
"""Left, bottom, right and top in µm."""


@dataclass(frozen=True)
class Placement:
    """An instance in a layout: names of its cells on all levels and its displacement and rotation on each."""

    cells: tuple[str, ...]
    transforms: tuple[kdb.Trans, ...]


@dataclass(frozen=True)
class Drawn:
    """A circuit as its example draws it.

    Attributes:
        name: Name of the example.
        gds: Layout, with the ports that kfactory writes into it.
        netlist: Netlist.
        component: The component.
    """

    name: str
    gds: Path
    netlist: Path
    component: gf.Component

    @property
    def reference(self) -> PlacedCircuit:
        """The circuit of the netlist."""
        found = read_reference(self.netlist, PROCESS, self.name)
        assert isinstance(found, PlacedCircuit)
        return found

    def placement(self, path: Sequence[str]) -> Placement:
        """Return the placement of an instance, given its names on all levels, or how the name of its cell begins."""
        cell, cells, transforms = self.component, [], []
        for name in path:
            named = [each for each in cell.insts if each.name == name]
            instance = (named or [each for each in cell.insts if each.cell.name.startswith(name)])[0]
            cells.append(instance.cell.name)
            transforms.append(instance.trans)
            cell = instance.cell
        return Placement(tuple(cells), tuple(transforms))


Edit = Callable[[kdb.Layout, Drawn], None]
"""Change of a layout."""


def draw(name: str, folder: Path) -> Drawn:
    """Draw a circuit, and write its layout and its netlist."""
    circuit = runpy.run_path(str(FOLDER / f"{name}.py"))["circuit"]
    gds, netlist = folder / f"{name}.gds", folder / f"{name}.pic.yml"
    with active_pdk():
        # circuits of equal names of earlier tests stay in the layout database
        gf.clear_cache()
        component = circuit()
        # gdsfactory's routers draw wires without instances, so that it sees the ends of heaters as unconnected
        component.write_netlist(component.get_netlist(recursive=True, on_dangling_port="ignore"), netlist)
        component.write_gds(gds)
    return Drawn(name, gds, netlist, component)


def edited(drawn: Drawn, edit: Edit, folder: Path) -> Path:
    """Write a changed copy of a layout."""
    layout = kdb.Layout()
    layout.read(str(drawn.gds))
    edit(layout, drawn)
    # cells that an edited copy replaced
    for cell in layout.top_cells():
        if cell.name != drawn.component.name:
            layout.prune_cell(cell.cell_index(), -1)
    path = folder / f"{drawn.name}_edited.gds"
    layout.write(str(path))
    return path


def cut(box: Box, layer: str = "core") -> Edit:
    """Remove a rectangle from the one cell that draws a layer there, in this place only."""

    def edit(layout: kdb.Layout, drawn: Drawn) -> None:
        index, target = layout.layer(*PROCESS.gds_layers[layer]), _box(box)
        cell, transform = layout.cell(drawn.component.name), kdb.Trans()
        while not any(True for _ in cell.each_touching_shape(index, target.transformed(transform.inverted()))):
            inside = target.transformed(transform.inverted())
            (instance,) = [
                each
                for each in cell.each_touching_inst(inside)
                if not kdb.RecursiveShapeIterator(
                    layout, each.cell, index, each.trans.inverted() * inside, True
                ).at_end()
            ]
            transform *= instance.trans
            cell = _copied(layout, instance)
        shapes = cell.shapes(index)
        left = kdb.Region(shapes) - kdb.Region(target.transformed(transform.inverted()))
        shapes.clear()
        shapes.insert(left)

    return edit


def add(box: Box, layer: str = "core") -> Edit:
    """Add a rectangle to a layer of the top cell."""

    def edit(layout: kdb.Layout, drawn: Drawn) -> None:
        layout.cell(drawn.component.name).shapes(layout.layer(*PROCESS.gds_layers[layer])).insert(_box(box))

    return edit


def all_of(*edits: Edit) -> Edit:
    """Make several changes."""

    def edit(layout: kdb.Layout, drawn: Drawn) -> None:
        for each in edits:
            each(layout, drawn)

    return edit


def shift(path: Sequence[str], x_um: float, y_um: float) -> Edit:
    """Move an instance, in directions of the cell that contains it."""

    def edit(layout: kdb.Layout, drawn: Drawn) -> None:
        parent, _ = _own_cell(layout, drawn, path[:-1])
        instance = _instance(parent, drawn.placement(path))
        instance.transform(kdb.Trans(round(x_um * 1000), round(y_um * 1000)))

    return edit


def delete(path: Sequence[str]) -> Edit:
    """Delete an instance."""

    def edit(layout: kdb.Layout, drawn: Drawn) -> None:
        parent, _ = _own_cell(layout, drawn, path[:-1])
        _instance(parent, drawn.placement(path)).delete()

    return edit


def exchange(one: str, other: str) -> Edit:
    """Exchange the cells of two instances of the top cell, each at its place."""

    def edit(layout: kdb.Layout, drawn: Drawn) -> None:
        first, second = (_instance(layout.cell(drawn.component.name), drawn.placement([name])) for name in (one, other))
        first.cell_index, second.cell_index = second.cell_index, first.cell_index

    return edit


def swap(path: Sequence[str], cell: str, **settings: object) -> Edit:
    """Replace the cell of an instance by another one, at the same origin."""

    def edit(layout: kdb.Layout, drawn: Drawn) -> None:
        with active_pdk():
            component = gf.get_component(cell, **settings)
            file = drawn.gds.with_suffix(".cell.gds")
            component.write_gds(file)
        other = kdb.Layout()
        other.read(str(file))
        new = layout.create_cell(component.name)
        new.copy_tree(other.top_cell())
        new.merge_meta_info(other.top_cell())
        parent, _ = _own_cell(layout, drawn, path[:-1])
        _instance(parent, drawn.placement(path)).cell_index = new.cell_index()

    return edit


def move_silicon(path: Sequence[str], y_um: float, above_um: float) -> Edit:
    """Move the silicon of one instance upwards that lies above a height in coordinates of its cell."""

    def edit(layout: kdb.Layout, drawn: Drawn) -> None:
        cell, _ = _own_cell(layout, drawn, path)
        shapes = cell.shapes(layout.layer(*PROCESS.gds_layers["core"]))
        moved = [each.dup() for each in shapes.each() if each.bbox().bottom > above_um * 1000]
        assert len(moved) == 1
        moved[0].transform(kdb.Trans(0, round(y_um * 1000)))

    return edit


def stretch(x_um: float, box: Box, by_um: float) -> Edit:
    """Stretch the layout within a box at a place, as a partial edit does; what lies to the right of it moves."""

    def edit(layout: kdb.Layout, drawn: Drawn) -> None:
        top = layout.cell(drawn.component.name)
        top.flatten(True)
        place, by, window = round(x_um * 1000), round(by_um * 1000), kdb.Region(_box(box))
        for info in layout.layer_infos():
            shapes = top.shapes(layout.layer(info))
            region = kdb.Region(shapes)
            inside = region & window
            right = kdb.Region(kdb.Box(place, -(10**7), 10**8, 10**7))
            crossing = inside & kdb.Region(kdb.Box(place - 1, -(10**7), place, 10**7))
            bridges = kdb.Region(
                [
                    kdb.Polygon(kdb.Box(place - 1, b.bottom, place + by, b.top))
                    for b in map(kdb.Polygon.bbox, crossing.each())
                ]
            )
            shapes.clear()
            shapes.insert(((region - window) + (inside - right) + (inside & right).moved(by, 0) + bridges).merged())

    return edit


def _box(box: Box) -> kdb.Box:
    """Return a box in nm."""
    return kdb.Box(*(round(value * 1000) for value in box))


def _instance(parent: kdb.Cell, placement: Placement) -> kdb.Instance:
    """Return the instance of a cell that has the placement on its last level."""
    found = [each for each in parent.each_inst() if each.trans == placement.transforms[-1]]
    # KLayout and kfactory add a suffix to names that exist already
    name = placement.cells[-1].partition("$")[0]
    same = [each for each in found if each.cell.basic_name().partition("$")[0] == name]
    (instance,) = same
    return instance


def _own_cell(layout: kdb.Layout, drawn: Drawn, path: Sequence[str]) -> tuple[kdb.Cell, kdb.Trans]:
    """Return the cell of an instance after it and those above were given cells of their own, and its transformation."""
    cell, transform = layout.cell(drawn.component.name), kdb.Trans()
    for level in range(len(path)):
        placement = drawn.placement(path[: level + 1])
        instance = _instance(cell, placement)
        cell, transform = _copied(layout, instance), transform * placement.transforms[-1]
    return cell, transform


def _copied(layout: kdb.Layout, instance: kdb.Instance) -> kdb.Cell:
    """Give an instance a copy of its cell, and return the copy."""
    own = layout.create_cell(instance.cell.name)
    own.copy_shapes(instance.cell)
    own.copy_instances(instance.cell)
    own.merge_meta_info(instance.cell)
    instance.cell_index = own.cell_index()
    return own
