"""Commands on what a process does not make twice alike."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optinc_pdk.cli.app import PASSED, app, counter, progress
from optinc_pdk.cli.options import DEFAULT, Json, ProcessName
from optinc_pdk.files import InputError

if TYPE_CHECKING:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.cards import Process

MOST_FACTOR = 1000.0
"""Of a card's imperfection; losses of more overflow."""


@app.command("yield")
def yield_(
    chip: Annotated[Path, typer.Argument(help="Layout, GDS2 or OASIS; what belongs to it lies beside it.")],
    netlist: Annotated[Path | None, typer.Option(help="Netlist with the board; beside CHIP by default.")] = None,
    bias: Annotated[Path | None, typer.Option(help="Bias file; beside CHIP by default.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weight file; by default the task is that of the report beside CHIP.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Number of sampled chips.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed; sample i depends on it and on i alone.")] = 0,
    target: Annotated[float, typer.Option(help="Share of the words that a chip has to read exactly.")] = 1.0,
    imperfection: Annotated[
        list[str] | None, typer.Option(help="Only this kind of imperfection; may be given several times.")
    ] = None,
    scale: Annotated[
        list[str] | None, typer.Option(help="KIND=FACTOR: a multiple of the card's; may be given several times.")
    ] = None,
    dac_bits: Annotated[float | None, typer.Option(help="Effective bits of the drive; the card's by default.")] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Calibrate every sample; needs --weights.")] = False,
    noise: Annotated[bool, typer.Option("--noise", help="Read words with noise of lasers and detectors.")] = False,
    laser_w: Annotated[float | None, typer.Option(help="Light into every guide in W, for --noise.")] = None,
    symbol_rate: Annotated[float | None, typer.Option(help="Symbols per second, for --noise.")] = None,
    contributions: Annotated[
        bool, typer.Option("--contributions/--no-contributions", help="Measure parts of the imperfections as well.")
    ] = True,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder; that of CHIP by default.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="local: processes of a Dask cluster; tcp://HOST:PORT: a running one.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Local processes; one per processor by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an earlier run of the same options.")] = False,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Yield of the extracted chip under the imperfections of the process's card; writes tables, numbers and plots.

    Every sample is measured with all imperfections; the first 50 also with each alone and with all but it; of the
    first 20, how much of each alone they bear.
    """
    from optinc_pdk.cards import load_process
    from optinc_pdk.onn import Onn
    from optinc_pdk.simulate.noise import noise_of
    from optinc_pdk.tolerance.montecarlo.run import chip_files, header_of, run_yield
    from optinc_pdk.tolerance.montecarlo.schedule import check_scheduler, runner
    from optinc_pdk.tolerance.montecarlo.study import Work
    from optinc_pdk.tolerance.variation.chip import read_chip
    from optinc_pdk.tolerance.variation.imperfections import imperfections

    check_scheduler(scheduler, workers)
    _refuse_numbers(samples, seed, target)
    if not noise and (laser_w, symbol_rate) != (None, None):
        raise InputError("--laser-w and --symbol-rate are of noise: add --noise, or leave them out")
    if calibrate and weights is None:
        raise InputError("--calibrate fits a chip to its network: give its weight file with --weights")
    files, card = chip_files(chip, netlist, bias), load_process(process)
    onn = None if weights is None else Onn.load(weights)
    task = _task(chip) if onn is None else onn.task
    physical = noise_of(card, laser_w, symbol_rate) if noise else None
    amounts = _amounts(card, imperfection or [], scale or [], dac_bits, noise)
    with progress(("extract",)) as told:
        told("extract")
        made = read_chip(files.gds, files.netlist, files.bias, card)
    work = Work(
        chip=made,
        task=task,
        imperfections=replace(imperfections(card), amount=amounts),
        seed=seed,
        target=target,
        noise=physical,
        onn=onn if calibrate else None,
    )
    directory = chip.parent if output is None else output
    with _samples() as watch:
        who, header = runner(work, scheduler, workers), header_of(files, card, work)
        numbers = run_yield(work, header, samples, directory, who, resume, watch, contributions)
    if as_json:
        print(json.dumps(numbers, indent=2))
    else:
        _summary(numbers, directory / files.name)
    raise typer.Exit(PASSED)


def _refuse_numbers(samples: int, seed: int, target: float) -> None:
    if samples < 1:
        raise InputError(f"--samples {samples}: give 1 or more")
    if seed < 0:
        raise InputError(f"--seed {seed}: give a whole number from 0")
    if not 0.0 < target <= 1.0:
        raise InputError(f"--target {target}: give a share of the words, above 0 and up to 1")


def _amounts(
    process: Process, only: list[str], scales: list[str], dac_bits: float | None, noise: bool
) -> dict[str, float]:
    """Kind of imperfection to the multiple of the card's that is asked for."""
    from optinc_pdk.cards import KINDS
    from optinc_pdk.drive import MAX_DAC_BITS
    from optinc_pdk.tolerance.montecarlo.study import NOISE_KINDS
    from optinc_pdk.tolerance.variation.imperfections import imperfections
    from optinc_pdk.tolerance.variation.truth import LEAST_BITS

    amounts = dict.fromkeys(only or [kind for kind in KINDS if noise or kind not in NOISE_KINDS], 1.0)
    factors = [(text, *text.partition("=")[::2]) for text in scales]
    for kind in [*only, *(kind for _, kind, _ in factors)]:
        if kind not in KINDS:
            raise InputError(f"there is no imperfection {kind!r}; there are {', '.join(KINDS)}")
        if kind in NOISE_KINDS and not noise:
            raise InputError(f"the imperfection {kind!r} is noise: add --noise, or leave it out")
    if dac_bits is not None:
        if not LEAST_BITS <= dac_bits <= MAX_DAC_BITS:
            raise InputError(f"--dac-bits {dac_bits}: give {LEAST_BITS:g} to {MAX_DAC_BITS} effective bits, 8.5 say")
        if "dac" not in amounts:
            raise InputError(f"--dac-bits {dac_bits}: 'dac' is not among the --imperfection asked for; add it there")
        amounts["dac"] = 2.0 ** (float(imperfections(process).card.dac.effective_bits) - dac_bits)
    for text, kind, factor in factors:
        if kind not in amounts:
            raise InputError(f"--scale {text}: {kind!r} is not among the --imperfection asked for; add it there")
        amounts[kind] *= _factor(text, factor)
    return amounts


def _factor(text: str, given: str) -> float:
    try:
        factor = float(given)
    except ValueError:
        factor = math.nan
    if not 0.0 <= factor <= MOST_FACTOR:
        raise InputError(f"--scale {text}: give KIND=FACTOR with a factor from 0 to {MOST_FACTOR:,.0f}: coupler=0.5")
    return factor


def _task(chip: Path) -> Averaging:
    """What the chip computes, as the report beside it says."""
    from pydantic import ValidationError

    from optinc_pdk.averaging import Averaging
    from optinc_pdk.report.numbers import Report

    path = chip.with_name(f"{chip.stem}.report.json")
    try:
        return Averaging(**Report.model_validate_json(path.read_bytes()).task.model_dump())
    except FileNotFoundError:
        raise InputError(f"{path}: there is no report beside the layout; give the weight file with --weights") from None
    except ValidationError as fault:
        raise InputError(
            f"{path}: not a build's report ({fault.error_count()} faults, the first: {fault.errors()[0]['msg']}); "
            "give the weight file with --weights"
        ) from None
    except ValueError as fault:
        raise InputError(f"{path}: task: {fault}; give the weight file with --weights") from None


@contextmanager
def _samples() -> Iterator[Callable[[int, int], None]]:
    """A bar over the samples; where they are interrupted, it is told how many are kept."""
    kept = 0
    try:
        with counter(remaining=True) as told:

            def watch(done: int, total: int) -> None:
                nonlocal kept
                kept = done
                told("samples", done, total)

            yield watch
    except KeyboardInterrupt:
        print(f"optinc: {kept} samples are kept; the same command with --resume goes on", file=sys.stderr)
        raise


def _summary(numbers: Mapping[str, Any], stem: Path) -> None:
    from optinc_pdk.tolerance.montecarlo.text import summary_lines

    for line in summary_lines(numbers):
        print(line)
    print(f"{stem}.yield.json, .yield.csv and plots beside them")
