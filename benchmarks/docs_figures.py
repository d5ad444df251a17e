"""Writes the figures of the documentation that a single command draws, into docs/.

Some show the bundled 4-bit chip, which is built for them in a temporary folder. About a minute.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from terminal_pictures import CHIP, run

MODES = 6
"""Modes of the Fourier matrix."""
FIGURES = {
    "mesh_fourier.svg": ("factor", "fourier.npy", "--picture", "mesh_fourier.svg"),
    "stack_soi220.svg": ("stack", "--process", "soi220", "-o", "stack_soi220.svg"),
}
"""Arguments of ``optinc`` by the name of the figure."""
CHIP_FIGURES = {
    "chip.png": ("soi220", ("view", f"{CHIP}.gds", "--png", "-o", "."), f"{CHIP}.chip.png"),
    "eye_4bit_25gbd.png": ("soi220_fast", ("eye", f"{CHIP}.gds", "--symbol-rate", "25e9"), f"{CHIP}.eye.png"),
}
"""Process of the bundled chip, arguments of ``optinc`` and the file that it writes, by the name of the figure."""


def write_figures(output: Path) -> list[Path]:
    """Draw the figures that need no chip into a folder, and return their files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "fourier.npy", np.fft.fft(np.eye(MODES)) / np.sqrt(MODES))
        for arguments in FIGURES.values():
            run(folder, *arguments)
        for figure in FIGURES:
            (output / figure).write_bytes((folder / figure).read_bytes())
    return [output / figure for figure in FIGURES]


def write_chip_figures(output: Path) -> list[Path]:
    """Build the bundled chip, draw its figures into a folder, and return their files."""
    for figure, (process, arguments, written) in CHIP_FIGURES.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run(folder, "build", "--process", process, "-o", ".")
            run(folder, *arguments, "--process", process)
            (output / figure).write_bytes((folder / written).read_bytes())
    return [output / figure for figure in CHIP_FIGURES]


def main() -> None:
    """Write all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).resolve().parent.parent / "docs")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    for figure in (*write_figures(output), *write_chip_figures(output)):
        print(figure)


if __name__ == "__main__":
    main()
