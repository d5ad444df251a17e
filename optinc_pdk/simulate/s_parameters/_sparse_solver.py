"""Fields everywhere inside a circuit at one wavelength and one bias, by sparse LU factorisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.errors import InputError
from optinc_pdk.models import device_s, instances_s, net_transmission
from optinc_pdk.simulate.circuit_optics import MODULATOR, CircuitOptics
from optinc_pdk.simulate.s_parameters._device_values import check_ports, singular_error

SINGULAR = 1e-13
"""Smallest pivot over the largest one, or over 1; below, a solution would consist of rounding errors."""
COLUMN_NUMBERS = 1 << 21
"""Waves of one part that are solved for at a time: 32 MB."""
NUDGE = 1e-15
"""Added to the diagonal of a system with a zero pivot, to locate it."""


@dataclass(frozen=True, eq=False)
class CircuitEntries:
    """Non-zero entries of a circuit's linear systems with all heaters off; they serve any phases.

    Attributes:
        structure: Optical structure of the circuit.
        wavelength_nm: Wavelength.
        row: Port of each entry's equation, sorted by part.
        column: Port of each entry's wave.
        cold: The entries.
        heater: Number of the heater whose phase turns each entry; -1 for none.
        first: (parts + 1,) index of the first entry of each part.
        outer: Row, column, value and heater of the entries that lead out of fibres.
        entry: See :class:`FieldSolution`.
        launched: See :class:`FieldSolution`.
        inside: Row, column and value of the entries into photodiodes and through modulators.
        transmission: (H,) field transmission of each heated waveguide with its heater off.
        guides: See :class:`FieldSolution`.
    """

    structure: CircuitOptics
    wavelength_nm: float
    row: Ints
    column: Ints
    cold: Complexes
    heater: Ints
    first: Ints
    outer: tuple[Ints, Ints, Complexes, Ints]
    entry: Ints
    launched: Complexes
    inside: tuple[Ints, Ints, Complexes]
    transmission: Complexes
    guides: Complexes

    def at(self, phases: Floats) -> FieldSolution:
        """Return the linear systems at (H,) heater phases in rad; parts are factorised on first use."""
        from scipy.sparse import coo_array, csr_array

        place, arriving, value, heater = self.outer
        rows, columns, through = self.inside
        values = np.concatenate([value * _turn(phases, heater), through])
        entries = (np.concatenate([place, rows]), np.concatenate([arriving, columns]))
        shape = (self.structure.label_port.size, self.structure.ports)
        return FieldSolution(
            structure=self.structure,
            systems=PartSystems(self, phases),
            entry=self.entry,
            launched=self.launched,
            leaving=csr_array(coo_array((values, entries), shape=shape)),
            heated=self.transmission * np.exp(1j * phases),
            guides=self.guides,
        )


def _turn(phases: Floats, heater: Ints) -> Complexes:
    """Phase factors of entries, by the number of their heater; 1 for -1."""
    return np.where(heater == UNCONNECTED, 1.0, np.exp(1j * np.append(phases, 0.0)[heater]))


@dataclass(eq=False)
class PartSystems:
    """Linear systems (1 - C S) a = e of the parts of a circuit at (H,) phases, factorised at their first use."""

    entries: CircuitEntries
    phases: Floats
    factors: dict[int, Any] = field(default_factory=dict)

    def factorised(self, part: int) -> Any:
        """Return the LU factors of a part, a SuperLU object; raise InputError if the part is singular."""
        if part not in self.factors:
            self.factors[part] = _factorise(self._system(part), self.entries, part)
        return self.factors[part]

    def release(self) -> None:
        """Free the memory of the LU factors; later use factorises again."""
        self.factors.clear()

    def _system(self, part: int) -> Any:
        from scipy.sparse import coo_array

        given = self.entries
        mine = slice(int(given.first[part]), int(given.first[part + 1]))
        place, size = given.structure.place_in_part, given.structure.part_ports[part].size
        value = given.cold[mine] * _turn(self.phases, given.heater[mine])
        return coo_array((value, (place[given.row[mine]], place[given.column[mine]])), shape=(size, size)).tocsc()


@dataclass(frozen=True, eq=False)
class FieldSolution:
    """Factorised linear systems of a circuit at one wavelength and one bias; they give the fields of any excitation.

    All models are reciprocal. Hence the adjoint field of an output is the field of light launched into this output.

    Attributes:
        structure: Optical structure of the circuit.
        systems: Linear systems of its parts; C connects ports, S holds the device S-matrices.
        entry: (labels,) port at which the light of each label enters: that of a fibre, or the one next to a modulator
            or photodiode.
        launched: (labels,) field transmission of the waveguide in front of that port; 1 for fibres.
        leaving: Sparse (labels, ports) matrix from the waves into the devices to the fields at the labels.
        heated: (H,) field transmission of each heated waveguide at its phase.
        guides: (ports,) field transmission of the waveguide at each port.
    """

    structure: CircuitOptics
    systems: PartSystems
    entry: Ints
    launched: Complexes
    leaving: Any
    heated: Complexes
    guides: Complexes

    def fields(self, labels: Sequence[str]) -> Complexes:
        """Compute the (ports, labels) waves into devices for unit light launched at each label; see :meth:`fields_at`.

        For a photodiode this is its adjoint field, as if it emitted light.
        """
        return self.fields_at(np.arange(self.structure.ports), [(label,) for label in labels])

    def fields_at(
        self, ports: Ints, sources: Sequence[Sequence[str]], strength: Mapping[str, complex] | None = None
    ) -> Complexes:
        """Compute the (p, sources) waves into devices at p ports; only the parts that the light enters are solved.

        Memory is that of the result and of a few columns of one part.

        Args:
            ports: (p,) ports.
            sources: Labels of each source; the labels of one source launch light together.
            strength: Field that a label launches; 1 for labels that it does not contain.

        Raises:
            NetlistError: The circuit lacks a label.
            InputError: A part of the circuit is singular.
        """
        labels = [label for names in sources for label in names]
        column = np.repeat(np.arange(len(sources)), [len(names) for names in sources])
        place = self.structure.label_positions(labels)
        value = self.launched[place]
        if strength:
            value = value * np.array([strength.get(label, 1.0) for label in labels])
        entry, part = self.entry[place], self.structure.part[ports]
        part_of_entry = self.structure.part[entry]
        result = np.zeros((ports.size, len(sources)), dtype=np.complex128)
        for number in np.unique(part_of_entry).tolist():
            seen = np.flatnonzero(part == number)
            if not seen.size:
                continue
            mine = np.flatnonzero(part_of_entry == number)
            columns, used = np.unique(column[mine], return_inverse=True)
            light = (self.structure.place_in_part[entry[mine]], used.reshape(-1), value[mine])
            result[np.ix_(seen, columns)] = self._solve(number, light, self.structure.place_in_part[ports[seen]])
        return result

    def _solve(self, part: int, light: tuple[Ints, Ints, Complexes], kept: Ints) -> Complexes:
        """(kept, columns) waves in a part for light given by place in the part, column and value."""
        place, column, value = light
        factors, size = self.systems.factorised(part), self.structure.part_ports[part].size
        columns = int(column.max()) + 1
        waves = np.empty((kept.size, columns), dtype=np.complex128)
        step = max(1, COLUMN_NUMBERS // size)
        for start in range(0, columns, step):
            count = min(step, columns - start)
            excitation = np.zeros((size, count), dtype=np.complex128, order="F")
            chosen = (column >= start) & (column < start + count)
            np.add.at(excitation, (place[chosen], column[chosen] - start), value[chosen])
            waves[:, start : start + count] = factors.solve(excitation)[kept]
        return waves

    def modulator_fields(self, carrier: Mapping[str, float]) -> dict[str, complex]:
        """Return the field of each modulator at amplitude 1, by label, for field amplitudes in the carrier's fibres."""
        modulators = self.structure.modulators
        if not modulators:
            return {}
        fields = self.s_at(modulators, [tuple(carrier)], carrier)[:, 0]
        return dict(zip(modulators, fields.tolist(), strict=True))

    def s_at(
        self, labels: Sequence[str], sources: Sequence[Sequence[str]], strength: Mapping[str, complex] | None = None
    ) -> Complexes:
        """Return the (labels, sources) fields at some labels; sources and strength as for :meth:`fields_at`."""
        rows = self.leaving[self.structure.label_positions(labels)]
        ports = np.unique(rows.indices)
        s: Complexes = rows[:, ports] @ self.fields_at(ports, sources, strength)
        return s

    def s(self, fields: Complexes) -> Complexes:
        """Return the (labels, excitations) fields at all labels for (ports, excitations) waves from :meth:`fields`."""
        out: Complexes = self.leaving @ fields
        return out

    def derivative(self, out: Complexes, into: Complexes, heaters: Ints) -> Complexes:
        """Compute the (h, O, I) derivatives dS[o, i]/dφ, per rad, of S-parameters by the phases of h heaters.

        S[o, i] depends on one heater only through its two-port. The derivative is therefore the adjoint field of o
        times the change of the two-port times the field of i, with one product for each direction of light. It is exact
        if all devices are reciprocal, as all models are.

        Args:
            out: (h, 2, O) fields at the heaters' ports, see :meth:`at_heaters`, for light launched into each output.
            into: (h, 2, I) the same for each input.
            heaters: (h,) indices of the heaters.
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
    """Build the linear systems of a circuit at one wavelength and one bias; parts are factorised on first use.

    Args:
        structure: Optical structure of the circuit.
        phases: (H,) heater phases in rad.
        wavelength_nm: Wavelength in nm.
        process: Process of the cards.
        devices: Component name to reciprocal (I, p, p) S-parameters that replace the card's, for I instances in the
            order of the flat circuit. Heated waveguides, photodiodes and modulators cannot be replaced.
        guides: (ports,) field transmission of the waveguide at each optical port; by default the card's.

    Returns:
        The systems; methods that compute fields raise InputError where a part that light enters is singular.

    Raises:
        ModelError: A device has no model, or a wavelength is outside its range.
    """
    return circuit_entries(structure, wavelength_nm, process, devices, guides).at(phases)


def circuit_entries(
    structure: CircuitOptics,
    wavelength_nm: float,
    process: Process,
    devices: Mapping[str, Complexes] | None = None,
    guides: Complexes | None = None,
) -> CircuitEntries:
    """Compute the entries of a circuit's linear systems for any phases; arguments and errors as for :func:`solve`."""
    check_ports(structure, process)
    n = structure.ports
    leaving, arriving, value, heater = _device_entries(structure, wavelength_nm, process, devices or {})
    row = structure.partner[leaving]
    inner = row != UNCONNECTED
    outer = ~inner
    passed = net_transmission(process, structure.length_um, wavelength_nm) if guides is None else guides
    rows = np.concatenate([np.arange(n), row[inner]])
    order = np.argsort(structure.part[rows], kind="stable")
    place = np.full(n, UNCONNECTED, dtype=np.int64)
    place[structure.label_port] = np.arange(structure.label_port.size)
    # light of photodiodes and modulators enters and leaves where their guide ends
    guided = structure.partner[structure.label_port] != UNCONNECTED
    launched = np.ones(guided.size, dtype=np.complex128)
    launched[guided] = passed[structure.label_port[guided]]
    return CircuitEntries(
        structure=structure,
        wavelength_nm=wavelength_nm,
        row=rows[order],
        column=np.concatenate([np.arange(n), arriving[inner]])[order],
        cold=np.concatenate([np.ones(n, dtype=np.complex128), -passed[leaving[inner]] * value[inner]])[order],
        heater=np.concatenate([np.full(n, UNCONNECTED), heater[inner]])[order],
        first=np.searchsorted(structure.part[rows[order]], np.arange(len(structure.part_ports) + 1)),
        outer=(place[leaving[outer]], arriving[outer], value[outer], heater[outer]),
        entry=np.where(guided, structure.partner[structure.label_port], structure.label_port),
        launched=launched,
        inside=_inside(structure, wavelength_nm, process),
        transmission=_transmission(structure, wavelength_nm, process),
        guides=np.asarray(passed),
    )


def _inside(structure: CircuitOptics, wavelength_nm: float, process: Process) -> tuple[Ints, Ints, Complexes]:
    """Row, column and value of the entries from waves into photodiodes and through modulators to their labels."""
    modulated = structure.carrier_port != UNCONNECTED
    # a photodiode's only port; a modulator's carrier port
    inside = np.flatnonzero(structure.partner[structure.label_port] != UNCONNECTED)
    port = np.where(modulated, structure.carrier_port, structure.label_port)[inside]
    through = np.ones(inside.size, dtype=np.complex128)
    if modulated.any():
        through[modulated[inside]] = device_s(process, MODULATOR, wavelength_nm)[0, 1, 0]
    return inside, port, through


def _factorise(system: Any, entries: CircuitEntries, part: int) -> Any:
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    structure = entries.structure
    if not np.isfinite(system.data).all():
        raise InputError(f"{structure.circuit.name}: its phases or S-parameters are not all finite")
    try:
        factors = splu(system)
    except RuntimeError:
        # a pivot is zero; a perturbed system shows which
        factors = splu(system + NUDGE * eye_array(system.shape[0], format="csc"))
    pivots = np.abs(factors.U.diagonal())
    # the diagonal of 1 - C S is 1, so that all pivots of a part are small only at a resonance
    if pivots.min() < SINGULAR * max(1.0, pivots.max()):
        place = int(np.flatnonzero(factors.perm_c == np.argmin(pivots))[0])
        raise singular_error(structure, entries.wavelength_nm, int(structure.part_ports[part][place]))
    return factors


def _device_entries(
    structure: CircuitOptics, wavelength_nm: float, process: Process, devices: Mapping[str, Complexes]
) -> tuple[Ints, Ints, Complexes, Ints]:
    """Non-zero entries of all devices' S-matrices: port of the wave out, port of the wave in, value, heater or -1."""
    outs, ins, values, heaters = [], [], [], []
    for group in structure.devices:
        if group.name in devices:
            cold = devices[group.name]
        else:
            cold = instances_s(process, group.name, wavelength_nm, structure.circuit, group.instance)[0]
        unheated = np.full(group.instance.size, UNCONNECTED)
        number = np.searchsorted(structure.heater, group.instance) if group.heated else unheated
        if group.name == MODULATOR:
            # transmission through a modulator is its light as a source
            cold = cold * np.eye(cold.shape[-1])
        for out, into in zip(*np.nonzero(cold.any(axis=0)), strict=True):
            outs.append(group.port[:, out])
            ins.append(group.port[:, into])
            values.append(np.broadcast_to(cold[:, out, into], group.instance.size))
            heaters.append(number if out != into else unheated)
    return np.concatenate(outs), np.concatenate(ins), np.concatenate(values), np.concatenate(heaters)


def _transmission(structure: CircuitOptics, wavelength_nm: float, process: Process) -> Complexes:
    """(H,) field transmission of each heated waveguide with its heater off."""
    bare = np.zeros(structure.heater.size, dtype=np.complex128)
    for group in structure.devices:
        if group.heated:
            through = device_s(process, group.name, wavelength_nm)[0, 1, 0]
            bare[np.searchsorted(structure.heater, group.instance)] = through
    return bare
