"""Fibre couplers: where their fibres are and where light leaves, in every orientation, and their labels."""

from pathlib import Path

import gdsfactory as gf
import kfactory as kf
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.pdk import get_pdk

PROCESS = load_process("soi220")


def drawn(folder: Path, coupler: str, turn: kf.kdb.Trans, label: str) -> tuple[Extraction, gf.Port]:
    """Return the extraction of one coupler with a label, and the port to its fibre."""
    get_pdk("soi220").activate()
    top = gf.Component()
    placed = top << gf.get_component(coupler)
    placed.trans = turn
    port = placed.ports["o2"]
    top.add_label(label, position=port.dcenter, layer=PROCESS.gds_layers["label"])
    top.write_gds(folder / "coupler.gds")
    return extract(folder / "coupler.gds", PROCESS), port


@pytest.mark.parametrize("coupler", ["grating_coupler", "edge_coupler"])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("turns", range(4))
def test_the_fibre_is_at_the_port_of_the_cell(coupler: str, mirrored: bool, turns: int, tmp_path: Path) -> None:
    extraction, port = drawn(tmp_path, coupler, kf.kdb.Trans(turns, mirrored, 70_000, -3_000), "a")
    (fibre,) = extraction.fibres
    assert (fibre.label, fibre.kind, fibre.angle_deg) == ("a", coupler, port.orientation)
    assert np.allclose(fibre.fibre_um, port.dcenter, atol=1e-9)
    assert fibre.position_um == tuple(extraction.circuit.position_um[0])


def test_a_coupler_without_a_label_is_listed_with_an_empty_one(tmp_path: Path) -> None:
    get_pdk("soi220").activate()
    gf.get_component("grating_coupler").write_gds(tmp_path / "coupler.gds")
    assert [fibre.label for fibre in extract(tmp_path / "coupler.gds", PROCESS).fibres] == [""]
