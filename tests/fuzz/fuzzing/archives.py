"""Mutations of zip archives of .npy members, and of single .npy arrays."""

from __future__ import annotations

import io
import warnings
import zipfile
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzing.octets import TOKENS, mutate_bytes, mutate_text

DTYPES = (
    "f8",
    "f4",
    "f2",
    ">f8",
    "i8",
    "i4",
    "u1",
    "b1",
    "c16",
    "U3",
    "S3",
    "O",
    "M8[s]",
    "V8",
    "f16",
    "U0",
    "S0",
    "2f8",
)
SPECIAL = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, -0.0, 0.0, 1e16, -1.0)
DESCRIPTIONS = (
    "'|O'", "'<f8'", "'>f8'", "'<f16'", "'<U4'", "'|S0'", "'<U0'", "[('a', '<f8')]", "None", "1", "'<f99'",
    "'<M8[s]'", "'|V8'", "'(2,)f8'",
    "__import__('os')", "'<U1000000000'",
)  # fmt: skip
SHAPES = (
    "()",
    "(0,)",
    "(-1,)",
    "(1,)",
    "(2, 2)",
    "(10**9,)",
    "(9999999999,)",
    "(2, -2)",
    "(0, 5)",
    "(True,)",
    "(1.5,)",
    "'a'",
    "None",
    "(1,)*40",
)


def split(data: bytes) -> dict[str, bytes]:
    """Members of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def mutate_archive(rng: Random, members: dict[str, bytes]) -> bytes:
    """Return an archive whose members are changed, exchanged, missing or of odd names."""
    items = list(members.items())
    changed: set[int] = set()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not items:
            break
        at, what = rng.randrange(len(items)), rng.randrange(10)
        name, content = items[at]
        if what == 0:
            del items[at]
        elif what == 1:
            items.insert(at, items[at])
        elif what == 2:
            items[at] = (name, items[rng.randrange(len(items))][1])
        elif what == 3:
            odd = rng.choice(
                (
                    name[:-4],
                    "../" + name,
                    "a/" + name,
                    name.replace("0", "1"),
                    name + ".npy",
                    "",
                    "é",
                    "x" * 5000,
                    "\x07",
                )
            )
            items[at] = (odd, content)
        elif id(content) not in changed:  # a header that was changed may state any size
            items[at] = (name, mutate_array(rng, content))
            changed.add(id(items[at][1]))
    return join(items, rng)


def join(items: list[tuple[str, bytes]], rng: Random) -> bytes:
    """Archive of members, in any of the compressions that zipfile writes."""
    buffer = io.BytesIO()
    kinds = (zipfile.ZIP_STORED,) * 4 + (zipfile.ZIP_DEFLATED,) * 2 + (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", rng.choice(kinds)) as archive:
        warnings.simplefilter("ignore")  # a name that is there twice
        for name, content in items:
            archive.writestr(zipfile.ZipInfo(name or "."), content, rng.choice(kinds) if rng.random() < 0.1 else None)
    return buffer.getvalue()


def mutate_array(rng: Random, content: bytes) -> bytes:
    """Change a .npy array: its values, type or shape; its header; or its bytes."""
    what = rng.randrange(6)
    if what == 0:
        return mutate_bytes(rng, content)
    if what == 1:
        return _header_changed(rng, content)
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return content
    if array.dtype.kind == "U" and array.ndim == 0:
        text = mutate_text(rng, str(array).encode()).decode("utf-8", "replace").replace("\0", " ")
        return array_bytes(np.array(rng.choice((text, rng.choice(TOKENS)))))
    return array_bytes(_array_changed(rng, array, what))


def _array_changed(rng: Random, array: NDArray[Any], what: int) -> NDArray[Any]:
    if what == 2 and array.size and array.dtype.kind in "fiu":
        changed = array.copy()
        with np.errstate(all="ignore"):
            changed.reshape(-1)[rng.randrange(changed.size)] = np.array(rng.choice(SPECIAL)).astype(changed.dtype)
        return changed
    if what == 3:
        try:
            with np.errstate(all="ignore"):
                return array.astype(rng.choice(DTYPES))
        except (TypeError, ValueError):
            return array.reshape(-1)
    if what == 4:
        shapes: list[tuple[int, ...]] = [(-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1]]
        return array.reshape(rng.choice(shapes))
    rows = array.reshape(-1) if array.ndim == 0 else array
    return rng.choice(
        (
            rows[:0],
            rows[:1],
            rows[:-1],
            np.concatenate([rows, rows]),
            rows[::-1].T,
            rows * 0 if rows.dtype.kind in "fiu" else rows,
        )
    )


def _header_changed(rng: Random, content: bytes) -> bytes:
    """Array whose header states another type, order or shape, or is no valid header."""
    size = int.from_bytes(content[8:10], "little")
    body = content[10 + size :]
    header = (
        f"{{'descr': {rng.choice(DESCRIPTIONS)}, 'fortran_order': {rng.choice(('False', 'True', '1', 'None'))}, "
        f"'shape': {rng.choice(SHAPES)}, }}"
    )
    if rng.random() < 0.2:
        header = mutate_text(rng, header.encode()).decode("utf-8", "replace")
    text = header.encode("latin-1", "replace")[:60_000]
    version = rng.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + length + text + body


def array_bytes(array: NDArray[Any]) -> bytes:
    """The array as a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()
