"""Heaters with tapers and vias: their active part, resistance, contacts, and the faults of other forms."""

import math
from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb
import pytest

from optinc_pdk import active_pdk
from optinc_pdk.cards import CardError, load_process
from optinc_pdk.cards.technology import ContactCard
from optinc_pdk.cells import cells_of
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.extract.phase_shifters import part_of_constant_width, taper_squares

BASE = load_process()
SHIFTER = BASE.devices["phase_shifter"]
TAPER_UM = {"heater_taper_um": type(SHIFTER.geometry["length_um"])(5.0, "default")}
TAPERED = SHIFTER.model_copy(update={"geometry": {**SHIFTER.geometry, **TAPER_UM}})
# a layer that heaters do not use otherwise stands for the vias
PROCESS = BASE.model_copy(
    update={
        "devices": {**BASE.devices, "phase_shifter": TAPERED},
        "contact": ContactCard(layers=("metal",), heater_via="blackbox"),
    }
)
LENGTH, WIDE, NARROW = 80_000, 11_000, 2_000


def heater(wide: int = WIDE, taper: int = 5_000) -> kdb.Polygon:
    """Heater along x from 0 to LENGTH between contacts of 12 µm, with tapers outside."""
    half, low = NARROW // 2, wide // 2
    left, right = -taper, LENGTH + taper
    points = [(left - 12_000, -low), (left - 12_000, low), (left, low), (0, half), (LENGTH, half), (right, low)]
    points += [(right + 12_000, low), (right + 12_000, -low), (right, -low), (LENGTH, -half), (0, -half), (left, -low)]
    return kdb.Polygon([kdb.Point(*point) for point in points])


def drawn(folder: Path, turn: kdb.Trans, shape: kdb.Polygon, *more: tuple[str, kdb.Box], vias: int = 2) -> Extraction:
    """Extract a guide under a heater, with metal and a via at each of its ends."""
    layout = kdb.Layout()
    layout.dbu = 0.001
    top = layout.create_cell("TOP")

    def add(layer: str, polygon: kdb.Polygon | kdb.Box) -> None:
        top.shapes(layout.layer(*PROCESS.gds_layers[layer])).insert(polygon)

    add("core", kdb.Box(-60_000, -225, LENGTH + 60_000, 225))
    add("heater", shape)
    for i, x in enumerate((-17_000, LENGTH + 5_000)):
        add("metal", kdb.Box(x, -WIDE // 2, x + 12_000, WIDE // 2))
        if i < vias:
            add("blackbox", kdb.Box(x + 5_000, -1_000, x + 7_000, 1_000))
    for layer, box in more:
        add(layer, box)
    top.transform(turn)
    path = folder / "drawn.gds"
    layout.write(str(path))
    return extract(path, PROCESS)


def heater_faults(extraction: Extraction) -> list[str]:
    return [fault.message for fault in extraction.faults if fault.kind in ("heater", "via")]


@pytest.mark.parametrize("turns", range(4))
def test_a_tapered_heater_is_as_long_as_its_part_of_constant_width(turns: int, tmp_path: Path) -> None:
    extraction = drawn(tmp_path, kdb.Trans(turns, False, 3_000, 7), heater())
    assert heater_faults(extraction) == []
    (number,) = extraction.circuit.instances_of("phase_shifter").tolist()
    found = {key: column[number] for key, column in extraction.circuit.settings.items()}
    assert found["length_um"] == 80.0
    assert found["heater_width_um"] == 2.0
    # current spreads over a width that grows linearly: the integral of dx / width over both tapers
    squares = 80.0 / 2.0 + 2 * 5.0 * math.log(11.0 / 2.0) / (11.0 - 2.0)
    assert found["resistance_ohm"] == pytest.approx(SHIFTER.parameter("sheet_ohm") * squares, rel=1e-12)


@pytest.mark.parametrize(
    "shape",
    [heater(taper=6_000), kdb.Polygon(kdb.Box(-17_000, -1_000, LENGTH + 17_000, 1_000)), heater().moved(0, 1_000)],
    ids=["longer taper", "rectangle", "beside its guide"],
)
def test_a_heater_of_another_form_is_a_fault_at_its_place(shape: kdb.Polygon, tmp_path: Path) -> None:
    extraction = drawn(tmp_path, kdb.Trans(), shape)
    (fault,) = [fault for fault in extraction.faults if fault.kind == "heater"]
    assert fault.position_um == pytest.approx((40.0, shape.bbox().center().y / 1000), abs=0.01)
    assert not extraction.circuit.instances_of("phase_shifter").size


def test_metal_contacts_a_heater_only_where_a_via_joins_them(tmp_path: Path) -> None:
    across = ("metal", kdb.Box(30_000, -20_000, 40_000, 20_000))
    assert heater_faults(drawn(tmp_path, kdb.Trans(), heater(), across)) == []
    (message,) = heater_faults(drawn(tmp_path, kdb.Trans(), heater(), vias=1))
    assert "1 contacts" in message


def test_a_via_beside_the_heater_or_the_metal_is_a_fault(tmp_path: Path) -> None:
    via = kdb.Box(38_000, 5_000, 40_000, 7_000)
    extraction = drawn(tmp_path, kdb.Trans(), heater(), ("blackbox", via))
    places = [fault.position_um for fault in extraction.faults if fault.kind == "via"]
    assert places == [(39.0, 6.0), (39.0, 6.0)]


def test_a_polygon_without_the_form_of_a_tapered_heater_has_no_such_part() -> None:
    octagon = kdb.Polygon(
        [kdb.Point(*p) for p in ((0, 10), (0, 40), (10, 50), (90, 50), (100, 40), (100, 10), (90, 0), (10, 0))]
    )
    assert part_of_constant_width(octagon, 10) is None
    assert part_of_constant_width(kdb.Polygon(kdb.Box(100, 10)), 10) is None
    assert part_of_constant_width(kdb.Polygon(kdb.Box(100, 10)), 0) == kdb.Polygon(kdb.Box(100, 10))
    assert taper_squares(10, 10, 5) == taper_squares(10, 5, 0) == 0.0


@pytest.mark.parametrize("change", [{"contact": PROCESS.contact}, {"devices": PROCESS.devices}], ids=["vias", "tapers"])
def test_this_package_draws_no_such_heaters(change: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    changed = BASE.model_copy(update=change)
    monkeypatch.setattr("optinc_pdk.cells._devices.active_process", lambda: changed)
    assert set(cells_of(BASE)) - set(cells_of(changed)) > {"phase_shifter", "straight_heater_metal", "mesh"}
    with active_pdk(), pytest.raises(CardError, match=r"soi220.*does not draw"):
        gf.get_component("phase_shifter", length_um=77.0)
