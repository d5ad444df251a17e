"""Circuits of networks and of their blocks: components, connections, labels, and refused networks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optinc_pdk.assemble import LOCAL_STRIPS, DiePlan, assemble, layer_blocks, mesh_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit, check_complete, flatten, label_tuple, read_netlist, write_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, Layer

PROCESS = load_process()


def network(servers: int, widths: tuple[int, ...], factor: tuple[object, ...] = ()) -> AveragingNetwork:
    """A network of the given widths; the circuit depends on nothing else."""
    rng = np.random.default_rng(0)
    layers = [Layer(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(widths)]
    layers[-1] = replace(layers[-1], bias=np.zeros(widths[-1]))
    symbols = widths[-1]
    return AveragingNetwork(tuple(layers), Averaging(2 * symbols, servers, symbols), factor)  # type: ignore[arg-type]


@st.composite
def networks(draw: st.DrawFn) -> AveragingNetwork:
    """4 and 8 bits, 2 to 5 servers, one to three hidden layers of 1 to 7; square layers as a diagonal block too."""
    symbols = draw(st.sampled_from((1, 2, 4)))
    hidden = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    widths = (symbols, *hidden, symbols)
    factor = [draw(st.sampled_from(("svd", ("approx", a)))) if a == b else "svd" for a, b in pairwise(widths)]
    return network(draw(st.integers(2, 5)), widths, tuple(factor))


def count(circuit: Circuit, component: str, section: str) -> int:
    """Instances of a component in a section of the floorplan."""
    number = circuit.sections.index(section) if section in circuit.sections else -2
    return int(np.sum(circuit.grid[circuit.instances_of(component), 0] == number))


def mzis(modes: int) -> int:
    return modes * (modes - 1) // 2


def dummies(modes: int) -> int:
    """Number of unused slots at the edges: N columns of N modes less twice the MZIs."""
    return 0 if modes <= 2 else modes * modes - 2 * mzis(modes)


def detectors(onn: AveragingNetwork, index: int) -> int:
    """Number of rows of a layer that are read separately: hidden units of proportional weights share a detector."""
    weight = onn.layers[index].weight
    if index == len(onn.layers) - 1 or onn.factor[index] != "svd":
        return len(weight)
    return len(np.unique(np.round(weight / np.linalg.norm(weight, axis=1, keepdims=True), 9), axis=0))


many = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@many
@given(onn=networks())
def test_every_layer_has_its_meshes_attenuators_and_dumps(onn: AveragingNetwork) -> None:
    circuit = assemble(onn, PROCESS, "chip")
    for index, (layer, factor) in enumerate(zip(onn.layers, onn.factor, strict=True)):
        rows, columns = detectors(onn, index), layer.inputs
        meshes = [columns, rows] if factor == "svd" else [max(rows, columns)]
        name = f"l{index}"
        assert count(circuit, "mzi_unit", name) == sum(map(mzis, meshes))
        assert count(circuit, "mzi_dummy", name) == sum(map(dummies, meshes))
        assert count(circuit, "attenuator", name) == min(rows, columns)
        dark = max(rows - columns, 0) if factor == "svd" else 0
        dumped = max(columns - rows, 0) if factor == "svd" else 0
        assert count(circuit, "terminator", name) == dark + dumped
        last = index == len(onn.layers) - 1
        assert count(circuit, "mmi2x2", f"{name}_mix") == (0 if last else rows)
        assert count(circuit, "phase_shifter", f"{name}_mix") == (0 if last else rows)
        assert count(circuit, "mmi1x2", f"{name}_mix") == (0 if last else rows - 1)


@many
@given(onn=networks())
def test_preprocessing_and_outputs_reach_every_server(onn: AveragingNetwork) -> None:
    circuit, task = assemble(onn, PROCESS, "chip"), onn.task
    # a full tree has a leaf more than it has splitters; the servers' number in binary says where branches stay open
    open_branches = (-task.servers % (1 << (task.servers - 1).bit_length())).bit_count()
    assert count(circuit, "phase_shifter", "p") == task.symbols * task.servers
    assert count(circuit, "terminator", "p") == task.symbols * open_branches
    assert count(circuit, "mmi1x2", "p") == task.symbols * (task.servers + open_branches - 1)
    assert count(circuit, "mmi1x2", "t") == task.symbols * (task.servers - 1)
    assert count(circuit, "grating_coupler", "t") == task.symbols * task.servers


@many
@given(onn=networks())
def test_every_optical_port_has_one_partner_or_is_a_fibre(onn: AveragingNetwork) -> None:
    flat = flatten(assemble(onn, PROCESS, "chip"))
    light, partner = flat.optical_mask(), flat.partners()
    fibres = {port for port in flat.ports.values() if light[port]}
    couplers = flat.instances_of("grating_coupler")
    assert fibres == {int(flat.offset[i]) + 1 for i in couplers}
    assert set(np.flatnonzero(light & (partner < 0)).tolist()) == fibres
    assert np.bincount(flat.nets.ravel(), minlength=1).max() == 1


@many
@given(onn=networks())
def test_every_heater_has_a_pad_label_of_its_own(onn: AveragingNetwork) -> None:
    flat = flatten(assemble(onn, PROCESS, "chip"))
    labels = flat.electrical_labels()
    grounds = [net for net, names in labels.items() if names[0].startswith("GND")]
    assert len(grounds) == 1
    assert len(labels[grounds[0]]) == 8
    heaters = flat.instances_of("phase_shifter")
    ends = flat.offset[heaters][:, None] + [2, 3]
    nets = flat.electrical[ends]
    assert np.all(np.sum(nets == grounds[0], axis=1) == 1)
    signal = nets[nets != grounds[0]].tolist()
    assert len(set(signal)) == len(heaters)
    assert all(len(labels[net]) == 1 for net in signal)
    # and every pad drives a heater
    assert set(labels) == {*signal, grounds[0]}
    pads = flat.offset[flat.instances_of("pad")].tolist()
    assert sorted(port for port in flat.ports.values() if not flat.optical_mask()[port]) == pads


@many
@given(onn=networks())
def test_board_uses_every_fibre_once(onn: AveragingNetwork) -> None:
    circuit, task = assemble(onn, PROCESS, "chip"), onn.task
    board = circuit.board
    assert board is not None
    assert np.shape(board.inputs) == np.shape(board.outputs) == (task.servers, task.symbols)
    assert len(board.supplies) == task.servers + 1
    assert board.layers == len(onn.layers)
    hidden = [layer.outputs for layer in onn.layers[:-1]]
    assert Counter(n.layer for n in board.neurons) == dict(enumerate(hidden))
    assert len({n.label for n in board.neurons}) == len(board.neurons)
    used = [board.carrier, *board.supplies, *board.monitors]
    used += [label for row in (*board.inputs, *board.outputs) for label in row]
    shared = {(n.plus, n.minus) for n in board.neurons}
    assert len(shared) == sum(detectors(onn, index) for index in range(len(hidden)))
    used += [label for pair in shared for label in pair]
    used += [n.to for n in board.neurons]
    light = circuit.optical_mask()
    assert sorted(used) == sorted(label for label, port in circuit.ports.items() if light[port])


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(onn=networks())
def test_netlist_is_unchanged_by_writing_and_reading(onn: AveragingNetwork, tmp_path: Path) -> None:
    circuit = assemble(onn, PROCESS, "chip")
    path = tmp_path / "chip.pic.yml"
    write_netlist(circuit, path)
    first = path.read_bytes()
    back = read_netlist(path)
    assert back.board == circuit.board
    assert back.instances == circuit.instances
    for name in ("kind", "nets", "electrical", "grid"):
        np.testing.assert_array_equal(getattr(back, name), getattr(circuit, name))
    write_netlist(back, path)
    assert path.read_bytes() == first


def test_circuit_does_not_depend_on_the_values_of_weights(tmp_path: Path) -> None:
    onn = network(4, (2, 6, 7, 2))
    other = replace(onn, layers=tuple(Layer(layer.weight * -3, layer.bias * 2) for layer in onn.layers))
    for i, each in enumerate((onn, other)):
        write_netlist(assemble(each, PROCESS, "chip"), tmp_path / f"{i}")
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def paths(circuit: Circuit) -> list[Counter[str]]:
    """Numbers of devices on every forward path through a layer's mesh, from its inputs."""
    flat = flatten(circuit)
    partner, offset = flat.partners(), flat.offset
    instance = np.searchsorted(offset, np.arange(offset[-1]), side="right") - 1
    names = [flat.kinds[k].name for k in flat.kind]
    through = {"mmi2x2": {0: (2, 3), 1: (2, 3), 2: (0, 1), 3: (0, 1)}, "phase_shifter": {0: (1,), 1: (0,)}}
    counts: list[Counter[str]] = []

    def follow(port: int, seen: Counter[str]) -> None:
        port = int(partner[port])
        device, local = int(instance[port]), port - int(offset[instance[port]])
        if names[device] not in through:
            if names[device] == "grating_coupler":
                counts.append(seen)
            return
        for out in through[names[device]][local]:
            follow(int(offset[device]) + out, seen + Counter([names[device]]))

    for label, port in flat.ports.items():
        if label.startswith("l1_in"):
            follow(port - 1, Counter())
    return counts


def test_all_paths_through_a_mesh_pass_equally_many_couplers() -> None:
    # the mesh of the last layer ends in splitters to the outputs, so the first of several layers is tested
    circuit = assemble(network(2, (1, 3, 3, 1)), PROCESS, "chip")
    counts = paths(circuit)
    # V and U of three columns, an attenuator, the mixer: two couplers each, the mixer one
    assert {each["mmi2x2"] for each in counts} == {2 * 3 + 2 + 2 * 3 + 1}


@pytest.mark.parametrize(
    ("task", "widths", "factor", "reason"),
    [
        (Averaging(4, 4, 2, remainder=True, finer_input=True), (2, 3, 2), (), "remainder.*finer_input"),
        (Averaging(4, 4, 2), (2, 2), (), "one layer.*two"),
    ],
)
def test_network_without_a_circuit_is_refused(
    task: Averaging, widths: tuple[int, ...], factor: tuple[object, ...], reason: str
) -> None:
    layers = tuple(Layer(np.ones((b, a)), np.zeros(b)) for a, b in pairwise(widths))
    with pytest.raises(ValueError, match=reason):
        assemble(AveragingNetwork(layers, task, factor), PROCESS, "chip")  # type: ignore[arg-type]


def test_unitary_times_diagonal_in_one_block_is_one_mesh_and_attenuators() -> None:
    circuit = assemble(network(4, (2, 2, 2), (("approx", 2), ("approx", 2))), PROCESS, "chip")
    for name in ("l0", "l1"):
        assert (count(circuit, "mzi_unit", name), count(circuit, "attenuator", name)) == (1, 2)
    heaters = {label for label in circuit.ports if label.startswith("l0") and label.split("_")[1] in ("v", "u", "att")}
    assert heaters == {"l0_v_c0_r0_phi", "l0_v_c0_r0_theta", "l0_att_r0", "l0_att_r1"}


def test_sub_circuits_are_in_the_circuit_once() -> None:
    circuit = assemble(network(4, (2, 6, 7, 2)), PROCESS, "chip")
    assert set(circuit.cells) == {"mzi_unit", "mzi_dummy", "attenuator"}
    assert len(flatten(circuit).instances_of("mmi2x2")) == (
        2 * sum(len(circuit.instances_of(name)) for name in circuit.cells) + len(circuit.instances_of("mmi2x2"))
    )


def test_bias_of_the_last_layer_becomes_a_neuron_without_detectors() -> None:
    onn = network(4, (2, 3, 2))
    biased = replace(onn.layers[-1], bias=np.array([0.0, 0.1]))
    board = assemble(replace(onn, layers=(*onn.layers[:-1], biased)), PROCESS, "chip").board
    assert board is not None
    assert [bool(neuron.plus) for neuron in board.neurons] == [True, True, True, False]
    assert board.neurons[-1].minus == () and board.neurons[-1].to == "l1_in_r3"


def test_weights_out_of_range_and_too_many_servers_are_refused() -> None:
    onn = network(4, (2, 3, 2))
    with pytest.raises(ValueError, match=r"weight holds .*, beyond ±1e\+30"):
        replace(onn.layers[0], weight=onn.layers[0].weight * 1e300)
    for scale in (0.0, 1e-300):
        layer = replace(onn.layers[0], weight=onn.layers[0].weight * scale)
        with pytest.raises(InputError, match=r"layers\.0\.weight.*1e-30.*1e\+30"):
            assemble(replace(onn, layers=(layer, *onn.layers[1:])), PROCESS, "chip")
    with pytest.raises(InputError, match=r"\b200000000\b.*\b16384\b"):
        assemble(replace(onn, task=Averaging(4, 10**8, 2)), PROCESS, "chip")


UNCROSSED = PROCESS.model_copy(
    update={"devices": {name: device for name, device in PROCESS.devices.items() if name != "crossing"}}
)
ONCHIP = PROCESS.model_copy(update={"activation": PROCESS.activation.model_copy(update={"realisation": "onchip"})})


def blocks_of(widths: tuple[int, ...], sizes: tuple[int, ...], servers: int = 2) -> AveragingNetwork:
    """Layers in blocks of these sizes."""
    return network(servers, widths, tuple(("approx", size) for size in sizes))


@st.composite
def networks_of_blocks(draw: st.DrawFn) -> AveragingNetwork:
    """One to four symbols, one or two hidden layers of 1 to 7, blocks of every size."""
    symbols = draw(st.integers(1, 4))
    widths = (symbols, *draw(st.lists(st.integers(1, 7), min_size=1, max_size=2)), symbols)
    return blocks_of(widths, tuple(draw(st.integers(1, min(pair))) for pair in pairwise(widths)))


@many
@given(onn=networks_of_blocks(), local=st.booleans(), process=st.sampled_from((PROCESS, ONCHIP)))
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
@given(onn=networks_of_blocks())
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
    board = assemble(blocks_of((2, 2, 4, 2), (2, 2, 2)), PROCESS, "chip").board
    assert board is not None
    assert [n.plus for n in board.neurons if n.layer == 0] == ["l0_p_r0", "l0_p_r1"]
    assert [n.to for n in board.neurons if n.layer == 0] == [("l1b0_in_r0", "l1b1_in_r0"), ("l1b0_in_r1", "l1b1_in_r1")]
    last = [n for n in board.neurons if n.layer == 1]
    assert [(n.label, n.minus, n.to) for n in last[1:3]] == [
        ("l1_r1", "l1b0_n_r1", "l2b0_in_r1"),
        ("l1_r2", "l1b1_n_r0", "l2b1_in_r0"),
    ]


def test_modulators_of_a_block_are_fed_equally() -> None:
    circuit = assemble(blocks_of((3, 3, 3), (3, 3)), ONCHIP, "chip", LOCAL_STRIPS)
    # three modulators are on a tree of four leaves
    assert (count(circuit, "mmi1x2", "l1"), count(circuit, "modulator", "l1")) == (3, 3)
    assert "l1_carrier_dark_r3" in circuit.instances
    assert circuit.board is not None
    assert (circuit.board.carriers, circuit.board.oscillators) == (("carrier_l1",), ("lo_l0",))
    assert "lo" not in circuit.sections


def test_the_papers_8_bit_network_is_assembled() -> None:
    widths = (4, 64, 128, 256, 128, 64, 4)
    onn = blocks_of(widths, tuple(min(pair) for pair in pairwise(widths)), servers=4)
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
        assemble(blocks_of(widths, (2, 2, 2)), UNCROSSED, "chip")


@pytest.mark.parametrize("shape", [((1, 3, 1), (1, 1)), ((2, 3, 2), (1, 1)), ((2, 2, 4, 2, 2), (2, 2, 2, 2))])
def test_networks_without_crossings_need_no_crossing_device(shape: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    circuit = assemble(blocks_of(*shape), UNCROSSED, "chip")
    check_complete(circuit)
    assert len(circuit.instances_of("crossing")) == 0
