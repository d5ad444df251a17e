"""Cells with gdsfactory's names that are composed of other cells: MZI with unequal arms, and heated straight."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import gdsfactory as gf
from gdsfactory.typings import CrossSectionSpec

from optinc_pdk.cells.cell_cache import cell
from optinc_pdk.cells.devices import phase_shifter
from optinc_pdk.cells.drawing import check_length, place_cell
from optinc_pdk.cells.sections import device_section
from optinc_pdk.tech import active_process

# gdsfactory's own function, which draws with the cells and cross-sections of the active PDK. Its cache is not used,
# because it would return the component of another process.
mzi: Callable[..., gf.Component] = cell(inspect.unwrap(gf.components.mzi))
mzi.__doc__ = f"""MZI with two splitters and arms that differ in length by ``delta_length``; gdsfactory's cell.

{inspect.cleandoc(str(gf.components.mzi.__doc__))}
"""


@cell
def straight_heater_metal(length: float | None = None, cross_section: CrossSectionSpec = "strip") -> gf.Component:
    """Straight guide under a heater, as long as gdsfactory's cell of this name: a phase shifter.

    Args:
        length: Length from o1 to o2 in µm, including the contacts (that of the card's phase shifter by default).
        cross_section: Cross-section of the guide; its width and layer are those of the process's guides.

    Raises:
        ValueError: The length is not on the 1 nm grid, or too short for contacts and 1 µm of heater; or the
            cross-section has another width or layer.
    """
    device_section("straight_heater_metal", cross_section)
    card = active_process().device("phase_shifter")
    contacts = 2 * card.size("contact_width_um")
    if length is not None:
        length = check_length("length", length, contacts + 1.0, "straight_heater_metal")
    shifter = phase_shifter(None if length is None else round(length - contacts, 3))
    c = gf.Component()
    c.add_ports(place_cell(c, shifter, (0.0, 0.0)).ports)
    c.info["length"] = length or card.size("length_um") + contacts
    return c
