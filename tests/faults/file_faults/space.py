"""Limits of space that the kernel enforces: on the size of a file, and on a small file system."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from file_faults import states
from file_faults.operations import run_forked
from file_faults.scenarios import Scenario, copy_start
from file_faults.sweep import Row, check_after

PAGE = 4096
"""Unit of a file system's size."""


def limit_file_sizes(scenario: Scenario, folder: Path, points: int) -> Row:
    """Run a scenario under limits on the size of a file, which the kernel enforces.

    Args:
        scenario: The scenario.
        folder: Folder to work in; it is deleted first.
        points: Number of limits, between 0 and the size of the largest file.
    """
    copy_start(scenario, folder)
    clean = run_forked(lambda: scenario.run(folder), folder)
    largest = max(len(content) for content in states.contents(folder).values())
    row = Row(scenario.name, "size limit", clean.kinds)

    def limited(size: int) -> Callable[[], None]:
        def run() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            try:
                scenario.run(folder)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

        return run

    for point in range(points):
        size = largest * point // points
        copy_start(scenario, folder)
        check_after(scenario, folder, run_forked(limited(size), folder), row, f"file sizes up to {size}")
    return row


def fill_disk(scenario: Scenario, folder: Path, points: int) -> Row | None:
    """Run a scenario in file systems of several sizes, from full at the start to large enough.

    Args:
        scenario: The scenario.
        folder: Folder to mount the file systems on; it is created.
        points: Number of sizes.

    Returns:
        The results; None if this user may not mount file systems.
    """
    folder.mkdir(exist_ok=True)
    work = folder / "work"
    if not _mount(folder, 2**20):
        return None
    subprocess.run(["umount", folder], check=True)
    # a size of 0 would be no limit
    start = max(1, _pages(scenario.start))
    copy_start(scenario, work)
    clean = run_forked(lambda: scenario.run(work), work)
    most = start + _pages(work) + 4
    row = Row(scenario.name, "full disk", clean.kinds)
    for point in range(points):
        size = (start + (most - start) * point // points) * PAGE
        _mount(folder, size)
        try:
            copy_start(scenario, work)
            ended = run_forked(lambda: scenario.run(work), work)
            subprocess.run(["mount", "-o", f"remount,size={100 * most * PAGE}", folder], check=True)
            check_after(scenario, work, ended, row, f"disk of {size // 1024} kB")
        finally:
            subprocess.run(["umount", folder], check=True)
    return row


def _mount(folder: Path, size: int) -> bool:
    line = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    return subprocess.run(line, capture_output=True, check=False).returncode == 0


def _pages(folder: Path) -> int:
    """Pages that the files of a folder need."""
    return sum(-(-len(content) // PAGE) for content in states.contents(folder).values())
