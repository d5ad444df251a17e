"""Writer of `.function.npz`."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from optinc_pdk.io.writing import write_atomic
from optinc_pdk.signoff.function.result import FunctionResult

SCHEMA = 1


def write_function(result: FunctionResult, path: str | Path) -> None:
    """Write inputs, words, outputs and margins of a function check as ``.function.npz``, atomically.

    ``inputs`` is the number of inputs that were tried, ``exact`` how many of them are exact, ``coverage`` which ones
    they are, and ``rows`` the numbers of those in the table. Equal results give equal bytes.
    """
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        schema=np.array(SCHEMA),
        symbols=result.symbols,
        ideal=result.ideal,
        words=result.words,
        # rounded, because the last bits of a sparse solution vary
        outputs=np.round(result.outputs, 6).astype(np.float32),
        margins=np.round(result.margins, 6).astype(np.float32),
        error_values=np.array(list(result.errors), dtype=np.int64),
        error_counts=np.array(list(result.errors.values()), dtype=np.int64),
        inputs=np.array(result.inputs),
        exact=np.array(result.exact),
        coverage=np.array(result.coverage),
        rows=result.rows,
        symbol_margins=np.round(result.symbol_margins, 6).astype(np.float32),
    )
    write_atomic(Path(path), stream.getvalue())
