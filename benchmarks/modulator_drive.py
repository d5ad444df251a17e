"""Symbol rates of chips by how their modulators are driven, into results/ (some minutes).

    python benchmarks/modulator_drive.py

A modulator's field is the sine of its voltage. `linearised` is the process as it is, with a predistorter of every
modulator that has no error and no bandwidth. `direct` is the same process without it: analogue signals keep to 0.2 of
full scale. Rows for the rate have the network that `optinc synth --for rate` chooses for `direct` on a process.
Rates are those of the extracted and programmed chip at an estimated word-error rate of 1e-9, to 2 %.
"""

from __future__ import annotations

from studies import blocks, write_study

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.io.formatting import format_si
from optinc_pdk.networks import AveragingNetwork, comparator_network
from optinc_pdk.networks.closed_form.comparators import GAIN
from optinc_pdk.networks.factorisation import clipping_units
from optinc_pdk.studies.rate_search import chip_rate, networks_by_rate

PROCESSES = ("soi220", "soi220_fast")
SWING = 0.2
"""Largest field of analogue signals where modulators are driven directly: see docs/processes.md."""


def driven_directly(process: Process) -> Process:
    """Return a process without lineariser."""
    changed = {"lineariser": None, "analogue_swing": Quantity(SWING, "default")}
    return process.model_copy(update={"activation": process.activation.model_copy(update=changed)})


def row(bits: int, name: str, onn: AveragingNetwork, rates: list[str]) -> str:
    """One row of the table."""
    units = [clips for each in clipping_units(onn) for clips in each]
    analogue = f"{units.count(False)} of {len(units)}"
    shape = "-".join(map(str, onn.structure))
    return f"| {bits} | {name} | {shape} | {onn.mzis} | {analogue} | {' | '.join(rates)} |"


def rate(onn: AveragingNetwork, process: Process) -> str:
    """Rate of the extracted chip in words."""
    found = chip_rate(onn, process, extracted=True)
    return "none" if found is None else format_si(found, "Bd")


def main() -> None:
    """Print and write the table."""
    columns = [f"{process}, {drive}" for process in PROCESSES for drive in ("linearised", "direct")]
    lines = [
        f"| bits | network | structure | MZIs | analogue signals | {' | '.join(columns)} |",
        "|---|---|---|---|---|" + "---|" * len(columns),
    ]
    cards = [card for name in PROCESSES for card in (load_process(name), driven_directly(load_process(name)))]
    for bits in (4, 8):
        task = Averaging(bits, 4, bits // 2)
        onn = comparator_network(task)
        lines.append(row(bits, "chosen for its size", onn, [rate(onn, card) for card in cards]))
        for name, card in zip(PROCESSES, cards[1::2], strict=True):
            onn = networks_by_rate(task, card, GAIN)[0].onn
            lines.append(row(bits, f"for its rate on {name}, direct", onn, [rate(onn, each) for each in cards]))
        print(*lines[-3:], sep="\n", flush=True)
    write_study("modulator_drive", blocks(lines), "python benchmarks/modulator_drive.py", PROCESSES)


if __name__ == "__main__":
    main()
