"""Starting phases of a layer: the ideal mesh, corrected for the phases that guides, trees and dummies add.

With D = diag(e^{i δ}) in front of an MZI on modes (k, k + 1), phi - (δ_k - δ_{k+1}) makes both outputs carry
e^{i δ_{k+1}}; so phase errors are carried along, mode by mode, to the end, where they do no harm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.assemble import rectangular_slots
from optinc_pdk.circuit import Board
from optinc_pdk.factor import Mesh, rectangular, unitary_diagonal
from optinc_pdk.simulate.target import Target
from optinc_pdk.simulate.walk import Path, Walker

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

NULL = 1e-9
"""Singular values below this share of the largest are zero."""
LIT = 0.95
"""Transmission of the strongest attenuator at the start: at 1 it could not be raised, and its slope is 0."""


@dataclass
class _Modes:
    """Where each mode's light is: port it leaves from and phase error δ; ``None`` for dark modes."""

    walker: Walker
    layer: str
    channel: dict[str, int]
    ends: dict[int, Path | int | None]
    error: dict[int, float]
    phases: Floats

    def heater(self, label: str) -> int:
        """Heater number of a pad label.

        Raises:
            ValueError: No heater has it.
        """
        if label not in self.channel:
            raise ValueError(f"no heater is driven by channel {label!r}; the circuit is not this network's")
        return self.channel[label]

    def arrive(self, row: int) -> Path | None:
        """The way from a mode's end to the next coupler."""
        end = self.ends[row]
        return self.walker.follow(end) if isinstance(end, int) else end

    def mesh(self, name: str, mesh: Mesh) -> None:
        """Send the modes through a mesh, setting its heaters."""
        theta = {(c, r): i for i, (c, r) in enumerate(zip(mesh.column.tolist(), mesh.row.tolist(), strict=True))}
        for slot in rectangular_slots(mesh.modes):
            if slot.dummy:
                self._dummy(slot.row)
                continue
            at = theta[slot.column, slot.row]
            self._mzi(f"{name}_c{slot.column}_r{slot.row}", slot.row, mesh.theta[at], mesh.phi[at])
        for row in range(mesh.modes):
            self.error[row] -= float(mesh.output_phase[row])

    def _mzi(self, name: str, row: int, theta: float, phi: float) -> None:
        walk = self.walker
        outer, inner = self.heater(f"{name}_phi"), self.heater(f"{name}_theta")
        upper, lower = self.arrive(row), self.arrive(row + 1)
        first = self._first_coupler(name, outer, inner)
        other = walk.bar(walk.cross(first))
        for path, port in ((upper, first), (lower, other)):
            if path is not None and path.port != port:
                raise ValueError(f"light of mode {row} does not reach the MZI of channel {name}_phi by its own arm")
        heated, plain = walk.follow(walk.bar(first)), walk.follow(walk.cross(first))
        above = self.error[row] + _phase(upper)
        below = self.error[row + 1] + _phase(lower)
        self.phases[outer] = phi - (above - below)
        self.phases[inner] = theta - (_phase(heated) - _phase(plain))
        self.error[row] = self.error[row + 1] = below + _phase(plain)
        self.ends[row], self.ends[row + 1] = walk.bar(heated.port), walk.cross(heated.port)

    def _first_coupler(self, name: str, outer: int, inner: int) -> int:
        """The port by which the arm under the outer heater enters the MZI."""
        walk = self.walker
        for port in walk.structure.heater_port[outer].tolist():
            path = walk.follow(port)
            if walk.ends(path.port) == 4 and inner in walk.follow(walk.bar(path.port)).heaters:
                return path.port
        raise ValueError(f"channels {name}_phi and {name}_theta do not heat one MZI; the circuit is not this network's")

    def _dummy(self, row: int) -> None:
        path = self.arrive(row)
        if path is None:
            return
        walk = self.walker
        straight, across = walk.bar(path.port), walk.cross(path.port)
        one, two = walk.follow(straight), walk.follow(across)
        out = walk.cross(one.port)
        passed = walk.amplitude(straight, path.port) * one.transmission * walk.amplitude(out, one.port)
        passed += walk.amplitude(across, path.port) * two.transmission * walk.amplitude(out, two.port)
        self.error[row] += _phase(path) + float(np.angle(passed))
        self.ends[row] = out

    def attenuate(self, name: str, attenuation: Floats) -> None:
        """Set the attenuators, i e^{iθ/2} sin(θ/2); modes beyond them end here."""
        walk = self.walker
        for row in sorted(self.ends):
            if row >= attenuation.size:
                del self.ends[row], self.error[row]
                continue
            path = self.arrive(row)
            if path is None:
                continue
            heater = self.heater(f"{name}_r{row}")
            heated, plain = walk.follow(walk.bar(path.port)), walk.follow(walk.cross(path.port))
            theta = 2.0 * float(np.arcsin(attenuation[row]))
            self.phases[heater] = theta - (_phase(heated) - _phase(plain))
            self.error[row] += _phase(path) + (np.pi + theta) / 2.0 + _phase(plain)
            self.ends[row] = walk.bar(heated.port)


def start_layer(walker: Walker, channel: dict[str, int], board: Board, target: Target, phases: Floats) -> None:
    """Write one layer's starting phases, all but those of its local oscillators.

    Args:
        walker: The circuit.
        channel: Pad label to heater number.
        board: Fibres of the layer's inputs.
        target: The layer; its matrix is made up to a factor per row.
        phases: (H,) phases in rad, written in place and not wrapped.

    Raises:
        ValueError: The circuit is not this network's.
    """
    weight = _even_rows(target.mesh_weight)
    rows, columns = weight.shape
    name = f"l{target.index}"
    modes = _Modes(walker, name, channel, {}, {}, phases)
    for row in range(columns):
        modes.ends[row], modes.error[row] = _input(modes, board, target.index, row), 0.0
    if target.svd:
        left, attenuation, right = _generic_svd(weight, np.random.default_rng(target.index))
        modes.mesh(f"{name}_v", rectangular(right))
        modes.attenuate(f"{name}_att", LIT * attenuation)
        for row in range(attenuation.size, rows):
            modes.ends[row], modes.error[row] = None, 0.0
        modes.mesh(f"{name}_u", rectangular(left))
    else:
        block = unitary_diagonal(weight, max(rows, columns))
        modes.mesh(f"{name}_v", block.unitary[0])
        modes.attenuate(f"{name}_att", LIT * block.attenuation[0][:rows])


def _even_rows(weight: Floats) -> Floats:
    """Rows of norm 1: each row's factor is free, and even rows need the least attenuation."""
    norm = np.linalg.norm(weight, axis=1, keepdims=True)
    even: Floats = np.divide(weight, norm, out=np.zeros_like(weight), where=norm > 0.0)
    return even


def _generic_svd(weight: Floats, rng: np.random.Generator) -> tuple[Complexes, Floats, Complexes]:
    """Singular value decomposition, random where the matrix leaves it free: in its null spaces.

    Null vectors as a library returns them are full of zeros, which want MZIs in perfect cross or bar;
    imbalanced couplers cannot make those. In random null spaces MZIs are near their middle.

    Returns:
        U (rows, rows), attenuations (r,) and V^H (columns, columns).
    """
    left, singular, right = np.linalg.svd(weight, full_matrices=True)
    rank = int(np.count_nonzero(singular > NULL * singular[0]))
    u, vh = left.astype(np.complex128), right.astype(np.complex128)
    u[:, rank:] = u[:, rank:] @ _haar(u.shape[0] - rank, rng)
    vh[rank:] = _haar(vh.shape[0] - rank, rng) @ vh[rank:]
    return u, singular / singular[0], vh


def _haar(size: int, rng: np.random.Generator) -> Complexes:
    """A random unitary (Mezzadri, arXiv math-ph/0609050)."""
    gauss = rng.standard_normal((size, size)) + 1j * rng.standard_normal((size, size))
    q, r = np.linalg.qr(gauss)
    phase = np.diagonal(r) / np.abs(np.diagonal(r))
    unitary: Complexes = q * phase
    return unitary


def _input(modes: _Modes, board: Board, layer: int, row: int) -> Path:
    """The way of one input's light to the first coupler; sets the preprocessing's trims."""
    walk = modes.walker
    if layer > 0:
        label = [neuron.to for neuron in board.neurons if neuron.layer == layer - 1][row]
        return walk.enter(_fibre(walk, label))
    paths = [walk.enter(_fibre(walk, server[row])) for server in board.inputs]
    weakest = min(abs(path.transmission) for path in paths)
    for server, path in enumerate(paths):
        trim = modes.heater(f"trim_s{server}_m{row}")
        if path.port != paths[0].port or trim not in path.heaters:
            raise ValueError(f"symbol {row} of server {server} does not reach the others' coupler through its trim")
        # Stronger servers are turned away to either side, so that what is in phase is equal.
        tilt = float(np.arccos(weakest / abs(path.transmission)))
        modes.phases[trim] = (tilt if server % 2 else -tilt) - _phase(path) + _phase(paths[0])
    return paths[0]


def _fibre(walker: Walker, label: str) -> int:
    return int(walker.structure.fibre[walker.structure.fibres([label])[0]])


def _phase(path: Path | None) -> float:
    return 0.0 if path is None else float(np.angle(path.transmission))
