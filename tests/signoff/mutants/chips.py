"""The chips that are mutated: small, of four processes, each with an exact average.

They differ in wiring, realisation and fibre couplers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.circuit import Bias, Circuit
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.layout import lay_out_network, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.electrical.wiring import read_wiring
from optinc_pdk.signoff.function import FunctionResult, check_function
from optinc_pdk.simulate import program

Texts = tuple[tuple[str, str, int, int], ...]


@dataclass(frozen=True, eq=False)
class Base:
    """A chip with its written layout and the references of its checks.

    Attributes:
        name: Name of the chip.
        process: Its process.
        onn: Its network.
        circuit: Its netlist.
        gds: Its layout file.
        extraction: Circuit extracted from that file.
        bias: Bias of its electronics.
        function: Result of its function check.
    """

    name: str
    process: Process
    onn: AveragingNetwork
    circuit: Circuit
    gds: Path
    extraction: Extraction
    bias: Bias
    function: FunctionResult

    @cached_property
    def layout(self) -> kdb.Layout:
        """The file's layout; copies of it are mutated."""
        layout = kdb.Layout()
        layout.read(str(self.gds))
        return layout

    @cached_property
    def shapes(self) -> dict[tuple[int, int], kdb.Region]:
        """Merged shapes of the file by GDS layer."""
        return merged(self.layout)

    @cached_property
    def texts(self) -> Texts:
        """Texts of the file."""
        return texts(self.layout)

    def region(self, layer: str) -> kdb.Region:
        """A layer's merged shapes."""
        return self.shapes.get(self.process.gds_layers[layer], kdb.Region())


def merged(layout: kdb.Layout) -> dict[tuple[int, int], kdb.Region]:
    """Merged shapes of a layout by GDS layer, of all top cells."""
    found: dict[tuple[int, int], kdb.Region] = defaultdict(kdb.Region)
    for index in layout.layer_indexes():
        info = layout.get_info(index)
        for top in layout.top_cells():
            found[info.layer, info.datatype] += kdb.Region(top.begin_shapes_rec(index))
    return {key: region.merged() for key, region in found.items() if not region.is_empty()}


def texts(layout: kdb.Layout) -> Texts:
    """Texts of a layout with their layers and positions, sorted."""
    found = []
    for index in layout.layer_indexes():
        for top in layout.top_cells():
            for text in kdb.Texts(top.begin_shapes_rec(index)).each():
                found.append((str(layout.get_info(index)), text.string, text.x, text.y))
    return tuple(sorted(found))


def _spread() -> AveragingNetwork:
    """One symbol of two servers, distributed to four units and summed again."""
    v = np.random.default_rng(5).uniform(0.5, 1.0, (4, 1))
    layers = (Layer(v, -0.25 * v[:, 0]), Layer(v.T / np.sum(v**2), np.zeros(1)))
    return AveragingNetwork(layers, Averaging(2, 2, 1))


def _blocks() -> AveragingNetwork:
    """Two symbols through two blocks and back, summed on the chip through crossings; offsets keep ReLU linear."""
    turn = np.array([[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]])
    W = np.vstack([turn, -turn])
    layers = (Layer(W, np.full(4, 4.5)), Layer(W.T / 2, np.zeros(2)))
    return AveragingNetwork(layers, Averaging(4, 1, 2), (("approx", 2), ("approx", 2)))


def _odd() -> AveragingNetwork:
    """One symbol of three servers over three units: a mesh with an odd number of modes and an unused fibre."""
    v = np.random.default_rng(5).uniform(0.5, 1.0, (3, 1))
    layers = (Layer(v, -v[:, 0] / 3), Layer(v.T / np.sum(v**2), np.zeros(1)))
    return AveragingNetwork(layers, Averaging(2, 3, 1))


# Process, network, and width and height in µm of the only die size if it is not the card's; the narrow chip has 3 dies.
CHIPS = {
    "perimeter": ("soi220", _spread, None),
    "bumps": ("soi220_flipchip_onchip", _blocks, None),
    "two_metal": ("soi220_two_metal", _odd, (2600.0, 4000.0)),
    "edges": ("soi220_fast", _spread, None),
}


def narrowed(process: Process, die_um: tuple[float, float]) -> Process:
    """A process that offers one die of a size."""
    sizes = {"width_um": Quantity(die_um[0], "test"), "height_um": Quantity(die_um[1], "test")}
    return process.model_copy(update={"dies": (process.dies[-1].model_copy(update=sizes),)})


def build(name: str, folder: Path) -> Base:
    """Lay a chip out, write it, extract and program it.

    Raises:
        RuntimeError: The chip has no board, or reads a wrong word before any mutation.
    """
    process_name, network, die_um = CHIPS[name]
    process = load_process(process_name)
    get_pdk(process_name).activate()
    if die_um is not None:
        process = narrowed(process, die_um)
    onn = network()
    circuit, chip = lay_out_network(onn, process, name)
    gds = folder / f"{name}.gds"
    write_gds(to_layout(chip, process, name), gds)
    extraction = extract(gds, process)
    if circuit.board is None:
        raise RuntimeError(f"{name}: no board")
    ground = read_wiring(gds, process).common_ground
    bias = program(extraction.circuit, circuit.board, onn, process, ground=ground).bias
    function = check_function(extraction.circuit, circuit.board, bias, onn.task, process, ground)
    if not function.passed:
        raise RuntimeError(f"{name}: {function.exact} of {function.inputs} words are right before any mutation")
    return Base(name, process, onn, circuit, gds, extraction, bias, function)
