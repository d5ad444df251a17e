"""All checks that apply to a layout with or without a netlist: design rules, LVS, faults, and S-parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, PlacedCircuit
from optinc_pdk.errors import InputError
from optinc_pdk.models.registry import NoModelError
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, check_chip
from optinc_pdk.signoff.extracted_chip import DrawnCircuit, read_drawn_circuit
from optinc_pdk.signoff.layout_faults import LayoutFault, affect_function, unused_labels
from optinc_pdk.signoff.lvs.comparison import LvsResult
from optinc_pdk.signoff.spectrum_comparison import SpectrumComparison, compare_spectra
from optinc_pdk.simulate.heater_drive import PadSetting
from optinc_pdk.simulate.s_parameters.scattering import Progress, Scattering, set_scattering

STAGES = ("drc", "lvs", "simulate")
"""Stages of a verification, in their order."""


@dataclass(frozen=True, eq=False)
class Verification:
    """Results of all checks of a layout.

    Attributes:
        drc: Results of the geometric design rules.
        drawn: The extracted circuit, its faults, and its comparison with the netlist, if there is one.
        scattering: S-parameters of the extracted circuit; None if it cannot be simulated.
        not_simulated: Reason why there are no S-parameters; empty if there are.
        without_model: Whether the reason is that a device of the circuit has no model, which is no fault of the layout.
        spectra: S-parameters of the netlist beside those of the layout; None if they cannot be compared.
        not_compared: Reason why they are not compared; empty if they are.
    """

    drc: DrcResult
    drawn: DrawnCircuit
    scattering: Scattering | None
    not_simulated: str
    without_model: bool = False
    spectra: SpectrumComparison | None = None
    not_compared: str = ""

    @property
    def lvs(self) -> LvsResult | None:
        """Comparison with the netlist; None without a netlist."""
        return self.drawn.lvs

    @property
    def rules_not_run(self) -> dict[str, tuple[str, ...]]:
        """Ids of the design rules that were not run, by the reason."""
        return self.drc.rules_not_run()

    @property
    def faults(self) -> tuple[LayoutFault, ...]:
        """Faults of the layout that a simulation does not include."""
        return self.drawn.faults

    @property
    def separate_faults(self) -> tuple[LayoutFault, ...]:
        """Faults that are no differences from the netlist, all without a netlist."""
        return self.drawn.separate_faults

    @property
    def warnings(self) -> tuple[LayoutFault, ...]:
        """What is wrong with the layout without effect on its circuit: labels that name nothing."""
        return unused_labels(self.drawn.extraction)

    @property
    def passed(self) -> bool:
        """Whether no rule is violated, and the layout matches its netlist in parts and function, and has no fault."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The checks that failed.

        A circuit with a device without a model passes without simulation: such a device is only drawn and compared.
        """
        checks = {
            "design rules": self.drc.clean,
            "LVS": self.lvs is None or self.lvs.match,
            "faults of the layout": not affect_function(self.faults),
            "not simulated": self.scattering is not None or self.without_model,
            "function": self.spectra is None or self.spectra.within,
        }
        return tuple(name for name, passed in checks.items() if not passed)


def verify(
    gds_path: Path,
    netlist: Circuit | PlacedCircuit | None,
    settings: Mapping[str, PadSetting],
    wavelengths_nm: Floats,
    process: Process,
    on_stage: Callable[[str], None],
    on_wavelength: Progress | None = None,
    tolerance: float | None = None,
) -> Verification:
    """Run every check that applies to a layout.

    Args:
        netlist: Circuit of its netlist; None if there is none.
        settings: Voltages or phases by pad label, for the simulation.
        wavelengths_nm: (W,) wavelengths of the simulation.
        on_stage: Called with the name of every stage when it begins.
        on_wavelength: Called with the numbers of finished and of all wavelengths.
        tolerance: Largest accepted deviation of the layout's power and phase from the netlist's; see
            `spectrum_comparison.compare_spectra`.

    Raises:
        InputError: A file cannot be used, the netlist is of another chip or process, or a setting names no heater.
    """
    on_stage("drc")
    drc = check_chip(gds_path, process, parts=True)
    on_stage("lvs")
    drawn = read_drawn_circuit(gds_path, netlist, process)
    on_stage("simulate")
    scattering, reason, without_model = None, "", False
    circuit = drawn.circuit
    if not circuit.ports or not circuit.optical_mask()[list(circuit.ports.values())].any():
        reason = "the layout has no fibre coupler, so there is nothing to simulate between"
    else:
        try:
            scattering = set_scattering(circuit, settings, wavelengths_nm, process, progress=on_wavelength)
        except NoModelError as error:
            reason, without_model = str(error), True
        except InputError as error:
            # of a sound layout, it is the settings or wavelengths that cannot be used
            if not affect_function(drawn.faults):
                raise
            reason = str(error)
    spectra, not_compared = None, reason
    if drawn.reference is None:
        not_compared = "no netlist was given"
    elif scattering is not None:
        try:
            spectra = compare_spectra(drawn.reference, circuit, wavelengths_nm, process, tolerance)
        except InputError as error:
            # the netlist states no lengths, or LVS reports what is different
            not_compared = str(error)
    return Verification(drc, drawn, scattering, reason, without_model, spectra, not_compared)
