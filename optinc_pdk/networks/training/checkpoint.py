"""Checkpoints: .npz files with the state of a training, from which it continues after an interruption."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.io.json_files import parse_json
from optinc_pdk.io.npz_files import read_npz
from optinc_pdk.io.reading import CHECKPOINT
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.networks.network import AveragingNetwork, FactorMethod, Layer
from optinc_pdk.networks.training.schedule import TrainingSchedule

if TYPE_CHECKING:
    from optinc_pdk.networks.training.trainer import Trainer

Rank = tuple[bool, float, float]
"""Whether the margin is sufficient, the share of exact words under errors, the margin in levels."""
TrainingState = tuple[AveragingNetwork, Rank, int, float]
"""The best network, its rank, the steps done, the seconds spent."""


def save_checkpoint(
    path: Path, trainer: Trainer, start: AveragingNetwork, schedule: TrainingSchedule, seed: int, state: TrainingState
) -> None:
    """Writes the state of a training to a file, atomically.

    Args:
        path: The file.
        trainer: Trainer whose weights, averages, optimiser and random state are saved.
        start: Initial network of the training.
        schedule: Parameters of the training.
        seed: Seed of the training.
        state: Best network so far, its rank, number of steps done and seconds spent.
    """
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
    """Restores the state of a training from a file.

    Args:
        path: The file.
        trainer: New trainer; its weights, averages, optimiser and random state are overwritten.
        start: Initial network of the training.
        schedule: Parameters of the training.
        seed: Seed of the training.

    Returns:
        Best network so far, its rank, number of steps done and seconds spent.

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
