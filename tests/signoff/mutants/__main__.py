"""Run the whole corpus and write its table: ``make mutants``.

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

from mutants.chips import CHIPS, Base, build
from mutants.clean import Clean, check_clean
from mutants.judge import CAUGHT, EQUIVALENT, HOLE, SAME, Verdict, judge
from mutants.kinds import KINDS
from mutants.page import CLEAN_COLUMNS, COLUMNS, clean_row, page, read_clean, read_verdicts, row, write_csv

Result = TypeVar("Result")
DOCS = Path(__file__).resolve().parents[3] / "docs"
# Set before processes fork, so that all processes share the built chips.
BASES: dict[str, Base] = {}
# Number of results after which the tables are written again.
KEPT = 50
# The chip whose first mutant of every kind passes through all checks; others stop at the first check that reports one.
THOROUGH = "perimeter"


def main(
    each: Annotated[int, typer.Option(help="Mutants of every kind on every chip.")] = 2,
    clean: Annotated[int, typer.Option(help="Clean chips.")] = 200,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    only: Annotated[str, typer.Option(help="Part of the names of the kinds to run.")] = "",
    out: Annotated[Path, typer.Option(help="Folder of the tables.")] = DOCS,
) -> None:
    """Check mutants and clean chips; exit with 1 if there is a hole or a false alarm."""
    console = Console(stderr=True)
    mutant_table, clean_table = out / "mutants.csv", out / "mutants_clean.csv"
    with tempfile.TemporaryDirectory() as folder:
        BASES.update({name: build(name, Path(folder)) for name in CHIPS})
        for base in BASES.values():
            # read before processes fork
            _ = base.shapes, base.texts
        before = read_verdicts(mutant_table) if only else []
        # the first mutant of every kind first, so that holes are reported early
        tasks = [(c, k, n) for n in range(each) for k in KINDS if only in k for c in CHIPS]
        verdicts = before

        def keep(found: Sequence[Verdict | None]) -> None:
            nonlocal verdicts
            known = {(v.kind, v.chip, v.number): v for v in (*before, *found) if v is not None}
            ranks = {name: rank for rank, name in enumerate((*KINDS, *CHIPS))}
            verdicts = [known[key] for key in sorted(known, key=lambda key: (ranks[key[0]], ranks[key[1]], key[2]))]
            write_csv(mutant_table, COLUMNS, map(row, verdicts))

        run(judged, tasks, jobs, "mutants", console, keep)
        checked = read_clean(clean_table)
        if clean:
            checked = run(
                cleaned,
                range(clean),
                jobs,
                "clean chips",
                console,
                lambda found: write_csv(clean_table, CLEAN_COLUMNS, map(clean_row, found)),
            )
        (out / "mutants.md").write_text(page(list(BASES.values()), verdicts, checked), encoding="utf-8")
    outcomes = {outcome: sum(v.outcome == outcome for v in verdicts) for outcome in (SAME, CAUGHT, EQUIVALENT, HOLE)}
    flagged = sum(map(alarm, checked))
    console.print(outcomes, f"{flagged} of {len(checked)} clean chips flagged")
    if outcomes[HOLE] or flagged:
        raise typer.Exit(1)


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
