"""What every heater and the electronics do to the words, to first order, from readings alone.

Every heater is moved up and down a little and all layers are read, so that what it warms in other layers is part of it.
What a neuron's detected difference does to the outputs follows from the measured coefficients of the layers behind it
and from its electronics, which are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.tolerance.calibration.measure import Laboratory, Layer, Seen, coefficients
from optinc_pdk.tolerance.calibration.model import Heaters
from optinc_pdk.tolerance.calibration.steps import surveyed
from optinc_pdk.tolerance.calibration.through import Electronics, Passage

Floats = NDArray[np.float64]

NUDGE_RAD, NUDGE_STEPS = 0.03, 1.5
"""How far heaters are moved both ways: an angle, or so many steps of the drive if that is more."""
LEAST_LEVEL = 0.5
"""|y|² less its goal is taken for an error of twice the level, of this at level 0."""


@dataclass(frozen=True, eq=False)
class Effects:
    """A chip of H heaters to first order, at a setting.

    Attributes:
        unit_rad: (H,) designed phase of a step of each heater's drive, of a nudge where it has no steps.
        matrix: Per hidden layer, (neurons, J) detected difference per amplitude.
        product: (receivers, J, J) of the last layer.
        change: Per layer, (H, neurons, 1 + J) change of constant and matrix, or (H, receivers, J, J) of products, for
            each heater's unit.
    """

    unit_rad: Floats
    matrix: tuple[Floats, ...]
    product: Floats
    change: tuple[Floats, ...]


def measured(
    laboratory: Laboratory, layers: Sequence[Layer], heaters: Heaters, voltage_v: Floats, electronics: Electronics
) -> Effects:
    """Move every heater and read all layers.

    Args:
        laboratory: The bench.
        layers: The layers.
        heaters: The heaters as designed.
        voltage_v: (H,) voltages to be moved from.
        electronics: Whose balances coefficients are for.
    """
    rise = heaters.rise_ohm @ heaters.currents(voltage_v)
    phase = heaters.alone(voltage_v, rise)
    step = heaters.alone(voltage_v + heaters.step_v, rise) - phase
    nudge = np.maximum(NUDGE_RAD, NUDGE_STEPS * step)
    up, down = (
        heaters.rounded(heaters.voltages_alone(np.maximum(phase + turn, 0.0), rise)) for turn in (nudge, -nudge)
    )
    apart = heaters.alone(up, rise) - heaters.alone(down, rise)
    unit = step if heaters.step_v else nudge
    share = np.divide(unit, apart, out=np.zeros_like(unit), where=apart > 0.0)
    settings = np.tile(voltage_v, (1 + 2 * phase.size, 1))
    for moved, rows in ((up, settings[1 : 1 + phase.size]), (down, settings[1 + phase.size :])):
        np.fill_diagonal(rows, moved)
    seen = surveyed(laboratory, layers, list(settings))
    change = []
    for i, layer in enumerate(layers):
        entries = np.stack([_entries(layer, row[i], electronics, i) for row in seen[1:]])
        above, below = entries[: phase.size], entries[phase.size :]
        change.append((above - below) * share.reshape(-1, *(1,) * (above.ndim - 1)))
    known = [_entries(layer, one, electronics, i) for i, (layer, one) in enumerate(zip(layers, seen[0], strict=True))]
    return Effects(unit, tuple(entries[:, 1:] for entries in known[:-1]), known[-1], tuple(change))


def _entries(layer: Layer, seen: Seen, electronics: Electronics, index: int) -> Floats:
    """(neurons, 1 + J) constant and coefficients at the present balance, or (receivers, J, J) products."""
    if layer.target.last:
        return seen.product
    found = coefficients(layer, seen, electronics.balance[index])
    return np.concatenate([found.constant[:, np.newaxis], found.coefficient.real], axis=1)


def linearised(passage: Passage, electronics: Electronics, effects: Effects) -> tuple[Floats, Floats]:
    """Errors of words against the network's, the servers' mean, and their derivatives.

    Args:
        passage: N words through the chip, with M outputs.
        electronics: What they met.
        effects: What moves them.

    Returns:
        (N M,) errors in levels, and (N M, H + E) derivatives: by units of the heaters, then layer by layer by the
        gains' logarithms and by offsets times gains, at last by the logarithms of the outputs' scales.
    """
    wanted, output = passage.words.wanted, passage.output
    count, servers = wanted.shape[1], output.shape[1]
    twice = 2.0 * np.maximum(wanted, LEAST_LEVEL)
    level = (output**2).mean(axis=1)
    # of each output the receivers of all servers, which see one field
    mine = np.arange(count)[:, np.newaxis] + count * np.arange(servers)
    square = electronics.scale[mine] ** 2 / servers
    last = passage.source[-1]
    products = np.einsum("ms,msij->mij", square, effects.product[mine])
    behind = 2.0 * np.einsum("nj,mji->nmi", last, products) / twice[:, :, np.newaxis]
    pairs = (last[:, :, np.newaxis] * last[:, np.newaxis, :]).reshape(len(last), -1)
    heated = np.empty((*wanted.shape, len(effects.unit_rad)))
    for output_number in range(count):
        change = np.einsum("s,hsij->hij", square[output_number], effects.change[-1][:, mine[output_number]])
        heated[:, output_number] = pairs @ change.reshape(len(change), -1).T / twice[:, output_number, np.newaxis]
    electronic = [np.eye(count) * (2.0 * level / twice)[:, :, np.newaxis]]
    for i in range(len(effects.matrix) - 1, -1, -1):
        after = passage.source[i + 1][:, np.newaxis]
        active = (after > 0.0) & (after < 1.0)
        electronic[:0] = [behind * after * active, behind * active]
        differences = behind * (active * electronics.gain[i])
        heated += _outer(differences, passage.source[i], effects.change[i])
        behind = differences @ effects.matrix[i]
    jacobian = np.concatenate([heated, *electronic], axis=2)
    return ((level - wanted**2) / twice).reshape(-1), jacobian.reshape(wanted.size, -1)


def _outer(differences: Floats, source: Floats, change: Floats) -> Floats:
    """(N, M, H) from (N, M, rows) effects of differences, (N, J) amplitudes and (H, rows, 1 + J) changes."""
    count, outputs, _ = differences.shape
    ahead = np.concatenate([np.ones((count, 1)), source], axis=1)
    both = differences[:, :, :, np.newaxis] * ahead[:, np.newaxis, np.newaxis, :]
    flat = both.reshape(count * outputs, -1) @ change.reshape(len(change), -1).T
    return np.asarray(flat.reshape(count, outputs, -1))
