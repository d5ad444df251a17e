"""Reader of `.function.npz`: the function of an extracted chip, as `optinc build` and `optinc check` write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optinc_collective.schemes.chips import AveragingChip, ChipLevel, lattice_index_weights, mean_truncation
from optinc_collective.schemes.error_histogram import ErrorHistogram
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.io.npz_files import read_npz
from optinc_pdk.io.reading import FUNCTION_TABLE
from optinc_pdk.validation import validate_arguments

SCHEMA = 1
_ARRAYS = {"symbols": ("u", 4), "ideal": ("i", 1), "words": ("i", 3)}
"""Kind and number of dimensions of the arrays that are read."""


@validate_arguments
def table_chip(
    path: str | Path, assignment: Literal["random", "worst"] = "random", errors: ErrorHistogram | None = None
) -> AveragingChip:
    """Create a chip from the simulated function of its extracted layout, including all its word errors.

    Every server reads the words of its own receiver. If receivers differ, the gradients of the ranks differ too.

    A file with every combination of the servers' words reproduces the layout's function exactly. In a file with lattice
    points, every point was simulated with two assignments of symbols to servers. The words of one of the two are then
    used for all assignments with the same average.

    Args:
        path: Path of the `.function.npz`.
        assignment: Which of the two assignments is used for a table of lattice points: "random", symbols drawn at
            random, or "worst", the symbols that are worst for this chip. A table of all combinations has only one.
        errors: Distribution of additional random errors; none by default.

    Raises:
        InputError: The file is missing or damaged, or it is not such a table.
    """
    file = Path(path)
    arrays = _read(file)
    symbols, words = arrays["symbols"], arrays["words"]
    if "inputs" in arrays and int(arrays["inputs"]) != symbols.shape[1]:
        raise InputError(
            f"{file}: has rows of {symbols.shape[1]:,} of the {int(arrays['inputs']):,} inputs that were checked, not "
            "of all; if the chip passed, use its weight file, which gives the same words"
        )
    tried, inputs, servers, count = symbols.shape
    if words.shape != (tried, inputs, servers) or arrays["ideal"].shape != (inputs,) or tried not in (1, 2):
        raise InputError(
            f"{file}: arrays of shapes {symbols.shape} and {words.shape} do not match; write it again with optinc check"
        )
    task, places = _numbering(file, servers, count, inputs)
    which = tried - 1 if assignment == "worst" else 0
    read, sent = words[which], task.decode(symbols[which].astype(np.int64))
    width = task.bits // places.shape[1]
    groups = (sent[..., None] >> (width * np.arange(places.shape[1] - 1, -1, -1))) & ((1 << width) - 1)
    index = (groups * places).sum(axis=(1, 2))
    if not np.array_equal(index, np.arange(inputs)) or not np.array_equal(task.ideal(sent), arrays["ideal"]):
        raise InputError(f"{file}: its inputs are not in order; write it again with optinc check")
    if read.min() < 0 or read.max() >= 1 << task.bits:
        raise InputError(
            f"{file}: words must lie within 0 ... {(1 << task.bits) - 1}; write it again with optinc check"
        )
    outputs = task.signed(read).astype(np.int16).T
    if (outputs == outputs[0]).all():
        outputs = outputs[:1]
    level = ChipLevel(servers, inputs, np.ascontiguousarray(outputs), truncation=mean_truncation(task))
    return AveragingChip(task.bits, places, (level,), errors, file.name)


def _numbering(file: Path, servers: int, symbols: int, inputs: int) -> tuple[Averaging, NDArray[np.int32]]:
    """Averaging task of a table, and the weights of the groups of symbols in the number of an input."""
    try:
        task = Averaging(2 * symbols, servers, 1)
        if inputs == 4 ** (symbols * servers):
            word = np.int64(4) ** (symbols * np.arange(servers - 1, -1, -1, dtype=np.int64))
            return task, word.astype(np.int32)[:, None]
        for groups in range(1, symbols + 1):
            if symbols % groups == 0:
                task = Averaging(2 * symbols, servers, groups)
                if task.lattice_size == inputs:
                    return task, lattice_index_weights(task)[None]
    except ValueError as fault:
        raise InputError(f"{file}: {fault}") from fault
    raise InputError(
        f"{file}: {inputs} inputs are neither all words of {servers} servers with {symbols} symbols nor a lattice "
        "of them; write it again with optinc check"
    )


def _read(file: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays. Sizes are checked before unpacking; nothing is unpickled."""
    if file.suffix.lower() != ".npz":
        raise InputError(f"{file}: a chip's table is a .function.npz, as optinc build and optinc check write it")
    found = read_npz(file, FUNCTION_TABLE, only={"schema", "inputs", *_ARRAYS})
    missing = {"schema", *_ARRAYS} - set(found)
    if missing:
        raise InputError(f"{file}: no {', '.join(sorted(missing))}; is it a .function.npz of optinc check?")
    schema = found["schema"]
    if schema.shape != () or schema.dtype.kind not in "iu" or schema != SCHEMA:
        raise InputError(f"{file}: schema {schema}; this version reads schema {SCHEMA}")
    arrays: dict[str, NDArray[np.generic]] = {name: found[name] for name in _ARRAYS}
    if "inputs" in found:
        inputs = found["inputs"]
        if inputs.shape != () or inputs.dtype.kind != "i":
            raise InputError(f"{file}: inputs is not a number; write it again with optinc check")
        arrays["inputs"] = inputs
    for name, (kind, dimensions) in _ARRAYS.items():
        array = arrays[name]
        if array.dtype.kind != kind or array.ndim != dimensions or not array.size:
            raise InputError(
                f"{file}: {name} is {array.dtype} of shape {array.shape}; write it again with optinc check"
            )
    if arrays["symbols"].max() > 3:
        raise InputError(f"{file}: symbols must lie within 0 ... 3; write it again with optinc check")
    return arrays
