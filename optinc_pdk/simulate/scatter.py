"""S-parameters of any circuit, loops and reflections included: many cases by a plan, or one with the fields inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Bias, Circuit, NetlistError
from optinc_pdk.files import InputError
from optinc_pdk.models import device_s, net_transmission
from optinc_pdk.simulate.cells import SingularError
from optinc_pdk.simulate.heaters import heater_phases
from optinc_pdk.simulate.plan import Plan, evaluate, plan_circuit
from optinc_pdk.simulate.structure import MODULATOR, Ints, Structure, analyse
from optinc_pdk.simulate.values import check_ports, circuit_values, port_name

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

Progress = Callable[[int, int], None]

CHUNK_NUMBERS = 1 << 22
"""Complex numbers held at a time, 64 MB, near to what caches hold: so many cases are calculated side by side."""
_SAMPLED = 5
SINGULAR = 1e-13
"""Smallest pivot of a system over its largest: below, a solution would be rounding errors."""
NUDGE = 1e-15
"""What is added to the diagonal of a system with a zero pivot, to tell where it is."""


@dataclass(frozen=True, eq=False)
class Scattering:
    """S-parameters between fibres, photodiodes and modulators.

    A fibre's row is the field that leaves it, a photodiode's the field that enters it, a modulator's the field that
    leaves it at full transmission. A column is what a field of 1 does, which a fibre launches or a modulator lets out.

    Attributes:
        wavelengths_nm: (W,) wavelengths.
        labels: Fibre labels and pad labels of photodiodes and modulators, sorted.
        s: (W, labels, labels) field amplitudes, indexed [wavelength, out, in].
        modulators: Which of the labels are modulators'.
    """

    wavelengths_nm: Floats
    labels: tuple[str, ...]
    s: Complexes
    modulators: tuple[str, ...] = ()

    def between(self, outs: Sequence[str], ins: Sequence[str]) -> Complexes:
        """S from some fibres to others, (W, outs, ins).

        Raises:
            NetlistError: There is no such fibre.
        """
        place = {label: i for i, label in enumerate(self.labels)}
        for label in (*outs, *ins):
            if label not in place:
                raise NetlistError(f"there is no fibre {label!r} among the {len(self.labels)} simulated")
        return self.s[:, [place[label] for label in outs]][:, :, [place[label] for label in ins]]

    def strength(self, labels: Sequence[str], steady: Sequence[str]) -> Complexes:
        """(W, labels) field of sources at an amplitude of 1: 1 of fibres, of modulators what their carrier gives.

        Args:
            labels: The sources.
            steady: Fibres that bring the carrier.
        """
        strength = np.ones((len(self.wavelengths_nm), len(labels)), dtype=np.complex128)
        driven = set(self.modulators)
        mine = [i for i, label in enumerate(labels) if label in driven]
        if mine:
            strength[:, mine] = self.between([labels[i] for i in mine], steady).sum(axis=2)
        return strength


@dataclass(frozen=True, eq=False)
class Solution:
    """A circuit solved at one wavelength and one bias: ask it for the fields of any excitation.

    All models are reciprocal, hence the adjoint field of an output is the field of light sent in there.

    Attributes:
        structure: The circuit.
        factors: The factorised system 1 - C S, a SuperLU object.
        entry: (labels,) port where a label's light enters the circuit: a fibre's own, a modulator's neighbour.
        launched: (labels,) transmission of the guide before it.
        leaving: Sparse (labels, ports): what is seen at the labels, from waves into the devices.
        heated: (H,) transmission of each heated guide, heat included.
    """

    structure: Structure
    factors: Any
    entry: Ints
    launched: Complexes
    leaving: Any
    heated: Complexes

    def fields(self, labels: Sequence[str]) -> Complexes:
        """Waves into every device, (ports, labels), for unit light from each of some fibres or modulators.

        For a photodiode they are its adjoint field, as if it sent light.

        Raises:
            NetlistError: The circuit has no such label.
        """
        place = self.structure.fibres(labels)
        light = np.zeros((self.structure.ports, place.size), dtype=np.complex128, order="F")
        light[self.entry[place], np.arange(place.size)] = self.launched[place]
        fields: Complexes = self.factors.solve(light)
        return fields

    def strength(self, labels: Sequence[str], carrier: Complexes) -> Complexes | None:
        """(labels,) field of sources at an amplitude of 1, given the carrier's waves; None without modulators."""
        place = self.structure.fibres(labels)
        driven = self.structure.supply[place] != UNCONNECTED
        if not driven.any():
            return None
        strength: Complexes = np.where(driven, self.s(carrier)[place], 1.0)
        return strength

    def s(self, fields: Complexes) -> Complexes:
        """What is seen at all labels, (labels, excitations), of fields by :meth:`fields`."""
        out: Complexes = self.leaving @ fields
        return out

    def derivative(self, out: Complexes, into: Complexes, heaters: Ints) -> Complexes:
        """dS[o, i]/dphase of h heaters, (h, O, I), exact where all devices are reciprocal, as all models are.

        S[o, i] depends on one heater through its two-port alone, so the derivative is the adjoint field of o
        times the change of the two-port times the field of i; one product for each direction of light.

        Args:
            out: (h, 2, O) fields at the heaters' ports (:meth:`at_heaters`) for light in each output.
            into: (h, 2, I) the same for each input.
            heaters: (h,) their numbers.
        """
        slope = 1j * self.heated[heaters, np.newaxis, np.newaxis]
        there = out[:, 1, :, np.newaxis] * into[:, 0, np.newaxis, :]
        back = out[:, 0, :, np.newaxis] * into[:, 1, np.newaxis, :]
        product: Complexes = slope * (there + back)
        return product

    def at_heaters(self, fields: Complexes) -> Complexes:
        """Fields at the heaters' two ports, (H, 2, excitations)."""
        return fields[self.structure.heater_port]


def scattering(
    circuit: Circuit,
    drive: Bias | Mapping[str, float],
    wavelengths_nm: ArrayLike,
    process: Process,
    *,
    unbiased: float | None = None,
    labels: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Scattering:
    """S-parameters between fibres, photodiodes and modulators of a circuit.

    Args:
        circuit: Flat or hierarchical; guides have their lengths where it comes from a layout and none
            otherwise.
        drive: A bias or phases in rad by pad label, see :func:`optinc_pdk.simulate.heaters.heater_phases`.
        wavelengths_nm: (W,) wavelengths, or one.
        process: Process of the cards.
        unbiased: Phase of heaters that the drive leaves out; they are an error without it.
        labels: Between which labels; all where left out.
        progress: Called with the wavelengths done and their number, as they are done.

    Raises:
        NetlistError: Open optical ports, heaters without drive, unknown channels or labels, ports or widths that are
            not the cards'.
        ModelError: A device without model, or a wavelength outside its range.
        InputError: The circuit is singular: a lossless resonance at this wavelength.
    """
    structure = analyse(circuit)
    phases = heater_phases(structure, drive, process, unbiased=unbiased)
    wavelengths = np.atleast_1d(np.asarray(wavelengths_nm, dtype=np.float64))
    wanted = structure.labels if labels is None else tuple(sorted(set(labels)))
    plan = prepare(structure, wavelengths, process, outs=wanted, ins=wanted)
    s = s_matrices(plan, phases, wavelengths, process, progress=progress)[0]
    modulators = tuple(label for label in structure.modulators if label in set(wanted))
    return Scattering(wavelengths, wanted, s, modulators)


def prepare(
    structure: Structure,
    wavelengths_nm: ArrayLike,
    process: Process,
    *,
    outs: Sequence[str] | None = None,
    ins: Sequence[str] | None = None,
    devices: Mapping[str, Complexes] | None = None,
) -> Plan:
    """Find out once how a circuit's S-parameters are calculated, for any bias and any values of its devices.

    Args:
        structure: The circuit.
        wavelengths_nm: (W,) wavelengths, or one; they only tell which S-parameters of devices are zero.
        process: Process of the cards.
        outs: Labels at which light is looked at; all where left out.
        ins: Labels from which light comes; all where left out.
        devices: Samples, as for :func:`s_matrices`.

    Raises:
        NetlistError: Unknown labels, ports or widths that are not the cards', samples of a wrong shape.
        ModelError: A device without model, or a wavelength outside its range.
    """
    wavelengths = np.atleast_1d(np.asarray(wavelengths_nm, dtype=np.float64))
    cold = np.zeros((1, structure.heater.size))
    given = devices or {}
    if given:
        cold = np.zeros((max(np.shape(s)[0] if np.ndim(s) == _SAMPLED else 1 for s in given.values()), cold.shape[1]))
    patterns = circuit_values(structure, cold, wavelengths, process, given, None).patterns()
    outs, ins = (structure.labels if labels is None else tuple(labels) for labels in (outs, ins))
    return plan_circuit(structure, patterns, outs, ins)


def s_matrices(
    plan: Plan,
    phases: ArrayLike,
    wavelengths_nm: ArrayLike,
    process: Process,
    *,
    devices: Mapping[str, Complexes] | None = None,
    guides: Complexes | None = None,
    progress: Progress | None = None,
) -> Complexes:
    """S-parameters for many biases or samples at many wavelengths, in bounded memory but for the result.

    Args:
        plan: The circuit, by :func:`prepare`.
        phases: (K, H) or (H,) heater phases in rad; H is ``plan.structure.heater.size``.
        wavelengths_nm: (W,) wavelengths, or one.
        process: Process of the cards.
        devices: Component to S-parameters in place of its card's, broadcast to (K, W, I, p, p): I instances in the
            order of the flat circuit, heaters cold.
        guides: Field transmissions of the flat circuit's nets, broadcast to (K, W, nets).
        progress: Called with the cases done and their number, as they are done.

    Returns:
        (K, W, outs, ins) field amplitudes.

    Raises:
        ModelError: A device without model, or a wavelength outside its range.
        NetlistError: Values of a wrong shape.
        InputError: The circuit is singular, or S-parameters differ from zero that were zero when it was prepared.
    """
    heat = np.atleast_2d(np.asarray(phases, dtype=np.float64))
    heaters = plan.structure.heater.size
    if heat.ndim != 2 or heat.shape[1] != heaters:
        raise NetlistError(f"phases have shape {np.shape(phases)}; give (cases, {heaters} heaters)")
    wavelengths = np.atleast_1d(np.asarray(wavelengths_nm, dtype=np.float64))
    values = circuit_values(plan.structure, heat, wavelengths, process, devices or {}, guides)
    for number, pattern in values.patterns().items():
        if np.any(pattern & ~plan.patterns[number]):
            raise InputError(
                f"S-parameters of {plan.structure.devices[number].name!r} differ from zero that were zero when the "
                "circuit was prepared; prepare it for these wavelengths and samples"
            )
    s: Complexes = np.empty((values.cases, len(plan.outs), len(plan.ins)), dtype=np.complex128)
    chunk = max(1, CHUNK_NUMBERS // plan.numbers)
    for start in range(0, values.cases, chunk):
        cases = np.arange(start, min(start + chunk, values.cases))
        try:
            s[cases] = evaluate(plan, values.entries(cases), cases.size)
        except SingularError as fault:
            wavelength = wavelengths[(start + fault.item) % wavelengths.size]
            raise _singular(plan.structure, wavelength, fault.port) from None
        if progress is not None:
            progress(int(cases[-1]) + 1, values.cases)
    return s.reshape(heat.shape[0], wavelengths.size, len(plan.outs), len(plan.ins))


def solve(structure: Structure, phases: Floats, wavelength_nm: float, process: Process) -> Solution:
    """Factorise the circuit's system at one wavelength.

    Args:
        structure: The circuit.
        phases: (H,) heater phases in rad.
        wavelength_nm: Wavelength.
        process: Process of the cards.

    Raises:
        ModelError: A device without model, or a wavelength outside its range.
        InputError: The system is singular.
    """
    from scipy.sparse import coo_array

    check_ports(structure, process)
    n = structure.ports
    leaving, arriving, value = _device_entries(structure, phases, wavelength_nm, process)
    row = structure.partner[leaving]
    inner = row != UNCONNECTED
    guides = net_transmission(process, structure.length_um[leaving[inner]], wavelength_nm)
    rows = np.concatenate([np.arange(n), row[inner]])
    columns = np.concatenate([np.arange(n), arriving[inner]])
    values = np.concatenate([np.ones(n, dtype=np.complex128), -guides * value[inner]])
    system = coo_array((values, (rows, columns)), shape=(n, n)).tocsc()
    factors = _factorize(system, structure, wavelength_nm)
    outer = ~inner
    seen = _seen(structure, (leaving[outer], arriving[outer], value[outer]), wavelength_nm, process)
    # what a photodiode or modulator has to do with enters and leaves where its guide ends
    guided = structure.partner[structure.fibre] != UNCONNECTED
    entry = np.where(guided, structure.partner[structure.fibre], structure.fibre)
    launched = np.ones(entry.size, dtype=np.complex128)
    launched[guided] = net_transmission(process, structure.length_um[structure.fibre[guided]], wavelength_nm)
    return Solution(structure, factors, entry, launched, seen, _heated(structure, phases, wavelength_nm, process))


def _seen(structure: Structure, fibres: tuple[Ints, Ints, Complexes], wavelength_nm: float, process: Process) -> Any:
    """Sparse (labels, ports): waves out of fibres, waves into photodiodes and, as they let out, into modulators."""
    from scipy.sparse import coo_array, csr_array

    leaving, arriving, value = fibres
    place = np.full(structure.ports, UNCONNECTED, dtype=np.int64)
    place[structure.fibre] = np.arange(structure.fibre.size)
    modulated = structure.supply != UNCONNECTED
    # a photodiode's one port; of a modulator the one where its carrier arrives
    inside = np.flatnonzero(structure.partner[structure.fibre] != UNCONNECTED)
    port = np.where(modulated, structure.supply, structure.fibre)[inside]
    through = np.ones(inside.size, dtype=np.complex128)
    if modulated.any():
        through[modulated[inside]] = device_s(process, MODULATOR, wavelength_nm)[0, 1, 0]
    rows = np.concatenate([place[leaving], inside])
    columns, values = np.concatenate([arriving, port]), np.concatenate([value, through])
    return csr_array(coo_array((values, (rows, columns)), shape=(structure.fibre.size, structure.ports)))


def _factorize(system: Any, structure: Structure, wavelength_nm: float) -> Any:
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    try:
        factors = splu(system)
    except RuntimeError:
        # a pivot is zero; a nudge tells which
        factors = splu(system + NUDGE * eye_array(system.shape[0], format="csc"))
    pivots = np.abs(factors.U.diagonal())
    if pivots.min() < SINGULAR * pivots.max():
        raise _singular(structure, wavelength_nm, int(np.flatnonzero(factors.perm_c == np.argmin(pivots))[0]))
    return factors


def _singular(structure: Structure, wavelength_nm: float, port: int) -> InputError:
    return InputError(
        f"circuit {structure.circuit.name!r} is singular at {wavelength_nm:g} nm, a lossless resonance: light is "
        f"trapped at {port_name(structure, port)}; give its guides or devices some loss"
    )


def _device_entries(
    structure: Structure, phases: Floats, wavelength_nm: float, process: Process
) -> tuple[Ints, Ints, Complexes]:
    """Non-zero entries of all devices' S-matrices: port of the wave out, port of the wave in, value."""
    heater_of = dict(zip(structure.heater.tolist(), phases.tolist(), strict=True))
    outs, ins, values = [], [], []
    for group in structure.devices:
        name = structure.circuit.instances[group.instance[0]]
        cold = device_s(process, group.name, wavelength_nm, instance=name)[0]
        turn = np.ones(group.instance.size, dtype=np.complex128)
        if group.heated:
            turn = np.exp(1j * np.array([heater_of[i] for i in group.instance.tolist()]))
        if group.name == MODULATOR:
            # what passes is the modulator's light as a source
            cold = np.diag(np.diag(cold))
        for out, into in zip(*np.nonzero(cold), strict=True):
            outs.append(group.port[:, out])
            ins.append(group.port[:, into])
            values.append(cold[out, into] * (turn if out != into else np.ones_like(turn)))
    return np.concatenate(outs), np.concatenate(ins), np.concatenate(values)


def _heated(structure: Structure, phases: Floats, wavelength_nm: float, process: Process) -> Complexes:
    bare = np.zeros(structure.heater.size, dtype=np.complex128)
    for group in structure.devices:
        if group.heated:
            cold = device_s(process, group.name, wavelength_nm)[0]
            bare[np.searchsorted(structure.heater, group.instance)] = cold[1, 0]
    heated: Complexes = bare * np.exp(1j * phases)
    return heated
