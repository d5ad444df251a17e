"""Integer programs for networks of comparators, in variants that differ in size and in tolerance.

A comparator is a bit [t ≥ k] of an integer signal t, and ⌊t / n⌋ is a sum of such bits, a *bank*. A bit has no errors,
a signal in analogue form has errors in proportion to its peak. Programs differ in where they divide:

- Carries: t_k = s_k + carries, ⌊t_k / b⌋ moves up. If a bank would have too many comparators, it is divided twice:
  h = ⌊t / nm⌋, then ⌊(t - nm h) / n⌋, where each part is a carry of its own.
- Early splits: before any carry arrives, ⌊s_k / b 2^x⌋ moves up and s_k - b 2^x ⌊s_k / b 2^x⌋ waits instead of s_k, so
  that the peak of the waiting signal, and with it its error, is smaller. The quotients q that become part of the
  highest symbols wait next to the remainders. Rows that are not orthogonal cost light, so that they may be regenerated
  from s + a q instead of q.
- Symbols: for N = 2^n servers they are the bits above n, two at a time, of the groups' digits. A symbol that lies
  across two groups is the sum of two bits. Other numbers of servers divide from the top: q = ⌊u / N 4^j⌋, and the
  remainder r is regenerated as bits before it is multiplied in u = b r + d, as its errors would be multiplied as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.closed_form._stage_program import FloorInstruction, IntegerProgram, ProgramBuilder

Terms = dict[str, int]


@dataclass(frozen=True)
class ProgramVariant:
    """Choices of a program for comparators, for each group from the lowest.

    Attributes:
        banks: Largest number of comparators that read one signal of a group in one layer; at least 1.
        splits: Exponent x of the early split of each group; None for no early split.
        lift: Factor a of the rows that regenerate the highest quotients of early splits; 0 if they wait as they are.
        finish: Whether every output is regenerated as bits before the last layer, where its signal is complete.
    """

    banks: tuple[int, ...]
    splits: tuple[int | None, ...]
    lift: int = 0
    finish: bool = False


def comparator_program(task: Averaging, variant: ProgramVariant) -> IntegerProgram:
    """Create the integer program of an averaging task for comparators.

    Raises:
        ValueError: The variant does not have a bank and a split for each group, or one is out of range.
    """
    _check(task, variant)
    chain = _Chain(task, variant)
    outputs = chain.fields() if task.servers & (task.servers - 1) == 0 else chain.division()
    builder = chain.builder
    return IntegerProgram(builder.peaks, chain.names, tuple(builder.steps), tuple(outputs))


@dataclass
class _Field:
    """Bits `low` to `high` of the total; `high` is None for all that is above."""

    low: int
    high: int | None
    terms: Terms


class _Chain:
    """Construction of one program: the carry chain over the groups, from the lowest."""

    def __init__(self, task: Averaging, variant: ProgramVariant) -> None:
        self.task, self.variant = task, variant
        self.builder = ProgramBuilder(task)
        self.names = tuple(f"s{k}" for k in range(task.groups - 1, -1, -1))
        self.builder.peaks.update(zip(self.names, task.input_steps.tolist(), strict=True))
        base = 4**task.group_symbols
        self.widths = [base * (task.servers if task.finer_input else 1), *[base] * (task.groups - 1)]
        self.weights = [1]
        for width in self.widths:
            self.weights.append(self.weights[-1] * width)
        self.sums: list[str | None] = [f"s{k}" for k in range(task.groups)] + [None]
        self.used: dict[str, int] = {}
        self.origins: dict[str, tuple[str, int, str]] = {}
        self.bank = 1
        self._split_early()

    def name(self, kind: str) -> str:
        """A new name."""
        self.used[kind] = self.used.get(kind, 0) + 1
        return f"{kind}.{self.used[kind]}"

    def residue(self, signal: str, divisor: int, quotient: str) -> str:
        """The remainder of a floor division."""
        if not self.builder.peaks[quotient]:
            return signal
        rest = self.builder.sum(self.name("r"), {signal: 1, quotient: -divisor}, divisor - 1)
        self.origins[rest] = (signal, divisor, quotient)
        return rest

    def _split_early(self) -> None:
        pieces = []
        for k, exponent in enumerate(self.variant.splits):
            if exponent is None:
                continue
            self.bank = self.variant.banks[k]
            found, self.sums[k] = self.divide(f"s{k}", self.widths[k] << exponent)
            for part, name in found:
                weight = self.weights[k] * part
                lifted = self.variant.lift and len(found) == 1 and weight >= self.weights[-1]
                pieces.append((weight, self._lifted(f"s{k}", part, name) if lifted else name))
        self.carry(pieces)

    def _lifted(self, signal: str, divisor: int, quotient: str) -> str:
        """Regenerates the quotient from signal + a · quotient = remainder + (divisor + a) · quotient.

        The row of this sum can be orthogonal to that of the remainder, signal - divisor · quotient, which the row of
        the quotient is not. Its values have gaps of a, and comparators in the middle of them.
        """
        factor = self.variant.lift
        total = self.builder.sum(self.name("x"), {signal: 1, quotient: factor})
        return self.builder.floor(self.name("q"), total, divisor + factor, factor // 2)

    def divide(self, signal: str, size: int) -> tuple[list[tuple[int, str]], str]:
        """Divide a signal by `size` with banks of limited size.

        Returns pieces (factor of the original signal, name) whose sum is size · ⌊signal / size⌋, and the remainder.
        """
        builder, pieces = self.builder, []
        if (origin := self.origins.get(signal)) and builder.peaks[origin[0]] // size <= self.bank:
            # The bits of the signal from which this one was left may also count smaller steps.
            parent, divisor, upper = origin
            if divisor % size == 0 and builder.peaks[signal] >= size:
                lower = builder.floor(self.name("q"), parent, size)
                quotient = builder.sum(self.name("f"), {lower: 1, upper: -(divisor // size)}, divisor // size - 1)
                return [(size, quotient)], self.residue(parent, size, lower)
        while builder.peaks[signal] >= size:
            part = size
            while builder.peaks[signal] // part > self.bank:
                part *= 2
            quotient = builder.floor(self.name("q"), signal, part)
            pieces.append((part, quotient))
            signal = self.residue(signal, part, quotient)
        return pieces, signal

    def carry(self, pieces: list[tuple[int, str]]) -> None:
        """Adds pieces, each with its weight in the total, to the highest groups that can hold them."""
        for weight, name in pieces:
            k = max(k for k in range(len(self.weights)) if weight % self.weights[k] == 0 and self.weights[k] <= weight)
            factor, group = weight // self.weights[k], self.sums[k]
            if group is None and factor == 1:
                self.sums[k] = name
            else:
                self.sums[k] = self.builder.sum(
                    self.name(f"t{k}_"), {name: factor} if group is None else {group: 1, name: factor}
                )

    def fields(self) -> list[tuple[Terms, int]]:
        """Outputs for 2^n servers: fields of two bits of the total, above its n or 2 n lowest."""
        task = self.task
        shift = (task.servers.bit_length() - 1) * (2 if task.finer_input else 1)
        stops = [shift + 2 * j for j in range(task.symbols)]
        fields: list[_Field] = []
        for k in range(task.groups + 1):
            self.bank = self.variant.banks[min(k, task.groups - 1)]
            signal, low = self.sums[k], self.weights[k].bit_length() - 1
            if signal is None:
                continue
            top = k == task.groups or (k == task.groups - 1 and self.sums[-1] is None)
            width = None if top else self.widths[k].bit_length() - 1
            cuts = [stop - low for stop in stops if low < stop and (width is None or stop - low < width)]
            found, carried = self._cut(signal, cuts, width, task.remainder or width is None or low + width > shift)
            fields += [_Field(low + f.low, None if f.high is None else low + f.high, f.terms) for f in found]
            self.carry([(self.weights[k] * part, name) for part, name in carried])
        outputs = []
        for stop in reversed(stops):
            inside = [f for f in fields if stop <= f.low < stop + 2]
            outputs.append((_scaled_sum([(f.terms, 1 << (f.low - stop)) for f in inside]), 1))
        if task.remainder:
            below = _scaled_sum([(f.terms, 1 << f.low) for f in fields if f.low < shift])
            last = _scaled_sum([(outputs[-1][0], 1 << shift), (below, 1)])
            return [*outputs[:-1], (last, 1 << shift)]
        return [(self._joined(terms), 1) for terms, _ in outputs]

    def _joined(self, terms: Terms) -> Terms:
        """A symbol of several signals as one sum, which then waits as one signal, and as bits if it is finished."""
        if len(terms) > 1:
            terms = {self.builder.sum(self.name("y"), terms): 1}
        (name,) = terms
        if (
            not self.variant.finish
            or terms[name] != 1
            or any(isinstance(step, FloorInstruction) and step.result == name for step in self.builder.steps)
        ):
            return terms
        return {self.builder.floor(self.name("y"), name, 1): 1}

    def _cut(
        self, signal: str, cuts: list[int], width: int | None, keep: bool
    ) -> tuple[list[_Field], list[tuple[int, str]]]:
        """Fields of a group between cuts (relative bits), and the pieces of its carry; the fields only if needed."""
        carried: list[tuple[int, str]] = []
        rest, upper = signal, width
        if width is not None:
            carried, rest = self.divide(signal, 1 << width)
        if not keep:
            return [], carried
        fields = []
        for cut in sorted(cuts, reverse=True):
            pieces, rest = self.divide(rest, 1 << cut)
            terms = {name: part >> cut for part, name in pieces}
            fields.append(_Field(cut, upper, terms))
            upper = cut
        if not cuts or min(cuts) > 0:
            fields.append(_Field(0, upper, {rest: 1}))
        return fields, carried

    def division(self) -> list[tuple[Terms, int]]:
        """Outputs for any number of servers, by carries from the bottom and long division from the top."""
        task, builder, top = self.task, self.builder, self.task.groups - 1
        for k in range(top):
            self.bank = self.variant.banks[k]
            pieces, self.sums[k] = self.divide(self._sum(k), self.widths[k])
            self.carry([(self.weights[k] * part, name) for part, name in pieces])
        rest = self._sum(top)
        if (above := self.sums[-1]) is not None:
            rest = builder.sum(self.name("u"), {rest: 1, above: self.widths[top]})
        outputs: list[tuple[Terms, int]] = []
        for k in range(top, -1, -1):
            self.bank = self.variant.banks[k]
            divisor = task.servers * (task.servers if task.finer_input and k == 0 else 1)
            for place in range(task.group_symbols - 1, -1, -1):
                size = divisor * 4**place
                pieces, rest = self.divide(rest, size)
                terms = {name: part // size for part, name in pieces}
                outputs.append((terms if task.remainder and not k and not place else self._joined(terms), 1))
            if k:
                bits = builder.floor(self.name("b"), rest, 1)
                rest = builder.sum(self.name("u"), {bits: self.widths[k - 1], self._sum(k - 1): 1})
        if task.remainder:
            last = _scaled_sum([(outputs[-1][0], divisor), ({rest: 1}, 1)])
            outputs[-1] = (last, divisor)
        return outputs

    def _sum(self, k: int) -> str:
        """The signal of a group."""
        signal = self.sums[k]
        if signal is None:
            raise ValueError(f"group {k} has no signal")
        return signal


def _check(task: Averaging, variant: ProgramVariant) -> None:
    for name, values, least in (("banks", variant.banks, 1), ("splits", variant.splits, 0)):
        if len(values) != task.groups:
            raise ValueError(f"{name} has {len(values)} values for {task.groups} groups: give one per group")
        for value in values:
            if value is not None and value < least:
                raise ValueError(f"{name} contains {value}; use at least {least}")


def _scaled_sum(parts: list[tuple[Terms, int]]) -> Terms:
    total: Terms = {}
    for terms, factor in parts:
        for name, inner in terms.items():
            total[name] = total.get(name, 0) + factor * inner
    return total
