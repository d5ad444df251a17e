"""Choice of the comparator network whose chip has the highest symbol rate on a process.

More units make a network tolerate more field noise, but also cost light: columns of meshes, and leaves of the trees
that feed the local oscillators. So the rate of a network's chip decides, as :func:`chip_rate` estimates it without a
layout. The search rates the network with the largest tolerance per MZI, and those up to ``STARTS`` times its size that
tolerate more field noise than every smaller one. It starts from the fastest of them and changes one choice at a time,
as long as the estimate rises. A network all of whose hidden signals are bits has few different rows, and is also rated
with a chain of MZIs for each row; the faster one counts, or the smaller one if both are equally fast. Guides, which the
estimate leaves out, cost a large chip more than a small one. So the fastest networks of every size are laid out and
extracted, and the smallest of those within ``EQUAL`` of the highest rate is taken.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from optinc_pdk.assemble import draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, lay_out, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, factorise, linked_network
from optinc_pdk.networks.closed_form.comparator_programs import ProgramVariant
from optinc_pdk.networks.closed_form.comparator_search import (
    ALL,
    BANKS,
    Candidate,
    candidate_network,
    candidates,
    choose,
    evaluate,
    tolerant_front,
)
from optinc_pdk.networks.closed_form.comparators import Placement
from optinc_pdk.networks.factorisation import clipping_units
from optinc_pdk.signoff.electrical.wiring import wiring_of
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import program, scattering
from optinc_pdk.studies.error_estimate import WORDS, error_margins
from optinc_pdk.studies.highest_rates import CHOICE_WORDS, ERROR_RATE, RATE_PRECISION, highest_rate

NAME = "chip"
"""Name of the circuit that is rated."""
STARTS = (Fraction(4, 3), Fraction(2))
"""Largest sizes of the networks among which the search starts, over that of the network chosen for its size."""
MOST_RATED = 60
"""Largest number of networks whose rate is estimated; about a second each at 8 bits and 4 servers."""
EXTRACTED = 8
"""Number of networks that are laid out and extracted, and the first one in addition."""
NEAR = 0.9
"""Least estimate, over the highest one, of a network that is extracted although a smaller one is faster."""
EQUAL = RATE_PRECISION
"""Ratio of two rates of extracted chips up to which the smaller network is preferred."""
UNITS = (2, 3, 4)
"""Numbers of equal units that are tried for the signal with the most steps."""
SPLITS = (None, 0, 1)
"""Exponents of the early split of the highest group that are tried."""
BETTER = 1.005
"""Least ratio of two estimates that counts as an improvement; they are searched to 2 %."""


def chip_rate(onn: AveragingNetwork, process: Process, extracted: bool = False) -> float | None:
    """Estimate the highest symbol rate of a network's chip at a word-error rate of ``ERROR_RATE``, before it is built.

    The circuit of the chip is assembled and its dies are planned, so that it has the meshes, trees, couplers and local
    oscillators of the chip. Guides have no length: their loss is left out, and rates are higher than those of the
    extracted chip. The estimate is that of :mod:`optinc_pdk.studies.error_estimate`.

    Args:
        onn: The network, as given to a build; the process's link may add output neurons.
        process: Process of the cards.
        extracted: Whether the layout is drawn, written and extracted as in a build, with the length of its guides and
            all words of an estimate; otherwise the assembled circuit is rated with fewer words.

    Returns:
        Symbols per second; None if no useful rate is acceptable.

    Raises:
        InputError: No chip can be built from the network, its programming fails, or the process has no noise or no
            budget section.
    """
    linked = linked_network(onn, process.link.kind == "neurons")
    factors = factorise(linked, swing=process.activation.analogue_swing)
    circuit, chip = lay_out(draft_circuit(linked, process, NAME), process)
    board = circuit.board
    if board is None:
        raise ValueError("an assembled circuit has a board")
    ground = None
    if extracted:
        circuit, ground = extracted_circuit(chip, process)
    bias = program(circuit, board, linked, process, ground=ground, factors=factors).bias
    s = scattering(circuit, bias, float(process.guide.wavelength_nm), process, ground=ground)
    margins = error_margins(s, function_inputs(linked.task), board, bias, WORDS if extracted else CHOICE_WORDS)
    return highest_rate(margins, process, ERROR_RATE)


def extracted_circuit(chip: ChipLayout, process: Process) -> tuple[Circuit, SharedGround]:
    """Return circuit and common ground of a chip as extracted from its layout."""
    with tempfile.TemporaryDirectory() as folder:
        gds = Path(folder) / f"{NAME}.gds"
        write_gds(to_layout(chip, process, NAME), gds)
        extraction = extract(gds, process)
    return extraction.circuit, wiring_of(extraction, process).common_ground


Choices = tuple[ProgramVariant, Placement]


@dataclass(frozen=True)
class RatedNetwork:
    """A network of comparators and the rate of its chip.

    Attributes:
        candidate: Choices, size and predicted tolerance.
        onn: The network.
        planned_bd: Estimated highest symbol rate of the assembled circuit, without guides; None if there is none.
        extracted_bd: The same for the extracted chip; None if there is none, or if it was not laid out.
        extracted: Whether the chip was laid out and extracted.
    """

    candidate: Candidate
    onn: AveragingNetwork
    planned_bd: float | None
    extracted_bd: float | None = None
    extracted: bool = False


def networks_by_rate(
    task: Averaging,
    process: Process,
    gain: float,
    limit: int | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> list[RatedNetwork]:
    """Find comparator networks whose chips have high symbol rates.

    Args:
        task: The averaging task.
        process: Process of the cards, with noise and budget.
        gain: Slope of the comparators.
        limit: Largest number of MZIs; None for none.
        progress: Called with a description of the work and the number of networks done.

    Returns:
        All networks that were rated: the chosen one, the others that were extracted in the order of their rates, and
            the rest in the order of their estimates.

    Raises:
        InputError: No network is within the limit, or no chip has an acceptable rate.
    """
    search = _Search(task, process, limit, progress)
    start = search.rated(choose(task, gain, limit))
    limits = {min(int(ratio * start.candidate.mzis), limit or 10**9) for ratio in STARTS}
    found = tolerant_front(
        one for most in limits for one in candidates(task, gain, most, goal="noise", swing=search.swing)
    )
    bits = (evaluate(task, *choice) for choice in _all_bits(task, gain))
    starts = [*found, *(one for one in bits if one is not None and search.networks(one))]
    best = search.climb(max([start, *map(search.rated, starts)], key=_planned))
    ranked = sorted(search.known.values(), key=_planned, reverse=True)
    if _planned(best) == 0.0:
        raise search.fault or InputError(
            f"process {process.name}: no network of comparators for {task} reaches a useful symbol rate; use another "
            "process, or fewer bits"
        )
    chosen = _for_layout(ranked, start)
    built = []
    for number, one in enumerate(chosen):
        search.report("extracting", number)
        built.append(replace(one, extracted_bd=search.rate(one.onn, extracted=True), extracted=True))
    built.sort(key=lambda one: (-(one.extracted_bd or 0.0), one.candidate.mzis))
    highest = built[0].extracted_bd or 0.0
    equal = [one for one in built if EQUAL * (one.extracted_bd or 0.0) >= highest]
    first = min(equal, key=lambda one: one.candidate.mzis)
    return [first, *(one for one in built if one is not first), *(one for one in ranked if one not in chosen)]


def _all_bits(task: Averaging, gain: float) -> Iterator[Choices]:
    """Choices without analogue signals, which lose light where modulators are driven directly."""
    for split in SPLITS:
        for finish in (False, True):
            variant = ProgramVariant((min(BANKS),) * task.groups, (split,) * task.groups, finish=finish)
            yield variant, Placement(gain, ALL)


def _for_layout(ranked: list[RatedNetwork], start: RatedNetwork) -> list[RatedNetwork]:
    """The networks to extract: first those that are faster than every smaller one, then the smallest fast others."""
    fastest = 0.0
    front = []
    for one in sorted(ranked, key=lambda one: (one.candidate.mzis, -_planned(one))):
        if _planned(one) > fastest:
            front.append(one)
            fastest = _planned(one)
    front = front[-EXTRACTED:]
    others = [one for one in ranked if one not in front and _planned(one) >= NEAR * fastest]
    others.sort(key=lambda one: one.candidate.mzis)
    chosen = [*front, *others][:EXTRACTED]
    return chosen if start in chosen else [*chosen, start]


def _planned(one: RatedNetwork) -> float:
    return one.planned_bd or 0.0


class _Search:
    """Networks of one task that were rated, by the digest of their weights."""

    def __init__(
        self, task: Averaging, process: Process, limit: int | None, progress: Callable[[str, int], None] | None
    ) -> None:
        self.task, self.process, self.limit, self.progress = task, process, limit, progress
        self.swing = float(process.activation.analogue_swing or 1.0)
        self.known: dict[str, RatedNetwork] = {}
        self.fault: InputError | None = None

    def report(self, what: str, done: int) -> None:
        """Report the number of networks done."""
        if self.progress is not None:
            self.progress(what, done)

    def networks(self, candidate: Candidate) -> list[AveragingNetwork]:
        """The networks of a candidate within the limit: as it is, and by rows if all hidden signals are bits."""
        onn = candidate_network(self.task, candidate)
        found = [onn]
        if all(clips.all() for clips in clipping_units(onn)):
            found.append(replace(onn, factor=tuple("rows" for _ in onn.layers)))
        return [one for one in found if self.limit is None or one.mzis <= self.limit]

    def rated(self, candidate: Candidate) -> RatedNetwork:
        """The network of a candidate with its estimated rate; networks of equal weights are rated once."""
        choices = self.networks(candidate)
        digest = choices[0].digest
        if digest not in self.known:
            self.report("rating", len(self.known))
            rated = [RatedNetwork(replace(candidate, mzis=one.mzis), one, self.rate(one)) for one in choices]
            highest = max(map(_planned, rated))
            equal = [one for one in rated if EQUAL * _planned(one) >= highest]
            self.known[digest] = min(equal, key=lambda one: one.candidate.mzis)
        return self.known[digest]

    def rate(self, onn: AveragingNetwork, extracted: bool = False) -> float | None:
        """Rate of a network's chip; None also if there is no such chip, for example because heaters get too little."""
        try:
            return chip_rate(onn, self.process, extracted)
        except InputError as fault:
            self.fault = fault
            return None

    def climb(self, best: RatedNetwork) -> RatedNetwork:
        """Take every single change that raises the rate, until none does or ``MOST_RATED`` networks are rated."""
        improved = True
        while improved:
            improved = False
            for change in _changes(self.task):
                for variant, placement in change(best.candidate):
                    if len(self.known) >= MOST_RATED:
                        return best
                    candidate = evaluate(self.task, variant, placement, self.limit, self.swing)
                    if candidate is None:
                        continue
                    one = self.rated(candidate)
                    if _planned(one) > BETTER * _planned(best):
                        best, improved = one, True
        return best


def _changes(task: Averaging) -> list[Callable[[Candidate], Iterator[Choices]]]:
    """Kinds of single changes, each a function from a candidate to its alternatives."""
    top = -(-4 * int(task.input_steps.max()) // 3)
    spans = (0, *(-(-top // units) for units in UNITS))

    def span(back: int) -> Callable[[Candidate], Iterator[Choices]]:
        def alternatives(one: Candidate) -> Iterator[Choices]:
            if back < one.layers:
                for value in spans:
                    yield one.variant, replace(one.placement, spans=_at(one.placement.spans, one.layers, back, value))

        return alternatives

    def bits(one: Candidate) -> Iterator[Choices]:
        for peak in (0, *one.waiting[-1]):
            yield one.variant, replace(one.placement, bits=_at(one.placement.bits, one.layers, 0, peak))

    def finish(one: Candidate) -> Iterator[Choices]:
        yield replace(one.variant, finish=not one.variant.finish), one.placement

    def split(one: Candidate) -> Iterator[Choices]:
        for value in SPLITS:
            yield replace(one.variant, splits=(*one.variant.splits[:-1], value)), one.placement

    return [span(0), bits, finish, *(span(back) for back in range(1, 2 * task.groups)), split]


def _at(values: tuple[int, ...], layers: int, back: int, value: int) -> tuple[int, ...]:
    """Values of all hidden layers, with that of one layer, counted from the last, replaced."""
    found = [*values, *(0,) * (layers - len(values))]
    found[layers - 1 - back] = value
    return tuple(found)
