"""Results of studies: one file of ``results/`` a study, from which the site draws a page.

    make results      # lists the studies, and what has changed since each was measured

A file states the command that measures it, the commit it was measured at, and digests of the process cards and networks
it was measured with. ``make docs`` draws the page of every study by the function `page` of its script, and says at the
top of a page what has changed since.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from optinc_pdk.cards import load_process
from optinc_pdk.cards.loader import DIGITS, card_digests, changed_parts
from optinc_pdk.errors import InputError
from optinc_pdk.io.writing import write_atomic

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
SCRIPTS = {
    "circuits": ("tests/examples", "circuit_faults.page"),
    "drift": ("benchmarks", "drift"),
    "fuzzing": ("tests/fuzz", "fuzzing.page"),
    "layouts": ("benchmarks", "layouts"),
    "matrix_peers": ("benchmarks", "matrix_to_mask"),
    "mutants": ("tests/signoff", "mutants.page"),
    "noisy_chips": ("benchmarks", "noisy_chips"),
    "rules": ("tests/signoff", "rule_cases.page"),
    "scenarios": ("benchmarks", "scenarios"),
    "speed": ("benchmarks", "speed"),
    "symbol_rates": ("benchmarks", "symbol_rates"),
    "tolerance": ("benchmarks", "tolerance"),
}
"""Of each study with a page of its own, folder and name of the module whose function ``page`` draws its data."""
INSERTED = (
    "closed_forms",
    "digits",
    "digits_calibrated",
    "estimates",
    "fibre_couplers",
    "interconnect",
    "matrices",
    "mesh_shapes",
    "network_rates",
    "noise_alone",
    "noise_estimate",
    "noise_estimate_fast",
    "noise_matrices",
    "oscillator_power",
    "paper_fast",
    "paper_fast_budget",
    "paper_noise",
    "paper_tolerance",
    "platforms",
    "size",
    "spectrum",
    "time_domain",
    "trained_networks",
    "training",
    "yield_as_built",
    "yield_comparators",
    "yield_matrices",
)
"""Studies whose data, blocks of text and tables as of :func:`blocks`, are drawn into a page of ``docs``."""
MARK = re.compile(r"\*The site shows \[results/(\w+)\.json\]\([./]*results/\1\.json\) here\.\*")
"""What they replace there."""


@dataclass(frozen=True)
class Study:
    """Results of a study.

    Attributes:
        command: Command that measures it.
        commit: Commit at which it was measured; a ``+`` at its end stands for changes that were not committed.
        cards: By process name or folder, digests of the parts of its cards; empty if they do not matter.
        networks: By path, digests of files of networks, and of other files that matter.
        data: The results, as the script of the study keeps them.
    """

    command: str
    commit: str
    cards: dict[str, dict[str, str]]
    networks: dict[str, str]
    data: Any

    def changes(self) -> list[str]:
        """Return the parts of cards and the networks that have changed since; missing ones count as changed."""
        found = []
        for name, stated in self.cards.items():
            try:
                parts = changed_parts(stated, _cards(name)) if stated else []
            except InputError:
                parts = ["missing"]
            found += [f"{name} ({', '.join(parts)})"] if parts else []
        return found + [path for path, digest in self.networks.items() if _digest(ROOT / path) != digest]

    @property
    def unknown(self) -> list[str]:
        """Processes whose cards may have changed: the study is older than the records of digests."""
        return [name for name, stated in self.cards.items() if not stated]

    def state(self) -> str:
        """Return what has changed since, as text; empty if nothing has."""
        unknown = [f"{name} (not recorded)" for name in self.unknown]
        return "; ".join([*self.changes(), *unknown])


def read_study(name: str) -> Study | None:
    """Return the last results of a study; None if there are none."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    try:
        return Study(**json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as fault:
        raise InputError(
            f"{path}: not the results of a study ({fault}); measure it again, or restore the file"
        ) from fault


def read_data(name: str, empty: Any) -> Any:
    """Return the data of a study's last results, or what stands for none."""
    study = read_study(name)
    return empty if study is None else study.data


def write_study(
    name: str,
    data: Any,
    command: str,
    processes: Iterable[str] = (),
    networks: Iterable[Path] = (),
    whole: bool = True,
) -> None:
    """Write the results of a study.

    Args:
        name: Name of the study.
        data: The results: what JSON can contain.
        command: Command that measures it.
        processes: Names, or folders relative to the repository, of the processes of its chips.
        networks: Files of its networks, and others that matter.
        whole: Whether all of it was measured. Otherwise commit and digests stay those of the last whole run, because
            some of the results are as old.
    """
    study = Study(
        command=command,
        commit=commit(),
        cards={process: _cards(process) for process in processes},
        networks={path.relative_to(ROOT).as_posix(): _digest(path) for path in networks},
        data=data,
    )
    if not whole and (earlier := read_study(name)):
        cards, files = study.cards | earlier.cards, study.networks | earlier.networks
        study = replace(earlier, cards=cards, networks=files, data=data)
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(asdict(study), indent=1, ensure_ascii=False)
    # one line a row: lists of values, and lists of these
    for row in (r"\[\n[^\[\]{}]*\]", r"\[\n(?:[^\[\]{}]|\[[^\[\]{}\n]*\])*\]"):
        text = re.sub(row, lambda found: re.sub(r"\n *", "", found[0].replace(",\n", ", \n")), text)
    write_atomic(RESULTS / f"{name}.json", (text + "\n").encode())


def commit() -> str:
    """Return the current commit, with a ``+`` if the package has changes that are not committed."""
    changed = _git("status", "--porcelain", "--", "optinc_pdk", "optinc_collective", "components")
    return _git("rev-parse", "--short=8", "HEAD") + ("+" if changed else "")


def page(name: str) -> str:
    """Return the page of a study in Markdown, with what has changed since it was measured below its title.

    Raises:
        InputError: There are no results, or they are damaged.
    """
    study = _measured(name)
    folder, module = SCRIPTS[name]
    sys.path.insert(0, str(ROOT / folder))
    try:
        text = importlib.import_module(module).page(study.data)
    finally:
        sys.path.remove(str(ROOT / folder))
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{_note(study)}\n{rest}"


def inserted(name: str) -> str:
    """Return the blocks of a study in Markdown, below what has changed since it was measured.

    Raises:
        InputError: There are no results, or they are damaged.
    """
    study = _measured(name)
    lines = [_note(study), ""]
    for block in study.data:
        if isinstance(block, str):
            lines.append(block)
        else:
            rows = [block["columns"], ["---"] * len(block["columns"]), *block["rows"]]
            lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, ""])


def blocks(lines: Iterable[str]) -> list[str | dict[str, list[Any]]]:
    """Return lines of Markdown as blocks: other lines as they are, tables with their columns and rows."""
    found: list[str | dict[str, list[Any]]] = []
    for line in (part for text in lines for part in text.split("\n")):
        # a backslash makes a bar a part of the text
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not line.startswith("|"):
            found.append(line)
        elif found and isinstance(table := found[-1], dict):
            is_rule = not table["rows"] and all(re.fullmatch(":?-+:?", cell) for cell in cells)
            table["rows"] += [] if is_rule else [cells]
        else:
            found.append({"columns": cells, "rows": []})
    return found


def _measured(name: str) -> Study:
    study = read_study(name)
    if study is None:
        raise InputError(f"{RESULTS / name}.json is missing; measure the study")
    return study


def _note(study: Study) -> str:
    measured = f"Measured by `{study.command}` at commit `{study.commit}`"
    changes = study.changes()
    if not changes and not study.unknown:
        # some depend on neither, such as the fuzzer's
        same = ", with today's cards and networks" if study.cards or study.networks else ""
        return f"*{measured}{same}.*"
    text = f"{measured}."
    if changes:
        text += f" These have changed since: {'; '.join(changes)}. The numbers are those of the earlier ones."
    if study.unknown:
        text += f" It is not recorded whether the cards of {', '.join(study.unknown)} were today's."
    return f"!!! {'warning' if changes else 'note'}\n    {text}"


def _cards(name: str) -> dict[str, str]:
    folder = ROOT / name
    return card_digests(load_process(str(folder) if "/" in name else name))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS] if path.exists() else "missing"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Print all studies, with what has changed since each was measured."""
    table = Table("study", "commit", "changed since: measure again by the command that the file states", box=None)
    for name in sorted([*SCRIPTS, *INSERTED]):
        study = read_study(name)
        table.add_row(name, study.commit if study else "", (study.state() or "nothing") if study else "never measured")
    Console().print(table)


if __name__ == "__main__":
    main()
