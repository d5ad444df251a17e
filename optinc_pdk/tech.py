"""The gdsfactory PDK class of a process, its activation, and its layers, views, stack and cross-sections.

gdsfactory has one active PDK and one layout database in a Python session. Everything that uses them holds
:data:`LAYOUT_LOCK`, so that threads with different processes take turns.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import gdsfactory as gf
from gdsfactory.cross_section import CrossSection
from gdsfactory.technology import LayerLevel, LayerStack, LayerView, LayerViews, LogicalLayer
from pydantic import PrivateAttr

from optinc_pdk.cards import CardError, Process

LAYOUT_LOCK = gf.kcl.thread_lock
"""Re-entrant lock of the active PDK and the layout database.

kfactory takes the same lock while it draws a cell. A second lock could be taken in the other order and block for ever.
"""


class ProcessPdk(gf.Pdk):
    """The gdsfactory PDK of a process."""

    _process: Process = PrivateAttr()

    @property
    def process(self) -> Process:
        """The process."""
        return self._process

    def activate(self, force: bool = False) -> None:
        """Make this the active PDK of the Python session, also if the active one has the same name.

        gdsfactory deletes the empty layers of the PDK before from the layout database, and layers that come later take
        their indices. ``layers`` is made anew where an index belongs to another layer by now: gdsfactory would move the
        shapes of some cells to the index, and leave those of locked cells.

        Args:
            force: Whether to set gdsfactory's layers again if this PDK is active already.
        """
        with LAYOUT_LOCK:
            hand_over_cells(self)
            stale = any(gf.kcl.layout.find_layer(*layer) != int(layer) for layer in cast(Any, self.layers))
            if stale:
                self.layers = layer_enum(self.process)
            super().activate(force or stale or gf.pdk._ACTIVE_PDK is not self)


@dataclass(frozen=True)
class _DrawnCells:
    """Cells that cell functions drew for a PDK which is not active.

    Attributes:
        pdk: The PDK.
        cells: For each function that drew some its cache, and the content of the cache.
        names: Each cell with its name.
    """

    pdk: gf.Pdk
    cells: list[tuple[Any, dict[Any, Any]]]
    names: list[tuple[Any, str]]


class _Caches:
    """Whose cells are in the caches of cell functions: ``owner`` (None if it is not known); and those of ``others``."""

    owner: gf.Pdk | None = None
    others: ClassVar[list[_DrawnCells]] = []


def hand_over_cells(pdk: gf.Pdk) -> None:
    """Give all cell functions the cells that they drew for a PDK before, and take those of another PDK from them.

    gdsfactory's functions, such as ``gf.components.straight``, draw a cell with the cross-sections and layers of the
    active PDK, but find a cell that they drew before by its arguments alone, and by its name. The names of cells whose
    PDK is not active end in the name of that PDK. To be called before a PDK is activated.
    """
    before = gf.pdk._ACTIVE_PDK
    if pdk is before and _Caches.owner in (None, pdk):
        _Caches.owner = pdk
        return
    # cells that were drawn after another PDK was activated directly could be of either PDK, and are drawn again
    known = before is not None and _Caches.owner in (None, before)
    taken = _take(before if before is not None else pdk)
    if known:
        _Caches.others.append(taken)
    for drawn in [each for each in _Caches.others if each.pdk is pdk]:
        _Caches.others.remove(drawn)
        for cache, content in drawn.cells:
            cache.update({key: cell for key, cell in content.items() if not cell.destroyed()})
        for cell, name in drawn.names:
            if not cell.destroyed():
                gf.kcl.layout.rename_cell(cell.cell_index(), name)
    _Caches.owner = pdk


def _take(pdk: gf.Pdk) -> _DrawnCells:
    """Empty the caches of cell functions, rename their cells, and return them as those of a PDK.

    The cells of this package are left as they are: they have caches and names for every process.
    """
    caches, virtual = (
        [cast(Any, each).cache for each in functions.values() if not str(each.__module__).startswith("optinc_pdk.")]
        for functions in (gf.kcl.factories, gf.kcl.virtual_factories)
    )
    drawn = _DrawnCells(pdk, [(cache, dict(cache)) for cache in (*caches, *virtual) if len(cache)], [])
    for cell in (cell for cache in caches for cell in cache.values() if not cell.destroyed()):
        drawn.names.append((cell, cell.name))
        name = gf.kcl.layout.unique_cell_name(f"{cell.name}${pdk.name}")
        gf.kcl.layout.rename_cell(cell.cell_index(), name)
    for cache in (*caches, *virtual):
        cache.clear()
    return drawn


def _restore_layer_indices(pdk: gf.Pdk) -> None:
    """Give the layers of a PDK the indices in the layout database that its ``LayerEnum`` has.

    gdsfactory deletes the empty layers of the PDK before, and layers that come later take their indices. It restores
    them when a PDK is activated, but not where another layer has shapes or where cells are locked. Its routers then
    find no taper between a layer and itself.
    """
    layout = gf.kcl.layout
    layers = {int(layer): (layer.layer, layer.datatype) for layer in cast(Any, pdk.layers or ())}
    found = {index: (layout.get_info(index).layer, layout.get_info(index).datatype) for index in layout.layer_indexes()}
    others = [index for index in layers if found.get(index, layers[index]) != layers[index]]
    indices = {layer: index for index, layer in layers.items()}
    elsewhere = {layer: index for index, layer in found.items() if indices.get(layer, index) != index}
    moves, free = [], max((*found, *layers), default=0) + 1
    for index in others:
        moves.append((index, free))
        if found[index] in elsewhere:
            elsewhere[found[index]] = free
        free += 1
    move_layers([*moves, *((index, indices[layer]) for layer, index in elsewhere.items())])


def move_layers(moves: Sequence[tuple[int, int]]) -> None:
    """Move layers of the layout database with their shapes, one after another, also those of locked cells."""
    layout = gf.kcl.layout
    locked = [cell for cell in layout.each_cell() if moves and cell.is_locked()]
    try:
        for cell in locked:
            cell.locked = False
        for index, target in moves:
            layout.insert_layer_at(target, layout.get_info(index))
            layout.move_layer(index, target)
            layout.delete_layer(index)
    finally:
        for cell in locked:
            cell.locked = True


@contextmanager
def activated(pdk: gf.Pdk) -> Iterator[None]:
    """Make a PDK the active one within a ``with`` block; other threads wait, and the PDK before it is restored."""
    with LAYOUT_LOCK:
        before = gf.pdk._ACTIVE_PDK
        try:
            if not isinstance(pdk, ProcessPdk):
                hand_over_cells(pdk)
                _restore_layer_indices(pdk)
            # gdsfactory takes an active PDK of the same name for this one
            pdk.activate(force=pdk is not before)
            yield
        finally:
            try:
                _activate_again(before, pdk)
            except BaseException:  # an interrupt that arrives here must not leave the other PDK active
                _activate_again(before, pdk)
                raise


def _activate_again(before: gf.Pdk | None, pdk: gf.Pdk) -> None:
    """Activate the PDK that was active before another one."""
    if before is None:  # a session that has not activated any
        gf.pdk._ACTIVE_PDK = None
    elif before is not pdk:
        if not isinstance(before, ProcessPdk):
            hand_over_cells(before)
            _restore_layer_indices(before)
        before.activate(force=True)


def active_process() -> Process:
    """Return the process of the active gdsfactory PDK.

    Raises:
        CardError: The active PDK was not built by :func:`optinc_pdk.pdk.get_pdk`.
    """
    pdk = gf.get_active_pdk()
    if not isinstance(pdk, ProcessPdk):
        raise CardError(
            f"the active PDK is {pdk.name!r}, which has no process card; call optinc_pdk.PDK.activate() first"
        )
    return pdk.process


GENERIC_LABELS = 206
"""GDS number of the layer LABEL_INSTANCE in gdsfactory's generic PDK."""


def layer_enum(process: Process) -> Any:
    """Return the layers of a process as a gdsfactory ``LayerEnum`` class.

    ``LABEL_INSTANCE`` is added, where ``gf.read.from_yaml`` writes the name of each instance as a text. It is no layer
    of the process, so that no name of an instance is taken for that of a fibre.
    """
    members: dict[str, Any] = {"layout": gf.constant(gf.kcl.layout)}
    members.update({name: layer.gds for name, layer in process.layers.items()})
    taken = set(process.gds_layers.values())
    members.setdefault(
        "LABEL_INSTANCE", next((GENERIC_LABELS, n) for n in itertools.count() if (GENERIC_LABELS, n) not in taken)
    )
    return cast(Any, gf.LayerEnum)("Layers", members)


def layer_views(process: Process) -> LayerViews:
    """Return the display colours of the layers of a process as gdsfactory ``LayerViews``."""
    views = {
        name: LayerView(name=name, layer=layer.gds, fill_color=layer.color, frame_color=layer.color)
        for name, layer in process.layers.items()
    }
    return LayerViews(layer_views=views)


def layer_stack(process: Process) -> LayerStack:
    """Return thickness (µm), bottom height (µm) and material of every layer for which the card states them."""
    levels = {
        name: LayerLevel(
            layer=LogicalLayer(layer=layer.gds),
            thickness=float(layer.thickness_um),
            zmin=float(layer.bottom_um),
            material=layer.material,
        )
        for name, layer in process.layers.items()
        if layer.thickness_um is not None and layer.bottom_um is not None
    }
    return LayerStack(layers=levels)


def port_types(process: Process) -> dict[str, Any]:
    """Return the PDK's field for the type of ports by layer, which gdsfactory has from version 10 on."""
    if "layer_port_types" not in gf.Pdk.model_fields:
        return {}
    return {"layer_port_types": {process.layers[process.metal.layer].gds: "electrical"}}


def bend_points_distance_um(process: Process) -> float:
    """Return the setting by which gdsfactory's own 90° bends have as many chords as the process card states.

    gdsfactory draws a bend with the integer part of angle / 360° · radius / (2 · setting) points.
    """
    points = process.guide.chords + 1.5
    return float(process.guide.radius_um) / (8 * points)


def strip(**kwargs: Any) -> CrossSection:
    """Return the cross-section of a strip guide of the active process; arguments replace the values of the card."""
    guide = active_process().guide
    settings: dict[str, Any] = {"width": float(guide.width_um), "layer": "core", "radius": float(guide.radius_um)}
    settings["radius_min"] = settings["radius"]
    return gf.cross_section.cross_section(**(settings | kwargs))


def wire(**kwargs: Any) -> CrossSection:
    """Return the cross-section of a metal wire of the active process; arguments replace the values of the card."""
    metal = active_process().metal
    settings: dict[str, Any] = {"width": float(metal.wire_width_um), "layer": metal.layer, "radius": None}
    # from version 10 on, gdsfactory takes the type of a port from the PDK's `layer_port_types`
    if "port_names" in inspect.signature(gf.cross_section.cross_section).parameters:
        settings |= {"port_names": ("e1", "e2"), "port_types": ("electrical", "electrical")}
    return gf.cross_section.cross_section(**(settings | kwargs))
