"""A short, fixed run of the fuzzer: mutated files are accepted or refused, and nothing else happens."""

from pathlib import Path

import pytest
from fuzzing.commands import command_targets
from fuzzing.corpus import build_chip, smallest
from fuzzing.targets import Target, prepare, targets
from fuzzing.worker import judge

READERS = 40
"""Inputs of every reader; ``make fuzz`` reads a million."""


@pytest.fixture(scope="module")
def all_targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    folder = tmp_path_factory.mktemp("corpus")
    chip = build_chip(smallest(), folder)
    return targets(chip, folder) | command_targets(chip)


def outcomes(target: Target, folder: Path, count: int) -> list[str]:
    """Outcomes of the corpus and of some mutated files; fails at the first finding."""
    path = folder / target.file
    prepare(folder)
    found = []
    for number in range(-len(target.corpus), count):
        data = target.corpus[number] if number < 0 else target.input(7, number)
        kind, finding, _ = judge(target, path, number, data)
        assert finding is None, f"{target.name} {number}: {finding.kind}\n{finding.detail}"
        found.append(kind)
    return found


@pytest.mark.full
def test_every_reader_accepts_or_refuses(
    all_targets: dict[str, Target], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, target in all_targets.items():
        if not name.startswith("optinc"):
            # every OASIS file is first read on trial, in a process of its own
            found = outcomes(target, tmp_path, READERS if name != "OASIS" else READERS // 8)
            assert found[: len(target.corpus)] == ["accepted"] * len(target.corpus), name
            assert "refused" in found, name


@pytest.mark.full
def test_commands_end_with_0_1_or_2(all_targets: dict[str, Target], tmp_path: Path) -> None:
    # every command once, with another of its files
    for name in ("drc: .bias.yml", "lvs: .pic.yml", "check: .gds", "compare: .gds", "simulate: .gds"):
        assert outcomes(all_targets[f"optinc {name}"], tmp_path, 1)[0] == "accepted", name


def test_an_input_depends_on_seed_and_number_alone(all_targets: dict[str, Target]) -> None:
    target = all_targets["netlist"]
    assert target.input(1, 5) == target.input(1, 5)
    assert len({target.input(seed, number) for seed in (1, 2) for number in range(10)}) > 15


def test_an_exception_of_a_reader_is_a_finding(tmp_path: Path) -> None:
    def read(path: Path) -> object:
        return {}[path.read_bytes()]

    target = Target("broken", "b", (b"x",), (), read, 1.0)
    kind, finding, _ = judge(target, tmp_path / "b", 3, b"y")
    assert kind == "finding" and finding is not None
    assert finding.kind.startswith("KeyError") and finding.data == b"y"
