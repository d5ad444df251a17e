"""Layers, cross-sections, layer stack and views of a process, as gdsfactory wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from optinc_pdk.cards import CardError, Process

if TYPE_CHECKING:
    from gdsfactory.cross_section import CrossSection
    from gdsfactory.technology import LayerStack, LayerViews

_active: dict[str, Process] = {}


def register(process: Process) -> None:
    """Make a process known to the cells under its name, which is also its PDK's name."""
    _active[process.name] = process


def active_process() -> Process:
    """The process of the active PDK.

    Raises:
        CardError: The active PDK is not one of ours.
    """
    import gdsfactory as gf

    name = gf.get_active_pdk().name
    if name not in _active:
        raise CardError(f"the active PDK is {name!r}; call optinc_pdk.PDK.activate() before using its cells")
    return _active[name]


def layer_enum(process: Process) -> Any:
    """A gdsfactory ``LayerEnum`` with the process's layers."""
    import gdsfactory as gf

    members: dict[str, Any] = {"layout": gf.constant(gf.kcl.layout)}
    members.update({name: layer.gds for name, layer in process.layers.items()})
    return cast(Any, gf.LayerEnum)("Layers", members)


def layer_views(process: Process) -> LayerViews:
    """Colours of the layers."""
    from gdsfactory.technology import LayerView, LayerViews

    views = {
        name: LayerView(name=name, layer=layer.gds, fill_color=layer.color, frame_color=layer.color)
        for name, layer in process.layers.items()
    }
    return LayerViews(layer_views=views)


def layer_stack(process: Process) -> LayerStack:
    """Thickness, height and material of the layers that have one."""
    from gdsfactory.technology import LayerLevel, LayerStack, LogicalLayer

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


def strip(**kwargs: Any) -> CrossSection:
    """The strip guide of the active process."""
    import gdsfactory as gf

    guide = active_process().guide
    settings: dict[str, Any] = {
        "width": float(guide.width_um),
        "layer": "core",
        "radius": float(guide.radius_um),
        "radius_min": float(guide.radius_um),
    }
    return gf.cross_section.cross_section(**(settings | kwargs))


def wire(**kwargs: Any) -> CrossSection:
    """A metal wire of the active process."""
    import gdsfactory as gf

    metal = active_process().metal
    settings: dict[str, Any] = {
        "width": float(metal.wire_width_um),
        "layer": metal.layer,
        "port_names": ("e1", "e2"),
        "port_types": ("electrical", "electrical"),
        "radius": None,
    }
    return gf.cross_section.cross_section(**(settings | kwargs))
