"""The how-to about a process of one's own: its edits give a process, whose ring passes every check."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "how_to" / "own_process.md"
SOURCE = ("sources:\n", 'sources:\n  foundry: "my foundry, design manual 1.2"\n')
EDITS = {
    "process.yml": [
        ("name: soi220\n", "name: mine\n"),
        SOURCE,
        ("core: {gds: [3, 0]", "core: {gds: [1, 0]"),
        ("metal: {gds: [41, 0]", "metal: {gds: [12, 0]"),
        ("width_um: {value: 0.45, source: cornerstone}", "width_um: {value: 0.5, source: foundry}"),
        (" index: {value: 2.35, source: siepic}", " index: {value: 2.44, source: foundry}"),
        ("group_index: {value: 4.29, source: siepic}", "group_index: {value: 4.19, source: foundry}"),
    ],
    "rules.yml": [
        ("process: soi220\n", "process: mine\n"),
        ("coupled_width_um: 0.45", "coupled_width_um: 0.5"),
        ("guide_width_um: 0.45", "guide_width_um: 0.5"),
        (
            "id: core.width, kind: width, layers: [core], value_um: 0.35",
            "id: core.width, kind: width, layers: [core], value_um: 0.40",
        ),
    ],
    **{
        f"devices/{device}.yml": [
            SOURCE,
            ("tip_width_um: {value: 0.35, source: cornerstone}", "tip_width_um: {value: 0.40, source: foundry}"),
        ]
        for device in ("edge_coupler", "terminator")
    },
}
"""What the page changes, by file: old and new text."""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    optinc = [sys.executable, "-c", "import sys; sys.argv[0] = 'optinc'; from optinc_pdk.cli import main; main()"]
    command = [sys.executable, *arguments] if arguments[0].endswith(".py") else [*optinc, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def edit(path: Path, edits: list[tuple[str, str]]) -> None:
    text = path.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


@pytest.mark.full
def test_the_steps_of_the_page_give_a_process_whose_ring_passes(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    shutil.copytree(ROOT / "components" / "soi220", tmp_path / "mine")
    for name in ("process.yml", "rules.yml"):
        edit(tmp_path / "mine" / name, EDITS[name])
    refused = run(tmp_path, "process", "golden", "--process", "./mine")
    assert refused.returncode == 2 and refused.stderr.strip() in page
    for name in list(EDITS)[2:]:
        edit(tmp_path / "mine" / name, EDITS[name])
    golden = run(tmp_path, "process", "golden", "--process", "./mine")
    assert golden.returncode == 0 and golden.stdout.splitlines()[-1] in page
    (script,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "ring.py").write_text(script, encoding="utf-8")
    assert run(tmp_path, "ring.py").returncode == 0
    verified = run(tmp_path, "verify", "ring.gds", "ring.pic.yml", "--process", "./mine")
    assert verified.returncode == 0 and verified.stdout.strip() in page
