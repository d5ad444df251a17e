"""Our models as SAX models, made on demand. SAX speaks µm where we speak nm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from optinc_pdk.cards import Device, Process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.models.registry import MODULATORS, device_s


def sax_models(process: Process, electrical: bool = False) -> dict[str, Callable[..., dict[tuple[str, str], Any]]]:
    """A SAX model for every device of a process that carries light.

    Each takes ``wl`` in µm, a number or an array, where the device has a heater ``phase`` in rad, and where it
    modulates ``amplitude``; it returns an S-dictionary of JAX arrays. The models are numpy inside: call circuits
    eagerly, they cannot be traced by jit.

    Args:
        process: Process whose cards hold the parameters.
        electrical: Whether electrical ports are there too, dark, and pads: a ``.pic.yml`` has wires, which SAX looks
            for in the models.

    Returns:
        Device name to model, for ``sax.circuit(netlist, models=...)``. JAX is imported when one is called.
    """
    models = {name: _sax_model(process, card) for name, card in process.devices.items() if card.ports.optical}
    if not electrical:
        return models
    return {
        name: _with_dark(name, card.ports.electrical, models.get(name)) if card.ports.electrical else models[name]
        for name, card in process.devices.items()
        if card.ports.electrical or card.ports.optical
    }


def sax_cells(circuit: Circuit, process: Process) -> dict[str, Callable[..., dict[tuple[str, str], Any]]]:
    """A SAX model for every cell of a hierarchical circuit, its electrical ports dark.

    With these, and ``sax_models(process, electrical=True)``, a ``.pic.yml`` runs as it is: SAX's own hierarchy joins
    two heaters of a cell to one ground, and its klu refuses the entries that meet there.

    Args:
        circuit: As read from the file.
        process: Process whose cards hold the parameters.
    """
    import sax

    models = sax_models(process)
    found = {}
    for name, cell in circuit.cells.items():
        light = cell.optical_mask()
        dark = [label for label, port in cell.ports.items() if not light[port]]
        model, _ = sax.circuit(netlist=sax_netlist(cell), models=models, backend="klu")
        found[name] = _with_dark(name, dark, model)
    return found


def sax_netlist(circuit: Circuit) -> dict[str, Any]:
    """The optical part of a circuit as a flat SAX netlist; heaters and pads are settings and wires to SAX.

    Args:
        circuit: Flat or hierarchical; guides between devices are taken as joints without length.

    Returns:
        ``{"instances": ..., "nets": ..., "ports": ...}``; an instance ``a.b`` of the flat circuit is called ``a_b``,
        ports are fibre labels.
    """
    flat = flatten(circuit)
    light = flat.optical_mask()

    def name(port: int) -> str:
        return flat.port_name(port).replace(".", "_")

    kinds = [flat.kinds[kind] for kind in flat.kind]
    return {
        "instances": {
            instance.replace(".", "_"): {"component": kind.name}
            for instance, kind in zip(flat.instances, kinds, strict=True)
            if kind.optical
        },
        "nets": [{"p1": name(a), "p2": name(b)} for a, b in flat.nets.tolist()],
        "ports": {label: name(port) for label, port in flat.ports.items() if light[port]},
    }


def _with_dark(
    name: str, ports: Sequence[str], model: Callable[..., Any] | None
) -> Callable[..., dict[tuple[str, str], Any]]:
    """A model with electrical ports, at which no light comes out; a pad has no others."""

    def dark() -> dict[tuple[str, str], Any]:
        import jax.numpy as jnp

        return {(port, port): jnp.asarray(0.0) for port in ports}

    if model is None:
        dark.__name__ = name
        return dark

    @wraps(model)
    def lit(**settings: Any) -> dict[tuple[str, str], Any]:
        import sax

        return dict(sax.sdict(model(**settings))) | dark()

    return lit


def _sax_model(process: Process, card: Device) -> Callable[..., dict[tuple[str, str], Any]]:
    def s_dictionary(wl: Any, phase: Any = 0.0, amplitude: Any = 1.0) -> dict[tuple[str, str], Any]:
        import jax.numpy as jnp

        wavelengths = np.asarray(wl, dtype=np.float64) * 1e3
        s = device_s(process, card.name, wavelengths.reshape(-1), np.asarray(phase), amplitude=np.asarray(amplitude))
        s = s.reshape(*wavelengths.shape, *s.shape[1:])
        ports = card.ports.optical
        return {
            (a, b): jnp.asarray(s[..., j, i])
            for i, a in enumerate(ports)
            for j, b in enumerate(ports)
            if i == j or np.any(s[..., j, i])
        }

    reference_um = float(process.guide.wavelength_nm) * 1e-3
    heater = bool(card.ports.electrical) and card.model.name not in MODULATORS
    if card.model.name == "phase_shifter" or (heater and card.model.file is not None):

        def heated(*, wl: Any = reference_um, phase: Any = 0.0) -> dict[tuple[str, str], Any]:
            return s_dictionary(wl, phase)

        model: Callable[..., dict[tuple[str, str], Any]] = heated
    elif card.model.name in MODULATORS:

        def driven(*, wl: Any = reference_um, amplitude: Any = 1.0) -> dict[tuple[str, str], Any]:
            return s_dictionary(wl, amplitude=amplitude)

        model = driven
    else:

        def passive(*, wl: Any = reference_um) -> dict[tuple[str, str], Any]:
            return s_dictionary(wl)

        model = passive
    model.__name__ = card.name
    return model
