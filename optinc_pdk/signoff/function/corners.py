"""Corner cases of a lattice that is too large to enumerate: extremes of every input, and every carry.

The corners are lattice points; the function check tries each with several assignments of symbols to servers:

- combinations of every input at its lowest and highest values,
- every value of one input at which a carry may start or end, with the other inputs at their extremes,
- averages next to every multiple of 4^j, composed with as much and with as little in the lower inputs as possible, so
  that carries run through all digits,
- words with typical bit patterns, on one part of the servers one word and on the others another.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.averaging import Averaging
from optinc_pdk.averaging.fibre_words import source_symbols, source_values

MAX_COMBINATIONS = 2**16
"""Largest number of combinations of extremes in one family of corners."""
MAX_VALUES = 256
"""Inputs with more values are only tried near multiples of the largest powers of 4."""
NEAREST = 4
"""Number of multiples of a power of 4, from each end of an input's range, next to which values are tried."""


@lru_cache(maxsize=2)
def corner_steps(task: Averaging) -> Ints:
    """Return the corner cases of a task's lattice.

    Args:
        task: Averaging task.

    Returns:
        (P, K) distinct lattice points in integer steps of 1/`input_resolution`, in lexicographic order; read-only.
    """
    families = (_extremes(task), _single_inputs(task), _carries(task), _patterns(task))
    points = np.unique(np.vstack(families), axis=0)
    points.setflags(write=False)
    return points


def _extremes(task: Averaging) -> Ints:
    """Combinations of every input at 0, 1, maximum - 1 and maximum; for many inputs, at 0 and maximum."""
    maxima = task.input_steps
    choices = [[0, 1, top - 1, top] if 4**task.groups <= MAX_COMBINATIONS else [0, top] for top in maxima.tolist()]
    one = np.eye(task.groups, dtype=np.int64)
    return np.vstack([np.array(list(product(*choices))), one, maxima - one])


def _single_inputs(task: Averaging) -> Ints:
    """Every value near a carry of one input, with the other inputs at 0 and at their maxima in all combinations.

    With many inputs, the more significant ones are all at one extreme, and so are the less significant ones.
    """
    maxima, points = task.input_steps, []
    for k in range(task.groups):
        values = _values_near_carries(task, k)
        others = np.array(list(product((0, 1), repeat=task.groups - 1)), dtype=np.int64)
        if task.groups * len(values) * len(others) > MAX_COMBINATIONS:
            upper, lower = np.arange(4)[:, np.newaxis] // 2, np.arange(4)[:, np.newaxis] % 2
            others = np.where(np.arange(task.groups - 1) < k, upper, lower)
        base = np.insert(others, k, 0, axis=1) * maxima
        base = np.repeat(base, len(values), axis=0)
        base[:, k] = np.tile(values, len(others))
        points.append(base)
    return np.vstack(points)


def _values_near_carries(task: Averaging, k: int) -> Ints:
    """Values of input k: all, or those within 1 of the first and last multiples of powers of 4."""
    top, resolution = int(task.input_steps[k]), int(task.input_resolution[k])
    if top <= MAX_VALUES:
        return np.arange(top + 1)
    near: list[Ints] = [np.array([0, 1, top - 1, top])]
    for power in range(task.group_symbols):
        step = resolution * 4**power
        count = top // step
        multiples = np.unique(np.clip(np.r_[: NEAREST + 1, count - NEAREST : count + 1], 0, count)) * step
        near.append((multiples[:, np.newaxis] + np.arange(-1, 2)).ravel())
    return np.unique(np.clip(np.concatenate(near), 0, top))


def _carries(task: Averaging) -> Ints:
    """Totals next to multiples of every power of 4, split into inputs from the top down and from the bottom up."""
    finest = int(task.input_resolution[-1])
    place = _places(task)
    largest = int(task.input_steps @ place)
    totals: list[Ints] = []
    for power in range(task.symbols):
        step = finest * 4**power
        count = largest // step
        near = [*range(1, NEAREST * 4), *range(max(count - NEAREST * 4, 0), count + 1)]
        totals.append((np.unique(np.array(near, dtype=np.int64))[:, np.newaxis] * step + np.arange(-1, 2)).ravel())
    total = np.unique(np.concatenate(totals))
    total = total[(total >= 0) & (total <= largest)]
    return np.vstack([_from_top(task, total), _from_bottom(task, total)])


def _places(task: Averaging) -> Ints:
    """(K,) weight of one step of each input in a total, in steps of the last input."""
    base = 4**task.group_symbols
    finest = int(task.input_resolution[-1])
    places: Ints = base ** np.arange(task.groups - 1, -1, -1, dtype=np.int64) * (finest // task.input_resolution)
    return places


def _from_top(task: Averaging, total: Ints) -> Ints:
    """Split totals into inputs, with as much as possible in the most significant ones."""
    steps = np.zeros((total.size, task.groups), dtype=np.int64)
    rest = total.copy()
    for k, (place, top) in enumerate(zip(_places(task).tolist(), task.input_steps.tolist(), strict=True)):
        steps[:, k] = np.minimum(rest // place, top)
        rest -= steps[:, k] * place
    return np.asarray(steps[rest == 0])


def _from_bottom(task: Averaging, total: Ints) -> Ints:
    """Split totals into inputs, with as much as possible in the least significant ones."""
    places, maxima = _places(task).tolist(), task.input_steps.tolist()
    steps = np.zeros((total.size, task.groups), dtype=np.int64)
    rest = total.copy()
    for k in range(task.groups - 1, 0, -1):
        place, above = places[k], places[k - 1]
        least = rest % above // place
        most = np.minimum(rest // place, maxima[k])
        steps[:, k] = least + (most - least) // (above // place) * (above // place)
        rest -= steps[:, k] * place
    steps[:, 0] = rest // places[0]
    whole = (steps >= 0).all(axis=1) & (steps <= task.input_steps).all(axis=1) & (steps @ _places(task) == total)
    return np.asarray(steps[whole])


def _patterns(task: Averaging) -> Ints:
    """Averages of servers of which some send one word and the others another, for words with typical bit patterns."""
    values = source_values(task)
    patterns = {
        0,
        1,
        2,
        values // 2 - 1,
        values // 2,
        values // 3,
        2 * (values // 3),
        values - 3,
        values - 2,
        values - 1,
    }
    sent = np.array([value for value in sorted(patterns) if 0 <= value < values], dtype=np.int64)
    one, other = (pair.ravel() for pair in np.meshgrid(sent, sent, indexing="ij"))
    first = np.arange(task.servers) < np.unique(np.rint(np.linspace(0, task.servers, 9)))[:, np.newaxis]
    words = np.where(first[:, np.newaxis], one[:, np.newaxis], other[:, np.newaxis]).reshape(-1, task.servers)
    inputs = task.preprocess(source_symbols(task, words))
    return np.rint(inputs * task.input_resolution).astype(np.int64)
