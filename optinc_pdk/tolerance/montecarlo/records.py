"""Finished samples in a file, one line each, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from optinc_pdk.files import InputError
from optinc_pdk.tolerance.montecarlo.words import Outcome

SCHEMA = 1
TOLERANCE = "tolerance"
"""The study whose results are factors."""


class Job(NamedTuple):
    """One sample to be measured.

    Attributes:
        study: ``all``: every imperfection; ``alone``: one; ``without``: all but one; ``upto``: those up to one, in the
            order of the kinds; ``tolerance``: how much of one the sample bears.
        imperfection: That one; empty for all.
        sample: Number of the sample.
    """

    study: str
    imperfection: str
    sample: int


Result = Mapping[str, Any]


@dataclass(frozen=True)
class _Content:
    header: Any
    done: dict[Job, Result]
    whole: int
    """Bytes up to the end of the last whole line."""


class Records:
    """The file of a run's finished samples, open for more.

    The first line says what was measured, every further one is a finished sample. A line is written at once, so only
    the last one can be half-written; that one is dropped and its sample measured again.

    Args:
        path: The file.
        header: What is measured, plain data; results of two runs with equal headers are equal.
        resume: Whether to keep what an earlier run with the same header finished; else the file begins anew.

    Raises:
        InputError: The file holds something else, or another run writes it.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], resume: bool) -> None:
        self.path = path
        self.done: dict[Job, Result] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            self._begin(_line({"schema": SCHEMA, "header": header}), resume)
        except BaseException:
            os.close(self._file)
            raise

    def _begin(self, line: bytes, resume: bool) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{self.path}: another run writes this file; wait, or give another folder") from None
        content = _read(self.path) if resume else None
        if content is None:
            os.ftruncate(self._file, 0)
            os.write(self._file, line)
            return
        _refuse_other(self.path, content.header, json.loads(line)["header"])
        self.done = content.done
        os.ftruncate(self._file, content.whole)

    def add(self, job: Job, result: Result) -> None:
        """Keep a finished sample."""
        line = _line({**job._asdict(), "result": result})
        if os.write(self._file, line) < len(line):
            raise OSError(28, "no space left for the whole line", str(self.path))
        self.done[job] = result

    def __enter__(self) -> Self:
        """The records."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        os.close(self._file)


def _line(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _read(path: Path) -> _Content | None:
    """The whole lines of a file; None where it has none."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].splitlines()
    if not lines:
        # a run that was killed at its first write; anything longer would be another file
        if data and not b'{"schema":'.startswith(data[:10]):
            raise InputError(f"{path}: this is no file of finished samples; give another folder with -o")
        return None
    header = _parse(path, 1, lines[0])
    if header.get("schema") != SCHEMA or "header" not in header:
        raise InputError(f"{path}: line 1 is no header of schema {SCHEMA}; give another folder with -o")
    done: dict[Job, Result] = {}
    first = None
    for number, text in enumerate(lines[1:], start=2):
        row = _parse(path, number, text)
        try:
            job = Job(str(row["study"]), str(row["imperfection"]), _whole(row["sample"]))
            if job in done:
                raise ValueError("this sample was there before")
            done[job] = _factor(row["result"]) if job.study == TOLERANCE else _read_at(row["result"])
        except (AttributeError, KeyError, TypeError, ValueError) as fault:
            raise _damaged(path, number) from fault
        if job.study != TOLERANCE:
            # all samples of a run are read at the same stages, with as many words
            tried = {stage: (one["inputs"], one["words"]) for stage, one in done[job].items()}
            first = first or tried
            if tried != first:
                raise _damaged(path, number)
    return _Content(header["header"], done, whole)


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("this is no number of a sample")
    return value


def _factor(data: Any) -> Result:
    """The factor that a sample bears; None where it bears all that was tried."""
    factor = dict(data)["factor"]
    if factor is not None and (type(factor) not in (int, float) or not 0.0 <= factor < math.inf):
        raise ValueError("the factor is out of range")
    return {"factor": factor}


def _read_at(data: Any) -> Result:
    """What a sample reads, at one stage at least."""
    result = dict(data)
    if not result:
        raise ValueError("nothing was read")
    for outcome in result.values():
        Outcome.from_json(outcome)
    return result


def _parse(path: Path, number: int, text: bytes) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as fault:
        raise _damaged(path, number) from fault
    if not isinstance(data, dict):
        raise _damaged(path, number)
    return data


def _damaged(path: Path, number: int) -> InputError:
    if number == 1:
        return InputError(f"{path}: line 1 is no header of a run; give another folder with -o, or run without --resume")
    return InputError(f"{path}: line {number} is no finished sample; remove the line, or run without --resume")


def _refuse_other(path: Path, found: Any, wanted: Mapping[str, Any]) -> None:
    there, here = dict(_flat("", found)), dict(_flat("", wanted))
    different = [key for key in {**there, **here} if there.get(key) != here.get(key)]
    if different:
        told = "; ".join(f"{key} is {there.get(key)!r} there and {here.get(key)!r} here" for key in different)
        raise InputError(f"{path}: its samples are of another run: {told}; give its options, or another folder with -o")


def _flat(prefix: str, data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), value)
    else:
        yield prefix, data
