"""System cards: all cards of the package load, and invalid cards are refused with file, key and value."""

import pytest

from optinc_pdk.cards.loader import components_folder
from optinc_pdk.errors import InputError
from optinc_pdk.interconnect import load_system, optinc_star, simulate, system_names, with_rate
from optinc_pdk.interconnect.systems import FatTree, InNetwork, WdmRing

CARDS = components_folder() / "systems"


@pytest.mark.parametrize("name", system_names())
def test_every_card_loads_and_uses_each_of_its_sources(name):
    system = load_system(name)
    text = (CARDS / f"{name}.yml").read_text(encoding="utf-8")
    for source in system.sources:
        assert f"source: {source}}}" in text


def test_there_is_a_card_of_every_kind():
    kinds = {type(load_system(name)) for name in system_names()}
    assert kinds == {WdmRing, FatTree, InNetwork}


@pytest.mark.parametrize(
    ("card", "old", "new", "message"),
    [
        ("wdm_ring", "value: 40.0e+9", "value: -40.0e+9", r"bit_per_s: .*above 0"),
        ("wdm_ring", "value: 64", "value: 0", r"wavelengths: .*above 0"),
        ("wdm_ring", "value: 64", "value: 2.5", r"wavelengths: .*2\.5 .*whole"),
        ("wdm_ring", "wavelengths:", "colours:", r"(wavelengths|colours).*; "),
        ("wdm_ring", "spacing_m:", "colour: 1\nspacing_m:", r"unknown key colour; "),
        ("wdm_ring", "source: smf", "source: nowhere", r"source 'nowhere' .*'sources'"),
        ("wdm_ring", "kind: wdm_ring", "kind: token_ring", r"kind: 'token_ring' .*wdm_ring"),
        ("wdm_ring", "schema: 1", "schema: 7", r"schema .*1"),
        ("wdm_ring", "name: wdm_ring", "name: other", r"'other', .*'wdm_ring'"),
        ("fat_tree", "overhead_s: {value: 5", "overhead_s: {value: -5", r"overhead_s: .*below 0"),
        ("fat_tree", "levels: {value: 3", "levels: {value: 40", r"levels: 40 .*32"),
        ("fat_tree", "levels: {value: 3", "levels: {value: 1.0e+18", r"levels: 1e\+18 "),
        ("fat_tree", "up_ports: {value: 64", "up_ports: {value: 1.0e+18", r"with 1e\+18 ports"),
        ("optinc_star", "value: 0.6", "value: 1.2", r"server\.utilisation: .*at most 1"),
        ("optinc_star_8bit_chip", "value: 2.3e+8", "value: .nan", r"chip\.symbol_rate_bd: "),
    ],
)
def test_invalid_cards_are_refused(tmp_path, card, old, new, message):
    text = (CARDS / f"{card}.yml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / f"{card}.yml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=message) as fault:
        load_system(str(path))
    assert str(path) in str(fault.value)


def test_an_unknown_system_is_refused():
    with pytest.raises(InputError, match=r"'torus': .*fat_tree"):
        load_system("torus")


def test_an_invalid_file_name_is_refused():
    with pytest.raises(InputError, match="File name too long"):
        load_system("a" * 300)


def test_a_card_is_loaded_by_its_path(tmp_path):
    path = tmp_path / "mine.yml"
    text = (CARDS / "wdm_ring.yml").read_text(encoding="utf-8").replace("name: wdm_ring", "name: mine")
    path.write_text(text.replace("value: 64", "value: 8"), encoding="utf-8")
    assert load_system(str(path)).wavelengths == 8.0


def test_a_chip_takes_one_word_per_symbol():
    system = load_system("optinc_star_8bit_chip")
    assert system.bit_per_s == 8 * system.chip.symbol_rate_bd
    assert load_system("optinc_star").bit_per_s == 6.4e12


@pytest.mark.parametrize("rate", [0.0, -1e9, float("nan"), float("inf")])
def test_invalid_rates_are_refused(rate):
    for name in ("wdm_ring", "optinc_star"):
        with pytest.raises(InputError, match=rf"{name}: a rate of {rate} b/s|bit_per_s = {rate}"):
            with_rate(load_system(name), rate)


@pytest.mark.parametrize("name", ["wdm_ring", "fat_tree", "optinc_star_4bit_chip"])
def test_with_rate_changes_the_rate(name):
    assert with_rate(load_system(name), 1e12).bit_per_s == pytest.approx(1e12)
    fast, slow = (simulate(optinc_star(4), with_rate(load_system("optinc_star"), rate), 1e6) for rate in (2e12, 1e12))
    assert slow.seconds == pytest.approx(2 * fast.seconds)
