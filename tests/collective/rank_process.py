"""One rank of a test job, forked from a process that has imported torch; runs the functions requested over the pipe."""

import importlib.util
import os
import sys
import traceback
import warnings
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
    """Load a test module from its file."""
    spec = importlib.util.spec_from_file_location(f"ranks_{Path(path).stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def main(rank: int, world: int, store: Path, pipe: Connection, seconds: float) -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    engine = timedelta(seconds=seconds)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=engine)
    while True:
        try:
            path, name, arguments, last = pipe.recv()
        except EOFError:  # the tests have ended
            break
        try:
            function: Callable[..., object] = getattr(load(path), name)
            answer = function(*arguments)
            pipe.send((True, answer, ""))
        except Exception as fault:
            pipe.send((False, fault, traceback.format_exc()))
            if last:
                sys.exit(1)


if __name__ == "__main__":
    main(*job)  # noqa: F821 - set by runpy's caller
    os._exit(0)  # other ranks may have ended: an orderly exit would wait for them
