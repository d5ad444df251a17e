"""Files that become visible together: the files of a build, or of any command that writes several.

They are completed in a hidden folder beside their targets. Then, under the lock of the target folder, the report of an
earlier set is deleted, the files are renamed, and the new report comes last. So a report never stands beside files of
another set, whatever interrupts the process: before the old report is deleted, the earlier set is whole; after the new
one is there, the new set is; in between there is no report. Folders are synchronised with the disk between these steps,
so that a power failure does not change their order.

A hidden folder that a killed process left behind is deleted when the next set is written into the same folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from optinc_pdk.errors import InputError
from optinc_pdk.io.writing import (
    errors_of,
    lock_descriptor,
    locked_file,
    output_target,
    sync_folder,
    write_atomic,
)

STAGING_PREFIX = ".optinc-"
"""Start of the names of hidden folders."""
LOCK = ".optinc.lock"
"""Name of the lock file of a folder, which exists while files are published."""


class StagedFiles:
    """Files of one set, written into a hidden folder and then published together.

    Use it as a context manager. Nothing is created before the first file; without :meth:`publish`, nothing remains.

    Args:
        directory: Folder of the files; it is created if it is missing.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._folder: Path | None = None
        self._created: list[Path] = []
        self._lock = -1

    def path(self, name: str) -> Path:
        """Return the path under which a file of the set is written before it is published.

        Args:
            name: Name of the file, or its path relative to the directory.
        """
        return (self._folder or self._create()) / name

    def names(self) -> list[str]:
        """Return the names of the files that have been written, sorted."""
        if self._folder is None:
            return []
        files = (path for path in self._folder.rglob("*") if path.is_file())
        return sorted({str(path.relative_to(self._folder)) for path in files} - {LOCK})

    def target(self, name: str) -> Path:
        """Return the path that a file of the set has after it is published."""
        return self.directory / name

    def publish(self, reports: Sequence[str], stale: Sequence[str] = ()) -> None:
        """Replace the files of an earlier set by those of this one.

        Args:
            reports: Names of the files that vouch for others; each comes after those that it vouches for. A report of
                an earlier set that this set does not have is deleted.
            stale: Names of files of an earlier set that are deleted unless this set has them.

        Raises:
            InputError: A target is no regular file; nothing is changed.
            OSError: A file cannot be renamed; ``filename`` is its path.
        """
        targets = output_targets(self.directory, self.names())
        old_reports = output_targets(self.directory, reports)
        with _folder_lock(self.directory):
            ready = {name: self._beside(name, target) for name, target in targets.items()}
            try:
                for name in reversed(reports):
                    old_reports[name].unlink(missing_ok=True)
                    _sync([old_reports[name].parent])
                for name in stale:
                    if name not in targets:
                        self.target(name).unlink(missing_ok=True)
                for name in targets:
                    if name not in reports:
                        os.replace(ready[name], targets[name])
                _sync([self.directory, *(path.parent for path in targets.values())])
                for name in reports:
                    if name in targets:
                        os.replace(ready[name], targets[name])
                        _sync([targets[name].parent])
            except BaseException:
                for path in ready.values():
                    path.unlink(missing_ok=True)
                raise
        self._created = []

    def _beside(self, name: str, target: Path) -> Path:
        """Path of the complete file, which can be renamed to its target; a link can lead to another file system."""
        staged = self.path(name)
        if target == Path(os.path.realpath(self.directory), name):
            target.parent.mkdir(parents=True, exist_ok=True)
            return staged
        copy = target.with_name(f".{target.name}.staged")
        write_atomic(copy, staged.read_bytes())
        return copy

    def _create(self) -> Path:
        """Create the hidden folder, with a file that is locked as long as this process uses the folder."""
        self._created = [folder for folder in (self.directory, *self.directory.parents) if not folder.exists()]
        with errors_of(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            with _folder_lock(self.directory):
                _remove_abandoned(self.directory)
                self._folder = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=self.directory))
                path = self._folder / LOCK
                self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                lock_descriptor(self._lock, path)
        return self._folder

    def __enter__(self) -> Self:
        """Return the set."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete the hidden folder, and folders that were created for a set that was not published."""
        hidden = self._folder
        if hidden is not None:
            shutil.rmtree(hidden, ignore_errors=True)
            if self._lock >= 0:
                os.close(self._lock)
            self._folder, self._lock = None, -1
        for folder in self._created:
            with suppress(OSError):
                folder.rmdir()
        if hidden is not None and isinstance(fault, OSError) and fault.errno is not None:
            path = Path(str(fault.filename))
            if path.is_relative_to(hidden):
                named = self.directory / path.relative_to(hidden)
                raise OSError(fault.errno, fault.strerror, str(named)) from fault


def write_files(files: Mapping[Path, bytes], stale: Sequence[Path] = ()) -> None:
    """Write files of one folder together; the last one vouches for the others.

    Args:
        files: Path and content of each file.
        stale: Files of an earlier set that are deleted unless this set has them.

    Raises:
        InputError: A target is no regular file.
        OSError: A file cannot be written; ``filename`` is its path.
    """
    *_, report = files
    with StagedFiles(report.parent) as staged:
        for path, data in files.items():
            write_atomic(staged.path(str(path.relative_to(report.parent))), data)
        staged.publish([report.name], [path.name for path in stale])


def output_targets(directory: Path, names: Sequence[str]) -> dict[str, Path]:
    """Follow the symbolic links of files that are replaced together.

    Args:
        directory: Folder of the files.
        names: Names of the files.

    Returns:
        Path of each file without symbolic links, by name.

    Raises:
        InputError: A path leads to something that is no regular file, or two of them lead to the same file.
    """
    targets = {name: output_target(directory / name, in_place=False) for name in names}
    seen: dict[Path, str] = {}
    for name, target in targets.items():
        if seen.setdefault(target, name) != name:
            raise InputError(f"{directory / name}: leads to the same file as {seen[target]}; remove one of the links")
    return targets


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Keep other processes from publishing into a folder."""
    with locked_file(folder / LOCK):
        yield


def _remove_abandoned(directory: Path) -> None:
    """Delete hidden folders whose process has ended; the caller has the lock of the folder."""
    for entry in list(os.scandir(directory)):
        if not entry.name.startswith(STAGING_PREFIX) or not entry.is_dir(follow_symlinks=False):
            continue
        path = Path(entry.path, LOCK)
        # a folder of another user stays; one whose process ends at this moment is deleted by it
        with suppress(PermissionError, FileNotFoundError):
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if lock_descriptor(lock, path, wait=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(lock)


def _sync(folders: Iterable[Path]) -> None:
    """Wait until the names of the files in folders are on the disk."""
    for folder in set(folders):
        sync_folder(folder)
