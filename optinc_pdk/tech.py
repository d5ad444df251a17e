"""Layers, layer views, layer stack and cross-sections of a process as gdsfactory objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from optinc_pdk.cards import CardError, Process

if TYPE_CHECKING:
    from gdsfactory.cross_section import CrossSection
    from gdsfactory.technology import LayerStack, LayerViews

# Registered processes by the name of their PDK.
_processes: dict[str, Process] = {}


def register_process(process: Process) -> None:
    """Register a process under its name, so that :func:`active_process` finds it while its PDK is active."""
    _processes[process.name] = process


def active_process() -> Process:
    """Return the process of the active gdsfactory PDK.

    Raises:
        CardError: The active PDK was not built by :func:`optinc_pdk.pdk.get_pdk`.
    """
    import gdsfactory as gf

    name = gf.get_active_pdk().name
    if name not in _processes:
        raise CardError(f"the active PDK is {name!r}, which has no process card; call optinc_pdk.PDK.activate() first")
    return _processes[name]


def layer_enum(process: Process) -> Any:
    """Return the layers of a process as a gdsfactory ``LayerEnum`` class."""
    import gdsfactory as gf

    members: dict[str, Any] = {"layout": gf.constant(gf.kcl.layout)}
    members.update({name: layer.gds for name, layer in process.layers.items()})
    return cast(Any, gf.LayerEnum)("Layers", members)


def layer_views(process: Process) -> LayerViews:
    """Return the display colours of the layers of a process as gdsfactory ``LayerViews``."""
    from gdsfactory.technology import LayerView, LayerViews

    views = {
        name: LayerView(name=name, layer=layer.gds, fill_color=layer.color, frame_color=layer.color)
        for name, layer in process.layers.items()
    }
    return LayerViews(layer_views=views)


def layer_stack(process: Process) -> LayerStack:
    """Return thickness (µm), bottom height (µm) and material of every layer for which the card states them."""
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
    """Return the cross-section of a strip guide of the active process.

    Args:
        **kwargs: Arguments of ``gdsfactory.cross_section.cross_section`` that replace the values of the card.
    """
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
    """Return the cross-section of a metal wire of the active process.

    Args:
        **kwargs: Arguments of ``gdsfactory.cross_section.cross_section`` that replace the values of the card.
    """
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
