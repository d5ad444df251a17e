"""Marks of coupled guides exempt only the device that they lie exactly over."""

from collections.abc import Sequence
from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.cards import CardError, load_process, process_names
from optinc_pdk.cards.rules import GuideSpaceRule, load_rules
from optinc_pdk.signoff.drc._guide_spacing import device_boxes, valid_marks, with_valid_marks
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.design_rule_check import run_drc

PROCESS = load_process()
LAYERS = PROCESS.gds_layers
WITH_GUIDES = next(rule for rule in PROCESS.rules if rule.id == "core.guide_space")
# the rule without marks over two guides of any gap
RULE = WITH_GUIDES.model_copy(update={"coupled_width_um": None})
COUPLER, TAP = (
    kdb.Region([kdb.Polygon([kdb.Point(*point) for point in polygon]) for polygon in polygons])
    for polygons in RULE.silicon_nm
)
BOX = COUPLER.bbox()
# guides that continue those of the coupler
LEADS = kdb.Region([kdb.Box(x, y - 225, x + 9000, y + 225) for x in (-9000, BOX.right) for y in (-3000, 3000)])


def design(silicon: kdb.Region, marks: Sequence[kdb.Box], turn: kdb.Trans | None = None) -> Design:
    layout = kdb.Layout()
    top, cell = layout.create_cell("TOP"), layout.create_cell("CELL")
    cell.shapes(layout.layer(*LAYERS["core"])).insert(silicon)
    for mark in marks:
        cell.shapes(layout.layer(*LAYERS["coupled"])).insert(mark)
    top.insert(kdb.CellInstArray(cell.cell_index(), turn or kdb.Trans(), kdb.Vector(90_000, 0), kdb.Vector(), 2, 1))
    return Design(layout, top, LAYERS, 1)


def valid(silicon: kdb.Region, *marks: kdb.Box, turn: kdb.Trans | None = None) -> int:
    """Number of valid marks of a cell that is placed twice."""
    return int(valid_marks(design(silicon, marks, turn), RULE, "coupled").count())


@pytest.mark.parametrize("turn", [kdb.Trans(turns, mirror, 7, -3) for turns in range(4) for mirror in (False, True)])
@pytest.mark.parametrize("device", [COUPLER, TAP], ids=["coupler", "tap"])
def test_the_mark_of_a_device_is_valid_in_every_orientation(device: kdb.Region, turn: kdb.Trans) -> None:
    assert valid(device, device.bbox(), turn=turn) == 2


def test_a_mark_with_guides_at_the_ports_is_valid() -> None:
    assert valid(COUPLER + LEADS, BOX) == 2


@pytest.mark.parametrize(
    "mark",
    {
        "enlarged by 1 nm": kdb.Box(-1, BOX.bottom, BOX.right, BOX.top),
        "1 nm too short": kdb.Box(0, BOX.bottom, BOX.right - 1, BOX.top),
        "1 nm too low": kdb.Box(0, BOX.bottom, BOX.right, BOX.top - 1),
        "moved along by 1 nm": BOX.moved(1, 0),
        "moved aside by 1 nm": BOX.moved(0, 1),
        "over everything": kdb.Box(-(10**6), -(10**6), 10**6, 10**6),
        "of another device": TAP.bbox(),
        "rotated": kdb.Box(BOX.bottom, 0, BOX.top, BOX.right),
    }.items(),
    ids=lambda item: item[0],
)
def test_any_other_mark_is_not_valid(mark: tuple[str, kdb.Box]) -> None:
    assert valid(COUPLER + LEADS, mark[1]) == 0


@pytest.mark.parametrize(
    "silicon",
    [TAP, kdb.Region(BOX), kdb.Region([p.moved(0, p.bbox().bottom // 1000) for p in COUPLER.each()]),
     COUPLER + kdb.Region(kdb.Box(0, 0, 1, 1)), kdb.Region()],
    ids=["tap", "plate", "other gap", "1 nm² of silicon more", "nothing"],
)  # fmt: skip
def test_the_mark_of_a_coupler_is_not_valid_on_other_silicon(silicon: kdb.Region) -> None:
    assert valid(silicon, BOX) == 0


def test_two_marks_that_touch_are_one_and_not_valid() -> None:
    assert valid(COUPLER, BOX, kdb.Box(BOX.right, 0, BOX.right + 1, 1)) == 0


def test_only_marks_that_are_not_valid_change_the_layout_and_the_rule() -> None:
    drawn = design(COUPLER, [BOX])
    same, rules = with_valid_marks(drawn, [RULE])
    assert same is drawn and rules == [RULE]
    changed, rules = with_valid_marks(design(COUPLER, [BOX, BOX.moved(0, 50_000)]), [RULE])
    assert rules[0].layers != RULE.layers
    assert (changed.region(rules[0].layers[1]) ^ valid_marks(changed, RULE, "coupled")).is_empty()
    assert changed.region(rules[0].layers[1]).count() == 2


PAIR = kdb.Region([kdb.Box(-9000, y, 39_000, y + 450) for y in (0, 650)])
OVER = kdb.Box(0, -500, 30_000, 1_600)


def of_guides(silicon: kdb.Region, *marks: kdb.Box, turn: kdb.Trans | None = None) -> int:
    """Number of valid marks of a cell that is placed twice, with marks over two guides."""
    return int(valid_marks(design(silicon, marks, turn), WITH_GUIDES, "coupled").count())


@pytest.mark.parametrize("turn", [kdb.Trans(turns, mirror, 7, -3) for turns in range(4) for mirror in (False, True)])
def test_a_mark_over_two_guides_is_valid_in_every_orientation(turn: kdb.Trans) -> None:
    assert of_guides(PAIR, OVER, turn=turn) == 2
    assert of_guides(COUPLER + LEADS, BOX, turn=turn) == 2


@pytest.mark.parametrize(
    "silicon",
    {
        "third guide": PAIR + kdb.Region(kdb.Box(-9000, 1_300, 39_000, 1_750)),
        "third guide that touches the mark": PAIR + kdb.Region(kdb.Box(-9000, 1_600, 39_000, 2_050)),
        "speck": PAIR + kdb.Region(kdb.Box(10_000, 500, 10_001, 501)),
        "joined": PAIR + kdb.Region(kdb.Box(10_000, 400, 10_450, 700)),
        "one guide": kdb.Region(kdb.Box(-9000, 0, 39_000, 450)),
        "end inside": PAIR - kdb.Region(kdb.Box(29_999, 650, 39_000, 1_100)),
        "cut": PAIR - kdb.Region(kdb.Box(15_000, 650, 15_001, 1_100)),
        "wider by 1 nm": PAIR + kdb.Region(kdb.Box(-9000, 1_000, 39_000, 1_101)),
        "narrower by 1 nm": PAIR - kdb.Region(kdb.Box(-9000, 1_099, 39_000, 1_100)),
        "nothing": kdb.Region(),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_mark_over_other_silicon_than_two_guides_is_not_valid(silicon: tuple[str, kdb.Region]) -> None:
    assert of_guides(silicon[1], OVER) == 0


def test_a_mark_along_a_guide_or_of_two_rectangles_is_not_valid() -> None:
    assert of_guides(PAIR, kdb.Box(0, 0, 30_000, 1_600)) == 0
    assert of_guides(PAIR, OVER, kdb.Box(0, -600, 100, 0)) == 0
    assert valid(PAIR, OVER) == 0


def test_a_mark_over_the_whole_chip_switches_no_rule_off(tmp_path: Path) -> None:
    close = kdb.Region([kdb.Box(0, y, 60_000, y + 450) for y in (40_000, 43_000)])

    def violations(silicon: kdb.Region, *marks: kdb.Box) -> dict[str, int]:
        drawn = design(silicon, marks)
        drawn.layout.write(str(tmp_path / "chip.gds"))
        rules = [RULE, *(rule for rule in PROCESS.rules if rule.id == "chip.layers")]
        result = run_drc(tmp_path / "chip.gds", rules, LAYERS)
        assert [found.rule for found in result.rules] == rules
        return {found.id: found.violations for found in result.rules}

    assert violations(TAP, TAP.bbox()) == {RULE.id: 0, "chip.layers": 0}
    assert violations(close) == {RULE.id: 2, "chip.layers": 0}
    for mark in (BOX.moved(0, 42_000), kdb.Box(-(10**6), -(10**6), 10**6, 10**6)):
        assert violations(close, mark) == {RULE.id: 2, "chip.layers": 0}


@pytest.mark.parametrize("name", process_names())
def test_every_process_knows_the_silicon_of_its_marked_devices(name: str) -> None:
    rules = [rule for rule in load_process(name).rules if isinstance(rule, GuideSpaceRule)]
    assert [len(rule.silicon_nm) for rule in rules] == [len(rule.devices) for rule in rules] == [2, 2]


def test_a_marker_layer_without_devices_is_refused(tmp_path: Path) -> None:
    text = (PROCESS.folder / "rules.yml").read_text()
    (tmp_path / "rules.yml").write_text(
        text.replace("devices: [directional_coupler, monitor_tap], coupled_width_um: 0.45,", "")
    )
    with pytest.raises(CardError, match=r"core\.guide_space.*'devices' belong together"):
        load_rules(tmp_path / "rules.yml", LAYERS)


# a rule without marks, whose devices are found by their silicon
FOUND = RULE.model_copy(update={"layers": ("core",)})


@pytest.mark.parametrize("turn", [kdb.Trans(turns, mirror, 7, -3) for turns in range(4) for mirror in (False, True)])
@pytest.mark.parametrize("device", [COUPLER, TAP], ids=["coupler", "tap"])
def test_a_device_without_a_mark_is_found_in_every_orientation(device: kdb.Region, turn: kdb.Trans) -> None:
    drawn = design(device + LEADS, [], turn)

    expected = kdb.Region([device.bbox().transformed(turn).moved(90_000 * i, 0) for i in range(2)])
    assert (device_boxes(drawn, FOUND) ^ expected).is_empty()


@pytest.mark.parametrize(
    "silicon",
    [kdb.Region(BOX), kdb.Region([p.moved(0, p.bbox().bottom // 1000) for p in COUPLER.each()]),
     COUPLER + kdb.Region(kdb.Box(0, 0, 1, 1)), PAIR, kdb.Region()],
    ids=["plate", "other gap", "1 nm² of silicon more", "two guides", "nothing"],
)  # fmt: skip
def test_no_other_silicon_is_found_as_a_device(silicon: kdb.Region) -> None:
    assert device_boxes(design(silicon, []), FOUND).is_empty()


def test_guides_near_a_device_that_was_found_are_not_exempt(tmp_path: Path) -> None:
    third = kdb.Region(kdb.Box(0, BOX.top + 500, BOX.right, BOX.top + 950))
    for name, silicon, expected in (("alone", COUPLER + LEADS, 0), ("beside", COUPLER + LEADS + third, 2)):
        drawn = design(silicon, [])
        drawn.layout.write(str(tmp_path / f"{name}.gds"))
        (result,) = run_drc(tmp_path / f"{name}.gds", [FOUND], LAYERS, 1).rules
        assert result.violations == expected


def test_guides_of_any_gap_need_a_layer_of_marks(tmp_path: Path) -> None:
    text = (PROCESS.folder / "rules.yml").read_text()
    (tmp_path / "rules.yml").write_text(
        text.replace("kind: guide_space, layers: [core, coupled]", "kind: guide_space, layers: [core]")
    )
    with pytest.raises(CardError, match=r"core\.guide_space.*coupled_width_um"):
        load_rules(tmp_path / "rules.yml", LAYERS)
