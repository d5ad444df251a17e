"""Lengths of rules that follow from bend radii: sufficient for what is drawn, and unchanged for bundled processes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.cards import Process, load_process
from optinc_pdk.cards.consistency import with_radius_lengths
from optinc_pdk.cards.loader import components_folder, process_names
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.cards.rules import BendRadiusRule, GuideSpaceRule, load_rules
from optinc_pdk.signoff.drc.photonic_checks import concave_radius

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
