"""Lengths of guides are compared to 1 nm, and 1 nm for each bend; the result states tolerance and deviation."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gdsfactory as gf
import numpy as np
import pytest
from drawn_link import LENGTH_UM, PROCESS, draw, netlist

from optinc_pdk import active_pdk
from optinc_pdk.circuit.gdsfactory_netlists import placed_circuit
from optinc_pdk.extract import extract
from optinc_pdk.report.sign_off_results import length_lines
from optinc_pdk.signoff.extracted_chip import read_drawn_circuit
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare
from optinc_pdk.signoff.lvs.label_binding import extract_for

RAD_PER_NM = 2 * math.pi * float(PROCESS.guide.index) / float(PROCESS.guide.wavelength_nm)


def check(gds: Path, data: dict[str, Any]) -> LvsResult:
    result = read_drawn_circuit(gds, placed_circuit(data, PROCESS, "link"), PROCESS).lvs
    assert result is not None
    return result


@pytest.mark.parametrize(("extra_nm", "match"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_a_straight_may_differ_by_a_step_of_the_grid(tmp_path: Path, extra_nm: int, match: bool) -> None:
    result = check(draw(tmp_path), netlist(LENGTH_UM + extra_nm / 1000))
    assert result.match is match
    (lengths,) = result.to_json()["lengths"]
    assert (lengths["what"], lengths["count"], lengths["tolerance_nm"]) == ("guides", 2, [1.0, 1.0])
    assert lengths["deviation_nm"] == -extra_nm
    assert lengths["deviation_rad"] == pytest.approx(-extra_nm * RAD_PER_NM, abs=1e-4)
    assert lengths["tolerance_rad"] == pytest.approx([RAD_PER_NM] * 2, abs=1e-4)
    if extra_nm:
        assert "heater,o2 - east,o1" in lengths["at"] or "east,o1 - heater,o2" in lengths["at"]
        assert f"{-extra_nm:+.1f} nm" in length_lines(result)[0]


def meander(folder: Path, bends: int, length: float = 30.0) -> tuple[Path, dict[str, Any], str]:
    """Write a guide of some bends between two grating couplers; return its path, its netlist and its name."""
    with active_pdk():
        top = gf.Component()
        first, last = (top.add_ref(gf.get_component("grating_coupler"), name=name) for name in ("west", "east"))
        port = first["o1"]
        for number in range(bends + 1):
            straight = top << gf.get_component("straight", length=length)
            straight.connect("o1", port)
            port = straight["o2"]
            if number < bends:
                bend = top << gf.get_component("bend_euler", radius=10.0, angle=90)
                # up and down in turn
                if number % 4 in (1, 2):
                    bend.connect("o2", port)
                    port = bend["o1"]
                else:
                    bend.connect("o1", port)
                    port = bend["o2"]
        last.connect("o1", port)
        for name, coupler in (("in", first), ("out", last)):
            top.add_port(name, port=coupler["o2"])
        path = folder / "meander.gds"
        top.write_gds(path, with_metadata=False)
        return path, top.get_netlist(recursive=True), str(top.name)


@pytest.mark.parametrize("bends", [1, 4, 12])
def test_the_tolerance_grows_by_a_step_for_each_bend(tmp_path: Path, bends: int) -> None:
    gds, data, name = meander(tmp_path, bends)
    bound, extraction = extract_for(placed_circuit(data, PROCESS, name), gds, PROCESS)
    circuit = extraction.circuit
    stated = float(bound.reference.net_length_um[0])
    assert bound.reference.net_bends.tolist() == [bends]
    assert abs(float(circuit.net_length_um[0]) - stated) < bends * 0.8e-3
    for extra_nm, match in ((bends + 1, True), (bends + 2, False), (-bends - 1, True), (-bends - 2, False)):
        other = replace(circuit, net_length_um=np.array([stated + extra_nm / 1000]))
        result = compare(bound.reference, replace(extraction, circuit=other), PROCESS)
        assert result.match is match
        assert {each.kind for each in result.differences} == (set() if match else {"length"})
        if not match:
            assert f"{abs(extra_nm) * RAD_PER_NM:.3f} rad" in result.differences[0].message


def test_the_tolerance_does_not_grow_with_the_length(tmp_path: Path) -> None:
    gds = draw(tmp_path, 9_000.0)
    for length, match in ((9_000.0, True), (9_000.002, False)):
        data = netlist(length)
        data["placements"]["east"]["x"] += 9_000.0 - LENGTH_UM
        assert check(gds, data).match is match


def test_a_length_that_is_not_stated_is_in_no_summary(tmp_path: Path) -> None:
    result = check(draw(tmp_path), netlist(None))
    assert [each.count for each in result.lengths] == [1]
    assert result.unstated_lengths == 1


def test_extraction_of_the_same_layout_deviates_by_nothing(tmp_path: Path) -> None:
    extraction = extract(meander(tmp_path, 4)[0], PROCESS)
    result = compare(extraction.circuit, extraction, PROCESS)
    assert [each.deviation_um for each in result.lengths] == [0.0]
