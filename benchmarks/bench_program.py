"""Programming of one large layer: its meshes without a Jacobian, against Levenberg–Marquardt with the dense Jacobian.

Both start at the same phases of the same chip, a layer of blocks unitary × diagonal of a random network on a netlist
without geometry. Times are seconds of the processor.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.simulate import analyse
from optinc_pdk.simulate.programming import phase_fit
from optinc_pdk.simulate.programming.initial_phases import aligned_initial_phases
from optinc_pdk.simulate.programming.mesh_fit import fit_meshes
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem, fit_phases, matrix_errors, solve_fields
from optinc_pdk.simulate.programming.targets import layer_targets

LOW_LOSS = Path(__file__).parent.parent / "tests" / "processes" / "low_loss"


def main(
    modes: Annotated[int, typer.Option(help="Modes of the layer's mesh.")] = 32,
    process: Annotated[str, typer.Option(help="Process, or folder of its cards.")] = str(LOW_LOSS),
    iterations: Annotated[int, typer.Option(help="Largest number of Levenberg–Marquardt iterations.")] = 20,
) -> None:
    """Fit one layer both ways; print seconds, rms matrix errors and the ratio of the times."""
    rng = np.random.default_rng(0)
    shapes = ((modes, 2), (modes, modes), (2, modes))
    hidden = [rng.standard_normal(shape) / np.sqrt(shape[1]) for shape in shapes[:2]]
    layers = tuple(Layer(weight, np.full(len(weight), 3.0)) for weight in hidden)
    last = Layer(rng.standard_normal(shapes[2]), np.zeros(2))
    onn = AveragingNetwork((*layers, last), Averaging(4, 4, 2), ("svd", ("approx", modes), "svd"))
    card = load_process(process)
    circuit = assemble(onn, card, "chip")
    if circuit.board is None:
        raise ValueError("the circuit has no board")
    problem = ProgrammingProblem(analyse(circuit), circuit.board, layer_targets(onn, circuit.board), 1550.0, card)
    phases, recorded = aligned_initial_phases(problem)
    target, layer = problem.targets[1], np.array([1])
    before = matrix_errors(problem, solve_fields(problem, phases))[1]
    typer.echo(f"{modes} modes, {problem.heaters(1).size} heaters, error at the start {before:.2e}")
    phase_fit.JACOBIAN_NUMBERS = 1 << 62
    seconds = {}
    start = time.process_time()
    fitted = fit_meshes(problem, target, recorded, phases)
    seconds["meshes"] = time.process_time() - start
    error = matrix_errors(problem, solve_fields(problem, fitted))[1]
    typer.echo(f"meshes   {seconds['meshes']:8.2f} s  error {error:.2e}")
    groups = [group for group in problem.groups if 1 in group.tolist()]
    problem.__dict__["groups"] = tuple(groups)
    start = time.process_time()
    dense = fit_phases(problem, phases, iterations=iterations)
    seconds["dense"] = time.process_time() - start
    error = matrix_errors(problem, solve_fields(problem, dense.phases, None))[int(layer[0])]
    typer.echo(f"Jacobian {seconds['dense']:8.2f} s  error {error:.2e}  ({dense.iterations} iterations)")
    typer.echo(f"ratio Jacobian / meshes: {seconds['dense'] / seconds['meshes']:.2f}")


if __name__ == "__main__":
    typer.run(main)
