"""S-parameters of circuits that are driven by settings at pads instead of a bias file, or not driven at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, NetlistError, flatten
from optinc_pdk.simulate.circuit_optics import analyse
from optinc_pdk.simulate.heater_drive.pad_settings import PadSetting, set_phases, without_heater_pads
from optinc_pdk.simulate.s_parameters.scattering import Progress, Scattering, modulator_leak, prepare, s_matrices


def set_scattering(
    circuit: Circuit,
    settings: Mapping[str, PadSetting],
    wavelengths_nm: ArrayLike,
    process: Process,
    *,
    labels: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Scattering:
    """Calculate the S-parameters of a circuit for voltages or phases that are set at its pads.

    Args:
        circuit: The circuit, flat or hierarchical.
        settings: Voltages or phases by pad label; heaters that none of them names are off.
        wavelengths_nm: (W,) wavelengths in nm, or one wavelength.
        process: Process of the cards.
        labels: Labels between which S-parameters are calculated, in this order; all, sorted, if None.
        progress: Called with the numbers of finished and of all wavelengths.

    Returns:
        The S-parameters.

    Raises:
        NetlistError: Optical ports are open, the length of a guide is unknown, or ports or widths differ from the
            cards'.
        ModelError: A device has no model, or a wavelength is outside its range.
        InputError: A setting names no heater, or the circuit is singular: it has a lossless resonance.
    """
    flat = flatten(circuit)
    _refuse_unknown_lengths(flat)
    optics = analyse(without_heater_pads(flat))
    phases = set_phases(flat, optics, settings, process)
    selected = optics.labels if labels is None else tuple(labels)
    wavelengths = np.atleast_1d(np.asarray(wavelengths_nm, dtype=np.float64))
    plan = prepare(optics, wavelengths, process, outs=selected, ins=selected)
    s: Complexes = s_matrices(plan, phases, wavelengths, process, progress=progress)[0]
    modulators = tuple(label for label in optics.modulators if label in set(selected))
    return Scattering(wavelengths, selected, s, modulators, modulator_leak(process))


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
