"""Archives of arrays whose sizes are checked before they are unpacked."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.io.npz_files import MAX_MEMBERS, read_npz
from optinc_pdk.io.reading import WEIGHTS


def test_arrays_are_read_as_by_numpy(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    arrays = {
        "matrix": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": np.zeros((0, 4), dtype=np.complex64),
        "number": np.array(7),
        "text": np.array("é"),
    }
    for save in (np.savez, np.savez_compressed):
        save(path, allow_pickle=False, **arrays)
        found = read_npz(path, WEIGHTS)
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
        assert list(read_npz(path, WEIGHTS, only={"number", "missing"})) == ["number"]


def test_an_archive_that_unpacks_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path, kind = tmp_path / "bomb.npz", replace(WEIGHTS, max_bytes=2**20)
    np.savez_compressed(path, a=np.zeros(2**16), b=np.zeros(2**16))
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match=r"bomb\.npz: unpacks to 1,048,\d\d\d bytes, the limit .* is 1,048,576; give"):
        read_npz(path, kind)
    # only what is read counts
    assert read_npz(path, kind, only={"a"})["a"].shape == (2**16,)


def test_overlapping_members_count_with_their_declared_sizes(tmp_path: Path) -> None:
    """All entries of the directory may refer to one member, which is unpacked for each of them."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(100):
            archive.writestr(f"{number:03d}.npy", bytes(2**16))
            archive.infolist()[-1].header_offset = 0
    path = tmp_path / "bomb.npz"
    path.write_bytes(content.getvalue())
    with pytest.raises(InputError, match=r"unpacks to 6,553,600 bytes"):
        read_npz(path, replace(WEIGHTS, max_bytes=2**20))


def test_an_archive_of_too_many_members_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(MAX_MEMBERS + 1):
            archive.writestr(f"{number}.npy", b"")
    with pytest.raises(InputError, match=r"has 10,001 members, the limit is 10,000; give"):
        read_npz(path, WEIGHTS)


@pytest.mark.parametrize("kind", ["'<a16'", "[('x', '<f8')]"])
def test_old_names_of_types_and_records_are_refused(tmp_path: Path, kind: str) -> None:
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': (1,)}}".ljust(117) + "\n"
    path = tmp_path / "types.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "a.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(16)
        )
    with pytest.raises(InputError, match=r"types\.npz: member 'a\.npy' is not a valid \.npy array \(its type is"):
        read_npz(path, WEIGHTS)
