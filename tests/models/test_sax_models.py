"""The models as SAX models."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
import sax
import yaml

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import load_process
from optinc_pdk.cards.device_models import SETTINGS
from optinc_pdk.circuit import NetlistError, flatten, read_netlist, write_netlist
from optinc_pdk.models import device_s, net_transmission, sampled_s, sax_cells, sax_models, sax_netlist, sax_schematic
from optinc_pdk.simulate import scattering

NETLISTS = Path(__file__).resolve().parents[2] / "netlists"
PROCESS = load_process()


@pytest.fixture(autouse=True)
def _double_precision():
    jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("name", sorted(n for n, d in PROCESS.devices.items() if d.ports.optical))
def test_sax_models_are_ours_in_micrometres(name):
    wavelengths = np.array([1.53, 1.55, 1.57])
    settings = {"phase_shifter": {"phase": 0.7}, "modulator": {"amplitude": -0.7}}.get(name, {})
    keys = SETTINGS.get(PROCESS.device(name).model.name, ())
    settings |= dict(zip(keys, (0.2, 9.0, 0.1, 20.0, 35.0), strict=False))
    found = sax_models(PROCESS)[name](wl=wavelengths, **settings)
    if keys:
        values = {key: np.array([value]) for key, value in settings.items()}
        ours = sampled_s(PROCESS, name, wavelengths * 1e3, values)[:, 0]
    else:
        light = settings.get("phase", 0.0), "", settings.get("amplitude", 1.0)
        ours = device_s(PROCESS, name, wavelengths * 1e3, *light)
    ports = PROCESS.devices[name].ports.optical
    for i, a in enumerate(ports):
        for j, b in enumerate(ports):
            if (a, b) in found:
                assert np.asarray(found[a, b]) == pytest.approx(ours[:, j, i], abs=1e-15)
            else:
                assert not np.any(ours[:, j, i])


def test_only_devices_with_light_have_models():
    assert "pad" not in sax_models(PROCESS)
    assert complex(sax_models(PROCESS)["mmi2x2"]()["o2", "o4"]).real == 0.0


def test_guides_have_the_length_that_an_instance_states():
    wavelengths = np.array([1.53, 1.57])
    models = sax_models(PROCESS)
    expected = net_transmission(PROCESS, 123.0, wavelengths * 1e3)
    for name in ("straight", "bend_euler", "bend_circular", "bend_s"):
        assert np.asarray(models[name](wl=wavelengths, length=123.0)["o1", "o2"]) == pytest.approx(expected, abs=1e-15)
    card = PROCESS.device("phase_shifter")
    longer = models["phase_shifter"](wl=wavelengths, length_um=card.size("length_um") + 100.0, lead_um=11.5)
    drawn = models["phase_shifter"](wl=wavelengths)
    ratio = np.asarray(longer["o1", "o2"]) / np.asarray(drawn["o1", "o2"])
    assert ratio == pytest.approx(expected, abs=1e-12)


def test_a_lead_is_at_the_ends_of_the_first_guide():
    settings = {"coupled_length_um": 9.0, "path_difference_um": 0.0, "guide_1_um": 20.0, "guide_2_um": 35.0}
    models, lead = sax_models(PROCESS), net_transmission(PROCESS, 3.0, 1550.0)
    plain, longer = models["coupler"](**settings), models["coupler"](**settings, lead_um=3.0)
    for ends, count in ((("o1", "o4"), 2), (("o1", "o3"), 1), (("o2", "o3"), 0)):
        assert complex(longer[ends]) == pytest.approx(complex(plain[ends]) * complex(lead) ** count, abs=1e-15)


@pytest.mark.parametrize(
    ("net", "length", "value"),
    [("nobody,o1", 10.0, "nobody"), ("fibre,o1", None, "guide"), ("fibre,o1", "long", "long")],
)
def test_a_netlist_that_sax_cannot_simulate_is_refused(net, length, value):
    guide = {"component": "straight", "info": {"length": length}}
    netlist = {
        "instances": {"fibre": {"component": "grating_coupler"}, "guide": guide},
        "nets": [{"p1": net, "p2": "guide,o1"}],
    }
    with pytest.raises(NetlistError, match=value):
        sax_schematic(netlist, PROCESS)


@pytest.mark.full
def test_sax_simulates_a_netlist_file_unchanged(tmp_path):
    """Wires, pads and cells included; a heater is set through the cell that it is in."""
    circuit = mesh_chip(3, PROCESS, "mesh")
    write_netlist(circuit, tmp_path / "mesh.pic.yml")
    netlist = yaml.safe_load((tmp_path / "mesh.pic.yml").read_text())
    models = sax_models(PROCESS, electrical=True) | sax_cells(read_netlist(tmp_path / "mesh.pic.yml"), PROCESS)
    # pads are ports and connected to heaters
    model, _ = sax.circuit(netlist=netlist, models=models, backend="klu", on_internal_port="ignore")
    theirs = sax.sdict(model(l0_v_c1_r1={"theta": {"phase": 0.7}}))
    ours = scattering(circuit, {"l0_v_c1_r1_theta": 0.7}, 1550.0, PROCESS, unbiased=0.0)
    matrix = np.array([[complex(theirs[a, b]) for a in ours.labels] for b in ours.labels])
    assert np.abs(matrix - ours.s[0]).max() < 1e-9


def test_sax_simulates_the_reference_chip_as_we_do():
    """All 586 optical devices of the 4-bit netlist, heaters anywhere, light between all of its fibres."""
    circuit = flatten(read_netlist(NETLISTS / "average_4bit_4servers.pic.yml"))
    rng = np.random.default_rng(0)
    labels = circuit.electrical_labels()
    phases, settings = {}, {}
    for i in circuit.instances_of("phase_shifter"):
        nets = circuit.electrical[circuit.offset[i] : circuit.offset[i + 1]]
        (label,) = [name for net in nets if net >= 0 for name in labels[int(net)] if not name.startswith("GND")]
        phases[label] = rng.uniform(0, 2 * np.pi)
        settings[circuit.instances[i].replace(".", "_")] = {"phase": phases[label]}
    model, _ = sax.circuit(netlist=sax_netlist(circuit), models=sax_models(PROCESS), backend="klu")
    theirs = sax.sdict(model(**settings))
    ours = scattering(circuit, phases, 1550.0, PROCESS)
    assert len(theirs) == len(ours.labels) ** 2
    matrix = np.array([[complex(theirs[a, b]) for a in ours.labels] for b in ours.labels])
    assert np.abs(matrix - ours.s[0]).max() < 1e-9
