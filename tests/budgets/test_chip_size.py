"""Sizes without a layout compared with the assembled circuit, the paper's counts and the design notes' estimates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from chip_sizes import PROCESSES, sizes
from studies import blocks, read_data

import optinc_pdk.networks as networks_package
from optinc_pdk.assemble import CARRIER_TREE, assemble, draft_matrix
from optinc_pdk.averaging import Averaging
from optinc_pdk.budgets.chip_size import NetworkSize, matrix_size, network_size, onn_size, paper_sizes
from optinc_pdk.budgets.light_budget import mzi_loss_db
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import flatten
from optinc_pdk.factor import Mesh, MeshKind, MeshShape
from optinc_pdk.matrices import MatrixTarget, factor_matrix
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights, linked_network
from optinc_pdk.report.tables import size_markdown, size_rows

NETWORKS = Path(networks_package.__file__).with_name("bundled")


def paper(process: str = "soi220") -> tuple[NetworkSize, NetworkSize]:
    full, approximated = paper_sizes(Averaging(8, 4, 4), load_process(process))
    return full, approximated


@pytest.mark.parametrize("file", [bundled_weights(), bundled_weights(8), NETWORKS / "average_8bit_4servers_relu.npz"])
def test_counts_equal_those_of_the_assembled_chip(file: Path) -> None:
    onn, process = AveragingNetwork.load(file), load_process()
    size, onn = onn_size("x", onn, process), linked_network(onn, neurons=True)
    flat = flatten(assemble(onn, process, "x"))
    assert size.heaters == len(flat.instances_of("phase_shifter"))
    assert size.pads == len(flat.instances_of("pad"))
    assert sum(layer.fibres for layer in size.layers) == len(flat.instances_of("grating_coupler"))
    assert size.mzis == onn.mzis


@pytest.mark.parametrize(
    ("name", "extracted_db"),
    [
        ("average_4bit_4servers", [8.4, 16.4, 17.1, 19.9]),
        ("average_4bit_4servers_relu", [13.7, 22.9, 19.3, 19.9]),
        ("average_8bit_4servers", [8.4, 16.4, 17.9, 17.9, 17.1, 20.0]),
    ],
)
def test_losses_are_near_to_those_of_the_extracted_chip(name: str, extracted_db: list[float]) -> None:
    """Extracted chips lose more between modulators and detectors, by guides between cells; an MZI loses 0.75 dB."""
    losses = [
        layer.loss_db for layer in onn_size("x", AveragingNetwork.load(NETWORKS / f"{name}.npz"), load_process()).layers
    ]
    guides_db = np.subtract(extracted_db, losses)
    assert np.all((guides_db > 0.1) & (guides_db < 0.85)), guides_db


def test_the_papers_networks_have_the_published_counts_and_the_expected_area_and_power() -> None:
    """41,664 MZIs at 25 mW a heater are 2 kW; at 0.04 mm² each they need 1,667 mm², and our cells are longer."""
    full, approximated = paper()
    assert (full.mzis, approximated.mzis) == (106_512, 41_664)
    assert approximated.power_w == pytest.approx(2_083, rel=0.01)
    assert 1.0 < paper("soi220_flipchip")[1].area_mm2 / (0.04 * approximated.mzis) < 1.35
    assert 0.7 < mzi_loss_db(load_process()) < 0.8


def test_the_papers_networks_exceed_the_expected_limits() -> None:
    full, approximated = paper()
    assert full.fit == approximated.fit == "not buildable" and full.dies == 0
    assert full.exceeded_limits == approximated.exceeded_limits == ("size", "pads", "power", "loss")
    full, approximated = paper("soi220_flipchip")
    assert full.fit == "not buildable" and "size" in full.exceeded_limits
    assert (approximated.fit, approximated.dies) == ("multi-die", 4)
    assert approximated.exceeded_limits == ("size", "power", "loss")
    assert approximated.light is not None and approximated.light.light_bd < 1.0


def test_blocks_of_hidden_layers_have_no_trees() -> None:
    """They have modulators and detectors of their own; only those of the first and the last layer share light."""
    process, task = load_process(), Averaging(8, 4, 4)
    methods = ("svd", ("approx", 4), "svd")
    one, two = (network_size("x", task, (4, 4, n, 4), methods, process, 1e-3).layers[1].loss_db for n in (4, 8))
    assert one == pytest.approx(two)


def test_no_die_exceeds_its_area_and_no_layer_is_lost() -> None:
    size = paper("soi220_flipchip")[1]
    area = size.limits["size"]
    assert area.limit is not None and area.value == pytest.approx(size.area_mm2) and area.detail == "4 dies"
    assert size.dies * area.limit >= size.area_mm2
    assert size.limits["pads"].value < size.pads


def test_a_network_with_wrong_words_has_no_light_budget() -> None:
    good = AveragingNetwork.load(bundled_weights())
    wrong = AveragingNetwork((*good.layers[:-1], Layer(0.5 * good.layers[-1].weight, good.layers[-1].bias)), good.task)
    size = onn_size("wrong", wrong, load_process())
    assert size.light is None and size.exceeded_limits == ("loss",)
    assert "| wrong | 2-4-4-2-2 |" in size_markdown([size], load_process())


def test_sizes_without_a_budget_leave_power_and_loss_open() -> None:
    bare = load_process().model_copy(update={"budget": None})
    for size in (*paper_sizes(Averaging(8, 4, 4), bare), onn_size("x", AveragingNetwork.load(bundled_weights()), bare)):
        assert size.light is None and size.limits["power"].holds is None and size.limits["loss"].holds is None
    assert "no budget" in size_markdown(paper_sizes(Averaging(8, 4, 4), bare), bare)


def test_joined_blocks_lose_light_in_their_trees() -> None:
    process, task = load_process(), Averaging(8, 4, 4)
    one = network_size("one", task, (4, 4, 4), ("svd", ("approx", 4)), process, 1e-3)
    two = network_size("two", task, (4, 8, 4), ("svd", ("approx", 4)), process, 1e-3)
    assert two.layers[1].loss_db - one.layers[1].loss_db == pytest.approx(10 * np.log10(2) + 0.28, abs=0.05)
    assert two.layers[1].columns == one.layers[1].columns == 5


@pytest.mark.full(every=2)
@pytest.mark.parametrize("process", PROCESSES)
def test_the_documented_tables_are_up_to_date(process: str) -> None:
    found = sizes(process)
    documented = read_data("size", [])
    missing = [
        block for block in blocks(size_markdown(found, load_process(process)).splitlines()) if block not in documented
    ]
    assert missing == [], "run python benchmarks/chip_sizes.py"
    assert [row["mzis"] for row in size_rows(found)] == [106_512, 41_664, 56, 365, 777, 30_573]


def columns_of(mesh: Mesh, kind: MeshKind) -> int:
    """Columns of a rectangle of N modes: N; of a triangle: 2N - 3; both have one column for 2 modes."""
    return 1 if mesh.modes == 2 else mesh.modes if kind == "rectangle" else 2 * mesh.modes - 3


def haar(modes: int) -> np.ndarray:
    return np.asarray(scipy.stats.unitary_group(modes, seed=1).rvs())


@pytest.mark.parametrize("mesh", ["rectangle", "triangle"])
@pytest.mark.parametrize(
    "target",
    [
        MatrixTarget(haar(4)),
        MatrixTarget(haar(3), read="power"),
        MatrixTarget(np.eye(6)[::-1]),
        MatrixTarget(np.random.default_rng(0).normal(size=(5, 3)), read="real"),
        MatrixTarget(np.random.default_rng(1).normal(size=(2, 7))),
    ],
    ids=["unitary", "powers", "permutation", "tall", "wide"],
)
def test_counts_of_matrices_equal_those_of_the_assembled_chip(target: MatrixTarget, mesh: MeshKind) -> None:
    process, shape = load_process(), MeshShape(mesh)
    size, factors = matrix_size("x", target, process, shape), factor_matrix(target, process, shape)
    flat = flatten(draft_matrix(target, factors, process, "x").complete(CARRIER_TREE))
    assert size.structure == target.matrix.shape[::-1]
    assert size.heaters == len(flat.instances_of("phase_shifter"))
    assert sum(layer.fibres for layer in size.layers) == len(flat.instances_of("grating_coupler"))
    assert size.pads == len(flat.instances_of("pad"))
    assert size.mzis == factors.mzis
    assert size.layers[0].columns == sum(columns_of(each, mesh) for each in factors.meshes) + (factors.attenuators > 0)


def test_the_loss_is_near_to_that_of_built_chips_and_is_not_judged() -> None:
    """results/matrices.json: insertion losses of 15.1, 16.5 and 18.0 dB for Haar unitaries of 4, 6 and 8 modes."""
    process = load_process()
    sizes = [matrix_size("x", MatrixTarget(haar(modes)), process) for modes in (4, 6, 8)]
    assert [size.layers[0].loss_db for size in sizes] == pytest.approx([15.1, 16.5, 18.0], abs=0.6)
    assert "loss" not in sizes[0].limits and sizes[0].light is None
    assert size_rows(sizes)[2]["mzis"] == 28 and "not known" in size_markdown(sizes, process)


def test_a_matrix_for_no_die_exceeds_the_limits() -> None:
    size = matrix_size("x", MatrixTarget(np.random.default_rng(0).normal(size=(64, 60))), load_process())
    assert size.fit == "not buildable" and "pads" in size.exceeded_limits
