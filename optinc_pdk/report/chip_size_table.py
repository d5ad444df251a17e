"""Sizes of networks in one table, as Markdown and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from optinc_pdk.cards import Process
from optinc_pdk.report.chip_size import NetworkSize, mean_heater_w
from optinc_pdk.report.formatting import format_short, format_si
from optinc_pdk.report.light_budget import light_numbers

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
            "light": None if size.light is None else light_numbers(size.light),
            "layers": [asdict(layer) for layer in size.layers],
        }
        for size in sizes
    ]


def size_markdown(sizes: Sequence[NetworkSize], process: Process) -> str:
    """Format sizes of networks as Markdown: a table of sizes, the assumptions, and a table of the limits.

    Args:
        sizes: At least one size.
        process: Process card that the sizes were estimated for.
    """
    numbers = ("MZIs", "heaters", "pads", "mm²", "W", "columns", "dB", "σ", "symbols/s")
    head = ("name", "structure", *numbers, "best possible fit", "limits exceeded")
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * 9 + "---|---|"]
    lines += ["| " + " | ".join(_cells(size)) + " |" for size in sizes]
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


def _cells(size: NetworkSize) -> tuple[str, ...]:
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
        _field_noise(size),
        _rate(size),
        size.fit + (f", {size.dies} dies" if size.dies > 1 else ""),
        ", ".join(size.exceeded_limits) or "none",
    )


def _field_noise(size: NetworkSize) -> str:
    if size.light is None:
        return "none" if "loss" in size.limits else UNKNOWN
    return f"{size.light.field_noise:.1e}"


def _rate(size: NetworkSize) -> str:
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
