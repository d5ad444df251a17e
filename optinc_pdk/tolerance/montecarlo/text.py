"""A run's numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from optinc_pdk.tolerance.montecarlo.study import NOISE_KINDS


def summary_lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    """What a run found, in a few lines."""
    yield samples_text(numbers, numbers["samples"])
    yield assumption(numbers)
    for stage, found in numbers["stages"].items():
        yield f"{stage:9} " + stage_text(found, numbers["target"])
        if found["errors"]:
            told = ", ".join(f"{row['value']:+d} ({100 * row['share']:.3g} %)" for row in found["errors"][:5])
            yield f"{'':9} errors of the words: {told}"
        for row in found["faults"]:
            yield f"{'':9} {row['count']} of {found['yield']['samples']} could not be used: {row['fault']}"
    for row in sorted(numbers["contributions"], key=lambda row: -row["alone"]["words_lost"]):
        alone, rest = row["alone"], row["without"]
        yield (
            f"{row['imperfection']:>11} alone loses {percent(alone['words_lost'])} of the words, "
            f"all but it {percent(rest['words_lost'])}"
        )
    for row in numbers["tolerances"]:
        yield f"{row['imperfection']:>11} {tolerance_text(row)}"


def samples_text(numbers: Mapping[str, Any], count: int) -> str:
    """What was measured, of so many samples."""
    return f"{count} sample{'s' * (count != 1)} of {numbers['chip']['name']}, seed {numbers['seed']}"


def caption(numbers: Mapping[str, Any], count: int) -> str:
    """What a picture of so many samples of the run is of."""
    bits = "" if numbers["dac_bits"] is None else f"; drive of {numbers['dac_bits']:.4g} effective bits"
    return f"{samples_text(numbers, count)}; {assumption(numbers)}{bits}"


def stage_text(found: Mapping[str, Any], target: float) -> str:
    """Yield, words and margin of one stage."""
    share = found["yield"]
    return (
        f"yield {percent(share['share'])} ({percent(share['low'])} to {percent(share['high'])}) "
        f"at {percent(target)} of the words; exact {percent(found['accuracy']['mean'])} on average, "
        f"{percent(found['accuracy']['worst'])} at worst; word errors {found['word_error_rate']['mean']:.3g}; "
        f"margin {found['margin']['mean']:.3f} on average, {found['margin']['worst']:.3f} at worst"
    )


def tolerance_text(row: Mapping[str, Any]) -> str:
    """How much of one imperfection alone samples bear."""
    about = f"alone: {percent(row['goal'])} of {row['samples']} samples reach the target"
    if row["factor"] is None:
        return f"{about} even with {row['most_tried']:.3g} times the card's, the most that was tried"
    if row["factor"] == 0.0:
        return f"{about} not even with {row['least_tried']:.3g} times the card's, the least that was tried"
    bits = f", {row['effective_bits']:.1f} effective bits" if "effective_bits" in row else ""
    return f"{about} up to {row['factor']:.3g} times the card's{bits}"


def assumption(numbers: Mapping[str, Any]) -> str:
    """What noise the words were read with."""
    noise = numbers["noise"]
    if noise is None:
        return "without noise of lasers and detectors"
    if not any(kind in numbers["imperfections"] for kind in NOISE_KINDS):
        return "without noise of lasers and detectors: neither is among the imperfections asked for"
    return (
        f"noise at {1e3 * noise['laser_w']:g} mW into every guide and {noise['symbol_rate_bd']:.3g} symbols a second, "
        "each integrated over all of its time"
    )


def percent(share: float) -> str:
    """A share in %, with as many digits as its distance from 0 or 1 needs."""
    if share in (0.0, 1.0):
        return f"{100 * share:g} %"
    digits = 2
    while digits < 6 and round(100 * share, digits) in (0.0, 100.0):
        digits += 1
    return f"{100 * share:.{digits}f} %"
