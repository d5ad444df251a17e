"""The examples run and give the documented result."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.full
def test_a_network_from_pytorch_becomes_a_chip_that_passes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "pytorch_to_chip.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # the margin may differ a little on another machine
    assert done.stdout.startswith("pass inputs=256 exact=256 accuracy=1.0 margin=0."), done.stdout
    assert (tmp_path / "mine_out" / "mine.gds").is_file()


@pytest.mark.full
def test_a_hardtanh_network_with_an_output_bias_becomes_a_chip_that_passes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "hardtanh_to_chip.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pass inputs=256 exact=256 accuracy=1.0 margin=0."), done.stdout
    assert (tmp_path / "clipped.onnx").is_file() and (tmp_path / "clipped.safetensors").is_file()


@pytest.mark.full
def test_handwritten_digits_are_recognised_by_the_chip_as_in_floating_point(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "digits.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shares = {
        where: float(share)
        for where, share in re.findall(r"accuracy, (floating point|extracted chip)\D*([\d.]+)%", done.stdout)
    }
    assert shares["floating point"] > 95.0
    assert abs(shares["extracted chip"] - shares["floating point"]) <= 0.5
    assert "of 599 images" in done.stdout
    assert {"digits.gds", "network.npz", "test.npz"} <= {path.name for path in (tmp_path / "digits_out").iterdir()}
