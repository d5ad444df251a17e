"""The report of a cascade: the schema of `cascade.json`, and its summary as a table."""

from __future__ import annotations

import io
from typing import Final, Literal, Self

from pydantic import Field, model_validator
from rich.console import Console
from rich.table import Table
from rich.text import Text

from optinc_pdk.io.formatting import format_errors
from optinc_pdk.io.json_files import json_text
from optinc_pdk.io.report_models import Count, NotNegative, Positive, Sha256, StrictModel
from optinc_pdk.report.schema import ErrorNumbers, TaskNumbers, accepted_text

SCHEMA: Final = 1
ASSUMPTIONS: Final = (
    "The N chips of level 1 are N times the same extracted chip with the same bias; each has one output fibre for each "
    "symbol.",
    "Every fibre between the levels is locked in phase to the carrier of level 2 while all servers send their largest "
    "words. Deviations of the phase that depend on the words are simulated.",
    "The amplitude of each symbol at level 2 is known from the receiver scales of level 1, and level 2 is factored and "
    "programmed for it.",
    "All fibres between the levels have the same loss. Reflections between chips are neglected, because isolators "
    "suppress them; reflections within each chip are simulated.",
    "Each output fibre of level 2 is split passively to the N servers of one group; its receivers decide on the same "
    "levels.",
    "Carrier and symbols are noiseless.",
)
"""What the check of a cascade assumes."""


class LevelNumbers(StrictModel):
    """The chip of one level.

    Attributes:
        name: Name of the chip and of its files.
        weights: Origin of the network: a file, or "comparators".
        verdict: Verdict of the chip's own report.
        accepted: Missed budgets of the process that were accepted, as text.
        report: SHA-256 of its `report.json`.
        structure: Number of units of each layer.
        mzis: Number of MZIs by the convention of arXiv 2603.28290.
        mzis_on_chip: Number of MZIs, dummies and attenuators; None if the chip was not programmed.
        exact: Number of ``inputs`` of its function check that are exact; None if it did not run, as the following.
        margin: Smallest margin of this check in decision steps.
        gain: Largest gain of a neuron; None if the chip was not programmed.
    """

    name: str
    weights: str
    task: TaskNumbers
    verdict: Literal["pass", "fail"]
    # missing in older reports
    accepted: list[str] = Field(default_factory=list)
    report: Sha256
    structure: list[Count]
    mzis: Count
    mzis_on_chip: Count | None
    exact: Count | None
    inputs: Count | None
    margin: float | None
    gain: NotNegative | None


class LinkNumbers(StrictModel):
    """The fibres between the levels.

    Attributes:
        fibre_loss_db: Loss of a fibre with its connectors in dB.
        amplitudes: Amplitude of level 3 of each symbol in the input fibres of level 2, most significant symbol first; 1
            is the carrier's amplitude.
        loss_db: The same as a loss in dB relative to a server's modulator, which sends level 3 with amplitude 1.
    """

    fibre_loss_db: NotNegative
    amplitudes: list[Positive]
    loss_db: list[float]


class WordNumbers(StrictModel):
    """Words of N² servers through both levels.

    Attributes:
        sets: Number of word sets, of which ``random`` are random and the others corner cases.
        receivers: Number of receivers of level 2 that read each set.
        exact: Number of sets for which every receiver reads the average of all words.
        margin: Smallest margin at the receivers in levels.
        margins: Smallest margin of each symbol, most significant symbol first.
        errors: Wrong words by error value, the most frequent first.
        level1_margin: Smallest margin of the fields between the levels, in decision steps of level 1.
        quadrature: Largest component of a field between the levels in quadrature with the locked phase, in levels.
    """

    sets: Count
    random: Count
    seed: Count
    receivers: Count
    exact: Count
    margin: float
    margins: list[float]
    errors: list[ErrorNumbers]
    level1_margin: float
    quadrature: NotNegative

    @property
    def accuracy(self) -> float:
        """Fraction of exact word sets."""
        return self.exact / self.sets


class CascadeReport(StrictModel):
    """Content of `cascade.json`; ``link`` and ``words`` are None if a chip was not programmed."""

    schema_number: Literal[1] = Field(default=SCHEMA, alias="schema")
    name: str
    verdict: Literal["pass", "fail"]
    process: str
    bits: Count
    servers: Count
    servers_of_a_chip: Count
    levels: list[LevelNumbers]
    link: LinkNumbers | None
    words: WordNumbers | None
    findings: list[str]
    assumptions: list[str] = Field(default_factory=lambda: list(ASSUMPTIONS))
    files: dict[str, Sha256] = Field(default_factory=dict)
    seconds: dict[str, NotNegative] = Field(default_factory=dict)

    def failures(self) -> list[str]:
        """List what failed or did not run, one line each; empty for a cascade that passes."""
        failures = [f"{level.name}: verdict fail" for level in self.levels if level.verdict == "fail"]
        if self.words is None:
            failures.append("words: not run")
        elif self.words.exact != self.words.sets or not self.words.sets:
            failures.append(f"words: {self.words.sets - self.words.exact:,} of {self.words.sets:,} sets wrong")
        return failures

    @model_validator(mode="after")
    def _check_verdict(self) -> Self:
        if self.verdict == "pass" and (failures := self.failures()):
            raise ValueError(f"verdict: 'pass' contradicts {'; '.join(failures)}; say 'fail'")
        return self

    @property
    def verdict_text(self) -> str:
        """The verdict, with the budgets that the chips miss and that were accepted."""
        accepted = [f"level {number} {text}" for number, level in enumerate(self.levels, 1) for text in level.accepted]
        return self.verdict + accepted_text(accepted if self.verdict == "pass" else ())

    def to_json(self) -> str:
        """Return the text of `cascade.json`."""
        return json_text(self.model_dump(by_alias=True))


def cascade_table(report: CascadeReport) -> Table:
    """Return the summary of a cascade as a table."""
    table = Table(title=report.name, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    chips = f"{report.servers_of_a_chip} + 1 chips of {report.servers_of_a_chip} inputs"
    table.add_row("task", f"average of {report.servers} words of {report.bits} bits, {chips}, {report.process}")
    for number, level in enumerate(report.levels, 1):
        table.add_row(f"level {number}", _level(level))
    if report.link is not None:
        amplitudes = ", ".join(f"{amplitude:.3g}" for amplitude in report.link.amplitudes)
        worst = max(report.link.loss_db)
        table.add_row("link", f"amplitude of level 3 at level 2: {amplitudes}; {worst:.1f} dB below a modulator")
    table.add_row("words", _words(report.words))
    if report.words is not None:
        table.add_row("fields", _fields(report.words))
    table.add_row("time", f"{sum(report.seconds.values()):.1f} s")
    table.add_row("verdict", Text(report.verdict_text, style=f"{'green' if report.verdict == 'pass' else 'red'} bold"))
    return table


def cascade_text(report: CascadeReport) -> str:
    """Return the summary with findings and assumptions as plain text."""
    stream = io.StringIO()
    Console(file=stream, width=120, color_system=None, markup=False, emoji=False).print(cascade_table(report))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    for title, entries in (("Findings", report.findings), ("Assumptions", report.assumptions)):
        if entries:
            lines += ["", title, *(f"- {entry}" for entry in entries)]
    return "\n".join(lines) + "\n"


def _level(level: LevelNumbers) -> str:
    parts = [f"{'-'.join(map(str, level.structure))}, {level.mzis} MZIs"]
    if level.exact is not None and level.inputs is not None and level.margin is not None:
        parts.append(f"{level.exact:,}/{level.inputs:,} exact, margin {level.margin:.3f} steps")
    if level.gain is not None:
        parts.append(f"gains up to {level.gain:.3g}")
    return "; ".join([*parts, f"verdict {level.verdict}{accepted_text(level.accepted)}"])


def _words(words: WordNumbers | None) -> str:
    if words is None:
        return "not run"
    text = f"{words.exact:,}/{words.sets:,} sets exact ({words.random:,} random), margin {words.margin:.3f} levels"
    if words.errors:
        text += f"; errors {format_errors([error.model_dump() for error in words.errors])}"
    return text


def _fields(words: WordNumbers) -> str:
    return f"margin {words.level1_margin:.3f} steps, quadrature up to {words.quadrature:.2g} levels between the chips"
