"""``optinc simulate`` of small circuits: written files, and exit code 2 with the cause for bad input."""

from __future__ import annotations

import sys
from dataclasses import replace
from shutil import copytree

import numpy as np
import pytest

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.circuit import Bias, flatten, write_bias, write_netlist
from optinc_pdk.cli import main
from optinc_pdk.models import read_measured
from optinc_pdk.simulate import Scattering, analyse, scattering
from optinc_pdk.simulate.s_parameters.files import parse_wavelengths, write_scattering

from .conftest import PROCESS, add_fibre, add_heater, builder, ring


def bias_of(circuit, phases=None):
    """A bias by phases; the circuits here have no resistances, so that codes are not used."""
    labels = tuple(sorted(label for label in analyse(circuit).channel if label))
    phase = np.array([(phases or {}).get(label, 0.3 * i) for i, label in enumerate(labels)])
    nothing = np.zeros(len(labels))
    return Bias(PROCESS.name, circuit.name, 16, labels, phase, nothing, nothing, nothing.astype(np.int64))


def files(folder, circuit, bias):
    write_netlist(circuit, folder / "c.pic.yml")
    write_bias(bias, folder / "c.bias.yml")
    return folder / "c.pic.yml", folder / "c.bias.yml"


@pytest.fixture
def optinc(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["optinc", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code or 0, said.out, said.err

    return run


def simulate(optinc, folder, *arguments):
    return optinc("simulate", folder / "c.pic.yml", "--bias", folder / "c.bias.yml", *arguments)


@pytest.mark.parametrize("ending", ["s3p", "npz"])
def test_the_file_holds_the_given_ports_in_their_order(optinc, tmp_path, ending):
    circuit = mesh_chip(3, PROCESS, "mesh")
    bias, ports = bias_of(circuit), ("out_r2", "in_r0", "out_r0")
    files(tmp_path, circuit, bias)
    out = tmp_path / f"some.{ending}"
    code, said, _ = simulate(optinc, tmp_path, "--wavelengths", "1549:1551:1", "--ports", ", ".join(ports), "-o", out)
    assert (code, said) == (0, f"{out}: 3 wavelengths; 1 block of 3 ports\n")
    found, whole = read_measured(out), scattering(circuit, bias, [1549.0, 1550.0, 1551.0], PROCESS)
    assert found.ports == ports
    assert found.wavelengths_nm == pytest.approx(whole.wavelengths_nm, rel=1e-14)
    assert found.s == pytest.approx(whole.between(ports, ports), abs=1e-12)


@pytest.mark.parametrize(
    ("ports", "said"), [("in_r0,nowhere", "'nowhere'"), ("in_r0,in_r0", "each once"), (",", "','")]
)
def test_unusable_ports_end_with_2(optinc, tmp_path, ports, said):
    circuit = mesh_chip(2, PROCESS, "mesh")
    files(tmp_path, circuit, bias_of(circuit))
    code, _, error = simulate(optinc, tmp_path, "--ports", ports, "-o", tmp_path / "out.npz")
    assert code == 2 and said in error
    assert not (tmp_path / "out.npz").exists()


def wire(name="wire", component="phase_shifter"):
    """One device between two fibres."""
    b = builder(name)
    b.add("wire", component)
    if component == "phase_shifter":
        add_heater(b, "wire", "turn")
    add_fibre(b, "in", "wire,o1")
    add_fibre(b, "out", "wire,o2")
    return b.build()


def process_folder(folder):
    copytree(components_folder() / "soi220", folder / "process")
    return folder / "process"


def card_change(folder, device, before, after):
    path = process_folder(folder) / "devices" / f"{device}.yml"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))


def missing_device(folder):
    circuit = flatten(wire())
    kinds = tuple(replace(kind, name="ring") if kind.name == "phase_shifter" else kind for kind in circuit.kinds)
    files(folder, replace(circuit, kinds=kinds), bias_of(circuit))


def missing_model(folder):
    circuit = wire()
    files(folder, circuit, bias_of(circuit))
    card_change(folder, "phase_shifter", "name: phase_shifter\n  ", "name: wizardry\n  ")


def other_ports(folder):
    circuit = flatten(wire())
    kinds = tuple(replace(k, optical=("o1", "o3")) if k.name == "phase_shifter" else k for k in circuit.kinds)
    files(folder, replace(circuit, kinds=kinds), bias_of(circuit))


def no_such_port(folder):
    circuit = wire()
    path, _ = files(folder, circuit, bias_of(circuit))
    path.write_text(path.read_text().replace("'wire,o2'", "'wire,o7'", 1))


def two_widths(folder):
    circuit = wire(component="taper")
    files(folder, circuit, bias_of(circuit))


def wrong_wavelength(folder):
    circuit = wire()
    files(folder, circuit, bias_of(circuit))
    return "--wavelengths", "1550,1601"


def resonance(folder):
    """A lossless ring without a coupler, at its resonance."""
    circuit, path = ring(PROCESS)[0], process_folder(folder) / "devices" / "phase_shifter.npz"
    card = path.with_suffix(".yml")
    card.write_text(card.read_text().replace("\nmodel:\n", f"\nmodel:\n  file: {path.name}\n", 1))
    s = np.tile(np.array([[0, 1], [1, 0]], dtype=complex), (2, 1, 1))
    write_scattering(np.array([1500.0, 1600.0]), [Scattering(np.array([1500.0, 1600.0]), ("o1", "o2"), s)], path)
    files(folder, circuit, bias_of(circuit, {"turn": 0.0, "other": 1.0}))


def amplifying(folder):
    circuit, path = wire(), process_folder(folder) / "devices" / "phase_shifter.npz"
    card = path.with_suffix(".yml")
    card.write_text(card.read_text().replace("\nmodel:\n", f"\nmodel:\n  file: {path.name}\n", 1))
    s = np.array([[[0, 1.2], [0.5, 0]]], dtype=complex)
    write_scattering(np.array([1550.0]), [Scattering(np.array([1550.0]), ("o1", "o2"), s)], path)
    files(folder, circuit, bias_of(circuit))


@pytest.mark.parametrize("text", ["1551,1549,1550,1551", "1549:1551:1"])
def test_wavelengths_ascend_and_occur_once(text):
    assert parse_wavelengths(text, 1310.0).tolist() == [1549.0, 1550.0, 1551.0]


def test_an_unknown_file_name_ending_is_refused_first(optinc, tmp_path):
    out = tmp_path / "two.txt"
    for name in ("c.pic.yml", "c.bias.yml"):
        (tmp_path / name).write_text("neither is read: {")
    code, printed, error = simulate(optinc, tmp_path, "-o", out)
    assert (code, printed, error.count("\n")) == (2, "", 1) and not out.exists()
    assert all(word in error for word in ("two.txt", ".npz", ".sNp"))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (missing_device, ("instance 'wire'", "'ring'")),
        (missing_model, ("phase_shifter.yml", "model.name", "'wizardry'")),
        (other_ports, ("instance 'wire' of 'phase_shifter'", "o1, o3", "o1, o2")),
        (no_such_port, ("wire,o7",)),
        (two_widths, ("wire,o2", "2 µm", "fibre_out,o1", "0.45 µm")),
        (wrong_wavelength, ("instance 'fibre_in'", "1601 nm", "1500 … 1600 nm")),
        (resonance, ("1550 nm", "loop,o")),
        (amplifying, ("instance 'wire'", "passive", "1.2", "port o2")),
    ],
)
def test_bad_input_ends_with_2_and_names_instance_port_and_value(optinc, tmp_path, make, said):
    more = make(tmp_path) or ()
    process = ("--process", tmp_path / "process") if (tmp_path / "process").exists() else ()
    out = tmp_path / "out.npz"
    code, printed, error = simulate(optinc, tmp_path, *more, *process, "-o", out)
    assert (code, printed, error.count("\n")) == (2, "", 1), error
    assert all(word in error for word in said), error
    assert not out.exists()
