"""Writes the figures of the documentation that a single command draws, into docs/.

Each is drawn by the command that the page beside it names.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from terminal_pictures import run

MODES = 6
"""Modes of the Fourier matrix."""
FIGURES = {
    "mesh_fourier.svg": ("factor", "fourier.npy", "--picture", "mesh_fourier.svg"),
    "stack_soi220.svg": ("stack", "--process", "soi220", "-o", "stack_soi220.svg"),
}
"""Arguments of ``optinc`` by the name of the figure."""


def write_figures(output: Path) -> list[Path]:
    """Draw all figures into a folder, and return their files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "fourier.npy", np.fft.fft(np.eye(MODES)) / np.sqrt(MODES))
        for arguments in FIGURES.values():
            run(folder, *arguments)
        for figure in FIGURES:
            (output / figure).write_bytes((folder / figure).read_bytes())
    return [output / figure for figure in FIGURES]


def main() -> None:
    """Write all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).resolve().parent.parent / "docs")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    for figure in write_figures(output):
        print(figure)


if __name__ == "__main__":
    main()
