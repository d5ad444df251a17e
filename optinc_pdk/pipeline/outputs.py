"""Files of a build: their names, and how they replace those of an earlier build together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import StagedFiles, output_targets
from optinc_pdk.report.build_files import BUILD_ENDING, cascades_of, file_digest

FILE_ENDINGS = (
    ".gds",
    ".pic.yml",
    ".bias.yml",
    ".drc.lyrdb",
    ".lvs.json",
    ".lvs.lyrdb",
    ".function.npz",
    ".network.npz",
    ".matrix.npz",
    ".pinout.csv",
    ".pinout.svg",
    ".report.html",
)
"""Endings of the files of a build; those that it does not write are deleted if an earlier build left them."""
CHIP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,31}")


@dataclass(frozen=True)
class BuildFiles:
    """The files of one build, which become visible together."""

    staged: StagedFiles
    name: str

    def path(self, ending: str) -> Path:
        """Path under which a file is written."""
        return self.staged.path(f"{self.name}{ending}")

    def target(self, ending: str) -> Path:
        """Path of a file after the build."""
        return self.staged.target(f"{self.name}{ending}")

    def digests(self) -> dict[str, str]:
        """SHA-256 of the files that are written."""
        paths = [self.path(ending) for ending in FILE_ENDINGS]
        return {path.name: file_digest(path) for path in paths if path.exists()}

    def check(self) -> None:
        """Check, before anything is computed, that the files can be written.

        Raises:
            InputError: One of them cannot.
        """
        output_targets(self.staged.directory, [f"{self.name}{ending}" for ending in (*FILE_ENDINGS, BUILD_ENDING)])


def publish(staged: StagedFiles, *names: str, reports: Sequence[str] = (), stale: Sequence[str] = ()) -> None:
    """Replace earlier builds of chips by new ones.

    Args:
        staged: Files of the chips.
        names: Names of the chips.
        reports: Names of further files that vouch for the chips' reports; those that the set does not have are deleted.
        stale: Names of further files of an earlier build, deleted unless the set has them.
    """
    endings = [f"{name}{ending}" for name in names for ending in FILE_ENDINGS]
    staged.publish([*(f"{name}{BUILD_ENDING}" for name in names), *reports], [*endings, *stale])


def publish_chip(staged: StagedFiles, name: str) -> list[str]:
    """Replace the earlier build of one chip by a new one.

    The report of a cascade vouches for those of its chips; the new chip belongs to none, so such reports are deleted.

    Args:
        staged: Files of the chip.
        name: Its name.

    Returns:
        Remarks about deleted reports, one line each.
    """
    outdated = cascades_of(staged.directory, name)
    publish(staged, name, reports=[path.name for path in outdated])
    return [f"{path}: deleted, because it was the report of a cascade with the earlier chip" for path in outdated]


def chip_name(stem: str, name: str | None) -> str:
    """Return the name of a chip: the given one, or one that is made of a file's stem.

    Args:
        stem: Stem of the file.
        name: The given name; None for none.

    Raises:
        InputError: The name cannot be that of a GDS cell and of files.
    """
    chosen = re.sub(r"[^A-Za-z0-9_]", "_", stem)[:32] if name is None else name
    if not CHIP_NAME.fullmatch(chosen):
        raise InputError(
            f"name {chosen!r}: it becomes the name of a GDS cell and of files; use 1 to 32 letters, digits and "
            "underscores, a letter or digit first"
        )
    return chosen
