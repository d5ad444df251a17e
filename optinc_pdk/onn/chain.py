"""The exact network in closed form: add with carries, then divide by long division.

With s_k = N · input_k the sum of the servers' symbols at place 4^k, the word is floor(Σ s_k 4^k / N). Carries
go up: t_k = s_k + c_(k-1), c_k = floor(t_k / 4), which leaves the base-4 digits d_k = t_k - 4 c_k. Division
goes down from the top: q_k = floor(u_k / N), and the remainder joins the next digit, u_(k-1) = 4 (u_k - N
q_k) + d_(k-1). Dividing by four servers is a shift: the word is c_(M-1) d_(M-1) ... d_1, and d_0 is the
fraction that is discarded.

The floor of an integer is a staircase of ReLUs, floor(u / n) = Σ_j step_j, where step_j rises from 0 to 1
between jn - 1 and jn: ReLU(u - (jn - 1)) - ReLU(u - jn), or, the same seen from below, 1 + ReLU(jn - 1 - u) -
ReLU(jn - u). Each step takes the pair that stays smaller, so that little of it is active and its errors weigh
least. Signals that wait for their turn pass a ReLU unchanged, for all of them are nonnegative. The last staircase
only rises: its falling steps would leave a constant for the output, where there are receivers and no electronics
that could add one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn.network import Layer, Onn

Floats = NDArray[np.float64]


def carry_chain(task: Averaging) -> Onn:
    """An exact network with margin 0.5; for 4 bits and 4 servers its structure is 2-6-7-2.

    Args:
        task: A task with one input per symbol (groups = bits/2) that is no level of a cascade.

    Returns:
        The network; its outputs are whole levels, and its last layer has no bias.

    Raises:
        ValueError: The task groups symbols or belongs to a cascade.
    """
    if task.groups != task.symbols or task.remainder or task.finer_input:
        raise ValueError(
            f"task {task} must have groups = {task.symbols}, one input per symbol, and be no level of a cascade"
        )
    chain = _Chain(task)
    outputs = _by_shift(chain) if task.servers == 4 else _by_division(chain)
    layers = [*chain.layers, _layer(np.array(outputs))]
    return Onn(tuple(layers), task, card={"recipe": "carry_chain"})


class _Kink(NamedTuple):
    """A unit ReLU(u - shift), or ReLU(shift - u) if it falls, and its weight in the floor."""

    shift: int
    falls: bool
    sign: float


def _staircase(divisor: int, peak: int, rising: bool) -> tuple[list[_Kink], int]:
    """Units of floor(u / divisor) for u = 0 ... peak, and the constant that the falling steps add.

    All of them rise if ``rising``; else each step takes the side that stays smaller.
    """
    kinks: list[_Kink] = []
    constant = 0
    for edge in range(divisor, peak + 1, divisor):
        falls = not rising and edge < peak - edge + 1
        constant += falls
        # A ReLU that is zero over the whole range is left out.
        for shift, sign in ((edge - 1, 1.0), (edge, -1.0)):
            if (falls and shift > 0) or (not falls and shift < peak):
                kinks.append(_Kink(shift, falls, sign))
    return kinks, constant


class _Chain:
    """A network under construction: its layers, and the signals that wait, in units of the last layer.

    A signal is an affine row: it has one coefficient per unit and a constant at the end.
    """

    def __init__(self, task: Averaging) -> None:
        self.task = task
        self.layers: list[Layer] = []
        places = np.eye(task.groups, task.groups + 1)[::-1]
        self.waiting: dict[str, Floats] = {f"s{k}": task.servers * row for k, row in enumerate(places)}

    def floor(self, name: str, divisor: int, peak: int, keep: bool, last: bool) -> Floats:
        """Append a layer that computes floor(u / divisor) of a waiting integer signal u = 0 ... peak.

        Args:
            name: The signal; it goes on waiting if `keep`, as the difference of the two ReLUs at its middle
                kink, one of which the staircase has anyway: both stay smaller than the signal.
            divisor: A positive integer.
            peak: Largest value of the signal.
            keep: Whether the signal is still wanted.
            last: Whether its layer is the last hidden one, which must need no constant from the output layer.

        Returns:
            The row of the floor.
        """
        if peak < divisor:
            return np.zeros_like(self.waiting[name] if keep else self.waiting.pop(name))
        signal = self.waiting.pop(name)
        one = np.eye(1, signal.size, signal.size - 1)[0]
        kinks, constant = _staircase(divisor, peak, rising=last)
        middle = min(range(len(kinks)), key=lambda i: abs(2 * kinks[i].shift - peak))
        if keep and last:
            kinks.append(_Kink(0, False, 0.0))
        elif keep:
            kinks.append(_Kink(kinks[middle].shift, not kinks[middle].falls, 0.0))
        rows = [(shift * one - signal) if falls else (signal - shift * one) for shift, falls, _ in kinks]
        self.layers.append(_layer(np.array([*rows, *self.waiting.values()])))
        width = self.layers[-1].outputs
        units = np.eye(width + 1)
        self.waiting = dict(zip(self.waiting, units[len(rows) : width], strict=True))
        if keep and last:
            self.waiting[name] = units[len(rows) - 1]
        elif keep:
            pair = units[middle] - units[len(rows) - 1]
            if kinks[middle].falls:
                pair = -pair
            self.waiting[name] = kinks[middle].shift * units[width] + pair
        return sum((kink.sign * unit for kink, unit in zip(kinks, units, strict=False)), constant * units[width])

    def carry(self, k: int, keep_digit: bool) -> Floats:
        """Carry from s_k, which includes the carry from below, into s_(k+1), leaving digit k if it is wanted.

        Returns:
            The row of the carry.
        """
        # A digit is formed a layer later than its carry: its row would be by far the largest of that layer.
        if f"c{k - 2}" in self.waiting:
            self.waiting[f"d{k - 2}"] = self.digit(k - 2)
        peak = self.task.servers * (4 ** (k + 1) - 1) // 4**k
        last = self.task.servers == 4 and k == self.task.symbols - 1
        carry = self.floor(f"s{k}", 4, peak, keep_digit, last)
        if keep_digit:
            self.waiting[f"c{k}"] = carry
        if f"s{k + 1}" in self.waiting:
            self.waiting[f"s{k + 1}"] = self.waiting[f"s{k + 1}"] + carry
        return carry

    def digit(self, k: int) -> Floats:
        """Take the row of d_k out of the waiting signals."""
        if f"d{k}" in self.waiting:
            return self.waiting.pop(f"d{k}")
        return self.waiting.pop(f"s{k}") - 4.0 * self.waiting.pop(f"c{k}")


def _by_shift(chain: _Chain) -> list[Floats]:
    """Output rows for four servers, most significant first."""
    carries = [chain.carry(k, keep_digit=k > 0) for k in range(chain.task.symbols)]
    return [carries[-1], *(chain.digit(k) for k in range(chain.task.symbols - 1, 0, -1))]


def _by_division(chain: _Chain) -> list[Floats]:
    """Output rows for any number of servers, most significant first."""
    top, servers = chain.task.symbols - 1, chain.task.servers
    for k in range(top):
        chain.carry(k, keep_digit=True)
    rest = f"s{top}"
    for k in range(top, -1, -1):
        # The last remainder is the fraction, which is discarded.
        quotient = chain.floor(rest, servers, 4 * servers - 1, keep=k > 0, last=k == 0)
        chain.waiting[f"q{k}"] = quotient
        if k:
            chain.waiting[rest] = 4.0 * (chain.waiting[rest] - servers * quotient) + chain.digit(k - 1)
    return [chain.waiting[f"q{k}"] for k in range(top, -1, -1)]


def _layer(rows: Floats) -> Layer:
    """A layer from affine rows with the constant in the last column."""
    return Layer(rows[:, :-1], rows[:, -1])
