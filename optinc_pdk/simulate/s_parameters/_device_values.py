"""S-parameters of all devices and waveguides of a circuit for batches of wavelengths, biases and samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import NetlistError
from optinc_pdk.errors import InputError
from optinc_pdk.models import instances_s, net_transmission
from optinc_pdk.simulate.circuit_optics import MODULATOR, PHOTODIODE, CircuitOptics, ComponentGroup
from optinc_pdk.simulate.s_parameters._cell_reduction import Entries
from optinc_pdk.simulate.s_parameters.block_assembly import device_ports

NEGLIGIBLE = 1e-18
"""S-parameters below this are taken as zero: for a wave of 1 they are below a hundredth of its rounding error."""
RECIPROCAL = 1e-14
"""Largest difference of the S-parameters of two directions for a reciprocal device; it is their rounding error."""
WIDTH_TOLERANCE_UM = 1e-4
"""Largest difference of the widths of joined guides, a tenth of the layouts' grid."""


@dataclass(frozen=True, eq=False)
class DeviceValues:
    """S-parameters of all devices for K biases or samples and W wavelengths.

    A dimension along which all values are equal may have length 1.

    Attributes:
        structure: Optical structure of the circuit.
        devices: Component index to (K, W, I, p, p) S-parameters of its I instances with all heaters off.
        heat: (K, H) phase factors exp(iφ) of the heated waveguides.
        guides: (K, W, ports) field transmission of each net at one of its two ports, and 1 at the other. None if no
            waveguide has a length.
        wavelengths: Number of wavelengths, W.
    """

    structure: CircuitOptics
    devices: Mapping[int, Complexes]
    heat: Complexes
    guides: Complexes | None
    wavelengths: int

    @property
    def cases(self) -> int:
        """Number of cases, K · W."""
        return int(self.heat.shape[0]) * self.wavelengths

    def patterns(self) -> dict[int, Bools]:
        """Return, by component index, the (p, p) mask of S-parameters that are nonzero in any case."""
        return {number: np.asarray((np.abs(s) > NEGLIGIBLE).any(axis=(0, 1, 2))) for number, s in self.devices.items()}

    def one_way(self) -> str | None:
        """Return the name of the first component that is not reciprocal, if there is one."""
        for number, s in self.devices.items():
            if np.abs(s - s.swapaxes(-1, -2)).max(initial=0.0) > RECIPROCAL:
                return self.structure.devices[number].name
        return None

    def entries(self, cases: Ints) -> dict[int, Entries]:
        """Return the nonzero S-parameters of devices with heater phases and guides for (batch,) cases k W + w.

        They are (batch, I or 1) by row and column, by index of the component; case k W + w is bias k at wavelength w.
        """
        bias, wavelength = np.divmod(cases, self.wavelengths)
        guides = None if self.guides is None else _of_cases(self.guides, bias, wavelength)
        found: dict[int, Entries] = {}
        for number, (group, ports) in enumerate(zip(self.structure.devices, device_ports(self.structure), strict=True)):
            s = _of_cases(self.devices[number], bias, wavelength)
            heat = self.heat[bias][:, np.searchsorted(self.structure.heater, group.instance)] if group.heated else None
            entries_of: Entries = {}
            for i, j in zip(*np.nonzero((np.abs(s) > NEGLIGIBLE).any(axis=(0, 1))), strict=True):
                value = s[:, :, i, j]
                if heat is not None and i != j:
                    value = value * heat
                if guides is not None:
                    value = value * guides[:, ports[:, i]] * guides[:, ports[:, j]]
                entries_of[int(i), int(j)] = value
            found[number] = entries_of
        return found


def _of_cases(values: Complexes, bias: Ints, wavelength: Ints) -> Complexes:
    """(cases, …) values of shape (K or 1, W or 1, …)."""
    cases: Complexes = values[bias if values.shape[0] > 1 else 0 * bias, wavelength if values.shape[1] > 1 else 0]
    return cases


def circuit_values(
    structure: CircuitOptics,
    phases: Floats,
    wavelengths_nm: Floats,
    process: Process,
    devices: Mapping[str, Complexes],
    guides: Complexes | None,
) -> DeviceValues:
    """Calculate the S-parameters of all devices and waveguides from the cards, or take given ones.

    Phases are (K, H) in rad, wavelengths (W,) in nm; ``devices`` and ``guides`` as for `s_matrices`.

    Raises:
        ModelError: A device has no model, or a wavelength is outside its range.
        NetlistError: Ports or widths differ from the cards', or given values have a wrong shape or are not finite.
    """
    check_ports(structure, process)
    names = [group.name for group in structure.devices]
    for name in devices:
        if name not in names:
            raise NetlistError(f"circuit {structure.circuit.name!r} has no {name!r}, for which S-parameters are given")
    found = {}
    cases = phases.shape[0], wavelengths_nm.size
    for number, group in enumerate(structure.devices):
        if group.name in devices:
            given = np.asarray(devices[group.name], dtype=np.complex128)
            ports = len(process.devices[group.name].ports.optical)
            s = _checked(given, (*cases, group.instance.size, ports, ports), f"S-parameters of {group.name!r}")
            _refuse_infinite(structure, group, s)
        else:
            s = instances_s(process, group.name, wavelengths_nm, structure.circuit, group.instance)[np.newaxis]
        found[number] = _with_outer(s, group)
    heat = np.exp(1j * phases)
    return DeviceValues(structure, found, heat, _guides(structure, wavelengths_nm, process, guides, cases), cases[1])


def _checked(given: Complexes, shape: tuple[int, ...], what: str) -> Complexes:
    full = given.reshape((1,) * (len(shape) - given.ndim) + given.shape) if given.ndim <= len(shape) else given
    if full.ndim != len(shape) or any(n not in (1, expected) for n, expected in zip(full.shape, shape, strict=True)):
        raise NetlistError(f"{what} have shape {given.shape}; give one that broadcasts to {shape}")
    return full


def _refuse_infinite(structure: CircuitOptics, group: ComponentGroup, s: Complexes) -> None:
    bad = np.argwhere(~np.isfinite(s))
    if bad.size:
        *_, member, row, col = bad[0].tolist()
        kind = structure.circuit.kinds[structure.circuit.kind[group.instance[member]]]
        raise NetlistError(
            f"instance {structure.circuit.instances[group.instance[member]]!r} of {group.name!r} is given "
            f"{s[tuple(bad[0])]:g} from port {kind.optical[col]} to {kind.optical[row]}; give finite numbers"
        )


def _with_outer(s: Complexes, group: ComponentGroup) -> Complexes:
    """S with the virtual port of a photodiode or modulator; light from a modulator starts at that port only."""
    if group.name not in (PHOTODIODE, MODULATOR):
        return s
    wide = np.pad(s, [(0, 0)] * 3 + [(0, 1)] * 2)
    if group.name == PHOTODIODE:
        wide[..., 0, 1] = wide[..., 1, 0] = 1.0
        return wide
    wide[..., 2, 0], wide[..., 1, 2] = s[..., 1, 0], 1.0
    wide[..., 0, 1] = wide[..., 1, 0] = 0.0
    return wide


def _guides(
    structure: CircuitOptics,
    wavelengths_nm: Floats,
    process: Process,
    given: Complexes | None,
    cases: tuple[int, int],
) -> Complexes | None:
    size = structure.ports + int((structure.partner[structure.label_port] >= 0).sum())
    near = np.flatnonzero(structure.partner > np.arange(structure.ports))
    if given is not None:
        nets = structure.circuit.nets
        values = _checked(np.asarray(given, dtype=np.complex128), (*cases, len(nets)), "transmissions of guides")
        if not np.all(np.isfinite(values)):
            net = int(np.argwhere(~np.isfinite(values))[0, 2]) if values.shape[2] > 1 else 0
            name = structure.circuit.port_name(int(nets[net, 0]))
            raise NetlistError(f"the transmission of the guide at {name} is not finite; give a number")
        number = np.cumsum(structure.circuit.optical_mask()) - 1
        near = number[nets].min(axis=1)
        values = np.broadcast_to(values, (*values.shape[:2], near.size))
    elif structure.length_um.any():
        values = net_transmission(process, structure.length_um[near], wavelengths_nm[:, np.newaxis])[np.newaxis]
    else:
        return None
    guides = np.ones((*values.shape[:2], size), dtype=np.complex128)
    guides[..., near] = values
    return guides


def check_ports(structure: CircuitOptics, process: Process) -> None:
    """Raise NetlistError if ports or the widths of joined waveguides differ from the device cards."""
    flat = structure.circuit
    width = np.full(structure.ports, float(process.guide.width_um))
    kinds = {kind.name: kind.optical for kind in flat.kinds}
    for group in structure.devices:
        card = process.devices.get(group.name)
        if card is None:
            continue
        if kinds[group.name] != card.ports.optical:
            raise NetlistError(
                f"instance {flat.instances[group.instance[0]]!r} of {group.name!r} has the optical ports "
                f"{', '.join(kinds[group.name])}, its card {', '.join(card.ports.optical)}; "
                "use the same process for netlist and simulation"
            )
        for port, key in card.ports.widths.items():
            width[group.port[:, card.ports.optical.index(port)]] = card.size(key)
    near = np.flatnonzero(structure.partner > np.arange(structure.ports))
    bad = near[np.abs(width[near] - width[structure.partner[near]]) > WIDTH_TOLERANCE_UM]
    if bad.size:
        one, other = int(bad[0]), int(structure.partner[bad[0]])
        raise NetlistError(
            f"{flat.name}: {port_name(structure, one)} is {width[one]:g} µm wide and "
            f"{port_name(structure, other)}, which it is joined to, {width[other]:g} µm; put a taper between them"
        )


def port_name(structure: CircuitOptics, port: int) -> str:
    """Return the name of an optical port as ``"instance,port"``."""
    return structure.circuit.port_name(int(np.flatnonzero(structure.circuit.optical_mask())[port]))


def singular_error(structure: CircuitOptics, wavelength_nm: float, port: int) -> InputError:
    """Build the error for a lossless resonance, whose message states an optical port within the resonance."""
    return InputError(
        f"circuit {structure.circuit.name!r} is singular at {wavelength_nm:g} nm, a lossless resonance: light is "
        f"trapped at {port_name(structure, port)}; give its guides or devices some loss"
    )
