"""Search for the network with the fewest MZIs that tolerates a matrix error: closed forms, trained, then pruned.

All closed forms are evaluated. They are then trained under the target error, from the smallest on, until one passes.
From this one the least important twentieth of the units is removed repeatedly, followed by training, as long as it
passes. Every network of the search is a point of MZIs against tolerated ε.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.io.writing import csv_text
from optinc_pdk.networks.closed_form.chains import carry_chain, regenerating_chain, unary_chain
from optinc_pdk.networks.error_tolerance import lattice_score, matrix_error_accuracy
from optinc_pdk.networks.network import AveragingNetwork
from optinc_pdk.networks.training.initialisation import prune_units
from optinc_pdk.networks.training.schedule import TrainingProgress, TrainingSchedule
from optinc_pdk.networks.training.train import EXACT_MARGIN, train

SHARE = 0.999
"""Share of exact words at a matrix error that counts as tolerated."""

DRAWS, WORDS = 100, 5000
"""Networks with random errors per tolerance, and words for each of them: single draws may be far from the mean."""

CLOSED = tuple((copies, amplifiers) for copies in (1, 2, 3) for amplifiers in (1, 2, 3, 4))
"""Copies and amplifiers of the regenerating chains in the search."""

UNARY = (1, 2, 3)
"""Amplifiers of the unary chains in the search."""

LARGEST = 100_000
"""Largest number of MZIs of a closed form in the search."""

RATE = 1e-4
"""Learning rate: the closed forms are deep and exact, and larger steps destroy this."""

PRUNED = 20
"""One of this number of units is removed at a time."""

FINEST, COARSEST, HALVINGS = 1e-6, 1e-1, 14
"""Range of ε of the bisection, and its number of steps: to 0.1 % of the result."""


@dataclass(frozen=True, eq=False)
class SearchCandidate:
    """A network found by the search, with its size and error tolerance.

    Attributes:
        name: Description; its first word is the kind: "closed", "trained" or "pruned".
        onn: The network.
        mzis: Number of MZIs by the convention of arXiv 2603.28290, weights only.
        margin: Smallest margin over the lattice, in levels.
        share: Fraction of exact words at the target ε, 0 ... 1.
        tolerated: Largest ε at which 99.9 % of the words are exact; 0 if there is none.
        passed: Whether 99.9 % of the words are exact at the target ε and the margin is at least 0.15.
    """

    name: str
    onn: AveragingNetwork
    mzis: int
    margin: float
    share: float
    tolerated: float
    passed: bool


def evaluate_candidate(name: str, onn: AveragingNetwork, epsilon: float) -> SearchCandidate:
    """Evaluate size, margin and error tolerance of a network for a matrix error ε, relative to the 2-norm of each
    matrix.
    """
    margin = lattice_score(onn).margin
    share = _share(onn, epsilon)
    return SearchCandidate(
        name, onn, onn.mzis, margin, share, largest_tolerated_error(onn), share >= SHARE and margin >= EXACT_MARGIN
    )


def _share(onn: AveragingNetwork, epsilon: float) -> float:
    return matrix_error_accuracy(onn, epsilon, DRAWS, sample=WORDS if onn.task.lattice_size > WORDS else None)


def largest_tolerated_error(onn: AveragingNetwork) -> float:
    """Find the largest matrix error ε, 1e-6 to 0.1, at which 99.9 % of the words are exact, to 0.1 % by bisection; 0 if
    none.

    The share of exact words is the mean of 100 networks with random errors.
    """
    low, high = np.log(FINEST), np.log(COARSEST)
    if _share(onn, FINEST) < SHARE:
        return 0.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _share(onn, float(np.exp(middle))) >= SHARE else (low, middle)
    return float(np.exp(low))


def search(
    task: Averaging,
    epsilon: float,
    steps: int,
    seed: int,
    folder: Path,
    found: Callable[[SearchCandidate], None] | None = None,
    progress: Callable[[str, TrainingProgress], None] | None = None,
) -> list[SearchCandidate]:
    """Searches for networks with few MZIs that tolerate a matrix error; needs PyTorch (the extra `train`).

    Args:
        task: The averaging task.
        epsilon: Matrix error ε that the networks have to tolerate, between 1e-6 and 0.1.
        steps: Number of optimiser steps of every training.
        seed: Seed of all random numbers.
        folder: Folder where every trained network is stored; a network that is already there is not trained again.
        found: Called with every candidate as soon as it is evaluated.
        progress: Called with a candidate's name and the state of its training at every evaluation.

    Returns:
        All candidates in the order of the search: closed forms, then trained and pruned networks.

    Raises:
        InputError: PyTorch is missing, ε is out of range, or a file of the folder is unusable.
    """
    if not FINEST < epsilon < COARSEST:
        raise InputError(f"epsilon = {epsilon} must lie between {FINEST} and {COARSEST}")
    candidates = []
    for candidate in _candidates(task, epsilon, steps, seed, folder, progress):
        candidates.append(candidate)
        if found is not None:
            found(candidate)
    return candidates


def _candidates(
    task: Averaging,
    epsilon: float,
    steps: int,
    seed: int,
    folder: Path,
    progress: Callable[[str, TrainingProgress], None] | None,
) -> Iterator[SearchCandidate]:
    try:
        schedule = TrainingSchedule(steps=steps, noise=epsilon, rate=RATE, hard=0.1, ramp=0.1)
    except ValueError as fault:
        raise InputError(str(fault)) from fault
    yield evaluate_candidate("closed carry chain", carry_chain(task), epsilon)
    starts = [(f"{copies} copies {gain} amplifiers", regenerating_chain(task, copies, gain)) for copies, gain in CLOSED]
    starts += [(f"{gain} amplifiers, bits only", unary_chain(task, gain)) for gain in UNARY]
    starts = sorted((start for start in starts if start[1].mzis <= LARGEST), key=lambda start: start[1].mzis)
    for name, onn in starts:
        yield evaluate_candidate(f"closed {name}", onn, epsilon)

    def report(name: str) -> Callable[[TrainingProgress], None]:
        return lambda state: progress(name, state) if progress is not None else None

    for name, onn in starts:
        kind, number = "trained", 0
        while True:
            full = f"{kind} {name}" + (f" less {number}" if number else "")
            onn = _trained(onn, schedule, seed, folder / f"{full.replace(' ', '_')}.npz", report(full))
            candidate = evaluate_candidate(full, onn, epsilon)
            yield candidate
            if not candidate.passed:
                break
            units = max(1, sum(onn.structure[1:-1]) // PRUNED)
            onn, kind, number = prune_units(onn, units), "pruned", number + units
        if number:
            return


def _trained(
    start: AveragingNetwork,
    schedule: TrainingSchedule,
    seed: int,
    path: Path,
    progress: Callable[[TrainingProgress], None],
) -> AveragingNetwork:
    """Network from a file, or a newly trained one that is then stored there."""
    digest = hashlib.sha256(b"".join(layer.weight.tobytes() + layer.bias.tobytes() for layer in start.layers))
    origin = {"schedule": json.loads(json.dumps(asdict(schedule))), "seed": seed, "start": digest.hexdigest()[:16]}
    if path.exists():
        onn = AveragingNetwork.load(path)
        if onn.task != start.task or {key: onn.card.get(key) for key in origin} != origin:
            raise InputError(f"{path}: belongs to another search; give another folder, or remove it")
        return onn
    state = path.with_suffix(".state.npz")
    onn = replace(train(start, schedule, seed, progress, checkpoint=state), card=origin)
    onn.save(path)
    state.unlink(missing_ok=True)
    # Read back, so that a first run continues with the same values as a repeated one.
    return AveragingNetwork.load(path)


def pareto_front(candidates: list[SearchCandidate]) -> list[SearchCandidate]:
    """Select the candidates that no other beats in both number of MZIs and tolerated ε, by ascending number of MZIs.

    Candidates with a tolerated ε of 0 are never on it.
    """
    best: list[SearchCandidate] = []
    for candidate in sorted(candidates, key=lambda one: (one.mzis, -one.tolerated)):
        if candidate.tolerated > (best[-1].tolerated if best else 0.0):
            best.append(candidate)
    return best


def candidates_csv(candidates: list[SearchCandidate]) -> bytes:
    """Returns all candidates as CSV; the column ``on_front`` is 1 for those on the Pareto front."""
    on_front = {id(candidate) for candidate in pareto_front(candidates)}
    columns = ["name", "structure", "mzis", "margin", "exact_share", "tolerated_epsilon", "passed", "on_front"]
    rows = []
    for one in sorted(candidates, key=lambda one: (one.mzis, one.name)):
        structure = "-".join(map(str, one.onn.structure))
        numbers = (f"{one.margin:.4f}", f"{one.share:.6f}", f"{one.tolerated:.3e}")
        rows.append([one.name, structure, one.mzis, *numbers, int(one.passed), int(id(one) in on_front)])
    return csv_text(columns, rows).encode()
