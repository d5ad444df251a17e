"""Faults of a layout that extraction and the electrical check find, and which of them a simulation does not include.

A simulation includes what extraction recognises: golden devices, guides of the nominal width, heaters wired to labelled
pads. A fault is a place where the layout has something else. `FAULT_KINDS` states for each kind whether the fabricated
chip may therefore compute something else than the simulated one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from optinc_pdk.extract import Extraction, Fault


class FaultKind(NamedTuple):
    """A kind of fault.

    Attributes:
        affects_function: Whether the fabricated chip may compute something else than the simulated one.
        meaning: What is wrong, and what the simulation assumes instead.
    """

    affects_function: bool
    meaning: str


FAULT_KINDS: Mapping[str, FaultKind] = {
    # silicon
    "dangling": FaultKind(True, "guide with one end; light that enters it is lost or reflected"),
    "branch": FaultKind(True, "guide with other than two ends; it is not simulated"),
    "width": FaultKind(True, "guide of another width, tapered or kinked; simulated with the nominal width"),
    "body": FaultKind(True, "damaged or unknown device; simulated as if undamaged, or missing"),
    "stray": FaultKind(True, "silicon that is part of nothing, and may couple to guides; it is not simulated"),
    "foreign": FaultKind(True, "silicon too close to a device, or to a guide that passes one; it is not simulated"),
    "nearly": FaultKind(True, "device that differs from its golden polygons; it is missing in the simulation"),
    "etch": FaultKind(True, "grating etch missing, altered or elsewhere; simulated as in the golden devices"),
    "facet": FaultKind(True, "edge coupler away from the edge of the die; simulated with the loss of its card"),
    "slab": FaultKind(True, "slab over or beside silicon, which changes the index of guides; it is not simulated"),
    "layer": FaultKind(True, "drawn label or metal within reach of light in silicon; it is not simulated"),
    "coupled": FaultKind(False, "mark of coupled guides without such a device; marks are not manufactured"),
    "coupled_guides": FaultKind(True, "mark over other than two separate guides; their coupling is not simulated"),
    "coupled_end": FaultKind(True, "coupled guide that ends under its mark; the coupling is not simulated"),
    "open_port": FaultKind(True, "device whose optical port leads to no guide, device or labelled fibre"),
    # heaters and metal
    "heater": FaultKind(True, "heater shape that is no phase shifter; its heat is not simulated"),
    "pin": FaultKind(True, "no metal at a pin of a photodiode or modulator"),
    "via": FaultKind(True, "via that is not completely on both metals; simulated as a sound contact"),
    "short": FaultKind(True, "pads, contacts or pins joined in metal"),
    "bump": FaultKind(True, "opening of a bump that is missing or has another shape; simulated as a sound contact"),
    "unused_label": FaultKind(False, "label on no fibre coupler or pad, which names nothing"),
    "label": FaultKind(True, "label that is used twice, is misplaced, or is missing in the layout"),
    # wiring of the heaters, alone and with the bias
    "open_wire": FaultKind(True, "heater without pad or ground: its wire is cut; it cannot be driven"),
    "pad_without_label": FaultKind(True, "heater whose pad has no label; it cannot be driven"),
    "shared_wire": FaultKind(True, "several heaters on the wire of one pad; their phases depend on each other"),
    "channel_without_heater": FaultKind(True, "channel of the bias that drives no heater"),
    "heater_without_channel": FaultKind(True, "heater whose pad is no channel of the bias; it is not driven"),
    "not_solved": FaultKind(True, "currents that cannot be solved at the bias"),
}
"""All kinds of faults; those of an extraction's `Fault` keep their names. docs/function_check.md has the same table."""


@dataclass(frozen=True)
class LayoutFault:
    """A place where a layout is not what a simulation of it assumes.

    Attributes:
        kind: Key of `FAULT_KINDS`.
        text: What was found, and where the remedy is not obvious, the remedy.
        place_um: Position (x, y) in µm; None if it is known for no place, such as a missing label.
    """

    kind: str
    text: str
    place_um: tuple[float, float] | None = None

    @property
    def affects_function(self) -> bool:
        """Whether the fabricated chip may compute something else than the simulated one."""
        return FAULT_KINDS[self.kind].affects_function

    def to_json(self) -> dict[str, Any]:
        """Return the fault for JSON: kind, place in µm, text, and whether it can affect the function."""
        return {
            "kind": self.kind,
            "place_um": None if self.place_um is None else list(self.place_um),
            "text": self.text,
            "affects_function": self.affects_function,
        }

    def __str__(self) -> str:
        """Return kind, place and text as one line."""
        where = "" if self.place_um is None else " at ({:.3f}, {:.3f}) µm".format(*self.place_um)
        return f"{self.kind}{where}: {self.text}"


def layout_faults_of(faults: Iterable[Fault]) -> tuple[LayoutFault, ...]:
    """Return the faults of an extraction in the form in which all checks report them."""
    return tuple(LayoutFault(fault.kind, fault.message, fault.position_um) for fault in faults)


def unused_labels(extraction: Extraction) -> tuple[LayoutFault, ...]:
    """Return a warning for each label that lies on no fibre coupler and no metal, where somebody may miss it."""
    text = "label {!r} is on no fibre coupler or pad, so it names nothing; move or delete it"
    return tuple(
        LayoutFault("unused_label", text.format(label.text), label.position_um) for label in extraction.unused_labels
    )


def affect_function(faults: Iterable[LayoutFault]) -> bool:
    """Whether at least one fault can affect the function."""
    return any(fault.affects_function for fault in faults)
