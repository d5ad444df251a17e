"""Plans of circuits: agreement of the solvers, batches, reachability, and refusal of bad input."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order

from optinc_pdk.assemble import LOCAL_STRIPS, assemble, mesh_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import NetlistError, flatten
from optinc_pdk.errors import InputError
from optinc_pdk.models import device_s, net_transmission
from optinc_pdk.simulate import analyse, heater_phases, prepare, s_matrices, scattering, solve
from optinc_pdk.simulate.s_parameters._nested_dissection import nested_halves
from optinc_pdk.simulate.s_parameters._plan import plan_circuit
from optinc_pdk.simulate.s_parameters.block_assembly import reachable

from .conftest import (
    PROCESS,
    add_fibre,
    add_heater,
    builder,
    chain,
    dense_scattering,
    random_circuit,
    random_phases,
    ring,
    with_file,
    with_geometry,
    with_parameters,
)

SEEDS = st.integers(0, 2**32 - 1)
REFLECTING = with_parameters(PROCESS, reflection_db=-12.0, loss_db=3.0)
FORWARD = with_parameters(PROCESS, reflection_db=-400.0)


def superlu(structure, phases, wavelength_nm, process):
    """S between all labels by one sparse factorisation."""
    solution = solve(structure, phases, wavelength_nm, process)
    return solution.s(solution.fields(structure.labels))


def knotted(plan):
    """A plan of the same circuit in which every S-parameter may be nonzero, so that all blocks form knots."""
    full = {number: np.ones_like(pattern) for number, pattern in plan.patterns.items()}
    return plan_circuit(plan.structure, full, plan.outs, plan.ins)


@given(SEEDS, st.integers(1, 8), st.integers(0, 6), st.integers(1, 8))
@settings(max_examples=12, deadline=None)
def test_transfer_knots_and_superlu_agree_on_random_circuits(seed, couplers, splitters, heaters):
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, couplers, splitters, heaters)
    structure = analyse(circuit)
    for process in (PROCESS, REFLECTING, FORWARD):
        phases = heater_phases(structure, random_phases(circuit, rng), process)
        plan = prepare(structure, 1550.0, process)
        found = s_matrices(plan, phases, 1550.0, process)[0, 0]
        assert found == pytest.approx(superlu(structure, phases, 1550.0, process), abs=1e-12)
        assert s_matrices(knotted(plan), phases, 1550.0, process)[0, 0] == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize("modes", [2, 3, 5, 8, 16])
def test_meshes_without_reflections_have_no_knots_and_agree_with_the_other_solvers(modes):
    structure = analyse(mesh_chip(modes, FORWARD, "mesh"))
    phases = np.random.default_rng(modes).uniform(0.0, 2 * np.pi, structure.heater.size)
    plan = prepare(structure, 1550.0, FORWARD)
    other = knotted(plan)
    assert not plan.rounds
    assert bool(other.rounds) == (modes > 2)
    found = s_matrices(plan, phases, 1550.0, FORWARD)[0, 0]
    assert np.abs(found).max() > 1e-3
    assert found == pytest.approx(superlu(structure, phases, 1550.0, FORWARD), abs=1e-12)
    assert found == pytest.approx(s_matrices(other, phases, 1550.0, FORWARD)[0, 0], abs=1e-12)


def test_equal_mzis_are_reduced_as_one_batch():
    structure = analyse(mesh_chip(16, FORWARD, "mesh"))
    plan = prepare(structure, 1550.0, FORWARD)
    assert max(joint.ports.size for joint in plan.joints) == 120
    assert len(plan.joints) < 20
    # light passes 16 columns of 2×2 kernels to the right; reverse paths are copied
    assert len(plan.transfer.steps) == 16
    assert plan.transfer.counts == {(2, 2): 120}
    assert len(plan.transfer.mirrored) == 16 * 16


def test_nonreciprocal_devices_are_calculated_in_both_directions(tmp_path):
    rng = np.random.default_rng(4)
    s = device_s(FORWARD, "mmi2x2", 1550.0) * rng.uniform(0.5, 1.0, (4, 4))
    process = with_file(FORWARD, "mmi2x2", tmp_path / "c.npz", s, ("o1", "o2", "o3", "o4"), np.array([1550.0]))
    circuit = flatten(mesh_chip(4, process, "mesh"))
    phases = random_phases(circuit, rng)
    labels, expected = dense_scattering(circuit, phases, 1550.0, process)
    found = scattering(circuit, phases, 1550.0, process)
    assert list(found.labels) == labels
    assert found.s[0] == pytest.approx(expected, abs=1e-12)
    assert np.abs(found.s[0] - found.s[0].T).max() > 1e-3
    structure = analyse(circuit)
    drive, sample = heater_phases(structure, phases, process), {"mmi2x2": s}
    with pytest.raises(InputError, match="'mmi2x2'"):
        s_matrices(prepare(structure, 1550.0, FORWARD), drive, 1550.0, FORWARD, devices=sample)
    plan = prepare(structure, 1550.0, FORWARD, devices=sample)
    assert s_matrices(plan, drive, 1550.0, FORWARD, devices=sample)[0, 0] == pytest.approx(expected, abs=1e-12)


@given(SEEDS, st.integers(2, 7))
@settings(max_examples=12, deadline=None)
def test_s_parameters_between_some_labels_are_those_of_the_whole_mesh(seed, modes):
    """Whichever reverse paths are left out."""
    rng = np.random.default_rng(seed)
    structure = analyse(mesh_chip(modes, FORWARD, "mesh"))
    phases = rng.uniform(0.0, 6.0, structure.heater.size)
    whole = superlu(structure, phases, 1550.0, FORWARD)
    outs, ins = (np.flatnonzero(rng.random(2 * modes) < 0.5) for _ in range(2))
    names = [[structure.labels[i] for i in places] for places in (outs, ins)]
    plan = prepare(structure, 1550.0, FORWARD, outs=names[0], ins=names[1])
    found = s_matrices(plan, phases, 1550.0, FORWARD)[0, 0]
    assert found == pytest.approx(whole[np.ix_(outs, ins)], abs=1e-12)


def test_each_ring_in_a_circuit_without_other_loops_is_a_knot():
    """A bus with two rings: light does not return from the second to the first."""
    b = builder("rings")
    for i in range(2):
        b.add(f"c{i}", "mmi2x2")
        for half in ("a", "b"):
            b.add(f"s{i}{half}", "mmi2x2")
            add_fibre(b, f"x{i}{half}", f"s{i}{half},o2")
            add_fibre(b, f"y{i}{half}", f"s{i}{half},o3")
        b.connect(f"c{i},o4", f"s{i}a,o1")
        b.connect(f"s{i}a,o4", f"s{i}b,o1")
        b.connect(f"s{i}b,o4", f"c{i},o1")
    add_fibre(b, "in", "c0,o2")
    b.connect("c0,o3", "c1,o2")
    add_fibre(b, "out", "c1,o3")
    circuit = b.build()
    circuit = replace(circuit, net_length_um=np.random.default_rng(0).uniform(1.0, 50.0, len(circuit.nets)))
    structure = analyse(circuit)
    plan = prepare(structure, 1550.0, FORWARD)
    assert plan.rounds
    assert len(plan.transfer.steps) > 1
    found = s_matrices(plan, np.zeros(0), 1550.0, FORWARD)[0, 0]
    assert found == pytest.approx(superlu(structure, np.zeros(0), 1550.0, FORWARD), abs=1e-12)


@pytest.mark.parametrize("process", [PROCESS, FORWARD], ids=["reflecting", "forward"])
def test_a_batch_of_biases_and_wavelengths_equals_single_cases(process):
    rng = np.random.default_rng(3)
    structure = analyse(with_geometry(mesh_chip(5, process, "mesh"), 1))
    phases = rng.uniform(0.0, 2 * np.pi, (3, structure.heater.size))
    wavelengths = np.array([1540.0, 1551.0])
    seen = []
    plan = prepare(structure, wavelengths, process)
    found = s_matrices(plan, phases, wavelengths, process, progress=lambda *done: seen.append(done))
    assert found.shape == (3, 2, 10, 10)
    assert seen[-1] == (6, 6)
    for k in range(3):
        for w in range(2):
            assert found[k, w] == pytest.approx(superlu(structure, phases[k], wavelengths[w], process), abs=1e-12)


def test_small_chunks_give_the_same_result(monkeypatch):
    structure = analyse(mesh_chip(4, PROCESS, "mesh"))
    phases = np.random.default_rng(0).uniform(0.0, 6.0, (5, structure.heater.size))
    plan = prepare(structure, 1550.0, PROCESS)
    whole = s_matrices(plan, phases, 1550.0, PROCESS)
    monkeypatch.setattr("optinc_pdk.simulate.s_parameters.scattering.CHUNK_NUMBERS", 2 * plan.numbers)
    seen = []
    chunks = s_matrices(plan, phases, 1550.0, PROCESS, progress=lambda *done: seen.append(done))
    assert seen == [(2, 5), (4, 5), (5, 5)]
    assert chunks == pytest.approx(whole, abs=1e-15)


def test_only_the_requested_labels_are_calculated():
    circuit = random_circuit(np.random.default_rng(7), 5, 3, 5)
    structure = analyse(circuit)
    phases = heater_phases(structure, random_phases(circuit, np.random.default_rng(0)), REFLECTING)
    outs, ins = structure.labels[2:], structure.labels[1:2]
    whole = s_matrices(prepare(structure, 1550.0, REFLECTING), phases, 1550.0, REFLECTING)[0, 0]
    part = s_matrices(prepare(structure, 1550.0, REFLECTING, outs=outs, ins=ins), phases, 1550.0, REFLECTING)
    assert part[0, 0] == pytest.approx(whole[2:, 1:2], abs=1e-13)
    one_way = prepare(analyse(mesh_chip(6, FORWARD, "m")), 1550.0, FORWARD, outs=["out_r0"], ins=["in_r1"])
    assert one_way.transfer.columns == 1
    assert sum(one_way.transfer.counts.values()) < 2 * 15


def test_some_labels_of_a_whole_chip(process):
    card = process.activation.model_copy(update={"realisation": "onchip"})
    process = process.model_copy(update={"activation": card})
    circuit = assemble(chain(Averaging(4, 2, 2)), process, "chip", LOCAL_STRIPS)
    whole = scattering(circuit, {}, [1549.0, 1550.0], process, unbiased=0.3)
    some = [whole.modulators[-1], "carrier", next(label for label in whole.labels if label.startswith("out_"))]
    part = scattering(circuit, {}, [1549.0, 1550.0], process, unbiased=0.3, labels=some)
    assert part.labels == tuple(sorted(some))
    assert part.modulators == whole.modulators[-1:]
    assert part.s == pytest.approx(whole.between(part.labels, part.labels), abs=1e-14)


def test_samples_replace_the_cards():
    """Samples of couplers and guides equal separate processes and circuits with these values."""
    structure = analyse(with_geometry(mesh_chip(4, FORWARD, "mesh"), 1))
    phases = np.random.default_rng(1).uniform(0.0, 6.0, (1, structure.heater.size))
    uneven = [with_parameters(FORWARD, imbalance=value) for value in (0.1, -0.2)]
    couplers = next(group.instance.size for group in structure.devices if group.name == "mmi2x2")
    sample = np.stack([device_s(process, "mmi2x2", 1550.0)[0] for process in uneven])
    sample = np.broadcast_to(sample[:, np.newaxis, np.newaxis], (2, 1, couplers, 4, 4))
    longer = structure.circuit.net_length_um * np.array([[1.0], [1.01]])
    guides = net_transmission(FORWARD, longer[:, np.newaxis], 1550.0)
    plan = prepare(structure, 1550.0, FORWARD, devices={"mmi2x2": sample})
    both = np.repeat(phases, 2, axis=0)
    found = s_matrices(plan, both, 1550.0, FORWARD, devices={"mmi2x2": sample}, guides=guides)
    for k, process in enumerate(uneven):
        other = analyse(replace(structure.circuit, net_length_um=longer[k]))
        assert found[k, 0] == pytest.approx(superlu(other, phases[0], 1550.0, process), abs=1e-12)


@given(SEEDS)
@settings(max_examples=12, deadline=None)
def test_random_circuits_are_reciprocal_passive_and_lossless_ones_conserve_energy(seed):
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, 4, 0, 4)
    # couplers absorb the power that they reflect in other cases, so reflections are off
    lossless = with_parameters(PROCESS, reflection_db=-400.0, loss_db=0.0)
    guide = PROCESS.guide.model_copy(update={"loss_db_per_cm": type(PROCESS.guide.loss_db_per_cm)(0.0, "test")})
    lossless = lossless.model_copy(update={"guide": guide})
    drive = random_phases(circuit, rng)
    s = scattering(circuit, drive, 1550.0, lossless).s[0]
    assert s.conj().T @ s == pytest.approx(np.eye(len(s)), abs=1e-9)
    s = scattering(circuit, drive, 1550.0, REFLECTING).s[0]
    assert s == pytest.approx(s.T, abs=1e-13)
    assert np.linalg.norm(s, 2) <= 1.0


@given(SEEDS, st.integers(2, 6), st.integers(1, 4))
@settings(max_examples=12, deadline=None)
def test_reflecting_lossless_devices_conserve_energy_and_stay_reciprocal(ideal_process, seed, couplers, heaters):
    """Each coupler is a random symmetric unitary, so that light runs through every loop in both directions."""
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, couplers, 0, heaters)
    unitary = np.linalg.qr(rng.standard_normal((couplers, 4, 4)) + 1j * rng.standard_normal((couplers, 4, 4)))[0]
    sample = {"mmi2x2": (unitary @ unitary.swapaxes(1, 2))[np.newaxis, np.newaxis]}
    structure = analyse(circuit)
    phases = heater_phases(structure, random_phases(circuit, rng), ideal_process)
    plan = prepare(structure, 1550.0, ideal_process, devices=sample)
    s = s_matrices(plan, phases, 1550.0, ideal_process, devices=sample)[0, 0]
    assert s.conj().T @ s == pytest.approx(np.eye(len(s)), abs=1e-9)
    assert s == pytest.approx(s.T, abs=1e-9)


@pytest.mark.parametrize("realisation", ["offchip", "onchip"])
def test_whole_chips_with_photodiodes_and_modulators_agree_with_superlu(process, realisation):
    card = process.activation.model_copy(update={"realisation": realisation})
    process = process.model_copy(update={"activation": card})
    circuit = assemble(chain(Averaging(4, 2, 2)), process, "chip", LOCAL_STRIPS)
    circuit = with_geometry(circuit, 2)
    structure = analyse(circuit)
    drive = random_phases(circuit, np.random.default_rng(0))
    drive = {label: drive[label] for label in structure.channel}
    found = scattering(circuit, drive, 1550.0, process)
    expected = superlu(structure, heater_phases(structure, drive, process), 1550.0, process)
    assert found.s[0] == pytest.approx(expected, abs=1e-12)
    assert bool(found.modulators) == (realisation == "onchip")


def test_a_lossless_resonance_is_refused_and_its_instance_named(ideal_process):
    circuit, turn = ring(ideal_process)
    found = scattering(circuit, {"turn": turn + 1.0, "other": 0.0}, 1550.0, ideal_process)
    assert np.abs(found.s).max() == pytest.approx(1.0)
    with pytest.raises(InputError, match=r"'ring'.* 1550 nm.* loop,o[12]"):
        scattering(circuit, {"turn": turn, "other": 0.0}, [1550.0, 1551.0], ideal_process)
    # parts are factorised when they are first used
    structure = analyse(circuit)
    solution = solve(structure, np.array([turn, 0.0]), 1550.0, ideal_process)
    with pytest.raises(InputError, match=r" loop,o[12]"):
        for part in np.flatnonzero([ports.size for ports in structure.part_ports]).tolist():
            solution.systems.factorised(part)


def test_a_lossless_resonance_of_larger_blocks_is_refused(ideal_process):
    """Three heaters in a ring that no light from a fibre reaches."""
    b = builder("loops")
    for i in range(3):
        b.add(f"h{i}", "phase_shifter")
        add_heater(b, f"h{i}", f"turn{i}")
    for i in range(3):
        b.connect(f"h{i},o2", f"h{(i + 1) % 3},o1")
    b.add("wire", "phase_shifter")
    add_heater(b, "wire", "other")
    add_fibre(b, "in", "wire,o1")
    add_fibre(b, "out", "wire,o2")
    circuit = b.build()
    turn = ring(ideal_process)[1]
    with pytest.raises(InputError, match=r"'loops'.* h\d,o\d"):
        scattering(circuit, dict.fromkeys(("turn0", "turn1", "turn2", "other"), turn), 1550.0, ideal_process)


def test_values_that_the_plan_does_not_cover_are_refused():
    structure = analyse(mesh_chip(3, FORWARD, "mesh"))
    plan = prepare(structure, 1550.0, FORWARD)
    with pytest.raises(InputError, match="'grating_coupler'"):
        s_matrices(plan, np.zeros(structure.heater.size), 1550.0, PROCESS)
    with pytest.raises(NetlistError, match=r"\(5,\).* 6 heaters"):
        s_matrices(plan, np.zeros(5), 1550.0, FORWARD)
    with pytest.raises(NetlistError, match=r"'mmi2x2'.*\(3, 4, 4\).*\(1, 1, 12,"):
        prepare(structure, 1550.0, FORWARD, devices={"mmi2x2": np.zeros((3, 4, 4))})
    with pytest.raises(NetlistError, match=r"'l0_v_c0_r0.phi' is nan in case 1"):
        s_matrices(plan, np.array([np.zeros(6), [np.nan, *np.zeros(5)]]), 1550.0, FORWARD)
    sample = np.zeros((12, 4, 4), dtype=complex)
    sample[2, 3, 1] = np.inf
    with pytest.raises(NetlistError, match=r"'l0_v_c\d_r\d.*' of 'mmi2x2'.* inf.* o2 to o4"):
        s_matrices(plan, np.zeros(6), 1550.0, FORWARD, devices={"mmi2x2": sample})
    guides = np.ones(len(structure.circuit.nets))
    guides[0] = np.nan
    with pytest.raises(NetlistError, match=r",o\d .*finite"):
        s_matrices(plan, np.zeros(6), 1550.0, FORWARD, guides=guides)
    with pytest.raises(NetlistError, match="'ring'"):
        prepare(structure, 1550.0, FORWARD, devices={"ring": np.zeros((2, 2))})
    with pytest.raises(NetlistError, match="'nowhere'"):
        prepare(structure, 1550.0, FORWARD, outs=["nowhere"])


def test_ports_that_are_not_the_cards_are_refused():
    circuit = flatten(mesh_chip(2, PROCESS, "mesh"))
    kinds = tuple(
        replace(kind, optical=("o1", "o2", "o4", "o3")) if kind.name == "mmi2x2" else kind for kind in circuit.kinds
    )
    with pytest.raises(NetlistError, match=r"'l0_v_c0_r0.first' of 'mmi2x2' .* o1, o2, o4, o3.* o1, o2, o3"):
        scattering(replace(circuit, kinds=kinds), {}, 1550.0, PROCESS, unbiased=0.0)


def test_joining_guides_of_two_widths_is_refused():
    b = builder("wide")
    b.add("taper", "taper")
    b.add("wire", "phase_shifter")
    add_heater(b, "wire", "other")
    b.connect("taper,o2", "wire,o1")
    add_fibre(b, "in", "taper,o1")
    add_fibre(b, "out", "wire,o2")
    with pytest.raises(NetlistError, match=r"taper,o2 .* 2 µm .*wire,o1.* 0.45 µm"):
        scattering(b.build(), {"other": 0.0}, 1550.0, PROCESS)
    b = builder("tapers")
    for name in ("in", "out"):
        b.add(f"taper_{name}", "taper")
        add_fibre(b, name, f"taper_{name},o1")
    b.connect("taper_in,o2", "taper_out,o2")
    assert np.abs(scattering(b.build(), {}, 1550.0, PROCESS).s).max() > 0.1


def test_halves_are_compact():
    """On a square grid of 32 × 32, nested halves cut about as few edges as straight lines."""
    size = 32
    number = np.arange(size * size).reshape(size, size)
    a = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    b = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    levels = nested_halves(number.size, a, b, np.zeros(number.size, dtype=np.int64))
    assert len(levels) == 11
    assert np.array_equal(levels[-1] // 2, levels[-2])
    assert np.bincount(levels[1]).tolist() == [512, 512]
    cut = [int((level[a] != level[b]).sum()) for level in levels[:5]]
    assert cut[0] == 0
    assert cut[1] <= 2 * size
    assert cut[4] <= 12 * size


def test_cells_are_reduced_as_long_as_the_number_of_ports_does_not_grow():
    structure = analyse(mesh_chip(6, PROCESS, "mesh"))
    plan = prepare(structure, 1550.0, PROCESS)
    assert max(max(plan.shapes[joint.target][1:]) for joint in plan.joints) == 4
    # 15 MZIs remain, with their dummies and fibres
    assert sum(star.ports.shape[0] for each in plan.rounds for star in each.stars) == 15 - 1


def edges(seed, count, density):
    rng = np.random.default_rng(seed)
    tail, head = rng.integers(0, count, (2, int(density * count)))
    return tail, head, coo_array((np.ones(tail.size), (tail, head)), shape=(count, count)).tocsr()


@given(SEEDS, st.integers(1, 60), st.floats(0.0, 2.0))
def test_reachable_nodes_are_those_of_scipy(seed, count, density):
    tail, head, graph = edges(seed, count, density)
    start = np.zeros(count, dtype=bool)
    start[[0, count // 2]] = True
    expected = np.zeros(count, dtype=bool)
    for node in np.flatnonzero(start):
        expected[breadth_first_order(graph, node, return_predecessors=False)] = True
    assert np.array_equal(reachable(tail, head, start), expected)


def test_planning_a_circuit_without_loops_does_not_import_scipy_sparse():
    code = (
        "import sys; from optinc_pdk.assemble import mesh_chip; from optinc_pdk.cards import load_process\n"
        "from optinc_pdk.simulate import analyse; from optinc_pdk.simulate.s_parameters._plan import plan_circuit\n"
        "import numpy as np; process = load_process()\n"
        "found = analyse(mesh_chip(3, process, 'm'))\n"
        "one_way = [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]]\n"
        "size = {n: group.port.shape[1] for n, group in enumerate(found.devices)}\n"
        "patterns = {n: np.array(one_way if p == 4 else 1 - np.eye(p), dtype=bool) for n, p in size.items()}\n"
        "assert plan_circuit(found, patterns, found.labels, found.labels).transfer.steps\n"
        "print('scipy.sparse' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
