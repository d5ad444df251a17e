"""File of finished samples, with one line of JSON for each, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from optinc_pdk.errors import InputError
from optinc_pdk.io.json_files import parse_json
from optinc_pdk.io.reading import SAMPLES, read_bytes
from optinc_pdk.io.writing import errors_of, lock_descriptor, output_target, sync_folder, write_all
from optinc_pdk.studies.outcomes import SampleOutcome, WordOutcome

SCHEMA = 2
TOLERANCE = "tolerance"
"""The study whose results are factors."""
MAX_FACTOR = 1e6
"""Largest factor in a file; a search ends far below."""


class SampleJob(NamedTuple):
    """Evaluation of one sample in one study.

    Attributes:
        study: ``all``: with all imperfections; ``alone``: with one only; ``without``: with all but one; ``upto``: with
            all kinds up to one, in their order; ``tolerance``: search for the largest factor of one kind that the
            sample tolerates.
        imperfection: The one kind of imperfection that the study refers to; empty for ``all``.
        sample: Index of the sample.
    """

    study: str
    imperfection: str
    sample: int


Result = Mapping[str, Any]


OutcomeReader = Callable[[Mapping[str, Any]], SampleOutcome]
"""Reads the outcome of a sample from JSON data."""


@dataclass(frozen=True)
class _Content:
    header: Any
    done: dict[SampleJob, Result]
    whole: int
    """Number of bytes up to the end of the last complete line."""


class Records:
    """File of the finished samples of a run, open for appending.

    The first line is the header of the run, every further line a finished sample. Each line is written with one system
    call, so only the last line can be incomplete; such a line is dropped, and its sample is evaluated again.

    Args:
        path: The file.
        header: Everything that results depend on, as JSON-compatible data; equal headers give equal results.
        resume: Keep finished samples of an earlier run with the same header; otherwise start a new file.
        report: Report of an earlier run, which is deleted before its records are.
        outcome: Reads the outcome of a sample from its JSON data; raises a TypeError or ValueError if it is none.

    Raises:
        InputError: The path leads to something that is no regular file, the file holds other data or another run, or
            another process is writing it.
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        resume: bool,
        report: Path | None = None,
        outcome: OutcomeReader = WordOutcome.from_json,
    ) -> None:
        self.path = output_target(path, in_place=False)
        self._report = report
        self._outcome = outcome
        self.done: dict[SampleJob, Result] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            self._begin(_line({"schema": SCHEMA, "header": header}), resume)
        except BaseException:
            os.close(self._file)
            raise

    def _begin(self, line: bytes, resume: bool) -> None:
        if not lock_descriptor(self._file, self.path, wait=False):
            raise InputError(f"{self.path}: another run is writing this file; wait for it, or give another folder")
        content = _read(self.path, self._outcome) if resume else None
        if content is None:
            if self._report is not None:
                self._report.unlink(missing_ok=True)
                sync_folder(self._report.parent)
            os.ftruncate(self._file, 0)
            self._append(line)
            return
        _require_same_header(self.path, content.header, json.loads(line)["header"])
        self.done = content.done
        os.ftruncate(self._file, content.whole)

    def add(self, job: SampleJob, result: Result) -> None:
        """Append a finished sample to the file.

        Raises:
            OSError: The line could not be written completely.
        """
        line = _line({**job._asdict(), "result": result})
        self._append(line)
        self.done[job] = result

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        os.fsync(self._file)

    def _append(self, line: bytes) -> None:
        with errors_of(self.path):
            write_all(self._file, line)

    def __enter__(self) -> Self:
        """Return the records."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        os.close(self._file)


def _line(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _read(path: Path, outcome: OutcomeReader) -> _Content | None:
    """Return the complete lines of a file; None if it has none."""
    data = read_bytes(path, SAMPLES)
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].splitlines()
    if not lines:
        # an incomplete first line may be left by a run that was killed at its first write
        if data and not b'{"schema":'.startswith(data[:10]):
            raise InputError(f"{path}: not a file of finished samples; give another folder with -o")
        return None
    header = _parse(path, 1, lines[0])
    if header.get("schema") != SCHEMA or "header" not in header:
        raise InputError(f"{path}: line 1 is not a header of schema {SCHEMA}; give another folder with -o")
    done: dict[SampleJob, Result] = {}
    first = None
    for number, text in enumerate(lines[1:], start=2):
        row = _parse(path, number, text)
        try:
            job = SampleJob(str(row["study"]), str(row["imperfection"]), _sample_index(row["sample"]))
            if job in done:
                raise ValueError("duplicate sample")
            done[job] = dict(row["result"])
            if job.study == TOLERANCE:
                _check_factor(done[job])
                continue
            form = _form(done[job], outcome)
        except (AttributeError, KeyError, TypeError, ValueError) as fault:
            raise _damaged(path, number) from fault
        # all samples of a run have the same stages, and for instance the same number of words
        first = first or form
        if form != first:
            raise _damaged(path, number)
    return _Content(header["header"], done, whole)


def _sample_index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not an index of a sample")
    return value


def _check_factor(data: Result) -> None:
    """Check a result of the tolerance study: the largest tolerated factor; None if all that were tried are."""
    factor = data["factor"]
    if factor is not None and (type(factor) not in (int, float) or not 0.0 <= factor <= MAX_FACTOR):
        raise ValueError("the factor is out of range")


def _form(data: Result, outcome: OutcomeReader) -> dict[str, tuple[Any, ...]]:
    """Return the form of the outcomes of a sample by stage, at least one; refuses data that is no outcome."""
    if not data:
        raise ValueError("no stages")
    return {stage: outcome(one).form for stage, one in data.items()}


def _parse(path: Path, number: int, text: bytes) -> dict[str, Any]:
    try:
        data = parse_json(text)
    except ValueError as fault:
        raise _damaged(path, number) from fault
    if not isinstance(data, dict):
        raise _damaged(path, number)
    return data


def _damaged(path: Path, number: int) -> InputError:
    if number == 1:
        return InputError(
            f"{path}: line 1 is not the header of a run; give another folder with -o, or run without --resume"
        )
    return InputError(f"{path}: line {number} is not a finished sample; remove the line, or run without --resume")


def _require_same_header(path: Path, found: Any, expected: Mapping[str, Any]) -> None:
    in_file, expected_items = dict(_flattened("", found)), dict(_flattened("", expected))
    different = [key for key in {**in_file, **expected_items} if in_file.get(key) != expected_items.get(key)]
    if different:
        listed = "; ".join(
            f"{key} is {in_file.get(key)!r} there and {expected_items.get(key)!r} here" for key in different
        )
        raise InputError(
            f"{path}: its samples belong to another run: {listed}; give the options of that run, or another folder "
            "with -o"
        )


def _flattened(prefix: str, data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _flattened(f"{prefix}.{key}" if prefix else str(key), value)
    else:
        yield prefix, data
