"""Other silicon and other layers beside guides and devices are faults, at every distance at which they matter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.cards import Process, load_process
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract.extractor import _strip_rule
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
