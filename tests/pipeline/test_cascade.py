"""Complete cascades: both chips, their files, the words of all servers, and refusals that leave files untouched."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

import optinc_pdk
from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import read_bias
from optinc_pdk.cli.commands import app
from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import StagedFiles
from optinc_pdk.networks import AveragingNetwork, Layer, comparator_network
from optinc_pdk.networks.network import cascade_tasks
from optinc_pdk.options import CascadeOptions
from optinc_pdk.pipeline import cascade
from optinc_pdk.pipeline.building import BuildOptions
from optinc_pdk.pipeline.cascade import CASCADE_STAGES, CascadeBuild, build_cascade
from optinc_pdk.pipeline.stages import Build, Clock
from optinc_pdk.report.cascade_report import CascadeReport, cascade_text

NAME = "cascade_4bit_2servers"
STAGES: list[str] = []


@pytest.fixture(scope="module")
def chips(tmp_path_factory: pytest.TempPathFactory) -> CascadeBuild:
    STAGES.clear()
    directory = tmp_path_factory.mktemp("cascade")
    return build_cascade(
        directory, CascadeOptions(bits=4, servers=2, random_sets=2000, loss_db=0.5), on_stage=STAGES.append
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.full
def test_a_cascade_of_comparators_passes(chips: CascadeBuild) -> None:
    report = chips.report
    assert chips.passed, report.findings
    assert [one.report.verdict for one in (chips.first, chips.second)] == ["pass", "pass"]
    assert report.words is not None and report.words.exact == report.words.sets > 2000 == report.words.random
    assert report.words.receivers == 2 and report.words.errors == [] and report.words.margin > 0.3
    assert (report.bits, report.servers, report.servers_of_a_chip, report.process) == (4, 4, 2, "soi220")
    assert [level.task.remainder for level in report.levels] == [True, False]
    assert list(CASCADE_STAGES) == STAGES


def test_level_2_is_programmed_for_the_fields_of_level_1(chips: CascadeBuild) -> None:
    first, second = (read_bias(chips.directory / f"{NAME}_level{level}.bias.yml") for level in (1, 2))
    link = chips.report.link
    assert link is not None and link.fibre_loss_db == 0.5
    for symbol, amplitude in enumerate(link.amplitudes):
        expected = 10**-0.025 * 3 / first.outputs[f"out_s0_m{symbol}"]
        assert amplitude == pytest.approx(expected)
        assert second.inputs[f"in_s1_m{symbol}"] == pytest.approx(expected)
    assert link.loss_db == pytest.approx([-20 * np.log10(amplitude) for amplitude in link.amplitudes])
    assert set(first.outputs) == {"out_s0_m0", "out_s0_m1"} and len(second.outputs) == 4


def test_reports_state_their_files(chips: CascadeBuild) -> None:
    files = contents(chips.directory)
    stored = json.loads(files[f"{NAME}.cascade.json"])
    assert stored == json.loads(chips.report.to_json())
    for name, digest in stored["files"].items():
        assert hashlib.sha256(files[name]).hexdigest() == digest
    for level in stored["levels"]:
        assert hashlib.sha256(files[f"{level['name']}.report.json"]).hexdigest() == level["report"]
    assert set(stored["files"]) == {f"{NAME}.cascade.txt", f"{NAME}.cascade.png"}
    text = files[f"{NAME}.cascade.txt"].decode()
    assert text == cascade_text(chips.report)
    assert "average of 4 words of 4 bits" in text and stored["assumptions"][0] in text
    assert not [name for name in files if name.startswith(".")]


def test_a_verdict_cannot_contradict_the_words(chips: CascadeBuild) -> None:
    numbers = chips.report.model_dump()
    numbers["words"]["exact"] -= 1
    with pytest.raises(ValidationError, match=r"1 of .* sets wrong"):
        CascadeReport.model_validate(numbers)
    numbers["levels"][0]["verdict"] = "fail"
    numbers["words"], numbers["verdict"] = None, "fail"
    assert CascadeReport.model_validate(numbers).failures() == [f"{NAME}_level1: verdict fail", "words: not run"]


def test_the_verdict_names_the_accepted_budgets_of_both_chips(chips: CascadeBuild) -> None:
    assert chips.report.verdict_text == "pass"
    numbers = chips.report.model_dump()
    numbers["levels"][1]["accepted"] = ["loss 54.1 of 24.2 dB"]
    report = CascadeReport.model_validate(numbers)
    assert report.verdict_text == "pass, accepted: level 2 loss 54.1 of 24.2 dB"
    assert report.verdict_text in " ".join(cascade_text(report).split())
    assert CascadeReport.model_validate(numbers | {"verdict": "fail"}).verdict_text == "fail"


@pytest.mark.full
def test_the_command_builds_from_weights_and_fails_with_wrong_ones(chips: CascadeBuild, tmp_path: Path) -> None:
    first, second = (comparator_network(task) for task in cascade_tasks(2, 2, 1))
    first.save(tmp_path / "first.npz")
    # thresholds that are a level too high
    layer = second.layers[0]
    wrong = replace(second, layers=(Layer(layer.weight, layer.bias - layer.weight.max()), *second.layers[1:]))
    wrong.save(tmp_path / "second.npz")
    out = tmp_path / "out"
    options = ["--first", str(tmp_path / "first.npz"), "--second", str(tmp_path / "second.npz"), "--name", "wrong"]
    result = CliRunner().invoke(app, ["cascade", *options, "-o", str(out), "--words", "100", "--json"])
    assert result.exit_code == 1, result.output
    stored = json.loads((out / "wrong.cascade.json").read_text())
    assert json.loads(result.stdout) == stored
    assert stored["verdict"] == "fail" and stored["words"]["exact"] < stored["words"]["sets"]
    assert [level["verdict"] for level in stored["levels"]] == ["pass", "fail"]
    assert [level["weights"] for level in stored["levels"]] == ["first.npz", "second.npz"]


def test_unusable_input_writes_nothing_and_leaves_an_earlier_build(chips: CascadeBuild, tmp_path: Path) -> None:
    before = contents(chips.directory)
    first, second = (comparator_network(task) for task in cascade_tasks(4, 4, 2))
    plain = comparator_network(Averaging(4, 4, 2))
    one_layer = AveragingNetwork((Layer(np.full((2, 2), 0.5), np.zeros(2)),), second.task)
    cases: list[tuple[dict[str, object], str]] = [
        ({"bits": 4}, "bits or servers"),
        ({"bits": 5, "servers": 2}, "bits = 5"),
        ({"bits": 4, "servers": 1}, "servers is 1"),
        ({"bits": 8, "first": first}, "bits 8 .*for 4"),
        ({"servers": 2, "first": first}, "servers 2 .*for 4"),
        ({"first": second, "second": first}, "do not belong together.*4 bits, 4 servers.*finer_input.*remainder"),
        ({"first": plain, "second": second}, "do not belong together.*no cascade option"),
        ({"first": first, "second": comparator_network(cascade_tasks(4, 2, 2)[1])}, "do not belong.*2 servers"),
        ({"first": first, "second": one_layer}, "level 2, network: the network has one layer"),
        ({"first": tmp_path / "none.npz"}, "none.npz"),
        ({"bits": 4, "servers": 2, "name": "x" * 26}, "1 to 25 letters"),
        ({"bits": 4, "servers": 2, "process": "nowhere"}, "nowhere"),
        ({"bits": 4, "servers": 2, "random_sets": -1}, "-1"),
        ({"bits": 4, "servers": 2, "seed": -1}, "seed = -1"),
        ({"bits": 4, "servers": 2, "loss_db": -1.0}, "loss_db = -1.0: give 0 or more"),
        ({"bits": 4, "servers": 2, "loss_db": float("nan")}, "loss_db = nan"),
    ]
    for arguments, message in cases:
        for directory in (chips.directory, tmp_path / "new"):
            with pytest.raises(InputError, match=message):
                build_cascade(directory, CascadeOptions(**arguments))  # type: ignore[arg-type]
    assert contents(chips.directory) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_refusal_during_the_second_build_leaves_an_earlier_build(
    chips: CascadeBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(chips.directory)
    builds = cascade.build_staged

    def refuse_second(onn: AveragingNetwork, staged: StagedFiles, options: BuildOptions, clock: Clock) -> Build:
        if str(options.name).endswith("2"):
            raise InputError("the chip does not fit")
        return builds(onn, staged, options, clock)

    monkeypatch.setattr(cascade, "build_staged", refuse_second)
    with pytest.raises(InputError, match="does not fit"):
        build_cascade(chips.directory, CascadeOptions(bits=2, servers=2, name=NAME))
    assert contents(chips.directory) == before


def test_build_cascade_is_a_name_of_the_package() -> None:
    assert optinc_pdk.build_cascade is build_cascade


def test_every_option_of_a_cascade_is_read() -> None:
    source = inspect.getsource(cascade)
    assert [field.name for field in fields(CascadeOptions) if not re.search(rf"\.{field.name}\b", source)] == []
