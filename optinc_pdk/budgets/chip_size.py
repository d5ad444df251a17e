"""Estimates of a chip's size before any layout: area, pads, power and light.

The size of a network follows from the shapes of its layers and the method that factors each; the weights only give the
noise that it tolerates. Areas count cells, pads and gratings alone: wires, channels and fan-outs add to them, so a real
chip is larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from optinc_pdk.assemble.die_plan import LOCAL_PADS, PADS
from optinc_pdk.assemble.preprocessing import preprocessing_loss_db
from optinc_pdk.averaging import Averaging
from optinc_pdk.budgets import LightBudget, LimitNumbers
from optinc_pdk.budgets.light_budget import (
    layer_columns,
    layer_shapes,
    light_budget,
    mesh_columns,
    mzi_loss_db,
)
from optinc_pdk.budgets.limits import (
    DieSize,
    largest_die,
    loss_limit,
    pad_capacity,
    pads_limit,
    power_limit,
)
from optinc_pdk.cards import Process
from optinc_pdk.cells.interferometers import attenuator_positions, mzi_positions
from optinc_pdk.factor import MeshShape, chain_depth
from optinc_pdk.factor.counts import block_trees, svd_mzis, unitary_diagonal_mzis, unitary_mzis
from optinc_pdk.layout.canvas import fibre_row_pitch
from optinc_pdk.matrices import RECTANGLE, MatrixTarget, factor_matrix
from optinc_pdk.networks import (
    AveragingNetwork,
    FactorMethod,
    Network,
    NetworkTask,
    linked_network,
)
from optinc_pdk.networks.error_tolerance import tolerated_field_noise

PAPER_NETWORKS = {
    (8, 4): ((4, 64, 128, 256, 128, 64, 4), (1, 2, 3, 4, 5, 6)),
    (8, 8): ((4, 64, 128, 256, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7)),
    (8, 16): ((4, 64, 128, 256, 512, 1024, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7, 8, 9)),
    (16, 4): ((4, 64, 128, 256, 512, 256, 128, 64, 8), (4, 5, 6)),
}
"""The networks of arXiv 2603.28290, Table I: by (bits, servers), the widths and the approximated layers, from 1."""


@dataclass(frozen=True)
class LayerSize:
    """Estimated size of one layer, with the optics between its meshes and the modulators and detectors.

    Attributes:
        strips: Number of strips, the parts of a layer that the floorplan can place separately.
        mzis: Number of MZIs by the convention of arXiv 2603.28290.
        heaters: Number of heaters: two per MZI, one per attenuator, and those that trim inputs and local oscillators.
        fibres: Number of fibre couplers.
        columns: Number of MZIs and attenuators in series on a light path.
        loss_db: Loss in dB from modulator to detector for a full-scale signal.
        area_mm2: Area of meshes and fibre couplers in mm², and of the pads if they lie beside the meshes.
    """

    strips: int
    mzis: int
    heaters: int
    fibres: int
    columns: int
    loss_db: float
    area_mm2: float


@dataclass(frozen=True)
class NetworkSize:
    """Estimated size of a network's chip, compared with the limits of a process.

    Attributes:
        name: Name of the network, for tables.
        structure: Number of units of each layer, from inputs to outputs.
        layers: Sizes of the layers.
        pads: Number of pads or bumps, including those of the grounds.
        power_w: Power in W with all heaters at the middle of their phase range.
        mzi_loss_db: Loss of one MZI in dB.
        dies: Number of dies that area and pads require; 0 if a single layer is too large for any die.
        fit: Fit on the dies of the process, such as "fits one die", "multi-die" or "not buildable".
        limits: Limits by name: size; pads and power of the fullest die (of the largest layer if it fits no die); and
            loss.
        light: Light budget; None if the network tolerates no noise or the process card has no budget.
    """

    name: str
    structure: tuple[int, ...]
    layers: tuple[LayerSize, ...]
    pads: int
    power_w: float
    mzi_loss_db: float
    dies: int
    fit: str
    limits: dict[str, LimitNumbers]
    light: LightBudget | None

    @property
    def mzis(self) -> int:
        """Number of MZIs of all layers, by the convention of arXiv 2603.28290."""
        return sum(layer.mzis for layer in self.layers)

    @property
    def heaters(self) -> int:
        """Number of heaters of all layers."""
        return sum(layer.heaters for layer in self.layers)

    @property
    def area_mm2(self) -> float:
        """Area of all layers in mm²."""
        return sum(layer.area_mm2 for layer in self.layers)

    @property
    def exceeded_limits(self) -> tuple[str, ...]:
        """Names of the limits that are exceeded."""
        return tuple(name for name, limit in self.limits.items() if limit.holds is False)


def mean_heater_w(process: Process) -> float:
    """Return the power in W of a heater at the middle of its phase range: P_π · phase_max / (2π)."""
    heater = process.device("phase_shifter")
    return heater.parameter("power_pi_w") * float(heater.limits["phase_max_rad"]) / 2 / math.pi


def onn_size(name: str, onn: Network, process: Process) -> NetworkSize:
    """Estimate the size of a network with known weights, whose margins give the field noise that it tolerates.

    It is the chip that :func:`optinc_pdk.networks.linked_network` describes, with the link of the process. A general
    network has no margins, so that its loss is not judged, and its outputs end in no neurons.
    """
    noise = None
    if isinstance(onn, AveragingNetwork):
        onn = linked_network(onn, process.link.kind == "neurons")
        noise = 0.0 if process.budget is None else tolerated_field_noise(onn, float(process.budget.margin_sigmas))
    parts = [layer_shapes(onn, index) for index in range(len(onn.layers))]
    return network_size(name, onn.task, onn.structure, onn.factor, process, noise, parts)


def paper_sizes(task: Averaging, process: Process) -> list[NetworkSize]:
    """Estimate the sizes of the paper's network for a task, with full SVD and with approximated layers.

    The weights of arXiv 2603.28290, Table I, are not public, so that the field noise that its network tolerates is
    taken from the budget of the process card. The result is empty if the paper has no network for the task.
    """
    if (task.bits, task.servers) not in PAPER_NETWORKS:
        return []
    widths, approximated = PAPER_NETWORKS[task.bits, task.servers]
    shapes = list(zip(widths[1:], widths, strict=False))
    full: tuple[FactorMethod, ...] = tuple("svd" for _ in shapes)
    blocks: tuple[FactorMethod, ...] = tuple(
        ("approx", min(shape)) if i in approximated else "svd" for i, shape in enumerate(shapes, start=1)
    )
    methods = {"paper, full SVD": full, "paper, approximated": blocks}
    noise = 0.0 if process.budget is None else float(process.budget.field_noise)
    return [network_size(name, task, widths, factor, process, noise) for name, factor in methods.items()]


def network_size(
    name: str,
    task: NetworkTask,
    structure: Sequence[int],
    factor: Sequence[FactorMethod],
    process: Process,
    noise: float | None,
    parts: Sequence[Sequence[tuple[int, int]]] | None = None,
) -> NetworkSize:
    """Estimate the size of a network from its structure, without its weights.

    Args:
        name: Name of the network, for tables.
        task: The task; it determines fibres, and the trees before the first and after the last layer.
        structure: Number of units of each layer, from inputs to outputs.
        factor: Factorisation of each layer: "svd", "rows" or ("approx", modes of a block).
        process: Process card.
        noise: Standard deviation of the field noise that the network tolerates, relative to full scale; 0 if it
            tolerates none, None if it is not known.
        parts: Numbers of detectors and inputs of the independent parts of each layer; units may share detectors. By
            default, each layer is one part with a detector for each unit.
    """
    last = len(factor) - 1
    layers = []
    whole = [[(out, into)] for into, out in pairwise(structure)]
    for i, (shapes, method) in enumerate(zip(parts or whole, factor, strict=True)):
        if method == "rows":
            shapes = [(1, into) for rows, into in shapes for _ in range(rows)]
        out, into = sum(shape[0] for shape in shapes), sum(shape[1] for shape in shapes)
        end = (i == 0, i == last)
        layers.append(_ends(_mesh(shapes, method, process, end), out, into, task, end, process))
    return size_of_layers(name, structure, layers, process, noise)


def size_of_layers(
    name: str, structure: Sequence[int], layers: Sequence[LayerSize], process: Process, noise: float | None
) -> NetworkSize:
    """Compare the sizes of a chip's layers with the limits of a process; arguments as for `network_size`."""
    dies, outline, fit = _dies(layers, process)
    loss = tuple(layer.loss_db for layer in layers)
    return NetworkSize(
        name=name,
        structure=tuple(structure),
        layers=tuple(layers),
        pads=_pads(layers, process),
        power_w=mean_heater_w(process) * sum(layer.heaters for layer in layers),
        mzi_loss_db=mzi_loss_db(process),
        dies=0 if fit == "not buildable" else len(dies),
        fit=fit,
        limits=_limits(dies, outline, fit, process)
        | ({} if noise is None else {"loss": loss_limit(process, loss, noise)}),
        light=light_budget(process, noise, loss) if noise else None,
    )


def _mesh(
    parts: Sequence[tuple[int, int]], method: FactorMethod, process: Process, end: tuple[bool, bool]
) -> LayerSize:
    """The size of the linear block alone: meshes of all parts, or of all blocks and the trees that join them.

    Trees of splitters copy the inputs of the first layer and add the outputs of the last one; blocks of the others have
    modulators and detectors of their own. ``end`` says whether the layer is the first and the last.
    """
    columns, trees_db = layer_columns(parts, method), 0.0
    if method == "rows":
        sizes = [into for _, into in parts]
        attenuators, mzis, strips = len(sizes), sum(sizes), 1
        active, cells = sum(sizes) - len(sizes), sum(modes * chain_depth(modes) for modes in sizes)
    elif isinstance(method, str):
        attenuators, mzis = sum(map(min, parts)), sum(svd_mzis(*part) for part in parts)
        sides = [[into for _, into in parts], [out for out, _ in parts]]
        active = sum(unitary_mzis(modes) for side in sides for modes in side)
        cells = sum(sum(side) * max(map(mesh_columns, side)) for side in sides)
        strips = 1
    else:
        (out, into), block = parts[0], method[1]
        count = -(-out // block) * -(-into // block)
        active, attenuators, strips = unitary_mzis(block) * count, block * count, count
        mzis = unitary_diagonal_mzis(out, into, block)
        trees = block_trees(out, into, block, process.device("mmi1x2").parameter("loss_db"))
        trees_db = trees.split_db * end[0] + trees.combine_db * end[1]
        cells = block * mesh_columns(block) * count
    return LayerSize(
        strips=strips,
        mzis=mzis,
        heaters=2 * active + attenuators,
        fibres=0,
        columns=columns,
        loss_db=columns * mzi_loss_db(process) + trees_db,
        area_mm2=cells_mm2(cells, attenuators, process),
    )


def cells_mm2(places: int, attenuators: int, process: Process) -> float:
    """Return the area in mm² of the cells of meshes and of attenuators.

    ``places`` are modes times columns of the meshes; an MZI covers two of them.
    """
    length = mzi_positions(process).end * places + attenuator_positions(process).end * attenuators
    return float(length * float(process.floorplan.mode_pitch_um) / 1e6)


def beside_mm2(fibres: int, heaters: int, process: Process) -> float:
    """Return the area in mm² of fibre couplers, and of the heaters' pads if they lie beside the meshes."""
    coupler = process.device(process.fibres.coupler)
    if coupler.name == "grating_coupler":
        length = coupler.size("taper_length_um") + coupler.size("periods") * coupler.size("period_um")
    else:
        length = coupler.size("length_um")
    area_um2 = fibres * fibre_row_pitch(process) * length
    if process.pads.wiring == "perimeter":
        area_um2 += heaters * float(process.pads.pitch_um) ** 2
    return area_um2 / 1e6


def _ends(
    mesh: LayerSize, out: int, into: int, task: NetworkTask, end: tuple[bool, bool], process: Process
) -> LayerSize:
    """Add the optics that feed and read a linear block; ``end`` says whether it is the first and the last."""
    first, last = end
    outside = process.activation.realisation == "offchip"
    coupler = process.device(process.fibres.coupler)
    splitter_db, fibre_db = process.device("mmi1x2").parameter("loss_db"), coupler.parameter("loss_db")
    levels, words = (task.receivers - 1).bit_length(), task.servers * task.symbols
    received = task.receivers * task.outputs
    heaters = fibres = 0
    loss = mesh.loss_db
    if first:
        # the fields of all servers and of the symbols of a group add up in phase, each by its share
        loss += fibre_db + preprocessing_loss_db(task, process)[0]
        loss += 20 * math.log10(float(task.symbol_shares[0]) / task.servers)
        heaters, fibres = words, words + task.servers + 3
    elif outside:
        loss, fibres = loss + fibre_db, into
    if last:
        loss += fibre_db + levels * splitter_db + 10 * math.log10(2**levels)
        fibres += received
    else:
        loss += process.device("mmi2x2").parameter("loss_db") + (fibre_db if outside else 0.0)
        heaters, fibres = heaters + out, fibres + (2 * out if outside else 0)
    heaters += mesh.heaters
    # the blocks of the first layer share the preprocessing unit P, those of the last layer the output tree T
    strips = 1 if first or last else mesh.strips
    area = mesh.area_mm2 + beside_mm2(fibres, heaters, process)
    return replace(mesh, strips=strips, heaters=heaters, fibres=fibres, loss_db=loss, area_mm2=area)


def _dies(layers: Sequence[LayerSize], process: Process) -> tuple[list[list[LayerSize]], DieSize, str]:
    """Distribute the layers over dies by area and pads; returns the layers of each die, the outline and the fit.

    Layers keep their order and are not divided. Where a layer is too large for any die, each layer gets its own.
    """
    for die in process.dies:
        size = (float(die.width_um), float(die.height_um))
        if _has_capacity(size, layers, process):
            return [list(layers)], size, die.fit
    size = largest_die(process)
    if not all(_has_capacity(size, [layer], process) for layer in layers):
        return [[layer] for layer in layers], size, "not buildable"
    dies: list[list[LayerSize]] = [[]]
    for layer in layers:
        if not _has_capacity(size, [*dies[-1], layer], process):
            dies.append([])
        dies[-1].append(layer)
    return dies, size, "multi-die"


def _has_capacity(size: DieSize, layers: Sequence[LayerSize], process: Process) -> bool:
    capacity_mm2, pads = size[0] * size[1] / 1e6, pad_capacity(process, size)
    return sum(layer.area_mm2 for layer in layers) <= capacity_mm2 and _pads(layers, process) <= pads


def _pads(layers: Sequence[LayerSize], process: Process) -> int:
    """Pads or bumps of a die: one for each heater, and those of the grounds; with bumps every strip has a ground."""
    grounds = LOCAL_PADS * sum(layer.strips for layer in layers) if process.pads.wiring == "flipchip" else PADS
    return grounds + sum(layer.heaters for layer in layers)


def _limits(dies: list[list[LayerSize]], size: DieSize, fit: str, process: Process) -> dict[str, LimitNumbers]:
    """Limits on the area of all dies, of which one is allowed, and on pads and power of the fullest die."""
    capacity = size[0] * size[1] / 1e6
    area = sum(layer.area_mm2 for die in dies for layer in die)
    power = mean_heater_w(process) * max(sum(layer.heaters for layer in die) for die in dies)
    if fit == "not buildable":
        scope = "the largest layer alone; "
    else:
        scope = f"the fullest of {len(dies)} dies; " if len(dies) > 1 else ""
    text = f"one die; cells, fibre couplers and pads without wires; limit: {size[0] / 1e3:g} × {size[1] / 1e3:g} mm"
    several = f"{len(dies)} dies" if len(dies) > 1 else ""
    pads = pads_limit(process, max(_pads(die, process) for die in dies), [size])
    drive = "every heater at the middle of its range"
    return {
        "size": LimitNumbers(
            value=area,
            limit=capacity,
            unit="mm²",
            holds=not several and area <= capacity,
            assumption=text,
            detail=several,
        ),
        "pads": pads.model_copy(update={"assumption": scope + pads.assumption}),
        "power": power_limit(process, power, capacity, scope + drive),
    }


def matrix_size(name: str, target: MatrixTarget, process: Process, shape: MeshShape = RECTANGLE) -> NetworkSize:
    """Estimate the size of a matrix's chip: one layer between input and output fibres.

    The factors are those of a build, so that the values of the matrix determine whether there are one or two meshes. If
    fields are read, every output has a phase shifter. Which noise a matrix tolerates depends on its use, so that loss
    is stated and not judged.
    """
    factors = factor_matrix(target, process, shape)
    meshes = [(mesh.modes, int(mesh.column.max(initial=-1)) + 1) for mesh in factors.meshes]
    attenuators, shifters = factors.attenuators, target.outputs * (target.read == "field")
    columns = sum(count for _, count in meshes) + (attenuators > 0)
    heaters = 2 * sum(int(mesh.row.size) for mesh in factors.meshes) + attenuators + shifters
    fibres = target.inputs + target.outputs
    fibre_db = process.device(process.fibres.coupler).parameter("loss_db")
    shifter_db = process.device("phase_shifter").parameter("loss_db") if shifters else 0.0
    layer = LayerSize(
        strips=1,
        mzis=factors.mzis,
        heaters=heaters,
        fibres=fibres,
        columns=columns,
        loss_db=columns * mzi_loss_db(process) + 2.0 * fibre_db + shifter_db,
        area_mm2=cells_mm2(sum(modes * count for modes, count in meshes), attenuators, process)
        + beside_mm2(fibres, heaters, process),
    )
    return size_of_layers(name, (target.inputs, target.outputs), [layer], process, None)
