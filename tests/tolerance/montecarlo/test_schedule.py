"""Samples on a cluster: the same as in this process, whatever becomes of the workers."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import replace
from typing import Any

import distributed
import pytest

from optinc_pdk.files import InputError
from optinc_pdk.tolerance.montecarlo import schedule
from optinc_pdk.tolerance.montecarlo.records import Job
from optinc_pdk.tolerance.montecarlo.schedule import check_scheduler, runner
from optinc_pdk.tolerance.montecarlo.study import serial

JOBS = [Job("all", "", sample) for sample in range(16)]


def test_a_worker_killed_in_the_middle_loses_nothing(work) -> None:
    expected = dict(serial(work, JOBS))
    found: dict[Job, Any] = {}
    with runner(work, "local", 2) as run:
        pids = list(distributed.Client.current().run(os.getpid).values())
        assert len(set(pids)) == 2 and os.getpid() not in pids
        for job, result in run(JOBS):
            assert job not in found
            found[job] = result
            if len(found) == 3:
                os.kill(pids[0], signal.SIGKILL)
    assert found == expected


def test_a_running_cluster_tells_what_cannot_be_calculated(work) -> None:
    impossible = replace(work, imperfections=work.imperfections.scaled("dac", 2.0**20))
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, protocol="tcp", dashboard_address=":0", silence_logs=50
        ) as cluster,
        pytest.raises(InputError, match=r"sample 4 of 'tiny'.*effective_bits is -4"),
        runner(impossible, cluster.scheduler_address) as run,
    ):
        list(run([Job("all", "", 4)]))


@pytest.mark.parametrize(
    ("scheduler", "workers", "told"),
    [
        ("locl", None, "--scheduler 'locl': give 'local' or the address"),
        ("tcp://", None, "--scheduler 'tcp://': give 'local' or the address"),
        ("tcp://nowhere", None, "give 'local' or the address"),
        ("tcp://127.0.0.1:port", None, "give 'local' or the address"),
        ("local", 0, "--workers 0: give 1 or more"),
        (None, 2, "only --scheduler local starts workers"),
        ("tcp://127.0.0.1:8786", 2, "only --scheduler local starts workers"),
    ],
)
def test_what_is_no_scheduler_is_refused(scheduler: str | None, workers: int | None, told: str) -> None:
    with pytest.raises(InputError, match=told):
        check_scheduler(scheduler, workers)


def test_a_scheduler_that_does_not_answer_is_refused(work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "CONNECT_S", 0.5)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(InputError, match=f"--scheduler {address}: it cannot be reached"), runner(work, address):
            pass


def test_a_cluster_without_workers_is_refused(work) -> None:
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty,
        pytest.raises(InputError, match="it has no workers; start some with: dask worker tcp://"),
        runner(work, empty.scheduler_address),
    ):
        pass


def test_without_dask_it_is_said_how_to_get_it(work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'optinc-pdk\[scale\]'"), runner(work, "local"):
        pass
