"""Reports that vouch for files beside them by SHA-256: which files they list, and whether these have changed since.

Only :func:`parse_report` needs the schema, so that commands check their output paths quickly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.errors import InputError
from optinc_pdk.io.reading import REPORT, read_bytes
from optinc_pdk.options import ACTIVATION_NAMES, Activation

if TYPE_CHECKING:
    from optinc_pdk.report.schema import Report

BUILD_ENDING = ".report.json"
PAGE_ENDING = ".report.html"
CASCADE_ENDING = ".cascade.json"
REPORT_ENDINGS = (BUILD_ENDING, CASCADE_ENDING, ".yield.json")
"""Endings of the reports of a build, of a cascade and of a yield run."""


REBUILD = "build the chip again, or move the report away"
"""Remedy for a report that cannot be used and is not needed, for messages."""
REPLACE_REPORT = f"{REBUILD} and give the weight file with --weights"
"""Remedy for a report that cannot be used and states the task."""


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def report_path(gds: Path) -> Path:
    """Return the path that the report of a build has beside its layout."""
    return gds.with_name(f"{gds.stem}{BUILD_ENDING}")


def parse_report(path: Path, remedy: str) -> Report:
    """Read the report of a build.

    Args:
        path: The report.
        remedy: What to do if it cannot be used, for the message.

    Raises:
        InputError: The file is not the report of a build.
    """
    from pydantic import ValidationError

    from optinc_pdk.io.json_files import parse_json
    from optinc_pdk.report.schema import Report

    text = read_bytes(path, REPORT)
    try:
        parse_json(text)  # refuses duplicate keys, of which pydantic takes the last one
    except ValueError as fault:
        raise InputError(f"{path}: {fault}; {remedy}") from None
    try:
        return Report.model_validate_json(text)
    except ValidationError as fault:
        raise InputError(
            f"{path}: not the report of a build ({fault.error_count()} faults, the first: {fault.errors()[0]['msg']}); "
            f"{remedy}"
        ) from None


def claiming_report(path: Path) -> Path | None:
    """Find the report beside a file, which may be missing, that lists it or that is the file itself."""
    for stem in _stems(path):
        for ending in REPORT_ENDINGS:
            report = path.with_name(stem + ending)
            files = _entries(report).get("files")
            if isinstance(files, dict) and (path.name in files or path == report):
                return report
    return None


def changed_files(paths: Iterable[Path]) -> list[tuple[Path, Path]]:
    """Compare files with the reports of builds beside them.

    Files that are missing, or that no report lists, are skipped. The result is each file that differs from the one that
    the build wrote, with the build's report.
    """
    changed = []
    for path in paths:
        for stem in _stems(path):
            report = path.with_name(stem + BUILD_ENDING)
            files = _entries(report).get("files")
            stated = files.get(path.name) if isinstance(files, dict) else None
            if stated is not None and path.is_file() and stated != file_digest(path):
                changed.append((path, report))
    return changed


def report_page(gds: Path) -> Path | None:
    """Find the report page of a layout's build; None if there is none beside it, or one of both files has changed."""
    page = gds.with_name(f"{gds.stem}{PAGE_ENDING}")
    files = _entries(report_path(gds)).get("files")
    if not isinstance(files, dict) or not all(each.is_file() and each.name in files for each in (gds, page)):
        return None
    return page if all(files[each.name] == file_digest(each) for each in (gds, page)) else None


def stated_network(gds: Path) -> tuple[Path, str] | None:
    """Find the report of a layout's build, and the digest of its network, :attr:`optinc_pdk.networks.Network.digest`.

    None if no report beside the layout lists it and states one.
    """
    report, entries = _listing(gds)
    network = entries.get("onn") or entries.get("network")
    digest = network.get("sha256") if isinstance(network, dict) else None
    return (report, digest) if isinstance(digest, str) else None


def stated_activation(gds: Path) -> Activation | None:
    """Return the activation of the network of a layout's build; None if no report beside the layout states one."""
    _, entries = _listing(gds)
    network = entries.get("onn") or entries.get("network")
    stated = network.get("activation") if isinstance(network, dict) else None
    return next((activation for activation in ACTIVATION_NAMES if activation == stated), None)


def stated_matrix(gds: Path) -> tuple[Path, str, str] | None:
    """Find the report of a layout's build, how its outputs are read, and the digest of matrix and reading.

    The reading is one of :data:`optinc_pdk.matrices.READINGS`. None if no report beside the layout lists it and states
    them.
    """
    report, entries = _listing(gds)
    task = entries.get("task")
    if not isinstance(task, dict) or task.get("kind") != "matrix":
        return None
    reading, digest = task.get("read"), task.get("sha256")
    return (report, reading, digest) if isinstance(reading, str) and isinstance(digest, str) else None


def stated_cards(gds: Path) -> tuple[Path, str, dict[str, str]] | None:
    """Find the report of a layout's build, the name of its process, and the digests of the process cards.

    See :func:`optinc_pdk.cards.card_digests`. None if no report beside the layout lists it and states them.
    """
    report, entries = _listing(gds)
    process = entries.get("process")
    name, cards = (process.get("name"), process.get("cards")) if isinstance(process, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(cards, dict):
        return None
    return report, name, {str(part): str(digest) for part, digest in cards.items()}


def cascades_of(directory: Path, chip: str) -> list[Path]:
    """Find the reports of cascades in a folder that a chip of this name is part of."""
    return [
        report
        for report in sorted(directory.glob(f"*{CASCADE_ENDING}"))
        if any(isinstance(level, dict) and level.get("name") == chip for level in _entries(report).get("levels", ()))
    ]


def _stems(path: Path) -> Iterator[str]:
    """What stands before each dot of a file name."""
    parts = path.name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def _listing(gds: Path) -> tuple[Path, dict[str, Any]]:
    """Path and content of the report of a layout's build; no content if the report does not list the layout."""
    report = report_path(gds)
    entries = _entries(report)
    files = entries.get("files")
    return report, entries if isinstance(files, dict) and gds.name in files else {}


def _entries(report: Path) -> dict[str, Any]:
    """Content of a report; empty if it is missing or no report, so that it vouches for nothing."""
    try:
        content = json.loads(read_bytes(report, REPORT))
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
