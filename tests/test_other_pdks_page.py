"""The circuit of docs/other_pdks.md, drawn and verified as written."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = {"optinc": [sys.executable, "-c", "from optinc_pdk.cli import main; main()"], "python": [sys.executable]}


@pytest.mark.full
def test_the_circuit_of_the_page_passes(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "other_pdks.md").read_text(encoding="utf-8").partition("## 5. Draw and verify")[2]
    drawing, commands = re.findall(r"```(?:python)?\n(.*?)```", section, re.DOTALL)[:2]
    (tmp_path / "mine.py").write_text(drawing, encoding="utf-8")
    shutil.copytree(ROOT / "examples" / "processes" / "generic", tmp_path / "generic")
    for line in commands.splitlines():
        name, *arguments = shlex.split(line)
        done = subprocess.run([*COMMANDS[name], *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    found = json.loads((tmp_path / "mine.verify.json").read_text(encoding="utf-8"))
    assert found["verdict"] == "pass"
    assert found["lvs"]["match"]
    assert found["simulation"]["ports"] == ["in", "out1", "out2"]
