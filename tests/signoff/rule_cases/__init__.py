"""Layouts at the limit of every design rule, as foundries test theirs: they pass there and fail one step below.

`cases(process)` yields every case of every rule. Which scenes there are for a kind of rule, a function in one of the
modules here says, registered by `@scenes("kind")`.
"""

from rule_cases import bends, chip, currents, density, lines, pads, pairs, photonic
from rule_cases.case import Case, Scene
from rule_cases.mutants import Mutant, mutants
from rule_cases.registry import Subject, apart_nm, cases, cases_of, scenes, subjects
from rule_cases.sheets import Sheet, judge, sheets

__all__ = [
    "Case",
    "Mutant",
    "Scene",
    "Sheet",
    "Subject",
    "apart_nm",
    "bends",
    "cases",
    "cases_of",
    "chip",
    "currents",
    "density",
    "judge",
    "lines",
    "mutants",
    "pads",
    "pairs",
    "photonic",
    "scenes",
    "sheets",
    "subjects",
]
