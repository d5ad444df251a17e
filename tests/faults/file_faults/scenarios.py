"""The commands whose writing is tested: what they do, and what stands in the folder before and after."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from file_faults import states
from file_faults.replays import Recording
from file_faults.states import ViolationError
from optinc_pdk.options import BuildOptions, CascadeOptions

NAME = "chip"
OVER_AN_EARLIER_BUILD = "build over an earlier one"


@dataclass(frozen=True)
class Scenario:
    """A command and the folder that it writes into.

    Attributes:
        name: What the command does, for the table.
        start: Folder as it is before the command.
        run: Runs the command in a folder.
        state: Names what stands in a folder: ``earlier``, ``new`` or ``no report``.
        whole: Names of the files after a run without faults.
    """

    name: str
    start: Path
    run: Callable[[Path], None]
    state: Callable[[Path], str]
    whole: frozenset[str]


def builds(scratch: Path) -> Iterator[Scenario]:
    """A build in an empty folder, over an earlier build, and over one with more files."""
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.networks import carry_chain
    from optinc_pdk.pipeline.building import build

    network, recording = carry_chain(Averaging(2, 4, 1)), Recording()
    with recording.record():
        build(network, scratch / "whole", BuildOptions(name=NAME))

    def run(folder: Path) -> None:
        with recording.replay():
            build(network, folder, BuildOptions(name=NAME))

    yield from _reported(scratch, run, "build")

    from optinc_pdk import simulate
    from optinc_pdk.drive import RangeError

    def refuse(*arguments: object, **options: object) -> None:
        raise RangeError("the heaters do not reach")

    def run_without_bias(folder: Path) -> None:
        with recording.replay():
            simulate.program = refuse
            build(network, folder, BuildOptions(name=NAME))

    run_without_bias(scratch / "fewer")
    whole = frozenset(states.contents(scratch / "fewer"))
    assert f"{NAME}.bias.yml" not in whole
    earlier = scratch / "earlier"
    yield Scenario("build with fewer files", earlier, run_without_bias, _report_state(earlier, whole), whole)


def cascade(scratch: Path) -> Iterator[Scenario]:
    """The build of a cascade."""
    from optinc_pdk.pipeline.cascade import build_cascade

    recording, arguments = Recording(), {"bits": 2, "servers": 2, "name": NAME, "random_sets": 10}
    with recording.record():
        build_cascade(scratch / "whole", CascadeOptions(**arguments))

    def run(folder: Path) -> None:
        with recording.replay():
            build_cascade(folder, CascadeOptions(**arguments))

    yield from _reported(scratch, run, "cascade")
    yield _level_again(scratch, arguments)


def _level_again(scratch: Path, arguments: dict[str, Any]) -> Scenario:
    """A build of one chip of an earlier cascade, whose report no longer holds then."""
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.networks import carry_chain
    from optinc_pdk.pipeline.building import build

    recording, network, chip = Recording(), carry_chain(Averaging(2, 4, 1)), f"{arguments['name']}_level1"
    with recording.record():
        build(network, scratch / "level", BuildOptions(name=chip))

    def run(folder: Path) -> None:
        with recording.replay():
            build(network, folder, BuildOptions(name=chip))

    earlier = scratch / "earlier"
    before, other = states.reports(earlier), f"{arguments['name']}_level2.report.json"

    def state(folder: Path) -> str:
        found = states.reports(folder)
        if found == before:
            return "earlier"
        if found.get(other) != before[other]:
            raise ViolationError(f"{other} of a chip that was not built has changed")
        new = found.get(f"{chip}.report.json")
        if new not in (None, before[f"{chip}.report.json"]):
            return "new"
        return "some reports" if new else "no report"

    files = {name for name in states.contents(earlier) if not name.startswith(f"{chip}.")}
    whole = files - {f"{arguments['name']}.cascade.json"} | set(states.contents(scratch / "level"))
    return Scenario("build of a cascade's chip", earlier, run, state, frozenset(whole))


def yield_runs(scratch: Path) -> Iterator[Scenario]:
    """A yield run over an earlier one, and one that is resumed."""
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.cards import load_process
    from optinc_pdk.io.chip_files import chip_files
    from optinc_pdk.networks import carry_chain
    from optinc_pdk.pipeline.building import build
    from optinc_pdk.studies import imperfections, read_chip
    from optinc_pdk.studies.chip_checks import WordCheck
    from optinc_pdk.studies.montecarlo.sample_records import SampleJob
    from optinc_pdk.studies.montecarlo.study import Runner, YieldStudy, run_serially
    from optinc_pdk.studies.montecarlo.yield_run import header_of, run_yield

    task, process = Averaging(2, 4, 1), load_process()
    build(carry_chain(task), scratch / "chip", BuildOptions(name=NAME))
    files = chip_files(scratch / "chip" / f"{NAME}.gds")
    chosen = imperfections(process).only("coupler")
    work = YieldStudy(WordCheck(read_chip(files.gds, files.netlist, files.bias, process), task), chosen, seed=1)
    header, results = header_of(files, process, work), dict[SampleJob, Any]()

    def computed(jobs: Iterable[SampleJob]) -> Iterator[Any]:
        for job in jobs:
            if job not in results:
                results.update(run_serially(work, [job]))
            yield job, results[job]

    def runner() -> AbstractContextManager[Runner]:
        return nullcontext(computed)

    recording = Recording()
    with recording.record():
        run_yield(work, header, 2, scratch / "whole", runner())
    earlier = scratch / "earlier"
    run_yield(replace(work, check=replace(work.check, share=0.5)), header | {"target": 0.5}, 2, earlier, runner())

    def run(folder: Path, resume: bool) -> None:
        with recording.replay():
            run_yield(work, header, 2, folder, runner(), resume)

    whole = frozenset(states.contents(scratch / "whole"))
    state = _report_state(earlier, whole)
    yield Scenario("yield run", earlier, lambda folder: run(folder, False), state, whole)
    started = scratch / "started"
    started.mkdir()
    records = (scratch / "whole" / f"{NAME}.yield.jsonl").read_bytes().splitlines(keepends=True)
    (started / f"{NAME}.yield.jsonl").write_bytes(b"".join(records[:2]) + records[2][:10])
    state = _report_state(started, whole)
    yield Scenario("yield run, resumed", started, lambda folder: run(folder, True), state, whole)


def training(scratch: Path) -> Iterator[Scenario]:
    """A training with a checkpoint, over the weights of an earlier one."""
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.networks import AveragingNetwork, carry_chain
    from optinc_pdk.networks.training.train import TrainingSchedule, train

    start = carry_chain(Averaging(2, 4, 1))
    schedule = TrainingSchedule(steps=6, noise=0.0, evaluations=3, stop=False)

    def run(folder: Path) -> None:
        train(start, schedule, 0, checkpoint=folder / "state.npz").save(folder / "weights.npz")

    from file_faults.operations import run_forked

    # PyTorch's gradients must not have been used before a process is forked
    (scratch / "whole").mkdir(parents=True)
    ended = run_forked(lambda: run(scratch / "whole"), scratch / "whole")
    assert ended.code == 0, ended.error
    new = (scratch / "whole" / "weights.npz").read_bytes()
    earlier = scratch / "earlier"
    earlier.mkdir()
    start.save(earlier / "weights.npz")
    old = (earlier / "weights.npz").read_bytes()
    assert old != new

    def state(folder: Path) -> str:
        checkpoint = folder / "state.npz"
        if checkpoint.exists():
            _check_checkpoint(checkpoint)
        AveragingNetwork.load(folder / "weights.npz")
        found = (folder / "weights.npz").read_bytes()
        if found not in (old, new):
            raise ViolationError("weights.npz is neither of the earlier training nor of this one")
        return "new" if found == new else "earlier"

    yield Scenario("training", earlier, run, state, frozenset({"weights.npz", "state.npz"}))


def _check_checkpoint(path: Path) -> None:
    import numpy as np

    with np.load(path, allow_pickle=False) as archive:
        for name in archive:
            archive[name]


def file_set(scratch: Path) -> Iterator[Scenario]:
    """Files of a command that writes a table and pictures, such as ``noise`` or ``spectrum``."""
    from optinc_pdk.io.file_sets import write_files

    names = ("chip.noise.png", "sub/picture.png", "chip.noise.csv")

    def run(folder: Path, text: bytes = b"new" * 1000) -> None:
        write_files({folder / name: text for name in names})

    earlier = scratch / "earlier"
    run(earlier, b"earlier" * 1000)

    def state(folder: Path) -> str:
        found = {content for name, content in states.contents(folder).items() if not name.startswith(".")}
        if not (folder / names[-1]).exists():
            return "no report"
        if len(found) > 1 or not all((folder / name).exists() for name in names):
            raise ViolationError(f"{names[-1]} stands beside files of another run")
        return "earlier" if found == {b"earlier" * 1000} else "new"

    yield Scenario("table and pictures", earlier, run, state, frozenset(names))


def _reported(scratch: Path, run: Callable[[Path], None], name: str) -> Iterator[Scenario]:
    """Scenarios of a build, whose result is in ``scratch / "whole"``: in an empty folder, and over an earlier one."""
    whole = frozenset(states.contents(scratch / "whole"))
    empty, earlier = scratch / "empty", scratch / "earlier"
    empty.mkdir()
    states.make_earlier(scratch / "whole", earlier)
    yield Scenario(name, empty, run, _report_state(empty, whole), whole)
    yield Scenario(f"{name} over an earlier one", earlier, run, _report_state(earlier, whole), whole)


def _report_state(start: Path, whole: frozenset[str]) -> Callable[[Path], str]:
    """Function that names the state of a folder with reports."""
    before = states.reports(start)

    def state(folder: Path) -> str:
        found = states.reports(folder)
        if found and found == before:
            return "earlier"
        expected = {name for name in whole if name.endswith((".report.json", ".cascade.json", ".yield.json"))}
        if set(found) == expected and all(found[name] != before.get(name) for name in found):
            return "new"
        if set(found) - set(before) and any(name in before and found[name] == before[name] for name in found):
            raise ViolationError("reports of two builds stand side by side")
        return "no report" if not found else "some reports"

    return state


def copy_start(scenario: Scenario, folder: Path) -> None:
    """Make the folder of a scenario as it is before the command."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(scenario.start, folder)


SCENARIOS = (builds, cascade, yield_runs, training, file_set)
