"""What a folder may look like, whatever happened to the command that wrote into it."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from optinc_pdk.pipeline.outputs import FILE_ENDINGS


class ViolationError(Exception):
    """A report stands beside files that are not its own, or a file is incomplete."""


def contents(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder, by its relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def hidden(folder: Path) -> list[str]:
    """Names of hidden files and folders in a folder."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def reports(folder: Path) -> dict[str, bytes]:
    """Check all reports of a folder against the files beside them.

    Returns:
        Content of every report by its name.

    Raises:
        ViolationError: A report does not hold for the files.
    """
    found = {}
    for path in sorted(folder.iterdir()):
        name, _, ending = path.name.partition(".")
        if ending in ("report.json", "cascade.json", "yield.json"):
            found[path.name] = path.read_bytes()
            report = _report(path)
            _check_digests(folder, report["files"], path)
            if ending == "report.json":
                _check_unlisted(folder, name, report["files"], path)
            if ending == "cascade.json":
                levels = {f"{level['name']}.report.json": level["report"] for level in report["levels"]}
                _check_digests(folder, levels, path)
            if ending == "yield.json":
                _check_records(folder / f"{name}.yield.jsonl", report, path)
    return found


def _report(path: Path) -> dict[str, object]:
    try:
        report = json.loads(path.read_bytes())
    except ValueError as fault:
        raise ViolationError(f"{path.name}: incomplete") from fault
    assert isinstance(report, dict)
    return report


def _check_digests(folder: Path, files: dict[str, str], report: Path) -> None:
    for name, digest in files.items():
        path = folder / name
        if not path.exists():
            raise ViolationError(f"{report.name} stands without {name}")
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise ViolationError(f"{report.name} stands beside a {name} that is not its own")


def _check_unlisted(folder: Path, name: str, files: dict[str, str], report: Path) -> None:
    """A file of an earlier build must not look like one of this build."""
    for ending in FILE_ENDINGS:
        if (folder / f"{name}{ending}").exists() and f"{name}{ending}" not in files:
            raise ViolationError(f"{report.name} stands beside {name}{ending} of another build")


def _check_records(path: Path, report: dict[str, object], report_path: Path) -> None:
    first = path.read_bytes().partition(b"\n")[0] if path.exists() else b""
    try:
        header = json.loads(first)["header"]
    except (ValueError, KeyError) as fault:
        raise ViolationError(f"{report_path.name} stands beside records without a header") from fault
    if any(report[key] != value for key, value in header.items()):
        raise ViolationError(f"{report_path.name} stands beside records of another run")


def make_earlier(whole: Path, earlier: Path) -> None:
    """Make the folder of an earlier build: every file differs from that of the whole one, and its report holds.

    Args:
        whole: Folder of a complete build.
        earlier: Folder to write.
    """
    shutil.copytree(whole, earlier)
    found = sorted(path for path in earlier.iterdir() if path.name.endswith((".report.json", ".cascade.json")))
    for path in earlier.iterdir():
        if path not in found:
            path.write_bytes(path.read_bytes() + b"\n")
    # a cascade's report, which sorts before those of its chips, states their digests
    for path in reversed(found):
        report = json.loads(path.read_bytes())
        report["files"] = {name: _digest(earlier / name) for name in report["files"]}
        report["seconds"] = {}
        for level in report.get("levels", ()):
            level["report"] = _digest(earlier / f"{level['name']}.report.json")
        path.write_text(json.dumps(report))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
