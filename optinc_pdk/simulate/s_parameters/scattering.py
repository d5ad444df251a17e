"""S-parameters of circuits with loops and reflections, at many wavelengths and for many biases and samples."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Circuit, NetlistError, flatten
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.circuit_optics import CircuitOptics, analyse, label_suggestion
from optinc_pdk.simulate.heater_drive import PadSetting, heater_phases, set_phases, without_heater_pads
from optinc_pdk.simulate.modulator_drive import IDEAL, Modulator, modulator_of
from optinc_pdk.simulate.s_parameters._cell_reduction import SingularError
from optinc_pdk.simulate.s_parameters._device_values import DeviceValues, circuit_values, singular_error
from optinc_pdk.simulate.s_parameters._plan import ScatteringPlan, evaluate, plan_circuit
from optinc_pdk.validation import validate_type

Progress = Callable[[int, int], None]

CHUNK_NUMBERS = 1 << 20
"""Complex numbers in memory at a time, 16 MB, about the size of caches; it sets how many cases form a batch."""
_SAMPLE_DIMENSIONS = 5


@dataclass(frozen=True, eq=False)
class Scattering:
    """S-parameters between the fibres, photodiodes and modulators of a circuit.

    A row is an output: the field that leaves a fibre, that enters a photodiode, or that leaves a modulator at full
    transmission. A column is an input: a field of 1 that a fibre launches or that leaves a modulator.

    Attributes:
        wavelengths_nm: (W,) wavelengths.
        labels: Fibre labels and pad labels of photodiodes and modulators, in the order of rows and columns.
        s: (W, labels, labels) field amplitudes, indexed [wavelength, out, in].
        modulators: Labels that are modulators.
        modulator: What modulators send for the drive of their electronics.
    """

    wavelengths_nm: Floats
    labels: tuple[str, ...]
    s: Complexes
    modulators: tuple[str, ...] = ()
    modulator: Modulator = IDEAL

    def between(self, outs: Sequence[str], ins: Sequence[str]) -> Complexes:
        """Return the (W, outs, ins) S-parameters from the labels ``ins`` to the labels ``outs``.

        Raises:
            NetlistError: A label is not among the simulated ones.
        """
        place = {label: i for i, label in enumerate(self.labels)}
        for label in (*outs, *ins):
            if label not in place:
                raise NetlistError(f"{label!r} was not simulated; {label_suggestion(label, self.labels)}")
        return self.s[:, [place[label] for label in outs]][:, :, [place[label] for label in ins]]

    def strength(self, labels: Sequence[str], steady: Mapping[str, float]) -> Complexes:
        """Return the (W, labels) fields of sources at amplitude 1: launched by a fibre, transmitted by a modulator.

        Args:
            labels: Labels of the sources.
            steady: Field amplitude in each fibre that launches the unmodulated carrier, see `Board.launched`; other
                fibres launch 1.
        """
        strength = np.ones((len(self.wavelengths_nm), len(labels)), dtype=np.complex128)
        strength *= [steady.get(label, 1.0) for label in labels]
        driven = set(self.modulators)
        driven_places = [i for i, label in enumerate(labels) if label in driven]
        if driven_places:
            received = self.between([labels[i] for i in driven_places], list(steady)) * list(steady.values())
            strength[:, driven_places] = received.sum(axis=2)
        return strength


def scattering(
    circuit: Circuit,
    drive: Bias | Mapping[str, float],
    wavelengths_nm: ArrayLike,
    process: Process,
    *,
    unbiased: float | None = None,
    ground: SharedGround | None = None,
    labels: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Scattering:
    """Calculate the S-parameters between the fibres, photodiodes and modulators of a circuit, with sorted labels.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.assemble import mesh_chip
        >>> from optinc_pdk.cards import load_process
        >>> process = load_process()
        >>> circuit = mesh_chip(4, process, "mesh")
        >>> op.simulate.scattering(circuit, {}, [1549.0, 1550.0], process, unbiased=0.0).s.shape
        (2, 8, 8)

    Args:
        circuit: Flat or hierarchical. Waveguides have lengths if it was extracted from a layout, otherwise 0.
        drive: A bias, or heater phases in rad by pad label; see :func:`optinc_pdk.simulate.heater_phases`.
        wavelengths_nm: (W,) wavelengths in nm, or one wavelength.
        process: Process of the cards.
        unbiased: Phase in rad of heaters that are missing from ``drive``; if None, a missing heater is an error.
        ground: Ground network of the heaters; ideal grounds if None.
        labels: Labels between which S-parameters are calculated; all if None.
        progress: Called with the numbers of finished and of all wavelengths.

    Raises:
        NetlistError: Optical ports are open, heaters have no drive, channels or labels are unknown, or ports or widths
            differ from the cards'.
        ModelError: A device has no model, or a wavelength is outside its range.
        InputError: The circuit has a lossless resonance at a wavelength.
    """
    validate_type("scattering: circuit", circuit, Circuit)
    validate_type("scattering: drive", drive, Bias | Mapping)
    validate_type("scattering: process", process, Process)
    if isinstance(labels, str):
        raise NetlistError(f"labels = {labels!r}: give a list of labels")
    wavelengths = _wavelengths(wavelengths_nm)
    structure = analyse(circuit)
    phases = heater_phases(structure, drive, process, unbiased=unbiased, ground=ground)
    selected = structure.labels if labels is None else tuple(sorted(set(labels)))
    return _scattering(structure, phases, wavelengths, process, selected, progress)


def _scattering(
    structure: CircuitOptics,
    phases: Floats,
    wavelengths: Floats,
    process: Process,
    labels: tuple[str, ...],
    progress: Progress | None,
) -> Scattering:
    """S-parameters between some labels at (H,) heater phases."""
    plan = prepare(structure, wavelengths, process, outs=labels, ins=labels)
    s = s_matrices(plan, phases, wavelengths, process, progress=progress)[0]
    modulators = tuple(label for label in structure.modulators if label in set(labels))
    return Scattering(wavelengths, labels, s, modulators, modulator_of(process))


def prepare(
    structure: CircuitOptics,
    wavelengths_nm: ArrayLike,
    process: Process,
    *,
    outs: Sequence[str] | None = None,
    ins: Sequence[str] | None = None,
    devices: Mapping[str, Complexes] | None = None,
) -> ScatteringPlan:
    """Plan the simulation of a circuit once, for use with any bias and any device values in :func:`s_matrices`.

    Args:
        structure: Optical structure of the circuit.
        wavelengths_nm: (W,) wavelengths in nm, or one; they determine which S-parameters of devices are zero.
        process: Process of the cards.
        outs: Labels at which light is detected; all if None.
        ins: Labels at which light enters; all if None.
        devices: S-parameters that replace the cards', as in :func:`s_matrices`.

    Raises:
        NetlistError: Labels are unknown, ports or widths differ from the cards', or ``devices`` has a wrong shape.
        ModelError: A device has no model, or a wavelength is outside its range.
    """
    wavelengths = _wavelengths(wavelengths_nm)
    cold = np.zeros((1, structure.heater.size))
    given = devices or {}
    if given:
        cold = np.zeros(
            (max(np.shape(s)[0] if np.ndim(s) == _SAMPLE_DIMENSIONS else 1 for s in given.values()), cold.shape[1])
        )
    values = circuit_values(structure, cold, wavelengths, process, given, None)
    outs, ins = (structure.labels if labels is None else tuple(labels) for labels in (outs, ins))
    return plan_circuit(structure, values.patterns(), outs, ins, values.one_way() is None)


def s_matrices(
    plan: ScatteringPlan,
    phases: ArrayLike,
    wavelengths_nm: ArrayLike,
    process: Process,
    *,
    devices: Mapping[str, Complexes] | None = None,
    guides: Complexes | None = None,
    progress: Progress | None = None,
) -> Complexes:
    """Calculate the (K, W, outs, ins) field amplitudes of a circuit for K biases or samples at W wavelengths.

    Apart from the result, memory is bounded by ``CHUNK_NUMBERS``.

    Args:
        plan: Simulation plan of the circuit, from :func:`prepare`.
        phases: (K, H) or (H,) heater phases in rad; H is ``plan.structure.heater.size``.
        wavelengths_nm: (W,) wavelengths in nm, or one wavelength.
        process: Process of the cards.
        devices: Component name to S-parameters that replace the card's, with all heaters off. They broadcast to
            (K, W, I, p, p) for I instances in the order of the flat circuit.
        guides: Field transmissions of the flat circuit's nets, which broadcast to (K, W, nets). By default they follow
            from the lengths of the waveguides.
        progress: Called with the numbers of finished and of all cases, of which there are K · W.

    Raises:
        ModelError: A device has no model, or a wavelength is outside its range.
        NetlistError: Given values have a wrong shape.
        InputError: The circuit has a lossless resonance; or S-parameters that were zero or reciprocal in
            :func:`prepare` no longer are.
    """
    heater_phase = np.atleast_2d(np.asarray(phases, dtype=np.float64))
    heaters = plan.structure.heater.size
    if heater_phase.ndim != 2 or heater_phase.shape[1] != heaters:
        raise NetlistError(f"phases have shape {np.shape(phases)}; give (cases, {heaters} heaters)")
    _refuse_infinite(plan.structure, heater_phase)
    wavelengths = _wavelengths(wavelengths_nm)
    values = circuit_values(plan.structure, heater_phase, wavelengths, process, devices or {}, guides)
    _refuse_unprepared(plan, values)
    s: Complexes = np.empty((values.cases, len(plan.outs), len(plan.ins)), dtype=np.complex128)
    chunk = max(1, CHUNK_NUMBERS // plan.numbers)
    for start in range(0, values.cases, chunk):
        cases = np.arange(start, min(start + chunk, values.cases))
        try:
            s[cases] = evaluate(plan, values.entries(cases), cases.size)
        except SingularError as fault:
            wavelength = wavelengths[(start + fault.item) % wavelengths.size]
            raise singular_error(plan.structure, wavelength, fault.port) from None
        if progress is not None:
            progress(int(cases[-1]) + 1, values.cases)
    return s.reshape(heater_phase.shape[0], wavelengths.size, len(plan.outs), len(plan.ins))


def _wavelengths(given: ArrayLike) -> Floats:
    """(W,) wavelengths; the models check their range."""
    try:
        wavelengths = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        raise NetlistError(f"wavelengths_nm = {reprlib.repr(given)}: give a number in nm, or several") from None
    if wavelengths.ndim != 1 or not wavelengths.size:
        raise NetlistError(f"wavelengths_nm has shape {wavelengths.shape}; give a number in nm, or a list of them")
    return wavelengths


def _refuse_infinite(structure: CircuitOptics, phases: Floats) -> None:
    wrong = np.argwhere(~np.isfinite(phases))
    if wrong.size:
        case, heater = wrong[0].tolist()
        raise NetlistError(
            f"{structure.circuit.name}: the phase of heater {structure.circuit.instances[structure.heater[heater]]!r} "
            f"is {phases[case, heater]:g} in case {case}; give a number"
        )


def _refuse_unprepared(plan: ScatteringPlan, values: DeviceValues) -> None:
    for number, pattern in values.patterns().items():
        if np.any(pattern & ~plan.patterns[number]):
            raise InputError(
                f"S-parameters of {plan.structure.devices[number].name!r} differ from zero that were zero when the "
                "circuit was prepared; prepare it for these wavelengths and samples"
            )
    if plan.reciprocal and (name := values.one_way()):
        raise InputError(
            f"S-parameters of {name!r} are not the same both ways, as they were when the circuit was prepared; prepare "
            "it for these samples"
        )


def set_scattering(
    circuit: Circuit,
    settings: Mapping[str, PadSetting],
    wavelengths_nm: ArrayLike,
    process: Process,
    *,
    labels: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Scattering:
    """Calculate the S-parameters of a circuit for voltages or phases that are set at its pads; other heaters are off.

    Args:
        circuit: Flat or hierarchical.
        settings: Voltages or phases by pad label.
        wavelengths_nm: (W,) wavelengths in nm, or one wavelength.
        process: Process of the cards.
        labels: Labels between which S-parameters are calculated, in this order; all, sorted, if None.
        progress: Called with the numbers of finished and of all wavelengths.

    Raises:
        NetlistError: Optical ports are open, the length of a guide is unknown, or ports or widths differ from the
            cards'.
        ModelError: A device has no model, or a wavelength is outside its range.
        InputError: A setting names no heater, or the circuit has a lossless resonance.
    """
    flat = flatten(circuit)
    _refuse_unknown_lengths(flat)
    optics = analyse(without_heater_pads(flat))
    phases = set_phases(flat, optics, settings, process)
    selected = optics.labels if labels is None else tuple(labels)
    return _scattering(optics, phases, _wavelengths(wavelengths_nm), process, selected, progress)


def _refuse_unknown_lengths(circuit: Circuit) -> None:
    """Raise an error if the netlist does not state the length of a guide."""
    unknown = np.flatnonzero(np.isnan(circuit.net_length_um))
    if unknown.size:
        a, b = (circuit.port_name(int(port)) for port in circuit.nets[unknown[0]])
        raise NetlistError(
            f"{circuit.name}: the netlist does not state the length of the guide {a} - {b} ({unknown.size} such "
            "guides); give the layout, a netlist from Component.get_netlist(), whose guides state their lengths, or a "
            "schematic that joins ports by connections, which touch"
        )
