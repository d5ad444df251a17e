"""Mutation tests of sign-off, a sample: one mutant of most kinds, on a chip to which the kind applies.

`make mutants` checks every kind on four chips; see results/mutants.json.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import klayout.db as kdb
import pytest
from mutants.chips import CHIPS, Base, build
from mutants.clean import check_clean
from mutants.draft import Draft
from mutants.judge import CAUGHT, HOLE, SAME, judge, same_geometry
from mutants.kinds import KINDS

# Kinds that may violate no rule and change neither netlist nor function; such mutants must be shown equivalent.
HARMLESS = {
    "arm 10 nm longer",
    "arm 20 nm longer",
    "arm 5 nm longer",
    "bump missing",
    "bump moved by 4 um",
    "contact of a heater shortened",
    "drawn label",
    "fibre label also on nothing",
    "guide 10 nm longer",
    "guide 20 nm longer",
    "guide 200 nm longer",
    "guide 1 um longer",
    "guide 5 nm longer",
    "guide tapered by 1 nm over 1.5 um",
    "guide wider, then as much narrower, by 2 nm",
    "heater moved along by 100 nm",
    "heater moved along by 3 um",
    "heater moved with its contacts",
    "mark of a black box over a guide",
    "mark of a black box over everything",
    "metal of nothing",
    "one via missing",
    "pad label also on nothing",
    "pad label moved on its pad",
    "pad moved by 5 um",
    "text of nothing",
    "wire narrowed by a tenth",
    "wire narrowed by a third",
    "wire of the upper metal across a heater",
    "wire widened by 1 um",
}
# Kinds that do not change the geometry, because the device is symmetric.
SYMMETRIC = {
    "coupler mirrored about its length",
    "coupler mirrored about its width",
    "coupler rotated by 180 degrees",
    "splitter mirrored about its length",
    "crossing mirrored about its length",
    "crossing mirrored about its width",
    "crossing rotated by 90 degrees",
    "crossing rotated by 180 degrees",
    "terminator mirrored about its length",
    "grating coupler mirrored about its length",
    "edge coupler mirrored about its length",
    "device duplicated in place",
    "phase shifter mirrored about its width",
}
# Families of kinds that differ in a number or in the device only; every eighth of their kinds is in the sample.
FAMILIES = ("mutants.instances", "mutants.widths", "mutants.couplings", "mutants.layers")
MEMBERS = [name for name, function in KINDS.items() if function.__module__ in FAMILIES]
SAMPLED = [name for name in KINDS if name not in MEMBERS or MEMBERS.index(name) % 8 == 0]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Base]:
    """A chip by name, built once."""
    return cache(lambda name: build(name, tmp_path_factory.mktemp(name)))


def order(kind: str) -> list[str]:
    """The chips in the order in which they are tried; each is the first for a third of the kinds."""
    first = list(KINDS).index(kind) % len(CHIPS)
    return [*list(CHIPS)[first:], *list(CHIPS)[:first]]


@pytest.mark.full(every=20)
@pytest.mark.parametrize("kind", SAMPLED)
def test_a_mutant_of_every_kind_is_caught_or_shown_equivalent(
    kind: str, base: Callable[[str], Base], tmp_path: Path
) -> None:
    judged = (judge(base(name), kind, 0, tmp_path, thorough=False) for name in order(kind))
    # a spur may lie inside a wider body, which leaves the layout as it is; the next chip then counts
    verdict = next(v for v in judged if v is not None and (v.outcome != SAME or kind != "spur on a guide"))
    assert verdict.outcome != HOLE, verdict.reason
    if kind in SYMMETRIC:
        assert verdict.outcome == SAME
    elif kind not in HARMLESS:
        # a rotated attenuator has the same geometry
        assert verdict.outcome == CAUGHT or "attenuator turned" in verdict.description, verdict.reason


@pytest.mark.full(every=6)
@pytest.mark.parametrize("number", range(6))
def test_a_clean_chip_is_not_flagged(number: int, tmp_path: Path) -> None:
    found = check_clean(number, tmp_path)
    assert (found.drc, found.lvs) == ((), ()), found.description


def differences(base: Base, draft: Draft) -> kdb.Region:
    """Shapes that differ on any layer, flat."""
    found = kdb.Region()
    for name, gds in base.process.gds_layers.items():
        drawn = kdb.Region(draft.top.begin_shapes_rec(draft.index(name))).merged()
        found += drawn ^ base.shapes.get(gds, kdb.Region())
    return found.merged()


def test_an_edit_of_one_instance_leaves_all_others(base: Callable[[str], Base]) -> None:
    chip = base("perimeter")
    draft = Draft(chip)
    place = draft.places("mmi2x2")[3]
    hole = kdb.Box(-100, -100, 100, 100).moved(place.box.center().x, place.box.center().y)
    draft.cut("core", hole)
    assert differences(chip, draft).bbox() == hole
    draft = Draft(chip)
    place = draft.places("mmi2x2")[3]
    draft.reshape(place, "core", lambda shapes: kdb.Region())
    assert not (gone := differences(chip, draft)).is_empty()
    assert gone.bbox().inside(place.box)


def test_an_edit_of_a_shared_cell_is_in_every_instance(base: Callable[[str], Base]) -> None:
    chip = base("perimeter")
    draft = Draft(chip)
    places = draft.places("mmi2x2")
    hole = kdb.Box(-100, -100, 100, 100).moved(places[3].box.center().x, places[3].box.center().y)
    draft.cut("core", hole, shared=True)
    assert differences(chip, draft).count() == len(places)


def test_the_same_layout_with_another_hierarchy_has_the_same_geometry(
    base: Callable[[str], Base], tmp_path: Path
) -> None:
    chip = base("bumps")
    draft = Draft(chip)
    draft.top.flatten(-1, True)
    draft.layout.write(str(tmp_path / "flat.gds"))
    assert same_geometry(chip, tmp_path / "flat.gds")
    draft.add("core", kdb.Box(0, 0, 1, 1))
    draft.layout.write(str(tmp_path / "speck.gds"))
    assert not same_geometry(chip, tmp_path / "speck.gds")
