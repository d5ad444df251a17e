"""Small circuits, processes without imperfections, and independent solvers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.assemble._component_library import device_types
from optinc_pdk.cards import Quantity, load_process
from optinc_pdk.circuit import CircuitBuilder, flatten
from optinc_pdk.models import device_s, net_transmission
from optinc_pdk.networks import carry_chain, without_output_bias
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.s_parameters.files import write_scattering

PROCESS = load_process()
_IDEAL = {"loss_db": 0.0, "imbalance": 0.0, "reflection_db": -400.0}


def with_parameters(process, **changes):
    """The process with model parameters changed in every device that has them."""
    devices = {}
    for name, device in process.devices.items():
        parameters = {key: Quantity(changes.get(key, value), "test") for key, value in device.model.parameters.items()}
        devices[name] = device.model_copy(update={"model": device.model.model_copy(update={"parameters": parameters})})
    return process.model_copy(update={"devices": devices})


@pytest.fixture(scope="session")
def process():
    return PROCESS


@pytest.fixture(scope="session")
def ideal_process():
    """No loss, no imbalance, no reflection; guides keep their phases."""
    guide = PROCESS.guide.model_copy(update={"loss_db_per_cm": Quantity(0.0, "test")})
    return with_parameters(PROCESS.model_copy(update={"guide": guide}), **_IDEAL)


def builder(name="small"):
    return CircuitBuilder(name, device_types(PROCESS))


def add_heater(b, instance, label):
    """A pad for one phase shifter, and ground for its other end."""
    b.add(f"pad_{label}", "pad")
    b.ports[label] = f"pad_{label},e1"
    b.connect(f"pad_{label},e1", f"{instance},e1")
    if "pad_GND0" not in b.instances:
        b.add("pad_GND0", "pad")
        b.ports["GND0"] = "pad_GND0,e1"
    b.connect("pad_GND0,e1", f"{instance},e2")


def add_fibre(b, label, port):
    b.add(f"fibre_{label}", "grating_coupler")
    b.ports[label] = f"fibre_{label},o2"
    b.connect(f"fibre_{label},o1", port)


def random_circuit(rng, couplers=3, splitters=2, heaters=3, others=0):
    """Devices connected at random, loops included; remaining ports are fibres. ``others`` counts each other device."""
    b = builder("random")
    ends = []
    for count, component, ports in (
        (couplers, "mmi2x2", 4),
        (splitters, "mmi1x2", 3),
        (heaters, "phase_shifter", 2),
        (others, "crossing", 4),
        (others, "directional_coupler", 4),
        (others, "edge_coupler", 2),
        (others, "terminator", 1),
    ):
        for i in range(count):
            name = b.add(f"{component}_{i}", component)
            ends += [f"{name},o{port}" for port in range(1, ports + 1)]
            if component == "phase_shifter":
                add_heater(b, name, f"h{i}")
    order = rng.permutation(len(ends))
    fibres = 4 - len(ends) % 2
    for i in range(fibres, len(ends) - 1, 2):
        b.connect(ends[order[i]], ends[order[i + 1]])
    for i in range(fibres):
        add_fibre(b, f"f{i}", ends[order[i]])
    circuit = b.build()
    return replace(circuit, net_length_um=rng.uniform(0.0, 50.0, len(circuit.nets)))


def random_phases(circuit, rng):
    light = circuit.optical_mask()
    labels = [k for k, port in circuit.ports.items() if not light[port] and not k.startswith("GND")]
    return {label: float(rng.uniform(0.0, 2 * np.pi)) for label in sorted(labels)}


def ring(process):
    """A closed loop with a heater beside a heated guide, and the loop's phase in resonance."""
    b = builder("ring")
    b.add("loop", "phase_shifter")
    add_heater(b, "loop", "turn")
    b.connect("loop,o1", "loop,o2")
    b.add("wire", "phase_shifter")
    add_heater(b, "wire", "other")
    add_fibre(b, "in", "wire,o1")
    add_fibre(b, "out", "wire,o2")
    length = process.device("phase_shifter").size("length_um")
    return b.build(), -2 * np.pi * process.guide.index * length / (process.guide.wavelength_nm * 1e-3) % (2 * np.pi)


def dense_scattering(circuit, phases, wavelength_nm, process):
    """S between fibres by block elimination of dense matrices; shares only the models with the solver."""
    on_net = circuit.electrical_labels()
    offset, light = circuit.offset, circuit.optical_mask()
    number = np.cumsum(light) - 1
    n = int(light.sum())
    devices = np.zeros((n, n), dtype=complex)
    for i in range(len(circuit.instances)):
        kind = circuit.kinds[circuit.kind[i]]
        if not kind.optical:
            continue
        ports = number[offset[i] : offset[i] + len(kind.optical)]
        phase = 0.0
        for port in range(offset[i] + len(kind.optical), offset[i + 1]):
            for label in on_net.get(int(circuit.electrical[port]), ()):
                phase = phases.get(label, phase)
        devices[np.ix_(ports, ports)] = device_s(process, kind.name, wavelength_nm, phase)[0]
    joints = np.zeros((n, n), dtype=complex)
    lengths = circuit.net_length_um if circuit.net_length_um.size else np.zeros(len(circuit.nets))
    for (a, b), length in zip(number[circuit.nets], lengths, strict=True):
        joints[a, b] = joints[b, a] = net_transmission(process, length, wavelength_nm)
    labels = sorted(label for label, port in circuit.ports.items() if light[port])
    outer = [int(number[circuit.ports[label]]) for label in labels]
    inner = [port for port in range(n) if port not in outer]
    ee, ei = devices[np.ix_(outer, outer)], devices[np.ix_(outer, inner)]
    ie, ii = devices[np.ix_(inner, outer)], devices[np.ix_(inner, inner)]
    joint = joints[np.ix_(inner, inner)]
    return labels, ee + ei @ np.linalg.solve(np.eye(len(inner)) - joint @ ii, joint @ ie)


def with_file(process, device, path, s, ports, wavelengths_nm):
    """Write S-parameters to a file; the process with a device that reads it."""
    write_scattering(wavelengths_nm, [Scattering(wavelengths_nm, ports, s)], path)
    card = process.devices[device]
    card = card.model_copy(update={"model": card.model.model_copy(update={"file": path})})
    return process.model_copy(update={"devices": {**process.devices, device: card}})


def chain(task):
    return replace(without_output_bias(carry_chain(task)), card={})


def with_geometry(circuit, seed, wire_ohm=80.0):
    """A circuit as extracted from a layout: equal arms inside MZIs, random lengths elsewhere, resistances."""
    flat = flatten(circuit)
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(flat.instances)), np.diff(flat.offset))[flat.nets]
    parent = np.array([name.rpartition(".")[0] for name in flat.instances])[owner]
    inside = (parent[:, 0] == parent[:, 1]) & (parent[:, 0] != "")
    heated = flat.instances_of("phase_shifter")
    columns = {"resistance_ohm": 1100.0, "wire_ohm": wire_ohm}
    settings = {key: np.full(len(flat.instances), np.nan) for key in columns}
    for key, value in columns.items():
        settings[key][heated] = value * rng.uniform(0.9, 1.1, heated.size)
    lengths = np.where(inside, 30.0, rng.uniform(30.0, 330.0, len(flat.nets)))
    return replace(flat, settings=settings, net_length_um=lengths)


def all_words(task):
    """Every combination of the servers' words as symbols, (words, servers, M)."""
    return task.encode(np.array(list(product(range(2**task.bits), repeat=task.servers))))


def chip(onn, process, seed=1):
    """A network's circuit with a geometry, and its board."""
    circuit = assemble(onn, process, "chip")
    return with_geometry(circuit, seed), circuit.board


def two_heaters():
    """A guide from one fibre to another through two heaters, each with a pad."""
    b = builder()
    for name in ("first", "second"):
        b.add(name, "phase_shifter")
        add_heater(b, name, f"pad_of_{name}")
    b.connect("first,o2", "second,o1")
    add_fibre(b, "in", "first,o1")
    add_fibre(b, "out", "second,o2")
    return b.build()
