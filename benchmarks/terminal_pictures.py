"""Draws commands and their output in a terminal, as SVG pictures for docs/commands.md, and a picture of a difference.

Runs the commands on the default chip, which it builds in a temporary folder. Paths of this machine are shortened.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import klayout.db as kdb
from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

WIDTH = 100
CHIP = "average_4bit_4servers"
PICTURES = {
    "help": ("--help",),
    "doctor": ("doctor",),
    "drc": ("drc", f"{CHIP}.gds", "-o", "markers.lyrdb"),
    "drc_violations": ("drc", "narrow.gds"),
    "compare": ("compare", f"{CHIP}.gds", "edited.gds"),
}
"""Arguments of ``optinc`` by the name of the picture."""


def terminal_svg(name: str, command: str, output: str) -> str:
    """Return a picture of a command and its output in a terminal.

    Args:
        name: Name of the picture, which is a part of the identifiers within it.
        command: Command line.
        output: What it prints.
    """
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(Text(output.rstrip()))
    # the fonts are those of the reader's machine, so that the picture loads nothing
    form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="optinc", theme=MONOKAI, code_format=form, unique_id=f"optinc-{name}")


def shortened(text: str, folders: dict[str, str]) -> str:
    """Replace folders of this machine in a text, the longest first."""
    for folder in sorted(folders, key=len, reverse=True):
        text = text.replace(folder, folders[folder])
    return text


def run(folder: Path, *arguments: str) -> str:
    """Run a command in a folder and return what it prints on standard output."""
    code = "import sys; sys.argv[0] = 'optinc'; from optinc_pdk.cli import main; main()"
    source = str(Path(__file__).resolve().parent.parent)
    environment = {**os.environ, "COLUMNS": str(WIDTH), "PYTHONPATH": source}
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode > 1:
        raise RuntimeError(f"optinc {' '.join(arguments)} ended with {ended.returncode}: {ended.stderr}")
    return ended.stdout


def write_layouts(folder: Path) -> None:
    """Write a layout with guides that are too narrow, and a copy of the chip with an edited cell."""
    narrow = kdb.Layout()
    top = narrow.create_cell("narrow")
    for row in range(4):
        top.shapes(narrow.layer(3, 0)).insert(kdb.DBox(0, 10 * row, 100, 10 * row + 0.3))
    narrow.write(str(folder / "narrow.gds"))
    edited = kdb.Layout()
    edited.read(str(folder / f"{CHIP}.gds"))
    cell = next(cell for cell in edited.each_cell() if cell.name.startswith("mzi_unit"))
    cell.shapes(edited.layer(41, 0)).insert(kdb.DBox(0, -20, 40, -10))
    edited.write(str(folder / "edited.gds"))


def main() -> None:
    """Write all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(__file__).resolve().parent.parent / "docs" / "terminal"
    )
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder, "build", "-o", ".")
        write_layouts(folder)
        folders = {
            name: ".",
            sys.prefix: ".venv",
            str(Path(__file__).resolve().parent.parent): "optinc-pdk",
            str(Path.home()): "~",
        }
        for picture, arguments in PICTURES.items():
            text = shortened(run(folder, *arguments), folders)
            (output / f"{picture}.svg").write_text(terminal_svg(picture, f"optinc {' '.join(arguments)}", text))
            print(output / f"{picture}.svg")
        (output / "compare.png").write_bytes((folder / f"{CHIP}.compare.png").read_bytes())


if __name__ == "__main__":
    main()
