"""SAX models of devices and netlists for SAX, created on demand. SAX uses wavelengths in µm, this package in nm."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from optinc_pdk.arrays import Complexes
from optinc_pdk.cards import DeviceCard, Process
from optinc_pdk.cards.device import GUIDE_CELLS
from optinc_pdk.cards.device_models import SETTINGS
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.circuit.checked_values import NetlistError, number_of
from optinc_pdk.circuit.gdsfactory_netlists import ALIASES, LEAD, LEAD_PORTS, PHASE_SHIFTER, NameTable
from optinc_pdk.circuit.schematic_cells import SchematicCell, SchematicInstance, cells_of_netlist
from optinc_pdk.models.registry import MODULATORS, device_s, net_transmission, sampled_s

LENGTH = "length_um"
"""Setting of a heated guide."""
OPTICAL_GUIDES = tuple(sorted(name for name in GUIDE_CELLS if not name.startswith("wire")))


def sax_models(process: Process, electrical: bool = False) -> dict[str, Callable[..., dict[tuple[str, str], Any]]]:
    """Return a SAX model for every device of a process that has optical ports, and for the cells of guides, by name.

    A model takes ``wl`` in µm, a number or an array, ``phase`` in rad if the device has a heater, ``amplitude`` if it
    is a modulator, ``length`` in µm if it is a guide, and the settings in µm of two coupled guides, without which its
    result is NaN; it returns an S-dictionary of JAX arrays. A heated guide has the length of the card, or another
    ``length_um``. ``lead_um`` is guide that the cell of a heater or coupler has besides: at both ports of a heater, and
    at o1 and o4 of a coupler. Models use NumPy: call circuits eagerly, JAX cannot trace them with jit. Calling a model
    imports JAX.

    With ``electrical``, pads and electrical ports are included, which transmit no light: SAX looks up the ends of a
    ``.pic.yml``'s wires in the models.
    """
    models = {name: _sax_model(process, card) for name, card in process.devices.items() if card.ports.optical}
    models |= {name: _sax_guide(process, name) for name in OPTICAL_GUIDES}
    if not electrical:
        return models
    return models | {
        name: _with_electrical(name, card.ports.electrical, models.get(name))
        for name, card in process.devices.items()
        if card.ports.electrical
    }


def sax_cells(circuit: Circuit, process: Process) -> dict[str, Callable[..., dict[tuple[str, str], Any]]]:
    """Return a SAX model for every cell of a hierarchical circuit, by name; electrical ports transmit no light.

    With these models and ``sax_models(process, electrical=True)``, SAX simulates a ``.pic.yml`` file unchanged. Without
    them, SAX's own hierarchy would connect two heaters of a cell to one ground, which its KLU backend rejects as a
    duplicate entry.
    """
    import sax

    models = sax_models(process)
    cells = {}
    for name, cell in circuit.cells.items():
        light = cell.optical_mask()
        electrical = [label for label, port in cell.ports.items() if not light[port]]
        model, _ = sax.circuit(netlist=sax_netlist(cell), models=models, backend="klu")
        cells[name] = _with_electrical(name, electrical, model)
    return cells


def sax_netlist(circuit: Circuit) -> dict[str, Any]:
    """Return the optical part of a circuit as a flat SAX netlist, without pads and wires.

    Guides between devices become instances of ``straight`` if their lengths are known and not zero, else connections
    without length. An instance ``a.b`` of the flat circuit becomes ``a_b``, and ports are fibre labels.
    """
    flat = flatten(circuit)
    light = flat.optical_mask()

    def name(port: int) -> str:
        return flat.port_name(port).replace(".", "_")

    def instance(number: int, component: str) -> dict[str, Any]:
        settings = {key: float(flat.settings[key][number]) for key in keys}
        stated = {key: value for key, value in settings.items() if not np.isnan(value)}
        return {"component": component, "settings": stated} if stated else {"component": component}

    known = {key for of_model in SETTINGS.values() for key in of_model} | {LENGTH}
    keys = sorted(set(flat.settings) & known)
    kinds = [flat.kinds[kind] for kind in flat.kind]
    instances = {
        text.replace(".", "_"): instance(number, kind.name)
        for number, (text, kind) in enumerate(zip(flat.instances, kinds, strict=True))
        if kind.optical
    }
    nets: list[dict[str, str]] = []
    lengths = flat.net_length_um.tolist() or [0.0] * len(flat.nets)
    for number, ((a, b), length) in enumerate(zip(flat.nets.tolist(), lengths, strict=True)):
        if not length > 0.0:
            nets.append({"p1": name(a), "p2": name(b)})
            continue
        guide = f"guide_{number}"
        while guide in instances:
            guide += "_"
        instances[guide] = {"component": "straight", "settings": {"length": length}}
        nets += [{"p1": name(a), "p2": f"{guide},o1"}, {"p1": f"{guide},o2", "p2": name(b)}]
    return {
        "instances": instances,
        "nets": nets,
        "ports": {label: name(port) for label, port in flat.ports.items() if light[port]},
    }


def _with_electrical(
    name: str, ports: Sequence[str], model: Callable[..., Any] | None
) -> Callable[..., dict[tuple[str, str], Any]]:
    """Add electrical ports without transmission to a model; None is a device with electrical ports only, a pad."""

    def electrical() -> dict[tuple[str, str], Any]:
        import jax.numpy as jnp

        return {(port, port): jnp.asarray(0.0) for port in ports}

    if model is None:
        electrical.__name__ = name
        return electrical

    @wraps(model)
    def with_electrical(**settings: Any) -> dict[tuple[str, str], Any]:
        import sax

        return dict(sax.sdict(model(**settings))) | electrical()

    return with_electrical


def _sax_model(process: Process, card: DeviceCard) -> Callable[..., dict[tuple[str, str], Any]]:
    def s_dictionary(wl: Any, phase: Any = 0.0, amplitude: Any = 1.0) -> dict[tuple[str, str], Any]:
        wavelengths = np.asarray(wl, dtype=np.float64) * 1e3
        s = device_s(process, card.name, wavelengths.reshape(-1), np.asarray(phase), amplitude=np.asarray(amplitude))
        return named(s.reshape(*wavelengths.shape, *s.shape[1:]))

    def named(s: Any) -> dict[tuple[str, str], Any]:
        import jax.numpy as jnp

        ports = card.ports.optical
        return {
            (a, b): jnp.asarray(s[..., j, i])
            for i, a in enumerate(ports)
            for j, b in enumerate(ports)
            if i == j or np.any(s[..., j, i])
        }

    def transmission(length_um: Any, wl: Any) -> Complexes:
        return net_transmission(process, length_um, np.asarray(wl, dtype=np.float64) * 1e3)

    reference_um = float(process.guide.wavelength_nm) * 1e-3
    heater = bool(card.ports.electrical) and card.model.name not in MODULATORS
    if card.model.name == "phase_shifter" or (heater and card.model.file is not None):

        def heated(
            *, wl: Any = reference_um, phase: Any = 0.0, length_um: Any = np.nan, lead_um: Any = 0.0
        ) -> dict[tuple[str, str], Any]:
            standard = float(card.size(LENGTH)) if LENGTH in card.geometry else 0.0
            longer = 2 * np.asarray(lead_um) + (0.0 if np.isnan(length_um) else length_um - standard)
            return _scaled(s_dictionary(wl, phase), card.ports.optical, transmission(longer / 2, wl))

        model: Callable[..., dict[tuple[str, str], Any]] = heated
    elif card.model.name in MODULATORS:

        def driven(*, wl: Any = reference_um, amplitude: Any = 1.0) -> dict[tuple[str, str], Any]:
            return s_dictionary(wl, amplitude=amplitude)

        model = driven
    elif card.model.name in SETTINGS and card.model.file is None:

        def coupled(
            *,
            wl: Any = reference_um,
            gap_um: Any = np.nan,
            coupled_length_um: Any = np.nan,
            path_difference_um: Any = np.nan,
            guide_1_um: Any = np.nan,
            guide_2_um: Any = np.nan,
            lead_um: Any = 0.0,
        ) -> dict[tuple[str, str], Any]:
            wavelengths = np.asarray(wl, dtype=np.float64) * 1e3
            keys = SETTINGS[card.model.name]
            given = zip(keys, (gap_um, coupled_length_um, path_difference_um, guide_1_um, guide_2_um), strict=True)
            # SAX evaluates every model once without settings, for its ports
            values = {key: np.atleast_1d(np.asarray(value, dtype=np.float64)) for key, value in given}
            s = sampled_s(process, card.name, wavelengths.reshape(-1), values)[:, 0]
            return _scaled(named(s.reshape(*wavelengths.shape, *s.shape[1:])), LEAD_PORTS, transmission(lead_um, wl))

        model = coupled
    else:

        def passive(*, wl: Any = reference_um) -> dict[tuple[str, str], Any]:
            return s_dictionary(wl)

        model = passive
    model.__name__ = card.name
    return model


def _scaled(s: dict[tuple[str, str], Any], ports: Sequence[str], transmission: Complexes) -> dict[tuple[str, str], Any]:
    """Return an S-dictionary with guides of some transmission in front of some ports."""
    return {ends: value * transmission ** sum(end in ports for end in ends) for ends, value in s.items()}


def _sax_guide(process: Process, name: str) -> Callable[..., dict[tuple[str, str], Any]]:
    """Return the SAX model of a cell that is a guide, which its length describes."""

    def guide(*, wl: Any = float(process.guide.wavelength_nm) * 1e-3, length: Any = 10.0) -> dict[tuple[str, str], Any]:
        import jax.numpy as jnp

        through = jnp.asarray(net_transmission(process, length, np.asarray(wl, dtype=np.float64) * 1e3))
        return {("o1", "o2"): through, ("o2", "o1"): through}

    guide.__name__ = name
    return guide


def sax_schematic(netlist: Mapping[str, Any], process: Process, name: str = "") -> dict[str, dict[str, Any]]:
    """Return the optical part of a netlist of gdsfactory for SAX, with its hierarchy: netlists by name, the top first.

    SAX gives a model the settings of an instance only. Lengths of bends and dimensions of couplers are in ``info``,
    which gdsfactory's cells write; here they become settings. Names of instances that are no names in Python get
    underscores. The result is for ``sax.circuit(netlist, models=sax_models(process))``.

    Args:
        netlist: What ``Component.get_netlist(recursive=True)`` returns, or without ``recursive``.
        process: Process whose devices the netlist has.
        name: Name of the top cell, if several netlists could be the top.

    Raises:
        NetlistError: The netlist is not in gdsfactory's format, names an instance that does not exist, or states a
            length that is no number.
    """
    cells, top = cells_of_netlist(netlist, name)
    used = [top]
    for cell in used:
        inside = {part.component for part in cells[cell].instances.values()}
        used += sorted(each for each in inside if each in cells and each not in used)
    reader = _Reader(cells, process)
    return {_word(cell): reader.netlist(cells[cell]) for cell in used}


class _Reader:
    """Reads the optical parts of netlists, with the names that the cards of a process state."""

    def __init__(self, cells: Mapping[str, SchematicCell], process: Process) -> None:
        self.cells, self.devices = cells, process.devices
        self.guides = GUIDE_CELLS | set(process.netlist.guides)
        self.names = NameTable(process)

    def netlist(self, cell: SchematicCell) -> dict[str, Any]:
        """Return the optical part of one netlist."""
        nets = [net for net in (*cell.nets, *cell.connections) if all(self._is_light(cell, end) for end in net)]
        ports = {label: end for label, end in cell.ports.items() if self._is_light(cell, end)}
        lit = {end.rpartition(",")[0] for end in (*(end for net in nets for end in net), *ports.values())}
        return {
            "instances": {
                _word(name): self._instance(name, part) for name, part in cell.instances.items() if name in lit
            },
            "nets": [{"p1": self._port(cell, a), "p2": self._port(cell, b)} for a, b in nets],
            "ports": {label: self._port(cell, end) for label, end in ports.items()},
        }

    def _device(self, instance: str, part: SchematicInstance) -> str | None:
        """Return the device that an instance is; None for guides and cells of the netlist."""
        if part.component in self.cells:
            return None
        return self.names.device(instance, ALIASES.get(part.component, part.component), part.settings)

    def _is_light(self, cell: SchematicCell, end: str) -> bool:
        """Return whether a port of an instance, ``"instance,port"``, is optical."""
        instance, _, port = end.rpartition(",")
        if instance not in cell.instances:
            raise NetlistError(f"port {end!r} is of {instance!r}, which is no instance; correct the netlist")
        part = cell.instances[instance]
        if part.component in self.cells:
            inner = self.cells[part.component]
            return port in inner.ports and self._is_light(inner, inner.ports[port])
        device = self._device(instance, part)
        if device is None:
            return part.component in self.guides and port.startswith("o")
        return self.names.port(device, port) in self.devices[device].ports.optical

    def _instance(self, name: str, part: SchematicInstance) -> dict[str, Any]:
        """Return the component of an instance and the settings that its model takes."""
        values = {**part.info, **{key: value for key, value in part.settings.items() if value is not None}}

        def stated(*keys: str) -> dict[str, float]:
            found = {key: values[key] for key in keys if values.get(key) is not None}
            return {key: number_of(f"instance {name!r}: {key}", value) for key, value in found.items()}

        if part.component in self.cells:
            return {"component": _word(part.component), "settings": {}}
        device = self._device(name, part)
        if device is None:
            length = part.info.get("length", part.settings.get("length"))
            return {"component": "straight", "settings": {"length": number_of(f"instance {name!r}: length", length)}}
        settings = stated(*SETTINGS.get(self.devices[device].model.name, ()), LEAD)
        if device == PHASE_SHIFTER:
            # the cell is longer than the heated guide by its ends
            settings |= stated("length_um") | self.names.length(name, device, part.settings)
            settings[LEAD] = self.names.end_um(device, "contact_width_um")
        return {"component": device, "settings": settings}

    def _port(self, cell: SchematicCell, end: str) -> str:
        """Return a port, ``"instance,port"``, by the names that SAX takes."""
        instance, _, port = end.rpartition(",")
        device = self._device(instance, cell.instances[instance])
        return f"{_word(instance)},{port if device is None else self.names.port(device, port)}"


def _word(name: str) -> str:
    """Return a name that is one in Python too, because SAX makes it the name of an argument."""
    word = re.sub(r"\W", "_", name)
    return f"{word}_" if keyword.iskeyword(word) else word
