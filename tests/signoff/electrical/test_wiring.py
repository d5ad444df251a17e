"""The wiring of a layout is the same from an extraction as from the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import load_process
from optinc_pdk.extract import extract
from optinc_pdk.layout import floorplan, to_layout, write_gds
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.electrical.wiring import read_wiring, wiring_of


@pytest.mark.parametrize("name", ["soi220", "soi220_flipchip"])
def test_an_extraction_carries_its_wiring(name: str, tmp_path: Path) -> None:
    process = load_process(name)
    get_pdk(name).activate()
    path = tmp_path / "chip.gds"
    write_gds(to_layout(floorplan(mesh_chip(4, process, "chip"), process), process, "chip"), path)
    extraction = extract(path, process)
    path.unlink()
    carried = wiring_of(extraction, process)
    write_gds(to_layout(floorplan(mesh_chip(4, process, "chip"), process), process, "chip"), path)
    read = read_wiring(path, process)
    assert carried.labels == read.labels
    assert len(carried.labels) == len(extraction.circuit.instances_of("phase_shifter"))
    for key in ("signal", "ground", "resistance_ohm", "wire_ohm", "ends_nm"):
        assert np.array_equal(getattr(carried, key), getattr(read, key)), key
    assert np.array_equal(carried.rise_v(np.full(len(read.labels), 1e-3)), read.rise_v(np.full(len(read.labels), 1e-3)))
    with pytest.raises(ValueError, match=r"extract\(\)"):
        wiring_of(replace(extraction, heater_wiring=None), process)
