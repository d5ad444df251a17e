"""Averaging as a short program on integers: floors, each of one signal, and sums between them.

With s_k = N · input_k the sum of the servers' symbols of group k, worth b^k with b = 4^g, the word is
floor(T / N) with T = Σ s_k b^k. Carries go up: t_k = s_k + c_(k-1), c_k = floor(t_k / b), which leaves the digits
d_k = t_k - b c_k. If N is a power of four, the division is a shift, and the word is read off the digits, of which
the lowest are the fraction that is discarded. An odd power of two is a shift, too, where errors matter more than
size: every symbol is the upper half of a digit and the lower half, d mod 2, of the next. Otherwise division goes
down from the top, one symbol at a time: q = floor(u / (N 4^j)), and the remainder u - N 4^j q joins what is below.

The finer input of a cascade's level 2 counts in steps of 1/N², so that its group is wider: c_0 = floor(s_0 / (N b)),
and T is divided by N². A remainder is what the division leaves, added to the last symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Floor:
    """result = floor(signal / divisor)."""

    result: str
    signal: str
    divisor: int


@dataclass(frozen=True)
class Sum:
    """result = Σ factor · signal; `peak` is its largest value where it follows from what a floor leaves."""

    result: str
    terms: dict[str, int]
    peak: int | None = None


@dataclass(frozen=True)
class Program:
    """Integer instructions from the inputs to the outputs; every signal is at least 0.

    Attributes:
        peaks: Largest value of every signal, the inputs included.
        inputs: Names of the inputs, in the network's order.
        instructions: Floors and sums, in order.
        outputs: Per output, integer factors of signals, and the divisor of their sum.
    """

    peaks: dict[str, int]
    inputs: tuple[str, ...]
    instructions: tuple[Floor | Sum, ...]
    outputs: tuple[tuple[dict[str, int], int], ...]

    def run(self, steps: Integers) -> dict[str, Integers]:
        """All signals for inputs in steps, shape (points, K); each of shape (points,)."""
        values = {name: steps[:, i] for i, name in enumerate(self.inputs)}
        for step in self.instructions:
            if isinstance(step, Floor):
                values[step.result] = values[step.signal] // step.divisor
            else:
                values[step.result] = self._sum(values, step.terms)
        return values

    def results(self, values: dict[str, Integers]) -> NDArray[np.float64]:
        """The outputs of signals that `run` gave, in levels, shape (points, M)."""
        columns = [self._sum(values, terms) / divisor for terms, divisor in self.outputs]
        return np.stack(columns, axis=1)

    def needed_after(self, place: int) -> set[str]:
        """Signals that an instruction after the given one, or an output, reads."""
        names = {name for terms, _ in self.outputs for name in terms}
        for step in self.instructions[place + 1 :]:
            names |= {step.signal} if isinstance(step, Floor) else set(step.terms)
        return names

    @staticmethod
    def _sum(values: dict[str, Integers], terms: dict[str, int]) -> Integers:
        total: Integers = sum(factor * values[name] for name, factor in terms.items())  # type: ignore[assignment]
        return total


@dataclass
class _Draft:
    """A program being written."""

    task: Averaging
    late: bool
    peaks: dict[str, int] = field(default_factory=dict)
    steps: list[Floor | Sum] = field(default_factory=list)

    def floor(self, result: str, signal: str, divisor: int) -> str:
        self.steps.append(Floor(result, signal, divisor))
        self.peaks[result] = self.peaks[signal] // divisor
        return result

    def sum(self, result: str, terms: dict[str, int], peak: int | None = None) -> str:
        self.steps.append(Sum(result, terms, peak))
        highest = sum(factor * self.peaks[name] for name, factor in terms.items() if factor > 0)
        self.peaks[result] = highest if peak is None else min(peak, highest)
        return result


def averaging_program(task: Averaging, late: bool = False) -> Program:
    """The program of a task.

    Args:
        task: The task; a level of a cascade, too.
        late: Whether errors matter more than size: digits are formed only where they are read, for that takes a
            gain. Else they are formed two carries after their own, so that one signal waits instead of two.
    """
    draft = _Draft(task, late)
    names = [f"s{k}" for k in range(task.groups - 1, -1, -1)]
    draft.peaks.update(zip(names, task.input_steps.tolist(), strict=True))
    places, half = divmod(task.servers.bit_length() - 1, 2)
    # Halves of digits take staircases of many steps; a division is smaller, and multiplies errors by four a symbol.
    shifts = task.servers == 2**half * 4**places and (not half or (late and not task.finer_input))
    outputs = _by_shift(draft, places, bool(half)) if shifts else _by_division(draft)
    return Program(draft.peaks, tuple(names), tuple(draft.steps), tuple(outputs))


def _widths(task: Averaging) -> list[int]:
    """What the digit of every group is counted up to, from the lowest group."""
    base = 4**task.group_symbols
    return [base * (task.servers if task.finer_input else 1), *[base] * (task.groups - 1)]


def _carry(draft: _Draft, k: int, width: int, carried: set[int]) -> None:
    """Carry from group k into the next one. A digit is formed two carries later at the earliest: its row would be
    by far the largest of the layer before."""
    if k - 2 in carried and not draft.late:
        _digit(draft, k - 2, _widths(draft.task)[k - 2])
    draft.floor(f"c{k}", f"t{k}" if k else "s0", width)
    if k + 1 < draft.task.groups:
        draft.sum(f"t{k + 1}", {f"s{k + 1}": 1, f"c{k}": 1})


def _digit(draft: _Draft, k: int, width: int) -> str:
    name = f"d{k}"
    if name in draft.peaks:
        return name
    return draft.sum(name, {f"t{k}" if k else "s0": 1, f"c{k}": -width}, width - 1)


def _by_shift(draft: _Draft, places: int, half: bool) -> list[tuple[dict[str, int], int]]:
    """Outputs for 4^places servers, or twice as many if `half`, most significant first."""
    task, widths = draft.task, _widths(draft.task)
    dropped = places * (2 if task.finer_input else 1)
    # Base-4 digits per group, from the lowest; the last carry holds the digits that the shift brings down.
    counts = [task.group_symbols + (places if task.finer_input else 0), *[task.group_symbols] * (task.groups - 1)]
    wanted = [task.remainder or sum(counts[: k + 1]) > dropped for k in range(task.groups)]
    for k in range(task.groups):
        _carry(draft, k, widths[k], {j for j in range(k) if wanted[j]})
    signals = [_digit(draft, k, widths[k]) if wanted[k] else None for k in range(task.groups)]
    signals.append(f"c{task.groups - 1}")
    lowest = [sum(counts[:k]) for k in range(task.groups + 1)]
    # With a remainder, all from the last symbol down is one output.
    stop = dropped + task.remainder
    rows: dict[int, str] = {}
    fraction: dict[str, int] = {}
    for signal, start, count in reversed(list(zip(signals, lowest, [*counts, places + half], strict=True))):
        rest = signal
        if rest is None:
            continue
        for place in range(start + count - 1, max(start, stop) - 1, -1):
            size = 4 ** (place - start)
            if size == 1:
                rows[place] = rest
                break
            rows[place] = draft.floor(f"{signal}_{place}", rest, size)
            if place > max(start, stop) or task.remainder:
                rest = draft.sum(f"{signal}_below_{place}", {rest: 1, rows[place]: -size}, size - 1)
        if task.remainder and start < stop:
            fraction[rest] = 4**start
    symbols = range(dropped + task.symbols - 1, stop - 1, -1)
    if not half:
        outputs = [({rows[place]: 1}, 1) for place in symbols]
        return [*outputs, (fraction, 4**dropped)] if task.remainder else outputs
    upper = {place: _upper_half(draft, rows[place]) for place in rows}
    outputs = [(_joined(rows, upper, place, upper[place]), 1) for place in symbols]
    if task.remainder:
        scale = 2 * 4**dropped
        lower = {name: scale * factor for name, factor in _joined(rows, upper, dropped, {}).items()}
        outputs.append(({name: lower.get(name, 0) + fraction.get(name, 0) for name in {**lower, **fraction}}, scale))
    return outputs


def _upper_half(draft: _Draft, digit: str) -> dict[str, int]:
    """floor(digit / 2) as a sum. Of u - 4 c it is floor(u / 2) - 2 c, which takes no gain to form."""
    if draft.peaks[digit] < 2:
        return {}
    terms = next((step.terms for step in draft.steps if isinstance(step, Sum) and step.result == digit), {digit: 1})
    (signal,) = (name for name, factor in terms.items() if factor == 1)
    found = draft.floor(f"{digit}_half", signal, 2)
    return {found: 1} | {name: factor // 2 for name, factor in terms.items() if name != signal}


def _joined(rows: dict[int, str], upper: dict[int, dict[str, int]], place: int, own: dict[str, int]) -> dict[str, int]:
    """A sum, and twice the lower half of the digit above a place."""
    total = dict(own)
    above = {rows[place + 1]: 2} | {name: -4 * factor for name, factor in upper[place + 1].items()}
    for name, factor in above.items():
        total[name] = total.get(name, 0) + factor
    return total


def _by_division(draft: _Draft) -> list[tuple[dict[str, int], int]]:
    """Outputs for any number of servers, most significant first."""
    task, widths = draft.task, _widths(draft.task)
    top = task.groups - 1
    for k in range(top):
        _carry(draft, k, widths[k], set(range(k)))
    rest, outputs = (f"t{top}" if top else "s0"), []
    for k in range(top, -1, -1):
        divisor = task.servers * (task.servers if task.finer_input and k == 0 else 1)
        for place in range(task.group_symbols - 1, -1, -1):
            size = divisor * 4**place
            quotient = draft.floor(f"q{k}_{place}", rest, size)
            outputs.append(({quotient: 1}, 1))
            if k or place or task.remainder:
                rest = draft.sum(f"r{k}_{place}", {rest: 1, quotient: -size}, size - 1)
        if k:
            digit = _digit(draft, k - 1, widths[k - 1])
            width = widths[k - 1]
            rest = draft.sum(f"u{k - 1}", {rest: width, digit: 1}, width * divisor - 1)
    if task.remainder:
        outputs[-1] = ({next(iter(outputs[-1][0])): divisor, rest: 1}, divisor)
    return outputs
