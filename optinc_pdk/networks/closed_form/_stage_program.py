"""Averaging as a short program of integer instructions: floor divisions of single signals, and sums.

Let s_k = N · input_k be the sum of the servers' symbols of group k, with the weight b^k, b = 4^g. The word is
floor(T / N) with T = Σ s_k b^k. Carries move to the next group: t_k = s_k + c_(k-1), c_k = floor(t_k / b), with the
digits d_k = t_k - b c_k. If N is a power of four, the division is a shift, and the word consists of the upper digits;
the lowest ones are the discarded fraction. For an odd power of two the division is also a shift, where errors matter
more than size: every symbol is the upper half of a digit and the lower half, d mod 2, of the next higher one.
Otherwise the program divides from the top, one symbol at a time: q = floor(u / (N 4^j)), and the remainder
u - N 4^j q is added to the lower digits.

The finer input of a cascade's level 2 has steps of 1/N², so that its group is wider: c_0 = floor(s_0 / (N b)), and T is
divided by N². The remainder of the division, if the task has one, is added to the last symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import Averaging


@dataclass(frozen=True)
class FloorInstruction:
    """Instruction ``result`` = floor((``signal`` + ``offset``) / ``divisor``) with 0 <= offset < divisor."""

    result: str
    signal: str
    divisor: int
    offset: int = 0


@dataclass(frozen=True)
class SumInstruction:
    """Instruction ``result`` = Σ factor · signal, with the integer factors in ``terms``.

    ``peak`` is the largest value of the result if it is the remainder of a floor division, where the sum of the largest
    terms overestimates it; None otherwise.
    """

    result: str
    terms: dict[str, int]
    peak: int | None = None


@dataclass(frozen=True)
class IntegerProgram:
    """Sequence of integer instructions that computes outputs from inputs; no signal is negative.

    Attributes:
        peaks: Largest value of every signal, including inputs.
        inputs: Names of the inputs, in the order of the network's inputs.
        instructions: Floors and sums, in the order in which they are computed.
        outputs: For each output, the integer factor of each signal in a sum, and the divisor of this sum.
    """

    peaks: dict[str, int]
    inputs: tuple[str, ...]
    instructions: tuple[FloorInstruction | SumInstruction, ...]
    outputs: tuple[tuple[dict[str, int], int], ...]

    def run(self, steps: Ints) -> dict[str, Ints]:
        """Compute the (points,) values of all signals, with inputs, by name.

        ``steps`` are (points, K) inputs in integer steps (:attr:`optinc_pdk.averaging.Averaging.input_resolution`).
        """
        values = {name: steps[:, i] for i, name in enumerate(self.inputs)}
        for step in self.instructions:
            if isinstance(step, FloorInstruction):
                values[step.result] = (values[step.signal] + step.offset) // step.divisor
            else:
                values[step.result] = self._sum(values, step.terms)
        return values

    def results(self, values: dict[str, Ints]) -> Floats:
        """Compute the (points, M) outputs in levels from the signals that `run` returns."""
        columns = [self._sum(values, terms) / divisor for terms, divisor in self.outputs]
        return np.stack(columns, axis=1)

    def needed_after(self, index: int) -> set[str]:
        """Returns the names of the signals that the outputs, or instructions after number `index`, read."""
        names = {name for terms, _ in self.outputs for name in terms}
        for step in self.instructions[index + 1 :]:
            names |= {step.signal} if isinstance(step, FloorInstruction) else set(step.terms)
        return names

    @staticmethod
    def _sum(values: dict[str, Ints], terms: dict[str, int]) -> Ints:
        total: Ints = sum(factor * values[name] for name, factor in terms.items())  # type: ignore[assignment]
        return total


@dataclass
class ProgramBuilder:
    """Instructions, and largest values of signals, of a program under construction; ``late`` as for
    `averaging_program`.
    """

    task: Averaging
    late: bool = True
    peaks: dict[str, int] = field(default_factory=dict)
    steps: list[FloorInstruction | SumInstruction] = field(default_factory=list)

    def floor(self, result: str, signal: str, divisor: int, offset: int = 0) -> str:
        """Appends a floor division and returns the name of its result."""
        self.steps.append(FloorInstruction(result, signal, divisor, offset))
        self.peaks[result] = (self.peaks[signal] + offset) // divisor
        return result

    def sum(self, result: str, terms: dict[str, int], peak: int | None = None) -> str:
        """Appends a sum and returns its name; `peak` as for `SumInstruction`."""
        self.steps.append(SumInstruction(result, terms, peak))
        highest = sum(factor * self.peaks[name] for name, factor in terms.items() if factor > 0)
        self.peaks[result] = highest if peak is None else min(peak, highest)
        return result


def averaging_program(task: Averaging, late: bool = False) -> IntegerProgram:
    """Create the integer program that computes the outputs of an averaging task, also of a cascade.

    If ``late``, error amplification is minimised instead of size: a digit is computed only where it is read, because
    its computation needs gain. Otherwise it is computed two carries later, so that one signal is passed on instead of
    two.
    """
    builder = ProgramBuilder(task, late)
    names = [f"s{k}" for k in range(task.groups - 1, -1, -1)]
    builder.peaks.update(zip(names, task.input_steps.tolist(), strict=True))
    places, half = divmod(task.servers.bit_length() - 1, 2)
    # Halves of digits need staircases of many steps; a division is smaller, and multiplies errors by four per symbol.
    shifts = task.servers == 2**half * 4**places and (not half or (late and not task.finer_input))
    outputs = _by_shift(builder, places, bool(half)) if shifts else _by_division(builder)
    return IntegerProgram(builder.peaks, tuple(names), tuple(builder.steps), tuple(outputs))


def _widths(task: Averaging) -> list[int]:
    """Number of values of every group's digit, from the lowest group."""
    base = 4**task.group_symbols
    return [base * (task.servers if task.finer_input else 1), *[base] * (task.groups - 1)]


def _carry(builder: ProgramBuilder, k: int, width: int, carried: set[int]) -> None:
    """Adds the carry from group k into the next one.

    A digit is formed two carries later at the earliest: its row would be by far the largest of the previous layer.
    """
    if k - 2 in carried and not builder.late:
        _digit(builder, k - 2, _widths(builder.task)[k - 2])
    builder.floor(f"c{k}", f"t{k}" if k else "s0", width)
    if k + 1 < builder.task.groups:
        builder.sum(f"t{k + 1}", {f"s{k + 1}": 1, f"c{k}": 1})


def _digit(builder: ProgramBuilder, k: int, width: int) -> str:
    name = f"d{k}"
    if name in builder.peaks:
        return name
    return builder.sum(name, {f"t{k}" if k else "s0": 1, f"c{k}": -width}, width - 1)


def _by_shift(builder: ProgramBuilder, places: int, half: bool) -> list[tuple[dict[str, int], int]]:
    """Outputs for 4^places servers, or twice as many if `half`, most significant first: sums and divisors."""
    task, widths = builder.task, _widths(builder.task)
    dropped = places * (2 if task.finer_input else 1)
    # Base-4 digits per group, from the lowest; the last carry provides the digits that the shift moves down.
    counts = [task.group_symbols + (places if task.finer_input else 0), *[task.group_symbols] * (task.groups - 1)]
    needed = [task.remainder or sum(counts[: k + 1]) > dropped for k in range(task.groups)]
    for k in range(task.groups):
        _carry(builder, k, widths[k], {j for j in range(k) if needed[j]})
    signals = [_digit(builder, k, widths[k]) if needed[k] else None for k in range(task.groups)]
    signals.append(f"c{task.groups - 1}")
    lowest = [sum(counts[:k]) for k in range(task.groups + 1)]
    # With a remainder, the last symbol and everything below it are one output.
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
            rows[place] = builder.floor(f"{signal}_{place}", rest, size)
            if place > max(start, stop) or task.remainder:
                rest = builder.sum(f"{signal}_below_{place}", {rest: 1, rows[place]: -size}, size - 1)
        if task.remainder and start < stop:
            fraction[rest] = 4**start
    symbols = range(dropped + task.symbols - 1, stop - 1, -1)
    if not half:
        outputs = [({rows[place]: 1}, 1) for place in symbols]
        return [*outputs, (fraction, 4**dropped)] if task.remainder else outputs
    upper = {place: _upper_half(builder, rows[place]) for place in rows}
    outputs = [(_add_lower_half(rows, upper, place, upper[place]), 1) for place in symbols]
    if task.remainder:
        scale = 2 * 4**dropped
        lower = {name: scale * factor for name, factor in _add_lower_half(rows, upper, dropped, {}).items()}
        outputs.append(({name: lower.get(name, 0) + fraction.get(name, 0) for name in {**lower, **fraction}}, scale))
    return outputs


def _upper_half(builder: ProgramBuilder, digit: str) -> dict[str, int]:
    """floor(digit / 2) as a sum. For a digit u - 4 c it is floor(u / 2) - 2 c, which needs no gain."""
    if builder.peaks[digit] < 2:
        return {}
    terms = next(
        (step.terms for step in builder.steps if isinstance(step, SumInstruction) and step.result == digit), {digit: 1}
    )
    (signal,) = (name for name, factor in terms.items() if factor == 1)
    half = builder.floor(f"{digit}_half", signal, 2)
    return {half: 1} | {name: factor // 2 for name, factor in terms.items() if name != signal}


def _add_lower_half(
    rows: dict[int, str], upper: dict[int, dict[str, int]], place: int, terms: dict[str, int]
) -> dict[str, int]:
    """A sum, plus twice the lower half of the digit above a place."""
    total = dict(terms)
    above = {rows[place + 1]: 2} | {name: -4 * factor for name, factor in upper[place + 1].items()}
    for name, factor in above.items():
        total[name] = total.get(name, 0) + factor
    return total


def _by_division(builder: ProgramBuilder) -> list[tuple[dict[str, int], int]]:
    """Outputs for any number of servers, most significant first: sums and divisors."""
    task, widths = builder.task, _widths(builder.task)
    top = task.groups - 1
    for k in range(top):
        _carry(builder, k, widths[k], set(range(k)))
    rest, outputs = (f"t{top}" if top else "s0"), []
    for k in range(top, -1, -1):
        divisor = task.servers * (task.servers if task.finer_input and k == 0 else 1)
        for place in range(task.group_symbols - 1, -1, -1):
            size = divisor * 4**place
            quotient = builder.floor(f"q{k}_{place}", rest, size)
            outputs.append(({quotient: 1}, 1))
            if k or place or task.remainder:
                rest = builder.sum(f"r{k}_{place}", {rest: 1, quotient: -size}, size - 1)
        if k:
            digit = _digit(builder, k - 1, widths[k - 1])
            width = widths[k - 1]
            rest = builder.sum(f"u{k - 1}", {rest: width, digit: 1}, width * divisor - 1)
    if task.remainder:
        outputs[-1] = ({next(iter(outputs[-1][0])): divisor, rest: 1}, divisor)
    return outputs
