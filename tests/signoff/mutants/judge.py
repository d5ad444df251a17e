"""Sign-off of a mutant: XOR first, then LVS, DRC and function; survivors must be shown to be equivalent."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb
import numpy as np

from mutants import (  # noqa: F401  (they register their kinds)
    couplings,
    devices,
    facets,
    file,
    guides,
    heaters,
    instances,
    layers,
    pads,
    widths,
    wires,
)
from mutants.chips import Base, merged, texts
from mutants.draft import Draft
from mutants.equivalent import reason
from mutants.kinds import KINDS
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.electrical.electrical_check import check_electrical
from optinc_pdk.signoff.electrical.wiring import read_wiring
from optinc_pdk.signoff.function import FunctionResult, check_function
from optinc_pdk.signoff.lvs.comparison import compare

SAME, CAUGHT, EQUIVALENT, HOLE = "same geometry", "caught", "equivalent", "hole"


@dataclass(frozen=True)
class Verdict:
    """Result of sign-off for one mutant.

    Attributes:
        chip: Name of the chip.
        kind: Kind of fault.
        number: Its number among the mutants of that kind, which seeds it.
        description: The injected fault.
        place_um: Its position.
        outcome: ``"same geometry"``, ``"caught"``, ``"equivalent"`` or ``"hole"``.
        refused: Reason why the file cannot be checked, or empty.
        drc: Ids of the violated rules of severity error.
        lvs: Kinds of differences from the netlist.
        function: Failure of the function check, or empty.
        reason: Reason why a survivor is equivalent or not.
    """

    chip: str
    kind: str
    number: int
    description: str
    place_um: tuple[float, float]
    outcome: str
    refused: str = ""
    drc: tuple[str, ...] = ()
    lvs: tuple[str, ...] = ()
    function: str = ""
    reason: str = ""


def mutant(base: Base, kind: str, number: int, path: Path) -> tuple[str, tuple[float, float]] | None:
    """Write a mutant; returns the fault and its position, None if the chip has nothing of that kind."""
    draft = Draft(base)
    rng = np.random.default_rng([number, zlib.crc32(f"{base.name} {kind}".encode())])
    mutation = KINDS[kind](draft, rng)
    if mutation is None:
        return None
    draft.write(path)
    return mutation.description, mutation.place


def judge(base: Base, kind: str, number: int, folder: Path, thorough: bool = True) -> Verdict | None:
    """Write a mutant and run the checks on it.

    Args:
        base: The chip.
        kind: Kind of fault.
        number: Seed of the mutant.
        folder: Folder in which the mutant is written.
        thorough: Whether to check the rules even if LVS has reported differences.

    Returns:
        The verdict; None if the chip has nothing of that kind.
    """
    path = folder / f"{base.name}_mutant.gds"
    written = mutant(base, kind, number, path)
    if written is None:
        return None
    injected = (base.name, kind, number, *written)
    if same_geometry(base, path):
        return Verdict(*injected, SAME, reason="no layer and no text differs")
    try:
        extraction = extract(path, base.process)
        lvs = compare(base.circuit, extraction, base.process)
        broken = broken_rules(base, path, lvs.match) if thorough or lvs.match else ()
    except InputError as fault:
        return Verdict(*injected, CAUGHT, refused=str(fault).partition(": ")[2])
    kinds = tuple(sorted({difference.kind for difference in lvs.differences}))
    if broken or kinds:
        return Verdict(*injected, CAUGHT, drc=broken, lvs=kinds)
    function = computed(base, path, extraction.circuit)
    if isinstance(function, str):
        return Verdict(*injected, CAUGHT, function=function)
    equivalent, why = reason(base, path, extraction, lvs, function)
    return Verdict(*injected, EQUIVALENT if equivalent else HOLE, reason=why)


def broken_rules(base: Base, path: Path, wired: bool) -> tuple[str, ...]:
    """Ids of the rules of severity error that a file violates; with ``wired``, electrical rules are checked too."""
    drc, rules = run_drc(path, base.process.rules, base.process.gds_layers, threads=1), base.process.rules
    electrical = check_electrical(rules, read_wiring(path, base.process), base.bias).rules if wired else ()
    return tuple(r.id for r in drc.all_rules(electrical) if r.violations and r.rule.severity == "error")


def same_geometry(base: Base, path: Path) -> bool:
    """Whether a file differs from the original in no merged layer and no text."""
    layout = kdb.Layout()
    layout.read(str(path))
    if layout.dbu != base.layout.dbu or len(layout.top_cells()) != 1 or texts(layout) != base.texts:
        return False
    shapes = merged(layout)
    return shapes.keys() == base.shapes.keys() and all((shapes[k] ^ base.shapes[k]).is_empty() for k in shapes)


def computed(base: Base, path: Path, circuit: object) -> FunctionResult | str:
    """Result of the function check with the original's bias and the file's own ground rise, or the failure."""
    try:
        ground = read_wiring(path, base.process).common_ground
        found = check_function(circuit, base.circuit.board, base.bias, base.onn.task, base.process, ground)
    except (InputError, ValueError) as fault:
        return str(fault)
    return found if found.passed else f"{found.exact} of {found.inputs} words exact"
