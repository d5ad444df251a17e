"""Hardware-aware training: a margin loss under the errors expected on the chip.

The loss is mean(max(|output - level| - allowance, 0)²): outputs need not be whole levels, only well inside their
decision interval; plain mean squares stall. Every step draws several copies of the network with random matrix errors
(Q + ε ‖Q‖₂ G/√n with rows of norm 1, for inputs and hidden signals of maximum 1), so that the gradient includes the
effect of each signal's scaling.

A training that is interrupted continues from its checkpoint, a .npz file with its state.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Score
from optinc_pdk.errors import InputError
from optinc_pdk.io.json_files import parse_json
from optinc_pdk.io.npz_files import read_npz
from optinc_pdk.io.reading import CHECKPOINT
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.networks.error_tolerance import lattice_score, matrix_error_accuracy, perturbed_network
from optinc_pdk.networks.layers import FactorMethod, Layer, WeightsError
from optinc_pdk.networks.network import AveragingNetwork
from optinc_pdk.networks.training.initialisation import normalise_signals
from optinc_pdk.networks.training.schedule import TrainingProgress, TrainingSchedule
from optinc_pdk.validation import validate_api

if TYPE_CHECKING:
    from optinc_pdk.networks.training._trainer import Trainer


__all__ = ["TrainingProgress", "TrainingSchedule", "train"]

Rank = tuple[bool, float, float]
"""Whether the margin is sufficient, the share of exact words under errors, the margin in levels."""
TrainingState = tuple[AveragingNetwork, Rank, int, float]
"""The best network, its rank, the steps done, the seconds spent."""


def save_checkpoint(
    path: Path, trainer: Trainer, start: AveragingNetwork, schedule: TrainingSchedule, seed: int, state: TrainingState
) -> None:
    """Write the state of a training to a file, atomically."""
    best, rank, step, seconds = state
    arrays: dict[str, NDArray[Any]] = {
        "identity": np.array(_identity(start, schedule, seed)),
        "state": np.array(json.dumps({"rank": list(rank), "step": step, "seconds": seconds, "factor": best.factor})),
        "random": trainer.random.get_state().numpy(),
        "hard": trainer.hard.cpu().numpy(),
    }
    for i, value in enumerate(trainer.parameters):
        arrays[f"value.{i}"] = value.detach().cpu().numpy()
        arrays[f"average.{i}"] = trainer.averages[i].cpu().numpy()
    for i, moments in trainer.optimizer.state_dict()["state"].items():
        for name, moment in moments.items():
            arrays[f"adam.{i}.{name}"] = moment.cpu().numpy()
    for i, points in enumerate(trainer.extremes):
        arrays[f"extreme.{i}"] = points.cpu().numpy()
    for i, layer in enumerate(best.layers):
        arrays[f"best.{i}.weight"], arrays[f"best.{i}.bias"] = layer.weight, layer.bias
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomic(path, buffer.getvalue())


def load_checkpoint(
    path: Path, trainer: Trainer, start: AveragingNetwork, schedule: TrainingSchedule, seed: int
) -> TrainingState:
    """Restore the state of a training from a file into a new trainer, and return best network, rank, steps and seconds.

    Raises:
        InputError: The file is damaged, or of another task, start, schedule or seed.
    """
    import torch

    # PyTorch writes into the arrays
    arrays = {name: array.copy() for name, array in read_npz(path, CHECKPOINT).items()}
    expected, stored_identity = (
        _flat(json.loads(_identity(start, schedule, seed))),
        _flat(_json(path, arrays, "identity")),
    )
    for key, value in expected.items():
        if stored_identity.get(key) != value:
            raise InputError(
                f"{path}: belongs to another training, with {key} {stored_identity.get(key)}, not {value}; "
                "give another file, or remove it"
            )
    try:
        state = _json(path, arrays, "state")
        with torch.no_grad():
            for i, value in enumerate(trainer.parameters):
                for name, tensor in (("value", value), ("average", trainer.averages[i])):
                    stored = arrays[f"{name}.{i}"]
                    if stored.shape != tuple(tensor.shape) or not np.isfinite(stored).all():
                        raise ValueError(f"{name}.{i} has shape {stored.shape} or is not finite")
                    tensor.copy_(torch.as_tensor(stored))
        moments: dict[int, dict[str, Any]] = {}
        for key, array in arrays.items():
            if key.startswith("adam."):
                _, index, name = key.split(".")
                moments.setdefault(int(index), {})[name] = torch.as_tensor(array)
        trainer.optimizer.load_state_dict(trainer.optimizer.state_dict() | {"state": moments})
        trainer.random.set_state(torch.as_tensor(arrays["random"]))
        hard, step = arrays["hard"], int(state["step"])
        if hard.ndim != 1 or (hard.size and not 0 <= hard.min() <= hard.max() < len(trainer.inputs)):
            raise ValueError("hard contains points outside the lattice")
        if not 0 <= step <= schedule.steps:
            raise ValueError(f"step {step} lies outside 0 ... {schedule.steps}")
        trainer.hard = torch.as_tensor(hard, device=trainer.device)
        count = len(trainer.weights)
        if "extreme.0" in arrays:
            trainer.extremes = [
                torch.as_tensor(arrays[f"extreme.{i}"], device=trainer.device) for i in range(count - 1)
            ]
        layers = tuple(Layer(arrays[f"best.{i}.weight"], arrays[f"best.{i}.bias"]) for i in range(count))
        factor: list[FactorMethod] = ["svd" if how == "svd" else ("approx", int(how[1])) for how in state["factor"]]
        best = replace(start, layers=layers, factor=tuple(factor))
        exact, share, margin = state["rank"]
        return best, (bool(exact), float(share), float(margin)), step, float(state["seconds"])
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError, OverflowError) as fault:
        raise InputError(f"{path}: is not a valid checkpoint ({fault}); remove it and start again") from fault


def _identity(start: AveragingNetwork, schedule: TrainingSchedule, seed: int) -> str:
    """Task, structure, schedule, seed and digest of the start that identify a training, as JSON."""
    digest = hashlib.sha256()
    for layer in start.layers:
        digest.update(layer.weight.tobytes() + layer.bias.tobytes())
    return json.dumps(
        {
            "schema": 1,
            "task": asdict(start.task),
            "structure": list(start.structure),
            "activation": start.activation,
            "schedule": json.loads(json.dumps(asdict(schedule))),
            "seed": seed,
            "start": digest.hexdigest()[:16],
        }
    )


def _flat(identity: Any) -> dict[str, Any]:
    """Identity of a training with the entries of task and schedule at the top level."""
    if not isinstance(identity, dict):
        return {}
    parts = [value if isinstance(value, dict) else {key: value} for key, value in identity.items()]
    return {key: value for part in parts for key, value in part.items()}


def _json(path: Path, arrays: dict[str, NDArray[Any]], key: str) -> Any:
    if key not in arrays:
        raise InputError(f"{path}: is not a checkpoint, {key} is missing; remove it and start again")
    try:
        return parse_json(str(arrays[key]))
    except ValueError as fault:
        raise InputError(f"{path}: its {key} is not JSON ({fault}); remove it and start again") from fault


DRAWS, WORDS = 50, 4000
"""Networks with random errors per evaluation of a tolerance, and words for each: draws vary more than words."""

EXACT_MARGIN = 0.15
"""Least margin, in levels, of a network that may be called exact."""


def train(
    start: AveragingNetwork,
    schedule: TrainingSchedule,
    seed: int,
    progress: Callable[[TrainingProgress], None] | None = None,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> AveragingNetwork:
    """Trains a network under random errors; needs PyTorch (the extra `train`).

    Args:
        start: Initial network, for example from `carry_chain` or `random_start`.
        schedule: Parameters of the training.
        seed: Seed of all random numbers.
        progress: Called at every evaluation.
        checkpoint: File that stores the state at every evaluation. If it exists, the training continues from it and
            gives the same result as without the interruption.
        device: PyTorch device, "cpu" or "cuda".

    Returns:
        The best evaluated network, `start` included. Networks with a margin of at least 0.15 rank first, then those
        with more exact words under the schedule's matrix error, then those with a larger margin. Its signals are
        normalised and its weights are float64. If the schedule approximates layers, the network is not normalised, and
        these layers consist exactly of blocks of a diagonal times a unitary matrix.

    Raises:
        InputError: PyTorch or the device is missing, the start has a bias in its last layer or a layer in which all
            units are dead, a layer to approximate does not exist, or the checkpoint belongs to another training.
    """
    scaled = _scaled(start, schedule, seed)
    trainer = _trainer(start, schedule, seed, device)
    first = trainer.network() if schedule.approximate else scaled
    best, best_rank, began, spent = first, (False, -1.0, -1.0), 0, 0.0
    if checkpoint is not None and checkpoint.exists():
        best, best_rank, began, spent = load_checkpoint(checkpoint, trainer, start, schedule, seed)
        if _finished(schedule, best_rank):
            return _described(best, start, schedule, seed)
    clock = time.monotonic() - spent
    losses: list[float] = []
    words = WORDS if start.task.lattice_size > WORDS else None
    erroneous = bool(schedule.noise or schedule.field_noise)
    every = max(1, schedule.steps // schedule.evaluations)
    for step in range(began, schedule.steps + 1):
        if (step % every == 0 or step == schedule.steps) and (step > began or began == 0):
            network = trainer.network() if step else first
            result = lattice_score(network)
            share = _exact_share(network, schedule, seed, words) if erroneous else result.accuracy
            rank = (result.margin >= EXACT_MARGIN, share, result.margin)
            better = rank > best_rank
            if better:
                best, best_rank = network, rank
            spent = time.monotonic() - clock
            if progress is not None:
                loss = float(np.mean(losses)) if losses else float("nan")
                progress(_report(step, schedule.steps, loss, result, share, better, spent))
            losses = []
            if checkpoint is not None:
                save_checkpoint(checkpoint, trainer, start, schedule, seed, (best, best_rank, step, spent))
            if _finished(schedule, best_rank):
                break
        if step < schedule.steps:
            losses.append(trainer.step(step))
    return _described(best, start, schedule, seed)


def _exact_share(network: AveragingNetwork, schedule: TrainingSchedule, seed: int, words: int | None) -> float:
    """Share of exact words under the matrix error and the field noise of a schedule, over ``DRAWS`` networks.

    Each is evaluated at ``words`` random lattice points; None for all points.
    """
    if not schedule.field_noise:
        return matrix_error_accuracy(network, schedule.noise, DRAWS, seed, words)
    noisy, task = perturbed_network(network), network.task
    count = task.lattice_size if words is None else words
    rng = np.random.default_rng(seed)
    wrong = 0
    for draw in range(DRAWS):
        points = np.concatenate(list(task.batches())) if words is None else task.sample(words, rng)
        wrong += noisy.wrong(points, schedule.noise, schedule.field_noise, seed + draw)
    return 1.0 - wrong / (DRAWS * count)


def _finished(schedule: TrainingSchedule, rank: tuple[bool, float, float]) -> bool:
    """Whether a training that stops early has ended."""
    return schedule.stop and rank[0] and rank[1] == 1.0


def _described(
    best: AveragingNetwork, start: AveragingNetwork, schedule: TrainingSchedule, seed: int
) -> AveragingNetwork:
    """The best network, normalised, with a card of its training."""
    import torch

    card = {
        "trained": json.loads(json.dumps(asdict(schedule))),
        "seed": seed,
        "start": start.card or list(start.structure),
        "torch": torch.__version__.split("+")[0],
    }
    if schedule.approximate:
        return replace(best, card=card)
    return replace(best, layers=normalise_signals(best).layers, factor=(), card=card)


def _report(
    step: int, steps: int, loss: float, result: Score, share: float, better: bool, seconds: float
) -> TrainingProgress:
    errors = result.inputs - result.exact
    return TrainingProgress(step, steps, loss, result.accuracy, errors, result.margin, share, better, seconds)


def _scaled(start: AveragingNetwork, schedule: TrainingSchedule, seed: int) -> AveragingNetwork:
    """The start, normalised; raises InputError where it cannot be trained."""
    if not 0 <= seed < 2**63:
        raise InputError(f"seed is {seed}; give a whole number from 0 to 2^63 - 1")
    last = len(start.layers) - 1
    if start.layers[last].bias.any() and not schedule.output_bias:
        raise InputError(
            f"layers.{last}.bias is not zero, but output biases are not trained: start from a network without this "
            "bias, or train it with output_bias (--output-bias)"
        )
    for layer in schedule.approximate:
        if layer > last:
            raise InputError(f"approximate contains layer {layer}, but the network has layers 0 to {last}")
    try:
        return normalise_signals(start)
    except WeightsError as fault:
        raise InputError(
            "the start has a hidden layer in which no unit is ever positive; use another seed, or more units"
        ) from fault


def check_device(device: str) -> None:
    """Raise InputError if the name of a PyTorch device is not "cpu", "cuda" or "cuda:N"; PyTorch is not imported."""
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", device):
        raise InputError(f"device {device!r} is not supported; use cpu, cuda or cuda:N")


def _trainer(start: AveragingNetwork, schedule: TrainingSchedule, seed: int, device: str) -> Trainer:
    check_device(device)
    try:
        import torch
    except ImportError as fault:
        raise InputError("training needs PyTorch: pip install 'optinc-pdk[train]'") from fault
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as fault:
        raise InputError(f"device {device!r} is not available ({str(fault).splitlines()[0]}); use cpu") from fault
    from optinc_pdk.networks.training._trainer import Trainer

    return Trainer(start, schedule, seed, device)


validate_api(__name__)
