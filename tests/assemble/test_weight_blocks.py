"""Circuits of layers in several blocks, carriers by fibre and activations on the chip: components and connections."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optinc_pdk.assemble import LOCAL_STRIPS, DiePlan, assemble, layer_blocks, mesh_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit, check_complete, flatten, label_tuple
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, Layer

PROCESS = load_process()
UNCROSSED = PROCESS.model_copy(
    update={"devices": {name: device for name, device in PROCESS.devices.items() if name != "crossing"}}
)
ONCHIP = PROCESS.model_copy(update={"activation": PROCESS.activation.model_copy(update={"realisation": "onchip"})})


def network(widths: tuple[int, ...], blocks: tuple[int, ...], servers: int = 2) -> AveragingNetwork:
    """Layers in blocks of these sizes; the circuit depends on nothing else."""
    rng = np.random.default_rng(0)
    layers = [Layer(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(widths)]
    layers[-1] = replace(layers[-1], bias=np.zeros(widths[-1]))
    return AveragingNetwork(
        tuple(layers), Averaging(2 * widths[-1], servers, widths[-1]), tuple(("approx", s) for s in blocks)
    )


@st.composite
def networks(draw: st.DrawFn) -> AveragingNetwork:
    """One to four symbols, one or two hidden layers of 1 to 7, blocks of every size."""
    symbols = draw(st.integers(1, 4))
    widths = (symbols, *draw(st.lists(st.integers(1, 7), min_size=1, max_size=2)), symbols)
    return network(widths, tuple(draw(st.integers(1, min(pair))) for pair in pairwise(widths)))


def count(circuit: Circuit, component: str, section: str) -> int:
    number = circuit.sections.index(section) if section in circuit.sections else -2
    return int(np.sum(circuit.grid[circuit.instances_of(component), 0] == number))


many = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@many
@given(onn=networks(), local=st.booleans(), process=st.sampled_from((PROCESS, ONCHIP)))
def test_circuits_are_complete_and_boards_use_every_label_once(
    onn: AveragingNetwork, local: bool, process: object
) -> None:
    circuit = assemble(onn, process, "chip", DiePlan(carrier_tree=not local))  # type: ignore[arg-type]
    check_complete(circuit)
    flat = flatten(circuit)
    check_complete(flat)
    board = circuit.board
    assert board is not None
    assert max(Counter(board.labels).values()) == 1
    light = circuit.optical_mask()
    fibres = {label for label, port in circuit.ports.items() if light[port]}
    pads = {label for n in board.neurons for names in (n.plus, n.minus, n.to) for label in label_tuple(names)} - fibres
    assert fibres <= set(board.labels)
    assert set(board.labels) - fibres == pads
    offchip = process is PROCESS
    assert (not pads, not board.carriers, not len(flat.instances_of("photodiode"))) == (offchip,) * 3
    assert bool(board.oscillators) == local
    # every pad drives or reads one device, and every device's other end is at ground
    on_net = flat.electrical_labels()
    devices = np.concatenate([flat.instances_of(name) for name in ("phase_shifter", "photodiode", "modulator")])
    signals = []
    for device in devices.tolist():
        names = [on_net[int(net)] for net in flat.electrical[flat.offset[device] : flat.offset[device + 1]] if net >= 0]
        assert any(each[0].startswith("GND") for each in names)
        signals += [each[0] for each in names if not each[0].startswith("GND")]
    assert len(signals) == len(set(signals)) == len(devices)


@many
@given(onn=networks())
def test_every_block_is_a_mesh_of_its_size_and_shares_inputs_and_outputs(onn: AveragingNetwork) -> None:
    circuit = assemble(onn, PROCESS, "chip")
    assert circuit.board is not None
    for index, layer in enumerate(onn.layers):
        blocks = layer_blocks(onn, index)
        size = onn.factor[index][1]
        covered = np.zeros(layer.weight.shape, dtype=int)
        for block in blocks:
            covered[np.ix_(block.rows, block.columns)] += 1
            assert count(circuit, "mzi_unit", block.name) == size * (size - 1) // 2
            assert count(circuit, "attenuator", block.name) == len(block.rows)
        assert (covered == 1).all()
        down, across = (1 + max(block.place[axis] for block in blocks) for axis in (0, 1))
        if index == 0:
            widths = {block.place[1]: len(block.columns) for block in blocks}
            pairs = sum(width * (width - 1) // 2 for width in widths.values())
            assert count(circuit, "mmi1x2", "l0_split") == layer.inputs * (down - 1)
            assert count(circuit, "crossing", "l0_split") == pairs * (down - 1)
        else:
            above = [n for n in circuit.board.neurons if n.layer == index - 1]
            assert {len(label_tuple(n.to)) for n in above} == {down}
        if index == len(onn.layers) - 1:
            trims = layer.outputs * across if across > 1 else 0
            assert count(circuit, "phase_shifter", f"l{index}_sum") == trims
            assert count(circuit, "mmi1x2", f"l{index}_sum") == layer.outputs * (across - 1)
        else:
            assert {len(label_tuple(n.plus)) for n in circuit.board.neurons if n.layer == index} == {across}


def test_a_single_block_keeps_the_names_of_a_layer() -> None:
    board = assemble(network((2, 2, 4, 2), (2, 2, 2)), PROCESS, "chip").board
    assert board is not None
    assert [n.plus for n in board.neurons if n.layer == 0] == ["l0_p_r0", "l0_p_r1"]
    assert [n.to for n in board.neurons if n.layer == 0] == [("l1b0_in_r0", "l1b1_in_r0"), ("l1b0_in_r1", "l1b1_in_r1")]
    last = [n for n in board.neurons if n.layer == 1]
    assert [(n.label, n.minus, n.to) for n in last[1:3]] == [
        ("l1_r1", "l1b0_n_r1", "l2b0_in_r1"),
        ("l1_r2", "l1b1_n_r0", "l2b1_in_r0"),
    ]


def test_modulators_of_a_block_are_fed_equally() -> None:
    circuit = assemble(network((3, 3, 3), (3, 3)), ONCHIP, "chip", LOCAL_STRIPS)
    # three modulators are on a tree of four leaves
    assert (count(circuit, "mmi1x2", "l1"), count(circuit, "modulator", "l1")) == (3, 3)
    assert "l1_carrier_dark_r3" in circuit.instances
    assert circuit.board is not None
    assert (circuit.board.carriers, circuit.board.oscillators) == (("carrier_l1",), ("lo_l0",))
    assert "lo" not in circuit.sections


def test_the_papers_8_bit_network_is_assembled() -> None:
    widths = (4, 64, 128, 256, 128, 64, 4)
    onn = network(widths, tuple(min(pair) for pair in pairwise(widths)), servers=4)
    circuit = assemble(onn, PROCESS, "paper")
    # arXiv 2603.28290, the 8-bit network of four servers after its approximation
    assert len(circuit.instances_of("mzi_unit")) + len(circuit.instances_of("attenuator")) == onn.mzis == 41_664
    assert len(circuit.instances_of("crossing")) == 2 * 6 * 15
    check_complete(circuit)


@pytest.mark.parametrize("modes", [2, 3, 8])
def test_single_mesh_has_a_fibre_at_every_end(modes: int) -> None:
    circuit = mesh_chip(modes, PROCESS, "mesh")
    check_complete(circuit)
    assert circuit.board is None
    assert count(circuit, "mzi_unit", "l0") == modes * (modes - 1) // 2
    fibres = {f"{side}_r{row}" for side in ("in", "out") for row in range(modes)}
    heaters = {f"l0_v_c{c}_r{r}_{arm}" for c, r in _slots(modes) for arm in ("phi", "theta")}
    assert set(circuit.ports) == fibres | heaters | {f"GND{i}" for i in range(8)}


def _slots(modes: int) -> list[tuple[int, int]]:
    return [(c, r) for c in range(modes if modes > 2 else 1) for r in range(c % 2, modes - 1, 2)]


def test_a_mesh_of_one_mode_is_refused() -> None:
    with pytest.raises(InputError, match=r"modes.*\b1\b.*\b2\b"):
        mesh_chip(1, PROCESS, "mesh")


@pytest.mark.parametrize("widths", [(2, 4, 2, 2), (2, 2, 4, 2)], ids=["inputs are copied", "outputs are summed"])
def test_missing_crossing_is_refused_with_the_file_to_add(widths: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"'soi220'.*'crossing'.*components/soi220/devices/crossing\.yml"):
        assemble(network(widths, (2, 2, 2)), UNCROSSED, "chip")


@pytest.mark.parametrize("shape", [((1, 3, 1), (1, 1)), ((2, 3, 2), (1, 1)), ((2, 2, 4, 2, 2), (2, 2, 2, 2))])
def test_networks_without_crossings_need_no_crossing_device(shape: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    circuit = assemble(network(*shape), UNCROSSED, "chip")
    check_complete(circuit)
    assert len(circuit.instances_of("crossing")) == 0
