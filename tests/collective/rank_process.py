"""One rank of the tests' job: `python rank_process.py RANK WORLD STORE FD SECONDS`; runs what the pipe asks for."""

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

import torch
import torch.distributed as dist


@cache
def load(path: str) -> ModuleType:
    """A test's module, loaded by its file: pytest does not import tests by name either."""
    spec = importlib.util.spec_from_file_location(f"ranks_{Path(path).stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    rank, world, store, descriptor, seconds = sys.argv[1:]
    pipe = Connection(int(descriptor))
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=int(rank),
        world_size=int(world),
        timeout=timedelta(seconds=float(seconds)),
    )
    while True:
        try:
            path, name, arguments = pipe.recv()
        except EOFError:  # the tests are over
            break
        try:
            function: Callable[..., object] = getattr(load(path), name)
            answer = function(*arguments)
            pipe.send((True, answer, ""))
        except Exception as fault:
            pipe.send((False, fault, traceback.format_exc()))


if __name__ == "__main__":
    main()
    os._exit(0)  # the others may be gone: an orderly end would wait for them
