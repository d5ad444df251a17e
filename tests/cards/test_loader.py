"""Digests of the parts of process cards."""

from __future__ import annotations

from pathlib import Path

from optinc_pdk.cards import card_digests, changed_parts, load_process, with_drive

OWN = """schema: 1
name: soi220
title: {title}
base: soi220
{more}
"""


def variant(folder: Path, title: str = "the same", more: str = "", devices: dict[str, str] | None = None) -> Path:
    """A process of the same name, based on the bundled one."""
    card = folder / "soi220"
    (card / "devices").mkdir(parents=True)
    (card / "process.yml").write_text(OWN.format(title=title, more=more))
    for name, text in (devices or {}).items():
        (card / "devices" / f"{name}.yml").write_text(text)
    return card


def test_every_part_of_the_cards_has_a_digest() -> None:
    process = load_process()
    digests = card_digests(process)
    assert {f"devices/{name}" for name in process.devices} < set(digests)
    assert {"guide", "drive", "noise", "budget", "imperfections", "rules", "layers"} < set(digests)
    assert not {"name", "title", "sources", "folders", "devices"} & set(digests)


def test_titles_sources_and_folders_change_nothing(tmp_path: Path) -> None:
    device = (load_process().folders[0] / "devices" / "taper.yml").read_text()
    device = device.replace("title: ", "title: My ")
    card = variant(tmp_path, "another title", "sources: {mine: a book}", {"taper": device})
    assert changed_parts(card_digests(load_process()), card_digests(load_process(card))) == []


def test_values_change_the_digest_of_their_part(tmp_path: Path) -> None:
    path = load_process().folders[0] / "devices" / "modulator.yml"
    device = path.read_text().replace("bandwidth_hz: {value: 2.0e+10", "bandwidth_hz: {value: 2.1e+10")
    assert device != path.read_text()
    noise = "noise: {linewidth_hz: {value: 2.0e+4, source: default}}"
    card = variant(tmp_path, more=noise, devices={"modulator": device})
    stated = card_digests(load_process())
    assert changed_parts(stated, card_digests(load_process(card))) == ["devices/modulator", "noise"]
    assert changed_parts(stated, card_digests(with_drive(load_process(), "power"))) == ["drive"]


def test_parts_of_one_card_only_are_changed() -> None:
    assert changed_parts({"noise": "1", "guide": "2"}, {"guide": "2", "devices/tap": "3"}) == ["devices/tap", "noise"]
