"""Samples on a cluster: results equal to those in this process, also if workers are lost."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import warnings
from dataclasses import replace
from typing import Any

import dask
import distributed
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.studies.montecarlo import executors
from optinc_pdk.studies.montecarlo.executors import check_scheduler, open_executor
from optinc_pdk.studies.montecarlo.sample_records import SampleJob
from optinc_pdk.studies.montecarlo.study import run_serially

JOBS = [SampleJob("all", "", sample) for sample in range(16)]


@pytest.mark.full
def test_results_are_complete_if_a_worker_is_killed(work) -> None:
    expected = dict(run_serially(work, JOBS))
    found: dict[SampleJob, Any] = {}
    with open_executor(work, "local", 2) as run:
        pids = list(distributed.Client.current().run(os.getpid).values())
        assert len(set(pids)) == 2 and os.getpid() not in pids
        for job, result in run(JOBS):
            assert job not in found
            found[job] = result
            if len(found) == 3:
                os.kill(pids[0], signal.SIGKILL)
    assert found == expected


def test_errors_of_samples_are_reported_by_a_cluster(work) -> None:
    impossible = replace(work, imperfections=work.imperfections.scaled("dac", 2.0**20))
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, protocol="tcp", dashboard_address=":0", silence_logs=50
        ) as cluster,
        pytest.raises(InputError, match=r"sample 4 of 'tiny'.*effective_bits is -4"),
        open_executor(impossible, cluster.scheduler_address) as run,
    ):
        list(run([SampleJob("all", "", 4)]))


@pytest.mark.parametrize(
    ("scheduler", "workers", "message"),
    [
        ("locl", None, "--scheduler 'locl'"),
        ("tcp://", None, "--scheduler 'tcp://'"),
        ("tcp://nowhere", None, "--scheduler 'tcp://nowhere'"),
        ("tcp://127.0.0.1:port", None, "--scheduler 'tcp://127.0.0.1:port'"),
        ("local", 0, "--workers 0: .*1 or more"),
        (None, 2, "--workers 2: .*--scheduler local"),
        ("tcp://127.0.0.1:8786", 2, "--workers 2: .*--scheduler local"),
    ],
)
def test_invalid_schedulers_are_refused(scheduler: str | None, workers: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_scheduler(scheduler, workers)


def test_a_scheduler_that_does_not_answer_is_refused(work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "CONNECT_S", 0.5)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(InputError, match=f"--scheduler {address}: "), open_executor(work, address):
            pass


def test_a_cluster_without_workers_is_refused(work) -> None:
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty,
        pytest.raises(InputError, match=r"--scheduler tcp://.*: dask worker tcp://"),
        open_executor(work, empty.scheduler_address),
    ):
        pass


@pytest.mark.full
def test_a_large_study_is_sent_without_warnings(work) -> None:
    threshold = {"distributed.admin.large-graph-warning-threshold": 10_000}
    with dask.config.set(threshold), open_executor(work, "local", 1) as run, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(pickle.dumps(work)) > 10_000
        assert dict(run(JOBS[:1])) == dict(run_serially(work, JOBS[:1]))


def test_without_dask_the_error_names_the_package(work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'optinc-pdk\[scale\]'"), open_executor(work, "local"):
        pass
