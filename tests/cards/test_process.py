"""Process and device cards: what is read, and errors with file, key and remedy for every kind of invalid card."""

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from optinc_pdk.cards import DEFAULT_PROCESS, CardError, Process, Quantity, load_process
from optinc_pdk.cards.loader import components_folder

from .conftest import refusal

PROCESSES = sorted(path.parent.name for path in components_folder().glob("*/process.yml"))
CARDS = sorted(components_folder().glob("*/devices/*.yml"))


def replace_text(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def quantities(value: Any) -> Iterator[Quantity]:
    if isinstance(value, Quantity):
        yield value
    elif isinstance(value, BaseModel):
        for key in type(value).model_fields:
            yield from quantities(getattr(value, key))
    elif isinstance(value, dict):
        for item in value.values():
            yield from quantities(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from quantities(item)


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_loads_under_its_folders_name(name: str) -> None:
    process = load_process(name)
    assert process.name == name
    assert process is load_process(name)
    assert load_process() is load_process(DEFAULT_PROCESS)
    assert len(set(process.gds_layers.values())) == len(process.layers)
    # a foundry may offer no design area but its dies
    assert {die.fit for die in process.dies} in ({"fits one die", "fits one reticle"}, {"fits one die"})


@pytest.mark.parametrize("path", CARDS, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_every_device_card_loads_under_its_files_name(path: Path) -> None:
    process = load_process(path.parent.parent.name)
    device = process.device(path.stem)
    assert device.name == path.stem
    assert device.ports.optical or device.ports.electrical
    assert all(device.size(key) == value for key, value in device.geometry.items())
    assert all(device.parameter(key) == value for key, value in device.model.parameters.items())
    # every number of the card is a quantity, so none comes without its source
    text = path.read_text().split("sources:")[0]
    assert len(list(quantities(device))) == text.count("value:")


@pytest.mark.parametrize("name", PROCESSES)
def test_every_number_has_a_source_with_a_text(name: str) -> None:
    process = load_process(name)
    for card in (process, *process.devices.values()):
        own = [getattr(card, key) for key in type(card).model_fields if key not in ("devices", "rules")]
        keys = {quantity.source for value in own for quantity in quantities(value)}
        assert keys <= set(card.sources), f"{card.name}: a number without source"
        # a derived process need not use every source of its base
        own_file = yaml.safe_load((process.folder / "process.yml").read_text()) if card is process else {}
        declared = own_file.get("sources", {}) if card is process else card.sources
        assert set(declared) <= keys, f"{card.name}: a source that nothing uses"
        assert all(len(text) >= 10 for text in card.sources.values())


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_every_number_is_a_quantity(path: Path) -> None:
    data = yaml.safe_load(path.read_text())
    for section in ("geometry", "limits"):
        for value in data.get(section, {}).values():
            assert set(value) == {"value", "source"}
    for value in data["model"].get("parameters", {}).values():
        assert set(value) == {"value", "source"}


def test_a_quantity_behaves_as_its_number() -> None:
    width = load_process().guide.width_um
    assert width == 0.45
    assert width * 2 == 0.9
    assert width.source == "cornerstone"


def test_cards_are_immutable() -> None:
    process = load_process()
    with pytest.raises(ValueError, match="frozen"):
        process.name = "other"
    with pytest.raises(ValueError, match="frozen"):
        process.device("pad").title = "other"


WIDTH = "width_um: {value: 0.45, source: cornerstone}"
LOSS = "loss_db: {value: 0.3, source: cspdk}"
MMI = "devices/mmi2x2.yml"


@pytest.mark.parametrize(
    ("file", "old", "new", "key", "reason"),
    [
        ("process.yml", WIDTH, WIDTH.replace("0.45", ".nan"), "guide.width_um", "nan is not a finite number"),
        ("process.yml", WIDTH, WIDTH.replace("0.45", ".inf"), "guide.width_um", "inf is not a finite number"),
        ("process.yml", WIDTH, WIDTH.replace("0.45", "1" + "0" * 40), "guide.width_um", "beyond ±1e+30"),
        ("process.yml", WIDTH, WIDTH.replace("0.45", "0"), "guide.width_um", "must be above 0"),
        ("process.yml", WIDTH, WIDTH.replace("0.45", "-1"), "guide.width_um", "must be above 0"),
        ("process.yml", WIDTH, WIDTH.replace("0.45", "'0.45'"), "guide.width_um", "'0.45' is not a finite number"),
        ("process.yml", WIDTH, WIDTH.replace("0.45", "true"), "guide.width_um", "True is not a finite number"),
        ("process.yml", WIDTH, WIDTH.replace("cornerstone", "rumour"), "guide.width_um", "'rumour' is not under"),
        ("process.yml", WIDTH, WIDTH.replace("cornerstone", "''"), "guide.width_um", "'' is not a key of"),
        ("process.yml", WIDTH, "width_um: 0.45", "guide.width_um", "expected {value: number, source: key}"),
        ("process.yml", WIDTH, "width_um: {value: 0.45}", "guide.width_um", "expected {value: number"),
        ("process.yml", WIDTH, f"{WIDTH}\n  colour: red", "guide.colour", "unknown key"),
        ("process.yml", WIDTH, f"{WIDTH}\n  {WIDTH}", "width_um", "duplicate key"),
        ("process.yml", f"  {WIDTH}\n", "", "guide.width_um", "is missing"),
        ("process.yml", "name: soi220", "nom: soi220", "name", "is missing"),
        ("process.yml", "schema: 1", "schema: 2", "schema", "must be 1"),
        ("process.yml", "schema: 1\n", "", "schema", "must be 1"),
        ("process.yml", "realisation: offchip", "realisation: magic", "activation.realisation", "'offchip'"),
        ("process.yml", "fit: fits one die", "fit: fits", "dies.0.fit", "'fits one die'"),
        ("process.yml", "gds: [3, 0]", "gds: [3]", "layers.core.gds", "is missing"),
        ("process.yml", "gds: [3, 0]", "gds: core", "layers.core.gds", "valid tuple"),
        ("process.yml", "loss_db_per_cm: {value: 3.0", "loss_db_per_cm: {value: -3.0", "guide.loss_db", "below 0"),
        ("process.yml", "guide:", "guides:", "guide", "is missing"),
        (MMI, LOSS, LOSS.replace("0.3", ".nan"), "model.parameters.loss_db", "nan is not a finite number"),
        (MMI, LOSS, LOSS.replace("cspdk", "rumour"), "model.parameters.loss_db", "'rumour' is not under 'sources'"),
        (MMI, LOSS, f"{LOSS}\n    {LOSS}", "loss_db", "duplicate key"),
        (MMI, "schema: 1", "schema: 1\nextra: 1", "extra", "unknown key"),
        (MMI, "ports: {optical: [o1, o2, o3, o4]}", "ports: {optical: [o1, o2, o3, 4]}", "ports.optical.3", "string"),
        (MMI, "ports: {optical: [o1, o2, o3, o4]}\n", "", "ports", "is missing"),
        (MMI, "model:", "models:", "models", "unknown key"),
        (MMI, "sources:", "sources: []\nold:", "sources", "valid dictionary"),
        (MMI, "sources:", "sources: &a {b: *a}\nold:", "mmi2x2.yml", "alias *a"),
        (MMI, "sources:", "sources: [\nold:", "mmi2x2.yml", "not valid YAML"),
    ],
)
def test_invalid_cards_are_refused_with_file_key_and_fault(
    file: str, old: str, new: str, key: str, reason: str, folder: Path
) -> None:
    replace_text(folder, file, old, new)
    message = refusal(folder)
    assert file in message
    assert key in message
    assert reason in message
    assert re.search(r"; \S+|must be|is not under|not valid YAML", message), "no remedy"


@pytest.mark.parametrize("layers", ["", " 7", " [1]", " {core: 3}", " {core: {gds: [3, 0]}}"])
def test_invalid_layers_are_refused(layers: str, folder: Path) -> None:
    head, _, tail = (folder / "process.yml").read_text().partition("layers:\n")
    (folder / "process.yml").write_text(f"{head}layers:{layers}\n{tail[tail.index('guide:') :]}")
    assert re.search(r"process\.yml: key layers", refusal(folder))


def test_a_missing_card_is_refused(folder: Path) -> None:
    (folder / "rules.yml").unlink()
    assert "rules.yml: cannot be read" in refusal(folder)


def test_a_card_under_another_devices_name_is_refused(folder: Path) -> None:
    (folder / "devices" / "other.yml").write_bytes((folder / "devices" / "pad.yml").read_bytes())
    assert "other.yml: name is 'pad'" in refusal(folder)


def test_an_unknown_process_is_reported_with_the_known_ones() -> None:
    with pytest.raises(CardError, match=r"'gold'.*soi220"):
        load_process("gold")


def test_unknown_devices_and_parameters_are_reported_with_the_known_ones() -> None:
    process = load_process()
    with pytest.raises(CardError, match=r"'laser'.*mmi2x2"):
        process.device("laser")
    with pytest.raises(CardError, match=r"'mmi2x2': geometry .*'color'.*width_um"):
        process.device("mmi2x2").size("color")
    with pytest.raises(CardError, match=r"'mmi2x2': model .*'color'.*loss_db"):
        process.device("mmi2x2").parameter("color")


def test_a_process_may_be_a_folder(folder: Path) -> None:
    process: Process = load_process(str(folder))
    assert process.folder == folder
    assert process.guide == load_process().guide


@pytest.mark.parametrize(("base", "fault"), [("nowhere", "base: no process 'nowhere'"), ("3", "base: 3")])
def test_an_invalid_base_is_refused_with_its_file(base: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "process.yml"
    path.write_text(f"schema: 1\nname: own\nbase: {base}\n")
    with pytest.raises(CardError, match=re.escape(f"{path}: {fault}")):
        load_process(str(tmp_path))


COUPLER = "power_rms: {value: 0.02, source: couplers}"
SHARE = "share: {value: 0.029, source: heat}"


@pytest.mark.parametrize(
    ("old", "new", "key", "reason"),
    [
        (COUPLER, COUPLER.replace("0.02", "-0.02"), "imperfections.coupler.power_rms", "must not be below 0"),
        (COUPLER, COUPLER.replace("0.02", ".inf"), "imperfections.coupler.power_rms", "not a finite number"),
        (COUPLER, COUPLER.replace("couplers", "hearsay"), "imperfections.coupler.power_rms", "'hearsay' is not under"),
        (COUPLER, "power: {value: 0.02, source: couplers}", "imperfections.coupler.power_rms", "is missing; add"),
        (SHARE, SHARE.replace("0.029", "1.0"), "imperfections.crosstalk.share", "must be 0 to less than 1"),
        ("correlation_um: {value: 9000", "correlation_um: {value: 0", "height.correlation_um", "must be above 0"),
        ("\n  dac:\n", "\n  dacs:\n", "imperfections.dac", "is missing; add"),
    ],
)
def test_invalid_imperfections_are_refused(folder: Path, old: str, new: str, key: str, reason: str) -> None:
    replace_text(folder, "process.yml", old, new)
    message = refusal(folder)
    assert key in message and reason in message


def test_oscillators_beyond_the_power_of_a_guide_are_refused(folder: Path) -> None:
    laser = "  laser_w: {value: 0.010, source: default}\n"
    replace_text(folder, "process.yml", laser, laser + "  oscillator_w: {value: 0.2, source: default}\n")
    message = refusal(folder)
    assert "budget.oscillator_w: value 0.2 W is above noise.laser_max_w of 0.1 W; lower it" in message


@pytest.mark.parametrize("value", [-1.0, 0.0])
@pytest.mark.parametrize("key", ["link.converter_j", "link.serdes_j", "link.lock_w", "budget.temperature_control"])
def test_energies_that_are_not_above_0_are_refused(folder: Path, key: str, value: float) -> None:
    section, name = key.split(".")
    added = f"  {name}: {{value: {value}, source: default}}\n"
    new = f"\nbudget:\n{added}" if section == "budget" else f"\nlink:\n{added}\nbudget:\n"
    replace_text(folder, "process.yml", "\nbudget:\n", new)
    message = refusal(folder)
    assert key in message and "must be above 0" in message


def test_derived_processes_inherit_the_imperfections() -> None:
    ours = load_process().imperfections
    for name in ("soi220_flipchip", "soi220_onchip", "soi220_flipchip_onchip"):
        assert load_process(name).imperfections == ours


def test_a_quantity_keeps_its_source_in_a_copy() -> None:
    width = pickle.loads(pickle.dumps(load_process().guide.width_um))
    assert width == 0.45 and width.source == "cornerstone"


def test_missing_devices_are_named_with_the_file_to_add() -> None:
    process = load_process()
    process.require_devices(("pad", "mmi2x2"))
    with pytest.raises(CardError, match=r"'soi220' has no device 'laser', 'ring'; .*devices/laser\.yml"):
        process.require_devices(("ring", "pad", "laser"))
    empty = process.model_copy(update={"devices": {}})
    for names in ((), ("pad",)):
        with pytest.raises(CardError, match=r"'soi220' .*devices/\*\.yml.*; "):
            empty.require_devices(names)


QUANTUM_LIMIT = 1550.0 / 1239.842
"""Amperes for one watt of light of 1550 nm, if every photon gives an electron."""


@pytest.mark.parametrize("value", [0.9999 * QUANTUM_LIMIT, 1.0001 * QUANTUM_LIMIT])
def test_a_photodiode_gives_at_most_one_electron_for_a_photon(value: float, folder: Path) -> None:
    replace_text(
        folder,
        "devices/photodiode.yml",
        "responsivity_a_per_w: {value: 0.7",
        f"responsivity_a_per_w: {{value: {value!r}",
    )
    if value < QUANTUM_LIMIT:
        assert load_process(str(folder)).device("photodiode").parameter("responsivity_a_per_w") == value
    else:
        assert "responsivity_a_per_w: value 1.25028 is above 1.25, one electron for every photon" in refusal(folder)
