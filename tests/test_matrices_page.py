"""The commands and code of docs/matrices.md, run as written: they build a chip that passes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "matrices.md").read_text(encoding="utf-8")


@pytest.mark.full
def test_the_steps_of_the_page_build_a_chip_that_passes(tmp_path: Path) -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
    code = "\n".join(text for language, text in blocks if language == "python")
    commands = [line.split() for language, text in blocks if not language for line in text.splitlines()]
    assert [words[1] for words in commands] == ["build", "program", "yield", "spectrum", "noise"]
    assert all(words[0] == "optinc" for words in commands)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    verdict, error, codes = done.stdout.splitlines()
    assert verdict.startswith("pass ")
    assert 0.0 < float(error) < 0.01
    assert "'l0_out_r0': " in codes
    program = "import sys; from optinc_pdk.cli import main; sys.argv[0] = 'optinc'; main()"
    for _, *arguments in commands:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {
        "U.gds",
        "U.pic.yml",
        "U.bias.yml",
        "U.matrix.npz",
        "U.report.html",
        "mine.gds",
        "V.bias.yml",
        "V.report.html",
        "U.yield.json",
        "U.spectrum.csv",
        "U.noise.csv",
    } <= names
