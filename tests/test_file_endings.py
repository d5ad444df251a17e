"""Endings of file names in capitals, as some systems write them, mean what they mean in small letters."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from optinc_pdk.cli import main
from optinc_pdk.matrices import MatrixTarget
from optinc_pdk.matrices.target import is_matrix_file
from optinc_pdk.networks import AveragingNetwork, GeneralNetwork, Layer, bundled_weights, read_data

WEIGHT, BIAS = np.array([[1.0, -0.5]]), np.array([0.25])


def test_weights_and_data(tmp_path: Path) -> None:
    network = GeneralNetwork.of_layers((Layer(WEIGHT, BIAS),), "relu")
    network.save(tmp_path / "A.NPZ")
    save_file({"0.weight": WEIGHT, "0.bias": BIAS}, tmp_path / "A.SAFETENSORS")
    for name in ("A.NPZ", "A.SAFETENSORS"):
        (layer,) = GeneralNetwork.load(tmp_path / name).layers
        assert np.array_equal(layer.weight, WEIGHT) and np.array_equal(layer.bias, BIAS)
    shutil.copy(bundled_weights(4, 4), tmp_path / "TASK.NPZ")
    assert AveragingNetwork.load(tmp_path / "TASK.NPZ").task.bits == 4
    np.savez(tmp_path / "data.npz", x=np.eye(2))
    (tmp_path / "data.npz").rename(tmp_path / "DATA.NPZ")
    assert np.array_equal(read_data(tmp_path / "DATA.NPZ", network).x, np.eye(2))


def test_matrices(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.eye(3))
    np.savez(tmp_path / "u.npz", u=np.eye(3))
    for name in ("u.npy", "u.npz"):
        capitals = (tmp_path / name).rename(tmp_path / name.upper())
        assert is_matrix_file(capitals)
        assert np.array_equal(MatrixTarget.load(capitals).matrix, np.eye(3))


def test_files_that_commands_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synth = ("synth", "--bits", 4, "--servers", 2, "-o", tmp_path / "NET.NPZ")
    for command in (("process", "deck", "-o", tmp_path / "RULES.LYDRC"), synth):
        monkeypatch.setattr(sys, "argv", ["optinc", *map(str, command)])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code and Path(command[-1]).is_file()
