"""Files of torch.save, read by the script of the reader in this process: a process for each would take a second."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np

from fuzzing.octets import mutate_bytes


def files(layers: Sequence[Any]) -> list[bytes]:
    """Two layers as PyTorch saves them, in its old and its new format, and as Lightning does."""
    import torch

    state: dict[str, Any] = {}
    for i, layer in enumerate(layers):
        state[f"net.{3 * i}.weight"] = torch.tensor(layer.weight, dtype=(torch.float64, torch.bfloat16)[i])
        state[f"net.{3 * i}.bias"] = torch.tensor(layer.bias, dtype=torch.float32)
    state |= {f"net.1.{part}": torch.ones(layers[0].outputs) for part in ("running_mean", "running_var")}
    state["net.1.num_batches_tracked"] = torch.tensor(3)
    found = []
    for what, zipped in ((state, True), (state, False), ({"state_dict": state, "epoch": 1, "lr": [1e-3]}, True)):
        buffer = io.BytesIO()
        torch.save(what, buffer, _use_new_zipfile_serialization=zipped)
        found.append(buffer.getvalue())
    return found


def mutate(rng: Random, corpus: Sequence[bytes]) -> bytes:
    """Bytes of a member of the archive, which has the right checksum afterwards, or of the file."""
    data = rng.choice(corpus)
    if not data.startswith(b"PK") or rng.random() < 0.1:
        return mutate_bytes(rng, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    # the pickle has most of the format
    chosen = rng.choice(list(members)) if rng.random() < 0.2 else next(name for name in members if "data.pkl" in name)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), mutate_bytes(rng, content) if name == chosen else content)
    return buffer.getvalue()


def read(path: Path) -> object:
    """Read a file; whatever the script raises is a finding."""
    from optinc_pdk.networks import _torch_files, _torch_reader
    from optinc_pdk.networks.network import load_network

    def run(command: list[str], input: bytes, **_: Any) -> Any:
        printed = io.TextIOWrapper(io.BytesIO(), write_through=True)
        code = 0
        with redirect_stdout(printed), mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(input))):
            try:
                _torch_reader.main(int(command[-2]), command[-1])
            except SystemExit as end:
                code = int(end.code or 0)
        return subprocess.CompletedProcess(command, code, printed.buffer.getvalue(), b"")

    # the limit on memory would be that of all targets
    with (
        mock.patch.object(_torch_files.subprocess, "run", run),
        mock.patch.object(_torch_reader, "_limit_memory"),
        np.errstate(all="ignore"),
    ):
        return load_network(path, activation="relu").mzis
