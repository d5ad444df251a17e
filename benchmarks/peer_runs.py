"""Runs of other simulators for bench_simulate.py, and the reasons why some are not run."""

from __future__ import annotations

import numpy as np
from mesh_runs import Run, Stopwatch, peak_mb, seconds


def bricks(modes: int) -> list[tuple[int, float, float]]:
    """Row and random theta and phi of the MZIs of a mesh, in the order of propagation."""
    rng = np.random.default_rng(0)
    return [(row, *rng.uniform(0.0, 6.0, 2)) for column in range(modes) for row in range(column % 2, modes - 1, 2)]


def by_interferometer(modes: int) -> Run:
    """A lossless mesh's transfer matrix by interferometer: one N × N product per MZI."""
    import interferometer

    watch = Stopwatch()
    mesh = interferometer.Interferometer()
    for row, theta, phi in bricks(modes):
        mesh.add_BS(interferometer.Beamsplitter(row + 1, row + 2, theta, phi))
    mesh.calculate_transformation()
    first = watch.read()
    return Run(first, seconds(mesh.calculate_transformation, 1), None, peak_mb())


def by_phaseshift(modes: int) -> Run:
    """A lossless mesh's transfer matrix by phaseshift."""
    from phaseshift.clements_interferometer import Decomposition, MachZehnder, mzi_circuit_reconstruction

    watch = Stopwatch()
    cells = [MachZehnder(theta, phi, (row, row + 1)) for row, theta, phi in bricks(modes)]
    mesh = Decomposition(D=np.ones(modes, dtype=np.complex128), circuit=cells)
    mzi_circuit_reconstruction(mesh)
    first = watch.read()
    return Run(first, seconds(lambda: mzi_circuit_reconstruction(mesh), 1), None, peak_mb())


def by_perceval(modes: int) -> Run:
    """A lossless mesh's transfer matrix by perceval, from beam splitters and phase shifters."""
    import perceval

    watch = Stopwatch()
    mesh = perceval.Circuit(modes)
    for row, theta, phi in bricks(modes):
        for phase in (phi, theta):
            mesh.add(row, perceval.PS(float(phase)))
            mesh.add(row, perceval.BS())
    mesh.compute_unitary()
    first = watch.read()
    return Run(first, seconds(mesh.compute_unitary, 1), None, peak_mb())


PEERS = {"interferometer": by_interferometer, "phaseshift": by_phaseshift, "perceval": by_perceval}
"""Simulators of a lossless mesh's transfer matrix in one direction, without loss, reflections or wavelengths."""
NOT_RUN = """not run:
  simphony 0.7.3: has no solver of its own, it calls SAX, and asks for one before 0.15
  photontorch 0.4.1: calls torch.solve, which torch has not had since 1.13
  simphox 0.0.1a8: imports jax.config, which jax has not had since 0.4.25
  strawberryfields, piquasso: photons through a given matrix, no S-parameters; the first needs numpy before 2
  pnn, neurophox, torchonn: layers of neural networks, no circuits; dphox, multiport-interferometer: layouts"""
