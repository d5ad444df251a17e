"""Existing chips take other weights and matrices of their shape; what needs another chip is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

import optinc_pdk as op
from optinc_pdk import memory_limit
from optinc_pdk.cli.commands import app
from optinc_pdk.errors import InputError
from optinc_pdk.pipeline.stages import Build

REAL = np.random.default_rng(0).normal(size=(3, 4))


def unitary(seed: int) -> np.ndarray:
    return np.asarray(scipy.stats.unitary_group(4, seed=seed).rvs())


@pytest.fixture(scope="module")
def chips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chips of a unitary, read as fields, and of a real matrix, read as powers."""
    folder = tmp_path_factory.mktemp("chips")
    assert op.build(unitary(0), folder, op.BuildOptions(name="unitary")).passed
    assert op.build(REAL, folder, op.BuildOptions(name="real", read="power")).passed
    return folder


def files(chips: Path, name: str) -> tuple[Path, Path]:
    return chips / f"{name}.gds", chips / f"{name}.pic.yml"


@pytest.mark.full
def test_one_chip_takes_three_other_unitaries(chips: Path, tmp_path: Path) -> None:
    gds, netlist = files(chips, "unitary")
    biases = set()
    for seed in (1, 2, 3):
        done = op.reprogram(gds, netlist, unitary(seed), tmp_path, op.ProgramOptions(name=f"other{seed}"))
        assert done.passed, done.findings
        assert (tmp_path / f"other{seed}.gds").read_bytes() == gds.read_bytes()
        assert (tmp_path / f"other{seed}.pic.yml").read_bytes() == netlist.read_bytes()
        biases.add((tmp_path / f"other{seed}.bias.yml").read_bytes())
    assert len(biases) == 3


@pytest.mark.full
def test_the_files_of_a_chip_that_was_programmed_again_are_those_of_one_chip(chips: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "V.npy", unitary(7))
    np.save(tmp_path / "W.npy", unitary(8))
    gds, netlist = files(chips, "unitary")
    run, out, matrix = CliRunner(), str(tmp_path), str(tmp_path / "V.npy")
    assert run.invoke(app, ["program", str(gds), str(netlist), matrix, "-o", out]).exit_code == 0
    layout = str(tmp_path / "V.gds")
    commands = [
        ["noise", layout, "--weights", matrix, "--symbol-rates", "1e6", "-o", str(tmp_path / "n.csv")],
        ["spectrum", layout, "--weights", matrix, "--wavelengths", "1549:1551:1"],
        ["yield", layout, "--weights", matrix, "--samples", "1", "--no-contributions", "-o", out],
    ]
    for command in commands:
        done = run.invoke(app, command)
        # without calibration, the one sample of the yield fails
        assert not isinstance(done.exception, InputError) and "is not the matrix" not in done.stderr, done.output
    # another matrix is compared with, and warned of
    done = run.invoke(app, [*commands[0][:3], str(tmp_path / "W.npy"), *commands[0][4:]])
    assert done.exit_code == 0 and "W.npy: is not what " in done.stderr
    done = run.invoke(app, [*commands[0], "--tolerance", "0.01"])
    assert "tolerance" in str(done.exception) and "has no effect" in str(done.exception)


def test_a_chip_read_as_powers_takes_another_matrix_read_as_powers(chips: Path, tmp_path: Path) -> None:
    done = op.reprogram(*files(chips, "real"), REAL[::-1], tmp_path)
    assert done.passed, done.findings
    assert done.report.to_json().count('"read": "power"') == 1


@pytest.mark.full
def test_the_outputs_are_read_as_the_report_beside_the_layout_states(chips: Path, tmp_path: Path) -> None:
    assert op.build(REAL, tmp_path, op.BuildOptions(name="homodyne", read="real")).passed
    gds, netlist = files(tmp_path, "homodyne")

    def read(done: Build) -> object:
        assert done.passed, done.findings
        return done.report.task.model_dump()["read"]

    assert read(op.reprogram(gds, netlist, REAL[::-1], tmp_path, op.ProgramOptions(name="other"))) == "real"
    np.save(tmp_path / "V.npy", REAL[::-1])
    command = ["program", str(gds), str(netlist), str(tmp_path / "V.npy"), "-o", str(tmp_path), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0 and json.loads(done.stdout)["task"]["read"] == "real"
    assert (
        read(op.reprogram(gds, netlist, REAL[::-1], tmp_path, op.ProgramOptions(name="powers", read="power")))
        == "power"
    )
    with pytest.raises(InputError, match=r"complex.*homodyne\.report\.json states that the chip is read as 'real'"):
        op.reprogram(gds, netlist, REAL * 1j + 1.0, tmp_path, op.ProgramOptions(name="complex"))
    # without a report, the chip's output phase shifters decide
    (tmp_path / "homodyne.report.json").unlink()
    assert read(op.reprogram(gds, netlist, REAL[::-1], tmp_path, op.ProgramOptions(name="alone"))) == "power"


def test_what_needs_another_chip_is_refused(chips: Path, tmp_path: Path) -> None:
    gds, netlist = files(chips, "unitary")
    refused = [
        (np.diag([1.0, 0.5, 0.5, 0.5]), "a chip of one mesh realises unitaries only"),
        (np.eye(5), r"has shape \(5, 5\).*takes matrices of shape \(4, 4\)"),
    ]
    for matrix, message in refused:
        with pytest.raises(InputError, match=message):
            op.reprogram(gds, netlist, matrix, tmp_path / "out")
    with pytest.raises(
        InputError,
        match=r"needs the chip of a network of .* for 4 servers, and .*unitary\.pic\.yml is that of a matrix of 4 × 4",
    ):
        op.reprogram(gds, netlist, op.AveragingNetwork.load(bundled()), tmp_path / "out")
    with pytest.raises(InputError, match="needs another chip"):
        op.reprogram(*files(chips, "real"), REAL, tmp_path / "out", op.ProgramOptions(read="field"))
    assert not (tmp_path / "out").exists()


def bundled() -> Path:
    from optinc_pdk.networks import bundled_weights

    return bundled_weights()


def test_the_files_of_the_chip_itself_are_kept(chips: Path) -> None:
    before = {path: path.read_bytes() for path in chips.iterdir()}
    with pytest.raises(InputError, match=r"unitary\.gds: is a file of the chip itself"):
        op.reprogram(*files(chips, "unitary"), unitary(1), chips, op.ProgramOptions(name="unitary"))
    assert {path: path.read_bytes() for path in chips.iterdir()} == before


def test_the_report_of_a_cascade_with_an_earlier_chip_of_that_name_is_deleted(chips: Path, tmp_path: Path) -> None:
    cascade = tmp_path / "both.cascade.json"
    cascade.write_text(json.dumps({"levels": [{"name": "other"}]}))
    done = op.reprogram(*files(chips, "unitary"), unitary(1), tmp_path, op.ProgramOptions(name="other"))
    assert done.passed
    assert done.findings[-1].startswith(f"{cascade}: deleted")
    assert not cascade.exists()


def test_more_memory_than_the_machine_has_is_refused(
    chips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "machine_memory_gb", lambda: 0.01)
    with pytest.raises(InputError, match=r"needs about .* GB of memory, this machine has 0\.0 GB"):
        op.reprogram(*files(chips, "unitary"), unitary(1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_chip_fails_and_is_not_programmed(chips: Path, tmp_path: Path) -> None:
    gds, netlist = files(chips, "unitary")
    done = op.reprogram(files(chips, "real")[0], netlist, unitary(1), tmp_path, op.ProgramOptions(name="wrong"))
    assert not done.passed
    assert not (tmp_path / "wrong.bias.yml").exists()
    assert gds.exists()


def test_refusals_name_the_given_file_before_any_work(chips: Path, tmp_path: Path) -> None:
    gds, netlist = files(chips, "unitary")
    np.save(tmp_path / "G.npy", np.diag([1.0, 0.5, 0.5, 0.5]))
    network = op.GeneralNetwork.of_layers([(np.ones((3, 2)), np.zeros(3)), (np.ones((2, 3)), np.zeros(2))])
    np.savez(tmp_path / "net.npz", **{f"layers.{i}.weight": each.weight for i, each in enumerate(network.layers)})
    refused: list[tuple[Path, object, str]] = [
        (gds, tmp_path / "G.npy", r"G\.npy: a chip of one mesh realises unitaries only"),
        (tmp_path / "G.npy", unitary(1), r"G\.npy: neither GDS2 nor OASIS; give the layout of the chip"),
        (gds, network, r"needs the chip of a network of 2-3-2 signals, and .* is that of a matrix of 4 × 4"),
    ]
    for layout, target, message in refused:
        with pytest.raises(InputError, match=message):
            op.reprogram(layout, netlist, target, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_options_of_a_build_have_no_effect_on_an_existing_chip(chips: Path, tmp_path: Path) -> None:
    for options, name in (({"mesh": "triangle"}, "mesh"), ({"port_metadata": True}, "port metadata")):
        with pytest.raises(InputError, match=f"{name} .* is an option of a build"):
            op.reprogram(*files(chips, "unitary"), unitary(1), tmp_path / "out", op.BuildOptions(**options))
    assert not (tmp_path / "out").exists()
