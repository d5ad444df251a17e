"""Chips of matrices from file to verdict, with faults, and with options and files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
import scipy.stats

from optinc_pdk.assemble import matrix_labels
from optinc_pdk.budgets.chip_size import matrix_size
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_bias, read_netlist
from optinc_pdk.cli.app import app
from optinc_pdk.cli.commands import app as registered
from optinc_pdk.errors import ArgumentError, InputError
from optinc_pdk.factor import MeshShape
from optinc_pdk.matrices import MatrixTarget, compare_matrices
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.pipeline.reprogramming import reprogram
from optinc_pdk.pipeline.stages import Build
from optinc_pdk.signoff.extracted_chip import read_extracted_layout
from optinc_pdk.simulate import scattering
from optinc_pdk.tasks.chip_task import refuse_options

PROCESS = load_process()
LABEL = (100, 0)
UNITARY = scipy.stats.unitary_group(4, seed=3).rvs()
REAL = np.random.default_rng(0).normal(size=(3, 5))


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The 4 × 4 unitary, read as fields."""
    folder = tmp_path_factory.mktemp("unitary")
    np.save(folder / "U.npy", UNITARY)
    return build(folder / "U.npy", folder / "out")


def file(chip: Build, ending: str) -> Path:
    return chip.directory / f"{chip.report.name}{ending}"


def driven(chip: Build, gds: Path, target: MatrixTarget) -> float:
    """Largest error of the matrix of a layout that is driven by the chip's bias."""
    bias = read_bias(file(chip, ".bias.yml"))
    layout = read_extracted_layout(gds, bias, PROCESS)
    inputs, outputs = matrix_labels(target)
    s = scattering(layout.circuit, bias, float(PROCESS.guide.wavelength_nm), PROCESS, ground=layout.ground)
    return compare_matrices(s.between(outputs, inputs)[0], target).worst


@pytest.mark.full(every=3)
@pytest.mark.parametrize(("modes", "extra"), [(3, 0), (4, 1), (6, 0)])
def test_triangular_meshes_are_drawn_and_pass(tmp_path: Path, modes: int, extra: int) -> None:
    """Design rules, LVS and function; all paths lose as much, which the error of the matrix shows."""
    unitary = scipy.stats.unitary_group(modes, seed=modes).rvs()
    done = build(unitary, tmp_path, BuildOptions(name="triangle", mesh="triangle", extra_columns=extra))
    report = done.report
    assert done.passed, report.failures()
    assert report.task.model_dump()["mesh"] == "triangle"
    assert report.drc is not None and report.drc.violations == 0
    assert report.lvs is not None and report.lvs.match
    assert report.matrix is not None and report.matrix.worst_error < 0.005
    netlist = read_netlist(file(done, ".pic.yml"))
    columns = 2 * modes - 3 + extra
    dummies = sum(len(netlist.instances_of(kind)) for kind in ("mzi_dummy", "mzi_narrow_dummy"))
    mzis = len(netlist.instances_of("mzi_unit"))
    # every mode passes every column
    assert 2 * mzis + dummies == modes * columns
    assert (len(netlist.instances_of("mzi_narrow_dummy")) > 0) is (modes > 3)
    size = matrix_size("triangle", MatrixTarget(unitary), PROCESS, MeshShape("triangle", extra))
    (layer,) = size.layers
    flat = read_extracted_layout(file(done, ".gds"), read_bias(file(done, ".bias.yml")), PROCESS).circuit
    assert (layer.mzis, layer.columns) == (mzis, columns)
    assert size.heaters == len(flat.instances_of("phase_shifter"))
    assert size.pads == len(flat.instances_of("pad"))
    assert layer.fibres == len(flat.instances_of("grating_coupler"))
    assert layer.loss_db == pytest.approx(report.matrix.insertion_loss_db, abs=0.6)


@pytest.mark.full
def test_a_triangle_of_two_meshes_is_programmed_again(tmp_path: Path) -> None:
    done = build(REAL, tmp_path, BuildOptions(name="real", mesh="triangle"))
    assert done.passed, done.report.failures()
    other = np.random.default_rng(7).normal(size=REAL.shape)
    again = reprogram(file(done, ".gds"), file(done, ".pic.yml"), other, tmp_path / "again")
    assert again.passed, again.report.failures()
    assert again.report.task.model_dump()["mesh"] == "triangle"


def test_rectangles_have_no_narrow_dummies(chip: Build) -> None:
    assert "mzi_narrow_dummy" not in file(chip, ".pic.yml").read_text()
    assert chip.report.task.model_dump()["mesh"] == "rectangle"


def test_a_unitary_becomes_a_chip_that_passes(chip: Build) -> None:
    report = chip.report
    assert chip.passed, chip.findings
    assert report.averaging is None and report.onn is None and report.function is None
    assert report.task.model_dump()["read"] == "field"
    assert report.drc is not None and report.drc.violations == 0
    assert report.lvs is not None and report.lvs.match
    assert report.matrix is not None and report.factor is not None and report.chip is not None
    assert report.matrix.worst_error < 0.005
    assert report.matrix.fidelity > 0.9999
    assert 5.0 < report.matrix.insertion_loss_db < 25.0
    assert report.matrix.scale == pytest.approx(10 ** (-report.matrix.insertion_loss_db / 20.0), rel=1e-6)
    assert report.factor.mzis == 6
    # two for each MZI, and one at every output
    assert report.chip.phase_shifters == 16
    written = json.loads(file(chip, ".report.json").read_text())
    assert written["verdict"] == "pass" and written["task"]["kind"] == "matrix"
    assert f"{report.name}.matrix.npz" in written["files"]
    assert "insertion loss" in file(chip, ".report.html").read_text().lower()


def test_the_written_matrix_and_layout_are_those_of_the_report(chip: Build) -> None:
    assert chip.report.matrix is not None
    with np.load(file(chip, ".matrix.npz")) as arrays:
        np.testing.assert_allclose(arrays["target"], UNITARY)
        found = np.abs(arrays["chip"] - arrays["target"]).max() / np.abs(UNITARY).max()
        assert found == pytest.approx(chip.report.matrix.worst_error, rel=1e-3)
        assert float(arrays["scale"]) == pytest.approx(chip.report.matrix.scale)
    netlist = read_netlist(file(chip, ".pic.yml"))
    assert netlist.board is None and {"in_r3", "out_r3"} < set(netlist.ports)
    assert driven(chip, file(chip, ".gds"), MatrixTarget(UNITARY)) == pytest.approx(
        chip.report.matrix.worst_error, rel=1e-6
    )


@pytest.mark.full(every=3)
@pytest.mark.parametrize("read", ["field", "real", "power"])
def test_a_rectangular_matrix_has_attenuators_and_its_scale_is_reported(tmp_path: Path, read: str) -> None:
    done = build(REAL, tmp_path, BuildOptions(read=read))
    assert done.passed, done.findings
    report = done.report
    assert report.matrix is not None and report.chip is not None
    assert report.matrix.worst_error < 0.002
    norm = float(np.linalg.norm(REAL, 2))
    assert -20.0 * np.log10(report.matrix.scale * norm) == pytest.approx(report.matrix.insertion_loss_db)
    # 3 + 10 MZIs, 3 attenuators, and 3 outputs if fields are read
    assert report.chip.phase_shifters == 2 * 13 + 3 + (3 if read == "field" else 0)


@pytest.mark.full(every=3)
@pytest.mark.parametrize("process", ["soi220_flipchip", "soi220_onchip", "cornerstone220"])
def test_other_processes_build_matrices(tmp_path: Path, process: str) -> None:
    done = build(UNITARY, tmp_path, BuildOptions(name="chip", process=process))
    assert done.passed, done.findings


def test_a_tolerance_below_what_the_chip_reaches_fails_and_names_the_cause(tmp_path: Path) -> None:
    done = build(UNITARY, tmp_path, BuildOptions(tolerance=1e-5))
    assert not done.passed
    assert any(line.startswith("matrix: ") for line in done.report.failures())
    assert any("reflections" in line for line in done.findings)
    assert done.report.matrix is not None and done.report.matrix.worst_error > 1e-5


def swapped(gds: Path, written: Path, one: str, other: str) -> None:
    """Exchange two pad labels of a layout."""
    layout = kdb.Layout()
    layout.read(str(gds))
    names, found = {one: other, other: one}, 0
    for cell in layout.each_cell():
        for index in layout.layer_indexes():
            for shape in list(cell.shapes(index).each(kdb.Shapes.STexts)):
                if shape.text_string in names:
                    shape.text_string = names[shape.text_string]
                    found += 1
    assert found == 2
    layout.write(str(written))


def test_a_layout_with_exchanged_heaters_fails_the_comparison(chip: Build, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.gds"
    swapped(file(chip, ".gds"), faulty, "l0_u_c0_r0_theta", "l0_u_c1_r1_theta")
    assert driven(chip, faulty, MatrixTarget(UNITARY)) > 0.05


def test_a_build_of_a_faulty_layout_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from optinc_pdk import layout

    write = layout.write_gds

    def faulty(drawn: object, path: Path) -> None:
        write(drawn, path)
        swapped(path, path, "l0_u_c0_r0_theta", "l0_u_c1_r1_theta")

    monkeypatch.setattr(layout, "write_gds", faulty)
    done = build(UNITARY, tmp_path, BuildOptions(name="faulty"))
    assert not done.passed
    assert done.report.lvs is not None and not done.report.lvs.match
    assert "matrix: not run" in done.report.failures()


def test_options_of_networks_and_matrices_are_not_mixed(tmp_path: Path) -> None:
    for options in ({"link": "neurons"}, {"receivers": "coherent"}, {"input_amplitudes": [1.0]}):
        with pytest.raises(InputError, match="a network"):
            build(UNITARY, tmp_path, BuildOptions(**options))
    for options in ({"read": "power"}, {"tolerance": 0.1}, {"extra_columns": 0}):
        with pytest.raises(InputError, match="a matrix"):
            build(out=tmp_path, options=BuildOptions(**options))
    with pytest.raises(InputError, match="an array or file"):
        build(MatrixTarget(UNITARY), tmp_path, BuildOptions(tolerance=0.1))
    assert not list(tmp_path.iterdir())


def test_redundant_columns_replace_the_second_mesh_of_a_permutation(tmp_path: Path) -> None:
    done = build(np.eye(6)[[3, 5, 0, 1, 2, 4]], tmp_path, BuildOptions(extra_columns=2))
    assert done.passed, done.findings
    assert done.report.factor is not None and done.report.factor.mzis == 15 + 5
    with pytest.raises(InputError, match="extra_columns = 65: give 0 to 64"):
        build(UNITARY, tmp_path, BuildOptions(extra_columns=65))


def test_a_matrix_that_no_die_holds_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "large.npy", np.eye(40)[::-1])
    with pytest.raises(InputError, match="soi220_flipchip") as fault:
        build(tmp_path / "large.npy", tmp_path / "out")
    assert str(tmp_path / "large.npy") in str(fault.value) and "mm" in str(fault.value)
    assert not (tmp_path / "out").exists()


def run(*arguments: object) -> int:
    """Exit code of a command, as :func:`optinc_pdk.cli.main` would return it."""
    assert registered is app
    try:
        app([str(each) for each in arguments], standalone_mode=False)
    except InputError:
        return 2
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_commands_refuse_options_that_have_no_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "U.npy", UNITARY)
    for command, option in (
        ("build", ("--data", 8)),
        ("build", ("--link", "neurons")),
        ("factor", ("--link", "direct")),
    ):
        assert run(command, tmp_path / "U.npy", *option) == 2
    assert run("build", "--tolerance", "0.1", "-o", tmp_path / "out") == 2
    assert not (tmp_path / "out").exists()


def test_a_flag_without_effect_is_named_without_a_value() -> None:
    with pytest.raises(ArgumentError) as fault:
        refuse_options("a matrix", extra_columns=None, two_words=True)
    assert fault.value.option_message.startswith("--two-words has no effect here: it is an option of a matrix")


def test_factor_prints_the_factors_of_a_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "R.npz", matrix=REAL)
    assert run("factor", tmp_path / "R.npz", "--json") == 0
    row = json.loads(capsys.readouterr().out)["matrix"]
    assert row["shape"] == [3, 5] and row["mzis"] == 3 + 10 + 3
    assert row["scale"] == pytest.approx(np.linalg.norm(REAL, 2)) and row["error"] < 1e-12
    assert run("factor", tmp_path / "R.npz") == 0
    assert "3 × 5" in capsys.readouterr().out


def test_reports_of_matrices_are_refused_by_commands_about_words(chip: Build) -> None:
    from optinc_pdk.cli.chip_inputs import stated_words

    with pytest.raises(InputError, match="4 × 4"):
        stated_words(file(chip, ".gds"))


@pytest.mark.full
def test_a_failed_chip_with_extra_columns_names_the_remedy(tmp_path: Path) -> None:
    # with two more columns, the fit of this one ends at 2 %: five MZIs need splittings beyond their couplers
    permutation = np.eye(6)[[4, 0, 2, 1, 5, 3]]
    failed = build(permutation, tmp_path, BuildOptions(extra_columns=2))
    (line,) = (each for each in failed.findings if each.startswith("matrix: the entry"))
    assert not failed.passed and "leave extra_columns = 2 (--extra-columns) out" in line
    # the remedy is one
    assert build(permutation, tmp_path).passed


def test_a_tolerance_that_is_tiny_is_not_printed_as_zero(tmp_path: Path) -> None:
    failed = build(np.eye(2)[::-1], tmp_path, BuildOptions(tolerance=1e-9))
    assert not failed.passed
    assert any("the tolerance is 1e-07%" in line for line in failed.findings)
    assert any("the tolerance is 1e-07%" in line for line in failed.report.failures())
