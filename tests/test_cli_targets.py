"""`optinc yield`, `spectrum` and `noise` of the chips of matrices and general networks: results, files and refusals."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.stats

from optinc_pdk.cli import main
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process, which saves the imports."""

    def ran(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["optinc", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return Ran(int(left.value.code or 0), *capsys.readouterr())

    return ran


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the chips of a matrix and of a network, their files and data."""
    folder, rng = tmp_path_factory.mktemp("targets"), np.random.default_rng(3)
    np.save(folder / "matrix.npy", np.asarray(scipy.stats.unitary_group(3, seed=4).rvs()))
    np.save(folder / "other.npy", np.eye(4))
    np.savez(
        folder / "network.npz",
        **{"layers.0.weight": rng.normal(size=(3, 2)), "layers.0.bias": rng.normal(size=3)},
        **{"layers.1.weight": rng.normal(size=(2, 3)), "layers.1.bias": rng.normal(size=2)},
        activation="relu",
    )
    np.savez(folder / "data.npz", x=rng.uniform(-1.0, 1.0, (40, 2)), y=np.arange(40) % 2)
    np.savez(folder / "wide.npz", x=np.ones((5, 3)))
    build(folder / "matrix.npy", folder)
    build(folder / "network.npz", folder, BuildOptions(data=folder / "data.npz"))
    return folder


@pytest.mark.full
def test_yield_of_a_matrix(built: Path, tmp_path: Path, run: Run) -> None:
    chip = ("yield", built / "matrix.gds", "--weights", built / "matrix.npy", "-o", tmp_path)
    perfect = run(*chip, "--samples", 3, "--scale", "coupler=0", "--imperfection", "coupler", "--json")
    assert perfect.returncode == 0, perfect.stderr
    numbers = json.loads(perfect.stdout)
    assert numbers["stages"]["before"]["yield"]["share"] == 1.0
    report = json.loads((built / "matrix.report.json").read_text())
    worst = numbers["stages"]["before"]["quantities"]["worst_error"]["worst"]
    assert worst == pytest.approx(report["matrix"]["worst_error"], rel=1e-3)
    sampled = run(*chip, "--samples", 2, "--imperfection", "phase", "--imperfection", "coupler")
    assert sampled.returncode == 0 and "largest error of an entry: median" in sampled.stdout
    written = {path.name for path in tmp_path.iterdir()}
    assert {f"matrix.{end}" for end in ("yield.json", "yield.csv", "waterfall.png", "tolerance.csv")} <= written
    assert "matrix.errors.png" not in written
    row = (tmp_path / "matrix.yield.csv").read_text().splitlines()[0]
    assert row == ("study,imperfection,stage,sample,passed,worst_error,insertion_loss_db,rms_error,fidelity,fault")
    again = run(*chip, "--samples", 3, "--imperfection", "phase", "--imperfection", "coupler", "--resume", "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["samples"] == 3
    other = run(*chip, "--samples", 3, "--imperfection", "phase", "--resume", "--tolerance", 0.5)
    assert other.returncode == 2 and "task.tolerance" in other.stderr


def test_yield_of_a_network(built: Path, tmp_path: Path, run: Run) -> None:
    chip = ("yield", built / "network.gds", "--weights", built / "network.npz", "--data", built / "data.npz")
    done = run(*chip, "--samples", 1, "--calibrate", "--no-contributions", "-o", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert "other cards" not in done.stderr
    stages = json.loads(done.stdout)["stages"]
    assert list(stages) == ["before", "between", "after", "drifted"]
    assert stages["after"]["yield"]["share"] == 1.0
    assert stages["after"]["quantities"]["agreement"]["limit"] == 0.999
    assert stages["after"]["quantities"]["accuracy"]["limit"] is None
    strict = run(*chip, "--samples", 1, "--accuracy", 1.0, "--no-contributions", "-o", tmp_path, "--json")
    assert json.loads(strict.stdout)["stages"]["before"]["yield"]["passed"] == 0


@pytest.mark.full
def test_yield_with_noise(built: Path, tmp_path: Path, run: Run) -> None:
    matrix = ("yield", built / "matrix.gds", "--weights", built / "matrix.npy", "-o", tmp_path, "--samples", 1)
    options = ("--noise", "--symbol-rate", 1e6, "--no-contributions")
    done = run(*matrix, *options, "--calibrate")
    assert done.returncode == 0, done.stderr
    assert "1e+06 symbols per second; quietest receiver that suits any chip" in done.stdout
    assert "signal-to-noise ratio of the worst output: median" in done.stdout
    numbers = json.loads((tmp_path / "matrix.yield.json").read_text())
    assert numbers["noise"]["symbol_rate_bd"] == 1e6 and numbers["imperfections"]["detector"] == 1.0
    network = ("yield", built / "network.gds", "--weights", built / "network.npz", "--data", built / "data.npz")
    perfect = ("--imperfection", "laser", "--imperfection", "detector", "-o", tmp_path, "--samples", 1, "--json")
    worst = []
    for extra in (("--symbol-rate", 1e6), ("--symbol-rate", 1e9), ("--symbol-rate", 1e9, "--oscillator-w", 0.02)):
        done = run(*network, *perfect, "--noise", "--no-contributions", *extra)
        assert done.returncode == 0, done.stderr
        worst.append(json.loads(done.stdout)["stages"]["before"]["quantities"]["rms_deviation"]["worst"])
    assert worst[0] < worst[1] and worst[2] != worst[1]


@pytest.mark.full
def test_drift_of_a_matrix(built: Path, tmp_path: Path, run: Run) -> None:
    chip = ("yield", built / "matrix.gds", "--weights", built / "matrix.npy", "-o", tmp_path, "--samples", 1)
    done = run(*chip, "--calibrate", "--no-contributions", "--drift", 350)
    assert done.returncode == 0, done.stderr
    assert "calibration in service: 10 times in each scenario" in done.stdout and "word" not in done.stdout
    # every scenario is explained below the table
    assert "10 K: the temperature of the whole chip rises by 10 K" in done.stdout
    assert "walk x10: the resistance of every heater walks at random, 10 times" in done.stdout
    numbers = json.loads((tmp_path / "matrix.drift.json").read_text())
    warm = next(one for one in numbers["scenarios"] if one["name"] == "10 K")
    worst = [warm[key]["quantities"]["worst_error"]["worst"] for key in ("untracked", "tracked")]
    assert worst[1] < 0.5 * worst[0] and warm["failed_calibrations"] == 0
    assert (tmp_path / "matrix.drift.png").read_bytes().startswith(b"\x89PNG")
    header, *rows = (tmp_path / "matrix.drift.csv").read_text().splitlines()
    assert header.startswith("scenario,tracked,sample,hours,passed,worst_error") and len(rows) == 3 * (11 + 21)
    refused = run(*chip, "--calibrate", "--drift", 350, "--resume")
    assert refused.returncode == 2 and "--resume has no effect with --drift" in refused.stderr


@pytest.mark.parametrize(
    ("chip", "options", "message"),
    [
        ("matrix", (), "give the matrix, .npy, .npz with one array, .mat, .csv or .txt, with --weights"),
        ("network", (), "give the weight file with --weights"),
        ("matrix", ("--weights", "other.npy"), "the matrix has shape (4, 4)"),
        ("matrix", ("--weights", "network.npz"), "no board under info.board"),
        ("network", ("--weights", "matrix.npy"), "has a board under info.board"),
        ("matrix", ("--weights", "matrix.npy", "--noise", "--oscillator-w", 0.01), "--oscillator-w"),
        ("matrix", ("--weights", "matrix.npy", "--noise", "--laser-w", 1e9), "laser power"),
        (
            "matrix",
            ("--weights", "matrix.npy", "--target", 1),
            "--target 1.0 has no effect here: it is an option of a network that averages words",
        ),
        ("matrix", ("--weights", "matrix.npy", "--drift", 1), "--drift lets calibrated chips drift"),
        ("matrix", ("--weights", "matrix.npy", "--data", "data.npz"), "data.npz has no effect"),
        ("matrix", ("--weights", "matrix.npy", "--tolerance", 2), "tolerance is 2"),
        ("network", ("--weights", "network.npz", "--read", "power"), "--read power has no effect"),
        ("network", ("--weights", "network.npz", "--data", "wide.npz"), "x has shape (5, 3), expected (samples, 2)"),
    ],
)
def test_unsuitable_options_are_refused(
    built: Path, tmp_path: Path, run: Run, chip: str, options: tuple[object, ...], message: str
) -> None:
    files = [built / each if isinstance(each, str) and each.endswith((".npy", ".npz")) else each for each in options]
    refused = run("yield", built / f"{chip}.gds", "--samples", 1, *files, "-o", tmp_path / "no")
    assert (refused.returncode, refused.stdout) == (2, "") and message in refused.stderr, refused.stderr
    assert not (tmp_path / "no").exists()


def test_spectrum_of_a_matrix(built: Path, tmp_path: Path, run: Run) -> None:
    chip = (
        "spectrum",
        built / "matrix.gds",
        "--weights",
        built / "matrix.npy",
        "--wavelengths",
        "1540,1560",
        "--channels",
        2,
    )
    done = run(*chip, "-o", tmp_path / "m.csv", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    report = json.loads((built / "matrix.report.json").read_text())["matrix"]
    for bias in ("fixed", "rebiased"):
        carrier = next(point for point in found[bias] if point["wavelength_nm"] == found["carrier_nm"])
        assert carrier["passed"] and carrier["worst_error"] == pytest.approx(report["worst_error"], rel=1e-3)
    fixed, again = (
        max(point["worst_error"] for point in found[bias] if abs(point["wavelength_nm"] - 1550.0) == 10.0)
        for bias in ("fixed", "rebiased")
    )
    assert again < 0.01 and fixed > report["worst_error"]
    rows = (tmp_path / "m.csv").read_text().splitlines()
    assert rows[0] == "bias,wavelength_nm,passed,worst_error,insertion_loss_db,rms_error,fidelity,fault"
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    strict = run(*chip, "-o", tmp_path / "s.csv", "--tolerance", 1e-5)
    assert strict.returncode == 1 and "not within the limits at its own carrier" in strict.stdout


@pytest.mark.full
def test_spectrum_of_a_network(built: Path, tmp_path: Path, run: Run) -> None:
    chip = ("spectrum", built / "network.gds", "--weights", built / "network.npz", "--data", built / "data.npz")
    options = ("--wavelengths", "1549.5,1550.5", "--channels", 1, "--resolution", 0.1, "-o", tmp_path / "n.csv")
    done = run(*chip, *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["limits"] == {"agreement": 0.999}
    window = found["fixed_window"]
    assert 1549.5 < window["low_nm"] < 1550.0 < window["high_nm"] < 1550.5
    outside = [point for point in found["fixed"] if point["wavelength_nm"] in (1549.5, 1550.5)]
    assert not any(point["passed"] for point in outside) and all(point["passed"] for point in found["rebiased"])
    assert "link of 1 channels" not in run(*chip, *options).stdout


@pytest.mark.parametrize(
    ("weights", "chip", "options", "message"),
    [
        ("other.npy", "matrix", (), "the matrix has shape (4, 4)"),
        ("matrix.npy", "network", (), "has a board under info.board"),
        ("network.npz", "network", ("--read", "real"), "--read real has no effect"),
        ("network.npz", "network", ("--data", "wide.npz"), "x has shape (5, 3)"),
        ("matrix.npy", "matrix", ("--wavelengths", "900"), "900"),
    ],
)
def test_spectrum_refuses_what_does_not_fit(
    built: Path, tmp_path: Path, run: Run, weights: str, chip: str, options: tuple[object, ...], message: str
) -> None:
    files = [built / each if isinstance(each, str) and each.endswith(".npz") else each for each in options]
    refused = run("spectrum", built / f"{chip}.gds", "--weights", built / weights, *files, "-o", tmp_path / "no.csv")
    assert (refused.returncode, refused.stdout) == (2, "") and message in refused.stderr, refused.stderr
    assert not (tmp_path / "no.csv").exists()


def test_noise_of_a_network(built: Path, tmp_path: Path, run: Run) -> None:
    chip = ("noise", built / "network.gds", "--weights", built / "network.npz", "--data", built / "data.npz")
    options = ("--symbol-rates", "1e6,1e9", "--passes", 3, "-o", tmp_path / "n.csv")
    done = run(*chip, *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["sent"] == 120 and found["limits"] == {"agreement": 0.999}
    slow, fast = found["points"]
    assert slow["agreement"] >= fast["agreement"] and slow["rms_deviation"] < fast["rms_deviation"]
    assert {"n.csv", "n.png"} == {path.name for path in tmp_path.iterdir()}
    stronger = run(*chip, *options, "--oscillator-w", 0.02)
    assert stronger.returncode == 0 and "word" not in stronger.stdout
    assert "samples on which chip and network agree" in stronger.stdout


def test_noise_of_a_matrix(built: Path, tmp_path: Path, run: Run) -> None:
    chip = ("noise", built / "matrix.gds", "--weights", built / "matrix.npy", "-o", tmp_path / "m.csv")
    done = run(*chip, "--symbol-rates", "1e6:1e9:3", "--json")
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)["points"]
    ratios = [point["signal_to_noise_db"] for point in points]
    assert ratios == sorted(ratios, reverse=True) and 30.0 < ratios[0] < 65.0 and "passed" not in points[0]
    weaker = json.loads(run(*chip, "--symbol-rates", "1e8", "--laser-w", 1e-5, "--json").stdout)["points"]
    assert weaker[0]["signal_to_noise_db"] < 40.0
    printed = run(*chip, "--symbol-rates", "1e8").stdout
    assert "dB" in printed and "word" not in printed


@pytest.mark.parametrize(
    ("chip", "options", "message"),
    [
        ("matrix", (), "with --weights"),
        ("matrix", ("--weights", "matrix.npy", "--oscillator-w", 0.01), "--oscillator-w"),
        ("matrix", ("--weights", "other.npy"), "the matrix has shape (4, 4)"),
        ("network", ("--weights", "network.npz", "--data", "wide.npz"), "x has shape (5, 3)"),
        ("network", ("--weights", "network.npz", "--laser-w", 1e9), "laser power"),
    ],
)
def test_noise_refuses_what_does_not_fit(
    built: Path, tmp_path: Path, run: Run, chip: str, options: tuple[object, ...], message: str
) -> None:
    files = [built / each if isinstance(each, str) and each.endswith((".npy", ".npz")) else each for each in options]
    refused = run("noise", built / f"{chip}.gds", *files, "-o", tmp_path / "no.csv")
    assert (refused.returncode, refused.stdout) == (2, "") and message in refused.stderr, refused.stderr
    assert not (tmp_path / "no.csv").exists()


@pytest.mark.full
def test_eyes_of_a_classifier(built: Path, tmp_path: Path, run: Run) -> None:
    chip = ("eye", built / "network.gds", "--weights", built / "network.npz", "--data", built / "data.npz")
    options = ("--symbol-rate", 1e5, "-o", tmp_path / "e.png")
    done = run(*chip, *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {eye["signal"] for eye in found["eyes"]} == {"class 0", "class 1"} and found["agreement"] > 0.95
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    looser = json.loads(run(*chip, *options, "--agreement", 0.5, "--json").stdout)
    assert looser["eyes"][0]["opening"] > found["eyes"][0]["opening"]
    capitals = ("--symbol-rate", 1e5, "-o", tmp_path / "E2.PNG")
    printed = run(*chip, *capitals, "--oscillator-w", 0.02)
    assert printed.returncode == 0 and "lead of each output over the others" in printed.stdout
    assert (tmp_path / "E2.PNG").exists()
    explained = [line.partition(": ")[0] for line in printed.stdout.splitlines()]
    assert [line for line in explained if line in ("opening", "deviation")] == ["opening", "deviation"]


@pytest.mark.parametrize(
    ("chip", "options", "message"),
    [
        ("matrix", ("--weights", "matrix.npy"), "no eye: use optinc noise"),
        ("matrix", (), "with --weights"),
        ("network", ("--weights", "network.npz"), "the data has no labels"),
        ("network", ("--weights", "network.npz", "--data", "wide.npz"), "x has shape (5, 3)"),
    ],
)
def test_chips_without_levels_have_no_eyes(
    built: Path, tmp_path: Path, run: Run, chip: str, options: tuple[object, ...], message: str
) -> None:
    files = [built / each if isinstance(each, str) and each.endswith((".npy", ".npz")) else each for each in options]
    refused = run("eye", built / f"{chip}.gds", "--symbol-rate", 1e6, *files, "-o", tmp_path / "no.png")
    assert (refused.returncode, refused.stdout) == (2, "") and message in refused.stderr, refused.stderr
    assert not (tmp_path / "no.png").exists()


def test_check_compares_the_chip_of_a_matrix(built: Path, tmp_path: Path, run: Run) -> None:
    chip = ("check", built / "matrix.gds", "--weights", built / "matrix.npy", "-o", tmp_path / "m.npz")
    done = run(*chip, "--json")
    stated = json.loads((built / "matrix.report.json").read_text())["matrix"]
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["worst_error"] == pytest.approx(stated["worst_error"], rel=1e-6)
    with np.load(tmp_path / "m.npz") as written, np.load(built / "matrix.matrix.npz") as of_build:
        assert all(np.array_equal(written[name], of_build[name]) for name in of_build)
    # below what the chip reaches
    assert run(*chip, "--tolerance", found["worst_error"] / 2).returncode == 1
    # of a chip without a report, the outputs are read as the chip allows
    for name in ("matrix.gds", "matrix.pic.yml", "matrix.bias.yml"):
        (tmp_path / name).write_bytes((built / name).read_bytes())
    assert run("check", tmp_path / "matrix.gds", "--weights", built / "matrix.npy").returncode == 0


@pytest.mark.parametrize(("chip", "option"), [("network", "--data"), ("matrix", "--tolerance")])
def test_an_option_of_the_chip_is_not_refused_for_want_of_its_weights(
    built: Path, run: Run, chip: str, option: str
) -> None:
    value = built / "data.npz" if option == "--data" else 0.1
    refused = run("check", built / f"{chip}.gds", option, value)
    assert refused.returncode == 2 and "--weights" in refused.stderr and option not in refused.stderr, refused.stderr


@pytest.mark.parametrize(
    ("chip", "weights", "values"),
    [
        ("matrix", "other.npy", ("(4, 4)",)),
        ("network", "wider.npz", ()),
    ],
)
def test_the_file_that_does_not_fit_a_chip_is_named(
    built: Path, tmp_path: Path, run: Run, chip: str, weights: str, values: tuple[str, ...]
) -> None:
    np.savez(built / "wider.npz", **{"layers.0.weight": np.ones((2, 5)), "layers.0.bias": np.zeros(2)})
    refused = run("check", built / f"{chip}.gds", "--weights", built / weights, "-o", tmp_path / "no.npz")
    last = refused.stderr.splitlines()[-1]
    assert refused.returncode == 2 and last.startswith(f"optinc: {built / weights}: "), refused.stderr
    assert all(value in last for value in values)


def test_a_report_is_not_said_to_describe_what_the_other_file_contains(built: Path, run: Run) -> None:
    refused = run("check", built / "network.gds", "--weights", built / "matrix.npy")
    assert refused.returncode == 2 and "network.report.json describes" in refused.stderr
    assert "matrix that" not in refused.stderr, refused.stderr
