"""S-parameters from files that replace models, and errors for unusable files."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import skrf
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import CardError, load_process
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.errors import InputError
from optinc_pdk.models import (
    MeasuredError,
    ModelError,
    TouchstoneError,
    device_s,
    net_transmission,
    read_measured,
    sax_models,
    touchstone_text,
)
from optinc_pdk.models.measured_data import parse_touchstone
from optinc_pdk.simulate import Scattering, scattering
from optinc_pdk.simulate.s_parameters.files import write_scattering

PROCESS = load_process()
WAVELENGTHS = np.array([1540.0, 1545.0, 1550.0, 1560.0])


def random_s(seed: int, count: int, ports: int) -> np.ndarray:
    """Passive S-matrices."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=(count, ports, ports)) + 1j * rng.normal(size=(count, ports, ports))
    return s / np.linalg.norm(s, 2, axis=(1, 2)).max()


def write(path: Path, s: np.ndarray, ports: tuple[str, ...], wavelengths: np.ndarray = WAVELENGTHS) -> Path:
    write_scattering(wavelengths, [Scattering(wavelengths, ports, s)], path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copytree(components_folder() / "soi220", tmp_path / "process")
    return tmp_path / "process"


def name_file(folder: Path, device: str, file: str) -> None:
    card = folder / "devices" / f"{device}.yml"
    card.write_text(card.read_text().replace("\nmodel:\n", f"\nmodel:\n  file: {file}\n", 1))


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_touchstone_is_read_as_written(seed: int, ports: int) -> None:
    names = tuple(f"o{i}" for i in range(1, ports + 1))
    s = random_s(seed, 4, ports)
    found = parse_touchstone(touchstone_text(WAVELENGTHS, s, names), Path(f"x.s{ports}p"))
    assert found[0] == pytest.approx(WAVELENGTHS, rel=1e-15)
    assert found[1] == pytest.approx(s, abs=1e-15)
    assert found[2] == names


@pytest.mark.parametrize("ports", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("form", ["ri", "ma", "db"])
def test_touchstone_of_scikit_rf_is_read_and_ours_by_it(tmp_path: Path, ports: int, form: str) -> None:
    """An independent reader and writer; its fields go as exp(+j ω t)."""
    s = random_s(ports, 4, ports)
    hertz = 299_792_458e9 / WAVELENGTHS[::-1]
    theirs = skrf.Network(f=hertz, f_unit="hz", s=s[::-1].conj(), z0=50)
    theirs.write_touchstone(str(tmp_path / f"theirs.s{ports}p"), form=form)
    found = read_measured(tmp_path / f"theirs.s{ports}p")
    assert found.wavelengths_nm == pytest.approx(WAVELENGTHS, rel=1e-9)
    assert found.s == pytest.approx(s, abs=1e-6)
    ours = skrf.Network(str(write(tmp_path / f"ours.s{ports}p", s, tuple(map(str, range(ports))))))
    assert ours.s == pytest.approx(s[::-1].conj(), abs=1e-12)
    assert ours.f == pytest.approx(hertz, rel=1e-12)


@pytest.mark.parametrize("suffix", [".s4p", ".npz"])
def test_a_file_replaces_a_model(tmp_path: Path, folder: Path, suffix: str) -> None:
    """The coupler's own S-parameters from a file, its ports in another order: the same circuit."""
    ports = ("o1", "o2", "o3", "o4")
    wavelengths = np.array([1540.0, 1550.0, 1560.0])
    s = device_s(PROCESS, "mmi2x2", wavelengths)
    order = [2, 0, 3, 1]
    write(folder / "devices" / f"mmi{suffix}", s[:, order][:, :, order], tuple(ports[i] for i in order), wavelengths)
    name_file(folder, "mmi2x2", f"mmi{suffix}")
    process = load_process(str(folder))
    assert device_s(process, "mmi2x2", [1545.0]) == pytest.approx(device_s(PROCESS, "mmi2x2", [1545.0]), abs=1e-12)
    circuit = mesh_chip(3, PROCESS, "mesh")
    found, expected = (scattering(circuit, {}, 1550.0, each, unbiased=1.0).s for each in (process, PROCESS))
    assert found == pytest.approx(expected, abs=1e-12)
    assert np.asarray(sax_models(process)["mmi2x2"](wl=1.55)["o2", "o3"]) == pytest.approx(s[1, 2, 1])


def test_a_measured_heater_still_heats(folder: Path) -> None:
    wavelengths = np.array([1549.0, 1551.0])
    write(folder / "devices" / "arm.npz", device_s(PROCESS, "phase_shifter", wavelengths), ("o1", "o2"), wavelengths)
    name_file(folder, "phase_shifter", "arm.npz")
    process = load_process(str(folder))
    expected = device_s(PROCESS, "phase_shifter", 1550.0, 0.7)
    # the index is linear in the wavelength, its quotient is not
    assert device_s(process, "phase_shifter", 1550.0, 0.7) == pytest.approx(expected, abs=2e-3)
    assert device_s(process, "phase_shifter", 1549.0, 0.7) == pytest.approx(
        device_s(PROCESS, "phase_shifter", 1549.0, 0.7), abs=1e-12
    )
    heated = sax_models(process)["phase_shifter"](wl=1.549, phase=0.7)["o1", "o2"]
    assert complex(heated) == pytest.approx(device_s(process, "phase_shifter", 1549.0, 0.7)[0, 1, 0])


def test_interpolation_keeps_delay_passivity_and_reciprocity(tmp_path: Path) -> None:
    wavelengths = np.array([1540.0, 1541.0, 1542.0])
    delay = net_transmission(PROCESS, 100.0, wavelengths)[:, np.newaxis, np.newaxis]
    s = random_s(5, 1, 3) * delay
    s = (s + s.swapaxes(1, 2)) / 2
    s /= np.linalg.norm(s, 2, axis=(1, 2)).max()
    measured = read_measured(write(tmp_path / "x.npz", s, ("a", "b", "c"), wavelengths))
    between = np.linspace(1540.0, 1542.0, 41)
    found = measured.interpolate(between)
    assert np.linalg.norm(found, 2, axis=(1, 2)) == pytest.approx(np.ones(41), abs=1e-9)
    assert found == pytest.approx(found.swapaxes(1, 2), abs=1e-15)
    exact = s[:1] * (net_transmission(PROCESS, 100.0, between) / delay[0, 0, 0])[:, np.newaxis, np.newaxis]
    assert found == pytest.approx(exact, abs=1e-3)
    assert measured.interpolate(wavelengths) == pytest.approx(s, abs=1e-15)


def test_gain_is_refused_with_port_value_limit_and_remedy(tmp_path: Path) -> None:
    s = np.tile(0.5 * np.eye(3, dtype=complex), (4, 1, 1))
    s[2, 0, 1] = 1.1
    with pytest.raises(MeasuredError, match=r"x\.npz: not passive: .* 1550 nm .* 1\.2\d*.* port b; .* 1\.000001"):
        read_measured(write(tmp_path / "x.npz", s, ("a", "b", "c")))
    with pytest.raises(MeasuredError, match=r"x\.s3p: not passive"):
        read_measured(write(tmp_path / "x.s3p", s, ("a", "b", "c")))


def test_wavelengths_beyond_the_data_and_other_ports_are_refused(folder: Path) -> None:
    s = device_s(PROCESS, "mmi2x2", WAVELENGTHS)
    write(folder / "devices" / "mmi.npz", s, ("o1", "o2", "o3", "o4"))
    name_file(folder, "mmi2x2", "mmi.npz")
    process = load_process(str(folder))
    with pytest.raises(
        ModelError, match=r"'l0_v_c0_r0.first': wavelength 1570 nm .* 'mmi2x2' in .*mmi\.npz, 1540 … 1560"
    ):
        scattering(mesh_chip(2, process, "mesh"), {}, 1570.0, process, unbiased=0.0)
    write(folder / "devices" / "mmi.npz", s[:2], ("o1", "o2", "o3", "in"), WAVELENGTHS[:2])
    with pytest.raises(
        ModelError, match=r"instance 'c': .*has the ports o1, o2, o3, in, device 'mmi2x2' o1, o2, o3, o4"
    ):
        device_s(process, "mmi2x2", 1540.0, instance="c")
    write(folder / "devices" / "mmi.npz", s[:, :3, :3], ("o1", "o2", "o3"))
    with pytest.raises(ModelError, match=r"o1, o2, o3, device 'mmi2x2' o1, o2, o3, o4"):
        device_s(process, "mmi2x2", 1540.0)


def test_a_card_whose_file_is_not_there_is_refused(folder: Path) -> None:
    name_file(folder, "mmi2x2", "nowhere.s4p")
    with pytest.raises(CardError, match=r"mmi2x2\.yml: model\.file: .*nowhere\.s4p"):
        load_process(str(folder))


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("x.s2p", "# GHz S MA R 50\n1 0 0 0 0 0 0 0\n", r"8 numbers; 2 ports need 9 "),
        ("x.s1p", "# GHz Y MA R 50\n1 0 0\n", r"option 'Y'"),
        ("x.s1p", "[Version] 2.0\n# GHz S MA R 50\n1 0 0\n", r"version 2"),
        ("x.s1p", "2 0 0\n1 0 0\n", r"ascend"),
        ("x.s1p", "1 0 nan\n", r"S of ports 1, 1 at 1 is nan; correct it"),
        ("x.s2p", "1 0 0 inf 0 0 0 0 0\n", r"S of ports 2, 1 at 1 is inf; correct it"),
        ("x.s3p", "1" + " 0" * 11 + " nan" + " 0" * 6 + "\n", r"S of ports 2, 3 at 1 is nan; correct it"),
        ("x.s1p", "nan 0 0\n", r"a frequency is nan; correct it"),
        ("x.s1p", "1 0 zero\n", r"'zero'; give numbers"),
        ("x.s2p", "! Port[1] = a\n1 0 0 0 0 0 0 0 0\n", r"name 1 to 2, or none"),
        ("x.s0p", "1\n", r" \.sNp"),
        ("x.s1p", "# GHz S DB\n1 9999 0\n", r"S of ports 1, 1 at 1 exceeds the range"),
        ("x.s1p", "1 1e308 1e308\n1e308 1e308 1\n", r"not passive|exceeds the range"),
        ("x.s1p", "# THz S MA\n1e300 0 0\n", r"frequency 1e\+300 exceeds the range"),
    ],
)
def test_damaged_touchstone_is_refused(tmp_path: Path, name: str, text: str, fault: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(TouchstoneError, match=rf"x\.s\dp: .*{fault}"):
        read_measured(path)


def test_touchstone_defaults_are_gigahertz_and_magnitude_with_angle(tmp_path: Path) -> None:
    path = tmp_path / "x.s1p"
    path.write_text("! a comment\n193414.489 0.5 90 ! another\n")
    found = read_measured(path)
    assert found.wavelengths_nm == pytest.approx([1550.0], abs=1e-3)
    # exp(+j ω t) there, exp(-i ω t) here
    assert found.s[0, 0, 0] == pytest.approx(-0.5j)


@pytest.mark.parametrize("name", ["x.npz", "x.txt", "none.npz"])
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    if not name.startswith("none"):
        (tmp_path / name).write_text("no S-parameters")
    with pytest.raises(MeasuredError, match=name):
        read_measured(tmp_path / name)


def test_npz_of_another_shape_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", wavelengths_nm=WAVELENGTHS)
    with pytest.raises(MeasuredError, match=r"needs wavelengths_nm, blocks\.0\.s and blocks\.0\.ports"):
        read_measured(tmp_path / "x.npz")
    parts = {"blocks.0.s": np.zeros((3, 2, 2)), "blocks.0.ports": np.array(["a", "b"])}
    np.savez(tmp_path / "y.npz", allow_pickle=False, wavelengths_nm=WAVELENGTHS, **parts)
    with pytest.raises(MeasuredError, match=r"shape \(3, 2, 2\); 4 wavelengths and 2 ports need \(4, 2, 2\)"):
        read_measured(tmp_path / "y.npz")
    parts = {"blocks.0.s": np.zeros((4, 2, 2)), "blocks.0.ports": np.array(["a", "b"])}
    np.savez(tmp_path / "z.npz", allow_pickle=False, wavelengths_nm=WAVELENGTHS[::-1], **parts)
    with pytest.raises(MeasuredError, match="ascend"):
        read_measured(tmp_path / "z.npz")
    np.savez(tmp_path / "u.npz", allow_pickle=False, wavelengths_nm=WAVELENGTHS[np.newaxis], **parts)
    with pytest.raises(MeasuredError, match=r"wavelengths_nm has shape \(1, 4\); "):
        read_measured(tmp_path / "u.npz")
    parts["blocks.0.s"][2, 1, 0] = np.nan
    np.savez(tmp_path / "v.npz", allow_pickle=False, wavelengths_nm=WAVELENGTHS, **parts)
    with pytest.raises(MeasuredError, match=r"port a to port b at 15\d\d\.?\d* nm is \(nan"):
        read_measured(tmp_path / "v.npz")


def test_touchstone_holds_one_block_of_its_number_of_ports(tmp_path: Path) -> None:
    block = Scattering(WAVELENGTHS, ("a", "b"), random_s(0, 4, 2))
    with pytest.raises(InputError, match=r"x\.s3p: .*one block of 3 ports, these have 2; .* \.s2p"):
        write_scattering(WAVELENGTHS, [block], tmp_path / "x.s3p")
    with pytest.raises(InputError, match="these have 2, 2"):
        write_scattering(WAVELENGTHS, [block, block], tmp_path / "x.s2p")
