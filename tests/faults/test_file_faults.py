"""A sample of the faults of ``make faults``, and faults that the harness must find in a wrong protocol."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from file_faults.operations import FAULTS

HERE = Path(__file__).parent


def run(*line: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the harness on its path; a process that forks must not have the threads of the test's."""
    environment = os.environ | {"PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}", "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *line], capture_output=True, text=True, env=environment)


@pytest.mark.full
def test_a_sample_of_all_faults_leaves_the_earlier_build_the_new_one_or_no_report() -> None:
    done = run("-m", "file_faults", "--sample")
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"^(\d+) faults, 0 violations$", done.stdout, re.MULTILINE)
    assert found is not None and int(found[1]) > 30
    outcomes = [
        line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| build over an earlier one |")
    ]
    assert [row[1] for row in outcomes[1:]] == [*FAULTS, "size limit", "power"]
    assert ", 0 violations" in done.stdout.partition("3 processes")[2].partition("\n")[0]


BROKEN = {
    "the report is renamed first": (
        "def publish(self, reports, stale=()):\n"
        "    for name in sorted(self.names(), key=lambda name: name not in reports):\n"
        "        os.replace(self.path(name), self.target(name))\n"
        "StagedFiles.publish = publish\n",
        "stands beside",
    ),
    "the old report stays": (
        "def publish(self, reports, stale=()):\n"
        "    for name in sorted(self.names(), key=lambda name: name in reports):\n"
        "        os.replace(self.path(name), self.target(name))\n"
        "StagedFiles.publish = publish\n",
        "stands beside",
    ),
    "folders are not synchronised": ("file_sets.sync_folder = lambda folder: None\n", "power failure"),
    "hidden folders stay": ("file_sets._remove_abandoned = lambda folder: None\n", "other files than"),
}


@pytest.mark.full(every=3)
@pytest.mark.parametrize("fault", BROKEN)
def test_faults_of_the_protocol_are_found(fault: str, tmp_path: Path) -> None:
    change, message = BROKEN[fault]
    code = (
        "import os, sys; from pathlib import Path\n"
        "from optinc_pdk.io import file_sets, writing\n"
        "from optinc_pdk.io.file_sets import StagedFiles\n"
        "from file_faults.scenarios import file_set\n"
        "from file_faults.power import fail_power\n"
        "from file_faults.sweep import sweep\n"
        f"scenario = next(file_set(Path({str(tmp_path)!r})))\n"
        + change
        + f"rows = list(sweep(scenario, Path({str(tmp_path / 'work')!r}), ['kill']))\n"
        f"rows.append(fail_power(scenario, Path({str(tmp_path / 'work')!r}), 3))\n"
        "print(*(line for row in rows for line in row.violations), sep='\\n')\n"
    )
    done = run("-c", code)
    assert done.returncode == 0 and message in done.stdout, done.stdout + done.stderr
