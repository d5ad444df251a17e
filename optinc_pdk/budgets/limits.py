"""The budgets of a process that a chip has to meet: size, pads or bumps, power, loss and symbol rate.

Each is a quantity with its limit and the assumptions behind both. The verdict on a chip depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from optinc_pdk.budgets import LimitNumbers
from optinc_pdk.budgets.light_budget import loss_limit_db
from optinc_pdk.cards import Process
from optinc_pdk.io.formatting import format_short, format_si

DieSize = tuple[float, float]
"""Width and height in µm."""


def largest_die(process: Process) -> DieSize:
    """Return width and height, in µm, of the die of a process with the largest area."""
    sizes = [(float(die.width_um), float(die.height_um)) for die in process.dies]
    return max(sizes, key=lambda size: size[0] * size[1])


def fitting_outline(process: Process, die: DieSize) -> DieSize:
    """Return the first die size of a process that contains a die, possibly rotated by 90°; the largest if none does."""
    for one in process.dies:
        size = float(one.width_um), float(one.height_um)
        if _contains(size, die):
            return size
    return largest_die(process)


def _contains(outline: DieSize, die: DieSize) -> bool:
    """Whether a die lies within an outline, as it is or turned by 90°."""
    return min(die) <= min(outline) and max(die) <= max(outline)


def pad_capacity(process: Process, die: DieSize) -> int:
    """Return the largest number of pads or bumps on a die.

    Pads form rows along both long edges, at most as many as the card allows. Wires to an outer row pass between the
    pads of the inner rows, which determines the pitch. Bumps lie on a grid over the whole die.
    """
    pads, keepout = process.pads, float(process.floorplan.keepout_um)
    width, height = max(die) - 2 * keepout, min(die) - 2 * keepout
    if pads.wiring == "flipchip":
        return math.floor(width / pads.pitch_um) * math.floor(height / pads.pitch_um)
    rows = range(1, int(pads.rows_max) + 1)
    return 2 * max(count * math.floor(width / process.pad_pitch_um(count)) for count in rows)


def chip_limits(process: Process, dies: Sequence[DieSize], pads: int, power_w: float) -> dict[str, LimitNumbers]:
    """Compare size, pads and heater power at the bias of a finished chip, all dies together, with its process."""
    return {
        "size": size_limit(process, dies),
        "pads": pads_limit(process, pads, dies),
        "power": power_limit(process, power_w, area_mm2(dies), "all heaters at this bias"),
    }


def area_mm2(dies: Sequence[DieSize]) -> float:
    """Return the area of dies in mm², from their widths and heights in µm."""
    return sum(width * height for width, height in dies) / 1e6


def size_limit(process: Process, dies: Sequence[DieSize]) -> LimitNumbers:
    """Compare the area of all dies with the largest outline of the process, in mm².

    The limit holds if there is one die, and this outline contains it.
    """
    wide, high = largest_die(process)
    holds = len(dies) == 1 and _contains((wide, high), dies[0])
    reason = f"{len(dies)} dies" if len(dies) > 1 else f"{dies[0][0] / 1e3:.2f} × {dies[0][1] / 1e3:.2f} mm"
    text = f"one die; limit: the largest outline of the process, {wide / 1e3:g} × {high / 1e3:g} mm"
    limit = _compared(area_mm2(dies), wide * high / 1e6, "mm²", text)
    return limit.model_copy(update={"holds": holds, "detail": "" if holds else reason})


def pads_limit(process: Process, pads: int, dies: Sequence[DieSize]) -> LimitNumbers:
    """Compare the number of pads or bumps with the capacity of the dies.

    Each die counts with the outline of the process that contains it.
    """
    capacity = sum(pad_capacity(process, fitting_outline(process, die)) for die in dies)
    pitch = float(process.pads.pitch_um)
    if process.pads.wiring == "flipchip":
        text = f"bumps at {pitch:g} µm all over the die"
    else:
        text = f"pads along both long edges, up to {int(process.pads.rows_max)} rows, at least {pitch:g} µm apart"
    unit = "bumps" if process.pads.wiring == "flipchip" else "pads"
    return _compared(pads, capacity, unit, text)


def power_limit(process: Process, power_w: float, area_mm2: float, drive: str) -> LimitNumbers:
    """Compare a power, spread evenly over an area, with the cooling in W/mm² that the process card states.

    ``drive`` says at which bias the power is counted.
    """
    value = power_w / area_mm2
    if process.budget is None:
        text = f"{format_short(power_w)} W, {drive}; the process card gives no cooling"
        return _compared(value, None, "W/mm²", text)
    cooling = process.budget.cooling_w_per_mm2
    spread = f"{format_short(power_w)} W, {drive}, spread evenly over {format_short(area_mm2)} mm²"
    text = f"{spread}; limit: {process.sources[cooling.source]}"
    return _compared(value, float(cooling), "W/mm²", text)


def loss_limit(process: Process, hop_loss_db: Sequence[float], field_noise: float) -> LimitNumbers:
    """Compare the largest loss of a layer from modulator to detector, in dB, with what the light budget allows.

    ``field_noise`` is the standard deviation that the network tolerates, relative to full scale; if it is 0, the
    limit does not hold.
    """
    value, budget = max(hop_loss_db), process.budget
    hop = "from modulator to detector of the worst layer, of what full scale loses"
    if budget is None:
        return _compared(value, None, "dB", f"{hop}; the process card gives no light budget")
    if field_noise <= 0.0:
        wrong = "no light is enough, a symbol is wrong without noise"
        return _compared(value, None, "dB", hop).model_copy(update={"holds": False, "detail": wrong})
    text = (
        f"{hop}; limit: {format_si(budget.symbol_rate_min_bd, 'Bd')} at {format_si(budget.laser_w, 'W')} a guide, shot "
        f"noise of {field_noise:.2g} of full scale, which leaves decisions {float(budget.margin_sigmas):g} standard "
        "deviations"
    )
    return _compared(value, loss_limit_db(process, field_noise), "dB", text)


def rate_limit(process: Process, speed: Mapping[str, Any]) -> LimitNumbers:
    """Compare the highest symbol rate of a chip with the lowest useful one of the process, in Bd.

    ``speed`` has the fields of section ``speed`` of the report. A rate of None counts as 0: not even the lowest useful
    rate has this word-error rate.
    """
    rate = speed["symbol_rate_bd"] or 0.0
    text = f"the highest rate with an estimated word-error rate of {speed['word_error_rate']:g}"
    if process.budget is None:
        return _compared(rate, None, "Bd", f"{text}; the process card gives no lowest rate", minimum=True)
    least = process.budget.symbol_rate_min_bd
    text += f"; limit: {process.sources[least.source]}"
    return _compared(rate, float(least), "Bd", text, minimum=True)


def _compared(value: float, limit: float | None, unit: str, assumption: str, minimum: bool = False) -> LimitNumbers:
    """Return a budget; without a limit it is unknown whether the value is within."""
    holds = None if limit is None else bool(value >= limit if minimum else value <= limit)
    return LimitNumbers(value=float(value), limit=limit, unit=unit, holds=holds, assumption=assumption, minimum=minimum)
