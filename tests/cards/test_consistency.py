"""Cards that violate their own rules, or cannot be drawn; lengths of rules that follow from bend radii."""

from __future__ import annotations

import math
import re
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.cards import Process, load_process, process_names
from optinc_pdk.cards.consistency import with_radius_lengths
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.cards.rules import BendRadiusRule, GuideSpaceRule, load_rules
from optinc_pdk.signoff.drc._photonic_checks import concave_radius

from .conftest import copied, edit, refusal

BASES = {"one": "soi220", "two": "soi220_two_metal", "flip": "soi220_flipchip"}


def load_error(base: str, folder: Path, file: str, key: str, value: object) -> str:
    """Error message for a copy of a process with one number changed."""
    process = copied(BASES[base], folder)
    path = process / file
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((components_folder() / "soi220" / file).read_bytes())
    edit(path, *key.split("."), value=value)
    message = refusal(process)
    assert file in message
    return message


SHIFTER, COUPLER = "devices/phase_shifter.yml", "devices/mmi2x2.yml"
GRATING = "devices/grating_coupler.yml"
# process, file, key, value 1 nm short of the limit, rule, the rule's value, the least value
BROKEN = [
    ("one", SHIFTER, "geometry.heater_width_um", 0.599, "heater.width", "0.6", "0.6"),
    ("one", SHIFTER, "geometry.contact_overlap_um", 9.999, "heater.contact_overlap", "10", "10"),
    ("one", SHIFTER, "geometry.contact_width_um", 1.999, "metal.width", "2", "2"),
    ("two", SHIFTER, "geometry.contact_overlap_um", 5.999, "heater.contact_overlap", "6", "6"),
    ("two", SHIFTER, "geometry.contact_width_um", 2.999, "metal2.width", "3", "3"),
    ("two", SHIFTER, "geometry.contact_width_um", 3.999, "via.metal1_enclosure", "0.5", "4"),
    ("one", "process.yml", "guide.width_um", 0.349, "core.width", "0.35", "0.35"),
    ("one", "process.yml", "guide.radius_um", 9.999, "core.bend_radius", "10", "10"),
    ("one", "devices/terminator.yml", "geometry.tip_width_um", 0.349, "core.width", "0.35", "0.35"),
    ("one", COUPLER, "geometry.taper_width_um", 0.349, "core.width", "0.35", "0.35"),
    ("one", COUPLER, "geometry.gap_um", 0.199, "core.space", "0.2", "0.2"),
    ("one", GRATING, "geometry.etch_um", 0.199, "etch70.width", "0.2", "0.2"),
    ("one", GRATING, "geometry.period_um", 0.564, "etch70.space", "0.25", "0.565"),
    ("one", "process.yml", "metal.wire_width_um", 1.999, "metal.width", "2", "2"),
    ("one", "process.yml", "metal.space_um", 9.999, "metal.space", "10", "10"),
    ("two", "process.yml", "metal.wire_width_um", 2.999, "metal2.width", "3", "3"),
    ("two", "process.yml", "contact.via.size_um", 2.999, "via.width", "3", "3"),
    ("two", "process.yml", "contact.via.space_um", 4.999, "via.space", "5", "5"),
    ("two", "process.yml", "contact.via.enclosure_um", 0.499, "via.metal1_enclosure", "0.5", "0.5"),
    ("one", "process.yml", "pads.size_um", 79.999, "pad.size", "80", "80"),
    ("one", "process.yml", "pads.pitch_um", 99.999, "pad.pitch", "100", "100"),
    ("one", "devices/pad.yml", "geometry.size_um", 79.999, "pad.size", "80", "80"),
    ("one", "process.yml", "pads.size_um", 90.001, "metal.space", "10", "100.001"),
    ("flip", "process.yml", "pads.size_um", 35.999, "pad.size", "36", "36"),
    ("flip", "process.yml", "pads.pitch_um", 49.999, "pad.pitch", "50", "50"),
    ("one", "process.yml", "floorplan.fibre_pitch_um", 126.999, "fibre.pitch", "127", "127"),
    ("one", "process.yml", "floorplan.keepout_um", 49.999, "chip.edge", "50", "50"),
    ("one", "process.yml", "floorplan.guide_space_um", 4.999, "core.guide_space", "5", "5"),
    # 2·(10 + 0.9/2 + 0.45/2), and in the other process 2·(8 + 2/2 + 0.5/2)
    ("one", "process.yml", "floorplan.mode_pitch_um", 21.349, "heater.foreign_guide", "10", "21.35"),
    ("two", "process.yml", "floorplan.mode_pitch_um", 18.499, "heater.foreign_guide", "8", "18.5"),
]


@pytest.mark.parametrize(("base", "file", "key", "value", "rule", "limit", "least"), BROKEN)
def test_a_card_that_violates_a_rule_is_refused(
    base: str, file: str, key: str, value: float, rule: str, limit: str, least: str, tmp_path: Path
) -> None:
    message = load_error(base, tmp_path, file, key, value)
    assert f"rule {rule!r} of {limit} µm needs at least {least} µm; correct" in message
    # a landing too large for its pitch is reported as a fault of the pitch
    expected = (key, f"{value:g}") if (key, rule) != ("pads.size_um", "metal.space") else ("pads.pitch_um", "100")
    assert f"{expected[0]} is {expected[1]} µm" in message


@pytest.mark.parametrize(
    ("rule", "value", "key"),
    [("bump.width", 24.001, r"bump\.yml: geometry.opening_um"), ("bump.space", 26.001, r"process\.yml: pads.pitch_um")],
)
def test_rules_of_bumps_limit_landings_and_their_pitch(rule: str, value: float, key: str, tmp_path: Path) -> None:
    process = copied("soi220_flipchip", tmp_path)
    edit(process / "rules.yml", "rules", rule, "value_um", value=value)
    assert re.search(rf"{key} is .*rule '{rule}'", refusal(process))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [("size_um", 36.002, "pads.size_um 36 µm"), ("size_um", 23.998, "is 24 µm.* 23.998 µm")],
)
def test_a_bump_has_the_pads_size_and_its_opening_fits(key: str, value: float, message: str, tmp_path: Path) -> None:
    process = copied("soi220_flipchip", tmp_path)
    edit(process / "devices" / "bump.yml", "geometry", "size_um", value=value)
    assert re.search(message, refusal(process))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("guide.arc_segments", 63, "guide.arc_segments is 63.* 64 "),
        ("guide.arc_segments", 64.5, "guide.arc_segments: value 64.5 must be a whole"),
        ("pads.rows_max", 2.5, "pads.rows_max: value 2.5 must be a whole"),
        ("floorplan.mode_pitch_um", 52.002, "floorplan.mode_pitch_um is 52.002 µm.* 4 nm"),
        ("layers.label.gds", [-3, 0], "layers.label.gds is .*from 0 to 65535"),
        ("layers.label.gds", [3, 0], "layers.label.gds is .*'core'"),
        ("dies", [], "dies"),
    ],
)
def test_counts_quarters_of_the_pitch_layers_and_dies_are_checked(
    key: str, value: object, message: str, folder: Path
) -> None:
    edit(folder / "process.yml", *key.split("."), value=value)
    assert re.search(message, refusal(folder))


def test_flip_chip_wiring_without_a_bump_is_refused(tmp_path: Path) -> None:
    process = copied("soi220_flipchip", tmp_path)
    (process / "devices" / "bump.yml").unlink()
    assert "devices/bump.yml" in refusal(process)


def test_a_path_is_not_the_name_of_a_bundled_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copytree(components_folder() / "soi220", tmp_path / "soi220")
    monkeypatch.chdir(tmp_path)
    for name in ("./soi220", f"{tmp_path}/soi220"):
        assert load_process(name).folders[0].samefile(tmp_path / "soi220")
    assert load_process("soi220").folders == (components_folder() / "soi220",)


def test_values_at_their_limits_are_accepted(tmp_path: Path) -> None:
    """The cards have many values at their limits; rules of severity ``warning`` may be violated."""
    for name in process_names():
        load_process(name)
    process = copied("soi220", tmp_path)
    edit(process / SHIFTER, "geometry", "heater_width_um", value=0.6)
    assert load_process(str(process)).device("phase_shifter").size("heater_width_um") == 0.6


def test_a_heater_longer_than_its_contacts_is_refused(tmp_path: Path) -> None:
    message = load_error("one", tmp_path, SHIFTER, "geometry.contact_overlap_um", 12.001)
    assert "contact_overlap_um is 12.001 µm, the contact is 12 µm" in message


@pytest.mark.parametrize(("die", "key"), [(0, "width_um"), (0, "height_um"), (1, "width_um"), (1, "height_um")])
def test_dies_of_illegal_sizes_are_refused(die: int, key: str, tmp_path: Path) -> None:
    message = load_error("one", tmp_path, "process.yml", f"dies.{die}.{key}", 33001)
    assert f"dies.{die} is " in message
    assert "rule 'chip.size' allows 11470 by 4900 or 5500 by 4900" in message


@pytest.mark.parametrize(
    ("file", "key"),
    [
        (SHIFTER, "geometry.length_um"),
        (COUPLER, "geometry.taper_length_um"),
        ("process.yml", "guide.radius_um"),
        ("process.yml", "dies.1.width_um"),
    ],
)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "not a finite number"),
        (float("inf"), "not a finite number"),
        (-1.0, "must (not be below|be above) 0"),
        (12.0005, "1 nm grid"),
        (1e6, "1000000 µm"),
    ],
)
def test_lengths_that_cannot_be_drawn_are_refused(
    file: str, key: str, value: float, reason: str, tmp_path: Path
) -> None:
    message = load_error("one", tmp_path, file, key, value)
    assert re.search(reason, message)
    assert key in message.replace("[", ".").replace("]", "")


STACKS = [
    ("contact", {"layers": ["metal1", "via"]}, "contact.layers: metal1, via "),
    ("contact", {"layers": ["metal1"]}, "contact.layers: metal1 "),
    ("contact", {"layers": ["metal1", "glass", "metal2"]}, "contact.layers: no layer 'glass'"),
    ("contact", {"layers": ["metal1", "via", "metal2"]}, "contact.via: "),
    ("grating", {"layer": "etch70"}, "grating.layer: no layer 'etch70'"),
]


@pytest.mark.parametrize(("section", "value", "reason"), STACKS)
def test_layers_that_form_no_contact_are_refused(
    section: str, value: dict[str, object], reason: str, tmp_path: Path
) -> None:
    process = copied("soi220_two_metal", tmp_path)
    edit(process / "process.yml", section, value=value)
    message = refusal(process)
    assert "process.yml" in message and reason in message


def test_a_card_may_not_allow_more_current_than_its_rules(tmp_path: Path) -> None:
    message = load_error("one", tmp_path, "process.yml", "metal.current_ma_per_um", 2.001)
    assert "metal.current_ma_per_um is 2.001 mA/µm, rule 'metal.current' allows 2; correct" in message


def edge_process(tmp_path: Path, base: str = "soi220_flipchip_onchip") -> Path:
    """A process with edge couplers that is based on another one; returns its card."""
    path = tmp_path / "process" / "process.yml"
    path.parent.mkdir()
    facet = {"coupler": "edge_coupler", "facet_um": {"value": 5.0, "source": "default"}}
    path.write_text(yaml.safe_dump({"schema": 1, "name": "process", "title": "Test", "base": base, "fibres": facet}))
    return path


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("fibres.facet_um", 2.0, ""),
        ("fibres.facet_um", 1.999, "fibres.facet_um is 1.999 µm, rule 'chip.facet' needs 2 to 10 µm"),
        ("fibres.facet_um", 10.0, ""),
        ("fibres.facet_um", 10.001, "fibres.facet_um is 10.001 µm, rule 'chip.facet' needs 2 to 10 µm"),
        ("fibres.facet_um", None, "fibres.facet_um is missing"),
        ("activation.realisation", "offchip", "edge_coupler needs activation.realisation onchip, the card has offchip"),
        ("pads.wiring", "perimeter", "edge_coupler needs pads.wiring flipchip, the card has perimeter"),
        ("fibres.coupler", "lens", "fibres.coupler"),
    ],
)
def test_edge_couplers_keep_their_rule_and_have_a_floorplan(
    key: str, value: object, message: str, tmp_path: Path
) -> None:
    path = edge_process(tmp_path)
    edit(path, *key.split("."), value=value)
    if message:
        assert message in refusal(path.parent)
    else:
        assert load_process(str(path.parent)).fibres.coupler == "edge_coupler"


@pytest.mark.parametrize("pitch", [127.0, 127.001])
def test_edge_couplers_keep_the_pitch_of_their_rule(pitch: float, tmp_path: Path) -> None:
    path = edge_process(tmp_path)
    rules = path.parent / "rules.yml"
    rules.write_bytes((components_folder() / "soi220_flipchip_onchip" / "rules.yml").read_bytes())
    edit(rules, "rules", "chip.facet", "pitch_um", value=pitch)
    if pitch <= 127.0:
        load_process(str(path.parent))
    else:
        assert "fibre_pitch_um is 127 µm, rule 'chip.facet' needs at least 127.001" in refusal(path.parent)


def test_silicon_at_the_edge_of_a_die_needs_a_rule(tmp_path: Path) -> None:
    path = edge_process(tmp_path, "soi220_flipchip")
    edit(path, "activation", "realisation", value="onchip")
    assert "no rule of kind facet allows silicon at the edge of a die" in refusal(path.parent)
    rules = yaml.safe_load((components_folder() / "soi220_flipchip_onchip" / "rules.yml").read_text())
    del rules["rules"][1]
    (path.parent / "rules.yml").write_text(yaml.safe_dump(rules))
    fault = "rule 'chip.edge' leaves out layer 'core', and no rule of kind facet checks it"
    assert fault in refusal(path.parent)


@pytest.mark.parametrize(
    ("rule", "key"), [("core.guide_space", "coupled_width_um"), ("core.bend_radius", "guide_width_um")]
)
def test_rules_state_the_width_with_which_guides_are_drawn(rule: str, key: str, folder: Path) -> None:
    edit(folder / "rules.yml", "rules", rule, key, value=0.451)
    assert f"rules.yml: {rule}: {key} is 0.451 µm, but guides are 0.45 µm wide" in refusal(folder)


PROCESS = load_process()
SPACE = next(rule for rule in PROCESS.rules if isinstance(rule, GuideSpaceRule) and rule.id == "core.guide_space")
BENDS = next(rule for rule in PROCESS.rules if isinstance(rule, BendRadiusRule) and not rule.inside_second)
RADII = st.floats(5.0, 1000.0).map(lambda radius: round(radius, 3))


def bent(radius_um: float, rule: BendRadiusRule = BENDS) -> BendRadiusRule:
    """The rule of bends with another radius, as the loader completes it."""
    completed = with_radius_lengths(rule.model_copy(update={"value_um": radius_um}), PROCESS)
    assert isinstance(completed, BendRadiusRule)
    return completed


def spaced(radius_um: float) -> GuideSpaceRule:
    """The rule of guide space in a process with another radius."""
    radius = Quantity(radius_um, "default")
    guide = PROCESS.guide.model_copy(update={"radius_um": radius})
    completed = with_radius_lengths(SPACE, PROCESS.model_copy(update={"guide": guide}))
    assert isinstance(completed, GuideSpaceRule)
    return completed


@pytest.mark.parametrize("name", process_names())
def test_rules_of_bundled_processes_are_those_of_their_cards(name: str) -> None:
    process = load_process(name)
    layers = {key: layer.gds for key, layer in process.layers.items()}
    files = [folder / "rules.yml" for folder in process.folders[::-1] if (folder / "rules.yml").is_file()]
    stated = {rule.id: rule for path in files for rule in load_rules(path, layers)}
    assert {rule.id: rule.text for rule in process.rules} == {key: rule.text for key, rule in stated.items()}
    for rule in process.rules:
        for key in ("exempt_um", "arms_um"):
            assert getattr(rule, key, None) == getattr(stated[rule.id], key, None)


@given(radius_um=RADII, turn=st.floats(0.0, 2 * math.pi), shift=st.floats(0.0, 1.0))
def test_rounded_arcs_of_the_radius_are_within_the_tolerance(radius_um: float, turn: float, shift: float) -> None:
    rule, half = bent(radius_um), BENDS.guide_width_um / 2
    count = max(64, math.ceil(math.pi / 4 / math.acos(1 - 0.001 / radius_um)))
    # a part of 30 µm suffices, and a turn of 90° at most
    chords = min(count, math.ceil(30.0 / radius_um / (math.pi / 2) * count))
    angles = turn + np.arange(chords + 1) * math.pi / 2 / count
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inner, outer = (1000 * (radius_um + side) * (around - around[0]) + shift for side in (-half, half))
    outer += 1000 * 2 * half * around[0]
    ring = np.rint(np.concatenate([inner[::-1], outer]))[::-1]
    ends = ring[[0, chords, chords + 1, -1]]
    ring = ring if _clockwise(ring) else ring[::-1]
    for arm, tolerance in rule.arms_um:
        away = np.hypot(*(ring[:, None] - ends).transpose(2, 0, 1)).min(axis=1) > 1100 * arm
        measured = concave_radius(ring, 1000 * arm)[away]
        assert np.isfinite(measured).any()
        assert measured.min() / 1000 >= radius_um - half - tolerance


def _clockwise(ring: np.ndarray) -> bool:
    x, y = ring.T
    return float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) < 0


@given(radius_um=RADII)
def test_bends_of_half_the_radius_are_outside_the_tolerance_of_the_longest_arm(radius_um: float) -> None:
    arm, tolerance = max(bent(radius_um).arms_um)
    # an arc of half the radius is longer than the points by which it is measured are apart
    if math.pi * radius_um / 2 / 2 > 2 * arm:
        assert tolerance < (radius_um - BENDS.guide_width_um / 2) / 2


@given(radius_um=RADII)
def test_arms_of_splitters_have_their_space_where_the_rule_begins(radius_um: float) -> None:
    device, width = PROCESS.device("mmi2x2"), float(PROCESS.guide.width_um)
    wide, length = device.size("taper_width_um"), device.size("taper_length_um")
    # where the rule begins, behind the taper's part that is narrower than a body
    behind = spaced(radius_um).exempt_um - length * (2 * SPACE.body_um - width) / (wide - width)
    outer, ports = radius_um + width / 2, device.size("gap_um") + wide - width
    angles = np.linspace(0.0, math.pi / 2, 10_001)
    arc = np.stack([outer * np.sin(angles), -ports - outer * (1 - np.cos(angles))], axis=1)
    # the other arm goes straight on
    straight = np.stack([np.linspace(behind, behind + 20.0, 41), np.zeros(41)], axis=1)
    assert np.hypot(*(straight[:, None] - arc).transpose(2, 0, 1)).min() >= SPACE.value_um - 0.001


def test_larger_bends_are_stated_in_the_text() -> None:
    assert spaced(10.0) is SPACE
    assert bent(10.0).text == BENDS.text
    far = spaced(80.0)
    assert far.exempt_um > SPACE.exempt_um
    assert f"here within {far.exempt_um:g} µm of a body" in far.text
    large = bent(80.0)
    assert large.exempt_um > BENDS.exempt_um
    assert f"{large.exempt_um:g} µm or more from a body" in large.text


def test_a_rule_of_rib_bends_keeps_its_arms() -> None:
    ribs = next(rule for rule in PROCESS.rules if isinstance(rule, BendRadiusRule) and rule.inside_second)
    assert bent(80.0, ribs).exempt_um == ribs.exempt_um


@pytest.mark.parametrize("value_um", [0.001, 0.225, 0.226, 1.225])
def test_a_radius_below_half_of_a_guide_is_read(value_um: float) -> None:
    assert bent(value_um).value_um == value_um


@pytest.mark.parametrize(
    ("key", "value"), [("taper_length_um", 0.0), ("taper_width_um", 0.45), ("taper_width_um", 0.4), ("gap_um", 9.0)]
)
def test_splitters_of_unusual_tapers_are_read(key: str, value: float, tmp_path: Path) -> None:
    card = yaml.safe_load((components_folder() / "soi220" / "devices" / "mmi2x2.yml").read_text())
    card["geometry"][key]["value"] = value
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "mmi2x2.yml").write_text(yaml.safe_dump(card))
    (tmp_path / "process.yml").write_text(yaml.safe_dump({"schema": 1, "name": "p", "title": "p", "base": "soi220"}))
    process: Process = load_process(tmp_path)
    assert all(rule.exempt_um >= 2 for rule in process.rules if isinstance(rule, GuideSpaceRule))
