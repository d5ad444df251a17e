"""The steps of docs/own_devices.md, run as written: every command passes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "own_devices.md"
BLOCK = re.compile(r"([^\n]*)\n\n```(\w*)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"`(mine/[\w/.]+|splitter\.py|coupled\.py)`:$")
CELL = re.compile(r"cell:\n(  .*\n)+")
COMMANDS = {"optinc": [sys.executable, "-c", "from optinc_pdk.cli import main; main()"], "python": [sys.executable]}
CARD = "mine/devices/short_mmi.yml"


@pytest.mark.full
def test_every_step_of_the_page_passes(tmp_path: Path) -> None:
    said: list[str] = []
    shown: list[str] = []
    for before, language, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if file := FILE.search(before):
            path = tmp_path / file[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
        elif language == "yaml":
            # the page states what replaces the cell of the card
            card = (tmp_path / CARD).read_text(encoding="utf-8")
            (tmp_path / CARD).write_text(CELL.sub(body, card), encoding="utf-8")
        elif language == "text":
            shown.append(body)
        elif not language:
            for line in body.splitlines():
                name, *arguments = shlex.split(line)
                done = subprocess.run(
                    [*COMMANDS[name], *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, (line, done.stderr)
                said.append(done.stdout)
    assert [text.splitlines()[0] for text in said if "golden" in text] == [
        "short_mmi: new",
        "bridged_coupler: new",
        "short_mmi: changed",
    ]
    assert sum("verdict   pass" in text for text in said) == 3
    # the page shows some lines of the output
    assert len(shown) == 1 and any(set(shown[0].splitlines()) <= set(text.splitlines()) for text in said)
    assert "## short_mmi" in (tmp_path / "cells.md").read_text(encoding="utf-8")
