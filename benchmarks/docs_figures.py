"""Writes the figures of the documentation that a single command draws, into docs/.

Some show the bundled 4-bit chip, and one the chip of a unitary, which are built for them in temporary folders. About a
minute.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import klayout.db as kdb
import klayout.lay as lay
import numpy as np
from terminal_pictures import CHIP, run

from optinc_pdk.cards import load_process

MODES = 6
"""Modes of the Fourier matrix."""
FIGURES = {
    "mesh_fourier.svg": ("factor", "fourier.npy", "--picture", "mesh_fourier.svg"),
    "stack_soi220.svg": ("process", "stack", "--process", "soi220", "-o", "stack_soi220.svg"),
}
"""Arguments of ``optinc`` by the name of the figure."""
CHIP_FIGURES = {
    "eye_4bit_25gbd.png": ("soi220_fast", ("eye", f"{CHIP}.gds", "--symbol-rate", "25e9"), f"{CHIP}.eye.png"),
}
"""Process of the bundled chip, arguments of ``optinc`` and the file that it writes, by the name of the figure."""
UNITARY_FIGURE = "mesh_chip.png"
SIZE, WIDTH_PX = 8, 2400
WINDOW_UM = (2480.0, -20.0, 9060.0, 1560.0)
"""Part of the chip of a unitary with its mesh and its pads."""
PAINTS = {"outline": ("#9aa5b1", 1), "metal": ("#d9b45b", 1), "core": ("#1763b6", 3), "heater": ("#e2382d", 9)}
"""Colour and width of contours in pixels, by layer, the last on top; for print on white."""


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


def write_unitary_figure(output: Path) -> Path:
    """Build the chip of a random unitary, draw its mesh with wires and pads into a folder, and return the file."""
    draws = np.random.default_rng(1).standard_normal((2, SIZE, SIZE))
    layout, process = kdb.Layout(), load_process("soi220")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "unitary.npy", np.linalg.qr(draws[0] + 1j * draws[1])[0])
        run(folder, "build", "unitary.npy", "--process", process.name, "-o", ".")
        layout.read(str(folder / "unitary.gds"))
    layers = process.gds_layers | {"metal": process.layers[process.metal.layer].gds}
    view = lay.LayoutView()
    for key, value in {"background-color": "#ffffff", "grid-visible": "false", "text-visible": "false"}.items():
        view.set_config(key, value)
    view.show_layout(layout, False)
    view.max_hier()
    view.clear_layers()
    for layer, (colour, width) in PAINTS.items():
        paint = lay.LayerPropertiesNode()
        paint.source = f"{layers[layer][0]}/{layers[layer][1]}@1"
        paint.fill_color = paint.frame_color = int(colour.removeprefix("#"), 16)
        paint.dither_pattern, paint.width = int(layer == "outline"), width
        view.insert_layer(view.end_layers(), paint)
    box = kdb.DBox(*WINDOW_UM)
    height = round(WIDTH_PX * box.height() / box.width())
    pixels = view.get_pixels_with_options(WIDTH_PX, height, 1, 2, 1.0, box)
    (output / UNITARY_FIGURE).write_bytes(pixels.to_png_data())
    return output / UNITARY_FIGURE


def main() -> None:
    """Write all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).resolve().parent.parent / "docs")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    for figure in (*write_figures(output), *write_chip_figures(output), write_unitary_figure(output)):
        print(figure)


if __name__ == "__main__":
    main()
