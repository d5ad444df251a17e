"""Files of a chip: layout, netlist and bias, which a build writes beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optinc_pdk.errors import InputError


@dataclass(frozen=True)
class ChipFiles:
    """Paths of the files of one chip.

    Attributes:
        gds: Layout.
        netlist: Netlist with the board.
        bias: Bias file.
    """

    gds: Path
    netlist: Path
    bias: Path

    @property
    def name(self) -> str:
        """Name of the chip: stem of the layout's file name."""
        return self.gds.stem


def chip_paths(gds: Path, netlist: Path | None = None, bias: Path | None = None) -> ChipFiles:
    """Return the paths of the files of a chip, which may be missing.

    Args:
        gds: Layout ``<name>.gds``.
        netlist: Netlist; by default ``<name>.pic.yml`` in the folder of the layout.
        bias: Bias file; by default ``<name>.bias.yml`` in the folder of the layout.
    """
    return ChipFiles(
        gds, netlist or gds.with_name(f"{gds.stem}.pic.yml"), bias or gds.with_name(f"{gds.stem}.bias.yml")
    )


def chip_files(gds: Path, netlist: Path | None = None, bias: Path | None = None) -> ChipFiles:
    """Find the files of a chip.

    Args:
        gds: As for :func:`chip_paths`.
        netlist: As for :func:`chip_paths`.
        bias: As for :func:`chip_paths`.

    Raises:
        InputError: A file is missing.
    """
    files = chip_paths(gds, netlist, bias)
    for path, remedy in (
        (files.gds, "give the layout of a chip"),
        (files.netlist, "give the chip's netlist"),
        (files.bias, "give the chip's bias file with --bias"),
    ):
        if not path.is_file():
            raise InputError(f"{path}: there is no such file; {remedy}")
    return files
