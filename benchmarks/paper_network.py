"""The paper's network for 8 bits and 4 servers, 4-64-128-256-128-64-4, from comparators and trained under errors.

    python benchmarks/paper_network.py        # writes paper_8bit_4servers.npz; needs the extra "train"

All layers are approximated as in arXiv 2603.28290: every square block is a diagonal times an orthogonal matrix. The
training starts from the carry chain of comparators. Every hidden layer holds many copies of few signals:

    1: sums of digits x0 to x3            2: x0, x1, x2, comparators of t3
    3: x0, x1, t2, comparators of t2      4: x0, t1, comparators of t1, output 3
    5: t0, comparators of t0, outputs 2 and 3

where t3 = x3, and t_i = x_i plus the carry of t_(i+1), which its comparators count. An orthogonal block keeps power: on
the signals, its rows form a tight frame, and in the remaining directions rows read differences between copies, which
are 0 without errors. `orthogonal_block` chooses which rows read which differences: comparators read those of other
comparators and of constant units, which are exact, and linear units, which are averaged later, read the others. The
directions of signals that no unit needs belong to the rows of constant units, which have no weights.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import AveragingNetwork, FactorMethod, Layer, lattice_score
from optinc_pdk.networks.error_tolerance import field_noise_tolerance, matrix_error_tolerance
from optinc_pdk.networks.training.schedule import TrainingProgress, TrainingSchedule
from optinc_pdk.networks.training.train import train

WEIGHTS = Path(__file__).with_name("paper_8bit_4servers.npz")
GAIN = 8.0
"""Gain of a comparator per step of its sum t."""
SHARE = 0.85
"""Share of the power of a signal that comparators receive if linear units read it as well."""
CONSTANT = "one"
"""Kind of the units that are always 1: they have no weights."""
SCHEDULE = TrainingSchedule(
    400,
    noise=5e-3,
    rate=2e-5,
    allowance=0.1,
    copies=4,
    evaluations=1,
    hard=0.3,
    leak=0.1,
    approximate=(0, 1, 2, 3, 4, 5),
    project=100,
)
SEED = 1


@dataclass(frozen=True)
class Kind:
    """What all copies of one kind of unit compute.

    Attributes:
        reads: Weight of every signal of the layer before, by kind; signals are 0 to 1.
        bias: Bias.
        comparator: Whether the unit compares; otherwise it is linear.
        disturbance: Rank of the errors of its copies: 0 for signals that are exact.
    """

    reads: Mapping[str, float]
    bias: float = 0.0
    comparator: bool = False
    disturbance: int = 0


def comparators(place: int, user: str = "") -> list[str]:
    """Returns the kinds of the three comparators of t at a place; ``user`` tells apart those for different outputs."""
    return [f"c{place}{number}{user}" for number in range(3)]


def kinds() -> dict[str, Kind]:
    """Returns all kinds of units by name. Output d_(i+1) is t_i minus 4 per comparator, in thirds."""
    result = {f"x{place}": Kind({f"x{place}": 1.0}, disturbance=1) for place in range(4)}
    for place in (3, 2, 1, 0):
        total = {f"x{place}": 12.0}
        if place < 3:
            total |= dict.fromkeys(comparators(place + 1), 1.0)
        for user in ("", "'") if place == 0 else ("",):
            for number, name in enumerate(comparators(place, user)):
                reads = {signal: GAIN * weight for signal, weight in total.items()}
                result[name] = Kind(reads, 0.5 + GAIN * (0.5 - 4.0 * (number + 1)), comparator=True)
        result[f"t{place}"] = Kind({signal: weight / 15.0 for signal, weight in total.items()}, disturbance=2)
        if place == 0:
            continue
        digit = {f"t{place}": 5.0} | dict.fromkeys(comparators(place), -4.0 / 3.0)
        result[f"d{place + 1}"] = Kind(digit, disturbance=3)
    return result | {"d3 again": Kind({"d3": 1.0}, disturbance=3), CONSTANT: Kind({}, 1.0)}


def orthogonal_block(columns: Sequence[str], rows: Sequence[str], rng: np.random.Generator) -> Floats:
    """Designs a square block, a diagonal times an orthogonal matrix, that computes given units from given signals.

    Args:
        columns: Kind of every signal.
        rows: Kind of every unit. There must be enough constant units for the directions that no unit reads.
        rng: Generator for the directions in which copies differ.

    Returns:
        (n, n) block; the rows of constant units are 0.
    """
    known, size = kinds(), len(columns)
    signals = list(dict.fromkeys(columns))
    # orthonormal basis of the signals: the mean of all copies of each
    basis = np.array([[float(column == signal) for signal in signals] for column in columns])
    counts = basis.sum(axis=0)
    basis /= np.sqrt(counts)
    wanted = {
        row: np.array([known[row].reads.get(signal, 0.0) for signal in signals]) / np.sqrt(counts)
        for row in dict.fromkeys(rows)
        if row != CONSTANT
    }
    frame, norms = _tight_frame(wanted, rows)
    spare = np.linalg.svd(frame)[0][:, len(signals) :]
    compares = [known[row].comparator for row in rows]
    # ascending power in the rows of comparators
    spare = spare @ np.linalg.eigh(spare[compares].T @ spare[compares])[1]
    differences = np.hstack(list(_differences([known[column].disturbance for column in columns], basis, rng)))
    assert differences.shape == (size, size - len(signals))
    return norms[:, np.newaxis] * (frame @ basis.T + spare @ differences.T)


def _tight_frame(wanted: Mapping[str, Floats], rows: Sequence[str]) -> tuple[Floats, Floats]:
    """Distributes the power of the signals over the rows of a block.

    Args:
        wanted: (signals,) row that every kind of unit needs, in the orthonormal basis of the signals.
        rows: Kind of every unit.

    Returns:
        (n, signals) tight frame, and the (n,) factor of every row, 0 for constant units.
    """
    known = kinds()
    unit = {kind: row / np.linalg.norm(row) for kind, row in wanted.items()}
    kin = {kind: [other for other in wanted if np.allclose(unit[other], unit[kind])] for kind in wanted}
    directions = np.array([unit[kind] for kind, same in kin.items() if same[0] == kind])
    # directions that are not orthogonal share the power of the span of all such directions
    most = np.abs(directions @ directions.T) > 1e-9
    for _ in directions:
        most = most @ most
    limit = {
        tuple(direction): float(np.linalg.eigvalsh(directions[group] @ directions[group].T)[-1])
        for direction, group in zip(directions, most, strict=True)
    }
    frame, norms = np.zeros((len(rows), directions.shape[1])), np.zeros(len(rows))
    for index, kind in enumerate(rows):
        if kind == CONSTANT:
            continue
        same = [row for row in rows if row in kin[kind]]
        alike = sum(known[row].comparator == known[kind].comparator for row in same)
        part = 1.0 if alike == len(same) else SHARE if known[kind].comparator else 1.0 - SHARE
        power = part / alike / limit[tuple(unit[kin[kind][0]])]
        frame[index] = np.sqrt(power) * unit[kind]
        norms[index] = np.linalg.norm(wanted[kind]) / np.sqrt(power)
    values, vectors = np.linalg.eigh(np.eye(frame.shape[1]) - frame.T @ frame)
    left = np.flatnonzero(values > 1e-9)
    constant = [index for index, kind in enumerate(rows) if kind == CONSTANT]
    assert len(left) <= len(constant), f"{len(left)} directions need a constant unit, but there are {len(constant)}"
    frame[constant[: len(left)]] = (np.sqrt(values[left]) * vectors[:, left]).T
    return frame, norms


def _differences(disturbance: Sequence[int], basis: Floats, rng: np.random.Generator) -> Iterator[Floats]:
    """Yields orthonormal differences between copies, (n, any), from the most disturbed signals to exact ones."""
    for rank in sorted(set(disturbance), reverse=True):
        mask = np.array(disturbance) == rank
        means = basis[mask][:, basis[mask].any(axis=0)]
        found = np.linalg.svd(means)[0][:, means.shape[1] :]
        mixed = np.zeros((len(basis), found.shape[1]))
        mixed[mask] = found @ np.linalg.qr(rng.standard_normal((found.shape[1], found.shape[1])))[0]
        yield mixed


def start() -> AveragingNetwork:
    """Returns the network before the training: copies of comparators, exact."""
    rng = np.random.default_rng(SEED)
    constant = {4 * (index * 16 // 12) + index % 4 for index in range(12)}
    first = [CONSTANT if unit in constant else f"x{unit % 4}" for unit in range(64)]
    second = [*comparators(3) * 4, CONSTANT, *["x0", "x1", "x2"] * 17]
    third = [*comparators(2) * 6, *["t2"] * 32, *[CONSTANT] * 12, *["x0", "x1"] * 33]
    fourth = [*comparators(1) * 3, *["t1"] * 12, *["d3"] * 12, *[CONSTANT] * 4, *["x0"] * 27]
    # all blocks of a layer have equally many units of each kind
    halves = [[[kinds[index] for index in rng.permutation(len(kinds))] for _ in range(2)] for kinds in (second, third)]
    halves += [[[fourth[index] for index in rng.permutation(64)] for _ in range(2)]]
    second, third, fourth = ([*one, *other] for one, other in halves)
    # unit 4 k + i is read by output i alone
    zeroth = [*[CONSTANT] * 10, *comparators(0) * 2]
    carry = [*["t0"] * 10, *comparators(0, "'") * 2]
    fifth = [unit for four in zip(zeroth, carry, ["d2"] * 16, ["d3 again"] * 16, strict=True) for unit in four]
    hidden = (first, second, third, fourth, fifth)
    task = Averaging(8, 4, 4)
    known = kinds()
    weights = [np.tile(np.eye(4), (16, 1)) * (np.array(first) != CONSTANT)[:, np.newaxis] / task.input_maxima]
    for below, above in pairwise(hidden):
        size = min(len(below), len(above))
        blocks = [
            [
                orthogonal_block(below[column : column + size], above[row : row + size], rng)
                for column in range(0, len(below), size)
            ]
            for row in range(0, len(above), size)
        ]
        # blocks side by side halve the signals
        weights.append(np.block(blocks) * size / len(below))
    weights.append(_outputs(fifth))
    biases = [*(np.array([known[unit].bias for unit in units]) for units in hidden), np.zeros(4)]
    layers = tuple(Layer(weight, bias) for weight, bias in zip(weights, biases, strict=True))
    methods: tuple[FactorMethod, ...] = tuple(("approx", min(layer.weight.shape)) for layer in layers)
    return AveragingNetwork(layers, task, methods, {"recipe": "comparators in copies", "gain": GAIN}, "clipped_relu")


def _outputs(units: Sequence[str]) -> Floats:
    """Weights of the last layer, (4, units): outputs count the comparators of t0, subtract them from it, and pass."""
    copies = {unit: units.count(unit) for unit in units}
    weight = np.zeros((4, len(units)))
    for index, unit in enumerate(units):
        if unit == CONSTANT:
            # constants cancel in pairs
            factor = 0.25 * (-1.0) ** (index // 4)
        elif kinds()[unit].comparator:
            factor = (1.0, -4.0)[index % 4] / copies[unit]
        else:
            factor = (15.0 if unit == "t0" else 3.0) / copies[unit]
        weight[index % 4, index] = factor
    return weight


def trained() -> AveragingNetwork:
    """Trains the network and returns it with a card of the training and of its measured properties."""
    onn = train(start(), SCHEDULE, SEED, _report)
    score = lattice_score(onn)
    measured = {
        "structure": list(onn.structure),
        "accuracy": score.accuracy,
        "margin": round(score.margin, 4),
        "epsilon": float(f"{matrix_error_tolerance(onn, draws=20, words=2048):.3g}"),
        "sigma": float(f"{field_noise_tolerance(onn, fewest=3e-4):.3g}"),
    }
    return replace(onn, card=onn.card | measured)


def _report(state: TrainingProgress) -> None:
    print(
        f"{state.step}/{state.steps} loss {state.loss:.2e} accuracy {state.accuracy:.6f} "
        f"margin {state.margin:.3f} tolerance {state.tolerance:.5f}{' *' if state.best else ''}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    network = trained()
    network.save(WEIGHTS)
    print(WEIGHTS.name, network.card)
