"""Fields everywhere inside a circuit at one wavelength and one bias, by sparse LU factorisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.errors import InputError
from optinc_pdk.models import device_s, net_transmission
from optinc_pdk.simulate.circuit_optics import MODULATOR, CircuitOptics, Ints
from optinc_pdk.simulate.s_parameters.device_values import check_ports, singular_error

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

SINGULAR = 1e-13
"""Smallest over largest pivot of a system; below, a solution would consist of rounding errors."""
NUDGE = 1e-15
"""Added to the diagonal of a system with a zero pivot, to locate it."""


@dataclass(frozen=True, eq=False)
class FieldSolution:
    """Factorised linear system of a circuit at one wavelength and one bias; it gives the fields of any excitation.

    All models are reciprocal. Hence the adjoint field of an output is the field of light launched into this output.

    Attributes:
        structure: Optical structure of the circuit.
        factors: LU factors of the system 1 - C S, a SuperLU object; C connects ports, S holds the device S-matrices.
        entry: (labels,) port at which the light of each label enters the circuit: the port of a fibre, or the port next
            to a modulator or photodiode.
        launched: (labels,) field transmission of the waveguide in front of that port; 1 for fibres.
        leaving: Sparse (labels, ports) matrix from the waves into the devices to the fields at the labels.
        heated: (H,) field transmission of each heated waveguide at its phase.
        guides: (ports,) field transmission of the waveguide at each port.
    """

    structure: CircuitOptics
    factors: Any
    entry: Ints
    launched: Complexes
    leaving: Any
    heated: Complexes
    guides: Complexes

    def fields(self, labels: Sequence[str]) -> Complexes:
        """Compute the waves into all devices for unit light launched at each of the given labels.

        For a photodiode this is its adjoint field, as if it emitted light.

        Returns:
            (ports, labels) wave that enters a device at each port.

        Raises:
            NetlistError: The circuit lacks a label.
        """
        place = self.structure.label_positions(labels)
        light = np.zeros((self.structure.ports, place.size), dtype=np.complex128, order="F")
        light[self.entry[place], np.arange(place.size)] = self.launched[place]
        fields: Complexes = self.factors.solve(light)
        return fields

    def strength(self, labels: Sequence[str], carrier: Complexes) -> Complexes | None:
        """Return the (labels,) fields of sources at amplitude 1; None if none of them is a modulator.

        Args:
            labels: Labels of the sources.
            carrier: (ports,) waves of the carrier, as returned by :meth:`fields`.
        """
        place = self.structure.label_positions(labels)
        driven = self.structure.carrier_port[place] != UNCONNECTED
        if not driven.any():
            return None
        strength: Complexes = np.where(driven, self.s(carrier)[place], 1.0)
        return strength

    def s(self, fields: Complexes) -> Complexes:
        """Return the (labels, excitations) fields at all labels for (ports, excitations) waves from :meth:`fields`."""
        out: Complexes = self.leaving @ fields
        return out

    def derivative(self, out: Complexes, into: Complexes, heaters: Ints) -> Complexes:
        """Compute the derivatives dS[o, i]/dφ of S-parameters by the phases of h heaters.

        S[o, i] depends on one heater only through its two-port. The derivative is therefore the adjoint field of o
        times the change of the two-port times the field of i, with one product for each direction of light. It is exact
        if all devices are reciprocal, as all models are.

        Args:
            out: (h, 2, O) fields at the heaters' ports, see :meth:`at_heaters`, for light launched into each output.
            into: (h, 2, I) the same for each input.
            heaters: (h,) indices of the heaters.

        Returns:
            (h, O, I) derivatives per rad.
        """
        slope = 1j * self.heated[heaters, np.newaxis, np.newaxis]
        there = out[:, 1, :, np.newaxis] * into[:, 0, np.newaxis, :]
        back = out[:, 0, :, np.newaxis] * into[:, 1, np.newaxis, :]
        product: Complexes = slope * (there + back)
        return product

    def at_heaters(self, fields: Complexes) -> Complexes:
        """Return the (H, 2, excitations) waves into both ports of every heater, from (ports, excitations) waves."""
        return fields[self.structure.heater_port]


def solve(
    structure: CircuitOptics,
    phases: Floats,
    wavelength_nm: float,
    process: Process,
    devices: Mapping[str, Complexes] | None = None,
    guides: Complexes | None = None,
) -> FieldSolution:
    """Build and factorise the linear system of a circuit at one wavelength and one bias.

    Args:
        structure: Optical structure of the circuit.
        phases: (H,) heater phases in rad.
        wavelength_nm: Wavelength in nm.
        process: Process of the cards.
        devices: Component name to reciprocal (I, p, p) S-parameters that replace the card's, for I instances in the
            order of the flat circuit. Heated waveguides, photodiodes and modulators cannot be replaced.
        guides: (ports,) field transmission of the waveguide at each optical port; by default the card's.

    Returns:
        The factorised system; its methods compute fields.

    Raises:
        ModelError: A device has no model, or a wavelength is outside its range.
        InputError: The system is singular.
    """
    from scipy.sparse import coo_array

    check_ports(structure, process)
    n = structure.ports
    leaving, arriving, value = _device_entries(structure, phases, wavelength_nm, process, devices or {})
    row = structure.partner[leaving]
    inner = row != UNCONNECTED
    passed = net_transmission(process, structure.length_um, wavelength_nm) if guides is None else guides
    rows = np.concatenate([np.arange(n), row[inner]])
    columns = np.concatenate([np.arange(n), arriving[inner]])
    values = np.concatenate([np.ones(n, dtype=np.complex128), -passed[leaving[inner]] * value[inner]])
    system = coo_array((values, (rows, columns)), shape=(n, n)).tocsc()
    factors = _factorize(system, structure, wavelength_nm)
    outer = ~inner
    seen = _seen(structure, (leaving[outer], arriving[outer], value[outer]), wavelength_nm, process)
    # light of photodiodes and modulators enters and leaves where their guide ends
    guided = structure.partner[structure.label_port] != UNCONNECTED
    entry = np.where(guided, structure.partner[structure.label_port], structure.label_port)
    launched = np.ones(entry.size, dtype=np.complex128)
    launched[guided] = passed[structure.label_port[guided]]
    heated = _heated(structure, phases, wavelength_nm, process)
    return FieldSolution(structure, factors, entry, launched, seen, heated, np.asarray(passed))


def _seen(
    structure: CircuitOptics, fibres: tuple[Ints, Ints, Complexes], wavelength_nm: float, process: Process
) -> Any:
    """Sparse (labels, ports) matrix to waves out of fibres, into photodiodes, and through modulators."""
    from scipy.sparse import coo_array, csr_array

    leaving, arriving, value = fibres
    place = np.full(structure.ports, UNCONNECTED, dtype=np.int64)
    place[structure.label_port] = np.arange(structure.label_port.size)
    modulated = structure.carrier_port != UNCONNECTED
    # a photodiode's only port; a modulator's carrier port
    inside = np.flatnonzero(structure.partner[structure.label_port] != UNCONNECTED)
    port = np.where(modulated, structure.carrier_port, structure.label_port)[inside]
    through = np.ones(inside.size, dtype=np.complex128)
    if modulated.any():
        through[modulated[inside]] = device_s(process, MODULATOR, wavelength_nm)[0, 1, 0]
    rows = np.concatenate([place[leaving], inside])
    columns, values = np.concatenate([arriving, port]), np.concatenate([value, through])
    return csr_array(coo_array((values, (rows, columns)), shape=(structure.label_port.size, structure.ports)))


def _factorize(system: Any, structure: CircuitOptics, wavelength_nm: float) -> Any:
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    if not np.isfinite(system.data).all():
        raise InputError(f"{structure.circuit.name}: its phases or S-parameters are not all finite")
    try:
        factors = splu(system)
    except RuntimeError:
        # a pivot is zero; a perturbed system shows which
        factors = splu(system + NUDGE * eye_array(system.shape[0], format="csc"))
    pivots = np.abs(factors.U.diagonal())
    if pivots.min() < SINGULAR * pivots.max():
        raise singular_error(structure, wavelength_nm, int(np.flatnonzero(factors.perm_c == np.argmin(pivots))[0]))
    return factors


def _device_entries(
    structure: CircuitOptics,
    phases: Floats,
    wavelength_nm: float,
    process: Process,
    devices: Mapping[str, Complexes],
) -> tuple[Ints, Ints, Complexes]:
    """Non-zero entries of all devices' S-matrices: port of the wave out, port of the wave in, value."""
    heater_of = dict(zip(structure.heater.tolist(), phases.tolist(), strict=True))
    outs, ins, values = [], [], []
    for group in structure.devices:
        name = structure.circuit.instances[group.instance[0]]
        if group.name in devices:
            cold = devices[group.name]
        else:
            cold = device_s(process, group.name, wavelength_nm, instance=name)
        turn = np.ones(group.instance.size, dtype=np.complex128)
        if group.heated:
            turn = np.exp(1j * np.array([heater_of[i] for i in group.instance.tolist()]))
        if group.name == MODULATOR:
            # transmission through a modulator is its light as a source
            cold = cold * np.eye(cold.shape[-1])
        for out, into in zip(*np.nonzero(cold.any(axis=0)), strict=True):
            outs.append(group.port[:, out])
            ins.append(group.port[:, into])
            values.append(cold[:, out, into] * (turn if out != into else np.ones_like(turn)))
    return np.concatenate(outs), np.concatenate(ins), np.concatenate(values)


def _heated(structure: CircuitOptics, phases: Floats, wavelength_nm: float, process: Process) -> Complexes:
    bare = np.zeros(structure.heater.size, dtype=np.complex128)
    for group in structure.devices:
        if group.heated:
            cold = device_s(process, group.name, wavelength_nm)[0]
            bare[np.searchsorted(structure.heater, group.instance)] = cold[1, 0]
    heated: Complexes = bare * np.exp(1j * phases)
    return heated
