"""The solver against dense algebra, SAX, finite differences and conservation laws."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
import sax
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.circuit import NetlistError, flatten, named_nets
from optinc_pdk.errors import InputError
from optinc_pdk.models import ModelError, sax_models, sax_netlist
from optinc_pdk.simulate import analyse, heater_phases, scattering, solve

from .conftest import (
    PROCESS,
    dense_scattering,
    random_circuit,
    random_phases,
    with_file,
    with_parameters,
)

SEEDS = st.integers(0, 2**32 - 1)
# Strong reflections, so that loops have an effect.
REFLECTING = with_parameters(PROCESS, reflection_db=-12.0, loss_db=3.0)


@given(SEEDS, st.integers(1, 5), st.integers(0, 4), st.integers(1, 4))
@settings(max_examples=30)
def test_agrees_with_dense_elimination(seed, couplers, splitters, heaters):
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, couplers, splitters, heaters)
    phases = random_phases(circuit, rng)
    for process in (PROCESS, REFLECTING):
        found = scattering(circuit, phases, [1540.0, 1555.0], process)
        for i, wavelength in enumerate(found.wavelengths_nm):
            labels, s = dense_scattering(circuit, phases, wavelength, process)
            assert list(found.labels) == labels
            assert found.s[i] == pytest.approx(s, abs=1e-12)


def sax_accepts(circuit):
    """Whether SAX can simulate a circuit: all parts are reached from a port, and no device is joined to itself."""
    instance = np.searchsorted(circuit.offset, circuit.nets, side="right") - 1
    reached = {circuit.port_name(port).split(",")[0] for label, port in circuit.ports.items() if label.startswith("f")}
    pairs = [(circuit.instances[a], circuit.instances[b]) for a, b in instance.tolist()]
    for _ in pairs:
        reached |= {name for pair in pairs if reached & set(pair) for name in pair}
    optical = {name for pair in pairs for name in pair}
    return optical <= reached and all(a != b for a, b in pairs)


@pytest.fixture(scope="module")
def full_process(tmp_path_factory):
    """A process with a 2×2 coupler from a file: not reciprocal, and every S-parameter is nonzero."""
    rng = np.random.default_rng(2)
    s = rng.standard_normal((2, 4, 4)) + 1j * rng.standard_normal((2, 4, 4))
    s *= 0.9 / np.linalg.norm(s, 2, axis=(1, 2)).max()
    path = tmp_path_factory.mktemp("full") / "coupler.npz"
    return with_file(REFLECTING, "mmi2x2", path, s, ("o1", "o2", "o3", "o4"), np.array([1540.0, 1560.0]))


@given(SEEDS, st.integers(1, 5), st.integers(0, 4), st.integers(1, 4), st.integers(0, 2))
@settings(max_examples=20)
def test_any_device_agrees_with_dense_elimination(full_process, seed, couplers, splitters, heaters, others):
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, couplers, splitters, heaters, others)
    phases = random_phases(circuit, rng)
    labels, s = dense_scattering(circuit, phases, 1545.0, full_process)
    found = scattering(circuit, phases, 1545.0, full_process)
    assert list(found.labels) == labels
    assert found.s[0] == pytest.approx(s, abs=1e-12)
    assert np.linalg.norm(found.s[0], 2) <= 1.0


@pytest.mark.full
@given(SEEDS, st.integers(1, 4), st.integers(0, 3), st.integers(1, 4), st.integers(0, 2), st.booleans())
@settings(max_examples=3, deadline=None)
def test_agrees_with_sax(full_process, seed, couplers, splitters, heaters, others, full):
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, couplers, splitters, heaters, others)
    circuit = replace(circuit, net_length_um=np.zeros(0))
    assume(sax_accepts(circuit))
    phases = random_phases(circuit, rng)
    process = full_process if full else REFLECTING
    found = scattering(circuit, phases, [1545.0, 1550.0], process)
    light = circuit.optical_mask()
    names = [kind.name for kind in circuit.kinds]
    instances = {
        name: names[kind] for name, kind in zip(circuit.instances, circuit.kind, strict=True) if names[kind] != "pad"
    }
    netlist = {
        "instances": instances,
        "connections": {a: b for a, b in named_nets(circuit) if ",o" in a},
        "ports": {label: circuit.port_name(port) for label, port in circuit.ports.items() if light[port]},
    }
    model, _ = sax.circuit(netlist=netlist, models=sax_models(process), backend="klu")
    heat = {f"phase_shifter_{i}": {"phase": phases[f"h{i}"]} for i in range(heaters)}
    theirs = sax.sdict(model(wl=np.array([1.545, 1.55]), **heat))
    for i, into in enumerate(found.labels):
        for j, out in enumerate(found.labels):
            assert found.s[:, j, i] == pytest.approx(np.asarray(theirs[into, out]), abs=1e-9)


@pytest.mark.full(every=3)
@pytest.mark.parametrize("modes", [2, 3, 7, 16])
def test_meshes_agree_with_sax(modes):
    """The same netlist and models in SAX; ``benchmarks/bench_simulate.py`` compares all meshes up to 16 modes."""
    jax.config.update("jax_enable_x64", True)
    circuit = flatten(mesh_chip(modes, PROCESS, "mesh"))
    phases = random_phases(circuit, np.random.default_rng(modes))
    model, _ = sax.circuit(netlist=sax_netlist(circuit), models=sax_models(PROCESS), backend="klu")
    structure = analyse(circuit)
    heat = {
        circuit.instances[heater].replace(".", "_"): {"phase": phases[channel]}
        for heater, channel in zip(structure.heater.tolist(), structure.channel, strict=True)
    }
    theirs = sax.sdict(model(**heat))
    found = scattering(circuit, phases, 1550.0, PROCESS)
    matrix = np.array([[complex(theirs[a, b]) for a in found.labels] for b in found.labels])
    assert found.s[0] == pytest.approx(matrix, abs=1e-9)


def test_derivatives_agree_with_finite_differences():
    rng = np.random.default_rng(5)
    circuit = random_circuit(rng, 5, 3, 6)
    structure = analyse(circuit)
    phases = heater_phases(structure, random_phases(circuit, rng), REFLECTING)
    solution = solve(structure, phases, 1550.0, REFLECTING)
    near = solution.at_heaters(solution.fields(structure.labels))
    heaters = np.arange(phases.size)
    exact = solution.derivative(near, near, heaters)
    step = 1e-5
    for heater in heaters:
        sides = []
        for sign in (1.0, -1.0):
            moved = phases.copy()
            moved[heater] += sign * step
            side = solve(structure, moved, 1550.0, REFLECTING)
            sides.append(side.s(side.fields(structure.labels)))
        assert exact[heater] == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-9)
    assert np.abs(exact).max() > 1e-3


def test_wavelength_outside_the_cards_names_the_instance(process):
    circuit = random_circuit(np.random.default_rng(0))
    phases = random_phases(circuit, np.random.default_rng(0))
    with pytest.raises(ModelError, match=r"'.*_.*'.* 1700 nm .* 1500 … 1600 nm"):
        scattering(circuit, phases, 1700.0, process)


def test_between_picks_by_label(process):
    circuit = random_circuit(np.random.default_rng(0))
    found = scattering(circuit, random_phases(circuit, np.random.default_rng(0)), [1540.0, 1550.0], process)
    first, last = found.labels[0], found.labels[-1]
    assert np.array_equal(found.between([last], [first])[:, 0, 0], found.s[:, -1, 0])
    with pytest.raises(NetlistError, match="'zz'"):
        found.between(["zz"], [first])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"circuit": "a.pic.yml"}, r"circuit = 'a.pic.yml'.* Circuit"),
        ({"drive": "a.bias.yml"}, r"drive = 'a.bias.yml'.* Bias .* Mapping"),
        ({"process": "soi220"}, r"process = 'soi220'.* Process"),
        ({"labels": "in"}, "labels = 'in'"),
        ({"wavelengths_nm": [[1540.0], [1550.0]]}, r"\(2, 1\)"),
        ({"wavelengths_nm": []}, r"\(0,\)"),
        ({"wavelengths_nm": "green"}, "wavelengths_nm has dtype <U5"),
    ],
)
def test_arguments_of_another_type_are_refused(process, change, said):
    circuit = random_circuit(np.random.default_rng(0))
    given_all = {"circuit": circuit, "drive": {}, "wavelengths_nm": 1550.0, "process": process}
    with pytest.raises(InputError, match=said):
        scattering(**given_all | change)
