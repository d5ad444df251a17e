"""Cells of netlists in gdsfactory's format, not yet connected: instances, placements, nets and ports.

Cells of the PDK that a schematic has without saying all about them are drawn: cells of several devices whose netlists
the file does not contain, and couplers, whose coupled lengths follow from the arguments of their cells.
"""

from __future__ import annotations

import cmath
import json
import math
import reprlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from optinc_pdk.cards.device import CIRCUIT_CELLS
from optinc_pdk.circuit.checked_values import NetlistError, index_of, list_of, mapping_of, name_of, number_of


@dataclass(frozen=True)
class InstanceTransform:
    """Transform from the coordinates of a cell to those of the layout, as in a gdsfactory netlist.

    Attributes:
        x_um: Displacement along x in µm.
        y_um: Displacement along y in µm.
        rotation_deg: Counterclockwise rotation in degrees, after the mirror.
        mirror: Whether y is negated before the rotation.
    """

    x_um: float = 0.0
    y_um: float = 0.0
    rotation_deg: float = 0.0
    mirror: bool = False

    def apply(self, x_um: float, y_um: float) -> tuple[float, float]:
        """Return the position in the layout of a point of the cell, both in µm."""
        z = complex(x_um, -y_um if self.mirror else y_um)
        # multiples of 90° are exact, so that positions stay on the grid
        z *= 1j ** int(self.rotation_deg // 90 % 4) * cmath.exp(1j * math.radians(self.rotation_deg % 90))
        return self.x_um + z.real, self.y_um + z.imag

    def after(self, inner: InstanceTransform) -> InstanceTransform:
        """Return the transform that applies ``inner`` first: that of an instance within a placed cell."""
        x, y = self.apply(inner.x_um, inner.y_um)
        turn = -inner.rotation_deg if self.mirror else inner.rotation_deg
        return InstanceTransform(x, y, (self.rotation_deg + turn) % 360, self.mirror != inner.mirror)


CELL_KEYS = frozenset(
    {"name", "pdk", "instances", "placements", "connections", "routes", "nets", "ports", "settings", "info", "warnings"}
    | {"schema", "schema_version"}
)
"""Keys of a netlist in gdsfactory's format."""
_INSTANCE_KEYS = frozenset({"component", "settings", "info", "array", "virtual"})
# A placement with further keys is relative to a port or to another instance.
_ABSOLUTE_KEYS = frozenset({"x", "y", "dx", "dy", "rotation", "mirror"})
_ROUTE_KEYS = frozenset({"links", "routing_strategy", "settings"})
LISTED = 8
"""Number of netlists that a message names."""
MAX_INSTANCES = 1_000_000
"""Largest number of instances of a netlist, with elements of arrays, and with all levels of its hierarchy."""


@dataclass(frozen=True)
class SchematicInstance:
    """An instance of a cell.

    Attributes:
        component: Name of the cell's function, or of a netlist of the same file.
        settings: Arguments of the function.
        info: What the cell states about itself.
        transform: Placement; None if it is not stated or is relative to something else.
        drawn: Whether the netlist is that of a layout: it has an entry ``info``, which may be empty. Those that are
            written by hand have none, and state only the arguments that differ from default values.
    """

    component: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    transform: InstanceTransform | None = None
    drawn: bool = False


@dataclass(frozen=True)
class RouteStatement:
    """How a route is drawn.

    Attributes:
        strategy: Name of the routing function; None for the default.
        settings: Arguments of the function.
    """

    strategy: str | None
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class SchematicCell:
    """A cell of a netlist.

    Attributes:
        instances: Instances by name. Elements of an array are named ``array<column.row>``.
        nets: Pairs of ports on one net, each ``"instance,port"``; see :meth:`touches`.
        connections: Pairs of ports of which the first is moved to the second, each ``"instance,port"``.
        routes: Pairs of ports that a guide or wire of unknown length connects, each ``"instance,port"``.
        route_statements: How the routes are drawn, by their names.
        ports: Ports of the cell by name, each ``"instance,port"``.
    """

    instances: Mapping[str, SchematicInstance]
    nets: tuple[tuple[str, str], ...]
    ports: Mapping[str, str]
    connections: tuple[tuple[str, str], ...] = ()
    routes: tuple[tuple[str, str], ...] = ()
    route_statements: Mapping[str, RouteStatement] = field(default_factory=dict)

    def touches(self, net: tuple[str, str]) -> bool:
        """Return whether the ports on a net touch, so that no guide is between them.

        In the netlist of a layout, a net is a place where two ports meet. In a schematic, it says what has to be
        connected, and a guide of any length may do it.
        """
        parts = [self.instances.get(end.rpartition(",")[0]) for end in net]
        return all(part is not None and part.drawn for part in parts)


def is_schematic(data: Mapping[str, Any]) -> bool:
    """Return whether data are one netlist or several by name, in gdsfactory's format and not in the project's own."""
    if "instances" in data:
        info = data.get("info")
        return not (isinstance(info, Mapping) and "schema" in info)
    return "info" not in data and any(isinstance(each, Mapping) and "instances" in each for each in data.values())


def cells_of_netlist(
    data: Mapping[str, Any], name: str, top: str = "", layout_top: Callable[[], str] | None = None
) -> tuple[dict[str, SchematicCell], str]:
    """Read one netlist, or the netlists of a hierarchy by name; return the cells by name and the name of the top cell.

    Args:
        data: Content of a file.
        name: Name of the only netlist of a file; for a file of several netlists, that of the top cell, if this is one
            of those that are not part of others.
        top: Name of the top cell; empty to choose it.
        layout_top: Function that returns the name of the layout's top cell, which is called for a file of several
            netlists. The netlist of this name is the top.

    Raises:
        NetlistError: The data are not in gdsfactory's format, a file of several netlists has none of the name ``top``,
            or it is not clear which is the top; the message names the candidates.
    """
    if "instances" in data:
        if top not in ("", data.get("name", name)):
            raise NetlistError(f"is one netlist, which is not named {top!r}; leave --top out")
        return {name: _cell("", data)}, name
    if lacking := [each for each, part in data.items() if not isinstance(part, Mapping) or "instances" not in part]:
        raise NetlistError(
            f"netlist {lacking[0]!r}: the key instances is missing; add the instances, or write the file with "
            "get_netlist(recursive=True)"
        )
    cells = {name_of("a netlist", each): _cell(f"{each}: ", part) for each, part in data.items()}
    return cells, _top(cells, name, top, layout_top)


def _top(cells: Mapping[str, SchematicCell], name: str, top: str, layout_top: Callable[[], str] | None) -> str:
    """Return which of several netlists is the top; see :func:`cells_of_netlist`."""
    if top:
        if top not in cells:
            raise NetlistError(f"has no netlist {top!r}; give --top one of {_listed(cells)}")
        return top
    drawn = "" if layout_top is None else layout_top()
    if drawn in cells:
        return drawn
    used = {part.component for cell in cells.values() for part in cell.instances.values()}
    tops = [each for each in cells if each not in used]
    if len(tops) == 1:
        return tops[0]
    if name in tops:
        return name
    which = f"{len(tops)} of its {len(cells)} netlists are not part of others"
    layout = f", and none is named {drawn!r} as the layout's top cell" if drawn else ""
    raise NetlistError(f"{which}{layout}; choose one with --top: {_listed(tops or cells)}")


def _listed(names: Collection[str]) -> str:
    """Return some names as text."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(list(names)[:LISTED]) + more


def _cell(where: str, data: Any) -> SchematicCell:
    """Read one netlist."""
    data = mapping_of(where or "the file", data)
    if unknown := sorted(set(data) - CELL_KEYS):
        raise NetlistError(f"{where}unknown key {unknown[0]!r}; remove it, known are {', '.join(sorted(CELL_KEYS))}")
    placements = mapping_of(f"{where}placements", data.get("placements") or {})
    connections = mapping_of(f"{where}connections", data.get("connections") or {})
    # such an instance is moved to the port that it is connected to
    moved = {text.rpartition(",")[0] for text in connections}
    instances: dict[str, SchematicInstance] = {}
    for name, instance in mapping_of(f"{where}instances", data["instances"]).items():
        place = None if name in moved else placements.get(name)
        instances |= _instances(f"{where}instance {name!r}", name, instance, place, MAX_INSTANCES - len(instances))
    joined = tuple((key, _text(f"{where}connections", value)) for key, value in connections.items())
    ports = mapping_of(f"{where}ports", data.get("ports") or {})
    labels = {label: _text(f"{where}port {label!r}", port) for label, port in ports.items()}
    routes, statements = tuple(_routes(where, data)), dict(_route_statements(where, data))
    return SchematicCell(instances, tuple(_nets(where, data)), labels, joined, routes, statements)


def _instances(where: str, name: str, data: Any, place: Any, most: int) -> dict[str, SchematicInstance]:
    """Return an instance by name, or the elements of an array by name, of which there are at most ``most``."""
    values = mapping_of(where, data)
    if unknown := sorted(set(values) - _INSTANCE_KEYS):
        raise NetlistError(f"{where}: unknown key {unknown[0]!r}; remove it, known are component, settings and info")
    if "component" not in values:
        raise NetlistError(f"{where}: component is missing; add it")
    component = name_of(f"{where}: component", values["component"])
    settings = mapping_of(f"{where}: settings", values.get("settings") or {})
    info = mapping_of(f"{where}: info", values.get("info") or {})
    transform = None if place is None else _transform(where, place)
    array, drawn = values.get("array"), values.get("info") is not None
    if array is None:
        return {name: SchematicInstance(component, settings, info, transform, drawn)}
    elements = {}
    for (i, j), (x, y) in _array(f"{where}: array", array, most).items():
        moved = None if transform is None else transform.after(InstanceTransform(x, -y if transform.mirror else y))
        elements[f"{name}<{i}.{j}>"] = SchematicInstance(component, settings, info, moved, drawn)
    return elements


def _array(where: str, data: Any, most: int) -> dict[tuple[int, int], tuple[float, float]]:
    """Return the displacements in µm of the elements of an array, in the coordinates of its first element."""
    values = mapping_of(where, data)
    if "num_a" in values:
        counts = [index_of(f"{where}: {key}", values.get(key, 1)) for key in ("num_a", "num_b")]
        a, b = (
            [number_of(f"{where}: {key}", each) for each in list_of(where, list(values.get(key, default)))]
            for key, default in (("pitch_a", (1.0, 0.0)), ("pitch_b", (0.0, 1.0)))
        )
    else:
        counts = [index_of(f"{where}: {key}", values.get(key, 1)) for key in ("columns", "rows")]
        a = [number_of(f"{where}: column_pitch", values.get("column_pitch", 0)), 0.0]
        b = [0.0, number_of(f"{where}: row_pitch", values.get("row_pitch", 0))]
    if counts[0] * counts[1] > most:
        raise NetlistError(
            f"{where} has {counts[0] * counts[1]} elements; a netlist has at most {MAX_INSTANCES} instances; correct it"
        )
    return {
        (i, j): (i * a[0] + j * b[0], i * a[1] + j * b[1])
        for i in range(max(counts[0], 1))
        for j in range(max(counts[1], 1))
    }


def _transform(where: str, data: Any) -> InstanceTransform | None:
    """Return the placement of an instance; None if it is relative to a port or to another instance."""
    values = {key: value for key, value in mapping_of(f"{where}: placement", data).items() if value is not None}
    if not set(values) <= _ABSOLUTE_KEYS or not isinstance(values.get("mirror", False), bool):
        return None
    if any(isinstance(values.get(key), str) for key in ("x", "y", "dx", "dy")):
        return None
    x, y, dx, dy, rotation = (
        number_of(f"{where}: placement {key}", values.get(key, 0.0)) for key in ("x", "y", "dx", "dy", "rotation")
    )
    return InstanceTransform(x + dx, y + dy, rotation, values.get("mirror", False))


def _nets(where: str, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of ports that nets connect."""
    nets = data.get("nets") or []
    for net in list_of(f"{where}nets", list(nets) if isinstance(nets, tuple) else nets):
        ends = mapping_of(f"{where}a net", net)
        if not {"p1", "p2"} <= set(ends):
            raise NetlistError(f"{where}a net has {', '.join(ends) or 'nothing'}; give it p1 and p2")
        yield _text(f"{where}a net", ends["p1"]), _text(f"{where}a net", ends["p2"])


def _routes(where: str, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of ports that routes connect."""
    for name, route in mapping_of(f"{where}routes", data.get("routes") or {}).items():
        at = f"{where}route {name!r}"
        links = mapping_of(at, route).get("links")
        for a, b in mapping_of(f"{at}: links", links or {}).items():
            if ":" in f"{a}{b}":
                raise NetlistError(f"{at}: the link {a!r} of a range of ports is not supported; give one link a port")
            yield a, _text(at, b)


def _route_statements(where: str, data: Mapping[str, Any]) -> Iterator[tuple[str, RouteStatement]]:
    """Yield the name of each route and how it is drawn."""
    for name, route in mapping_of(f"{where}routes", data.get("routes") or {}).items():
        at = f"{where}route {name!r}"
        if unknown := sorted(set(route) - _ROUTE_KEYS):
            known = ", ".join(sorted(_ROUTE_KEYS))
            raise NetlistError(f"{at}: unknown key {unknown[0]!r}; correct or remove it, known are {known}")
        strategy = route.get("routing_strategy")
        strategy = None if strategy is None else name_of(f"{at}: routing_strategy", strategy)
        yield name, RouteStatement(strategy, mapping_of(f"{at}: settings", route.get("settings") or {}))


def _text(where: str, value: Any) -> str:
    """Return a port as text."""
    if not isinstance(value, str):
        raise NetlistError(f"{where}: the port {reprlib.repr(value)} is not text; write 'instance,port'")
    return value


@dataclass(frozen=True)
class DrawnCell:
    """A cell of the PDK as drawn.

    Attributes:
        netlists: Its netlists as gdsfactory writes them, the cell's own first.
        info: What the cell states about itself.
    """

    netlists: Mapping[str, Any]
    info: Mapping[str, Any]


CellDrawing: TypeAlias = Callable[[str, Mapping[str, Any]], DrawnCell | None]
"""Function that draws a cell of the PDK from its name and arguments; None if the PDK has no such cell. It raises
ValueError for wrong arguments."""


def with_drawn_cells(
    cells: Mapping[str, SchematicCell], is_device: Callable[[str, SchematicInstance], bool], draw: CellDrawing
) -> dict[str, SchematicCell]:
    """Add the netlists of the PDK's cells that the file has as instances, but does not describe.

    Instances of such cells name the added netlists. ``is_device`` returns whether an instance is a device of the
    process.

    Raises:
        NetlistError: A cell cannot be drawn with the settings of an instance, which the message names.
    """
    known = dict(cells)
    drawn: dict[str, str | None] = {}
    for name, cell in cells.items():
        instances = dict(cell.instances)
        for instance, part in cell.instances.items():
            if part.component in cells or part.component not in CIRCUIT_CELLS or is_device(instance, part):
                continue
            text = _call_text(part)
            if text not in drawn:
                drawn[text] = _add(known, text, instance, part, draw)
            if (found := drawn[text]) is not None:
                instances[instance] = replace(part, component=found)
        known[name] = replace(cell, instances=instances)
    return known


def with_drawn_settings(
    cells: Mapping[str, SchematicCell],
    settings_of: Callable[[str, SchematicInstance], Collection[str]],
    draw: CellDrawing,
) -> dict[str, SchematicCell]:
    """Complete ``info`` of the instances whose cells are drawn to know the settings that LVS compares.

    The netlist of a layout has these settings in ``info``, and a schematic may state them itself: such instances are
    left as they are. ``settings_of`` returns the settings of an instance that its drawn cell states.

    Raises:
        NetlistError: A cell cannot be drawn with the settings of an instance, which the message names.
    """
    drawn: dict[str, DrawnCell | None] = {}
    completed = {}
    for name, cell in cells.items():
        instances = dict(cell.instances)
        for instance, part in cell.instances.items():
            keys = settings_of(instance, part)
            if part.drawn or not keys or any(key in part.settings or key in part.info for key in keys):
                continue
            text = _call_text(part)
            if text not in drawn:
                drawn[text] = _draw(instance, part, draw)
            if (found := drawn[text]) is not None:
                instances[instance] = replace(part, info={**found.info, **part.info})
        completed[name] = replace(cell, instances=instances)
    return completed


def _arguments(part: SchematicInstance) -> dict[str, Any]:
    return {key: value for key, value in part.settings.items() if value is not None}


def _call_text(part: SchematicInstance) -> str:
    """Return a text that is the same for instances whose cells are."""
    return f"{part.component} {json.dumps(_arguments(part), sort_keys=True, default=str)}"


def _draw(instance: str, part: SchematicInstance, draw: CellDrawing) -> DrawnCell | None:
    try:
        return draw(part.component, _arguments(part))
    except ValueError as fault:
        raise NetlistError(f"instance {instance!r}: {fault}") from fault


def _add(
    known: dict[str, SchematicCell], text: str, instance: str, part: SchematicInstance, draw: CellDrawing
) -> str | None:
    """Draw a cell, add its netlists under names that begin with ``text``, and return the name of its own."""
    found = _draw(instance, part, draw)
    if found is None:
        return None
    top = next(iter(found.netlists))
    inner, _ = cells_of_netlist(found.netlists, top, top)
    names = {each: f"{text}: {each}" for each in inner}
    for each, cell in inner.items():
        instances = {
            instance: replace(part, component=names.get(part.component, part.component))
            for instance, part in cell.instances.items()
        }
        known[names[each]] = replace(cell, instances=instances)
    return names[top]
