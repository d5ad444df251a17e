"""Every cell obeys the design rules, with guides at its ports as a chip has them."""

from pathlib import Path

import gdsfactory as gf
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc import run_drc

PROCESS = load_process()
# what only a whole chip has
CHIP = ("chip.outline", "chip.size", "chip.edge")


def with_guides(name: str) -> gf.Component:
    """A cell with a straight at each port that is as wide as one."""
    c = gf.Component()
    inside = c << CELLS[name]()
    for port in inside.ports:
        if port.port_type == "optical" and port.width == PROCESS.guide.width_um:
            (c << CELLS["straight"](length_um=10.0)).connect("o1", port)
    return c


@pytest.mark.parametrize("name", cells_of(PROCESS))
def test_a_cell_obeys_every_rule(name: str, tmp_path: Path) -> None:
    get_pdk().activate()
    with_guides(name).write_gds(tmp_path / "cell.gds", with_metadata=False)
    rules = [rule for rule in PROCESS.rules if rule.id not in CHIP]
    result = run_drc(tmp_path / "cell.gds", rules, PROCESS.gds_layers)
    assert {found.id: [str(box) for box in found.boxes_um] for found in result.rules if found.violations} == {}


def test_coupled_guides_without_their_mark_are_too_close(tmp_path: Path) -> None:
    get_pdk().activate()
    c = with_guides("directional_coupler").dup()
    c.flatten()
    c.shapes(c.kcl.layer(*PROCESS.gds_layers["coupled"])).clear()
    c.write_gds(tmp_path / "cell.gds", with_metadata=False)
    result = run_drc(tmp_path / "cell.gds", PROCESS.rules, PROCESS.gds_layers)
    assert next(found for found in result.rules if found.id == "core.guide_space").violations > 0
