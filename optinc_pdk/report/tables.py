"""Tables of networks and matrices for the terminal and in Markdown: candidates, factors and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from optinc_pdk.averaging import Averaging
from optinc_pdk.budgets.chip_size import NetworkSize, mean_heater_w
from optinc_pdk.cards import Process
from optinc_pdk.io.formatting import format_short, format_si
from optinc_pdk.networks.closed_form.comparator_search import Candidate, candidate_network, tolerant_front
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
        """Return the row as JSON-compatible data, with the rates if they were estimated."""
        numbers = {name: getattr(self, name) for name in ("mzis", "margin", "epsilon", "sigma")}
        if rates:
            numbers |= {"planned_bd": self.planned_bd, "extracted_bd": self.extracted_bd}
        return {"structure": list(self.structure)} | numbers


def tolerant_rows(task: Averaging, found: Sequence[Candidate]) -> list[CandidateRow]:
    """Return the networks that tolerate more field noise than every network of fewer MZIs, the most tolerant first.

    `optinc synth --for noise` prints these rows, at most ``ROWS``. ``task`` is the task of all candidates.
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
    """Return the networks as a table, with the rates if they were estimated."""
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


def matrix_factor_table(row: Mapping[str, Any]) -> Table:
    """Return what `optinc factor U.npy` prints: size, form, MZIs, phase shifters, scale, attenuators and error.

    ``row`` is the result of :func:`optinc_pdk.budgets.factor_counts.matrix_factor_row`.
    """
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    outputs, inputs = row["shape"]
    table.add_row("matrix", f"{outputs} × {inputs}")
    table.add_row("form", row["form"])
    table.add_row("MZIs", f"{row['mzis']:,}; {row['mzis_on_chip']:,} on the chip, with dummies")
    table.add_row("phase shifters", f"{row['phase_shifters']:,}")
    table.add_row("scale", f"{row['scale']:.6g}, the largest singular value")
    if row["attenuations"]:
        least, most = min(row["attenuations"]), max(row["attenuations"])
        table.add_row("attenuators", f"{len(row['attenuations'])}, field transmissions {least:.3g} to {most:.3g}")
    table.add_row("error", f"{row['error']:.1e} of the 2-norm")
    return table


UNKNOWN = "not known"
"""Field noise and symbol rate of a general network, which has no levels to decide."""
MAX_WIDTHS = 8
"""Largest number of widths that a structure is written out with."""


def size_rows(sizes: Sequence[NetworkSize]) -> list[dict[str, Any]]:
    """Return sizes of networks and of their layers as lists and dicts, for JSON."""
    return [
        {
            "name": size.name,
            "structure": list(size.structure),
            "mzis": size.mzis,
            "heaters": size.heaters,
            "pads": size.pads,
            "fibres": sum(layer.fibres for layer in size.layers),
            "area_mm2": size.area_mm2,
            "power_w": size.power_w,
            "column_db": size.mzi_loss_db,
            "columns": max(layer.columns for layer in size.layers),
            "dies": size.dies,
            "fit": size.fit,
            "missed": list(size.exceeded_limits),
            "limits": {name: limit.model_dump(exclude={"accepted"}) for name, limit in size.limits.items()},
            "light": None if size.light is None else size.light.model_dump(),
            "layers": [asdict(layer) for layer in size.layers],
        }
        for size in sizes
    ]


def size_markdown(sizes: Sequence[NetworkSize], process: Process) -> str:
    """Format sizes of networks, at least one, as Markdown: tables of sizes and of limits, and the assumptions."""
    numbers = ("MZIs", "heaters", "pads", "mm²", "W", "columns", "dB", "σ", "symbols/s")
    head = ("name", "structure", *numbers, "best possible fit", "limits exceeded")
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * 9 + "---|---|"]
    lines += ["| " + " | ".join(_size_cells(size)) + " |" for size in sizes]
    lines += ["", *_assumptions(process, sizes[0].mzi_loss_db)]
    lines += ["", "| name | quantity | needs | limit | counted or assumed |", "|---|---|---:|---:|---|"]
    for size in sizes:
        for name, limit in size.limits.items():
            most = "none" if limit.limit is None else format_short(limit.limit)
            row = (
                size.name,
                name,
                f"{format_short(limit.value)} {limit.unit}",
                most,
                limit.assumption.partition("; limit: ")[0],
            )
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _size_cells(size: NetworkSize) -> tuple[str, ...]:
    structure = "-".join(map(str, size.structure))
    if len(size.structure) > MAX_WIDTHS:
        structure = f"{len(size.layers)} layers of {min(size.structure)} to {max(size.structure)}"
    return (
        size.name,
        structure,
        f"{size.mzis:,}",
        f"{size.heaters:,}",
        f"{size.pads:,}",
        format_short(size.area_mm2),
        format_short(size.power_w),
        str(max(layer.columns for layer in size.layers)),
        f"{max(layer.loss_db for layer in size.layers):.1f}",
        _size_noise(size),
        _size_rate(size),
        size.fit + (f", {size.dies} dies" if size.dies > 1 else ""),
        ", ".join(size.exceeded_limits) or "none",
    )


def _size_noise(size: NetworkSize) -> str:
    if size.light is None:
        return "none" if "loss" in size.limits else UNKNOWN
    return f"{size.light.field_noise:.1e}"


def _size_rate(size: NetworkSize) -> str:
    if "loss" not in size.limits:
        return UNKNOWN
    rate = 0.0 if size.light is None else size.light.symbol_rate_bd
    return format_si(rate, "").strip() if rate >= 1.0 else f"{rate:.2g}"


def _assumptions(process: Process, column_db: float) -> list[str]:
    """The meaning of the table's columns, as a Markdown list."""
    lines = [
        "- MZIs by the paper's count, weights only; heaters and pads with trims and grounds. mm² are cells, fibre "
        "couplers and pads alone: wires, channels and fan-outs are not included, so `fit` is the best that a layout "
        "can reach.",
        f"- W with every heater at the middle of its range, {format_si(mean_heater_w(process), 'W')}.",
        f"- columns and dB are those of the worst layer, modulator to detector: {column_db:.2f} dB a column from the "
        "device cards, 2×2 and fibre couplers, and splitters; not the matrix itself.",
    ]
    if process.budget is None:
        return [*lines, "- The process card has no budget: power and loss are not judged."]
    budget = process.budget
    return [
        *lines,
        f"- σ is the field noise, relative to full scale, that leaves every decision "
        f"{float(budget.margin_sigmas):g} standard deviations; for networks without known weights "
        f"{float(budget.field_noise):.0e}. Symbols/s at h ν / (4 σ² T) per symbol and guide, shot noise alone, "
        f"{format_si(budget.laser_w, 'W')} per guide.",
        f"- Limits: {process.sources[budget.cooling_w_per_mm2.source]} ({float(budget.cooling_w_per_mm2):g} W/mm²); "
        f"{format_si(budget.symbol_rate_min_bd, 'Bd')} at least.",
    ]


def factor_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows of ``factor_rows`` as a table with totals; its errors are relative Frobenius norms."""
    counts = {
        "mzis": "MZIs, paper",
        "mzis_on_chip": "MZIs, chip",
        "phase_shifters": "phase shifters",
        "tree_splitters": "trees",
        "mzis_saved_by_structure": "saved by structure",
    }
    table = Table("layer", "shape", "method", *counts.values(), "error", "worst block", show_footer=True)
    for row in rows:
        shape = f"{row['shape'][0]}×{row['shape'][1]}"
        numbers = [str(row[key]) for key in counts]
        if row["tree_splitters"]:
            numbers[list(counts).index("tree_splitters")] += f", {row['tree_loss_db']:.1f} dB"
        errors = [f"{row[key]:.1e}" for key in ("relative_error", "worst_block_error")]
        table.add_row(str(row["layer"]), shape, row["method"], *numbers, *errors)
    for column, key in enumerate(counts, start=3):
        table.columns[column].footer = str(sum(row[key] for row in rows))
    table.columns[0].footer = "all"
    return table
