"""Reading of matrices that are written as text: a row on each line, real or complex numbers."""

from __future__ import annotations

import io
import math
import re
import reprlib
from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError

# a percent sign behind a number is none, except before words
_COMMENT = re.compile(r"#|^\s*%|\s%(?=\s*[^\s0-9.,;+-])")
# single blanks, and digits that match in one way: the time of other patterns is quadratic in the length of a line
_BLANKS = re.compile(" +")
_SIGN = re.compile(" ?([+-]) ?")
_SIGN_BETWEEN_BLANKS = re.compile(" ([+-]) ")
_REAL = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(rf"([+-]?{_REAL})|(?:([+-]?{_REAL})(?=[+-]))?([+-]?)({_REAL})?\*?(?:im?|j)")
_PAIR = re.compile(rf"\( ?([+-]?{_REAL}) ?, ?\+?(-?{_REAL}) ?\)")


def parse_text_matrix(path: Path, data: bytes) -> NDArray[Any]:
    """Return the matrix of a text file that has been read.

    Numbers are separated by commas, semicolons, tabs or blanks, as those of the first line. ``#`` and ``%`` begin
    comments. Complex numbers are written as ``1+2j``, ``1 + 2i``, ``2im``, ``-j``, or in parentheses, as
    ``numpy.savetxt`` does, or as ``(1,2)``.

    Returns:
        (rows, columns) complex numbers.

    Raises:
        InputError: The file has no numbers, rows of unequal length, or something that is no finite number; the message
            states the file, the line, the column and the value.
    """
    utf_16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    # characters that cannot be decoded are no numbers, and may be in comments
    text = data.decode("utf-16" if utf_16 else "utf-8-sig", "replace")
    numbers, columns, separator = array("d"), 0, ""
    for line, content in enumerate(io.StringIO(text, newline=None), 1):
        row = _PAIR.sub(r"(\1+\2j)", _BLANKS.sub(" ", _COMMENT.split(content, maxsplit=1)[0].strip()))
        if not columns:
            separator = next((each for each in ";," if each in row), "")
        fields = _fields(row, separator)
        if fields and columns and len(fields) != columns:
            raise InputError(
                f"{path}: line {line} has {len(fields)} numbers, the lines before it have {columns}; make them equal"
            )
        columns = columns or len(fields)
        for column, field in enumerate(fields, 1):
            value = _number(field)
            if value is None:
                raise InputError(
                    f"{path}: line {line}, column {column} is {reprlib.repr(field)}; give a finite number with a "
                    "point, such as 0.5 or 1+2j; a line of text begins with #"
                )
            numbers.extend((value.real, value.imag))
    if not columns:
        raise InputError(f"{path}: contains no numbers; give a row of the matrix on each line")
    return np.frombuffer(numbers, dtype=np.complex128).reshape(-1, columns)


def _fields(line: str, separator: str) -> list[str]:
    """Return the numbers of a line as text; they are between blanks or tabs, if the separator is empty."""
    if line and separator:
        return [_SIGN.sub(r"\1", field).strip() for field in line.split(separator)]
    # 1 -2 is two numbers, and 1 - 2j is one
    return _SIGN_BETWEEN_BLANKS.sub(r"\1", line).split()


def _number(field: str) -> complex | None:
    """Return a finite number that is written as text; None if it is none."""
    inner = field[1:-1].strip() if field.startswith("(") and field.endswith(")") else field
    # NumPy has written 1+-2j
    found = _NUMBER.fullmatch(inner.lower().replace("+-", "-"))
    if found is None:
        return None
    real, before, sign, size = found.groups()
    value = complex(float(real or before or 0.0), 0.0 if real else float(f"{sign}{size or 1}"))
    return value if math.isfinite(value.real) and math.isfinite(value.imag) else None
