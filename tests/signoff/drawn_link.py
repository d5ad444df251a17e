"""A small circuit that is drawn by hand: two grating couplers, a heater between them, and a pad at each end of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gdsfactory as gf

from optinc_pdk import active_pdk
from optinc_pdk.cards import load_process

PROCESS = load_process()
HEATER_UM = 124.0
"""Length of the phase shifter with its contacts."""
LENGTH_UM = 60.0
"""Length of the guide between the heater and the coupler in the east."""


def draw(folder: Path, guide_um: float = LENGTH_UM, labels: tuple[tuple[str, float], ...] = ()) -> Path:
    """Write the layout, and return its path.

    Args:
        folder: Folder to write to.
        guide_um: Length of the guide in the east.
        labels: Texts and their x; y is 0.
    """
    with active_pdk():
        top = gf.Component()
        place(top, "grating_coupler", 0.0, 180)
        place(top, "phase_shifter", 0.0, 0)
        guide = ((HEATER_UM, -0.225), (HEATER_UM, 0.225), (HEATER_UM + guide_um, 0.225), (HEATER_UM + guide_um, -0.225))
        top.add_polygon(guide, layer=PROCESS.gds_layers["core"])
        place(top, "grating_coupler", HEATER_UM + guide_um, 0)
        metal = PROCESS.gds_layers["metal"]
        for x, pad in ((6.0, -100.0), (HEATER_UM - 6.0, HEATER_UM + 100.0)):
            place(top, "pad", pad, 0, 300.0)
            for left, bottom, right, upper in (
                (min(pad, x) - 2, 98.0, max(pad, x) + 2, 102.0),
                (x - 2, 0.0, x + 2, 100.0),
                (pad - 2, 100.0, pad + 2, 300.0),
            ):
                box = ((left, bottom), (left, upper), (right, upper), (right, bottom))
                top.add_polygon(box, layer=metal)
        for text, x in labels:
            top.add_label(text, position=(x, 0.0), layer=PROCESS.gds_layers["label"])
        path = folder / "link.gds"
        top.write_gds(path, with_metadata=False)
    return path


def place(top: gf.Component, cell: str, x: float, rotation: float, y: float = 0.0) -> None:
    """Add an instance of a cell of the PDK."""
    (top << gf.get_component(cell)).dcplx_trans = gf.kdb.DCplxTrans(1.0, rotation, False, x, y)


def netlist(guide_um: float | None = LENGTH_UM, placed: bool = True) -> dict[str, Any]:
    """Return the netlist of the layout, as gdsfactory would write it.

    Args:
        guide_um: Length of the guide in the east; None to leave it out.
        placed: Whether it states placements.
    """
    data: dict[str, Any] = {
        "instances": {
            "west": {"component": "grating_coupler", "info": {}},
            "east": {"component": "grating_coupler", "info": {}},
            "heater": {"component": "phase_shifter", "info": {}},
            "guide": {"component": "straight", "info": {} if guide_um is None else {"length": guide_um}},
            "pad1": {"component": "pad", "info": {}},
            "pad2": {"component": "pad", "info": {}},
        },
        "nets": [
            {"p1": a, "p2": b}
            for a, b in (
                ("west,o1", "heater,o1"),
                ("heater,o2", "guide,o1"),
                ("guide,o2", "east,o1"),
                ("pad1,e1", "heater,e1"),
                ("pad2,e1", "heater,e2"),
            )
        ],
        "ports": {"in": "west,o2", "out": "east,o2"},
    }
    if placed:
        data["placements"] = {
            name: {"x": x, "y": y, "rotation": rotation, "mirror": False}
            for name, x, y, rotation in (
                ("west", 0.0, 0.0, 180),
                ("heater", 0.0, 0.0, 0),
                ("guide", HEATER_UM, 0.0, 0),
                ("east", HEATER_UM + LENGTH_UM, 0.0, 0),
                ("pad1", -100.0, 300.0, 0),
                ("pad2", HEATER_UM + 100.0, 300.0, 0),
            )
        }
    return data
