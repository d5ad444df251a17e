"""Estimated and counted word-error rates of extracted chips on random process cards, into results/estimates.json.

    python benchmarks/estimates.py

Phases, linewidth, polarisation, path and intensity of the light, extinction and swing of the modulators, and the
temperature of the chip, which it was not programmed for, are drawn at random. The symbol rate is one at which errors
can be counted. It takes some minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from rich.progress import track
from studies import blocks, write_study

from optinc_pdk.assemble import draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.circuit import Board, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.io.formatting import format_si
from optinc_pdk.layout import lay_out
from optinc_pdk.networks import AveragingNetwork, comparator_network, factorise, linked_network
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import program, scattering
from optinc_pdk.simulate.transmission.noise import noise_choices
from optinc_pdk.studies.chip_checks import read_words
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors
from optinc_pdk.studies.highest_rates import best_noise, highest_rate
from optinc_pdk.studies.rate_search import extracted_circuit

CARDS, SEED = 40, 12
PROCESSES = ("soi220", "soi220_fast")
ERRORS = 10
"""Errors from which a count can be compared."""
ENOUGH, PASSES = 100, 4
"""Errors, or passes through all inputs, at which counting ends."""


@dataclass(frozen=True)
class Drawn:
    """A process card with random numbers, and what is drawn beside it."""

    process: Process
    swing: float | None
    extinction_db: float
    kelvin: float


def drawn(name: str, rng: np.random.Generator) -> Drawn:
    """Draw a card."""

    def number(low: float, high: float, logarithmic: bool = False) -> Quantity:
        value = 10.0 ** rng.uniform(np.log10(low), np.log10(high)) if logarithmic else rng.uniform(low, high)
        return Quantity(float(value), "default")

    process = load_process(name)
    if process.noise is None:
        raise ValueError(f"process {name} has no noise")
    fibres = {
        "length_m": number(1.0, 20.0),
        "oscillator": str(rng.choice(["delayed", "on_chip"])),
        "mismatch_m": number(0.01, 1.0, True),
        "phase_rad": number(1e-3, 0.1, True),
        "extinction_db": number(17.0, 40.0),
    }
    light = {
        "fibres": process.noise.fibres.model_copy(update=fibres),
        "linewidth_hz": number(1e3, 3e5, True),
        "intensity_db_per_hz": number(-160.0, -140.0),
    }
    changed: dict[str, object] = {"noise": process.noise.model_copy(update=light)}
    swing = [None, 0.2, 0.3, 0.4][int(rng.integers(4))]
    if swing is not None:
        direct = {"lineariser": None, "analogue_swing": Quantity(swing, "default")}
        changed["activation"] = process.activation.model_copy(update=direct)
    return Drawn(process.model_copy(update=changed), swing, rng.uniform(25.0, 45.0), rng.normal(scale=0.01))


@cache
def chip(bits: int, name: str) -> tuple[AveragingNetwork, Board, Circuit, SharedGround]:
    """Network, board, circuit and ground of an extracted chip, which do not depend on what is drawn."""
    process = load_process(name)
    linked = linked_network(comparator_network(Averaging(bits, 4, bits // 2)), process.link.kind == "neurons")
    drafted, laid = lay_out(draft_circuit(linked, process, "chip"), process)
    if drafted.board is None:
        raise ValueError("an assembled circuit has a board")
    return linked, drafted.board, *extracted_circuit(laid, process)


def warmed(process: Process, kelvin: float) -> Process:
    """Return a process whose guides are warmer than at the time of programming."""
    guide = process.guide
    index = float(guide.index) + kelvin * float(guide.index_per_k or 0.0)
    return process.model_copy(update={"guide": guide.model_copy(update={"index": Quantity(index, "default")})})


def row(bits: int, name: str, rng: np.random.Generator) -> tuple[str, float | None]:
    """Row of the table, and the ratio of estimate and count, if there are enough errors."""
    card = drawn(name, rng)
    linked, board, circuit, ground = chip(bits, name)
    process = card.process
    factors = factorise(linked, swing=process.activation.analogue_swing)
    bias = program(circuit, board, linked, process, ground=ground, factors=factors).bias
    wavelength = float(process.guide.wavelength_nm)
    s = scattering(circuit, bias, wavelength, warmed(process, card.kelvin), ground=ground)
    s = replace(s, modulator=replace(s.modulator, leak=10.0 ** (-card.extinction_db / 20.0)))
    inputs = function_inputs(linked.task)
    margins = error_margins(s, inputs, board, bias)
    accepted = 10.0 ** rng.uniform(-4.0, -2.5)
    rate = highest_rate(margins, process, accepted) or float(process.budget.symbol_rate_min_bd)
    noise = best_noise(margins, noise_choices(process, None, rate))
    estimate = estimate_errors(margins, noise).rate
    words = wrong = number = 0
    while wrong < ENOUGH and number < PASSES:
        outcome = read_words(s, inputs, board, bias, noise, 2 * number)
        words, wrong, number = words + outcome.words, wrong + outcome.wrong, number + 1
    ratio = estimate * words / wrong if wrong >= ERRORS else None
    cells = (
        f"{bits}",
        name,
        format_si(rate, "Bd"),
        f"{1e3 * noise.phase('server'):.3g} mrad",
        f"{1e3 * noise.phase('board'):.3g} mrad",
        f"{card.extinction_db:.0f} dB",
        "linearised" if card.swing is None else f"{card.swing:g}",
        f"{1e3 * card.kelvin:.0f} mK",
        f"{wrong:,} of {words:,}",
        f"{estimate:.2g}",
        "–" if ratio is None else f"{ratio:.2f}",
    )
    return f"| {' | '.join(cells)} |", ratio


def main() -> None:
    """Print and write the table."""
    rng = np.random.default_rng(SEED)
    heads = (
        "bits",
        "process",
        "symbol rate",
        "phase, servers",
        "phase, board",
        "extinction",
        "swing",
        "warmer by",
        "wrong words",
        "estimate",
        "estimate / count",
    )
    rows, ratios = [], []
    for number in track(range(CARDS), "cards"):
        found, ratio = row(8 if number % 3 == 0 else 4, PROCESSES[int(rng.integers(2))], rng)
        rows.append(found)
        ratios += [] if ratio is None else [ratio]
    within = sum(0.5 <= ratio <= 2.0 for ratio in ratios)
    lines = [
        f"Of {CARDS} cards, {len(ratios)} have {ERRORS} errors or more. Estimate and count are within a factor of 2 on "
        f"{within} of them; their ratio is {min(ratios):.2f} to {max(ratios):.2f}.",
        "",
        f"| {' | '.join(heads)} |",
        "|" + "---|" * len(heads),
        *rows,
    ]
    print(*lines, sep="\n")
    write_study("estimates", blocks(lines), "python benchmarks/estimates.py", PROCESSES)


if __name__ == "__main__":
    main()
