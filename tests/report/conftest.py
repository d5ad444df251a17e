"""Made-up numbers and a made-up layout; nothing here was measured."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import klayout.db as kdb
import pytest
from chromium_driver import Browser, chromium

LAYERS = {"core": (3, 0), "heater": (39, 0), "metal": (41, 0), "label": (100, 0), "outline": (99, 0)}


def _limit(value: float, limit: float | None, unit: str, holds: bool | None, assumption: str) -> dict[str, Any]:
    """A budget as in report.json, not accepted."""
    judged = {"value": value, "limit": limit, "unit": unit, "holds": holds, "assumption": assumption}
    return judged | {"detail": "", "minimum": False, "accepted": False}


@pytest.fixture
def numbers() -> dict[str, Any]:
    """The numbers of a build that passes, with a missed budget that was accepted."""
    return {
        "schema": 1,
        "name": "invented",
        "verdict": "pass",
        "task": {"bits": 4, "servers": 4, "groups": 2, "remainder": False, "finer_input": False},
        "process": {"name": "soi220", "cards": {"devices/tap": "0" * 16, "noise": "1" * 16}},
        "onn": {
            "structure": [2, 6, 7, 2],
            "accuracy": 1.0,
            "margin": 0.3125,
            "activation": "relu",
            "sha256": "0" * 64,
        },
        "factor": {"mzis": 60, "mzis_full_svd": 120, "ratio": 0.5, "max_error": 1e-15},
        "chip": {
            "mzis": 91,
            "phase_shifters": 212,
            "pads": 230,
            "fibres": 64,
            "width_um": 11470.0,
            "height_um": 4900.0,
            "area_mm2": 56.2,
            "power_w": 3.25,
            "loss_db": 21.5,
            "fit": "fits one die",
            "offchip": {"balanced detector pair": 13, "neuron": 13, "modulator": 13},
            "limits": {
                "size": _limit(56.2, 858.0, "mm²", True, "a reticle"),
                "pads": _limit(1230.0, 688.0, "pads", False, "four rows") | {"accepted": True},
                "power": _limit(0.06, None, "W/mm²", None, "no cooling"),
                "rate": _limit(3e8, 1e6, "Bd", True, "the slowest useful link") | {"minimum": True},
            },
            "light": {
                "field_noise": 1e-4,
                "hop_loss_db": [14.0, 25.1],
                "laser_w": 0.01,
                "energy_j": 1.05e-9,
                "light_bd": 9.5e6,
                "electronics_bd": 1e9,
                "symbol_rate_bd": 9.5e6,
                "mixer_w": [1.9e-5, None],
            },
            "oscillators": {
                "fibres": 1,
                "fibre_w": 0.01,
                "total_w": 0.01,
                "mixers": 5,
                "mixer_mean_w": 2.9e-5,
                "mixer_least_w": 1.5e-5,
                "split_carrier": True,
            },
            "crosstalk": {"share": 0.029, "distance_um": 25.0},
        },
        "drc": {"rules": 24, "violations": 0, "not_run": 0, "current_ma_per_um": 1.5, "ground_rise_mv": 20.0},
        "lvs": {"devices": 400, "nets": 900, "match": True},
        "function": {
            "inputs": 65536,
            "exact": 65536,
            "accuracy": 1.0,
            "margin": 0.21,
            "words": 262144,
            "margins": [0.31, 0.21],
            "errors": [],
            "coverage": "combinations",
            "corners": 0,
            "certificate": {
                "margin": 0.18,
                "margins": [0.3, 0.18],
                "layer_errors": [0.1, 0.2],
                "layer_reserves": [None, 1.2],
                "signal_errors": [0.002, 0.0],
            },
            "no_certificate": None,
            "basis": "enumerated: every combination of symbols at the fibres",
        },
        "speed": {
            "word_error_rate": 1e-9,
            "words": 2048,
            "symbol_rate_bd": 3e8,
            "counted": {"symbol_rate_bd": 3e8, "words": 65536, "wrong": 0},
            "highest_bd": 1e9,
            "main_limit": "amplifiers",
            "without": None,
            "delays_s": {"symbols": 1e-8, "guides": 1e-10, "fibres": 9.8e-8},
            "delays_missing": ["electronics (activation.delay_s)"],
            "system": [
                {"name": "phase lock of a fibre", "size": 0.019, "tolerated": 0.048, "unit": "rad", "ratio": 2.5},
                {"name": "frequency of the laser", "size": None, "tolerated": 4e8, "unit": "Hz", "ratio": None},
                {"name": "leak", "size": 0.01, "tolerated": None, "unit": "", "ratio": None},
            ],
            "power_w": {"heaters": 3.25, "amplifiers": 1.25},
            "missing": ["laser (budget.laser_efficiency)"],
            "word_j": 1.5e-8,
            "bit_j": 9.4e-10,
        },
        "spectrum": {
            "carrier_nm": 1550.0,
            "wavelengths_nm": [1540.0, 1550.0],
            "curves": [
                {
                    "name": "inputs",
                    "sources": 2,
                    "mean_db": [-20.5, -10.5],
                    "lowest_db": [-21.0, -11.0],
                    "highest_db": [-20.0, -10.0],
                }
            ],
            "left_out": None,
        },
        "faults": [{"kind": "coupled", "place_um": [1.0, 2.5], "text": "a mark", "affects_function": False}],
        "files": {"invented.pic.yml": "b" * 64, "invented.gds": "a" * 64},
        "seconds": {"factor": 0.01, "layout": 4.5},
    }


@pytest.fixture
def gds(tmp_path: Path) -> Path:
    """A die of 400 × 200 µm: guides and heaters two levels down, one pad with its label, and the outline."""
    layout = kdb.Layout()
    layer = {name: layout.layer(*pair) for name, pair in LAYERS.items()}
    arm = layout.create_cell("arm")
    arm.shapes(layer["core"]).insert(kdb.DBox(0, -0.225, 100, 0.225))
    arm.shapes(layer["heater"]).insert(kdb.DBox(10, -4, 90, 4))
    pair = layout.create_cell("pair")
    for y in (0.0, 50.0):
        pair.insert(kdb.DCellInstArray(arm.cell_index(), kdb.DTrans(kdb.DVector(0, y))))
    die = layout.create_cell("die")
    die.insert(kdb.DCellInstArray(pair.cell_index(), kdb.DTrans(kdb.DVector(150, 75))))
    die.shapes(layer["metal"]).insert(kdb.DBox(20, 20, 100, 100))
    die.shapes(layer["label"]).insert(kdb.DText("h0", kdb.DTrans(kdb.DVector(60, 60))))
    die.shapes(layer["outline"]).insert(kdb.DBox(0, 0, 400, 200))
    path = tmp_path / "die.gds"
    layout.write(str(path))
    return path


@pytest.fixture
def small_mesh(tmp_path: Path) -> Path:
    """Three modes of heaters over guides."""
    layout = kdb.Layout()
    top = layout.create_cell("mesh")
    core, heater = layout.layer(3, 0), layout.layer(39, 0)
    for column, row in ((0, 0), (1, 1), (2, 0)):
        for x in (500 * column, 500 * column + 246):
            top.shapes(heater).insert(kdb.DBox(x, -52 * row - 4, x + 100, -52 * row + 4))
    for row in range(3):
        top.shapes(core).insert(kdb.DBox(-100, -52 * row - 1, 1500, -52 * row + 1))
    path = tmp_path / "mesh.gds"
    layout.write(str(path))
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(params=(1440, 390))
def shown(request: pytest.FixtureRequest, browser: Browser, page: Path) -> Iterator[Browser]:
    """The page of fixture `page`, 1440 and 390 pixels wide; nothing is logged, and nothing else is requested."""
    browser.console.clear()
    browser.requests.clear()
    browser.open(page, request.param, 900)
    browser.wait("document.getElementById('layout-view').dataset.drawn === 'true'")
    yield browser
    browser.evaluate("new Promise(requestAnimationFrame)")
    assert browser.console == []
    assert browser.requests == [page.resolve().as_uri()]
