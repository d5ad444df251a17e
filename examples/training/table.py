"""Run all trainings that are not there yet, and write their table and plots into docs/training.md.

python examples/training/table.py             # all of them: resumes where it stopped
python examples/training/table.py --only-write # of those that are there
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
from results import read_result
from train import INTERRUPTED, OUT

from optinc_pdk.errors import InputError
from optinc_pdk.file_writing import write_atomic
from optinc_pdk.report.formatting import format_si

DOCS = Path(__file__).parent.parent.parent / "docs"
BEGIN, END = "<!-- table.py writes from here -->", "<!-- to here -->"
MAIN = ("ring", "optinc-16", "optinc-8", "optinc-8-unbiased", "optinc-imperfect", "optinc-table2")
RIVALS = ("optinc-extracted", "optinc-extracted-unbiased", "torch", "wrht", "daso", "dad", "rank-dad")
EIGHT_BITS = ("optinc-8", "optinc-8-unbiased", "optinc-extracted", "optinc-extracted-unbiased")
PLAN: tuple[tuple[str, ...], ...] = (
    ("llama", "resnet", "--scheme", *MAIN),
    ("chain", "--scheme", *MAIN, *RIVALS, "edad"),
    ("resnet", "llama", "--scheme", *RIVALS),
    ("resnet", "llama", "--scheme", *MAIN, "--seed", "1", "2"),
    ("llama", "chain", "--scheme", "ring", *EIGHT_BITS, "optinc-imperfect", "--seed", "1", "2"),
    ("llama", "--scheme", "ring", *EIGHT_BITS, "--seed", "3", "4", "5"),
    ("resnet", "--scheme", "torch", *EIGHT_BITS, "--seed", "1"),
    ("llama", "--scheme", "torch", "--seed", "1", "2"),
    ("resnet", "llama", "--size", "full", "--scheme", "ring", "optinc-16", "optinc-8", *RIVALS),
)
"""The trainings, the more important ones first. edAD takes chains alone."""
TITLES = {
    "resnet": "ResNet-8 on images",
    "llama": "LLaMA-style decoder on text",
    "chain": "chain of three linear layers on images",
}
FULL_TITLES = {"resnet": "ResNet-50", "llama": "LLaMA-style, 8 layers × 384 × 8 heads"}
ACCURACY_MARGIN = 0.0055
"""Of arXiv 2603.28290: what its ResNet loses with errors of the chip."""

Result = Mapping[str, Any]


def main() -> int:
    """Run what is missing, then write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-write", action="store_true", help="train nothing")
    parser.add_argument("-o", "--output", type=Path, default=OUT, help="folder for logs, results and chips")
    options = parser.parse_args()
    ranks.end_on_request()
    try:
        for arguments in () if options.only_write else PLAN:
            if code := _train(*arguments, "-o", str(options.output)):
                return code
        write([read_result(path) for path in sorted(options.output.glob("*.json")) if _ours(path)], options.output)
    except InputError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; what has ended is kept, start it again to go on", file=sys.stderr)
        return INTERRUPTED
    return 0


def _train(*arguments: str) -> int:
    """Run `train.py`; it ends with this process. Returns its exit code."""
    with subprocess.Popen([sys.executable, str(Path(__file__).with_name("train.py")), *arguments]) as training:
        try:
            return training.wait()
        except BaseException:
            training.terminate()
            raise


def _ours(path: Path) -> bool:
    """Whether a file is a training's result."""
    return path.name.startswith(("small.", "full."))


def write(results: Sequence[Result], folder: Path) -> None:
    """Write tables and plots of the results that are there between the marks of docs/training.md.

    Raises:
        InputError: There are no results, some that do not belong together, or no marks.
    """
    lines = chips_read(folder)
    compared = False
    for model in TITLES:
        found = [each for each in results if each["model"] == model and each["size"] == "small"]
        if any(each["scheme"] == "ring" and each["seed"] == 0 for each in found):
            lines += section(model, found, folder)
            compared = True
    if not compared:
        raise InputError(f"{folder}: no result of a ring with seed 0, with which others are compared; train it first")
    lines += full_section([each for each in results if each["size"] == "full"])
    path = DOCS / "training.md"
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InputError(f"{path}: needs the lines {BEGIN} and {END} once each")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    write_atomic(path, (before + "\n".join([BEGIN, "", *lines, END]) + after).encode())


def chips_read(folder: Path) -> list[str]:
    """How many words the chips that were trained over have wrong, where their tables are there."""
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
    """Of a small network: what it is, its table and its plot."""
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
    head = ("scheme", "seeds", "test loss", "accuracy", "minus ring's", "margin", *COSTS, "measured a step")
    rows = []
    for scheme, entry in schemes.ENTRIES.items():
        of_scheme = [each for each in results if each["scheme"] == scheme]
        if of_scheme:
            rows.append((entry.title, *learnt(model, of_scheme, results), *costs(of_scheme[0], first), _ms(of_scheme)))
    about = (
        f"{first['parameters'] // 4:,} parameters; {first['data']} (digest {first['data_digest']}); "
        f"{first['steps']} steps."
    )
    notes = other_systems({each["scheme"]: each for each in results})
    picture = f"![Loss curves](training/{model}.png)"
    return [f"### {TITLES[model]}", "", about, "", *table(head, rows), *notes, picture, ""]


def _losses(result: Result, folder: Path) -> plots.Floats:
    """A small training's losses, (steps,)."""
    path = folder / f"small.{result['model']}.{result['scheme']}.{result['seed']}.csv"
    losses = plots.read_losses(path)
    if len(losses) != result["steps"]:
        raise InputError(f"{path}: {len(losses)} of {result['steps']} steps; delete its result and train again")
    return losses


def other_systems(results: Mapping[str, Result]) -> list[str]:
    """What a step takes elsewhere: over the chip at its own light's rate, and on WRHT's fibre with a ring."""
    lines = []
    if "optinc-extracted" in results:
        seconds = schemes.step_by_own_light_s(results["optinc-extracted"])
        lines += [
            "Over the extracted chip at the symbol rate that its light allows (`optinc_star_8bit_chip`) a step takes "
            f"{format_si(seconds, 's')}."
        ]
    if "wrht" in results:
        seconds = schemes.step_on_same_ring_s(results["wrht"])
        ratio = schemes.step_s(results["wrht"]) / seconds
        lines += [
            f"A ring all-reduce on WRHT's fibre takes {format_si(seconds, 's')}, of which WRHT takes {ratio:.3f}."
        ]
    return [*lines, ""] if lines else []


def learnt(model: str, of_scheme: Sequence[Result], results: Sequence[Result]) -> tuple[str, ...]:
    """Seeds, loss and accuracy, difference from the ring of the same seeds, and whether it is within the margin."""
    rings = {each["seed"]: each for each in results if each["scheme"] == "ring"}
    loss, accuracy = (np.array([each[key] for each in of_scheme]) for key in ("loss", "accuracy"))
    pairs = [(each, rings[each["seed"]]) for each in of_scheme if each["seed"] in rings]
    seeds = ", ".join(str(each["seed"]) for each in of_scheme)
    if not pairs:
        return seeds, _mean(loss, ".4f"), f"{_mean(100 * accuracy, '.2f')} %", "–", "–"
    if model == "llama":
        away = np.array([each["loss"] - ring["loss"] for each, ring in pairs])
        told, within = f"{_mean(away, '+.4f')}", away.mean() <= plots.LOSS_MARGIN
    else:
        away = np.array([each["accuracy"] - ring["accuracy"] for each, ring in pairs])
        told, within = f"{_mean(100 * away, '+.2f')} points", away.mean() >= -ACCURACY_MARGIN
    verdict = "–" if of_scheme[0]["scheme"] == "ring" else "within" if within else "**missed**"
    return seeds, _mean(loss, ".4f"), f"{_mean(100 * accuracy, '.2f')} %", told, verdict


COSTS = ("bytes a step", "to ring", "simulated a step", "to ring")


def costs(result: Result, ring: Result) -> tuple[str, ...]:
    """Bytes and simulated time of a step, each with its ratio to the ring's."""
    sent, sent_by_ring = (each["payload"] + each["side"] for each in (result, ring))
    seconds, seconds_of_ring = schemes.step_s(result), schemes.step_s(ring)
    return f"{sent:,.0f}", f"{sent / sent_by_ring:.3f}", format_si(seconds, "s"), f"{seconds / seconds_of_ring:.3f}"


def full_section(results: Sequence[Result]) -> list[str]:
    """Of the full sizes: a step of every scheme."""
    lines: list[str] = []
    for model, title in FULL_TITLES.items():
        found = {each["scheme"]: each for each in results if each["model"] == model}
        if "ring" not in found:
            continue
        ring = found["ring"]
        rows = [
            (schemes.ENTRIES[scheme].title, *costs(found[scheme], ring), f"{found[scheme]['wall_s']:.1f} s")
            for scheme in schemes.ENTRIES
            if scheme in found
        ]
        about = (
            f"{ring['parameters'] // 4:,} parameters, {ring['flop'] / 1e9:.1f} GFLOP a rank and step, {ring['data']}."
        )
        lines += [f"### {title}", "", about, "", *table(("scheme", *COSTS, "measured, one step"), rows)]
        lines += other_systems(found)
    return lines


def table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table."""
    names = tuple(head)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _mean(values: np.ndarray, form: str) -> str:
    """A mean, with the spread of several: half of what lies between the smallest and the largest."""
    # adding 0 takes the sign off what is rounded to it
    mean = f"{round(values.mean(), 4) + 0.0:{form}}".replace("-", "−")
    return mean if len(values) < 2 else f"{mean} ± {np.ptp(values) / 2:{form.lstrip('+')}}"


def _ms(results: Sequence[Result]) -> str:
    return f"{1e3 * np.median([each['wall_s'] for each in results]):.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
