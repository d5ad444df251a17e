"""Recipes of the package's networks: `python benchmarks/network_recipes.py [--out DIR] [NAME ...]` trains them.

Seeds are fixed, so one machine with one version of PyTorch gives the same bytes again; another one may round
differently and give an equally good network. Every card contains the measured accuracy and tolerance.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.closed_form.chains import carry_chain, regenerating_chain, unary_chain
from optinc_pdk.networks.closed_form.comparator_search import comparator_network
from optinc_pdk.networks.error_tolerance import input_error_accuracy, lattice_score, matrix_error_accuracy
from optinc_pdk.networks.layers import Layer
from optinc_pdk.networks.network import AveragingNetwork, cascade_tasks
from optinc_pdk.networks.training.initialisation import ROW_NORM
from optinc_pdk.networks.training.train import TrainingProgress, TrainingSchedule, train
from optinc_pdk.networks.weight_files import NETWORKS

EPSILONS = (1e-4, 3e-4, 1e-3, 3e-3)
"""Matrix errors ε of the tolerance table."""

INPUT_ERROR = 5e-3
"""Uniform input error of the table, as a fraction of full scale: imbalance of the preprocessing unit P."""

DRAWS = 10
"""Random draws per number of the table."""

READ = 0.01
"""Weights with which a layer reads the new units of a widened network, relative to the norm of its rows."""


@dataclass(frozen=True)
class Recipe:
    """Recipe of one of the package's networks: a network in closed form, and its training under errors.

    Attributes:
        name: Stem of the file name.
        task: The averaging task.
        schedule: Parameters of the training; None for the closed form as it is.
        seed: Seed of the training.
        closed: Function that builds the closed form.
    """

    name: str
    task: Averaging
    schedule: TrainingSchedule | None
    seed: int
    closed: Callable[[Averaging], AveragingNetwork] = carry_chain


def recipes() -> tuple[Recipe, ...]:
    """Returns the recipes of all networks of the package."""
    level_1, level_2 = cascade_tasks(8, 4, 4)
    gently = TrainingSchedule(20_000, noise=1e-3, rate=1e-4, hard=0.1, ramp=0.1, errors="weights")
    robust = partial(regenerating_chain, copies=1, amplifiers=2)
    return (
        Recipe("average_4bit_4servers", Averaging(4, 4, 2), None, 1, comparator_network),
        Recipe(
            "average_4bit_4servers_relu",
            Averaging(4, 4, 2),
            TrainingSchedule(
                12_000, 8e-4, input_noise=5e-3, rate=1e-2, allowance=0.25, batch=64, copies=32, errors="weights"
            ),
            seed=1,
        ),
        Recipe("average_8bit_4servers", Averaging(8, 4, 4), None, 1, comparator_network),
        Recipe(
            "average_8bit_4servers_relu",
            Averaging(8, 4, 4),
            TrainingSchedule(
                60_000, 5e-4, input_noise=6e-3, rate=1e-2, allowance=0.2, batch=128, copies=16, errors="weights"
            ),
            seed=1,
        ),
        Recipe(
            "average_8bit_4servers_robust",
            Averaging(8, 4, 4),
            replace(gently, noise=1.5e-3),
            seed=1,
            closed=partial(regenerating_chain, copies=1, amplifiers=3),
        ),
        Recipe(
            "average_8bit_4servers_unary",
            Averaging(8, 4, 4),
            replace(gently, steps=5000, noise=3e-3, copies=4, evaluations=10),
            seed=1,
            closed=partial(unary_chain, amplifiers=3),
        ),
        Recipe(
            "average_8bit_4servers_wide",
            Averaging(8, 4, 4),
            TrainingSchedule(
                4000, 4e-3, rate=1e-3, hard=0.2, ramp=0.1, leak=0.1, copies=4, condition=20.0, output_bias=True
            ),
            seed=1,
            closed=_wide_comparators,
        ),
        Recipe(
            "average_8bit_8servers", Averaging(8, 8, 4), replace(gently, steps=6000, noise=2e-4, rate=3e-5), 1, robust
        ),
        # Level 2 receives the light of level 1 without decision, so level 1 must be close to whole steps.
        Recipe("cascade_8bit_4servers_level1", level_1, replace(gently, noise=5e-4, allowance=0.03), 1, robust),
        Recipe("cascade_8bit_4servers_level2", level_2, replace(gently, noise=5e-4), 1, robust),
    )


def widen(network: AveragingNetwork, hidden: Sequence[int], seed: int) -> AveragingNetwork:
    """Add random units to the hidden layers of a clipped network up to given widths, for training to use.

    The weights of a new unit are orthogonal to those of the others as far as possible, so that the optical matrices are
    well conditioned. The next layer reads new units with weights of `READ` times the norm of each row, in proportion
    for units that share a row, so the function of the network changes slightly.

    Raises:
        ValueError: The network is not clipped, or a width is below that of the network.
    """
    present = network.structure[1:-1]
    if network.activation != "clipped_relu":
        raise ValueError(f"the network uses {network.activation}, but only clipped_relu networks can be widened")
    if len(hidden) != len(present) or any(width < least for width, least in zip(hidden, present, strict=True)):
        raise ValueError(f"hidden = {tuple(hidden)} must be at least the widths {present} of the network")
    rng = np.random.default_rng(seed)
    scales = [network.task.input_maxima, *(np.ones(width) for width in hidden)]
    layers = []
    for i, (layer, scale) in enumerate(zip(network.layers, scales, strict=True)):
        weight = np.zeros((layer.outputs, len(scale)))
        weight[:, : layer.inputs] = layer.weight * scale[: layer.inputs]
        row = network.detector_rows(i)
        read = READ * rng.standard_normal((int(row.max()) + 1, len(scale) - layer.inputs)) / np.sqrt(len(scale))
        # the mean of a new signal is about 0.5
        norm = np.where(row >= 0, np.linalg.norm(weight, axis=1), 0.0)
        weight[:, layer.inputs :] = norm[:, np.newaxis] * read[row]
        bias = layer.bias - 0.5 * weight[:, layer.inputs :].sum(axis=1)
        if i < len(hidden):
            new = _orthogonal_rows(weight, hidden[i] - layer.outputs, rng)
            spread = 0.25 * ROW_NORM * rng.uniform(-1.0, 1.0, len(new))
            weight, bias = np.vstack([weight, new]), np.append(bias, 0.5 - 0.5 * new.sum(axis=1) + spread)
        layers.append(Layer(weight / scale, bias))
    return replace(network, layers=tuple(layers), factor=())


def _orthogonal_rows(weight: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Random rows of norm ROW_NORM, (count, in): orthogonal to those of a matrix while there are directions left."""
    used = np.linalg.svd(weight, full_matrices=False)
    basis = used[2][used[1] > 1e-9 * used[1][0]]
    free = rng.standard_normal((count, weight.shape[1]))
    orthogonal = min(count, weight.shape[1] - len(basis))
    projected = free[:orthogonal] - free[:orthogonal] @ basis.T @ basis
    free[:orthogonal] = np.linalg.qr(projected.T)[0].T if orthogonal else projected
    return np.asarray(ROW_NORM * free / np.linalg.norm(free, axis=1, keepdims=True))


def _wide_comparators(task: Averaging) -> AveragingNetwork:
    """Comparators among random units, 32 units in each hidden layer."""
    start = comparator_network(task, gain=4.0)
    onn = widen(start, (32,) * (len(start.layers) - 1), seed=1)
    return replace(onn, card=start.card | {"widened": 32})


def train_recipe(recipe: Recipe, progress: Callable[[TrainingProgress], None] | None = None) -> AveragingNetwork:
    """Builds or trains a network by its recipe. Training needs PyTorch (the optional dependency `train`).

    Args:
        recipe: The recipe.
        progress: Function that is called after every evaluation of the network.

    Returns:
        The network, with a card of the recipe and of the properties measured over the whole lattice in float64.
    """
    start = recipe.closed(recipe.task)
    if recipe.schedule is None:
        # the card names the closed form, so that the network can be proved exact
        return replace(start, card=start.card | measure(start))
    import torch

    onn = train(start, recipe.schedule, recipe.seed, progress)
    origin = {
        "recipe": recipe.name,
        "start": ", ".join(str(value) if key == "recipe" else f"{key} {value}" for key, value in start.card.items()),
        "schedule": asdict(recipe.schedule),
        "seed": recipe.seed,
        "torch": torch.__version__.split("+")[0],
    }
    return replace(onn, card=origin | measure(onn))


def measure(onn: AveragingNetwork) -> dict[str, Any]:
    """Measures the properties of a network for its card: structure, accuracy, margin and tolerances.

    Args:
        onn: The network.

    Returns:
        JSON values: `structure`, `accuracy`, `margin`, `tolerance` (share of exact words by ε), `input_tolerance`
        (share of exact words by input error).
    """
    result = lattice_score(onn)
    return {
        "structure": list(onn.structure),
        "accuracy": result.accuracy,
        "margin": round(result.margin, 4),
        "tolerance": {f"{epsilon:g}": round(matrix_error_accuracy(onn, epsilon, DRAWS), 6) for epsilon in EPSILONS},
        "input_tolerance": {f"{INPUT_ERROR:g}": round(input_error_accuracy(onn, INPUT_ERROR, DRAWS), 6)},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains the named networks, or all, and writes them to the package or to the folder ``--out``.

    Args:
        arguments: Command-line arguments; by default those of the process.
    """
    by_name = {recipe.name: recipe for recipe in recipes()}
    parser = argparse.ArgumentParser(description="Train the networks of the package again.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(by_name)}; all by default")
    parser.add_argument("--out", type=Path, default=NETWORKS, help="folder to write to")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in by_name:
            parser.error(f"there is no recipe {name!r}, only {', '.join(by_name)}")
    for name in options.names or by_name:
        onn = train_recipe(by_name[name], _report)
        onn.save(options.out / f"{name}.npz")
        print(name, onn.card)


def _report(state: TrainingProgress) -> None:
    print(
        f"{state.step}/{state.steps} loss {state.loss:.2e} accuracy {state.accuracy:.6f} "
        f"margin {state.margin:.3f} tolerance {state.tolerance:.5f}{' *' if state.best else ''}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
