"""Two independent libraries: their decompositions in our meshes, and ours in theirs.

Their MZI is ours up to phases at its outputs. Phases a, b at an MZI's inputs change its phi by a - b, and new phases
move on from its outputs.
"""

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from optinc_pdk.factor import Mesh, rectangular, triangular
from optinc_pdk.factor.mesh import wrap

Haar = Callable[[int, int], np.ndarray]
Cell = tuple[int, float, float]  # upper mode, theta, phi, in the order of the light
TOLERANCE = 1e-12


def to_mesh(modes: int, cells: Iterable[Cell], end: np.ndarray, quarters: int, common: float) -> Mesh:
    """Cells [[e^{i phi} cos, t sin], [e^{i phi} t' sin, cos]] as our MZIs, each in the first free column.

    Args:
        modes: N.
        cells: MZIs of the peer, in the order of the light.
        end: (N,) its phasors after the last cell.
        quarters: Its phi minus ours, in units of pi/2.
        common: e^{i common theta} is the factor in front of its cell.
    """
    carried, depth = np.zeros(modes), np.zeros(modes, dtype=int)
    row, column, theta, phi = [], [], [], []
    for upper, peer_theta, peer_phi in cells:
        start = depth[upper : upper + 2].max()
        depth[upper : upper + 2] = start + 1
        row.append(upper)
        column.append(start)
        theta.append(np.pi - 2 * peer_theta)
        phi.append(peer_phi - quarters * np.pi / 2 + carried[upper] - carried[upper + 1])
        lag = common * peer_theta - theta[-1] / 2 + carried[upper + 1]
        # From the right column of both: t sin = e^{i a'} i e^{i theta/2} cos(theta/2), and the row below.
        carried[upper] = lag + (0.0 if quarters == 1 else np.pi / 2)
        carried[upper + 1] = lag + np.pi / 2
    return Mesh(
        modes,
        np.array(row, dtype=np.int64),
        np.array(column, dtype=np.int64),
        wrap(theta),
        wrap(phi),
        wrap(np.angle(end) + carried),
    )


def from_mesh(mesh: Mesh, quarters: int, common: float) -> tuple[list[Cell], np.ndarray]:
    """The inverse: the peer's cells and its phasors at the end."""
    carried, cells = np.zeros(mesh.modes), []
    for index in np.argsort(mesh.column, kind="stable"):
        upper, theta = int(mesh.row[index]), float(mesh.theta[index])
        peer_theta = (np.pi - theta) / 2
        phi = mesh.phi[index] + quarters * np.pi / 2 + carried[upper] - carried[upper + 1]
        cells.append((upper, peer_theta, float(phi)))
        lead = theta / 2 - common * peer_theta + carried[upper + 1]
        carried[upper] = lead - (0.0 if quarters == 1 else np.pi / 2)
        carried[upper + 1] = lead - np.pi / 2
    return cells, np.exp(1j * (mesh.output_phase + carried))


@pytest.mark.parametrize("modes", [2, 3, 8, 17])
def test_phaseshift(haar: Haar, modes: int) -> None:
    """Its MZI is e^{i theta} [[e^{i phi} cos, i sin], [i e^{i phi} sin, cos]]."""
    peer = pytest.importorskip("phaseshift.clements_interferometer", reason="the peer phaseshift is not installed")
    unitary = haar(modes, modes)
    theirs = peer.mzi_decomposition(unitary)
    cells = [(cell.target[0], cell.theta, cell.phi) for cell in reversed(theirs.circuit)]
    mesh = to_mesh(modes, cells, theirs.D, quarters=1, common=1.0)
    assert np.max(np.abs(mesh.matrix() - unitary)) < TOLERANCE
    ours, end = from_mesh(rectangular(unitary), quarters=1, common=1.0)
    circuit = [peer.MachZehnder(theta, phi, (upper, upper + 1)) for upper, theta, phi in reversed(ours)]
    rebuilt = peer.mzi_circuit_reconstruction(peer.Decomposition(D=end, circuit=circuit))
    assert np.max(np.abs(rebuilt - unitary)) < TOLERANCE


@pytest.mark.parametrize("modes", [2, 3, 8, 17])
@pytest.mark.parametrize("shape", ["square", "triangle"])
def test_interferometer(haar: Haar, modes: int, shape: str) -> None:
    """Its beam splitter is [[e^{i phi} cos, -sin], [e^{i phi} sin, cos]]."""
    peer = pytest.importorskip("interferometer", reason="the peer interferometer is not installed")
    unitary = haar(modes, modes)
    theirs = getattr(peer, f"{shape}_decomposition")(unitary)
    cells = [(cell.mode1 - 1, cell.theta, cell.phi) for cell in theirs.BS_list]
    mesh = to_mesh(modes, cells, np.exp(1j * np.array(theirs.output_phases)), quarters=2, common=0.0)
    assert np.max(np.abs(mesh.matrix() - unitary)) < TOLERANCE
    decompose = rectangular if shape == "square" else triangular
    ours, end = from_mesh(decompose(unitary), quarters=2, common=0.0)
    rebuilt = peer.Interferometer()
    for upper, theta, phi in ours:
        rebuilt.add_BS(peer.Beamsplitter(upper + 1, upper + 2, theta, phi))
    for mode, phase in enumerate(np.angle(end)):
        rebuilt.add_phase(mode + 1, phase)
    assert np.max(np.abs(rebuilt.calculate_transformation() - unitary)) < TOLERANCE
