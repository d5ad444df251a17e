"""Run all trainings without a result, and record their tables and plots.

python examples/training/table.py             # all trainings; resumes where it stopped
python examples/training/table.py --only-write # only records the existing results
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plots
import ranks
import schemes
from records import read_result
from studies import blocks, write_study
from train import INTERRUPTED, OUT

from optinc_pdk.errors import InputError
from optinc_pdk.io.formatting import format_si

DOCS = Path(__file__).parent.parent.parent / "docs"
MAIN = ("ring", "optinc-16", "optinc-8", "optinc-8-unbiased", "optinc-imperfect", "optinc-table2")
RIVALS = ("optinc-extracted", "optinc-extracted-unbiased", "torch", "wrht", "daso", "dad", "rank-dad")
EIGHT_BITS = ("optinc-8", "optinc-8-unbiased", "optinc-extracted", "optinc-extracted-unbiased")
PLAN: tuple[tuple[str, ...], ...] = (
    ("llama", "resnet", "--scheme", *MAIN),
    ("chain", "--scheme", *MAIN, *RIVALS, "edad"),
    ("digits", "--scheme", *MAIN, *RIVALS),
    ("digits", "--scheme", "ring", "torch", "optinc-16", *EIGHT_BITS, "optinc-imperfect", "--seed", "1", "2"),
    ("resnet", "llama", "--scheme", *RIVALS),
    ("resnet", "llama", "--scheme", *MAIN, "--seed", "1", "2"),
    ("llama", "chain", "--scheme", "ring", *EIGHT_BITS, "optinc-imperfect", "--seed", "1", "2"),
    ("llama", "--scheme", "ring", *EIGHT_BITS, "--seed", "3", "4", "5"),
    ("resnet", "--scheme", "torch", *EIGHT_BITS, "--seed", "1"),
    ("llama", "--scheme", "torch", "--seed", "1", "2"),
    ("resnet", "llama", "--size", "full", "--scheme", "ring", "optinc-16", "optinc-8", *RIVALS),
)
"""The trainings, most important first. edAD supports only the chain."""
TITLES = {
    "resnet": "ResNet-8 on images",
    "digits": "ResNet-8 on handwritten digits",
    "llama": "LLaMA-style decoder on text",
    "chain": "chain of three linear layers on images",
}
FULL_TITLES = {"resnet": "ResNet-50", "llama": "LLaMA-style, 8 layers × 384 × 8 heads"}
ACCURACY_MARGIN = 0.0055
"""Loss of accuracy of the ResNet with chip errors in arXiv 2603.28290."""

Result = Mapping[str, Any]


def main() -> int:
    """Run the trainings without a result, then record them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-write", action="store_true", help="do not train")
    parser.add_argument("-o", "--output", type=Path, default=OUT, help="folder for logs, results and chips")
    options = parser.parse_args()
    ranks.end_on_request()
    try:
        for arguments in () if options.only_write else PLAN:
            if code := _train(*arguments, "-o", str(options.output)):
                return code
        write([read_result(path) for path in sorted(options.output.glob("*.json")) if _is_result(path)], options.output)
    except InputError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; results so far are kept, start it again to continue", file=sys.stderr)
        return INTERRUPTED
    return 0


def _train(*arguments: str) -> int:
    """Run `train.py` as a child, which is ended with this process; returns its exit code."""
    with subprocess.Popen([sys.executable, str(Path(__file__).with_name("train.py")), *arguments]) as training:
        try:
            return training.wait()
        except BaseException:
            training.terminate()
            raise


def _is_result(path: Path) -> bool:
    """Whether a file name is that of a training's result."""
    return path.name.startswith(("small.", "full."))


def write(results: Sequence[Result], folder: Path) -> None:
    """Write tables to results/training.json and plots to docs/training.

    Raises:
        InputError: There is no result to compare with, or results do not match.
    """
    lines = chips_read(folder)
    compared = False
    for model in TITLES:
        selected = [each for each in results if each["model"] == model and each["size"] == "small"]
        if any(each["scheme"] == "ring" and each["seed"] == 0 for each in selected):
            lines += section(model, selected, folder)
            compared = True
    if not compared:
        raise InputError(f"{folder}: no result of a ring with seed 0, which is the reference; train it first")
    lines += full_section([each for each in results if each["size"] == "full"])
    write_study("training", blocks(lines), "make trainings", ["soi220"], [schemes.NETWORK])


def chips_read(folder: Path) -> list[str]:
    """Lines with the word-error rates of the chips whose tables exist."""
    files: dict[str, Path] = {}
    for entry in schemes.ENTRIES.values():
        file = schemes.chip_file(entry.chip, folder)
        if entry.chip and file not in files.values():  # schemes may share a chip
            files[entry.title] = file
    lines = [
        f"{title}: {schemes.words_wrong(file):.2%} of the words are read wrong."
        for title, file in files.items()
        if file.is_file()
    ]
    return ["\\\n".join(lines), ""] if lines else []


def section(model: str, results: Sequence[Result], folder: Path) -> list[str]:
    """Section of a small network: description, table and plot."""
    first = next(each for each in results if each["scheme"] == "ring" and each["seed"] == 0)
    for each in results:
        for key in ("steps", "data_digest"):
            if each[key] != first[key]:
                raise InputError(
                    f"{folder}: small.{model}.{each['scheme']}.{each['seed']}.json has {key} {each[key]}, the ring's "
                    f"of seed 0 {first[key]}; delete either and train it again"
                )
    losses = {each["scheme"]: _losses(each, folder) for each in results if each["seed"] == 0}
    plot = DOCS / "training" / f"{model}.png"
    plot.parent.mkdir(exist_ok=True)
    plots.curves(losses, TITLES[model], plot)
    head = ("scheme", "seeds", "test loss", "accuracy", "difference from ring", "margin", *COSTS, "measured per step")
    rows = []
    for scheme, entry in schemes.ENTRIES.items():
        of_scheme = [each for each in results if each["scheme"] == scheme]
        if of_scheme:
            rows.append(
                (entry.title, *accuracies(model, of_scheme, results), *costs(of_scheme[0], first), _ms(of_scheme))
            )
    about = (
        f"{first['parameters'] // 4:,} parameters; {first['data']} (digest {first['data_digest']}); "
        f"{first['steps']} steps."
    )
    notes = other_systems({each["scheme"]: each for each in results})
    picture = f"![Loss curves](training/{model}.png)"
    return [f"### {TITLES[model]}", "", about, "", *table(head, rows), *notes, picture, ""]


def _losses(result: Result, folder: Path) -> plots.Floats:
    """Losses of a small training, (steps,)."""
    path = folder / f"small.{result['model']}.{result['scheme']}.{result['seed']}.csv"
    losses = plots.read_losses(path)
    if len(losses) != result["steps"]:
        raise InputError(f"{path}: {len(losses)} of {result['steps']} steps; delete its result and train again")
    return losses


def other_systems(results: Mapping[str, Result]) -> list[str]:
    """Times of a step on other systems: chip at its highest symbol rate, and a ring on WRHT's fibre."""
    lines = []
    if "optinc-extracted" in results:
        seconds = schemes.step_at_chip_rate_s(results["optinc-extracted"])
        lines += [
            "With one chip of today's 8-bit network on `soi220` at its highest symbol rate "
            f"(`optinc_star_8bit_soi220`), a step takes {format_si(seconds, 's')}."
        ]
    if "wrht" in results:
        seconds = schemes.step_on_same_ring_s(results["wrht"])
        ratio = schemes.step_s(results["wrht"]) / seconds
        lines += [f"A ring all-reduce on WRHT's fibre takes {format_si(seconds, 's')}; WRHT takes {ratio:.3f} of that."]
    return [*lines, ""] if lines else []


def accuracies(model: str, of_scheme: Sequence[Result], results: Sequence[Result]) -> tuple[str, ...]:
    """Cells of a row: seeds, loss, accuracy, difference from the ring of the same seeds, and verdict on the margin."""
    rings = {each["seed"]: each for each in results if each["scheme"] == "ring"}
    loss, accuracy = (np.array([each[key] for each in of_scheme]) for key in ("loss", "accuracy"))
    pairs = [(each, rings[each["seed"]]) for each in of_scheme if each["seed"] in rings]
    seeds = ", ".join(str(each["seed"]) for each in of_scheme)
    if not pairs:
        return seeds, _mean(loss, ".4f"), f"{_mean(100 * accuracy, '.2f')} %", "–", "–"
    if model == "llama":
        away = np.array([each["loss"] - ring["loss"] for each, ring in pairs])
        difference, within = f"{_mean(away, '+.4f')}", away.mean() <= plots.LOSS_MARGIN
    else:
        away = np.array([each["accuracy"] - ring["accuracy"] for each, ring in pairs])
        difference, within = f"{_mean(100 * away, '+.2f')} points", away.mean() >= -ACCURACY_MARGIN
    verdict = "–" if of_scheme[0]["scheme"] == "ring" else "within" if within else "**missed**"
    return seeds, _mean(loss, ".4f"), f"{_mean(100 * accuracy, '.2f')} %", difference, verdict


COSTS = ("bytes per step", "ratio to ring", "simulated per step", "ratio to ring")


def costs(result: Result, ring: Result) -> tuple[str, ...]:
    """Cells of a row: bytes and simulated time of a step, each with its ratio to the ring's."""
    sent, sent_by_ring = (each["payload"] + each["side"] for each in (result, ring))
    seconds, seconds_of_ring = schemes.step_s(result), schemes.step_s(ring)
    return f"{sent:,.0f}", f"{sent / sent_by_ring:.3f}", format_si(seconds, "s"), f"{seconds / seconds_of_ring:.3f}"


def full_section(results: Sequence[Result]) -> list[str]:
    """Section of the full sizes: a step of every scheme."""
    lines: list[str] = []
    for model, title in FULL_TITLES.items():
        by_scheme = {each["scheme"]: each for each in results if each["model"] == model}
        if "ring" not in by_scheme:
            continue
        ring = by_scheme["ring"]
        rows = [
            (schemes.ENTRIES[scheme].title, *costs(by_scheme[scheme], ring), f"{by_scheme[scheme]['wall_s']:.1f} s")
            for scheme in schemes.ENTRIES
            if scheme in by_scheme
        ]
        about = (
            f"{ring['parameters'] // 4:,} parameters, {ring['flop'] / 1e9:.1f} GFLOP per rank and step, {ring['data']}."
        )
        lines += [f"### {title}", "", about, "", *table(("scheme", *COSTS, "measured, one step"), rows)]
        lines += other_systems(by_scheme)
    return lines


def table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    names = tuple(head)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _mean(values: np.ndarray, form: str) -> str:
    """Mean, with half the range if there are several values."""
    # adding 0 removes the sign of a rounded zero
    mean = f"{round(values.mean(), 4) + 0.0:{form}}".replace("-", "−")
    return mean if len(values) < 2 else f"{mean} ± {np.ptp(values) / 2:{form.lstrip('+')}}"


def _ms(results: Sequence[Result]) -> str:
    return f"{1e3 * np.median([each['wall_s'] for each in results]):.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
