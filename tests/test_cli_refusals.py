"""Refusals of the command line name options and the file at fault."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.cli import main
from optinc_pdk.errors import InputError
from optinc_pdk.io.formatting import format_percent
from optinc_pdk.layout.chip_layout import OversizeError
from optinc_pdk.networks import GeneralNetwork, check_data
from optinc_pdk.options import BuildOptions
from optinc_pdk.tasks.averaging_task import AveragingTask
from optinc_pdk.tasks.chip_task import OPTIONS_OF
from optinc_pdk.tasks.general_task import GeneralTask
from optinc_pdk.tasks.matrix_task import MatrixTask


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(3, 2)), rng.normal(size=3)), (rng.normal(size=(3, 3)), rng.normal(size=3))]
    GeneralNetwork.of_layers(layers).save(tmp_path / "net.npz")
    GeneralNetwork.of_layers(layers, card={"classes": [0, 1]}).save(tmp_path / "classes.npz")
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(6, 2)), y=np.arange(6) % 3)
    np.save(tmp_path / "U.npy", np.eye(3)[::-1])
    (tmp_path / "U.xyz").write_text("1,2\n3,4\n")
    (tmp_path / "U.csv").write_text("1,2\n3,x\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("build --data d.npz", "--data d.npz has no effect here"),
        ("build --tolerance 0.2", "--tolerance 0.2 has no effect here"),
        ("build --agreement 0.2", "--agreement 0.2 has no effect here"),
        ("build net.npz --link neurons", "--link neurons has no effect here"),
        ("build net.npz --receivers coherent", "--receivers coherent has no effect here"),
        ("build net.npz --accuracy 0.3", "--accuracy is 0.3, and the data has no labels"),
        ("build net.npz --agreement 7", "--agreement is 7; give a share"),
        ("build net.npz --data d.npz --tolerance 0.1", "--tolerance is 0.1, and the data has labels"),
        ("build U.npy --tolerance 0", "--tolerance is 0; give a share of the largest entry"),
        ("build classes.npz --data d.npz", "classes.npz: card: classes is [0, 1]; give a list of 3"),
        (
            "build U.xyz",
            "U.xyz: files ending in '.xyz' are not read; use .npz, .safetensors, .onnx or .pt for a network",
        ),
        ("build U.csv", "U.csv: line 2, column 2 is 'x'; give a finite number with a point, such as 0.5 or 1+2j"),
    ],
)
def test_a_refusal_names_the_option_or_the_file_at_fault(
    folder: Path, arguments: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["optinc", *arguments.split()])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"optinc: {message}")
    assert not (folder / "gds_out").exists()


def test_a_matrix_beyond_every_layout_is_refused_with_its_size_and_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OversizeError("too large")

    monkeypatch.setattr("optinc_pdk.layout.lay_out", refuse)
    monkeypatch.setattr(sys, "argv", ["optinc", "build", "U.npy"])
    with pytest.raises(SystemExit):
        main()
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("optinc: U.npy: the chip of this 3 × 3 matrix would be larger than 1000 mm, the largest die")
    assert "use a smaller matrix" in line and hasattr(MatrixTask, "too_large")


def test_small_shares_are_not_printed_as_zero() -> None:
    assert [format_percent(each) for each in (1e-9, 2e-4, 0.0, 0.01, 0.0199)] == [
        "1e-07%",
        "0.02%",
        "0.00%",
        "1.00%",
        "1.99%",
    ]


@pytest.mark.parametrize("dtype", [int, float])
def test_one_hot_labels_of_a_classifier_are_refused(dtype: type) -> None:
    layers = [(np.ones((2, 2)), np.zeros(2)), (np.ones((3, 2)), np.zeros(3))]
    network = GeneralNetwork.of_layers(layers, card={"classes": ["a", "b", "c"]})
    labels = np.eye(3, dtype=dtype)[[0, 1, 2, 1]]
    with pytest.raises(InputError, match=r"y has shape \(4, 3\) and whole numbers.*classes.*argmax"):
        check_data(np.zeros((4, 2)), labels, network)
    # outputs, and networks without classes, are compared as outputs
    assert check_data(np.zeros((4, 2)), labels + 0.5, network).kind == "outputs"
    assert check_data(np.zeros((4, 2)), labels, GeneralNetwork.of_layers(layers)).kind == "outputs"


def test_layers_are_tuples_of_arrays() -> None:
    network = GeneralNetwork.of_layers([([[1.0, 2.0]], [0.5]), (np.ones((2, 1)), np.zeros(2))])
    assert network.structure == (2, 1, 2)
    for wrong in ((np.eye(2), np.zeros(3)), (np.eye(2, dtype=int), np.zeros(2))):
        with pytest.raises(InputError, match=r"layers\[0\]: (bias|weight)"):
            GeneralNetwork.of_layers([wrong])
    with pytest.raises(InputError, match="masked"):
        GeneralNetwork.of_layers([(np.ma.masked_less(np.eye(2), 0.5), np.zeros(2))])
    with pytest.raises(InputError, match="layers"):
        GeneralNetwork.of_layers([np.eye(2)])  # type: ignore[list-item]


def test_an_option_that_some_tasks_refuse_is_not_given_by_default() -> None:
    options = {field.name: field.default for field in fields(BuildOptions)}
    assert all(options[name] is None for name in OPTIONS_OF if name in options)
    assert {name for task in (AveragingTask, GeneralTask, MatrixTask) for name in task.options} == set(OPTIONS_OF)
