"""Cross-sections, widths and routing strategies that netlists state.

Names that the PDK does not have are refused: what they would draw is unknown.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from typing import Any

from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.schematic_cells import RouteStatement, SchematicInstance
from optinc_pdk.circuit.values import number_of

GUIDE_SECTION = "strip"
"""Cross-section of guides, and the default of all cells of guides."""
CROSS_SECTIONS = ("metal_routing", GUIDE_SECTION, "wire")
"""Cross-sections of the PDK of a process."""
ROUTING_STRATEGIES = ("route_bundle", "route_bundle_all_angle", "route_bundle_electrical", "route_bundle_sbend")
"""Routing strategies of the PDK of a process."""
_KEYS = ("cross_section", "cross_section_bend", "cross_section_inner", "cross_section_outer")
# gdsfactory names a cross-section that differs from a named one by a digest
_DERIVED = re.compile(r"xs_[0-9a-f]+")


def check_cross_sections(where: str, settings: Mapping[str, Any]) -> None:
    """Check that the cross-sections that settings name are those of the PDK, or derived from them by gdsfactory.

    Args:
        where: What the settings belong to, for messages.
        settings: Arguments of a cell or of a route.

    Raises:
        NetlistError: The PDK has no such cross-section; the message names it and those that exist.
    """
    for key in _KEYS:
        name, _ = _section(settings.get(key))
        if name is not None and name not in CROSS_SECTIONS and not _DERIVED.fullmatch(name):
            raise NetlistError(
                f"{where}: {key} {reprlib.repr(name)} is no cross-section of the PDK, which has "
                f"{', '.join(CROSS_SECTIONS)}; correct it"
            )


def check_route(where: str, route: RouteStatement) -> None:
    """Check that a route has a strategy and a cross-section of the PDK.

    Args:
        where: Route, for messages.
        route: What the netlist states about it.

    Raises:
        NetlistError: The PDK does not have one of them; the message names it and those that exist.
    """
    if route.strategy is not None and route.strategy not in ROUTING_STRATEGIES:
        raise NetlistError(
            f"{where}: routing_strategy {reprlib.repr(route.strategy)} is none of the PDK, which has "
            f"{', '.join(ROUTING_STRATEGIES)}; correct it"
        )
    check_cross_sections(where, route.settings)


def stated_width_um(instance: str, part: SchematicInstance) -> float | None:
    """Return the width in µm that a part of a guide or wire states; None if it states none.

    Args:
        instance: Full name of the instance, for messages.
        part: The instance.

    Raises:
        NetlistError: It is no number.
    """
    _, width = _section(part.settings.get("cross_section"))
    for value in (part.settings.get("width"), width, part.info.get("width")):
        if value is not None:
            return number_of(f"instance {instance!r}: width", value)
    return None


def is_guide(part: SchematicInstance) -> bool:
    """Return whether a part of a guide or wire of the PDK is surely a guide, by its cell and its cross-section."""
    name, _ = _section(part.settings.get("cross_section"))
    return not part.component.startswith("wire_") and name in (None, GUIDE_SECTION)


def _section(value: object) -> tuple[str | None, object]:
    """Return name and width of a cross-section: a name, or a mapping of a name and settings; None if not stated."""
    if isinstance(value, Mapping):
        settings = value.get("settings")
        inner = settings if isinstance(settings, Mapping) else value
        name = value.get("cross_section")
        return (name if isinstance(name, str) else None), inner.get("width")
    return (value if isinstance(value, str) else None), None
