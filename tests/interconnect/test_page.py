"""The script that writes docs/interconnect.md: the parts that do not take minutes."""

import importlib.util
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks" / "interconnect.py"


def test_chips_that_cannot_be_read_are_reported_first(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("benchmark_of_interconnects", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, reported in (("file", "file: File exists"), ("folder", "average_4bit_4servers.bias.yml")):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / "average_4bit_4servers.gds").touch()
        (tmp_path / "file").touch()
        monkeypatch.setattr(sys, "argv", ["interconnect.py", "--chips", str(tmp_path / name)])
        assert script.main() == 2
        assert reported in capsys.readouterr().err
