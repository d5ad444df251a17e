"""Weight files: networks are restored exactly, invalid files raise errors that name the file and the fault."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging
from optinc_pdk.io.reading import WEIGHTS
from optinc_pdk.networks import AveragingNetwork, GeneralNetwork, Layer, WeightsError, carry_chain, weight_files

TASK = {"bits": 4, "servers": 4, "groups": 2, "remainder": False, "finer_input": False}


def contents(**changes: Any) -> dict[str, Any]:
    """Arrays of a valid 2-3-2 file, with changes; None removes a key."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "layers.0.weight": rng.normal(size=(3, 2)),
        "layers.0.bias": rng.normal(size=3),
        "layers.1.weight": rng.normal(size=(2, 3)),
        "layers.1.bias": rng.normal(size=2),
        "activation": "relu",
        "task": json.dumps(TASK),
    }
    arrays |= changes
    return {key: value for key, value in arrays.items() if value is not None}


def valid_file() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **contents())
    return buffer.getvalue()


VALID = valid_file()


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return buffer.getvalue()


def archive(path: Path, members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


def refused(path: Path, *parts: str) -> str:
    """Loads an invalid file and checks that the message names it and contains all parts."""
    with pytest.raises(WeightsError) as caught:
        AveragingNetwork.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    for part in parts:
        assert part in message
    assert "\n" not in message
    return message


def test_save_and_load_give_the_same_network_and_the_same_bytes(tmp_path: Path) -> None:
    chain = carry_chain(Averaging(4, 4, 2))
    onn = AveragingNetwork(
        chain.layers, chain.task, ("rows", ("approx", 3), ("approx", 2)), {"recipe": "test", "margin": 0.5}
    )
    onn.save(tmp_path / "a.npz")
    again = AveragingNetwork.load(tmp_path / "a.npz")
    assert (again.task, again.factor, again.card) == (onn.task, onn.factor, onn.card)
    for layer, expected in zip(again.layers, onn.layers, strict=True):
        np.testing.assert_array_equal(layer.weight, expected.weight)
        np.testing.assert_array_equal(layer.bias, expected.bias)
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.npz", "b.npz"]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as plain:
        np.testing.assert_array_equal(plain["layers.1.weight"], onn.layers[1].weight)
        assert json.loads(str(plain["task"])) == TASK


@pytest.mark.parametrize(
    "missing", [("groups",), ("remainder",), ("finer_input",), ("groups", "remainder", "finer_input")]
)
def test_keys_of_a_task_have_defaults(tmp_path: Path, missing: tuple[str, ...]) -> None:
    stated = {key: value for key, value in TASK.items() if key not in missing}
    np.savez(tmp_path / "a.npz", **contents(task=json.dumps(stated)))
    assert AveragingNetwork.load(tmp_path / "a.npz").task == Averaging(4, 4, 2)


def test_files_of_numpy_are_read_with_any_float_order_and_compression(tmp_path: Path) -> None:
    arrays = contents()
    expected = arrays["layers.0.weight"]
    for i, weight in enumerate([np.asfortranarray(expected), expected.astype(">f8")]):
        np.savez_compressed(tmp_path / f"{i}.npz", **(arrays | {"layers.0.weight": weight}))
        np.testing.assert_array_equal(AveragingNetwork.load(tmp_path / f"{i}.npz").layers[0].weight, expected)
    np.savez(tmp_path / "half.npz", **(arrays | {"layers.0.weight": expected.astype(np.float16)}))
    assert AveragingNetwork.load(tmp_path / "half.npz").layers[0].weight.dtype == np.float64


def test_the_last_bias_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **contents(**{"layers.1.bias": None}))
    last = AveragingNetwork.load(path).layers[-1]
    np.testing.assert_array_equal(last.bias, np.zeros(2))
    np.savez(path, **contents(**{"layers.1.bias": None, "layers.1.weight": np.ones(3)}))
    refused(path, "layers.1.bias")


def test_factor_in_its_three_forms(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **contents(factor=json.dumps(["approx", {"method": "approx", "block": 1}])))
    assert AveragingNetwork.load(path).factor == (("approx", 2), ("approx", 1))
    np.savez(path, **contents(factor=json.dumps(["svd", "approx"])))
    assert AveragingNetwork.load(path).factor == ("svd", ("approx", 2))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"layers.0.weight": np.full((3, 2), np.nan)}, ("layers.0", "weight")),
        ({"layers.1.bias": np.array([0.0, np.inf])}, ("layers.1", "bias")),
        ({"layers.0.weight": np.ones((3, 2, 1))}, ("layers.0", "(3, 2, 1)")),
        ({"layers.0.weight": np.ones((3, 2), dtype=np.int64)}, ("layers.0", "int64")),
        ({"layers.0.weight": np.ones((3, 2), dtype=complex)}, ("layers.0", "complex128")),
        ({"layers.0.weight": np.ones((3, 2), dtype="M8[s]")}, ("layers.0", "datetime64")),
        ({"layers.0.weight": np.ones((4, 2)), "layers.0.bias": np.ones(4)}, ("4 outputs", "3 inputs")),
        ({"layers.0.bias": np.ones(4)}, ("bias", "4", "3")),
        ({"layers.0.weight": np.ones((3, 3))}, ("3 inputs", "groups = 2")),
        ({"layers.1.weight": np.ones((4, 3)), "layers.1.bias": np.ones(4)}, ("4 outputs", "2 symbols")),
        ({"layers.0.weight": np.ones((0, 2)), "layers.0.bias": np.ones(0)}, ("layers.0", "(0, 2)")),
        ({"layers.0.bias": None}, ("layers.0.bias",)),
        (
            {"layers.3.weight": np.ones((2, 2)), "layers.3.bias": np.ones(2)},
            ("layers.2.weight", "layers.3.bias"),
        ),
        (
            {f"layers.{i}.{part}": None for i in (0, 1) for part in ("weight", "bias")},
            ("layers.0.weight", "layers.0.bias"),
        ),
        ({"layers.00.weight": np.ones((2, 2))}, ("'layers.00.weight'",)),
        ({"weights": np.ones(2)}, ("'weights'", "layers.<i>.weight")),
        ({"task": None}, ("averaging task", "--bits", "general network")),
        ({"task": np.ones(3)}, ("task", "float64", "(3,)")),
        ({"task": np.array([json.dumps(TASK)])}, ("task", "(1,)")),
        ({"task": "{"}, ("task", "JSON")),
        ({"task": "[" * 100_000}, ("task", "JSON")),
        ({"task": "[1]"}, ("task", "[1]", "finer_input")),
        ({"task": json.dumps(TASK | {"speed": 1})}, ("task", "'speed'", "finer_input")),
        ({"task": "{}"}, ("task has no bits", "bits and servers")),
        ({"task": json.dumps({"bits": 4, "groups": 2})}, ("task has no servers", "bits and servers")),
        ({"task": json.dumps({"bits": "4", "servers": 4})}, ("bits = '4'",)),
        ({"task": json.dumps({"bits": None, "servers": 4})}, ("bits = None",)),
        ({"task": json.dumps({"bits": 0, "servers": 4})}, ("bits = 0",)),
        ({"task": json.dumps(TASK)[:-1] + ', "bits": 8}'}, ("task", "duplicate key", "bits")),
        ({"task": json.dumps(TASK | {"bits": 5})}, ("bits = 5",)),
        ({"task": json.dumps(TASK | {"bits": 10**30})}, ("bits = 1000",)),
        ({"task": json.dumps(TASK | {"servers": "4"})}, ("servers = '4'",)),
        ({"task": json.dumps(TASK | {"servers": float("nan")})}, ("task", "NaN")),
        ({"factor": json.dumps(["svd"])}, ("factor", "2 layers")),
        ({"factor": json.dumps(["svd", "qr"])}, ("factor.1", "'qr'", "svd")),
        ({"factor": json.dumps(["svd", {"method": "approx"}])}, ("factor.1", "approx", "block")),
        ({"factor": json.dumps(["svd", {"method": "approx", "block": True}])}, ("factor.1", "approx", "block")),
        ({"factor": json.dumps(["svd", {"method": "approx", "block": 3}])}, ("block = 3", "1 ... 2")),
        ({"card": "[]"}, ("card", "list")),
    ],
)
def test_files_that_violate_the_format_are_refused(
    tmp_path: Path, changes: dict[str, Any], parts: tuple[str, ...]
) -> None:
    path = tmp_path / "weights.npz"
    np.savez(path, **contents(**changes))
    refused(path, *parts)


def test_missing_and_other_files_are_refused(tmp_path: Path) -> None:
    refused(tmp_path / "absent.npz", "No such file or directory")
    (tmp_path / "folder.npz").mkdir()
    refused(tmp_path / "folder.npz", "Is a directory")
    text = tmp_path / "text.npz"
    text.write_text("0.1 0.2\n")
    refused(text, ".npz")
    text.write_bytes(b"")
    refused(text, ".npz")
    other = tmp_path / "weights.h5"
    other.write_bytes(b"")
    refused(other, "'.h5'", ".npz", ".safetensors", ".onnx", ".pt")


def test_a_file_of_numpy_states_the_activation_and_one_of_this_project_may_not(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    np.savez(path, **contents(activation=None))
    message = refused(path, "does not state the activation", "optinc task weights.npz --activation relu", "tanh")
    assert "GeneralNetwork.load('weights.npz', activation=\"relu\")" in message
    assert AveragingNetwork.load(path, activation="clipped_relu").activation == "clipped_relu"
    np.savez(path, **contents(activation=None, factor=json.dumps(["svd", "svd"]), card="{}"))
    assert AveragingNetwork.load(path).activation == "relu"
    with pytest.raises(WeightsError, match="activation = relu, but clipped_relu"):
        AveragingNetwork.load(path, activation="clipped_relu")
    # one layer has no activation after it
    np.savez(path, **{"layers.0.weight": np.ones((2, 2)), "layers.0.bias": np.ones(2), "task": json.dumps(TASK)})
    assert len(AveragingNetwork.load(path).layers) == 1


class Trap:
    """Creates a folder if it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


def test_pickles_are_refused_and_never_run(tmp_path: Path) -> None:
    mark, path = tmp_path / "mark", tmp_path / "weights.npz"
    path.write_bytes(pickle.dumps(Trap(mark)))
    refused(path, "pickle", "numpy.savez")
    trap = np.empty((3, 2), dtype=object)
    trap[:] = Trap(mark)
    for key in ("layers.0.weight", "task"):
        np.savez(path, **contents(**{key: trap}))
        refused(path, f"'{key}.npy'", "pickle")
    assert not mark.exists()


def test_malicious_archives_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.npz"
    members = [(f"{key}.npy", npy(np.asarray(value))) for key, value in contents().items()]
    for name in ("../evil.npy", "/evil.npy", "a/b.npy", "..\\evil.npy", ".npy"):
        refused(archive(path, [*members, (name, b"")]), repr(name), "folder")
    refused(archive(path, [*members, ("evil.txt", b"")]), "'evil.txt'", ".npy")
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive(path, [*members, members[0]])
    refused(path, "'layers.0.weight.npy'", "twice")
    bomb = [*members, ("layers.2.weight.npy", bytes(300 * 2**20))]
    refused(archive(path, bomb, zipfile.ZIP_DEFLATED), "268,435,456")
    assert path.stat().st_size < 2**20
    monkeypatch.setattr(weight_files, "WEIGHTS", replace(WEIGHTS, max_bytes=1000))
    refused(archive(path, members), " 1,000; give a file of weights only")


def test_archives_with_inconsistent_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    members = {f"{key}.npy": npy(np.asarray(value)) for key, value in contents().items()}
    # A member that unpacks to more than its directory entry states is truncated and fails its checksum.
    data = archive(path, [("layers.0.weight.npy", bytes(10**6))], zipfile.ZIP_DEFLATED).read_bytes()
    path.write_bytes(data.replace(struct.pack("<L", 10**6), struct.pack("<L", 200)))
    refused(path, ".npz")
    # One flipped bit in the weights.
    data = bytearray(archive(path, list(members.items())).read_bytes())
    data[200] ^= 1
    path.write_bytes(bytes(data))
    refused(path)
    # An encrypted member.
    data = bytearray(archive(path, list(members.items())).read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    refused(path, ".npz")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_archives_load_or_are_refused_but_never_fail_otherwise(
    changes: list[tuple[int, int]],
) -> None:
    data = bytearray(VALID)
    for place, value in changes:
        data[place % len(data)] = value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        path.write_bytes(bytes(data))
        try:
            onn = AveragingNetwork.load(path)
        except WeightsError as fault:
            assert str(fault).startswith(str(path))
        else:
            assert onn.structure == (2, 3, 2)


def test_arguments_must_not_contradict_the_task(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    np.savez(path, **contents())
    assert AveragingNetwork.load(path, bits=4, servers=4, groups=2).task == Averaging(4, 4, 2)
    with pytest.raises(WeightsError, match=r"servers = 4.*8 .*leave servers out"):
        AveragingNetwork.load(path, servers=8)
    with pytest.raises(WeightsError, match=r"w\.onnx: .*give servers, groups, .*optinc task w\.onnx"):
        AveragingNetwork.load(tmp_path / "w.onnx", bits=4)


def test_save_refuses_other_endings_and_cards_that_are_not_json(tmp_path: Path) -> None:
    onn = carry_chain(Averaging(4, 4, 2))
    with pytest.raises(WeightsError, match=r"weights\.onnx.*\.npz"):
        onn.save(tmp_path / "weights.onnx")
    for value in (float("nan"), {1, 2}):
        with pytest.raises(WeightsError, match=r"weights\.npz.*card.*JSON"):
            AveragingNetwork(onn.layers, onn.task, card={"value": value}).save(tmp_path / "weights.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.npz"
    onn = carry_chain(Averaging(4, 4, 2))
    onn.save(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        AveragingNetwork((Layer(np.ones((2, 2)), np.ones(2)),), onn.task).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_exported_programs_are_refused_with_the_line_that_converts_them(tmp_path: Path) -> None:
    path = tmp_path / "it's.pt2"
    path.write_bytes(b"PK")
    with pytest.raises(WeightsError) as fault:
        GeneralNetwork.load(path)
    assert str(fault.value).startswith(str(path))
    assert """from_torch(torch.export.load("it's.pt2")).save("it's.npz")""" in str(fault.value)
