"""System cards: all cards of the package load, and invalid cards are refused with file, key and value."""

import pytest
from studies import read_data

from optinc_collective.interconnect import load_system, optinc_star, simulate, system_names, with_rate
from optinc_collective.interconnect._systems import FatTree, InNetwork, Sharp, WdmRing
from optinc_pdk.cards import load_process
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.errors import InputError

CARDS = components_folder() / "systems"


@pytest.mark.parametrize("name", system_names())
def test_every_card_loads_and_uses_each_of_its_sources(name):
    system = load_system(name)
    text = (CARDS / f"{name}.yml").read_text(encoding="utf-8")
    for source in system.sources:
        assert f"source: {source}}}" in text


def test_there_is_a_card_of_every_kind():
    kinds = {type(load_system(name)) for name in system_names()}
    assert kinds == {WdmRing, FatTree, InNetwork, Sharp}


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
        ("optinc_star_8bit_soi220", "value: 3.94e+8", "value: .nan", r"chip\.symbol_rate_bd: "),
        ("sharp", "value: 0.95", "value: 1.05", r"streaming: .*at most 1"),
        ("sharp", "radix: {value: 72", "radix: {value: 1", r"radix: .*at least 2"),
        ("sharp", "radix: {value: 72", "radix: {value: 7.5", r"radix: .*7\.5 .*whole"),
        ("sharp", "levels: {value: 3", "levels: {value: 0", r"levels: .*above 0"),
        ("sharp", "switch_s: {value: 0.3e-6, source: latency}", "switch_s: 0.3e-6", r"switch_s: .*source: key"),
        ("sharp", "links:", "rails:", r"(links|rails).*; "),
        ("sharp", "source: silicon}", "source: vendors}", r"energy\.switch_j_per_bit: source 'vendors' .*'sources'"),
        ("sharp", "value: 10.0e-12", "value: 0.0", r"energy\.switch_j_per_bit: .*above 0"),
        ("sharp", "value: 10.6e-12", "value: -1.0", r"energy\.linear\.module_j_per_bit: .*above 0"),
        ("server_switch", "value: 1.24e-12", "value: 0.0", r"energy\.copackaged\.serdes_j_per_bit: .*above 0"),
        ("fat_tree", "value: 1.14e-12", "value: -1.0", r"energy\.correction_j_per_bit: .*below 0"),
        ("fat_tree", "  linear:\n", "  direct:\n", r"energy.*(linear|direct)"),
        ("switch_800g", "value: 0.03e-12", "value: -1.0", r"energy\.addition_j_per_bit: .*below 0"),
        ("ring_800g", "module_j_per_bit: {value: 20", "module_w: {value: 20", r"energy\.pluggable\.module_j"),
        ("ring_800g", "energy:\n", "energy:\n  switch_j_per_bit: {value: 1.0e-11, source: smf}\n", r"switch_j_per_bit"),
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
    system = load_system("optinc_star_8bit_soi220")
    assert system.bit_per_s == 8 * system.chip.symbol_rate_bd
    assert load_system("optinc_star").bit_per_s == 6.4e12


@pytest.mark.parametrize("rate", [0.0, -1e9, float("nan"), float("inf")])
def test_invalid_rates_are_refused(rate):
    for name in ("wdm_ring", "optinc_star"):
        with pytest.raises(InputError, match=rf"{name}: a rate of {rate} b/s|bit_per_s = {rate}"):
            with_rate(load_system(name), rate)


@pytest.mark.parametrize("name", ["wdm_ring", "fat_tree", "optinc_star_4bit_soi220", "sharp"])
def test_with_rate_changes_the_rate(name):
    assert with_rate(load_system(name), 1e12).bit_per_s == pytest.approx(1e12)
    fast, slow = (simulate(optinc_star(4), with_rate(load_system("optinc_star"), rate), 1e6) for rate in (2e12, 1e12))
    assert slow.seconds == pytest.approx(2 * fast.seconds)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("process", "receivers"), [("soi220", "photodiodes"), ("soi220_fast", "coherent")])
def test_the_cards_of_chips_have_the_recorded_rates(bits, process, receivers):
    """Rounded down to three digits; results/symbol_rates.json is measured by benchmarks/symbol_rates.py."""
    recorded = read_data("symbol_rates", {})
    rate = recorded[f"{bits}bit {process} neurons {receivers}"]["limits"]["symbol_rate_bd"]
    chip = load_system(f"optinc_star_{bits}bit_{process}").chip
    assert 0.99 * rate < chip.symbol_rate_bd <= rate
    assert chip.bits == bits


def test_systems_that_are_compared_have_the_same_ends_links_and_energies():
    tree, switch, ring = (load_system(name) for name in ("sharp", "switch_800g", "ring_800g"))
    for other in (switch, ring, load_system("optinc_star_8bit_soi220_fast")):
        assert other.overhead_s == tree.overhead_s
    assert tree.links * tree.link_bit_per_s == switch.bit_per_s == ring.bit_per_s == 6.4e12
    assert (tree.switch_s, tree.cable_m, tree.radix) == (switch.switch_s, switch.cable_m, switch.down_ports)
    assert tree.energy == switch.energy == load_system("fat_tree").energy == load_system("server_switch").energy
    assert {key: tree.energy.model_dump()[key] for key in ring.energy.model_dump()} == ring.energy.model_dump()


@pytest.mark.parametrize("name", [name for name in system_names() if "_soi220" in name])
def test_a_star_of_chips_has_the_fibres_of_its_process(name: str) -> None:
    """The phases of light and its time of flight are those of the same fibres."""
    system, process = load_system(name), load_process(name.partition("bit_")[2])
    fibres = process.noise.fibres
    assert float(system.fibre_m) == float(fibres.length_m)
    assert float(system.fibre_index) == float(fibres.index)
