"""`optinc yield` from the command line: exit codes, messages, interruption, and no files after invalid options."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import KINDS
from optinc_pdk.cli import main
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights, carry_chain
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.studies.drift import scenarios
from optinc_pdk.studies.montecarlo import study

CODE = "import sys; from optinc_pdk.cli import main; sys.argv[0] = 'optinc'; main()"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", CODE, "yield", *map(str, arguments)]


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process, which saves the imports."""

    def ran(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["optinc", "yield", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return Ran(int(left.value.code or 0), *capsys.readouterr())

    return ran


@pytest.fixture(scope="module")
def chip(tiny_chip: Path) -> Path:
    """Layout of a small chip in the folder of its build."""
    return tiny_chip


@pytest.mark.full
def test_a_run_prints_numbers_and_does_not_import_dask(chip: Path, tmp_path: Path) -> None:
    code = CODE.replace("main()", "\ntry:\n main()\nfinally:\n print('distributed' in sys.modules, file=sys.stderr)")
    options = ("--samples", 3, "--imperfection", "coupler", "--imperfection", "dac", "--dac-bits", 12, "--noise")
    line = [sys.executable, "-c", code, "yield", str(chip), *map(str, options), "-o", str(tmp_path), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "False\n")
    numbers = json.loads(done.stdout)
    assert numbers == json.loads((tmp_path / "tiny.yield.json").read_text())
    assert numbers["imperfections"] == {"coupler": 1.0, "dac": 16.0} and numbers["samples"] == 3
    assert numbers["noise"]["laser_w"] == 0.01 and numbers["task"]["servers"] == 4
    # neither laser nor detector are among the kinds, so words are read without noise
    assert numbers["stages"]["before"]["estimated_word_error_rate"] is None


def test_the_summary_states_estimates_beside_the_counts(chip: Path, tmp_path: Path, run: Run) -> None:
    options = ("--samples", 1, "--imperfection", "coupler", "--no-contributions", "-o", tmp_path)
    done = run(chip, *options, "--imperfection", "detector", "--noise", "--symbol-rate", 3e7)
    assert done.returncode == 0, done.stderr
    assert "3e+07 symbols per second; receiver chosen on the nominal chip" in done.stdout
    assert "estimated word-error rate (not counted): median of the samples" in done.stdout
    estimate = json.loads((tmp_path / "tiny.yield.json").read_text())["stages"]["before"]["estimated_word_error_rate"]
    header, row = (tmp_path / "tiny.yield.csv").read_text().splitlines()
    column = header.split(",").index("estimated_word_error_rate")
    assert 0.0 <= float(row.split(",")[column]) == estimate["median"] == estimate["worst"] <= 1.0
    assert "estimated" not in run(chip, *options).stdout
    assert run(chip, *options, "--noise", "--symbol-rate", 1e12).returncode == 2


@pytest.mark.full
def test_stronger_local_oscillators_lower_the_estimate(chip: Path, tmp_path: Path, run: Run) -> None:
    kinds = ("--imperfection", "coupler", "--imperfection", "laser", "--imperfection", "detector")
    options = ("--samples", 1, *kinds, "--scale", "coupler=0.1", "--no-contributions", "--noise", "--symbol-rate", 1e9)
    found = {}
    for power in (None, 0.01, 0.1):
        folder = tmp_path / str(power)
        given = () if power is None else ("--oscillator-w", power)
        done = run(chip, *options, *given, "-o", folder)
        assert done.returncode == 0, done.stderr
        found[power] = json.loads((folder / "tiny.yield.json").read_text())
    estimates = {power: one["stages"]["before"]["estimated_word_error_rate"]["worst"] for power, one in found.items()}
    assert estimates[None] == estimates[0.01] and found[None]["oscillator_power"] == 1.0
    assert 0.0 <= estimates[0.1] < estimates[0.01] and found[0.1]["oscillator_power"] == pytest.approx(10.0)


@pytest.mark.full
def test_an_interrupted_run_keeps_finished_samples_and_resumes(chip: Path, tmp_path: Path, run: Run) -> None:
    options = (chip, "--samples", 12, "--imperfection", "coupler", "--scale", "coupler=0.1")
    records = tmp_path / "broken" / "tiny.yield.jsonl"
    # a process started from a background shell inherits an ignored SIGINT
    restore_signal = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    line = [restore_signal + part if part == CODE else part for part in command(*options, "-o", records.parent)]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (records.exists() and records.read_bytes().count(b"\n") > 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stderr = process.communicate()[1]
    assert process.returncode == 130 and "--resume" in stderr, stderr
    assert list(records.parent.iterdir()) == [records]
    done = run(*options, "-o", records.parent, "--resume")
    assert done.returncode == 0 and "12 samples of tiny" in done.stdout, done.stderr
    written = {Path(line) for line in done.stdout.splitlines() if line.startswith(str(records.parent))}
    assert written == set(records.parent.iterdir())
    assert run(*options, "-o", tmp_path / "whole").returncode == 0
    for name in ("tiny.yield.json", "tiny.yield.csv", "tiny.tolerance.csv"):
        assert (records.parent / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    done = run(*options, "-o", records.parent, "--resume", "--seed", 1)
    assert done.returncode == 2 and "seed is 0" in done.stderr


def test_samples_are_calibrated_to_the_weights(
    chip: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a tolerance search would calibrate eight times
    monkeypatch.setattr(study, "TOLERANCE_SAMPLES_CALIBRATED", 0)
    weights = tmp_path / "tiny.npz"
    carry_chain(Averaging(2, 4, 1)).save(weights)
    options = ("--samples", 1, "--imperfection", "phase", "--calibrate", "--weights", weights, "--json")
    done = run(chip, *options, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout)
    assert list(numbers["stages"]) == ["before", "between", "after", "drifted"]
    assert numbers["stages"]["before"]["yield"]["share"] == 0.0 and numbers["stages"]["after"]["yield"]["share"] == 1.0
    assert len(numbers["calibrated_to"]) == 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--samples", 0), "--samples 0:"),
        (("--samples", -3), "--samples -3:"),
        (("--seed", -1), "--seed -1:"),
        (("--target", "nan"), "--target nan:"),
        (("--target", 1.5), "--target 1.5:"),
        (("--imperfection", "dust"), "--imperfection dust: 'dust'"),
        (("--imperfection", "dust"), ", ".join(KINDS)),
        (("--scale", "dust=2"), "--scale dust=2: 'dust'"),
        (("--scale", "coupler=nan"), "--scale coupler=nan:"),
        (("--scale", "coupler=-1"), "--scale coupler=-1:"),
        (("--scale", "coupler"), "--scale coupler:"),
        (("--scale", "coupler=1e400"), "--scale coupler=1e400:"),
        (("--scale", "loss=1001"), "--scale loss=1001:"),
        (("--scale", "loss=1001"), " 1,000"),
        (("--imperfection", "laser"), "--noise"),
        (("--imperfection", "phase", "--scale", "coupler=2"), "'coupler'"),
        (("--imperfection", "phase", "--dac-bits", 12), "'dac'"),
        (("--dac-bits", "nan"), "--dac-bits nan:"),
        (("--dac-bits", 0), "--dac-bits 0.0:"),
        (("--laser-w", 0.01), "--noise"),
        (("--oscillator-w", 0.01), "--noise"),
        (("--noise", "--oscillator-w", 1), "power 1 W in the fibres of the local oscillators"),
        (("--noise", "--oscillator-w", -1), "power -1 W in the fibres of the local oscillators"),
        (("--noise", "--laser-w", -1), "laser power -1 "),
        (("--noise", "--symbol-rate", "nan"), "symbol rate nan"),
        (("--calibrate",), "--weights"),
        (("--workers", 2), "--scheduler local"),
        (("--scheduler", "remote"), "--scheduler 'remote':"),
        (("--bias", "none.yml"), "none.yml: "),
        (("none.yml",), "none.yml: "),
        (("--weights", "none.npz"), "none.npz"),
    ],
)
def test_invalid_options_exit_2_with_one_line_and_write_nothing(
    chip: Path, tmp_path: Path, run: Run, options: tuple[object, ...], message: str
) -> None:
    out = tmp_path / "out"
    done = run(chip, *options, "-o", out)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert message in done.stderr and not out.exists()


def test_weights_of_another_chip_are_refused(chip: Path, tmp_path: Path, run: Run) -> None:
    done = run(chip, "--weights", bundled_weights(), "-o", tmp_path / "out")
    warning, fault = done.stderr.splitlines()
    assert (done.returncode, done.stdout, (tmp_path / "out").exists()) == (2, "", False)
    assert "is not what " in warning and "4 servers of 1 symbols" in fault


def test_chips_without_their_files_are_refused(chip: Path, tmp_path: Path, run: Run) -> None:
    missing = run(tmp_path / "none.gds")
    assert missing.returncode == 2 and "none.gds: " in missing.stderr
    for ending in (".gds", ".pic.yml", ".bias.yml"):
        shutil.copy(chip.with_suffix("").with_suffix(ending), tmp_path)
    done = run(tmp_path / "tiny.gds", "-o", tmp_path / "out")
    assert done.returncode == 2 and "tiny.report.json: " in done.stderr and "--weights" in done.stderr
    (tmp_path / "tiny.report.json").write_text("{}")
    done = run(tmp_path / "tiny.gds", "-o", tmp_path / "out")
    assert done.returncode == 2 and "tiny.report.json: " in done.stderr
    report = json.loads(chip.with_suffix(".report.json").read_text())
    report["task"]["servers"] = 0
    (tmp_path / "tiny.report.json").write_text(json.dumps(report))
    done = run(tmp_path / "tiny.gds", "-o", tmp_path / "out")
    assert done.returncode == 2 and "tiny.report.json: task: servers = 0" in done.stderr
    (tmp_path / "tiny.bias.yml").unlink()
    done = run(tmp_path / "tiny.gds", "-o", tmp_path / "out")
    assert done.returncode == 2 and "tiny.bias.yml: " in done.stderr and "--bias" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.full
def test_two_metals_have_yield_noise_and_spectrum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second process has the same cards as the first; its chips work with yield, noise and spectrum."""
    v = np.array([[0.6], [0.9]])
    onn = AveragingNetwork((Layer(v, -0.25 * v[:, 0]), Layer(v.T / np.sum(v**2), np.zeros(1))), Averaging(2, 2, 1))
    onn.save(tmp_path / "two.npz")
    assert build(tmp_path / "two.npz", tmp_path, BuildOptions(process="soi220_two_metal")).passed
    weights, gds, netlist, bias = (str(tmp_path / f"two{end}") for end in (".npz", ".gds", ".pic.yml", ".bias.yml"))
    common_options = ("--process", "soi220_two_metal", "--json")

    def ran(*arguments: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["optinc", *arguments, *common_options])
        with pytest.raises(SystemExit) as left:
            main()
        output = capsys.readouterr()
        assert left.value.code == 0, output.err
        return dict(json.loads(output.out))

    sampled = ran("yield", gds, "--samples", "1", "--imperfection", "crosstalk")
    assert sampled["process"]["name"] == "soi220_two_metal" and sampled["samples"] == 1
    noisy = ran("noise", gds, netlist, "--bias", bias, "--weights", weights, "--symbol-rates", "1e6,1e9")
    assert len(noisy["points"]) == 2
    swept = ran(
        "spectrum", gds, "--weights", weights, netlist, "--bias", bias, "--wavelengths", "1550", "--channels", "1"
    )
    assert swept["fixed"]


@pytest.mark.full
def test_drift_writes_words_against_time(chip: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # ten steps instead of a thousand, which is too coarse for tracking
    monkeypatch.setattr(scenarios, "KELVIN_PER_STEP", 1.0)
    weights = tmp_path / "tiny.npz"
    carry_chain(Averaging(2, 4, 1)).save(weights)
    options = ("--samples", 1, "--imperfection", "heater", "--calibrate", "--weights", weights, "--drift", 10)
    done = run(chip, *options, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "1 calibrated chip, 10 hours, drive holds voltage" in done.stdout
    assert "before the drift, all words are exact on 1 of 1" in done.stdout
    numbers = json.loads((tmp_path / "out" / "tiny.drift.json").read_text())
    assert [one["name"] for one in numbers["scenarios"]] == ["walk", "walk x10", "10 K"]
    walk = numbers["scenarios"][0]
    assert (walk["tracked"]["accuracy_mean"], walk["tracked"]["always_exact"], walk["steps"]) == (1.0, 1, 50)
    table = (tmp_path / "out" / "tiny.drift.csv").read_text().splitlines()
    assert len(table) == 1 + 2 * (26 + 26 + 11) and table[1].startswith("walk,0,0,0,") and ",10," in table[26]
    assert set(numbers["files"]) == {"tiny.drift.csv", "tiny.drift.png"}
    assert (tmp_path / "out" / "tiny.drift.png").read_bytes().startswith(b"\x89PNG")
    assert numbers["noise"] is None and walk["tracked"]["estimated_word_error_rate_worst_ever"] is None
    assert (walk["tracked"]["wrong_ever"], walk["tracked"]["words_ever"]) == (0, 26 * 4 * 4**4)


@pytest.mark.full
def test_drift_with_noise_counts_words_and_states_estimates(
    chip: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenarios, "KELVIN_PER_STEP", 5.0)
    monkeypatch.setattr(scenarios, "WALK_STEPS", 4)
    weights = tmp_path / "tiny.npz"
    carry_chain(Averaging(2, 4, 1)).save(weights)
    options = ("--samples", 1, "--calibrate", "--weights", weights, "--drift", 10, "--noise", "-o", tmp_path)
    assert run(chip, *options, "--symbol-rate", 1e12).returncode == 2
    assert not (tmp_path / "tiny.drift.json").exists()
    done = run(chip, *options, "--symbol-rate", 1e8)
    assert done.returncode == 0, done.stderr
    assert "1e+08 symbols per second" in done.stdout and "estimate at most" in done.stdout
    numbers = json.loads((tmp_path / "tiny.drift.json").read_text())
    assert numbers["noise"]["symbol_rate_bd"] == 1e8 and {"laser", "detector"} <= set(numbers["imperfections"])
    walk = numbers["scenarios"][0]["tracked"]
    assert walk["always_exact"] == 1 and 0.0 <= walk["estimated_word_error_rate_worst_ever"] < 1e-9
    header, first, *_ = (tmp_path / "tiny.drift.csv").read_text().splitlines()
    assert 0.0 <= float(first.split(",")[header.split(",").index("estimated_word_error_rate")]) < 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--drift", -1, "--calibrate"), "--drift -1:"),
        (("--drift", 0, "--calibrate"), "--drift 0:"),
        (("--drift", "nan", "--calibrate"), "--drift nan:"),
        (("--drift", 1), "--calibrate"),
        (("--drift", 1, "--calibrate", "--symbol-rate", 1e8), "--noise"),
        (("--drift", 1, "--calibrate", "--contributions"), "optinc: --contributions has no effect"),
        (("--drift", 1, "--calibrate", "--resume"), "--resume has no effect"),
        (("--drift", 1, "--calibrate", "--target", 0.9), "--target has no effect"),
    ],
)
def test_impossible_drifts_are_refused(
    chip: Path, tmp_path: Path, run: Run, options: tuple[object, ...], message: str
) -> None:
    done = run(chip, "--weights", tmp_path / "none.npz", *options, "-o", tmp_path / "out")
    assert done.returncode == 2 and message in done.stderr
    assert not (tmp_path / "out").exists()
