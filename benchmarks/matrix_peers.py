"""Decompositions and layouts of other packages, for matrix_to_mask.py: one package, in a process of its interpreter.

    python benchmarks/matrix_peers.py phaseshift RESULTS MATRIX.npy ...

Needs numpy and the package. Appends a line of JSON for every matrix to RESULTS: steps and their seconds of processor
time, and the largest error of the matrix that the package rebuilds from its phases.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Matrix = Any
Steps = dict[str, Callable[[], Any]]
REPEAT_S = 2.0
"""Steps are repeated for this time, at most `RUNS` times; the shortest counts."""
RUNS = 5


def perceval(unitary: Matrix) -> tuple[Steps, Callable[[Any], Matrix]]:
    """Triangle, by numerical solution; its rectangle raises NotImplementedError."""
    import perceval as pcvl

    cell = pcvl.BS(theta=pcvl.P("theta"), phi_tr=pcvl.P("phi"))
    target = pcvl.Matrix(unitary)
    decompose = {
        "decomposition": lambda: pcvl.Circuit.decomposition(
            target, cell, phase_shifter_fn=pcvl.PS, shape=pcvl.InterferometerShape.TRIANGLE
        )
    }
    return decompose, lambda circuit: np.array(circuit.compute_unitary())


def strawberryfields(unitary: Matrix) -> tuple[Steps, Callable[[Any], Matrix]]:
    """Rectangle of Clements et al.; the matrix is rebuilt from its cells T."""
    from strawberryfields import decompositions

    def rebuild(factors: Any) -> Matrix:
        cells, diagonal, _ = factors
        matrix = np.eye(len(diagonal))
        for cell in cells:
            matrix = decompositions.T(*cell) @ matrix
        return diagonal[:, None] * matrix

    return {"decomposition": lambda: decompositions.rectangular_phase_end(unitary)}, rebuild


def strawberryfields_compact(unitary: Matrix) -> tuple[Steps, Callable[[Any], Matrix]]:
    """Compact rectangle of Bell and Walmsley; the matrix is rebuilt from its commands."""
    from strawberryfields import decompositions

    def rebuild(phases: Any) -> Matrix:
        modes = phases["m"]
        matrix = np.eye(modes, dtype=complex)
        for mode, phase in phases["phi_ins"].items():
            matrix = decompositions.P(mode, phase, modes) @ matrix
        for column in range(modes):
            if (modes - 1, column) in phases["phi_edges"]:
                matrix = decompositions.P(modes - 1, phases["phi_edges"][modes - 1, column], modes) @ matrix
            for upper in range(column % 2, modes - 1, 2):
                cell = phases["sigmas"][upper, column], phases["deltas"][upper, column]
                matrix = decompositions.M(upper, *cell, modes) @ matrix
        for mode, phase in phases["phi_outs"].items():
            matrix = decompositions.P(mode, phase, modes) @ matrix
        return matrix

    return {"decomposition": lambda: decompositions.rectangular_compact(unitary)}, rebuild


def phaseshift(unitary: Matrix) -> tuple[Steps, Callable[[Any], Matrix]]:
    """Rectangle of Clements et al."""
    from phaseshift import clements_interferometer

    steps = {"decomposition": lambda: clements_interferometer.mzi_decomposition(unitary)}
    return steps, clements_interferometer.mzi_circuit_reconstruction


def neurophox(unitary: Matrix) -> tuple[Steps, Callable[[Any], Matrix]]:
    """Rectangle of Clements et al.; no function rebuilds the matrix, so its rotations are applied in their order."""
    from neurophox.components import BlochMZI
    from neurophox.helpers import clements_decomposition

    modes = len(unitary)

    def rebuild(phases: Any) -> Matrix:
        theta, phi, diagonal = phases
        theta = 2 * np.pi - theta.T

        def rotation(row: int, column: int, upper: int) -> Matrix:
            cell = BlochMZI(theta[row, column], phi[row, column], hadamard=False, dtype=np.complex128)
            return cell.givens_rotation(units=modes, m=upper, i_factor=True)

        left, right = np.eye(modes), np.eye(modes)
        for diagonal_number in range(modes - 1):
            for step in range(diagonal_number + 1):
                if diagonal_number % 2 == 0:
                    row, column = step, modes - 2 - diagonal_number + step
                    right = rotation(row, column, diagonal_number - step) @ right
                else:
                    row = modes + step - diagonal_number - 1
                    left = left @ rotation(row, step, row - 1).conj().T
        return left @ np.diag(diagonal) @ right

    return {"decomposition": lambda: clements_decomposition(unitary)}, rebuild


def torchonn(orthogonal: Matrix) -> tuple[Steps, Callable[[Any], Matrix]]:
    """Rectangle of Clements et al. for a real orthogonal matrix.

    Its class for complex unitaries passes complex numbers to numpy.arctan2, which raises TypeError. `decompose` needs
    its CUDA extension even for NumPy arrays; `decompose_clements` does not.
    """
    from torchonn.op.matrix_parametrization import RealUnitaryDecomposerBatch

    decomposer = RealUnitaryDecomposerBatch(alg="clements")
    steps = {"decomposition": lambda: decomposer.decompose_clements(orthogonal.copy())}
    return steps, lambda found: decomposer.reconstruct_clements(*found)


def multiport(unitary: Matrix) -> tuple[Steps, Callable[[Any], Matrix]]:
    """Compact rectangle of Bell and Walmsley: decomposition, layout on cspdk's PDK, and simulation of its netlist."""
    import cspdk.si220.cband
    import multiport_interferometer as mi
    import sax

    cspdk.si220.cband.PDK.activate()
    modes = len(unitary)

    def layout() -> None:
        with tempfile.TemporaryDirectory() as folder:
            mi.Bell(modes).gds().write_gds(Path(folder, "mesh.gds"))

    def simulate(found: Any) -> Any:
        return sax.circuit(netlist=mi.bell_circuit_schematic(modes), models=mi.ideal_bell_models(found))[0]()

    found = mi.decompose_bell(unitary)
    steps = {
        "decomposition": lambda: mi.decompose_bell(unitary),
        "layout": layout,
        "simulation": lambda: simulate(found),
    }
    return steps, lambda phases: np.array(mi.sdict_to_matrix(simulate(phases)))


def optinc(unitary: Matrix) -> tuple[Steps, Callable[[Any], Matrix]]:
    """Rectangle of Clements et al. of this project."""
    from optinc_pdk.factor import rectangular

    return {"decomposition": lambda: rectangular(unitary)}, lambda mesh: mesh.matrix()


PEERS: dict[str, tuple[str, Callable[[Matrix], tuple[Steps, Callable[[Any], Matrix]]]]] = {
    "optinc-pdk": ("optinc-pdk", optinc),
    "perceval": ("perceval-quandela", perceval),
    "strawberryfields": ("strawberryfields", strawberryfields),
    "strawberryfields-compact": ("strawberryfields", strawberryfields_compact),
    "phaseshift": ("phaseshift", phaseshift),
    "neurophox": ("neurophox", neurophox),
    "torchonn": ("torchonn", torchonn),
    "multiport-interferometer": ("multiport-interferometer", multiport),
}
"""Distribution and function by name."""


def shortest(call: Callable[[], Any]) -> tuple[float, Any]:
    """Shortest processor time of a few calls, and what the last returned."""
    times: list[float] = []
    while len(times) < RUNS and sum(times) < REPEAT_S:
        start = time.process_time()
        found = call()
        times.append(time.process_time() - start)
    return min(times), found


def main() -> None:
    """Measure the matrices in the given order."""
    name, results, *files = sys.argv[1:]
    distribution, peer = PEERS[name]
    for file in files:
        target = np.load(file)
        steps, rebuild = peer(target)
        measured = {step: shortest(call) for step, call in steps.items()}
        error = float(np.abs(rebuild(measured["decomposition"][1]) - target).max())
        row = {"modes": len(target), "version": importlib.metadata.version(distribution), "error": error}
        with Path(results).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row | {step: seconds for step, (seconds, _) in measured.items()}) + "\n")


if __name__ == "__main__":
    main()
