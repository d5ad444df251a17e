"""Matrices as text and as files of MATLAB: equal values for every writer; damaged and other files are refused."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from optinc_pdk.errors import InputError
from optinc_pdk.io import mat_files
from optinc_pdk.io.reading import MIB, WEIGHTS
from optinc_pdk.matrices import MatrixTarget, target
from optinc_pdk.matrices.target import is_matrix_file

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(3, 5))
COMPLEX = REAL + 1j * RNG.normal(size=(3, 5))


def read(folder: Path, name: str, content: bytes | str) -> Any:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert is_matrix_file(path)
    return MatrixTarget.load(path).matrix


def refused(folder: Path, name: str, content: bytes | str, *parts: str) -> None:
    with pytest.raises(InputError) as fault:
        read(folder, name, content)
    for part in (str(folder / name), *parts):
        assert part in str(fault.value)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", ", "])
@pytest.mark.parametrize("matrix", [REAL, COMPLEX, REAL - 1j * REAL**2], ids=["real", "complex", "negative"])
def test_text_of_numpy(tmp_path: Path, matrix: Any, delimiter: str) -> None:
    buffer = io.BytesIO()
    np.savetxt(buffer, matrix, delimiter=delimiter, header="a matrix, 3 × 5", encoding="utf-8")
    assert np.array_equal(read(tmp_path, "a.csv", buffer.getvalue()), matrix)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1+2j", 1 + 2j),
        ("1+2i", 1 + 2j),
        ("1 + 2i", 1 + 2j),
        ("1e-3-4.5e-1j", 0.001 - 0.45j),
        ("-j", -1j),
        ("i", 1j),
        ("+2.5E0I", 2.5j),
        ("0.5 - 0.5*I", 0.5 - 0.5j),
        ("(1+2j)", 1 + 2j),
        ("(1+-2j)", 1 - 2j),
        ("(1,2)", 1 + 2j),
        ("( -.5e0 , -2E0 )", -0.5 - 2j),
        ("(0,+2)", 2j),
        ("1.5 - 2im", 1.5 - 2j),
        (".5", 0.5),
        ("-1.", -1.0),
        ("1E3", 1000.0),
    ],
)
@pytest.mark.parametrize("line", ["{}, 7\n", "7;{};1", "7 {} 1", "7\t{}\t1"])
def test_spellings_of_numbers(tmp_path: Path, text: str, expected: complex, line: str) -> None:
    (row,) = read(tmp_path, "a.txt", line.format(text))
    assert row[0 if line[0] == "{" else 1] == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_comments_encodings_and_ends_of_lines(tmp_path: Path, encoding: str, end: str) -> None:
    text = end.join(["# größe", "", "  1 2 -j % first", "3 4 - 1i -5", ""])
    assert np.array_equal(read(tmp_path, "a.TXT", text.encode(encoding)), [[1, 2, -1j], [3, 4 - 1j, -5]])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("no numbers",)),
        ("# 1,2\n\n", ("no numbers",)),
        ("1,2\n3\n", ("line 2 has 1 numbers", "have 2")),
        ("a,b\n1,2\n", ("line 1, column 1 is 'a'", "begins with #")),
        ("1,2\n\n3,nan\n", ("line 3, column 2 is 'nan'",)),
        ("1,2\n3,1e999\n", ("line 2, column 2 is '1e999'",)),
        ("1,2\n-inf,3\n", ("line 2, column 1 is '-inf'",)),
        ("1,,2", ("column 2 is ''",)),
        ("1,2,", ("column 3 is ''",)),
        ("1,5;2,5", ("column 1 is '1,5'", "with a point")),
        ("1;2\n3,4", ("line 2 has 1 numbers",)),
        ("1 2\n3,4", ("line 2 has 1 numbers",)),
        ("0,5\t-j\n", ("column 2 is '5\\t-j'",)),
        ("50%,20%\n", ("column 1 is '50%'",)),
        ("50 %; 20 %\n", ("column 1 is '50 %'",)),
        ("50 %\n", ("column 2 is '%'",)),
        ("5(1,2)\n", ("column 1 is '5(1+2j)'",)),
        ("1,2 3", ("column 2 is '2 3'",)),
        ("(1 2)", ("column 1 is '(1'",)),
        ("1_0,2", ("column 1 is '1_0'",)),
        ("1+2,2", ("column 1 is '1+2'",)),
        ('"1",2', ("column 1 is '\"1\"'",)),
        ("\u0661,2", ("column 1",)),
        ("9" * 5000 + ",2", ("line 1, column 1",)),
        ("x" * 5000 + ",2", ("line 1, column 1", "...")),
        ("0 0\n0 0", ("all zero",)),
        (bytes(range(256)), ("line 1, column 1",)),
    ],
)
def test_text_that_is_no_matrix_is_refused(tmp_path: Path, text: bytes | str, parts: tuple[str, ...]) -> None:
    refused(tmp_path, "a.csv", text, *parts)


@pytest.mark.parametrize("run", ["1", " ", "(1", "-", "1 ", "1-", "(", "\t", "%"])
def test_the_time_of_a_long_line_is_linear(tmp_path: Path, run: str) -> None:
    # with quadratic time it takes minutes
    refused(tmp_path, "a.csv", f"0,0{run * 300_000}x\n", "line 1")


def test_large_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "TEXT_MATRIX", replace(target.TEXT_MATRIX, max_bytes=1000))
    refused(tmp_path, "a.csv", "1,2\n" * 300, "1,200 bytes", "1,000", "numpy.save")


def mat(compressed: bool = False, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, arrays, do_compression=compressed)
    return buffer.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "matrix",
    [
        REAL,
        COMPLEX,
        REAL.T,
        COMPLEX.astype(np.complex64),
        (10 * REAL).astype(np.int8),
        (10 * REAL).astype(np.uint16),
        REAL > 0,
        scipy.sparse.csc_matrix(np.round(COMPLEX)),
        scipy.sparse.csc_matrix(REAL > 0),
        np.array([[1.0, 2.0]]),
    ],
)
def test_files_of_matlab(tmp_path: Path, matrix: Any, compressed: bool) -> None:
    expected = matrix.toarray() if scipy.sparse.issparse(matrix) else matrix
    assert np.array_equal(read(tmp_path, "a.mat", mat(compressed, A=matrix)), expected)


DATA = Path(scipy.io.__file__).parent / "matlab" / "tests" / "data"


@pytest.mark.skipif(not DATA.is_dir(), reason="SciPy is installed without its tests")
def test_files_that_matlab_wrote() -> None:
    read_files = 0
    for path in sorted(DATA.glob("*.mat")):
        try:
            variables = [each for each in mat_files.mat_variables(path, path.read_bytes(), WEIGHTS) if each.name]
            expected = scipy.io.loadmat(str(path))
        except (InputError, ValueError, TypeError):
            # of another version, or damaged on purpose
            continue
        for each in variables:
            if each.kind in ("numbers", "sparse"):
                found = expected[each.name]
                dense = found.toarray() if scipy.sparse.issparse(found) else found
                np.testing.assert_array_equal(each.array(str(path), WEIGHTS), dense)
                read_files += 1
    assert read_files > 20


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"A": REAL, "B": REAL}, ("2 variables", "A (3 × 5 numbers), B (3 × 5 numbers)")),
        ({}, ("0 variables (none)",)),
        ({"s": {"a": REAL}}, ("1 variables (s (1 × 1 struct))", "-v7")),
        ({"c": np.array([1, "a"], dtype=object)}, ("c (1 × 2 cell array)",)),
        ({"t": "text"}, ("t (1 × 4 text)",)),
        ({"q": np.ones((2, 2, 2))}, ("q (2 × 2 × 2 numbers)",)),
        ({"A": np.array([[1.0, np.nan]])}, (": A: ", "[0, 1]")),
        ({"A": np.zeros((0, 3))}, (": A: ", "(0, 3)")),
    ],
)
def test_files_without_exactly_one_matrix_are_refused(
    tmp_path: Path, arrays: dict[str, Any], parts: tuple[str, ...]
) -> None:
    refused(tmp_path, "a.mat", mat(**arrays), *parts)


def element(number: int, content: bytes, size: int | None = None) -> bytes:
    padding = b"" if number == 15 else bytes(-len(content) % 8)
    return struct.pack("<II", number, len(content) if size is None else size) + content + padding


def matrix(*parts: bytes, kind: int = 6, shape: tuple[int, ...] = (2, 2), name: bytes = b"A") -> bytes:
    head = (
        element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack(f"<{len(shape)}i", *shape)) + element(1, name)
    )
    return element(14, head + b"".join(parts))


HEADER = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM"
ONES = element(9, np.ones(4).tobytes())


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ("version 5",)),
        (b"\x00" * 200, ("version 5",)),
        (HEADER[:124] + b"\x00\x02IM" + b"\x00" * 400, ("7.3", "save('x.mat', 'A', '-v7')")),
        (HEADER + b"\x00" * 4, ("a tag is cut off",)),
        (HEADER + matrix(ONES)[:-8], ("an element of", "cut off")),
        (HEADER + element(9, b""), ("type 9 in place of a variable",)),
        (HEADER + element(14, b""), ("without flags, shape and name",)),
        (HEADER + matrix(ONES, shape=(-2, -2)), ("has the shape (-2, -2)",)),
        (HEADER + matrix(ONES, shape=(3, 3)), ("damaged", "[4]", "9")),
        (HEADER + matrix(), ("damaged",)),
        (HEADER + matrix(ONES, shape=(2**31 - 1, 2**31 - 1)), ("entries of 16 bytes",)),
        (HEADER + matrix(element(99, np.ones(4).tobytes())), ("values of type 99",)),
        (HEADER + matrix(element(9, b"1234567")), ("damaged",)),
        (HEADER + element(15, b"not compressed"), ("damaged",)),
        (HEADER + element(15, zlib.compress(matrix(ONES))[:-6]), ("cut off",)),
        (HEADER + element(15, zlib.compress(b"")), ("in place of a variable",)),
        (HEADER + matrix(ONES) * 1001, ("more than 1,000 variables",)),
        (HEADER + matrix(kind=17), ("1 variables", "object")),
    ],
)
def test_damaged_files_of_matlab_are_refused(tmp_path: Path, content: bytes, parts: tuple[str, ...]) -> None:
    refused(tmp_path, "a.mat", content, *parts)


@pytest.mark.parametrize(
    ("rows", "starts", "count"),
    [
        ([0, 1], [0, 1], 2),
        ([0, 1], [0, 2, 1], 2),
        ([0, 1], [1, 1, 2], 2),
        ([0, 5], [0, 1, 2], 2),
        ([0, -1], [0, 1, 2], 2),
        ([0, 1], [0, 1, 2**31 - 1], 2),
        ([0, 1], [0, 1, 2], 1),
        ([], [], 0),
    ],
)
def test_damaged_sparse_matrices_are_refused(tmp_path: Path, rows: list[int], starts: list[int], count: int) -> None:
    parts = [element(5, np.array(part, "<i4").tobytes()) for part in (rows, starts)]
    content = matrix(*parts, element(9, np.ones(count).tobytes()), kind=5)
    refused(tmp_path, "a.mat", HEADER + content, ": A: is damaged")


def test_unpacking_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "WEIGHTS", replace(WEIGHTS, max_bytes=MIB))
    packed = element(15, zlib.compress(bytes(64 * MIB), 9))
    tracemalloc.start()
    refused(tmp_path, "a.mat", HEADER + packed, "unpacks to more", "1,048,576")
    assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    tracemalloc.stop()
    # all variables together
    half = element(15, zlib.compress(matrix(element(9, bytes(600_000)), shape=(75_000, 1))))
    refused(tmp_path, "a.mat", HEADER + 2 * half, "unpacks to more")


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xls").write_bytes(b"")
    assert not is_matrix_file(tmp_path / "a.xls")
    with pytest.raises(InputError, match=r"a\.xls: .*'\.xls'.*\.npy, .*\.mat, \.csv or \.txt"):
        MatrixTarget.load(tmp_path / "a.xls")
