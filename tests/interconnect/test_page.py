"""The script that writes docs/interconnect.md, as far as it takes no minutes."""

import importlib.util
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks" / "interconnect.py"


def test_chips_that_cannot_be_had_are_told_before_all_else(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("benchmark_of_interconnects", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, told in (("file", "file: File exists; give a folder"), ("folder", "bias.yml: cannot be read")):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / "average_4bit_4servers.gds").touch()
        (tmp_path / "file").touch()
        monkeypatch.setattr(sys, "argv", ["interconnect.py", "--chips", str(tmp_path / name)])
        assert script.main() == 2
        assert told in capsys.readouterr().err
