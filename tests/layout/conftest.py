"""Small chips, each laid out and written once for all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import yaml

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, Quantity, load_process
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.layout import ChipLayout, lay_out_network, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare


@pytest.fixture
def process_with(tmp_path: Path) -> Callable[[str, float], Process]:
    """A function for a process with another bend radius, in its card and in the rule of bends."""

    def make(base: str, radius_um: float) -> Process:
        rules = yaml.safe_load((components_folder() / base / "rules.yml").read_text())
        rule = next(each for each in rules["rules"] if each["id"] == "core.bend_radius")
        rule["value_um"] = radius_um
        path = tmp_path / f"{base}_{radius_um:g}"
        path.mkdir()
        radius = {"value": radius_um, "source": "default"}
        card = {"schema": 1, "name": path.name, "title": path.name, "base": base, "guide": {"radius_um": radius}}
        (path / "process.yml").write_text(yaml.safe_dump(card))
        (path / "rules.yml").write_text(yaml.safe_dump(rules | {"process": path.name, "rules": [rule]}))
        return load_process(path)

    return make


class WrittenChip(NamedTuple):
    """A chip, its process and circuit, and its GDS file."""

    process: Process
    circuit: Circuit
    chip: ChipLayout
    path: Path

    def rules_broken(self, rules: Iterable[str] = ("",)) -> dict[str, list[list[float]]]:
        """Boxes of violations, by rule, for rules whose names start with one of ``rules``."""
        chosen = [rule for rule in self.process.rules if rule.id.startswith(tuple(rules))]
        result = run_drc(self.path, chosen, self.process.gds_layers)
        return {rule.id: rule.boxes_um.tolist() for rule in result.rules if rule.violations}

    def extraction(self) -> Extraction:
        """The circuit extracted from the polygons."""
        return extract(self.path, self.process)

    def differences(self) -> list[str]:
        """Messages of the differences between layout and circuit."""
        result = compare(self.circuit, self.extraction(), self.process)
        assert result.match == (not result.differences)
        return [difference.message for difference in result.differences]


def _network(widths: tuple[int, ...], blocks: tuple[int, ...] = (), servers: int = 2) -> AveragingNetwork:
    # rows that are no multiples of each other, so that every unit has a detector of its own
    units = [(np.arange(b)[:, np.newaxis], np.arange(a)) for a, b in pairwise(widths)]
    weights = [(-1.0) ** unit * (1.0 + unit * signal) for unit, signal in units]
    layers = [Layer(weight, np.ones(len(weight))) for weight in weights]
    layers[-1] = Layer(layers[-1].weight, np.zeros(widths[-1]))
    factor = tuple(("approx", size) for size in blocks)
    return AveragingNetwork(tuple(layers), Averaging(2 * widths[-1], servers, widths[-1]), factor)  # type: ignore[arg-type]


def _process(name: str, die: tuple[float, float] | None = None) -> Process:
    process = load_process(name)
    get_pdk(name).activate()
    if die is None:
        return process
    sizes = {"width_um": Quantity(die[0], "test"), "height_um": Quantity(die[1], "test")}
    return process.model_copy(update={"dies": (process.dies[-1].model_copy(update=sizes),)})


@pytest.fixture(scope="session")
def network() -> Callable[..., AveragingNetwork]:
    """A network of these widths, in blocks of these sizes; the circuit depends on nothing else."""
    return _network


@pytest.fixture(scope="session")
def process_of() -> Callable[..., Process]:
    """A process, its PDK active; with one die of the given width and height where they are given."""
    return _process


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., WrittenChip]:
    """A circuit and its chip, written."""

    def write(process: Process, circuit: Circuit, chip: ChipLayout) -> WrittenChip:
        path = tmp_path_factory.mktemp("chip") / f"{circuit.name}.gds"
        write_gds(to_layout(chip, process, circuit.name), path)
        return WrittenChip(process, circuit, chip, path)

    return write


@pytest.fixture(scope="session")
def built(written: Callable[..., WrittenChip]) -> Callable[..., WrittenChip]:
    """The chip of a network in a process."""

    @cache
    def build(
        name: str,
        widths: tuple[int, ...],
        blocks: tuple[int, ...] = (),
        servers: int = 2,
        die: tuple[float, float] | None = None,
    ) -> WrittenChip:
        process = _process(name, die)
        return written(process, *lay_out_network(_network(widths, blocks, servers), process, "chip"))

    return build
