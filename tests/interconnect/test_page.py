"""The script that simulates all systems: the parts that do not take minutes."""

import importlib.util
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from studies import read_data

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import noise_choices
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors
from optinc_pdk.studies.highest_rates import RATE_PRECISION, best_noise
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
    return LinkEnergy(symbol_rate_bd=1e10, power_w=power_w, missing=(), bits=32)


OF_SYMBOLS = {"decisions": 0.5, "converters": 0.3, "SerDes": 0.2}
PARTS = {"laser": 3.0, "amplifiers": 16.0, "modulator drivers": 20.0, **OF_SYMBOLS}


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
    faster = {part: watts * rate / 1e10 for part, watts in OF_SYMBOLS.items()}
    at_rate = replace(energy(**PARTS | faster), symbol_rate_bd=rate)
    assert at_rate.word_j == pytest.approx(3e-9)


def test_energy_that_cannot_be_equal(script):
    allowed, rate = script.equal_energy(energy(**PARTS), 1e-11)
    assert allowed < 0
    assert rate == math.inf


PROCESS = load_process()
TASK = Averaging(4, 1, 2)
NONE = np.zeros(0)


def waveguides(field):
    """Two waveguides from one server to its receiver, with a field transmission."""
    board = Board("c", (), (), (("in0", "in1"),), (), (("out0", "out1"),))
    s = np.zeros((1, 5, 5), dtype=complex)
    s[0, 3:, 1:3] = field * np.eye(2)
    outputs = dict.fromkeys(("out0", "out1"), 3 / field)
    bias = Bias("soi220", "toy", 16, (), NONE, NONE, NONE, NONE.astype(int), {}, outputs)
    return Scattering(np.array([1550.0]), ("c", "in0", "in1", "out0", "out1"), s), board, bias


def test_the_rate_is_the_largest_with_an_acceptable_error_rate(script):
    chip = waveguides(0.03)
    rate = script.max_symbol_rate(*chip, TASK, PROCESS, 1e-5)
    margins = error_margins(chip[0], function_inputs(TASK), *chip[1:])
    below, above = (
        estimate_errors(margins, best_noise(margins, noise_choices(PROCESS, None, at_rate))).rate
        for at_rate in (rate, RATE_PRECISION * rate)
    )
    assert below <= 1e-5 < above


def test_the_rate_is_limited_by_the_card(script):
    assert script.max_symbol_rate(*waveguides(1.0), TASK, PROCESS, 1e-5) == float(PROCESS.budget.symbol_rate_max_bd)


def test_a_chip_without_light_is_refused(script):
    with pytest.raises(InputError, match="word-error rate 1e-05"):
        script.max_symbol_rate(*waveguides(1e-9), TASK, PROCESS, 1e-5)


def test_the_table_of_energies_by_hand(script):
    """40 W at 10 GBd are 4 nJ for 32 bits: 125 pJ a bit, against 57.27 / 0.95 and 0.03 pJ of SHARP with pluggables."""
    chip = script.MeasuredChip(8, "soi220_fast", replace(energy(**PARTS), missing=("linearisers",)), 100.0, 800.0, 4)
    lines = script.energies([chip])
    tables = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|"))
    rows = {(first, second): rest for first, second, *rest in tables}
    assert rows["together", "40 W"] == ["125 pJ"]
    assert rows["SHARP", "pluggable"][-2:] == ["60.3 pJ", "2.07"]
    assert {("SHARP", optics) for optics in script.OPTICS_TEXT.values()} < set(rows)
    assert any("do not state: linearisers" in line for line in lines)
