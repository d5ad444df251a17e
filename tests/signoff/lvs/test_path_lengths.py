"""Path lengths of trees by mutation: guides changed by nanometres, with three servers and three oscillators."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.assemble import DiePlan, assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.layout import ChipLayout, floorplan, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.lvs.comparison import compare

PROCESS = load_process()
ROOT, LEAF = "l0_lo_0_2", 2


@cache
def reference() -> Circuit:
    """Three servers, so a branch of every tree of P is unused; three oscillators, so their tree is unbalanced."""
    layers = (Layer(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.zeros(3)), Layer(np.ones((2, 3)), np.zeros(2)))
    return assemble(AveragingNetwork(layers, Averaging(4, 3, 2), ()), PROCESS, "three")


def extracted(chip: ChipLayout, folder: Path) -> Extraction:
    write_gds(to_layout(chip, PROCESS, "three"), folder / "chip.gds")
    return extract(folder / "chip.gds", PROCESS)


def lengthened(extra_um: float) -> ChipLayout:
    """The chip with higher teeth on one oscillator's guide."""
    get_pdk().activate()
    chip = floorplan(reference(), PROCESS)
    leaf = chip.canvas.port(f"l0_lo_r{LEAF},o2")
    path = next(p for p in chip.canvas.guides if p[0] == (leaf.x, leaf.y))
    tops = [i for i, (_, y) in enumerate(path) if y == path[2][1]]
    assert len(tops) == 2
    for i in tops:
        path[i] = (path[i][0], path[i][1] + extra_um / 2)
    return chip


@pytest.mark.parametrize("extra_nm", [100, -60])
def test_longer_path_of_an_oscillator_is_reported(extra_nm: int, tmp_path: Path) -> None:
    chip = lengthened(extra_nm / 1000)
    result = compare(reference(), extracted(chip, tmp_path), PROCESS)
    assert [d.kind for d in result.differences] == ["lengths"]
    reported = result.differences[0]
    ends = reported.reference.split(", ")
    assert all(end.startswith(f"{ROOT} - l0_mix_r") for end in ends)
    assert f"{ROOT} - l0_mix_r{LEAF}" == ends[1 if extra_nm > 0 else 0]
    assert all(end in reported.message for end in ends)
    difference = float(reported.message.partition("differ by ")[2].partition(" ")[0])
    assert difference == pytest.approx(abs(extra_nm) / 1000, abs=0.003)
    assert reported.message.endswith(" 0.02")
    left, bottom, right, top = chip.canvas.instance_box(f"l0_mix_r{LEAF}")
    assert reported.position_um is not None
    assert left <= reported.position_um[0] <= right
    assert bottom <= reported.position_um[1] <= top


@pytest.mark.parametrize("extra_nm", [16, -16])
def test_path_within_the_limit_matches(extra_nm: int, tmp_path: Path) -> None:
    assert compare(reference(), extracted(lengthened(extra_nm / 1000), tmp_path), PROCESS).differences == ()


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return extracted(lengthened(0.0), tmp_path_factory.mktemp("chip"))


def longer_at(extraction: Extraction, instance: str, own: int, extra_um: float) -> Extraction:
    """The same circuit with a longer guide at a port of an instance of the reference."""
    circuit = extraction.circuit
    device_map = compare(reference(), extraction, PROCESS).device_map
    port = int(circuit.offset[device_map[flatten(reference()).instances.index(instance)]]) + own
    length = circuit.net_length_um + extra_um * np.any(circuit.nets == port, axis=1)
    assert np.sum(length != circuit.net_length_um) == 1
    return replace(extraction, circuit=replace(circuit, net_length_um=length))


# paths of a combiner are compared on both sides of its trim and inside the tree, but not before the root or to unused
# leaves
@pytest.mark.parametrize(
    ("instance", "port", "far_end"),
    [
        ("trim_s1_m0", 0, "p_m0_0_2 - fibre_in_s1_m0"),
        ("trim_s1_m0", 1, "p_m0_0_2 - fibre_in_s1_m0"),
        ("p_m0_2_2_d1", 0, "p_m0_0_2 - fibre_in_s2_m0"),
        ("p_m0_0_2", 0, None),
        ("p_m0_dark_0", 0, None),
        ("t_m0_0_2", 1, None),
        ("l0_mix_r1", 1, None),
    ],
)
def test_paths_of_a_combiner(instance: str, port: int, far_end: str | None, extraction: Extraction) -> None:
    differences = compare(reference(), longer_at(extraction, instance, port, 0.1), PROCESS).differences
    assert [d.kind for d in differences] == ([] if far_end is None else ["lengths"])
    if far_end is not None:
        near, far = differences[0].reference.split(", ")
        assert far == far_end
        assert near.startswith("p_m0_0_2 - fibre_in_s")
        assert near != far


def test_circuit_without_a_floorplan_grid_has_no_trees_to_check(extraction: Extraction) -> None:
    bare = replace(reference(), sections=(), grid=np.zeros((0, 3), dtype=np.int64))
    assert compare(bare, longer_at(extraction, "trim_s1_m0", 0, 0.1), PROCESS).match


@cache
def blocks() -> Circuit:
    """Two symbols and four units in blocks of two, whose outputs are summed on the chip through crossings."""
    layers = (Layer(np.ones((4, 2)), np.zeros(4)), Layer(np.ones((2, 4)), np.zeros(2)))
    onn = AveragingNetwork(layers, Averaging(4, 2, 2), (("approx", 2), ("approx", 2)))
    return assemble(onn, PROCESS, "three", DiePlan(carrier_tree=False, ground_groups={"l0": "d0", "l1": "d0"}))


@pytest.mark.parametrize(("extra_nm", "reported"), [(0, 0), (14, 0), (30, 1), (100, 1), (-100, 1)])
def test_longer_path_of_a_sum_is_reported(extra_nm: int, reported: int, tmp_path: Path) -> None:
    get_pdk().activate()
    chip = floorplan(blocks(), PROCESS)
    trims = [chip.canvas.port(f"l1b{block}_sum_r{row},o2") for block in (0, 1) for row in (0, 1)]
    ends = {(trim.x, trim.y) for trim in trims}
    # a meander behind a trim: up, along and down again
    path = next(p for p in chip.canvas.guides if p[0] in ends and len(p) > 5 and p[1][0] == p[2][0])
    for i in (2, 3):
        path[i] = (path[i][0], path[i][1] + extra_nm / 2000)
    differences = compare(blocks(), extracted(chip, tmp_path), PROCESS).differences
    assert [d.kind for d in differences] == ["lengths"] * reported
    assert all("l1_sum_m" in d.message and "_sum_r" in d.message for d in differences)
