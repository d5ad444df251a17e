"""Run the whole corpus and write its results: ``make mutants``.

python -m mutants                    # every kind, four chips, and the clean chips
python -m mutants --only heater      # kinds whose names contain a text
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from studies import read_data, write_study

from mutants.chips import CHIPS, Base, build
from mutants.clean import Clean, check_clean
from mutants.judge import CAUGHT, EQUIVALENT, HOLE, SAME, Verdict, judge
from mutants.kinds import KINDS
from mutants.page import data_of, read_clean, read_verdicts

Result = TypeVar("Result")
# Set before processes fork, so that all processes share the built chips.
BASES: dict[str, Base] = {}
# Number of results after which the results are written again.
KEPT = 50
# The chip whose first mutant of every kind passes through all checks; others stop at the first check that reports one.
THOROUGH = "perimeter"


def main(
    each: Annotated[int, typer.Option(help="Mutants of every kind on every chip.")] = 2,
    clean: Annotated[int, typer.Option(help="Clean chips.")] = 200,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    only: Annotated[str, typer.Option(help="Part of the names of the kinds to run.")] = "",
    record: Annotated[bool, typer.Option(help="Write results/mutants.json.")] = True,
) -> None:
    """Check mutants and clean chips; exit with 1 if there is a hole or a false alarm."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        BASES.update({name: build(name, Path(folder)) for name in CHIPS})
        for base in BASES.values():
            # read before processes fork
            _ = base.shapes, base.texts
        earlier = read_data("mutants", {"mutants": [], "clean": []})
        before, checked = read_verdicts(earlier) if only else [], read_clean(earlier)
        verdicts, chips = before, [described(base) for base in BASES.values()]

        def write(whole: bool) -> None:
            if record:
                data = data_of(chips, verdicts, checked)
                processes = sorted({base.process.name for base in BASES.values()})
                write_study("mutants", data, "make mutants", processes, whole=whole)

        # the first mutant of every kind first, so that holes are reported early
        tasks = [(c, k, n) for n in range(each) for k in KINDS if only in k for c in CHIPS]

        def keep(found: Sequence[Verdict | None]) -> None:
            nonlocal verdicts
            known = {(v.kind, v.chip, v.number): v for v in (*before, *found) if v is not None}
            ranks = {name: rank for rank, name in enumerate((*KINDS, *CHIPS))}
            verdicts = [known[key] for key in sorted(known, key=lambda key: (ranks[key[0]], ranks[key[1]], key[2]))]
            write(whole=False)

        run(judged, tasks, jobs, "mutants", console, keep)
        if clean:
            checked = run(cleaned, range(clean), jobs, "clean chips", console, lambda _: None)
        write(whole=not only and bool(clean))
    outcomes = {outcome: sum(v.outcome == outcome for v in verdicts) for outcome in (SAME, CAUGHT, EQUIVALENT, HOLE)}
    flagged = sum(map(alarm, checked))
    console.print(outcomes, f"{flagged} of {len(checked)} clean chips flagged")
    if outcomes[HOLE] or flagged:
        raise typer.Exit(1)


def described(base: Base) -> dict[str, str]:
    """Name, process, network and contents of a chip."""
    counts = (f"{n:g} {kind.replace('_', ' ')}" for kind, n in base.extraction.silicon.items() if "length" not in kind)
    structure = "-".join(map(str, base.onn.structure))
    return {"name": base.name, "process": base.process.name, "network": structure, "contents": ", ".join(counts)}


def run(
    work: Callable[..., Result],
    tasks: Sequence[object] | range,
    jobs: int,
    name: str,
    console: Console,
    keep: Callable[[Sequence[Result]], None],
) -> list[Result]:
    """Run tasks in several processes with a progress bar; ``keep`` is called with the results so far, in order."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with multiprocessing.get_context("fork").Pool(jobs) as pool, Progress(*columns, console=console) as bar:
        results: list[Result] = []
        done: Iterable[Result] = pool.imap(work, tasks)
        for result in bar.track(done, total=len(tasks), description=name):
            results.append(result)
            if alarm(result):
                console.print(result, highlight=False)
            if len(results) % KEPT == 0 or len(results) == len(tasks):
                keep(results)
                if not console.is_terminal:
                    console.print(f"{name}: {len(results)} of {len(tasks)}")
        return results


def alarm(result: object) -> bool:
    """Whether a result is a hole or a false alarm."""
    if isinstance(result, Verdict):
        return result.outcome == HOLE
    return isinstance(result, Clean) and bool(result.drc or result.lvs)


def judged(task: tuple[str, str, int]) -> Verdict | None:
    """Check one mutant in its own folder; an exception counts as a hole and does not end the run."""
    chip, kind, number = task
    with tempfile.TemporaryDirectory() as folder:
        try:
            return judge(BASES[chip], kind, number, Path(folder), thorough=number == 0 and chip == THOROUGH)
        except Exception as fault:
            return Verdict(chip, kind, number, "", (0.0, 0.0), HOLE, reason=f"{type(fault).__name__}: {fault}")


def cleaned(number: int) -> Clean:
    """Check one clean chip."""
    with tempfile.TemporaryDirectory() as folder:
        return check_clean(number, Path(folder))


if __name__ == "__main__":
    typer.run(main)
