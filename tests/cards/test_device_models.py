"""Device cards: a device that would amplify, and parameters that are missing, unknown or outside their range."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from optinc_pdk.cards import CardError, DeviceCard, Quantity, load_process
from optinc_pdk.cards.device_models import NO_MODEL, PARAMETERS, PORTS, SETTINGS, check_model
from optinc_pdk.models.registry import MODELS, device_s

from .conftest import refusal

PROCESS = load_process()
DEVICE_OF = {card.model.name: card for card in PROCESS.devices.values()}


def device_refusal(folder: Path, device: str, section: str, changes: dict[str, Any]) -> str:
    """Message for changes in a section of a device card; None deletes a key."""
    path = folder / "devices" / f"{device}.yml"
    data = yaml.safe_load(path.read_text())
    place = data
    for step in section.split("."):
        place = place.setdefault(step, {})
    for key, value in changes.items():
        if value is None:
            del place[key]
        else:
            place[key] = value if isinstance(value, str | list) else {"value": value, "source": "default"}
    path.write_text(yaml.safe_dump(data))
    message = refusal(folder)
    assert f"devices/{device}.yml" in message
    return message


GAIN = "the device would amplify: transmitted plus reflected amplitude is 1."


@pytest.mark.parametrize(
    ("device", "changes", "fault"),
    [
        ("mmi2x2", {"loss_db": -0.3}, "model.parameters.loss_db: value -0.3 must be in 0 … 1000"),
        ("mmi2x2", {"loss_db": 0.0}, GAIN),
        ("mmi2x2", {"reflection_db": -1.0}, GAIN),
        ("mmi2x2", {"reflection_db": 3.0}, "model.parameters.reflection_db: value 3 must be in -1000 … 0"),
        ("mmi2x2", {"imbalance": 1.01}, "model.parameters.imbalance: value 1.01 must be in -1 … 1"),
        ("mmi1x2", {"imbalance": -1.5}, "model.parameters.imbalance: value -1.5"),
        ("mmi1x2", {"loss_db": 0.01}, GAIN),
        ("directional_coupler", {"cross": 1.2}, "model.parameters.cross: value 1.2 must be in 0 … 1"),
        ("directional_coupler", {"cross": -0.1}, "model.parameters.cross: value -0.1"),
        ("directional_coupler", {"loss_db": 0.0}, GAIN),
        ("crossing", {"crosstalk_db": -10.0}, GAIN),
        ("crossing", {"crosstalk_db": 1.0}, "model.parameters.crosstalk_db: value 1"),
        ("crossing", {"loss_db": 0.0}, GAIN),
        ("grating_coupler", {"loss_db": -1.0}, "model.parameters.loss_db: value -1"),
        ("grating_coupler", {"bandwidth_3db_nm": 0.0}, "bandwidth_3db_nm: value 0 must be above 0 and at most 1e+06"),
        ("edge_coupler", {"loss_db": 0.2}, GAIN),
        ("modulator", {"loss_db": 0.0}, GAIN),
        ("photodiode", {"reflection_db": 0.5}, "model.parameters.reflection_db: value 0.5"),
        ("photodiode", {"responsivity_a_per_w": 0.0}, "responsivity_a_per_w: value 0 must be above 0"),
        ("terminator", {"reflection_db": 0.5}, "model.parameters.reflection_db: value 0.5"),
        ("taper", {"loss_db": -0.01}, "model.parameters.loss_db: value -0.01"),
        ("phase_shifter", {"loss_db": -0.01}, "model.parameters.loss_db: value -0.01"),
        ("phase_shifter", {"power_pi_w": 0.0}, "model.parameters.power_pi_w: value 0"),
        ("phase_shifter", {"sheet_ohm": -1.0}, "model.parameters.sheet_ohm: value -1"),
        ("mmi2x2", {"loss_db": None}, "model.parameters.loss_db is missing; add it"),
        ("mmi2x2", {"los_db": 0.3}, "model.parameters: unknown key 'los_db'"),
        ("mmi2x2", {"loss_db": 1e31}, "model.parameters.loss_db: value 1e+31 is beyond ±1e+30"),
    ],
)
def test_devices_that_amplify_or_lack_a_parameter_are_refused(
    device: str, changes: dict[str, Any], fault: str, folder: Path
) -> None:
    assert fault in device_refusal(folder, device, "model.parameters", changes)


@pytest.mark.parametrize(
    ("section", "changes", "fault"),
    [
        ("limits", {"wavelength_min_nm": 1700.0}, "wavelength_min_nm 1700 is above wavelength_max_nm 1600"),
        ("limits", {"wavelength_min_nm": -1.0}, "limits.wavelength_min_nm: value -1"),
        ("limits", {"wavelength_mid_nm": 1.0}, "limits: unknown key 'wavelength_mid_nm'"),
        ("model", {"name": "wizardry"}, "model.name: no model 'wizardry'"),
    ],
)
def test_limits_and_models_are_checked(section: str, changes: dict[str, Any], fault: str, folder: Path) -> None:
    assert fault in device_refusal(folder, "mmi2x2", section, changes)


def test_a_rule_file_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "process.yml").write_text("schema: 1\nbase: soi220\nname: mine\n")
    (tmp_path / "rules.yml").mkdir()
    with pytest.raises(CardError, match=r"rules\.yml: cannot be read"):
        load_process(str(tmp_path))


def test_a_device_whose_parameters_come_from_a_file_needs_none(tmp_path: Path) -> None:
    card = PROCESS.device("mmi2x2")
    model = card.model.model_copy(update={"file": tmp_path / "m.s4p", "parameters": {}, "name": "measured"})
    check_model(card.model_copy(update={"model": model}))


def test_every_model_has_ranges() -> None:
    assert set(PARAMETERS) == {*MODELS, NO_MODEL}


def test_every_model_returns_as_many_ports_as_its_table_states() -> None:
    def ports(card: DeviceCard) -> int:
        process = PROCESS.model_copy(update={"devices": {card.name: card}})
        return int(device_s(process, card.name, 1550.0).shape[-1])

    assert {name: ports(with_settings(DEVICE_OF[name], 1.0)) for name in MODELS} == PORTS


@pytest.mark.parametrize(
    ("device", "optical", "fault"),
    [
        ("mmi1x2", ["o1", "o2", "o3", "o4"], "ports.optical: model splitter has 3 ports, the card states 4"),
        ("mmi2x2", ["o1", "o2", "o3"], "ports.optical: model coupler has 4 ports, the card states 3"),
        ("photodiode", [], "ports.optical: model photodiode has 1 ports, the card states 0"),
    ],
)
def test_cards_with_another_number_of_ports_than_their_model_are_refused(
    device: str, optical: list[str], fault: str, folder: Path
) -> None:
    assert fault in device_refusal(folder, device, "ports", {"optical": optical})


@st.composite
def changed_cards(draw: st.DrawFn) -> DeviceCard:
    """A device card with parameters anywhere in and around their ranges."""
    card = DEVICE_OF[draw(st.sampled_from(sorted(MODELS)))]
    high = {"loss_db": 3.0, "reflection_db": 5.0, "crosstalk_db": 5.0, "imbalance": 1.2, "cross": 1.2}
    low = {"loss_db": -0.5, "reflection_db": -60.0, "crosstalk_db": -40.0, "imbalance": -1.2, "cross": -0.2}
    values = {
        key: Quantity(draw(st.floats(low[key], high[key])), value.source) if key in high else value
        for key, value in card.model.parameters.items()
    }
    return card.model_copy(update={"model": card.model.model_copy(update={"parameters": values})})


def with_settings(card: DeviceCard, value_um: float) -> DeviceCard:
    """The card with a value of each setting that instances of the device state instead."""
    settings = dict.fromkeys(SETTINGS.get(card.model.name, ()), Quantity(value_um, "default"))
    model = card.model.model_copy(update={"parameters": card.model.parameters | settings})
    return card.model_copy(update={"model": model})


@given(card=changed_cards(), phase=st.floats(0.0, 6.3), amplitude=st.floats(-1.0, 1.0), setting_um=st.floats(0.1, 20.0))
def test_no_accepted_card_amplifies_at_any_wavelength(
    card: DeviceCard, phase: float, amplitude: float, setting_um: float
) -> None:
    try:
        check_model(card)
    except ValueError:
        assume(False)
    card = with_settings(card, setting_um)
    process = PROCESS.model_copy(update={"devices": {card.name: card}})
    s = device_s(process, card.name, np.linspace(1500.0, 1600.0, 7), phase, amplitude=amplitude)
    assert np.linalg.svd(s, compute_uv=False).max() <= 1.0 + 1e-9
