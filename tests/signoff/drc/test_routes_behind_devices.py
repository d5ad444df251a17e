"""Design rules of routes that begin at a device, as docs/python.md states them."""

from __future__ import annotations

from pathlib import Path

import gdsfactory as gf
import pytest

from optinc_pdk import active_pdk
from optinc_pdk.cards import load_process
from optinc_pdk.signoff.drc.design_rule_check import check_chip

PROCESS = load_process()


def violated(folder: Path, cell: str, ends: tuple[tuple[str, float, float], ...], straight: float, bend: str) -> bool:
    """Whether routes from ports of a cell to gratings, at a distance each, violate rules of silicon."""
    with active_pdk():
        c = gf.Component()
        device = c << gf.get_component(cell)
        for port, x, y in ends:
            grating = c << gf.get_component("grating_coupler")
            if x < 0:
                grating.drotate(180)
            start = device.ports[port].dcenter
            grating.dmove((start[0] + x, start[1] + y))
            gf.routing.route_single(
                c,
                device.ports[port],
                grating.ports["o1"],
                cross_section="strip",
                bend=bend,
                start_straight_length=straight,
                end_straight_length=straight,
            )
        path = folder / "routes.gds"
        c.write_gds(path, with_metadata=False)
    rules = check_chip(path, PROCESS, parts=True).rules
    return any(rule.violations for rule in rules if rule.rule.id.startswith("core."))


ARMS = (("o2", 300.0, 60.0), ("o3", 300.0, -60.0))


@pytest.mark.parametrize("cell", ["mmi1x2", "mmi2x2"])
def test_arms_lead_apart_at_once(tmp_path: Path, cell: str) -> None:
    arms = ARMS if cell == "mmi1x2" else (("o3", 300.0, 60.0), ("o4", 300.0, -60.0))
    assert not violated(tmp_path, cell, arms, 0.0, "bend_euler")
    assert violated(tmp_path, cell, arms, 3.0, "bend_euler")


@pytest.mark.parametrize(
    ("cell", "end"), [("grating_coupler", ("o1", -300.0, 100.0)), ("crossing", ("o3", 300.0, 60.0))]
)
def test_circular_bends_need_a_straight_before_them(tmp_path: Path, cell: str, end: tuple[str, float, float]) -> None:
    assert not violated(tmp_path, cell, (end,), 0.0, "bend_euler")
    assert violated(tmp_path, cell, (end,), 0.0, "bend_circular")
    assert not violated(tmp_path, cell, (end,), 3.0, "bend_circular")
