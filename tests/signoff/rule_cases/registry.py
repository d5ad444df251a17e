"""Registry of the scenes for each kind of rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from optinc_pdk.cards import load_process, process_names
from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import Rule
from optinc_pdk.signoff.drc.design_rule_check import ELECTRICAL_KINDS
from rule_cases.case import Case, LayerMap, Scene, drawn

Draft = Callable[[Any, Process], Iterator[Scene]]
SCENES: dict[str, Draft] = {}


def scenes(*kinds: str) -> Callable[[Draft], Draft]:
    """Register a function that yields the scenes of a rule of these kinds, in a process."""

    def register(draft: Draft) -> Draft:
        SCENES.update(dict.fromkeys(kinds, draft))
        return draft

    return register


def cases(process: Process) -> Iterator[Case]:
    """All cases of the geometric rules of a process."""
    for rule in process.rules:
        if rule.kind not in ELECTRICAL_KINDS:
            yield from cases_of(rule, process)


def cases_of(rule: Rule, process: Process) -> Iterator[Case]:
    """Every case of one rule.

    Raises:
        KeyError: There are no scenes for a rule of this kind.
    """
    for scene in scenes_of(rule, process):
        yield from drawn(rule, scene, process.gds_layers, apart_nm(rule))


def scenes_of(rule: Rule, process: Process) -> Iterator[Scene]:
    """Every scene of one rule.

    Raises:
        KeyError: There are no scenes for a rule of this kind.
    """
    return SCENES[rule.kind](rule, process)


def apart_nm(rule: Rule) -> int:
    """Distance in nm at which two shapes do not affect each other under a rule."""
    numbers = [getattr(rule, name, 0.0) for name in ("value_um", "exempt_um", "body_um", "merge_um")]
    return round(2000 * sum(numbers)) + 20_000


@dataclass(frozen=True)
class Subject:
    """A rule and the processes that have it with equal content.

    Attributes:
        rule: The rule.
        process: The first of the processes.
        processes: Their names.
    """

    rule: Rule
    process: Process
    processes: tuple[str, ...]

    @property
    def layers(self) -> LayerMap:
        """Layers of the first process."""
        return self.process.gds_layers

    @property
    def condensed_with(self) -> list[Rule]:
        """The rules of guide space that cause a rule of guides to be checked on condensed layouts; else empty."""
        spaces = [rule for rule in self.process.rules if rule.kind == "guide_space"]
        return [rule for rule in spaces if rule.layers[0] in self.rule.layers and rule != self.rule]


def subjects() -> list[Subject]:
    """Every rule of every process; a rule that several processes share is listed once."""
    users: dict[tuple[Rule, tuple[tuple[int, int], ...]], list[Process]] = {}
    # a process before those that are based on it
    for process in sorted(map(load_process, process_names()), key=lambda process: len(process.folders)):
        for rule in process.rules:
            users.setdefault((rule, tuple(process.gds_layers[name] for name in rule.layers)), []).append(process)
    return [Subject(rule, found[0], tuple(process.name for process in found)) for (rule, _), found in users.items()]
