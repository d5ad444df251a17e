"""Equivalence of a mutant that passes all checks with the original, measured on the extracted circuits."""

from __future__ import annotations

from pathlib import Path

import klayout.db as kdb
import numpy as np

from mutants.chips import Base, merged
from optinc_pdk.arrays import Floats
from optinc_pdk.circuit import flatten
from optinc_pdk.extract import Extraction
from optinc_pdk.signoff.function import FunctionResult
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare

# Largest change of the margin in levels that lengths and resistances may cause; a wrong word needs a hundred times it.
MARGIN_LEVELS = 0.005
# Length of a guide in µm whose phase of 0.5 rad the heaters of a chip compensate. Netlists of builds state no lengths;
# LVS compares those of arms and trees only, with each other.
COMPENSATED_UM = 0.05
# Rounding of a length measured on polygons, in µm.
ROUNDING_UM = 1e-3
# Least change of the area of guides, in nm µm, that is measured.
LEAST_NM_UM = 0.01
# Phase per length of a strip beside which a slab begins, which makes it a rib on one side; solved for 450 × 220 nm.
RIB_RAD_PER_UM = 0.4
# Index of oxide at 1550 nm (Malitson, J. Opt. Soc. Am. 55, 1205, 1965).
OXIDE = 1.444
# Distances in nm at which shapes beside silicon are searched for.
STEPS_NM = (0, 50, 100, 200, 500, 1000, 1500, 2000, 3000, 4000, 5000)


def reason(
    base: Base, path: Path, extraction: Extraction, lvs: LvsResult, function: FunctionResult
) -> tuple[bool, str]:
    """Whether a mutant is equivalent, and a text with the differences.

    An equivalent mutant has the same devices in the same nets, and heaters and wires that carry the same current. Its
    guides have the same lengths within what heaters compensate, or its function does not change. Their widths
    shift no phase by more than the static error that the process card states for every guide, nor do shapes of slab and
    drawn labels beside them.
    """
    original = compare(base.circuit, base.extraction, base.process)
    faults: list[str] = []
    changes = [_layers(base, path)]
    if dict(_devices(extraction)) != dict(_devices(base.extraction)):
        faults.append("other devices")
    shift = np.abs(_positions(extraction, lvs) - _positions(base.extraction, original)).max() * 1000
    if shift > 0:
        changes.append(f"devices moved by up to {shift:g} nm")
    after_um, before_um = _lengths(base, extraction, lvs), _lengths(base, base.extraction, original)
    longer = np.abs(after_um - before_um).max()
    change = abs(function.margin - base.function.margin)
    wider = _wider(base, path, float(np.sum(after_um) - np.sum(before_um)))
    if abs(wider) > LEAST_NM_UM:
        phase = wider * float(base.process.imperfections.width.rad_per_nm) / 100
        changes.append(f"area of guides changed by {wider:+.2f} nm µm, a phase of {abs(phase):.4f} rad")
        if abs(phase) > float(base.process.imperfections.phase.rms_rad):
            faults.append("the width of a guide shifts the phase")
    beside = _beside(base, path)
    if beside > 0:
        changes.append(f"layers beside silicon shift the phase by up to {beside:.2g} rad")
    if beside > float(base.process.imperfections.phase.rms_rad):
        faults.append("a layer beside silicon shifts the phase")
    if longer > ROUNDING_UM:
        changes.append(f"guides differ by up to {longer * 1000:.0f} nm")
    for key in base.extraction.circuit.settings:
        before, after = (_settings(e, m, key) for e, m in ((base.extraction, original), (extraction, lvs)))
        if not np.array_equal(np.isnan(before), np.isnan(after)):
            faults.append(f"{key} of other devices")
        elif (worst := np.nanmax(np.abs(after - before), initial=0.0)) > 1e-9:
            changes.append(f"{key} differs by up to {worst:.3g}")
            if key != "wire_ohm":
                faults.append(f"{key} differs")
    if narrow := _thinner(base, path):
        faults.append(f"{narrow:.1f} µm² of metal are narrower than a wire that carries a heater's current")
    if change > MARGIN_LEVELS and longer > COMPENSATED_UM:
        faults.append("the function changes")
    changes.append(f"words exact, margin changed by {change:.4f}")
    return not faults, "; ".join([*faults, *changes])


def _devices(extraction: Extraction) -> list[tuple[str, float]]:
    lengths = ("guides", "joints", "guide_length_um")
    return [(kind, count) for kind, count in extraction.silicon.items() if kind not in lengths]


def _positions(extraction: Extraction, lvs: LvsResult) -> Floats:
    """(I, 2) positions of devices in the order of the reference."""
    return extraction.circuit.position_um[lvs.device_map]


def _settings(extraction: Extraction, lvs: LvsResult, key: str) -> Floats:
    return extraction.circuit.settings[key][lvs.device_map]


def _lengths(base: Base, extraction: Extraction, lvs: LvsResult) -> Floats:
    """(n,) lengths of guides in the order of the reference's nets."""
    circuit = extraction.circuit
    length = np.zeros(int(circuit.offset[-1]))
    length[circuit.nets] = circuit.net_length_um[:, None]
    return length[lvs.port_map[flatten(base.circuit).nets[:, 0]]]


def _wider(base: Base, path: Path, longer_um: float) -> float:
    """Area in nm µm that the silicon gained beyond its additional length: width errors times their lengths."""
    key = base.process.gds_layers["core"]
    gained = _shapes(path).get(key, kdb.Region()).area() - base.region("core").area()
    return gained / 1000 - longer_um * 1000 * float(base.process.guide.width_um)


def _beside(base: Base, path: Path) -> float:
    """Bound in rad of the phase by shapes of slab and drawn labels that were added beside silicon.

    The index changes in proportion to the intensity at the shape, which falls by exp(-2 γ d) in oxide, γ from the
    effective index. The shape counts with half of its perimeter, as if it were a strip along a guide.
    """
    guide, core = base.process.guide, base.region("core")
    gamma = 2000 * np.pi / float(guide.wavelength_nm) * np.sqrt(float(guide.index) ** 2 - OXIDE**2)
    phase = 0.0
    for name in ("slab", "label"):
        key = base.process.gds_layers[name]
        added = _shapes(path).get(key, kdb.Region()) - base.region(name)
        for shape in added.merged().each():
            # it is at least as far as the last distance at which nothing is met
            met = [step for step in STEPS_NM if not (kdb.Region(shape).sized(step) & core).is_empty()]
            if met:
                away = STEPS_NM[max(STEPS_NM.index(met[0]) - 1, 0)] / 1000
                phase += RIB_RAD_PER_UM * shape.perimeter() / 2000 * float(np.exp(-2 * gamma * away))
    return phase


def _layers(base: Base, path: Path) -> str:
    """The layers that differ, with the area of the difference."""
    shapes, names = _shapes(path), {gds: name for name, gds in base.process.gds_layers.items()}
    areas = {}
    for key in sorted(shapes.keys() | base.shapes.keys()):
        differs = shapes.get(key, kdb.Region()) ^ base.shapes.get(key, kdb.Region())
        if not differs.is_empty():
            areas[names.get(key, str(key))] = differs.area() / 1e6
    return ", ".join(f"{name} differs by {area:.4g} µm²" for name, area in areas.items()) or "texts differ"


def _thinner(base: Base, path: Path) -> float:
    """Area in µm² of metal that is narrower than a wire in the mutant, but not in the original."""
    key = base.process.gds_layers[base.process.metal.layer]
    half = round(float(base.process.metal.wire_width_um) * 500) - 1
    new, old = _shapes(path).get(key, kdb.Region()), base.region(base.process.metal.layer)
    slim = [metal - metal.sized(-half).sized(half) for metal in (new, old)]
    return (slim[0] - slim[1]).sized(-1).sized(1).area() / 1e6


def _shapes(path: Path) -> dict[tuple[int, int], kdb.Region]:
    layout = kdb.Layout()
    layout.read(str(path))
    return merged(layout)
