"""The extracted chip as the servers see it, from the `.function.npz` that `optinc build` and `optinc check` write."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging
from optinc_pdk.collective.chips import Chip, Level, lattice_places, mean_truncation
from optinc_pdk.collective.errors import ErrorHistogram
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments

SCHEMA = 1
MAX_BYTES = 2**31
"""Largest unpacked array: that of 16-bit words of 4 servers, symbols at 13,845,841 lattice points twice, is 0.9 GB."""

_ARRAYS = {"symbols": ("u", 4), "ideal": ("i", 1), "words": ("i", 3)}
"""Kind and dimensions of the arrays that are read."""


@validate_arguments
def table_chip(
    path: str | Path, assignment: Literal["random", "worst"] = "random", errors: ErrorHistogram | None = None
) -> Chip:
    """The chip extracted from a layout, with every error of its own.

    Each server reads what its own receiver decided; where receivers differ, so do the gradients of the ranks.

    Where the file has every combination of words, every combination is told apart. Where it has lattice points, each
    was tried with two assignments of symbols to servers, and one of them stands for all.

    Args:
        path: The `.function.npz`.
        assignment: Of lattice points, the symbols drawn at random, or those that suffer most on this chip.
        errors: More errors; none by default.

    Raises:
        InputError: The file is missing, damaged, or is no such table.
    """
    file = Path(path)
    arrays = _read(file)
    symbols, words = arrays["symbols"], arrays["words"]
    tried, inputs, servers, count = symbols.shape
    if words.shape != (tried, inputs, servers) or arrays["ideal"].shape != (inputs,) or tried not in (1, 2):
        raise InputError(f"{file}: arrays of shapes {symbols.shape} and {words.shape} do not belong together")
    task, places = _numbering(file, servers, count, inputs)
    which = tried - 1 if assignment == "worst" else 0
    own, sent = words[which], task.decode(symbols[which].astype(np.int64))
    width = task.bits // places.shape[1]
    groups = (sent[..., None] >> (width * np.arange(places.shape[1] - 1, -1, -1))) & ((1 << width) - 1)
    index = (groups * places).sum(axis=(1, 2))
    if not np.array_equal(index, np.arange(inputs)) or not np.array_equal(task.ideal(sent), arrays["ideal"]):
        raise InputError(f"{file}: its inputs are not in their order; write it again with optinc check")
    if own.min() < 0 or own.max() >= 1 << task.bits:
        raise InputError(
            f"{file}: words must lie within 0 ... {(1 << task.bits) - 1}; write it again with optinc check"
        )
    outputs = task.signed(own).astype(np.int16).T
    if (outputs == outputs[0]).all():
        outputs = outputs[:1]
    level = Level(servers, inputs, np.ascontiguousarray(outputs), truncation=mean_truncation(task))
    return Chip(task.bits, places, (level,), errors, file.name)


def _numbering(file: Path, servers: int, symbols: int, inputs: int) -> tuple[Averaging, NDArray[np.int32]]:
    """The task of a table, and what a server's groups of symbols add to the number of an input."""
    try:
        task = Averaging(2 * symbols, servers, 1)
        if inputs == 4 ** (symbols * servers):
            word = np.int64(4) ** (symbols * np.arange(servers - 1, -1, -1, dtype=np.int64))
            return task, word.astype(np.int32)[:, None]
        for groups in range(1, symbols + 1):
            if symbols % groups == 0:
                task = Averaging(2 * symbols, servers, groups)
                if task.lattice_size == inputs:
                    return task, lattice_places(task)[None]
    except ValueError as fault:
        raise InputError(f"{file}: {fault}") from fault
    raise InputError(
        f"{file}: {inputs} inputs are neither all words of {servers} servers with {symbols} symbols nor a lattice of "
        "theirs; write it again with optinc check"
    )


def _read(file: Path) -> dict[str, NDArray[np.generic]]:
    """The arrays, after a look at their headers: nothing is unpickled, nothing vast unpacked."""
    if not file.name.endswith(".npz"):
        raise InputError(f"{file}: a chip's table is a .function.npz, as optinc build and optinc check write it")
    try:
        with file.open("rb") as stream, NpzFile(stream, allow_pickle=False) as archive:
            missing = {"schema", *_ARRAYS} - set(archive.files)
            if missing:
                raise InputError(f"{file}: no {', '.join(sorted(missing))}; is it a .function.npz of optinc check?")
            vast = [info.filename for info in zipfile.ZipFile(stream).infolist() if info.file_size > MAX_BYTES]
            if vast:
                raise InputError(f"{file}: {vast[0]} has more than {MAX_BYTES} bytes; this is not one of our files")
            schema = archive["schema"]
            if not isinstance(schema, np.ndarray) or schema.shape != () or schema != SCHEMA:
                raise InputError(f"{file}: schema {schema}; this version reads schema {SCHEMA}")
            arrays = {name: archive[name] for name in _ARRAYS}
    except OSError as fault:
        raise InputError(f"{file}: cannot be read ({fault.strerror or fault}); check the path") from fault
    except InputError:
        raise
    except MemoryError as fault:
        raise InputError(
            f"{file}: an array takes more memory than there is ({fault}); is it one of our files?"
        ) from fault
    except (ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as fault:
        raise InputError(f"{file}: not a .npz archive of arrays ({fault}); write it again with optinc check") from fault
    for name, (kind, dimensions) in _ARRAYS.items():
        array = arrays[name]
        if array.dtype.kind != kind or array.ndim != dimensions or not array.size:
            raise InputError(
                f"{file}: {name} is {array.dtype} of shape {array.shape}; write it again with optinc check"
            )
    if arrays["symbols"].max() > 3:
        raise InputError(f"{file}: symbols must lie within 0 ... 3; write it again with optinc check")
    return arrays
