"""The code and the command of docs/general_networks.md, run as written: chips of iris classifiers that pass."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "general_networks.md").read_text(encoding="utf-8")


@pytest.mark.full
def test_the_steps_of_the_page_build_and_program_chips_that_pass(tmp_path: Path) -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
    code = [text for language, text in blocks if language == "python"]
    # iris from data to verdict
    assert len([line for line in code[0].splitlines() if line]) <= 10
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    results = [line.split() for line in done.stdout.splitlines()]
    assert [verdict for verdict, _ in results] == ["pass"] * 4
    assert all(float(accuracy) > 0.95 for _, accuracy in results)
    (command,) = (text.split() for language, text in blocks if not language and text.startswith("optinc build"))
    assert command[:2] == ["optinc", "build"]
    program = "import sys; from optinc_pdk.cli import main; sys.argv[0] = 'optinc'; main()"

    def built(weights: str) -> subprocess.CompletedProcess[str]:
        arguments = [weights if word == "iris.npz" else word for word in command[1:]]
        return subprocess.run(
            [sys.executable, "-c", program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    done = built("iris.npz")
    assert done.returncode == 0, done.stderr
    assert "chip and network agree on 150 of 150 samples" in done.stdout + done.stderr
    (again,) = (text.split() for language, text in blocks if not language and text.startswith("optinc program"))
    other = subprocess.run(
        [sys.executable, "-c", program, *again[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert other.returncode == 0, other.stderr
    # what the page says of a weight that is changed afterwards
    with np.load(tmp_path / "iris.npz") as stored:
        arrays = dict(stored)
    arrays["layers.1.weight"][0, 1] *= -1.0
    np.savez(tmp_path / "flip.npz", **arrays)
    failed = built("flip.npz")
    assert failed.returncode == 1
    assert "the network itself is the cause" in failed.stderr and "its card states 9" in failed.stderr
