"""Paths of output files, comparison of input files with reports, netlists of layouts, and files in messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from optinc_pdk.errors import ArgumentError, InputError
from optinc_pdk.io.reading import check_readable, real_path
from optinc_pdk.io.writing import output_target
from optinc_pdk.report.build_files import changed_files, claiming_report, stated_cards

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.circuit import Circuit, PlacedCircuit

SHOWN_PARTS = 8
"""Number of changed parts of cards that a message lists."""


def output_path(path: Path, *inputs: Path | None, option: str = "-o", in_place: bool = False) -> Path:
    """Return the path of an output file after checking that the file can be written.

    Commands call this before they compute anything, so that no result is lost.

    Args:
        path: File to write.
        inputs: Files that the command reads; None stands for an option that was not given.
        option: Option that sets the path, for the messages.
        in_place: Whether the path may be a device or a pipe, such as ``/dev/null`` or ``/dev/stdout``.

    Returns:
        ``path``, unchanged.

    Raises:
        InputError: The path is one of the inputs, belongs to a report, leads to something that is no file, or its
            folder cannot be created or written.
        OSError: The path is too long, or leads through a circle of links.
    """
    for one in inputs:
        if one is not None and real_path(path) == real_path(one):
            raise InputError(
                f"{path}: this command reads the file, so it does not overwrite it; give another with {option}"
            )
    try:
        target = output_target(path, in_place)
    except InputError as fault:
        raise InputError(f"{fault} with {option}") from fault
    for file in dict.fromkeys((path, target)):
        if (report := claiming_report(file)) is not None:
            raise InputError(f"{path}: belongs to {report}, which would no longer be true; give another with {option}")
    # the reader of a missing input names it; a folder beside it may be missing as well
    if all(one is None or one.exists() for one in inputs):
        _check_folder(path, target.parent, option)
    return path


def default_output(layout: Path, ending: str) -> Path:
    """Return the path of a result beside a layout: ``<name><ending>``, or ``<name>.rerun<ending>`` beside a build.

    Args:
        layout: Layout that a command checks.
        ending: Ending of the result, such as ``.drc.lyrdb``.
    """
    path = layout.with_suffix(ending)
    report = claiming_report(path)
    # a missing layout is refused when it is read
    if report is None or not layout.is_file():
        return path
    other = layout.with_suffix(f".rerun{ending}")
    print(f"optinc: {path} belongs to {report}; the result will be written to {other}", file=sys.stderr)
    return other


def warn_of_changes(*inputs: Path | None) -> None:
    """Warn on stderr of input files that are not those of the build whose report is beside them.

    Args:
        inputs: Files that the command reads; None stands for an option that was not given.

    Raises:
        InputError: A file cannot be read.
    """
    given = [path for path in inputs if path is not None]
    for path in given:
        check_readable(path)
    for path, report in changed_files(given):
        print(
            f"optinc: {path}: is not the file that {report} describes (another SHA-256), so that report does not hold "
            "for it; build the chip again, or move the report away",
            file=sys.stderr,
        )


def warn_of_changed_cards(gds: Path, process: Process) -> None:
    """Warn on stderr if the report beside a layout states other cards of the same process than those read now.

    Cards of another process are refused with the chip's bias; reports of earlier versions state no cards.

    Args:
        gds: Layout.
        process: Process as read, without options of a command.

    Raises:
        InputError: A file of S-parameters cannot be read.
    """
    from optinc_pdk.cards import card_digests, changed_parts

    stated = stated_cards(gds)
    if stated is None or stated[1] != process.name:
        return
    report, _, digests = stated
    if changed := changed_parts(digests, card_digests(process)):
        more = f" and {len(changed) - SHOWN_PARTS} more" if len(changed) > SHOWN_PARTS else ""
        print(
            f"optinc: {report}: the chip was built with other cards of process {process.name!r}; since then, "
            f"{', '.join(changed[:SHOWN_PARTS])}{more} changed. Layout and bias are of the earlier cards, results of "
            "this command of both: build the chip again, or restore the cards",
            file=sys.stderr,
        )


def output_folder(path: Path, option: str = "-o") -> Path:
    """Return the path of an output folder after checking that files can be written into it.

    Args:
        path: Folder, which may be missing.
        option: Option that sets the path, for the messages.

    Returns:
        ``path``, unchanged.

    Raises:
        InputError: The path is a file, or the folder cannot be created or written.
        OSError: The path is too long, or leads through a circle of links.
    """
    if os.path.exists(path) and not path.is_dir():
        raise InputError(f"{path}: is a file; give a folder with {option}")
    _check_folder(path, path, option)
    return path


def _check_folder(path: Path, folder: Path, option: str) -> None:
    """Check that a folder is writable, or can be created; ``path`` is the path that the user gave."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.lstat(folder)  # raises for names that are too long, and links that lead in a circle
    # a link to a missing folder exists for lstat only, and mkdir refuses it
    existing = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
    if not existing.is_dir():
        raise InputError(f"{path}: {existing} is not a folder; give another path with {option}")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(
            f"{path}: the folder {existing} is not writable; give another path with {option}, or change its permissions"
        )


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Put a file's name in front of the messages of input errors that are raised inside the ``with`` block.

    Args:
        path: File.

    Raises:
        InputError: As raised inside the block, with the file's name in front of the message.
    """
    try:
        yield
    except ArgumentError as fault:
        raise InputError(f"{path}: {fault.option_message}") from fault
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from fault


def circuit_name(path: Path) -> str:
    """Return the name of a circuit from its layout or netlist file, without ``.gds``, ``.oas`` or ``.pic.yml``."""
    return path.name.removesuffix(".yml").removesuffix(".pic").removesuffix(".gds").removesuffix(".oas")


def read_layout_netlist(netlist: Path, gds: Path, process: Process, top: str) -> Circuit | PlacedCircuit:
    """Read the netlist of a layout.

    Args:
        netlist: Netlist file.
        gds: Layout file, whose top cell is that of a file of several netlists.
        process: Process of both.
        top: Name of the top cell that the user gives; empty for none.

    Raises:
        InputError: A file cannot be used.
    """
    from optinc_pdk.circuit import read_reference
    from optinc_pdk.pdk import cell_drawing

    def layout_top() -> str:
        from optinc_pdk.extract.layout_reader import top_cell_name

        return top_cell_name(gds)

    return read_reference(netlist, process, circuit_name(gds), top, layout_top, cell_drawing(process))
