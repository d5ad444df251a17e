"""How large a network's chip is, before any layout: what its meshes, pads and light come to.

A network is its layers' shapes and how each is factored; weights only say how much noise it tolerates. Areas are those
of the cells, pads and gratings themselves: wires, channels and fans come on top, so a real chip is larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from optinc_pdk.assemble.grounds import LOCAL_PADS, PADS
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.cells.interferometers import attenuator_frame, mzi_frame
from optinc_pdk.factor.counts import block_trees, svd_mzis, unitary_diagonal_mzis, unitary_mzis
from optinc_pdk.onn import Factor, Onn
from optinc_pdk.onn.noise import tolerated_field_noise
from optinc_pdk.report.light import LightBudget, light_budget
from optinc_pdk.report.limits import Limit, Size, largest_die, loss_limit, pad_capacity, pads_limit, power_limit

PAPER = {
    (8, 4): ((4, 64, 128, 256, 128, 64, 4), (1, 2, 3, 4, 5, 6)),
    (8, 8): ((4, 64, 128, 256, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7)),
    (8, 16): ((4, 64, 128, 256, 512, 1024, 512, 256, 128, 64, 4), (2, 3, 4, 5, 6, 7, 8, 9)),
    (16, 4): ((4, 64, 128, 256, 512, 256, 128, 64, 8), (4, 5, 6)),
}
"""By bits and servers, widths and approximated layers, from 1, of arXiv 2603.28290, Table I."""


@dataclass(frozen=True)
class LayerSize:
    """One layer on the chip, with what comes before and after it up to modulators and detectors.

    Attributes:
        strips: How many strips it is, each of which may stand on its own.
        mzis: By the paper's count.
        heaters: Two an MZI, one an attenuator, and the trims.
        fibres: Grating couplers.
        columns: MZIs and attenuators that light passes one after another.
        loss_db: Modulator to detector, of what full scale loses.
        area_mm2: Meshes, gratings, and pads where these lie beside the meshes.
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
    """A network against the three limits.

    Attributes:
        name: Whose network it is.
        structure: Widths from inputs to outputs.
        layers: Layer by layer.
        pads: Pads or bumps, grounds included.
        power_w: All heaters at the middle of their range.
        column_db: Loss of one MZI.
        dies: Dies that area and pads ask for; 0 where a layer alone is too large.
        fit: What that is called.
        limits: Area, pads and power of the fullest die, or of the largest layer where that fits no die; loss.
        light: The light budget; None where no light is enough, or the process card has no budget.
    """

    name: str
    structure: tuple[int, ...]
    layers: tuple[LayerSize, ...]
    pads: int
    power_w: float
    column_db: float
    dies: int
    fit: str
    limits: dict[str, Limit]
    light: LightBudget | None

    @property
    def mzis(self) -> int:
        """MZIs by the paper's count."""
        return sum(layer.mzis for layer in self.layers)

    @property
    def heaters(self) -> int:
        """All heaters."""
        return sum(layer.heaters for layer in self.layers)

    @property
    def area_mm2(self) -> float:
        """Area of all layers."""
        return sum(layer.area_mm2 for layer in self.layers)

    @property
    def missed(self) -> tuple[str, ...]:
        """Names of the limits that do not hold."""
        return tuple(name for name, limit in self.limits.items() if limit.holds is False)


def column_loss_db(process: Process) -> float:
    """Loss of one MZI: two couplers, two heaters, and a guide as long as the cell."""
    guide = mzi_frame(process).end * 1e-4 * float(process.guide.loss_db_per_cm)
    coupler, heater = process.device("mmi2x2"), process.device("phase_shifter")
    return 2 * coupler.parameter("loss_db") + 2 * heater.parameter("loss_db") + guide


def mean_heater_w(process: Process) -> float:
    """Power of a heater at the middle of its range."""
    heater = process.device("phase_shifter")
    return heater.parameter("power_pi_w") * float(heater.limits["phase_max_rad"]) / 2 / math.pi


def onn_size(name: str, onn: Onn, process: Process) -> NetworkSize:
    """The size of a network whose weights are known."""
    noise = 0.0 if process.budget is None else tolerated_field_noise(onn, float(process.budget.margin_sigmas))
    return network_size(name, onn.task, onn.structure, onn.factor, process, noise)


def paper_sizes(task: Averaging, process: Process) -> list[NetworkSize]:
    """The paper's network for a task, in full and approximated; none where the paper has none.

    Its weights are not public, so the process card says what noise it is taken to bear.
    """
    if (task.bits, task.servers) not in PAPER:
        return []
    widths, approximated = PAPER[task.bits, task.servers]
    shapes = list(zip(widths[1:], widths, strict=False))
    full: tuple[Factor, ...] = tuple("svd" for _ in shapes)
    blocks: tuple[Factor, ...] = tuple(
        ("approx", min(shape)) if i in approximated else "svd" for i, shape in enumerate(shapes, start=1)
    )
    how = {"paper, full SVD": full, "paper, approximated": blocks}
    noise = 0.0 if process.budget is None else float(process.budget.field_noise)
    return [network_size(name, task, widths, factor, process, noise) for name, factor in how.items()]


def network_size(
    name: str, task: Averaging, structure: Sequence[int], factor: Sequence[Factor], process: Process, noise: float
) -> NetworkSize:
    """The size of a network from its structure alone.

    Args:
        name: Whose network it is.
        task: What it computes; gives fibres, and the trees before and after.
        structure: Widths from inputs to outputs.
        factor: Per layer, "svd" or ("approx", block).
        process: Process card.
        noise: Field noise that the network bears; 0 where no noise is borne.
    """
    last = len(factor) - 1
    layers = []
    for i, (into, out, method) in enumerate(zip(structure, structure[1:], factor, strict=False)):
        layers.append(_ends(_mesh(out, into, method, process), out, into, task, (i == 0, i == last), process))
    dies, outline, fit = _dies(layers, process)
    loss = tuple(layer.loss_db for layer in layers)
    return NetworkSize(
        name=name,
        structure=tuple(structure),
        layers=tuple(layers),
        pads=_pads(layers, process),
        power_w=mean_heater_w(process) * sum(layer.heaters for layer in layers),
        column_db=column_loss_db(process),
        dies=0 if fit == "not buildable" else len(dies),
        fit=fit,
        limits=_limits(dies, outline, fit, process) | {"loss": loss_limit(process, loss, noise)},
        light=light_budget(process, noise, loss) if noise > 0.0 else None,
    )


def _columns(modes: int) -> int:
    """Columns of a rectangular mesh, as `rectangular_slots` makes them."""
    return modes if modes > 2 else modes - 1


def _mesh(out: int, into: int, method: Factor, process: Process) -> LayerSize:
    """The linear block alone: one pair of meshes, or a mesh a block with the trees that join blocks."""
    if isinstance(method, str):
        meshes, attenuators, mzis, trees_db = [into, out], min(out, into), svd_mzis(out, into), 0.0
        strips = 1
        columns = _columns(into) + 1 + _columns(out)
    else:
        block = method[1]
        count = -(-out // block) * -(-into // block)
        meshes, attenuators, strips = [block] * count, block * count, count
        mzis = unitary_diagonal_mzis(out, into, block)
        trees_db = block_trees(out, into, block, process.device("mmi1x2").parameter("loss_db")).loss_db
        columns = _columns(block) + 1
    pitch = float(process.floorplan.mode_pitch_um)
    length = mzi_frame(process).end * sum(modes * _columns(modes) for modes in meshes)
    length += attenuator_frame(process).end * attenuators
    return LayerSize(
        strips=strips,
        mzis=mzis,
        heaters=2 * sum(unitary_mzis(modes) for modes in meshes) + attenuators,
        fibres=0,
        columns=columns,
        loss_db=columns * column_loss_db(process) + trees_db,
        area_mm2=length * pitch / 1e6,
    )


def _ends(mesh: LayerSize, out: int, into: int, task: Averaging, end: tuple[bool, bool], process: Process) -> LayerSize:
    """A linear block with what brings its light and takes it; ``end`` says whether it is the first and the last."""
    first, last = end
    outside = process.activation.realisation == "offchip"
    splitter_db, grating_db = (process.device(name).parameter("loss_db") for name in ("mmi1x2", "grating_coupler"))
    levels, words = (task.servers - 1).bit_length(), task.servers * task.symbols
    heaters = fibres = 0
    loss = mesh.loss_db
    if first:
        # the servers' fields add up: as many in phase as there are servers, through a tree of 2^levels leaves
        loss += grating_db + levels * splitter_db + 10 * math.log10(2**levels / task.servers**2)
        heaters, fibres = words, words + task.servers + 3
    elif outside:
        loss, fibres = loss + grating_db, into
    if last:
        loss, fibres = loss + grating_db + levels * splitter_db + 10 * math.log10(2**levels), fibres + words
    else:
        loss += process.device("mmi2x2").parameter("loss_db") + (grating_db if outside else 0.0)
        heaters, fibres = heaters + out, fibres + (2 * out if outside else 0)
    heaters += mesh.heaters
    grating = process.device("grating_coupler")
    length = grating.size("taper_length_um") + grating.size("periods") * grating.size("period_um")
    beside = fibres * float(process.floorplan.fibre_pitch_um) * length
    if process.pads.wiring == "perimeter":
        beside += heaters * float(process.pads.pitch_um) ** 2
    # blocks of the first layer share P, those of the last T
    strips = 1 if first or last else mesh.strips
    area = mesh.area_mm2 + beside / 1e6
    return replace(mesh, strips=strips, heaters=heaters, fibres=fibres, loss_db=loss, area_mm2=area)


def _dies(layers: Sequence[LayerSize], process: Process) -> tuple[list[list[LayerSize]], Size, str]:
    """The layers of every die by area and pads, the dies' outline, and what that is called.

    Layers follow one another; none is cut. Where one is too large for any die, every layer is taken for itself.
    """
    for die in process.dies:
        size = (float(die.width_um), float(die.height_um))
        if _holds(size, layers, process):
            return [list(layers)], size, die.fit
    size = largest_die(process)
    if not all(_holds(size, [layer], process) for layer in layers):
        return [[layer] for layer in layers], size, "not buildable"
    dies: list[list[LayerSize]] = [[]]
    for layer in layers:
        if not _holds(size, [*dies[-1], layer], process):
            dies.append([])
        dies[-1].append(layer)
    return dies, size, "multi-die"


def _holds(size: Size, layers: Sequence[LayerSize], process: Process) -> bool:
    room_mm2, pads = size[0] * size[1] / 1e6, pad_capacity(process, size)
    return sum(layer.area_mm2 for layer in layers) <= room_mm2 and _pads(layers, process) <= pads


def _pads(layers: Sequence[LayerSize], process: Process) -> int:
    """Pads or bumps of a die: one a heater, and those of the common ground, or of every strip's where it has bumps."""
    grounds = LOCAL_PADS * sum(layer.strips for layer in layers) if process.pads.wiring == "flipchip" else PADS
    return grounds + sum(layer.heaters for layer in layers)


def _limits(dies: list[list[LayerSize]], size: Size, fit: str, process: Process) -> dict[str, Limit]:
    """Area, pads and power of the fullest die."""
    room = size[0] * size[1] / 1e6
    area = max(sum(layer.area_mm2 for layer in die) for die in dies)
    power = mean_heater_w(process) * max(sum(layer.heaters for layer in die) for die in dies)
    if fit == "not buildable":
        whose = "the largest layer alone; "
    else:
        whose = f"the fullest of {len(dies)} dies; " if len(dies) > 1 else ""
    text = f"{whose}cells, gratings and pads without wires; limit: {size[0] / 1e3:g} × {size[1] / 1e3:g} mm"
    pads = pads_limit(process, max(_pads(die, process) for die in dies), [size])
    drive = "every heater at the middle of its range"
    return {
        "area": Limit(area, room, "mm²", area <= room, text),
        "pads": replace(pads, assumption=whose + pads.assumption),
        "power": power_limit(process, power, room, whose + drive),
    }
