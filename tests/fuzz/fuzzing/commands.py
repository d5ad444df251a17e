"""Whole commands on a small chip of which one file is mutated."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

from fuzzing import corpus
from fuzzing.targets import NPZ, YAML, Mutator, Target, _bytes, _records

ARGUMENTS = {
    "drc": "drc fuzz.gds --bias fuzz.bias.yml -o out.lyrdb",
    "lvs": "lvs fuzz.gds fuzz.pic.yml -o out.json",
    "check": "check fuzz.gds fuzz.pic.yml --weights fuzz.npz --bias fuzz.bias.yml -o out.npz",
    "compare": "compare fuzz.gds fuzz.other.gds -o out.compare",
    "simulate": "simulate fuzz.gds --bias fuzz.bias.yml -o out.npz",
}
FILES = {
    "drc": (".gds", ".bias.yml"),
    "lvs": (".gds", ".pic.yml"),
    "check": (".gds", ".pic.yml", ".bias.yml", ".npz"),
    "compare": (".gds",),
    "simulate": (".gds", ".bias.yml"),
}
MUTATORS: dict[str, tuple[Mutator, ...]] = {
    ".gds": (_records, _records, _records, _bytes),
    ".pic.yml": YAML,
    ".bias.yml": YAML,
    ".npz": NPZ,
}


def command_targets(chip: corpus.Chip) -> dict[str, Target]:
    """The commands as targets: the mutated file is that of the target, the others are unchanged."""
    files = {".gds": chip.gds, ".pic.yml": chip.netlist, ".bias.yml": chip.bias, ".npz": chip.weights}
    files[".other.gds"] = chip.gds
    found = {}
    for command, endings in FILES.items():
        for ending in endings:
            name = f"optinc {command}: {ending}"
            share = 2.0 if ending == ".gds" else 1.0
            found[name] = Target(
                name, f"fuzz{ending}", (files[ending],), MUTATORS[ending], _Command(command, files), share, 60.0
            )
    return found


class _Command:
    """Calls a command in this process; anything but an exit code of 0, 1 or 2 is raised."""

    def __init__(self, command: str, files: dict[str, bytes]) -> None:
        self.command, self.files = command, files

    def __call__(self, path: Path) -> None:
        from optinc_pdk.cli import main
        from optinc_pdk.errors import InputError

        for ending, data in self.files.items():
            if path.name != f"fuzz{ending}":
                path.with_name(f"fuzz{ending}").write_bytes(data)
        errors, printed, before = io.StringIO(), io.StringIO(), sys.argv
        sys.argv = ["optinc", *(_absolute(word, path) for word in ARGUMENTS[self.command].split())]
        code: Any = None
        try:
            with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(printed):
                main()
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv = before
        if code == 2:
            raise InputError(f"{path.name}: {errors.getvalue()}")
        if code not in (0, 1):
            raise RuntimeError(f"exit code {code}: {errors.getvalue()[-3000:]}")


def _absolute(word: str, path: Path) -> str:
    return str(path.with_name(word)) if word.startswith(("fuzz.", "out.")) else word
