"""Test layouts at the limit of every design rule: they pass at the limit and fail one step below it.

`cases(process)` yields every case of every rule. For each kind of rule, a function registered by `@scenes("kind")` in
one of the modules yields the scenes.
"""

from rule_cases import bends, chip, currents, density, lines, pads, pairs, photonic
from rule_cases.case import Case, Scene
from rule_cases.mutants import Mutant, mutants
from rule_cases.registry import Subject, apart_nm, cases, cases_of, scenes, subjects
from rule_cases.sheets import Sheet, count_violations, sheets

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
    "count_violations",
    "currents",
    "density",
    "lines",
    "mutants",
    "pads",
    "pairs",
    "photonic",
    "scenes",
    "sheets",
    "subjects",
]
