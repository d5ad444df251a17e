"""A worker process: reads inputs one after the other, with limits on memory and CPU time that the kernel enforces."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from fuzzing.targets import Target, outcome, prepare
from optinc_pdk.errors import InputError

MAX_MEMORY = 2 * 2**30
"""Bytes by which the address space may grow while inputs are read."""
MAX_MESSAGE = 4000
"""Characters of a message; a name of 10 kB is not repeated as a whole."""
REPORT_S = 1.0
PACKAGE = re.compile(r".*/optinc_(?:pdk|collective)/")
TEMPORARY = ("InputError",)


@dataclass(frozen=True)
class Finding:
    """An input whose outcome is neither acceptance nor an ``InputError``.

    Attributes:
        target: Name of the target.
        number: Number of the input.
        kind: Kind and place of the fault; findings of one kind count as one.
        detail: Traceback, or what the kernel reported.
        data: The input.
    """

    target: str
    number: int
    kind: str
    detail: str
    data: bytes


@dataclass
class Tally:
    """What happened to the inputs of a target.

    Attributes:
        inputs: Number of inputs that were read.
        accepted: Number of those that were accepted.
        refused: Number of those that were refused.
        findings: Number of those with another outcome.
        seconds: CPU time of all of them.
        slowest_s: CPU time of the slowest one.
        slowest: Its number.
        memory: Bytes by which the largest resident memory grew.
        messages: Messages of refusals, without digits, with how often each occurred.
    """

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    findings: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    slowest: int = -1
    memory: int = 0
    messages: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add the counts of another part of the same target's inputs."""
        for name in ("inputs", "accepted", "refused", "findings", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest = other.slowest_s, other.slowest
        self.memory = max(self.memory, other.memory)
        self.messages.update(other.messages)


def judge(target: Target, path: Path, number: int, data: bytes) -> tuple[str, Finding | None, str]:
    """Read one input.

    Returns:
        "accepted", "refused" or "finding"; the finding; and the message of a refusal.
    """
    path.write_bytes(data)
    # whatever a reader prints would be mixed with the results of a command
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        fault = outcome(target, path)
    if printed.getvalue():
        return "finding", Finding(target.name, number, "prints", printed.getvalue()[:2000], data), ""
    if fault is None:
        return "accepted", None, ""
    text = str(fault)
    if isinstance(fault, InputError):
        wrong = _message_fault(text, path)
        if wrong:
            return "finding", Finding(target.name, number, f"message {wrong} ({_place(fault)})", text[:2000], data), ""
        return "refused", None, text
    detail = "".join(traceback.format_exception(fault))[-6000:]
    return "finding", Finding(target.name, number, f"{type(fault).__name__} at {_place(fault)}", detail, data), ""


def _message_fault(text: str, path: Path) -> str:
    """What is wrong with a message of a refusal; empty if nothing is."""
    if len(text) > MAX_MESSAGE:
        return "is too long"
    if path.name not in text and path.parent.name not in text:
        return "does not name the file"
    return ""


def _place(fault: BaseException) -> str:
    """Innermost line of the package that a fault passed through."""
    frames = traceback.extract_tb(fault.__traceback__)
    ours = [frame for frame in frames if PACKAGE.match(frame.filename)]
    if not ours:
        return "?"
    return f"{PACKAGE.sub('', ours[-1].filename)}:{ours[-1].lineno} {ours[-1].name}"


def limit_memory() -> None:
    """Limit the growth of the address space of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MAX_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End this process by a signal if the block takes more CPU time; no handler can be late or swallowed."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def run(
    target: Target, seed: int, start: int, stop: int, folder: Path, at: Synchronized[int], results: Connection
) -> None:
    """Read the inputs from ``start`` to ``stop``; sends tallies and findings, and keeps the number it works at."""
    folder.mkdir(parents=True, exist_ok=True)
    prepare(folder)
    path = folder / target.file
    os.chdir(folder)
    for data in target.corpus:
        kind, finding, message = judge(target, path, -1, data)
        if kind != "accepted":
            results.send(finding or Finding(target.name, -1, "corpus", message, data))
    gc.collect()
    limit_memory()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tally, reported = Tally(), time.monotonic()
    for number in range(start, stop):
        at.value = number
        data = target.input(seed, number)
        begun = time.process_time()
        with time_limit(target.seconds):
            kind, finding, message = judge(target, path, number, data)
        spent = time.process_time() - begun
        tally.inputs += 1
        tally.seconds += spent
        if spent > tally.slowest_s:
            tally.slowest_s, tally.slowest = spent, number
        tally.accepted += kind == "accepted"
        tally.refused += kind == "refused"
        if finding is not None:
            tally.findings += 1
            results.send(finding)
        elif message and len(tally.messages) < 1000:
            tally.messages["".join(c for c in message if not c.isdigit())[:200]] += 1
        if time.monotonic() > reported + REPORT_S or number == stop - 1:
            tally.memory = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)
            results.send(tally)
            tally, reported = Tally(), time.monotonic()
    results.send(None)
