"""Losses of a network's layers from the cards alone, and the light budget: symbol energy against shot noise.

A coherent field of n photons has a noise of half a photon's field in each quadrature, so after a transmission T it is
known to σ = 1 / (2 √(n T)) of full scale: homodyne detection with a strong local oscillator adds nothing, and loss
before the detector counts in full. Hence E = h ν / (4 σ² T) per symbol and guide.

A local oscillator of the power L at the mixer gives a signal S the photocurrents' difference 2 R √(L S) and their sum
R (L + S), whose shot noise is that of a strong oscillator times 1 + S / L. The energy is larger by this factor, with
S = T P for the power P that is launched into a guide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from optinc_pdk.arrays import Floats
from optinc_pdk.assemble import WeightBlock, layer_blocks
from optinc_pdk.assemble.preprocessing import preprocessing_loss_db
from optinc_pdk.budgets import LightBudget
from optinc_pdk.cards import Process
from optinc_pdk.cells.interferometers import mzi_positions
from optinc_pdk.factor import chain_depth
from optinc_pdk.networks import FactorMethod, Network
from optinc_pdk.networks.requirements import DetectionLoss
from optinc_pdk.simulate.transmission.noise import rate_limits

PLANCK_J_S = 6.62607015e-34
LIGHT_SPEED_M_S = 299_792_458.0


def photon_energy_j(wavelength_nm: float) -> float:
    """Return the energy of a photon, h c / λ, in J."""
    return PLANCK_J_S * LIGHT_SPEED_M_S / (wavelength_nm * 1e-9)


def symbol_energy_j(field_noise: float, loss_db: float, wavelength_nm: float) -> float:
    """Return the energy per symbol and guide, in J, that limits shot noise to a field noise: E = h ν / (4 σ² T).

    Args:
        field_noise: Standard deviation σ of the field, relative to full scale.
        loss_db: Loss in dB before the detector; T = 10^(-loss_db / 10).
        wavelength_nm: Wavelength in nm.

    Raises:
        ValueError: The noise is not a finite number above 0.
    """
    if not 0.0 < field_noise < math.inf:
        raise ValueError(f"field_noise = {field_noise} must be a finite number above 0: light always has noise")
    return photon_energy_j(wavelength_nm) / (4.0 * field_noise**2) * math.pow(10.0, loss_db / 10.0)


def light_budget(
    process: Process, field_noise: float, hop_loss_db: Sequence[float], oscillator_powers: Sequence[Floats] = ()
) -> LightBudget | None:
    """Compute the light budget of a chip; None if the process card has no budget.

    Args:
        process: Process card.
        field_noise: Standard deviation σ of the field noise that the network tolerates, relative to full scale.
        hop_loss_db: Loss of each layer from modulator to detector, in dB.
        oscillator_powers: For each hidden layer, (mixers,) powers of the local oscillators at the mixers, relative to
            that of a field of amplitude 1; empty for strong ones.

    Raises:
        ValueError: The noise is not above 0.
    """
    if process.budget is None:
        return None
    rate = process.budget.symbol_rate_max_bd if process.noise is None else rate_limits(process)[1]
    laser, wavelength = float(process.budget.laser_w), float(process.guide.wavelength_nm)
    weakest = [laser * float(powers.min()) if powers.size else None for powers in oscillator_powers]
    mixers = [*weakest, *[None] * (len(hop_loss_db) - len(weakest))]
    signals = [laser * math.pow(10.0, -loss / 10.0) for loss in hop_loss_db]
    energy = max(
        symbol_energy_j(field_noise, loss, wavelength) * (1.0 if mixer is None else 1.0 + signal / mixer)
        for loss, signal, mixer in zip(hop_loss_db, signals, mixers, strict=True)
    )
    electronics = None if rate is None else float(rate)
    return LightBudget(
        field_noise=field_noise,
        hop_loss_db=list(hop_loss_db),
        laser_w=laser,
        energy_j=energy,
        light_bd=laser / energy,
        electronics_bd=electronics,
        symbol_rate_bd=laser / energy if electronics is None else min(laser / energy, electronics),
        mixer_w=mixers,
    )


def loss_limit_db(process: Process, field_noise: float) -> float | None:
    """Return the largest loss of a layer, in dB, at which the laser power allows the lowest useful symbol rate.

    Local oscillators are taken as strong. The result is None if the process card has no budget.
    """
    if process.budget is None:
        return None
    unattenuated = symbol_energy_j(field_noise, 0.0, float(process.guide.wavelength_nm))
    return 10.0 * math.log10(float(process.budget.laser_w / process.budget.symbol_rate_min_bd) / unattenuated)


def mzi_loss_db(process: Process) -> float:
    """Return the loss in dB of one MZI, a column of a mesh: two couplers, two heaters, a guide as long as the cell."""
    guide = mzi_positions(process).end * 1e-4 * float(process.guide.loss_db_per_cm)
    return 2 * _loss_db(process, "mmi2x2") + 2 * _loss_db(process, "phase_shifter") + guide


def mesh_columns(modes: int) -> int:
    """Return the number of columns of a rectangular mesh, as in `rectangular_slots`."""
    return modes if modes > 2 else modes - 1


def layer_shapes(onn: Network, index: int) -> list[tuple[int, int]]:
    """Return the numbers of rows and columns of the independent parts of a layer's optical matrix."""
    return [(len(part.rows), len(part.columns)) for part in onn.layer_parts(index)]


def layer_columns(parts: Sequence[tuple[int, int]], method: FactorMethod) -> int:
    """Return the number of MZIs and attenuators in series on the light paths of a layer of independent parts.

    A part has two meshes, a block has one, a row has a chain. Dummies make the meshes of all parts as long as the
    longest one; of the rows, the longest one counts.
    """
    if method == "rows":
        return max(chain_depth(columns) for _, columns in parts) + 1
    if isinstance(method, str):
        return sum(max(mesh_columns(part[side]) for part in parts) for side in (0, 1)) + 1
    return mesh_columns(method[1]) + 1


def detection_losses(onn: Network, process: Process) -> tuple[DetectionLoss, ...]:
    """Compute the smallest loss from the sources of every layer but the last to its detectors, before a layout.

    It determines the gains of the neurons. Guides between cells are not included, so a drawn chip loses more. The local
    oscillators of every bank of mixers have a fibre of their own, as on chips of several dies; on one die, the carrier
    is divided further. The network has all layers of the chip, see :func:`optinc_pdk.networks.linked_network`.
    """
    column_db = mzi_loss_db(process)
    result = []
    for index in range(len(onn.layers) - 1):
        columns = layer_columns(layer_shapes(onn, index), onn.factor[index])
        blocks = layer_blocks(onn, index)
        if onn.factor[index] == "rows":
            # light next to the output of a chain passes one MZI of it
            columns = min(1 + (len(block.columns) > 1) for block in blocks)
        signal_db = _modulated_db(blocks, process) if index else _received_db(onn, blocks, process)
        mixer_db = _loss_db(process, "mmi2x2")
        if process.activation.realisation == "offchip":
            mixer_db += _loss_db(process, process.fibres.coupler)
        rows = Counter[str]()
        for block in blocks:
            rows[block.bank] += len(block.rows)
        oscillator_db = _loss_db(process, process.fibres.coupler) + _tree_db(min(rows.values()), process)
        result.append(DetectionLoss(columns, column_db, signal_db + mixer_db, oscillator_db + mixer_db))
    return tuple(result)


def _loss_db(process: Process, device: str) -> float:
    return process.device(device).parameter("loss_db")


def _tree_db(leaves: int, process: Process) -> float:
    """Loss in dB from the root of a splitter tree to the leaf that receives most light."""
    return (leaves.bit_length() - 1) * (10.0 * math.log10(2.0) + _loss_db(process, "mmi1x2"))


def _received_db(onn: Network, blocks: tuple[WeightBlock, ...], process: Process) -> float:
    """Loss in dB from the servers' fibres to the first layer's meshes; fields of all servers add up."""
    copies = 1 + max(block.place[0] for block in blocks)
    share = float(onn.task.symbol_shares[0]) / onn.task.servers
    sum_db = preprocessing_loss_db(onn.task, process)[0] + 20.0 * math.log10(share)
    return _loss_db(process, process.fibres.coupler) + sum_db + _tree_db(copies, process)


def _modulated_db(blocks: tuple[WeightBlock, ...], process: Process) -> float:
    """Loss in dB from the fibres of a hidden layer's light to its meshes.

    Modulators on the chip share one fibre for each bank; the tree has a power of two of leaves.
    """
    if process.activation.realisation == "offchip":
        return _loss_db(process, process.fibres.coupler)
    columns = Counter[str]()
    for block in blocks:
        columns[block.bank] += len(block.columns)
    leaves = 1 << (min(columns.values()) - 1).bit_length()
    return _loss_db(process, process.fibres.coupler) + _tree_db(leaves, process) + _loss_db(process, "modulator")
