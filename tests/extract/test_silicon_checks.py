"""Other silicon and other layers beside guides and devices are faults, at every distance at which they matter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb
import pytest

import optinc_pdk as op
from optinc_pdk.cards import Process, load_process
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract._extractor import _strip_rule
from optinc_pdk.extract.golden_devices import GoldenVariant, read_golden

GENERIC = Path(__file__).parents[2] / "examples" / "processes" / "generic"
PROCESSES = {
    name: load_process(name) for name in ("soi220", "soi220_two_metal", "cornerstone220", "soi220_fast", str(GENERIC))
}
DEVICES = [
    pytest.param(process, variant, id=f"{process.name}-{variant.name}")
    for process in PROCESSES.values()
    for variant in {variant.name: variant for variant in reversed(read_golden(process))}.values()
]
SOI = PROCESSES["soi220"]
# Distances at which every process has a rule, in nm.
DISTANCES_NM = (0, 50, 200, 250, 500, 800, 1000)
WIDTH_NM, APART_NM = 600, 200_000


class Drawing:
    """A flat layout in nm."""

    def __init__(self, process: Process) -> None:
        self.process, self.layout = process, kdb.Layout()
        self.top = self.layout.create_cell("TOP")

    def add(self, layer: str, *shapes: kdb.Box | kdb.Polygon | kdb.Region) -> None:
        for shape in shapes:
            self.top.shapes(self.layout.layer(*self.process.gds_layers[layer])).insert(shape)

    def place(self, variant: GoldenVariant, at: kdb.Vector) -> kdb.Box:
        self.add("core", *(polygon.moved(at) for polygon in variant.core))
        self.add(self.process.grating.layer, *(polygon.moved(at) for polygon in variant.etch))
        return kdb.Region(list(variant.core)).bbox().moved(at)

    def faults(self, folder: Path, kind: str) -> list[tuple[float, float]]:
        return sorted(fault.position_um for fault in self.read(folder).faults if fault.kind == kind)

    def read(self, folder: Path) -> Extraction:
        self.layout.write(str(folder / "drawn.gds"))
        return extract(folder / "drawn.gds", self.process)


def beside(box: kdb.Box, side: str, gap: int, width: int) -> kdb.Box:
    """A strip along a side of a box, at a distance."""
    return {
        "left": kdb.Box(box.left - gap - width, box.bottom, box.left - gap, box.top),
        "right": kdb.Box(box.right + gap, box.bottom, box.right + gap + width, box.top),
        "bottom": kdb.Box(box.left, box.bottom - gap - width, box.right, box.bottom - gap),
        "top": kdb.Box(box.left, box.top + gap, box.right, box.top + gap + width),
    }[side]


def sides(variant: GoldenVariant, guides: bool) -> list[str]:
    """The sides of a device's bounding box; without ``guides`` those at which no guide leaves it."""
    box = kdb.Region(list(variant.core)).bbox()
    middles = [(variant.points[edge] + variant.ends[edge]) / 2 for edge in variant.port_edges.values()]
    at = {
        "left": any(x == box.left for x, _ in middles),
        "right": any(x == box.right for x, _ in middles),
        "bottom": any(y == box.bottom for _, y in middles),
        "top": any(y == box.top for _, y in middles),
    }
    return [side for side in at if guides or not at[side]]


def around(
    drawing: Drawing, variant: GoldenVariant, layer: str, gaps: tuple[int, ...], guides: bool
) -> Iterator[tuple[int, float]]:
    """Place a device for every side and gap, with a strip beside it; yield the gap and the strip's y in µm."""
    # one below the other, because devices may be as long as a die is wide
    for number, (side, gap) in enumerate(product(sides(variant, guides), gaps)):
        box = drawing.place(variant, kdb.Vector(0, number * APART_NM))
        strip = beside(box, side, gap, WIDTH_NM)
        drawing.add(layer, strip)
        yield gap, strip.center().y / 1000


@pytest.mark.parametrize(("process", "variant"), DEVICES)
def test_a_guide_beside_a_device_is_foreign(process: Process, variant: GoldenVariant, tmp_path: Path) -> None:
    space = _strip_rule(process).space
    assert space == round(1000 * max(rule.value_um for rule in process.rules if rule.kind == "guide_space"))
    drawing = Drawing(process)
    gaps = (*(gap for gap in DISTANCES_NM if gap >= 200), space - 1, space)
    drawn = list(around(drawing, variant, "core", gaps, guides=False))
    found = [y for _, y in drawing.faults(tmp_path, "foreign")]
    for gap, place in drawn:
        assert any(abs(y - place) < APART_NM / 2000 for y in found) == (gap < space), (gap, place)
    # a terminator and an edge coupler have guides at one end, a crossing at all four
    assert drawn or variant.name == "crossing"


@pytest.mark.parametrize(("process", "variant"), DEVICES)
@pytest.mark.parametrize("layer", ["slab", "label"])
def test_a_layer_beside_a_device_is_reported(
    layer: str, process: Process, variant: GoldenVariant, tmp_path: Path
) -> None:
    if layer not in process.layers or process.layers[layer].reach_um is None:
        assert process.name == "generic"
        return
    reach = round(1000 * float(process.layers[layer].reach_um))
    drawing = Drawing(process)
    drawn = list(around(drawing, variant, layer, (*DISTANCES_NM, reach - 1, reach), guides=True))
    found = [y for _, y in drawing.faults(tmp_path, "slab" if layer == "slab" else "layer")]
    for gap, place in drawn:
        assert any(abs(y - place) < APART_NM / 2000 for y in found) == (gap < reach), (gap, place)


def mmi() -> GoldenVariant:
    return next(variant for variant in read_golden(SOI) if variant.name == "mmi1x2")


@pytest.mark.parametrize(
    ("out", "gap", "count"), [(5_000, 250, 1), (5_000, 799, 1), (5_000, 800, 0), (40_000, 800, 1), (40_000, 5_000, 0)]
)
def test_an_own_arm_that_comes_back_is_foreign_where_it_couples(out: int, gap: int, count: int, tmp_path: Path) -> None:
    drawing, variant = Drawing(SOI), mmi()
    box = drawing.place(variant, kdb.Vector(0, 0))
    ports = [(variant.points[edge] + variant.ends[edge]) // 2 for edge in variant.port_edges.values()]
    side = "right" if sum(int(x == box.right) for x, _ in ports) == 2 else "left"
    assert side == "right"
    x, y = max(((int(x), int(y)) for x, y in ports if x == box.right), key=lambda at: at[1])
    low = box.top + gap
    # out, up and back over the whole device; corners do not matter here
    arm = kdb.Region([kdb.Box(x, y - 225, x + out, y + 225), kdb.Box(x + out - 450, y - 225, x + out, low + 450)])
    arm.insert(kdb.Box(box.left, low, x + out, low + 450))
    drawing.add("core", arm.merged())
    assert len(drawing.faults(tmp_path, "foreign")) == count


def test_a_device_beside_another_is_foreign_to_both(tmp_path: Path) -> None:
    drawing, variant = Drawing(SOI), mmi()
    box = drawing.place(variant, kdb.Vector(0, 0))
    drawing.place(variant, kdb.Vector(0, box.height() + 1_000))
    assert len(drawing.faults(tmp_path, "foreign")) == 2


def test_corners_of_a_layer_are_measured_along_the_diagonal(tmp_path: Path) -> None:
    for step, count in ((3_535, 1), (3_536, 0)):
        drawing = Drawing(SOI)
        drawing.add("core", kdb.Box(0, 0, 50_000, 450))
        drawing.add("slab", kdb.Box(50_000 + step, 450 + step, 70_000, 20_000))
        assert len(drawing.faults(tmp_path, "slab")) == count


def test_slab_inside_a_ring_is_reported(tmp_path: Path) -> None:
    for gap, count in ((0, 1), (50, 1), (1_000, 1), (5_010, 0)):
        drawing = Drawing(SOI)
        circles = [kdb.Polygon.ellipse(kdb.Box(-r, -r, r, r), 256) for r in (20_450, 20_000, 20_000 - gap)]
        drawing.add("core", kdb.Region(circles[0]) - kdb.Region(circles[1]))
        drawing.add("slab", circles[2])
        assert len(drawing.faults(tmp_path, "slab")) == count


def test_slab_over_a_guide_and_beside_it_are_two_faults(tmp_path: Path) -> None:
    drawing = Drawing(SOI)
    drawing.add("core", kdb.Box(0, 0, 50_000, 450))
    drawing.add("slab", kdb.Box(10_000, -10_000, 12_000, 10_000), kdb.Box(30_000, 950, 40_000, 2_000))
    texts = [fault.message for fault in drawing.read(tmp_path).faults if fault.kind == "slab"]
    assert [text.split(":")[0] for text in texts] == ["slab over silicon", "slab 0.500 µm beside guides or devices"]


def lowered(process: Process, layer: str, bottom_um: float) -> Process:
    """A process with a film at another height."""
    film = process.layers[layer].model_copy(update={"bottom_um": Quantity(bottom_um, "default")})
    return process.model_copy(update={"layers": {**process.layers, layer: film}})


def test_metal_matters_where_the_stack_brings_it_near(tmp_path: Path) -> None:
    low = lowered(SOI, "metal", 0.82)
    assert low.reach_um("metal") == pytest.approx(0.8)
    for process, gap, count in ((SOI, -100, 0), (low, -100, 1), (low, 799, 1), (low, 800, 0)):
        drawing = Drawing(process)
        drawing.add("core", kdb.Box(0, 0, 50_000, 450))
        drawing.add("metal", kdb.Box(10_000, 450 + gap, 40_000, 20_000))
        assert len(drawing.faults(tmp_path, "layer")) == count, gap


PROCESS = load_process()


def circuit(gap_um: float, cells: int) -> gf.Component:
    """A splitter and a combiner between gratings, and two straight guides beside them that end at gratings.

    Args:
        gap_um: Space between the two guides; they are 5.1 µm away from the bodies.
        cells: Number of cells of which each of the two guides consists.
    """
    op.PDK.activate()
    top = gf.Component()
    split, join = top << gf.get_component("mmi1x2"), top << gf.get_component("mmi1x2")
    join.connect("o3", split["o2"])
    end(top, split["o1"], 90)
    end(top, join["o1"], -90)
    low = split.dbbox().top + 5.1 + 0.225
    for y, angle in ((low, 0), (low + 0.45 + gap_um, 90)):
        parts = [top << gf.get_component("straight", length=60.0 / cells) for _ in range(cells)]
        for number, part in enumerate(parts):
            part.move((20.0 + 60.0 / cells * number, round(y, 3)))
        end(top, parts[0]["o1"], -angle)
        end(top, parts[-1]["o2"], angle)
    return top


def end(top: gf.Component, port: gf.Port, angle: int) -> None:
    """A grating behind a bend, or behind a straight guide that ends beyond the bends."""
    lead = gf.get_component("bend_euler", angle=angle) if angle else gf.get_component("straight", length=60.0)
    first, grating = top << lead, top << gf.get_component("grating_coupler")
    first.connect("o1", port)
    straight = top << gf.get_component("straight", length=80.0)
    straight.connect("o1", first["o2"])
    grating.connect("o1", straight["o2"])


def read(component: gf.Component, folder: Path, flat: bool = False) -> Extraction:
    component.write_gds(folder / "chip.gds")
    if flat:
        layout = kdb.Layout()
        layout.read(str(folder / "chip.gds"))
        layout.top_cell().flatten(-1, True)
        layout.write(str(folder / "chip.gds"))
    return extract(folder / "chip.gds", PROCESS)


@pytest.mark.parametrize(("cells", "flat"), [(1, False), (1, True), (6, False)])
@pytest.mark.parametrize(("gap_um", "faulty"), [(0.8, True), (4.999, True), (5.0, False)])
def test_guides_side_by_side_beside_a_circuit_keep_the_space(
    gap_um: float, faulty: bool, cells: int, flat: bool, tmp_path: Path
) -> None:
    """Cells that are placed several times are read once; their ends are no ends of guides."""
    faults = read(circuit(gap_um, cells), tmp_path, flat).faults
    assert [fault.kind for fault in faults] == ["foreign"] * 2 * faulty
    assert all(f"guide {gap_um:.3f} µm beside other silicon" in fault.message for fault in faults)


@pytest.mark.parametrize(("gap_um", "faulty"), [(0.8, True), (5.0, False)])
def test_arms_that_return_beside_their_devices_keep_the_space(gap_um: float, faulty: bool, tmp_path: Path) -> None:
    """The guides at both ends of a splitter and a combiner return over them, one above the other."""
    op.PDK.activate()
    top = gf.Component()
    split, join = top << gf.get_component("mmi1x2"), top << gf.get_component("mmi1x2")
    join.connect("o3", split["o2"])
    for port, angle, rise, length in ((join["o1"], 90, 1.0, 100.0), (split["o1"], -90, 1.45 + gap_um, 200.0)):
        for _ in range(2):
            bend = top << gf.get_component("bend_circular", radius=10.0, angle=angle)
            bend.connect("o1", port)
            straight = top << gf.get_component("straight", length=rise)
            straight.connect("o1", bend["o2"])
            port, rise = straight["o2"], length
        (top << gf.get_component("terminator")).connect("o1", port)
    faults = [fault for fault in read(top, tmp_path).faults if "beside other silicon" in fault.message]
    assert len(faults) == 2 * faulty
    assert all("up to 25 µm from its port" in fault.message for fault in faults)
