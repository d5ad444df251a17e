"""Which silicon is part of which guide: the same as a Boolean operation on all of it finds."""

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_netlist
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract.metal_nets import inner_point
from optinc_pdk.extract.polygons import PolygonIndex, region_polygons
from optinc_pdk.networks import carry_chain
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.report.extracted_names import ExtractedNames
from optinc_pdk.report.layout_application import read_process_shapes
from optinc_pdk.report.layout_guides import LayoutGuides, layout_guides
from optinc_pdk.report.layout_shapes import LayoutShapes, flat_polygons
from optinc_pdk.signoff.lvs.comparison import compare

PROCESSES = ("soi220", "soi220_two_metal", "soi220_flipchip_onchip")


@pytest.fixture(scope="module", params=PROCESSES)
def chip(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Extraction, ExtractedNames, LayoutShapes, LayoutGuides]:
    folder, process = tmp_path_factory.mktemp(request.param), load_process(request.param)
    assert build(carry_chain(Averaging(2, 4, 1)), folder, BuildOptions(name="small", process=request.param)).passed
    gds = Path(folder, "small.gds")
    extraction, netlist = extract(gds, process), read_netlist(gds.with_suffix(".pic.yml"))
    names = ExtractedNames.of(extraction, netlist, compare(netlist, extraction, process))
    shapes = read_process_shapes(gds, process)
    return extraction, names, shapes, layout_guides(extraction, names, shapes, process)


@pytest.mark.full(every=3)
def test_guides_are_those_of_a_boolean_operation(
    chip: tuple[Extraction, ExtractedNames, LayoutShapes, LayoutGuides],
) -> None:
    extraction, _, shapes, guides = chip
    wiring = extraction.heater_wiring
    assert wiring is not None
    bodies = [polygon for placement in extraction.placements for polygon in placement.core]
    rest = wiring.mask.silicon() - kdb.Region(bodies + [kdb.Polygon(heater.guide) for heater in wiring.heaters])
    pieces = region_polygons(rest)
    assert len(pieces) == len(guides.ends) == extraction.silicon["guides"]
    drawn = flat_polygons(shapes, "core")
    at = PolygonIndex(pieces).at(np.array([inner_point(polygon) for polygon in drawn]))
    owners = np.concatenate([each.ravel() for each in guides.owners])
    # equal numbers of one are equal numbers of the other, and -1 is -1
    pairs = set(zip(at.tolist(), owners.tolist(), strict=True))
    assert len(pairs) == len({piece for piece, _ in pairs}) == len({guide for _, guide in pairs})
    assert (-1, -1) in pairs
    left, bottom, right, top = guides.stub_boxes.T
    stubs = PolygonIndex(pieces).at(np.column_stack([(left + right) // 2, (bottom + top) // 2]))
    assert (stubs >= 0).all()
    piece_of = {guide: piece for piece, guide in pairs}
    for guide, piece in zip(guides.stub_guide.tolist(), stubs.tolist(), strict=True):
        assert piece_of.setdefault(guide, piece) == piece
    assert set(piece_of) - {-1} == set(range(len(guides.ends)))


@pytest.mark.full(every=3)
def test_guides_end_at_ports_of_the_netlist(
    chip: tuple[Extraction, ExtractedNames, LayoutShapes, LayoutGuides],
) -> None:
    extraction, names, _, guides = chip
    ports = {
        f"{name},{port}"
        for name, kind in zip(names.names, extraction.circuit.kind.tolist(), strict=True)
        for port in extraction.circuit.kinds[kind].optical
    }
    ends = [end for pair in guides.ends for end in pair]
    assert set(ends) <= ports and len(set(ends)) == len(ends)
    assert sum(guides.length_um) == pytest.approx(extraction.silicon["guide_length_um"])


def test_an_extraction_without_layout_is_refused(
    chip: tuple[Extraction, ExtractedNames, LayoutShapes, LayoutGuides],
) -> None:
    extraction, names, shapes, _ = chip
    bare = Extraction(extraction.circuit, (), {})
    with pytest.raises(ValueError, match="no layout; extract the layout with extract"):
        layout_guides(bare, names, shapes, load_process("soi220"))
