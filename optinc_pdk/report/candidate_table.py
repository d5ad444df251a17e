"""Table and JSON of the networks of comparators among which `optinc synth` chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.closed_form.comparator_search import Candidate, tolerant_front
from optinc_pdk.networks.closed_form.comparators import candidate_network
from optinc_pdk.report.formatting import format_si
from optinc_pdk.studies.rate_search import RatedNetwork

ROWS = 10
"""Largest number of networks that a table shows."""


@dataclass(frozen=True)
class CandidateRow:
    """One network of comparators; tolerances are predicted.

    Attributes:
        structure: Number of units of each layer, from inputs to outputs.
        mzis: Number of MZIs by the convention of arXiv 2603.28290, of independent parts.
        margin: Smallest distance of a detected field from a threshold, relative to full scale.
        epsilon: Matrix error with 99.9 % exact words.
        sigma: Field noise with a word-error rate of 1e-6.
        planned_bd: Highest symbol rate of the assembled circuit in Bd; None if there is none, or it was not estimated.
        extracted_bd: That of the extracted chip.
    """

    structure: tuple[int, ...]
    mzis: int
    margin: float
    epsilon: float
    sigma: float
    planned_bd: float | None = None
    extracted_bd: float | None = None

    def to_json(self, rates: bool) -> dict[str, Any]:
        """Return the row as JSON-compatible data.

        Args:
            rates: Whether rates were estimated.
        """
        numbers = {name: getattr(self, name) for name in ("mzis", "margin", "epsilon", "sigma")}
        if rates:
            numbers |= {"planned_bd": self.planned_bd, "extracted_bd": self.extracted_bd}
        return {"structure": list(self.structure)} | numbers


def tolerant_rows(task: Averaging, found: Sequence[Candidate]) -> list[CandidateRow]:
    """Return the networks that tolerate more field noise than every smaller one, the most tolerant first.

    Args:
        task: The averaging task.
        found: Networks that were tried.
    """
    front = tolerant_front(found)
    return [_row(candidate_network(task, one).structure, one) for one in front[: -ROWS - 1 : -1]]


def rated_rows(found: Sequence[RatedNetwork]) -> list[CandidateRow]:
    """Return the first networks of a search for the highest symbol rate."""
    return [_row(one.onn.structure, one.candidate, one.planned_bd, one.extracted_bd) for one in found[:ROWS]]


def _row(
    structure: tuple[int, ...], one: Candidate, planned: float | None = None, extracted: float | None = None
) -> CandidateRow:
    tolerance = one.tolerance
    return CandidateRow(structure, one.mzis, tolerance.margin, tolerance.epsilon, tolerance.sigma, planned, extracted)


def candidate_table(rows: Sequence[CandidateRow], rates: bool) -> Table:
    """Return the networks as a table.

    Args:
        rows: The networks.
        rates: Whether rates were estimated.
    """
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("structure")
    for name in ("MZIs", "margin", "ε*", "σ*", *(("rate, planned", "rate, extracted") if rates else ())):
        table.add_column(name, justify="right")
    for row in rows:
        found = [_rate(row.planned_bd), _rate(row.extracted_bd)] if rates else []
        numbers = (f"{row.margin:.2e}", f"{row.epsilon:.2e}", f"{row.sigma:.2e}")
        table.add_row("-".join(map(str, row.structure)), f"{row.mzis:,}", *numbers, *found)
    return table


def _rate(rate: float | None) -> str:
    return "–" if rate is None else format_si(rate, "Bd")
