"""Guides that pass devices which they do not join, where design rules exempt guides from their space."""

from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb
import pytest

import optinc_pdk as op
from optinc_pdk.cards import load_process
from optinc_pdk.extract import Extraction, extract

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
