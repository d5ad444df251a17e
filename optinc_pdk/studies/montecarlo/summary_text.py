"""Summary of a yield run as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from optinc_pdk.io.formatting import format_si
from optinc_pdk.studies.chip_checks import AFTER, BEFORE, BETWEEN, DRIFTED
from optinc_pdk.studies.highest_rates import ERROR_RATE
from optinc_pdk.studies.montecarlo.study import NOISE_KINDS

LEAST_RATE = 1e-300
STAGE_TEXTS = {
    BEFORE: "with the bias of the bias file",
    BETWEEN: "programmed by the digital twin",
    AFTER: "tuned in the loop",
    DRIFTED: "as tuned, after the resistances have drifted",
}
"""Explanation of each stage of a calibration."""
UNCALIBRATED = (
    "    every sample has the voltages of the bias file; add --calibrate to measure chips calibrated before use"
)
"""Remark on samples that are driven like the nominal chip."""


def summary_lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the summary of a run, whose results are as in ``.yield.json``."""
    yield samples_text(numbers, numbers["samples"])
    yield noise_text(numbers)
    yield stages_text(numbers["stages"])
    for stage, statistics in numbers["stages"].items():
        if "quantities" in statistics:
            yield f"`{stage}`: " + compared_text(statistics)
        else:
            yield f"`{stage}`: " + stage_text(statistics, numbers["target"])
            yield from _word_lines(statistics)
        for row in statistics["faults"]:
            yield f"    {row['count']} of {statistics['yield']['samples']} unusable: {row['fault']}"
    if list(numbers["stages"]) == [BEFORE] and numbers["stages"][BEFORE]["yield"]["share"] < 1.0:
        yield UNCALIBRATED
    yield from _contribution_lines(numbers)
    for row in numbers["tolerances"]:
        yield f"{row['imperfection']:>11} {tolerance_text(row)}"


def _word_lines(statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a stage about estimated word-error rates and the values of errors."""
    estimated = statistics["estimated_word_error_rate"]
    if estimated is not None:
        median, worst = (rate_text(estimated[which]) for which in ("median", "worst"))
        yield f"    estimated word-error rate (not counted): median of the samples {median}, worst {worst}"
    if (highest := statistics["symbol_rate_bd"]) is not None:
        median, worst = (format_si(highest[which], "Bd") for which in ("median", "worst"))
        accepted = f"an estimated word-error rate of {ERROR_RATE:g}"
        yield f"    highest symbol rate at {accepted}: every sample {worst}, median {median}"
    if statistics["errors"]:
        listed = ", ".join(f"{row['value']:+d} ({100 * row['share']:.3g} %)" for row in statistics["errors"][:5])
        yield f"    word errors: {listed}"


def _contribution_lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each imperfection, from the one that costs most alone."""
    quantities = next(iter(numbers["stages"].values())).get("quantities")
    key = "words_lost" if quantities is None else "lost"
    for row in sorted(numbers["contributions"], key=lambda row: -row["alone"][key]):
        alone, rest = row["alone"][key], row["without"][key]
        if quantities is None:
            what = f"alone loses {percent(alone)} of the words, all but it {percent(rest)}"
        else:
            first = next(iter(quantities.values()))
            mean, other = (one if first["worse"] == "higher" else 1.0 - one for one in (alone, rest))
            what = f"alone: {first['text']} {percent(mean)} on average, with all but it {percent(other)}"
        yield f"{row['imperfection']:>11} {what}"


def compared_text(statistics: Mapping[str, Any]) -> str:
    """Return yield, median and worst quantities of one stage of chips that are compared with a target, as text."""
    share = statistics["yield"]
    parts = [f"yield {percent(share['share'])} ({percent(share['low'])} to {percent(share['high'])})"]
    for one in statistics["quantities"].values():
        if one["median"] is None:
            continue
        factor, unit = (100.0, " %") if one["unit"] == "%" else (1.0, f" {one['unit']}".rstrip())
        limit = "" if one["limit"] is None else f", limit {factor * one['limit']:.4g}{unit}"
        median, worst = (f"{factor * one[which]:.4g}{unit}" for which in ("median", "worst"))
        parts.append(f"{one['text']}: median {median}, worst {worst}{limit}")
    return "; ".join(parts)


def stages_text(stages: Iterable[str]) -> str:
    """Return one line that explains the names of the stages."""
    explained = [f"`{stage}`, {STAGE_TEXTS[stage]}" for stage in stages if stage in STAGE_TEXTS]
    return f"stage{'s' * (len(explained) != 1)}: {'; '.join(explained)}"


def samples_text(numbers: Mapping[str, Any], count: int) -> str:
    """Return the number of samples, the chip's name and the seed as text."""
    return f"{count} sample{'s' * (count != 1)} of {numbers['chip']['name']}, seed {numbers['seed']}"


def caption(numbers: Mapping[str, Any], count: int) -> str:
    """Return the caption of a plot of ``count`` samples of the run."""
    bits = "" if numbers["dac_bits"] is None else f"; drive of {numbers['dac_bits']:.4g} effective bits"
    return f"{samples_text(numbers, count)}; {noise_text(numbers)}{bits}"


def stage_text(statistics: Mapping[str, Any], target: float) -> str:
    """Return yield, accuracy, word-error rate and margin of one stage as text."""
    share = statistics["yield"]
    return (
        f"yield {percent(share['share'])} ({percent(share['low'])} to {percent(share['high'])}) "
        f"at {percent(target)} of the words; exact {percent(statistics['accuracy']['mean'])} on average, "
        f"{percent(statistics['accuracy']['worst'])} at worst; "
        f"word-error rate {statistics['word_error_rate']['mean']:.3g}; "
        f"margin {statistics['margin']['mean']:.3f} levels on average, "
        f"{statistics['margin']['worst']:.3f} levels at worst"
    )


def tolerance_text(row: Mapping[str, Any]) -> str:
    """Return, as text, the largest factor on one imperfection alone that the samples tolerate."""
    about = f"alone: {percent(row['goal'])} of {row['samples']} samples reach the target"
    if row["factor"] is None:
        return f"{about} even with {row['most_tried']:.3g} times the card's, the largest factor tried"
    if row["factor"] == 0.0:
        return f"{about} not even with {row['least_tried']:.3g} times the card's, the smallest factor tried"
    bits = f", {row['effective_bits']:.1f} effective bits" if "effective_bits" in row else ""
    return f"{about} up to {row['factor']:.3g} times the card's{bits}"


def noise_text(numbers: Mapping[str, Any]) -> str:
    """Describe the noise in operation."""
    noise = numbers["noise"]
    if noise is None:
        return "without noise of lasers and detectors"
    if not any(kind in numbers["imperfections"] for kind in NOISE_KINDS):
        return "without noise of lasers and detectors: neither is among the requested imperfections"
    # only comparisons with a target state their kind
    receiver = (
        "quietest receiver that suits any chip" if "kind" in numbers["task"] else "receiver chosen on the nominal chip"
    )
    return (
        f"noise at {1e3 * noise['laser_w']:g} mW into every waveguide and {noise['symbol_rate_bd']:.3g} symbols per "
        f"second; {receiver}: {1e12 * noise['receiver_a_per_sqrt_hz']:g} pA/√Hz, mean over "
        f"{noise['shape']['window']:g} of a symbol"
    )


def rate_text(rate: float) -> str:
    """Format an estimated word-error rate; numbers near the least of double precision are 0."""
    return "below 1e-300" if rate < LEAST_RATE else f"{rate:.1e}"


def percent(share: float) -> str:
    """Format a share in %, with enough digits that a share near 0 or 1 is not rounded to 0 % or 100 %."""
    if share in (0.0, 1.0):
        return f"{100 * share:g} %"
    digits = 2
    while digits < 6 and round(100 * share, digits) in (0.0, 100.0):
        digits += 1
    return f"{100 * share:.{digits}f} %"
