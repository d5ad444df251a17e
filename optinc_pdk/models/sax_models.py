"""Our models as SAX models, made on demand. SAX speaks µm where we speak nm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from optinc_pdk.cards import Device, Process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.models.registry import MODULATORS, device_s


def sax_models(process: Process) -> dict[str, Callable[..., dict[tuple[str, str], Any]]]:
    """A SAX model for every device of a process that carries light.

    Each takes ``wl`` in µm, a number or an array, where the device has a heater ``phase`` in rad, and where it
    modulates ``amplitude``; it returns an S-dictionary of JAX arrays. The models are numpy inside: call circuits
    eagerly, they cannot be traced by jit.

    Args:
        process: Process whose cards hold the parameters.

    Returns:
        Device name to model, for ``sax.circuit(netlist, models=...)``. JAX is imported when one is called.
    """
    return {name: _sax_model(process, card) for name, card in process.devices.items() if card.ports.optical}


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
