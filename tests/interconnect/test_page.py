"""The script that simulates all systems: the parts that do not take minutes."""

import importlib.util
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from studies import read_data

from optinc_pdk.studies.link_energy import LinkEnergy

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks" / "interconnect.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("benchmark_of_interconnects", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look up their module
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def energy(**power_w):
    return LinkEnergy(symbol_rate_bd=1e10, power_w=power_w, missing=(), bits=32, latency_symbols=6)


PARTS = {"laser": 3.0, "amplifiers": 16.0, "modulator drivers": 20.0, "decisions": 1.0}


def test_chips_that_cannot_be_read_are_reported_first(tmp_path, monkeypatch, capsys, script):
    for name, reported in (("file", "file: "), ("folder", "average_4bit_4servers.pic.yml")):
        (tmp_path / "folder" / "soi220").mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / "soi220" / "average_4bit_4servers.gds").touch()
        (tmp_path / "file").touch()
        monkeypatch.setattr(sys, "argv", ["interconnect.py", "--chips", str(tmp_path / name)])
        assert script.main() == 2
        assert reported in capsys.readouterr().err


def test_chips_side_by_side_by_hand(script):
    """6.4 Tb/s are 80 times the 80 Gb/s of a server at 8 bits and 10 GBd; a little less light takes one chip more."""
    chip = script.MeasuredChip(8, "soi220_fast", energy(**PARTS), 100.0, 800.0, 4)
    assert (chip.bit_per_s, chip.side_by_side) == (8e10, 80)
    slower = replace(chip, energy=replace(chip.energy, symbol_rate_bd=0.999e10))
    assert slower.side_by_side == 81
    row = next(line for line in script.side_by_side([chip]) if line.startswith("| 8 bits"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # 80 dies of 100 mm², in reticles of 800 mm²; 4 fibres each; 40 W each
    assert cells[3:] == ["80", "100 mm²", "8,000 mm²", "10", "320", "3.2 kW"]


def test_the_recorded_rates_need_at_most_a_hundred_chips(script):
    """The target of the project, at 8 bits and 6.4 Tb/s per server."""
    recorded = read_data("symbol_rates", {})["8bit soi220_fast neurons coherent"]
    assert script.LINE_BIT_PER_S / (8 * recorded["limits"]["symbol_rate_bd"]) <= 100


def test_equal_energy_by_hand(script):
    """40 W at 10 GBd are 4 nJ. For 3 nJ, drivers and amplifiers have 30 W less 4 W, or 39 W meet 2.9 nJ per symbol."""
    allowed, rate = script.equal_energy(energy(**PARTS), 3e-9)
    assert allowed == pytest.approx(26.0)
    assert rate == pytest.approx(39.0 / 2.9e-9)
    at_rate = replace(energy(**PARTS | {"decisions": 1.0 * rate / 1e10}), symbol_rate_bd=rate)
    assert at_rate.word_j == pytest.approx(3e-9)


def test_energy_that_cannot_be_equal(script):
    allowed, rate = script.equal_energy(energy(**PARTS), 1e-11)
    assert allowed < 0
    assert rate == math.inf
