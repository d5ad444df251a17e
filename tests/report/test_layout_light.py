"""Optical powers in the layout of the report's page, against what the checks of the same builds wrote."""

from __future__ import annotations

import base64
import gzip
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_bias, read_netlist
from optinc_pdk.networks import GeneralNetwork, Layer, carry_chain
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.pipeline.tasks.chip_task import MOST_SAMPLES
from optinc_pdk.report.layout_light import DARK_DB, STEP_DB
from optinc_pdk.simulate.transmission.settling import spread_rows

PROCESS = load_process()
COUPLER_DB = PROCESS.device("grating_coupler").parameter("loss_db")
ROUNDING_DB = STEP_DB / 2 + 0.01
UNITARY = scipy.stats.unitary_group(4, seed=3).rvs()


def page_data(folder: Path, name: str) -> dict[str, Any]:
    """The data of the layout in a build's page."""
    found = re.search(r"id=layout-data>([^<]*)<", (folder / f"{name}.report.html").read_text())
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return data


def levels_at(data: dict[str, Any], labels: list[str]) -> Floats:
    """(words, fibres) powers in dB in output fibres, behind their couplers."""
    fibres = {item["name"]: i for i, item in enumerate(data["items"]) if item["kind"] == "fibre"}
    rows = [[row[fibres[label]] for label in labels] for row in data["light"]["items"]]
    return np.array(rows) * data["light"]["step_db"] - COUPLER_DB


def agree(levels_db: Floats, power: Floats, least_db: float = -60.0) -> bool:
    """Whether levels are those of powers; of powers below the least, that they are low."""
    power_db = 10.0 * np.log10(np.maximum(power, 1e-12))
    bright = power_db > least_db
    close = np.abs(levels_db[bright] - power_db[bright]) < ROUNDING_DB
    return bool(close.all() and np.all(levels_db[~bright] < least_db + 1.0)) and bright.sum() >= 3


@pytest.fixture(scope="module")
def averaging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the chip of two servers with words of four bits."""
    folder = tmp_path_factory.mktemp("small")
    assert build(carry_chain(Averaging(2, 4, 1)), folder, BuildOptions(name="small")).passed
    return folder


def test_light_of_words_is_that_of_their_outputs(averaging: Path) -> None:
    data, bias = page_data(averaging, "small"), read_bias(averaging / "small.bias.yml")
    numbers = [int(re.match(r"input ([\d,]+)", each)[1].replace(",", "")) for each in data["light"]["titles"]]  # type: ignore[index]
    checked = np.load(averaging / "small.function.npz")
    board = read_netlist(averaging / "small.pic.yml").board
    assert board is not None
    labels = [label for row in board.outputs for label in row]
    scale, dark = ([given.get(label, 0.0) for label in labels] for given in (bias.outputs, bias.dark))
    worst = int(np.argmin(checked["margins"].min(axis=1)))
    assert {0, len(checked["rows"]) - 1, worst} <= set(numbers) and len(numbers) <= MOST_SAMPLES
    assert f"input {worst:,} (smallest margin)" in " ".join(data["light"]["titles"])
    outputs = checked["outputs"][0, numbers].reshape(len(numbers), -1)
    assert agree(levels_at(data, labels), (outputs / scale) ** 2 + dark)


def test_light_of_an_input_mode_is_that_of_the_matrix(tmp_path: Path) -> None:
    np.save(tmp_path / "U.npy", UNITARY)
    assert build(tmp_path / "U.npy", tmp_path).passed
    data, checked = page_data(tmp_path, "U"), np.load(tmp_path / "U.matrix.npz")
    s = checked["chip"] * checked["scale"]
    titles = [title.partition(" (")[0] for title in data["light"]["titles"]]
    assert titles == [f"light into in_r{i}" for i in range(4)]
    assert sum("worst entry" in title for title in data["light"]["titles"]) == 1
    assert agree(levels_at(data, [f"out_r{i}" for i in range(4)]), np.abs(s.T) ** 2)
    inputs = {item["name"]: i for i, item in enumerate(data["items"]) if item["kind"] == "fibre"}
    lit = np.array([[row[inputs[f"in_r{i}"]] for i in range(4)] for row in data["light"]["items"]]) * STEP_DB
    # light enters one coupler; what the others receive is reflected
    assert np.all(np.diag(lit) == 0.0) and np.all(lit[~np.eye(4, dtype=bool)] < -20.0)


@pytest.mark.full
def test_light_of_samples_is_that_of_their_outputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    layers = [Layer(rng.normal(size=(o, i)) / np.sqrt(i), 0.3 * rng.normal(size=o)) for i, o in pairwise((3, 5, 3))]
    network, x = GeneralNetwork.of_layers(layers, "relu"), rng.normal(size=(40, 3))
    network.save(tmp_path / "net.npz")
    np.savez(tmp_path / "data.npz", x=x)
    build(tmp_path / "net.npz", tmp_path, BuildOptions(data=tmp_path / "data.npz"))
    data, bias = page_data(tmp_path, "net"), read_bias(tmp_path / "net.bias.yml")
    numbers = [int(title.split()[1]) for title in data["light"]["titles"]]
    checked = np.load(tmp_path / "net.network.npz")
    worst = int(np.argmax(np.abs(checked["chip"] - checked["network"]).max(axis=1)))
    assert {0, 39, worst} <= set(numbers) and len(numbers) <= MOST_SAMPLES
    labels = list(bias.outputs)
    offsets = np.array([bias.output_offsets.get(label, 0.0) for label in labels])
    fields = (checked["chip"][numbers] - offsets) / [bias.outputs[label] for label in labels]
    # coherent receivers see no light in quadrature, of which there is little
    assert agree(levels_at(data, labels), fields**2, least_db=-45.0)


def test_every_guide_and_device_has_a_level_and_pads_have_none(averaging: Path) -> None:
    data = page_data(averaging, "small")
    light = data["light"]
    assert light["dark"] * light["step_db"] == DARK_DB
    for guides, items in zip(light["guides"], light["items"], strict=True):
        assert len(guides) == len(data["guides"]["ends"]) and len(items) == len(data["items"])
        assert min(guides) >= light["dark"] and max(guides) > -20 / light["step_db"]
        for item, level in zip(data["items"], items, strict=True):
            assert (level is None) == (item["kind"] == "pad"), item["name"]


def test_a_guide_has_the_power_that_enters_the_devices_at_its_ends(averaging: Path) -> None:
    data = page_data(averaging, "small")
    number = {item["name"]: i for i, item in enumerate(data["items"]) if item["kind"] == "terminator"}
    ends = [(i, end) for i, pair in enumerate(data["guides"]["ends"]) for end in pair]
    pairs = [(i, number[end.partition(",")[0]]) for i, end in ends if end.partition(",")[0] in number]
    assert pairs
    for guides, items in zip(data["light"]["guides"], data["light"]["items"], strict=True):
        # a terminator has one port and reflects little
        assert all(abs(guides[guide] - items[device]) <= 1 for guide, device in pairs if guides[guide] > -120)


def test_thermal_crosstalk_is_that_of_the_card_at_the_distances(averaging: Path) -> None:
    data = page_data(averaging, "small")
    heaters = [item for item in data["items"] if item["kind"] == "heater"]
    card = PROCESS.imperfections
    assert card is not None
    boxes = np.array([heater["box"] for heater in heaters]) / 1e3
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    distance = np.hypot(*(centre[:, None] - centre).transpose(2, 0, 1))
    np.fill_diagonal(distance, np.inf)
    power = np.array([heater["values"]["power"] for heater in heaters])
    own = np.pi * power / (1e3 * PROCESS.device("phase_shifter").parameter("power_pi_w"))
    added = float(card.crosstalk.share) * float(card.crosstalk.distance_um) / distance @ own
    stated = np.array([heater["values"]["crosstalk"] for heater in heaters])
    assert stated.min() > 0.0
    np.testing.assert_allclose(stated, added, rtol=2e-3)
    assert str(float(card.crosstalk.share)) in data["crosstalk"]
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    np.testing.assert_allclose([heater["values"]["density"] for heater in heaters], power / area, atol=1e-6)


@pytest.mark.parametrize(
    ("count", "also", "expected"),
    [(1, 0, [0]), (3, 1, [0, 1, 2]), (100, None, [0, 33, 66, 99]), (100, 7, [0, 7, 50, 99]), (100, 99, [0, 50, 99])],
)
def test_rows_are_spread_with_first_and_last(count: int, also: int | None, expected: list[int]) -> None:
    rows = spread_rows(count, 4, also=also)
    assert len(rows) == len(expected) and np.all(np.abs(rows - expected) <= 1)
    assert rows[0] == 0 and rows[-1] == count - 1
    assert also is None or also in rows
