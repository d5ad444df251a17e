"""Rules of vias: at the limit and 1 nm above pass, 1 nm below fails, without violations of other rules of vias."""

from collections.abc import Callable
from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.signoff.drc.design_rule_check import run_drc

PROCESS = load_process("soi220_two_metal")
VIAS = [rule for rule in PROCESS.rules if rule.id.startswith("via.")]
Boxes = dict[str, list[kdb.Box]]


def stack(width: int = 3000, gap: int = 5000, metal1: int = 500, metal2: int = 500) -> Boxes:
    """Two neighbouring vias in nm, with the distances by which the metals extend beyond them."""
    vias = [kdb.Box(x, 0, x + width, 3000) for x in (0, width + gap)]
    whole = vias[0] + vias[1]
    return {"via": vias, "metal1": [whole.enlarged(metal1, metal1)], "metal2": [whole.enlarged(metal2, metal2)]}


LIMITS: dict[str, Callable[[int], Boxes]] = {
    "via.width": lambda d: stack(width=3000 + d),
    "via.space": lambda d: stack(gap=5000 + d),
    "via.metal1_enclosure": lambda d: stack(metal1=500 + d),
    "via.metal2_enclosure": lambda d: stack(metal2=500 + d),
    "via.in_metal1": lambda d: stack() | {"metal1": [kdb.Box(-500, -500, 11_000 + min(d, 0), 3500)]},
    "via.in_metal2": lambda d: stack() | {"metal2": [kdb.Box(-500, -500, 11_000 + min(d, 0), 3500)]},
}


def broken(boxes: Boxes, folder: Path) -> set[str]:
    layout = kdb.Layout()
    top = layout.create_cell("TOP")
    for name, shapes in boxes.items():
        for box in shapes:
            top.shapes(layout.layer(*PROCESS.gds_layers[name])).insert(box)
    layout.write(str(folder / "drawn.gds"))
    result = run_drc(folder / "drawn.gds", VIAS, PROCESS.gds_layers)
    return {rule.id for rule in result.rules if rule.violations}


def test_every_rule_of_vias_has_a_limit_here() -> None:
    assert {rule.id for rule in VIAS} == set(LIMITS)


@pytest.mark.parametrize("rule", LIMITS)
def test_rules_of_vias_fail_one_nm_short_only(rule: str, tmp_path: Path) -> None:
    # metal that ends at the via's edge has an enclosure of 0; metal that ends within it is reported once
    along = {rule.replace("in_", "") + "_enclosure"} if ".in_" in rule else set()
    assert broken(LIMITS[rule](0), tmp_path) == along
    assert broken(LIMITS[rule](1), tmp_path) == along
    assert broken(LIMITS[rule](-1), tmp_path) == {rule}
