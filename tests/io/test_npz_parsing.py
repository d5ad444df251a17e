"""Archives of arrays: what is read, and refusal of everything else before an array is created."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.io.npz_files import parse_npz
from optinc_pdk.io.reading import FileKind

PATH = Path("a.npz")
LIMIT = 10_000
KIND = FileKind("archive", LIMIT, "give a smaller file")


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def member(header: str, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin-1")
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + body


def head(descr: str = "'<f8'", order: str = "False", shape: str = "(1,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def test_arrays_are_read_as_saved() -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "b": np.array("text"), "c": np.zeros((0, 3)), "d": np.float32(2)}
    for save in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        save(buffer, **arrays)
        found = parse_npz(PATH, buffer.getvalue(), KIND, InputError)
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            assert found[name].dtype == np.asarray(array).dtype
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (member(head("'|O'")), "Python objects"),
        (member(head(shape="(2,)"), bytes(8)), r"declares \(2,\) of float64.* 8 bytes"),
        (member(head(shape="(9999999999,)")), "which does not fit its 0 bytes"),
        (member(head(shape="(-1,)"), bytes(8)), "which does not fit"),
        (member(head(shape="(-1, -1)"), bytes(8)), "which does not fit"),
        # NumPy takes a bool for an integer
        (member(head(shape="(True,)"), bytes(8)), "which does not fit|not a valid"),
        (member(head(shape="(1,)*40"), bytes(8)), "not a valid"),
        (member(head(shape=str((1,) * 70)), bytes(8)), "not a valid"),
        (member(head("'<U0'")), "which does not fit"),
        (member(head("[('a', '<f8')]"), bytes(8)), "its type is"),
        (member(head("'(2,)f8'"), bytes(16)), "which does not fit|not a valid"),
        (member(head("'<U1000000000'")), "not a valid"),
        (member(head("1")), "not a valid"),
        (member(head()[:-3]), "not a valid"),
        # NumPy repairs this header of Python 2, with a warning
        (member(head(shape="(1L,)"), bytes(8)), "not a valid"),
        (member(head())[:40], "cut off or too long"),
        (member("[" * 5000), "not a valid"),
        (member("{'descr': '''"), "not a valid"),
        (member(head(), bytes(8), b"\x03\x00"), "not a valid"),
        (b"no array", "not a valid"),
        (b"", "not a valid"),
    ],
)
def test_members_that_are_no_plain_arrays_are_refused(content: bytes, fault: str) -> None:
    with pytest.raises(InputError, match=f"a.npz: member 'x.npy'.*({fault})"):
        parse_npz(PATH, archive(x=content), KIND, InputError)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "not a valid .npz archive"),
        (b"\x80\x04", "is a pickle"),
        (archive(x=bytes(LIMIT), y=b"x"), "unpacks to 10,001 bytes, the limit of a archive is 10,000"),
        (archive(**{"../x": b""}), "is in a folder"),
        (archive(x=b"x" * 50)[:-30], "not a valid .npz archive"),
    ],
)
def test_archives_that_are_damaged_or_too_large_are_refused(data: bytes, fault: str) -> None:
    with pytest.raises(InputError, match=f"a.npz: .*{fault}"):
        parse_npz(PATH, data, KIND, InputError)


def test_a_name_of_10_kb_is_shortened() -> None:
    with pytest.raises(InputError) as caught:
        parse_npz(PATH, archive(x=b"", **{"y" * 10_000 + "/": b""}), KIND, InputError)
    assert "is in a folder" in str(caught.value) and len(str(caught.value)) < 200
