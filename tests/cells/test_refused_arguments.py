"""Arguments of cells that are not valid are refused before anything is drawn."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import gdsfactory as gf
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cells import CELLS

PROCESS = load_process()
RADIUS_UM = float(PROCESS.guide.radius_um)
BAD_LENGTHS = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 0.0004, 10.0003, 1e6, 1e300, True, "10")
BAD_NUMBERS = (float("nan"), float("inf"), -1.0, 0.00005, 2e6, True, "9")
CORE, SLAB = (PROCESS.layers[name].gds for name in ("core", "slab"))
TWO_STRIPS = partial(
    gf.cross_section.cross_section, width=0.45, layer=CORE, cladding_layers=(SLAB,), cladding_offsets=(2.0,)
)


@pytest.fixture(autouse=True)
def _nothing_is_drawn(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.callspec.params.get("value") is True:
        # gdsfactory would find a cell of length 1.0 in its cache, as True equals 1.0
        gf.clear_cache()
    before = gf.kcl.layout.cells()
    yield
    assert gf.kcl.layout.cells() == before


@pytest.mark.parametrize("value", BAD_LENGTHS)
@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("straight", "length"),
        ("straight", "width"),
        ("wire_straight", "length"),
        ("wire_corner", "width"),
        ("bend_circular", "radius"),
        ("bend_euler", "radius"),
        ("phase_shifter", "length_um"),
        ("straight_heater_metal", "length"),
        ("taper", "length"),
        ("taper", "width1"),
        ("taper", "width2"),
        ("pad", "size"),
    ],
)
def test_lengths_that_are_not_valid_are_refused(name: str, argument: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: {argument} is "):
        CELLS[name](**{argument: value})


@pytest.mark.parametrize("value", BAD_NUMBERS)
@pytest.mark.parametrize(
    ("cell", "parameter", "arguments"),
    [
        ("heater_test", "length_um", lambda bad: {"length_um": bad}),
        ("die_frame", "width_um", lambda bad: {"width_um": bad}),
        ("die_frame", "height_um", lambda bad: {"height_um": bad}),
        ("cutback", r"lengths\[1\]", lambda bad: {"lengths": (2000.0, bad)}),
        ("fibre_array", "count", lambda bad: {"count": bad}),
        ("mesh", "modes", lambda bad: {"modes": bad}),
        ("mesh_column", "modes", lambda bad: {"modes": bad}),
        ("mesh_column", "column", lambda bad: {"modes": 5, "column": bad}),
        ("splitter_tree", "leaves", lambda bad: {"leaves": bad}),
    ],
)
def test_numbers_that_are_not_valid_are_refused(cell: str, parameter: str, arguments: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{cell}: {parameter} is "):
        CELLS[cell](**arguments(value))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("straight", {"width": 0.451}, "width is 0.451 µm, .* even number of nm"),
        ("straight", {"npoints": 1}, "npoints is 1, .* 2 to"),
        ("straight", {"cross_section": TWO_STRIPS}, "not one centred strip"),
        ("bend_circular", {"radius": RADIUS_UM - 1}, rf"radius is {RADIUS_UM - 1:.3f} µm.* {RADIUS_UM} µm"),
        ("bend_circular", {"angle": 45}, "angle is 45; .* 90, 180, -90 or -180"),
        ("bend_circular", {"npoints": 50, "angular_step": 1.0}, "npoints is 50 and angular_step is 1.0; give one"),
        ("bend_circular", {"angular_step": 0.0}, "angular_step is 0.0°, outside"),
        ("bend_circular", {"cross_section": "wire"}, "radius is None, .* has no radius"),
        ("bend_euler", {"p": 1.5}, "p is 1.5, outside 0 to 1"),
        ("bend_euler", {"with_arc_floorplan": True}, rf"smallest radius of curvature is .*{RADIUS_UM} µm"),
        ("bend_s", {"size": (15.0, 25.0)}, rf"bend radius is 7\.500 µm.* {RADIUS_UM} µm"),
        ("bend_s", {"size": 15.0}, r"size is 15\.0, not two lengths"),
        ("bend_s", {"size": (0.0, 5.0)}, r"size\[0\] is 0\.0 µm"),
        ("bend_s", {"size": (40.0, 5.0003)}, r"size\[1\] is 5\.0003 µm, off the 1 nm grid"),
        ("mmi1x2", {"cross_section": "wire"}, "is 4.0 µm wide on layer metal; .* 0.45 µm on layer core"),
        ("mmi2x2", {"cross_section": {"cross_section": "strip", "settings": {"width": 0.5}}}, "is 0.5 µm wide"),
        ("grating_coupler", {"cross_section": "wire"}, "layer metal"),
        ("straight_heater_metal", {"length": 20.0}, "length is 20.0 µm, outside 25.0"),
        ("pad", {"size": (80.0,)}, r"size is \(80\.0,\), not a width and a height"),
        ("mesh", {"modes": 1}, "modes is 1, .* 2 to"),
        ("mesh", {"modes": 10**6}, "modes is 1000000, .* 2 to"),
        ("mesh_column", {"modes": 4, "column": 4}, "column is 4, .* 0 to 3"),
        ("splitter_tree", {"leaves": 6}, "leaves is 6;.* 2, 4, 8"),
        ("splitter_tree", {"leaves": 2**20}, "leaves is 1048576, .* 2 to"),
        ("fibre_array", {"count": 2}, "count is 2, .* 3 to"),
        ("fibre_array", {"count": 10**9}, "count is 1000000000, .* 3 to"),
        ("heater_test", {"length_um": 50.0}, "length_um is 50.0 µm, .* 88.0 to"),
        ("cutback", {"lengths": (2000.0,)}, r"lengths is \(2000\.0,\);"),
        ("cutback", {"lengths": "long"}, "lengths is 'long';"),
        ("cutback", {"lengths": (500.0, 20_000.0)}, "lengths has 500.0 µm,.* µm"),
        ("die_frame", {"name": "../evil"}, "name is .*/evil';.* 32 "),
        ("die_frame", {"name": "n" * 33}, "name is 'n{33}';.* 32 "),
        ("die_frame", {"name": ""}, "name is '';.* 32 "),
        ("die_frame", {"name": 7}, "name is 7;.* 32 "),
        ("coupler", {"dx": 5.0}, ""),
        ("coupler", {"dy": 0.5}, ""),
        ("coupler", {"gap": 0.0}, ""),
        ("coupler", {"gap": 0.20005}, ""),
        ("coupler", {"bend": "bend_euler"}, ""),
        ("coupler", {"cross_section": "wire"}, ""),
        ("coupler_straight", {"length": 0.0}, ""),
        ("coupler_ring", {"bend": "bend_s"}, ""),
        ("coupler_ring", {"straight": "wire"}, ""),
        ("coupler_ring", {"length_extension": 5.0}, ""),
        ("coupler_ring_bend", {"radius": 8.0}, ""),
        ("coupler_ring_bend", {"coupling_angle_coverage": 150.0}, ""),
        ("coupler_ring_bend", {"coupling_angle_coverage": "all"}, ""),
        ("coupler_ring_bend", {"bend_output": "bend_euler"}, ""),
        ("ring_single_bend_coupler", {"bend": "bend_euler"}, ""),
        ("ring_single_bend_coupler", {"length_y": -1.0}, ""),
        ("ring_single", {"length_y": -1.0}, ""),
        ("ring_single", {"coupler_ring": "coupler"}, ""),
        ("ring_double", {"length_y": 0.0}, ""),
    ],
)
def test_arguments_that_cannot_be_drawn_are_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: .*{message}"):
        CELLS[name](**arguments)
