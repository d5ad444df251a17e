"""Which scenes there are for each kind of rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from optinc_pdk.cards import load_process, process_names
from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import Rule
from optinc_pdk.signoff.drc import ELECTRICAL_KINDS
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
    """Every case of every rule of a process that needs no bias."""
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
    """How far apart shapes are that the rule sees nothing between."""
    numbers = [getattr(rule, name, 0.0) for name in ("value_um", "exempt_um", "body_um", "merge_um")]
    return round(2000 * sum(numbers)) + 20_000


@dataclass(frozen=True)
class Subject:
    """A rule and the processes that have it, equal to the last letter.

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
    def proved_with(self) -> list[Rule]:
        """The rule that makes a run prove rules of guides first, where this is one."""
        spaces = [rule for rule in self.process.rules if rule.kind == "guide_space"]
        return [rule for rule in spaces if rule.layers[0] in self.rule.layers and rule != self.rule]


def subjects() -> list[Subject]:
    """Every rule of every process, those that several processes share once."""
    found: dict[tuple[Rule, tuple[tuple[int, int], ...]], list[Process]] = {}
    # a process before those that are based on it
    for process in sorted(map(load_process, process_names()), key=lambda process: len(process.folders)):
        for rule in process.rules:
            found.setdefault((rule, tuple(process.gds_layers[name] for name in rule.layers)), []).append(process)
    return [Subject(rule, users[0], tuple(user.name for user in users)) for (rule, _), users in found.items()]
