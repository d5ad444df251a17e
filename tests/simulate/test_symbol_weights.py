"""P alone: its S-parameters against NumPy and SAX, and the weights that its trims give the symbols of a group."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import sax

from optinc_pdk.assemble import symbol_levels
from optinc_pdk.assemble._component_library import device_types
from optinc_pdk.assemble._layer_parts import add_fibre
from optinc_pdk.assemble.die_plan import add_common_grounds
from optinc_pdk.assemble.preprocessing import add_preprocessing
from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import CircuitBuilder
from optinc_pdk.models import sax_models, sax_netlist
from optinc_pdk.simulate import analyse, scattering
from optinc_pdk.simulate.programming.initial_phases import detunings

from .conftest import PROCESS, random_phases, with_parameters

FORWARD = with_parameters(PROCESS, reflection_db=-400.0, imbalance=0.0)
TASKS = [Averaging(4, 4, 1), Averaging(8, 3, 2), Averaging(8, 2, 1)]


def preprocessing(task, process):
    """P with a fibre at the sum of each group, without guide lengths."""
    b = CircuitBuilder("p", device_types(process))
    add_common_grounds(b)
    for group, port in enumerate(add_preprocessing(b, task, process)):
        b.connect(port, add_fibre(b, "grating_coupler", f"sum_{group}", "l0", group)[0])
    return b.build()


def sums(found, task, wavelength=0):
    """(K, servers, M) transmissions from every input to every sum."""
    inputs = [f"in_s{server}_m{symbol}" for server in range(task.servers) for symbol in range(task.symbols)]
    s = found.between([f"sum_{group}" for group in range(task.groups)], inputs)[wavelength]
    return s.reshape(task.groups, task.servers, task.symbols)


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_transmissions_follow_from_the_levels(task):
    circuit = preprocessing(task, FORWARD)
    phases = random_phases(circuit, np.random.default_rng(1))
    found = sums(scattering(circuit, phases, 1550.0, FORWARD), task)
    fibre = 10 ** (-FORWARD.device("grating_coupler").parameter("loss_db") / 20)
    branch = 10 ** (-FORWARD.device("mmi1x2").parameter("loss_db") / 20) / np.sqrt(2)
    heated_cm = FORWARD.device("phase_shifter").size("length_um") / 1e4
    trim = 10 ** (-float(FORWARD.guide.loss_db_per_cm) * heated_cm / 20)
    levels = symbol_levels(task, FORWARD)
    reference = np.abs(found).max()
    for group in range(task.groups):
        for symbol in range(task.symbols):
            own, place = divmod(symbol, task.group_symbols)
            for server in range(task.servers):
                expected = 0.0 if own != group else trim * fibre**2 * branch ** levels[place]
                assert abs(found[group, server, symbol]) == pytest.approx(expected, rel=1e-6, abs=1e-9 * reference)


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_trims_give_base_4_weights_whose_quadratures_cancel(task):
    """Also where splitters are unequal, so that servers differ."""
    process = with_parameters(FORWARD, imbalance=0.02)
    circuit = preprocessing(task, process)
    dark = {label: 0.0 for label in analyse(circuit).channel}
    at_zero = sums(scattering(circuit, dark, 1550.0, process), task)
    phases, size = dict(dark), task.group_symbols
    share = np.tile(task.symbol_shares / task.servers, task.servers)
    for group in range(task.groups):
        fields = at_zero[group, :, group * size : (group + 1) * size].reshape(-1)
        turned = detunings(np.abs(fields), share) - np.angle(fields)
        for (server, place), phase in zip(np.ndindex(task.servers, size), turned.tolist(), strict=True):
            phases[f"trim_s{server}_m{group * size + place}"] = phase
    found = sums(scattering(circuit, phases, 1550.0, process), task)
    for group in range(task.groups):
        fields = found[group, :, group * size : (group + 1) * size].reshape(-1)
        realised = fields.real / fields.real.sum()
        np.testing.assert_allclose(realised, share, rtol=1e-6)
        # the local oscillator is aligned to the sum weighted with the shares
        assert abs(np.angle(share @ fields)) < 0.01
        # most light is detected
        strongest = fields[::size]
        assert np.all(strongest.real > 0.95 * np.abs(strongest))


def test_agrees_with_sax():
    jax.config.update("jax_enable_x64", True)
    task = Averaging(8, 3, 2)
    circuit = preprocessing(task, PROCESS)
    phases = random_phases(circuit, np.random.default_rng(2))
    model, _ = sax.circuit(netlist=sax_netlist(circuit), models=sax_models(PROCESS), backend="klu")
    structure = analyse(circuit)
    heat = {
        circuit.instances[heater]: {"phase": phases[channel]}
        for heater, channel in zip(structure.heater.tolist(), structure.channel, strict=True)
    }
    theirs = sax.sdict(model(**heat))
    found = scattering(circuit, phases, 1550.0, PROCESS)
    for i, into in enumerate(found.labels):
        for j, out in enumerate(found.labels):
            assert found.s[0, j, i] == pytest.approx(np.asarray(theirs[into, out]).item(), abs=1e-9)
