"""Our models as SAX models, made on demand. SAX speaks µm where we speak nm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from optinc_pdk.cards import Device, Process
from optinc_pdk.models.registry import device_s


def sax_models(process: Process) -> dict[str, Callable[..., dict[tuple[str, str], Any]]]:
    """A SAX model for every device of a process that carries light.

    Each takes ``wl`` in µm, a number or an array, and, where the device has a heater, ``phase`` in rad; it
    returns an S-dictionary of JAX arrays. The models are numpy inside: call circuits eagerly, they cannot be
    traced by jit.

    Args:
        process: Process whose cards hold the parameters.

    Returns:
        Device name to model, for ``sax.circuit(netlist, models=...)``.

    Raises:
        ImportError: SAX is not installed.
    """
    import sax  # noqa: F401  (fails here, with its own message, and not at the first call)

    return {name: _sax_model(process, card) for name, card in process.devices.items() if card.ports.optical}


def _sax_model(process: Process, card: Device) -> Callable[..., dict[tuple[str, str], Any]]:
    import jax.numpy as jnp

    def s_dictionary(wl: Any, phase: Any) -> dict[tuple[str, str], Any]:
        wavelengths = np.asarray(wl, dtype=np.float64) * 1e3
        s = device_s(process, card.name, wavelengths.reshape(-1), np.asarray(phase))
        s = s.reshape(*wavelengths.shape, *s.shape[1:])
        ports = card.ports.optical
        return {
            (a, b): jnp.asarray(s[..., j, i])
            for i, a in enumerate(ports)
            for j, b in enumerate(ports)
            if i == j or np.any(s[..., j, i])
        }

    reference_um = float(process.guide.wavelength_nm) * 1e-3
    if card.model.name == "phase_shifter":

        def heated(*, wl: Any = reference_um, phase: Any = 0.0) -> dict[tuple[str, str], Any]:
            return s_dictionary(wl, phase)

        model: Callable[..., dict[tuple[str, str], Any]] = heated
    else:

        def passive(*, wl: Any = reference_um) -> dict[tuple[str, str], Any]:
            return s_dictionary(wl, 0.0)

        model = passive
    model.__name__ = card.name
    return model
