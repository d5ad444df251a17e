"""SAX's rows of bench_simulate.py, in the forms in which it is fastest, and its difference to this package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from mesh_runs import NEGLIGIBLE, REPEATS, WAVELENGTH_NM, Run, Stopwatch, drive, peak_mb, process_of, seconds

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.models import device_s, effective_index, sax_models, sax_netlist
from optinc_pdk.simulate import analyse, scattering


def coordinates(entries: dict[tuple[int, int], complex], ports: tuple[str, ...]) -> tuple[Any, Any, Any, Any]:
    """SAX's coordinate form: rows [in], columns [out], values, and the ports' numbers."""
    into, out = np.array(list(entries)).T
    return into, out, np.array(list(entries.values())), {port: place for place, port in enumerate(ports)}


def phase_of_wavelength(process: Process) -> Callable[[Any], Any]:
    """A JAX function of wavelength in µm: phase of a heated guide in rad, relative to 1550 nm."""
    import jax.numpy as jnp

    strip, length = process.guide, process.devices["phase_shifter"].size("length_um")
    index_here = float(effective_index(WAVELENGTH_NM, strip.index, strip.group_index, strip.wavelength_nm))
    slope = (strip.index - strip.group_index) / strip.wavelength_nm

    def phase_at(wl: Any) -> Any:
        index = strip.index + slope * (wl * 1e3 - strip.wavelength_nm)
        return 2.0 * jnp.pi * length * (index / wl - index_here / (WAVELENGTH_NM * 1e-3))

    return phase_at


def sax_devices(process: Process) -> dict[str, Callable[..., Any]]:
    """JAX models of a process's devices without reflections, traceable by jit."""
    import jax.numpy as jnp

    phase_at = phase_of_wavelength(process)

    def model(name: str) -> Callable[..., Any]:
        ports = process.devices[name].ports.optical
        s = device_s(process, name, WAVELENGTH_NM)[0].T
        kept = {(i, j): s[i, j] for i in range(len(ports)) for j in range(len(ports)) if abs(s[i, j]) > NEGLIGIBLE}
        into, out, value, places = coordinates(kept or {(0, 0): 0.0j}, ports)
        if name != "phase_shifter":
            return lambda *, wl=WAVELENGTH_NM * 1e-3: (into, out, jnp.asarray(value), places)
        return lambda *, wl=WAVELENGTH_NM * 1e-3, phase=0.0: (
            into,
            out,
            value * jnp.exp(1j * (phase_at(wl) + phase)),
            places,
        )

    return {name: model(name) for name in ("mmi2x2", "phase_shifter", "grating_coupler", "terminator")}


def whole_mzis(process: Process) -> dict[str, Callable[..., Any]]:
    """JAX models of an MZI and a dummy as one device each, with their products written out."""
    import jax.numpy as jnp

    coupler = device_s(process, "mmi2x2", WAVELENGTH_NM)[0]
    bar, cross = complex(coupler[1, 2]), complex(coupler[1, 3])
    guide = complex(device_s(process, "phase_shifter", WAVELENGTH_NM)[0, 0, 1])
    phase_at = phase_of_wavelength(process)
    # S is outer (inner a + b) from o2 and inner c + d from o1, to o3 and o4
    paths = {(1, 2): (bar * bar, cross * cross), (1, 3): (cross * bar, bar * cross)}
    paths |= {(0, 2): (bar * cross, cross * bar), (0, 3): (cross * cross, bar * bar)}
    paths |= {(j, i): value for (i, j), value in paths.items()}
    into, out, _, places = coordinates(dict.fromkeys(paths, 0.0j), ("o1", "o2", "o3", "o4"))
    through, past = np.array(list(paths.values())).T
    outer_too = np.array([1 in way for way in paths])

    def mzi(*, wl: Any = WAVELENGTH_NM * 1e-3, phi: Any = 0.0, theta: Any = 0.0) -> Any:
        arm = guide * jnp.exp(1j * phase_at(wl))
        inner, outer = arm * jnp.exp(1j * jnp.asarray(theta)), arm * jnp.exp(1j * jnp.asarray(phi))
        return into, out, (inner * through + past) * jnp.where(outer_too, outer, 1.0), places

    dummy = coordinates({(0, 1): 2.0 * bar * cross, (1, 0): 2.0 * bar * cross}, ("o1", "o2"))

    def mzi_dummy(*, wl: Any = WAVELENGTH_NM * 1e-3) -> Any:
        return dummy

    return {"mzi_unit": mzi, "mzi_dummy": mzi_dummy, "grating_coupler": sax_devices(process)["grating_coupler"]}


def sax_settings(circuit: Circuit) -> dict[str, dict[str, float]]:
    """Phases of all heaters by SAX's instance names."""
    structure, phases = analyse(circuit), drive(circuit)
    return {
        structure.circuit.instances[heater].replace(".", "_"): {"phase": phases[channel]}
        for heater, channel in zip(structure.heater.tolist(), structure.channel, strict=True)
    }


def by_sax(modes: int, jit: bool, whole: bool = False, dictionary: bool = False) -> Run:
    """Simulate a mesh without reflections by SAX's klu backend.

    Args:
        modes: Modes of the mesh.
        jit: Whether to compile; the first result then includes compilation.
        whole: Whether an MZI is one device, which removes most of the circuit.
        dictionary: Whether to return SAX's default form, a dictionary, instead of dense arrays.
    """
    import jax
    import sax

    jax.config.update("jax_enable_x64", True)
    process = process_of(False)
    circuit = mesh_chip(modes, process, "mesh")
    if whole:
        phases = drive(circuit)
        settings = {
            name: {end: phases[f"{name}_{end}"] for end in ("phi", "theta")}
            for name in circuit.instances
            if f"{name}_theta" in phases
        }
        netlist, models = sax_netlist(replace(circuit, cells={})), whole_mzis(process)
    else:
        netlist, settings = sax_netlist(circuit), sax_settings(circuit)
        models = sax_devices(process)
    watch = Stopwatch()
    form = "SDict" if dictionary else "SDense"
    model, _ = sax.circuit(netlist=netlist, models=models, backend="klu", return_type=form)
    ports: dict[str, int] = {}

    def dense(wl: Any) -> Any:
        s, places = sax.sdense(model(wl=wl, **settings))
        ports.update(places)
        return s

    call = jax.jit(dense) if jit else dense
    found = jax.block_until_ready(
        model(wl=WAVELENGTH_NM * 1e-3, **settings) if dictionary else call(WAVELENGTH_NM * 1e-3)
    )
    first = watch.read()
    if dictionary:
        return Run(first, None, None, peak_mb(), None)
    labels = sorted(ports)
    order = [ports[label] for label in labels]
    # SAX has them [in, out]
    s = np.asarray(found)[np.ix_(order, order)].T
    further = seconds(lambda: jax.block_until_ready(call(1.551)), REPEATS if jit else 1)
    return Run(first, further, None, peak_mb(), s)


def agreement(modes: int) -> float:
    """Largest difference to SAX's klu backend, with the same models, reflections included."""
    import jax
    import sax

    jax.config.update("jax_enable_x64", True)
    process = process_of(True)
    circuit = mesh_chip(modes, process, "mesh")
    model, _ = sax.circuit(netlist=sax_netlist(circuit), models=sax_models(process), backend="klu")
    theirs = sax.sdict(model(**sax_settings(circuit)))
    found = scattering(flatten(circuit), drive(circuit), WAVELENGTH_NM, process)
    matrix = np.array([[complex(theirs[a, b]) for a in found.labels] for b in found.labels])
    return float(np.abs(found.s[0] - matrix).max())
