"""Weight files at the command line: those without a task, the report beside the layout, levels of cascades."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from safetensors.numpy import save_file

import optinc_pdk as op
from optinc_pdk.averaging import Averaging
from optinc_pdk.cli import main
from optinc_pdk.errors import InputError
from optinc_pdk.networks import (
    AveragingNetwork,
    GeneralNetwork,
    Layer,
    carry_chain,
    comparator_network,
    without_output_bias,
)
from optinc_pdk.networks.network import cascade_tasks
from optinc_pdk.options import CascadeOptions
from optinc_pdk.pipeline.cascade import plan_cascade

TASK = Averaging(2, 4, 1)
STATED = ("--bits", 2, "--servers", 4, "--groups", 1)


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["optinc", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return Ran(int(left.value.code or 0), *capsys.readouterr())

    return ran


def save_onnx(onn: AveragingNetwork, path: Path) -> Path:
    nodes, arrays, signal = [], [], "x"
    for i, layer in enumerate(onn.layers):
        last = i == len(onn.layers) - 1
        arrays += [numpy_helper.from_array(a, f"{n}{i}") for n, a in (("w", layer.weight), ("b", layer.bias))]
        nodes.append(helper.make_node("Gemm", [signal, f"w{i}", f"b{i}"], ["y" if last else f"h{i}"], transB=1))
        signal = f"r{i}"
        if not last and onn.activation == "relu":
            nodes.append(helper.make_node("Relu", [f"h{i}"], [signal]))
        elif not last:
            nodes.append(helper.make_node("Clip", [f"h{i}", "low", "high"], [signal]))
    if onn.activation != "relu":
        arrays += [numpy_helper.from_array(np.array(value), name) for name, value in (("low", 0.0), ("high", 1.0))]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, [None, width])
        for name, width in (("x", onn.structure[0]), ("y", onn.structure[-1]))
    ]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], arrays)), path)
    return path


def save_safetensors(onn: AveragingNetwork, path: Path, activation: str | None = None) -> Path:
    arrays = {f"{2 * i}.weight": layer.weight for i, layer in enumerate(onn.layers)}
    arrays |= {f"{2 * i}.bias": layer.bias for i, layer in enumerate(onn.layers)}
    save_file(arrays, path, metadata=None if activation is None else {"activation": activation})
    return path


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network of the small chip."""
    path = tmp_path_factory.mktemp("weights") / "tiny.npz"
    carry_chain(TASK).save(path)
    return path


@pytest.fixture(scope="module")
def bare(tiny_chip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layout of the small chip, with netlist and bias, without the report of its build."""
    folder = tmp_path_factory.mktemp("bare")
    for ending in (".gds", ".pic.yml", ".bias.yml"):
        shutil.copy(tiny_chip.with_suffix(ending), folder)
    return folder / tiny_chip.name


def line(command: str, weights: Path, gds: Path, out: Path) -> tuple[object, ...]:
    files = (gds, gds.with_suffix(".pic.yml"), "--bias", gds.with_suffix(".bias.yml"))
    return {
        "check": ("check", *files, "--weights", weights, "-o", out / "a.npz"),
        "noise": ("noise", *files, "--weights", weights, "--symbol-rates", "1e6", "-o", out / "a.csv"),
        "spectrum": (
            "spectrum",
            *files,
            "--weights",
            weights,
            "--wavelengths",
            1550,
            "--resolution",
            100,
            "-o",
            out / "a.csv",
        ),
        "yield": ("yield", gds, "--weights", weights, "--samples", 1, "--no-contributions", "-o", out),
    }[command]


@pytest.mark.full(every=4)
@pytest.mark.parametrize("command", ["check", "noise", "spectrum", "yield"])
def test_a_file_of_pytorch_needs_a_task_that_one_command_states(
    command: str, network: Path, tiny_chip: Path, bare: Path, tmp_path: Path, run: Run
) -> None:
    onnx_file, stated = save_onnx(carry_chain(TASK), tmp_path / "net.onnx"), tmp_path / "net.npz"
    missing = run(*line(command, onnx_file, bare, tmp_path))
    assert missing.code == 2 and "optinc task" in missing.err
    advised = run(*line(command, onnx_file, tiny_chip, tmp_path))
    assert advised.code == 2 and "--bits 2 --servers 4 --groups 1 -o net_2bit_4servers.npz" in advised.err
    assert run("task", onnx_file, *STATED, "-o", stated).code == 0
    assert run(*line(command, stated, bare, tmp_path)).code == 0


def test_a_task_is_stated_once(network: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out.npz"
    bare = save_safetensors(carry_chain(TASK), tmp_path / "net.safetensors")
    advised = "optinc task net.safetensors --bits 2 --servers 4 --groups 1 --activation relu -o net_relu.npz"
    assert advised in run("task", bare, *STATED, "-o", out).err
    assert run("task", bare, *STATED, "--activation", "relu", "-o", out).out.startswith(f"{out}: ")
    assert AveragingNetwork.load(out).digest == AveragingNetwork.load(network).digest
    for given, message in (
        ((network, "--servers", 2, "--bits", 2), "states the task 2 bits, 4 servers, 1 groups"),
        ((network, "--servers", 4, "--bits", 2, "--remainder"), "not 2 bits, 4 servers, 1 groups, remainder"),
        ((network, "--activation", "clipped_relu"), "activation = relu, but clipped_relu"),
        ((bare, "--bits", 2), "give both"),
        ((bare, "--remainder"), "--remainder: a task needs --bits and --servers"),
        ((bare, *STATED, "-o", tmp_path / "net.onnx"), "weights are written as .npz"),
        ((network, "-o", network), "this command reads the file"),
    ):
        refused = run("task", "-o", tmp_path / "never.npz", *given)
        assert refused.code == 2 and message in refused.err, refused.err
    assert not (tmp_path / "never.npz").exists()
    assert run("task", bare, "--activation", "clipped_relu", "-o", out).code == 0
    assert GeneralNetwork.load(out).activation == "clipped_relu"


def test_weights_without_a_task_of_another_shape_are_no_weights_of_the_chip(
    tiny_chip: Path, tmp_path: Path, run: Run
) -> None:
    other = save_safetensors(carry_chain(Averaging(4, 4, 2)), tmp_path / "other.safetensors", "relu")
    done = run("check", tiny_chip, "--weights", other, "-o", tmp_path / "a.npz")
    assert (
        done.code == 2 and "units, not" in done.err and "optinc task" not in done.err and "is not the" not in done.err
    )


@pytest.mark.parametrize("command", ["check", "drc", "lvs", "verify", "noise", "spectrum", "yield", "simulate"])
def test_an_empty_path_of_a_layout_is_refused(command: str, run: Run) -> None:
    done = run(command, "")
    assert done.code == 2 and "empty path" in done.err and "Traceback" not in done.err


def test_the_report_of_another_chip_does_not_say_what_a_chip_is_for(bare: Path, tmp_path: Path, run: Run) -> None:
    assert "there is no such file; give the layout" in run("check", tmp_path / "none.gds").err
    assert op.build(np.eye(2)[::-1], tmp_path / "matrix", op.BuildOptions(name="m")).passed
    copy = Path(shutil.copytree(bare.parent, tmp_path / "copy")) / bare.name
    shutil.copy(tmp_path / "matrix" / "m.report.json", copy.with_suffix(".report.json"))
    done = run("check", copy, "-o", tmp_path / "a.npz")
    assert done.code == 2 and "is not the report of" in done.err


def test_an_unusable_report_is_refused(network: Path, bare: Path, tmp_path: Path, run: Run) -> None:
    copy = Path(shutil.copytree(bare.parent, tmp_path / "copy")) / bare.name
    copy.with_suffix(".report.json").write_text("{}")
    damaged = run("check", copy, "-o", tmp_path / "a.npz")
    assert damaged.code == 2 and "not the report of a build" in damaged.err


@pytest.mark.full(every=2)
@pytest.mark.parametrize("command", ["check", "noise"])
def test_weights_that_are_not_those_of_the_build_are_warned_of(
    command: str, network: Path, tiny_chip: Path, bare: Path, tmp_path: Path, run: Run
) -> None:
    onn = carry_chain(TASK)
    assert "is not the network" not in run(*line(command, network, tiny_chip, tmp_path)).err
    first = replace(onn.layers[0], weight=onn.layers[0].weight * (1 + 1e-9))
    replace(onn, layers=(first, *onn.layers[1:])).save(tmp_path / "other.npz")
    warned = run(*line(command, tmp_path / "other.npz", tiny_chip, tmp_path))
    assert (warned.code, "other.npz: is not what " in warned.err) == (0, True)
    # without a report nothing is known
    assert "is not the network" not in run(*line(command, tmp_path / "other.npz", bare, tmp_path)).err


TASK_ONLY = {
    "noise": ("--symbol-rates", "1e6", "--json"),
    "eye": ("--symbol-rate", 1e6, "--json"),
    "yield": ("--samples", 1, "--no-contributions", "--json"),
}
"""Commands that need to know the task of a chip, and not its weights, with options that make them short."""
OUTPUTS = {"noise": "a.csv", "eye": "a.png", "yield": ""}


@pytest.mark.full(every=3)
@pytest.mark.parametrize("command", TASK_ONLY)
def test_the_files_beside_a_layout_say_what_the_chip_computes(
    command: str, tiny_chip: Path, bare: Path, network: Path, tmp_path: Path, run: Run
) -> None:
    output = ("-o", tmp_path / "out" / OUTPUTS[command], *TASK_ONLY[command])
    found = run(command, tiny_chip, *output)
    assert found.code == 0, found.err
    given = run(command, tiny_chip, "--weights", network, *output)
    assert given.code == 0 and json.loads(given.out) == json.loads(found.out)
    # without the report, the task is not known
    shutil.rmtree(tmp_path / "out")
    missing = run(command, bare, *output)
    assert missing.code == 2 and missing.err.startswith(f"optinc: {bare.with_suffix('.report.json')}: no report")
    assert "--weights" in missing.err and not (tmp_path / "out").exists()
    # the report of another layout does not help
    shutil.copytree(bare.parent, tmp_path / "copied")
    shutil.copy(tiny_chip.with_suffix(".report.json"), tmp_path / "copied" / "other.report.json")
    for ending in (".gds", ".pic.yml", ".bias.yml"):
        (tmp_path / "copied" / bare.name).with_suffix(ending).rename(tmp_path / "copied" / f"other{ending}")
    other = run(command, tmp_path / "copied" / "other.gds", *output)
    assert other.code == 2 and "is not the report of" in other.err and "--weights" in other.err


@pytest.mark.parametrize("command", ["check", "spectrum", "lvs", *TASK_ONLY])
def test_netlist_and_bias_are_looked_for_beside_the_layout(
    command: str, tiny_chip: Path, network: Path, tmp_path: Path, run: Run
) -> None:
    shutil.copy(tiny_chip, tmp_path)
    weights = ("--weights", network) if command in ("check", "spectrum") else ()
    rate = ("--symbol-rate", 1e6) if command == "eye" else ()
    for missing in ("tiny.pic.yml", "tiny.bias.yml")[: 1 if command == "lvs" else 2]:
        done = run(command, tmp_path / tiny_chip.name, *weights, *rate)
        named = tiny_chip.name if command == "lvs" else missing
        assert done.code == 2 and done.err.startswith(f"optinc: {tmp_path / named}: ") and missing in done.err, done.err
        shutil.copy(tiny_chip.with_name(missing), tmp_path)
    if command in ("check", "lvs"):
        done = run(command, tmp_path / tiny_chip.name, *weights)
        assert done.code == 0, done.err


def test_levels_of_a_cascade_state_their_tasks(tmp_path: Path, run: Run) -> None:
    tasks = cascade_tasks(2, 2, 1)
    networks = [comparator_network(task) for task in tasks]
    first = save_onnx(networks[0], tmp_path / "first.onnx")
    with pytest.raises(InputError, match="no averaging task"):
        plan_cascade(CascadeOptions(bits=2, servers=2, first=first))
    common = ("task", "--bits", 2, "--servers", 2)
    assert run(*common, first, "--remainder", "-o", tmp_path / "first.npz").code == 0
    second = save_safetensors(networks[1], tmp_path / "second.safetensors")
    options = ("--finer-input", "--activation", "clipped_relu", "-o", tmp_path / "second.npz")
    assert run(*common, second, *options).code == 0
    plan = plan_cascade(CascadeOptions(first=tmp_path / "first.npz", second=tmp_path / "second.npz"))
    assert [onn.task for onn in plan.networks] == list(tasks)
    assert {onn.activation for onn in plan.networks} == {"clipped_relu"}


@pytest.mark.parametrize("command", ["size", "factor"])
def test_the_unit_of_an_output_bias_is_counted_and_stated(command: str, tmp_path: Path, run: Run) -> None:
    onn = carry_chain(TASK)
    *hidden, last = onn.layers
    biased = replace(onn, layers=(*hidden, Layer(last.weight, np.full(last.outputs, 0.1))), card={})
    weights = tmp_path / "net.npz"
    biased.save(weights)
    done = run(command, weights, "--link", "direct", "--json")
    assert done.code == 0, done.err
    assert f"{weights}: layers.0 gets one more unit" in done.err
    numbers = json.loads(done.out)
    rows = numbers["layers"] if command == "factor" else numbers["networks"]
    built = without_output_bias(biased)
    assert sum(row["mzis"] for row in rows) == built.mzis > biased.mzis


def test_the_build_of_an_inexact_network_names_the_other_activation(tmp_path: Path, run: Run) -> None:
    onn = comparator_network(TASK)
    weights = tmp_path / "net.npz"
    replace(onn, activation="relu").save(weights)
    built = run("build", weights, "-o", tmp_path / "out")
    assert built.code == 1 and "--activation clipped_relu" in built.err


def test_task_prints_what_it_leaves_out(run: Run, tmp_path: Path) -> None:
    node, value = helper.make_node, helper.make_tensor_value_info
    nodes = [node("MatMul", ["x", "w"], ["l"]), node("Softmax", ["l"], ["y"])]
    ends = [value(name, onnx.TensorProto.DOUBLE, [None, 2]) for name in "xy"]
    stored = [numpy_helper.from_array(np.eye(2), "w")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], stored)), tmp_path / "w.onnx")
    ran = run("task", tmp_path / "w.onnx", "-o", tmp_path / "w.npz")
    assert ran.code == 0 and f"{tmp_path / 'w.onnx'}: Softmax at the end is left out" in ran.out
