"""What sign-off says of a mutant: XOR first, then rules, netlist and function; survivors must be shown equivalent."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb
import numpy as np

from mutants import devices, file, guides, heaters, pads, wires  # noqa: F401  (they register their kinds)
from mutants.chips import Base, merged, texts
from mutants.draft import Draft
from mutants.equivalent import reason
from mutants.kinds import KINDS
from optinc_pdk.extract import extract
from optinc_pdk.files import InputError
from optinc_pdk.signoff.drc import run_drc
from optinc_pdk.signoff.electrical import check_electrical
from optinc_pdk.signoff.function import FunctionResult, check_function
from optinc_pdk.signoff.lvs import compare
from optinc_pdk.signoff.wiring import read_wiring

SAME, CAUGHT, EQUIVALENT, HOLE = "same geometry", "caught", "equivalent", "hole"


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant.

    Attributes:
        chip: Name of the chip.
        kind: Kind of fault.
        number: Its number among the mutants of that kind, which seeds it.
        description: What was done.
        place_um: Where.
        outcome: ``"same geometry"``, ``"caught"``, ``"equivalent"`` or ``"hole"``.
        refused: Why the file is no layout that can be checked, or empty.
        drc: Ids of the rules of severity error that are broken.
        lvs: Kinds of differences from the netlist.
        function: What is wrong with the function, or empty.
        reason: Why a survivor is equivalent, or why it is not.
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
    """Write a mutant; returns what was done and where, None where the chip has nothing of that kind."""
    draft = Draft(base)
    rng = np.random.default_rng([number, zlib.crc32(f"{base.name} {kind}".encode())])
    mutation = KINDS[kind](draft, rng)
    if mutation is None:
        return None
    draft.write(path)
    return mutation.description, mutation.place


def judge(base: Base, kind: str, number: int, folder: Path, thorough: bool = True) -> Verdict | None:
    """Make a mutant and let the checkers look at it.

    Args:
        base: The chip.
        kind: Kind of fault.
        number: Seeds the mutant.
        folder: Where the mutant is written.
        thorough: Whether the rules are checked too where LVS has found differences.

    Returns:
        The verdict; None where the chip has nothing of that kind.
    """
    path = folder / f"{base.name}_mutant.gds"
    made = mutant(base, kind, number, path)
    if made is None:
        return None
    told = (base.name, kind, number, *made)
    if same_geometry(base, path):
        return Verdict(*told, SAME, reason="no layer and no text differs")
    try:
        extraction = extract(path, base.process)
        lvs = compare(base.circuit, extraction, base.process)
        broken = broken_rules(base, path, lvs.match) if thorough or lvs.match else ()
    except InputError as fault:
        return Verdict(*told, CAUGHT, refused=str(fault).partition(": ")[2])
    kinds = tuple(sorted({difference.kind for difference in lvs.differences}))
    if broken or kinds:
        return Verdict(*told, CAUGHT, drc=broken, lvs=kinds)
    function = computed(base, path, extraction.circuit)
    if isinstance(function, str):
        return Verdict(*told, CAUGHT, function=function)
    equivalent, why = reason(base, path, extraction, lvs, function)
    return Verdict(*told, EQUIVALENT if equivalent else HOLE, reason=why)


def broken_rules(base: Base, path: Path, wired: bool) -> tuple[str, ...]:
    """Ids of the rules of severity error that a file breaks; ``wired`` as the original, also those on currents."""
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
    """What a file's extracted circuit computes with the original's bias and its own grounds, or what is wrong."""
    try:
        ground = read_wiring(path, base.process).common
        found = check_function(circuit, base.circuit.board, base.bias, base.onn.task, base.process, ground)
    except (InputError, ValueError) as fault:
        return str(fault)
    return found if found.passed else f"{found.exact} of {found.inputs} words exact"
