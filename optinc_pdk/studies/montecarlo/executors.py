"""Executors of jobs: the current process, or workers of a Dask cluster. Dask is imported only if it is requested."""

from __future__ import annotations

import importlib
import itertools
import logging
import pickle
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from optinc_pdk.errors import InputError
from optinc_pdk.studies.montecarlo.sample_records import Result, SampleJob
from optinc_pdk.studies.montecarlo.study import Runner, YieldStudy, evaluate, run_serially

LOCAL = "local"
REMOTE = re.compile(r"tcp://[^/\s]+:\d{1,5}")
JOBS_PER_WORKER = 4
"""Jobs queued for each worker, so that none is idle."""
CONNECT_S = 10.0
LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


def check_scheduler(scheduler: str | None, workers: int | None) -> None:
    """Validate the options for scheduler and workers; InputError if they are unusable."""
    if scheduler is not None and scheduler != LOCAL and not REMOTE.fullmatch(scheduler):
        raise InputError(
            f"--scheduler {scheduler!r}: give {LOCAL!r} or the address of a Dask scheduler, tcp://HOST:PORT"
        )
    if workers is not None and scheduler != LOCAL:
        raise InputError(f"--workers {workers}: only --scheduler {LOCAL} starts workers; leave it out")
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: give 1 or more")


@contextmanager
def open_executor(work: YieldStudy, scheduler: str | None = None, workers: int | None = None) -> Iterator[Runner]:
    """Open an executor of jobs: a function that evaluates jobs and yields their results in the order of completion.

    The scheduler is ``local`` for worker processes on this machine (by default one per processor), ``tcp://HOST:PORT``
    for a Dask cluster, None for the current process.

    Raises:
        InputError: The scheduler cannot be used, or Dask is not installed.
    """
    check_scheduler(scheduler, workers)
    if scheduler is None:
        yield partial(run_serially, work)
        return
    with _client(scheduler, workers) as client:
        yield partial(_distributed, client, work)


@contextmanager
def _client(scheduler: str, workers: int | None) -> Iterator[Any]:
    dask = _dask()
    if scheduler == LOCAL:
        # a second thread would wait for the global interpreter lock
        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
        with dask.LocalCluster(**options, silence_logs=logging.CRITICAL) as cluster, dask.Client(cluster) as client:
            yield client
        return
    try:
        client = dask.Client(scheduler, timeout=CONNECT_S)
    except (OSError, ValueError) as fault:
        raise InputError(f"--scheduler {scheduler}: it cannot be reached ({fault}); is it running?") from fault
    with client:
        if not client.nthreads():
            raise InputError(f"--scheduler {scheduler}: it has no workers; start some with: dask worker {scheduler}")
        yield client


def _dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as fault:
        raise InputError("--scheduler needs Dask: pip install 'optinc-pdk[scale]'") from fault


def _unpack(work: bytes) -> YieldStudy:
    unpacked: YieldStudy = pickle.loads(work)
    return unpacked


def _distributed(client: Any, work: YieldStudy, jobs: Iterable[SampleJob]) -> Iterator[tuple[SampleJob, Result]]:
    """Evaluate jobs on a cluster and yield results in the order of completion.

    Jobs of a lost worker are repeated by another one. The work is a task of its own, so the cluster can restore it if
    all workers that hold it are lost.
    """
    dask, packed = _dask(), pickle.dumps(work)
    # the study is sent once, in one task, so that Dask's warning of large graphs says nothing useful
    with importlib.import_module("dask.config").set({LARGE_GRAPH: 2 * len(packed)}):
        shared = client.submit(_unpack, packed)
    waiting = iter(jobs)
    job_of: dict[str, SampleJob] = {}

    def submit(count: int) -> list[Any]:
        futures = []
        for job in itertools.islice(waiting, count):
            future = client.submit(evaluate, shared, job, pure=False)
            job_of[future.key] = job
            futures.append(future)
        return futures

    running = dask.as_completed(submit(JOBS_PER_WORKER * max(1, len(client.nthreads()))))
    for future in running:
        job = job_of.pop(future.key)
        if future.status == "cancelled":
            raise InputError(f"sample {job.sample}: cancelled by the scheduler, or connection lost; use --resume")
        try:
            result = future.result()
        except dask.KilledWorker as fault:
            raise InputError(
                f"sample {job.sample}: its workers died, the last one at {fault.last_worker.address}; "
                "give workers more memory, or use fewer, and continue with --resume"
            ) from fault
        running.update(submit(1))
        yield job, result
