"""Meshes composed of another PDK's cells, here of gdsfactory's generic PDK, and cells that raise an error."""

from collections.abc import Iterator

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
import pytest
from gdsfactory.gpdk import PDK

from optinc_pdk.cells.foreign_mesh import foreign_mesh
from optinc_pdk.pdk import get_pdk

WIDTH_UM = 0.5


@pytest.fixture(autouse=True)
def _generic() -> Iterator[None]:
    # gdsfactory caches its cells by name only, whichever PDK they were drawn for
    gf.clear_cache()
    PDK.activate()
    yield
    gf.clear_cache()
    get_pdk().activate()


def silicon(component: gf.Component) -> kdb.Region:
    return kdb.Region(component.begin_shapes_rec(gf.get_layer("WG"))).merged()


def nm(port: gf.Port) -> kdb.Point:
    return kdb.Point(*(round(value * 1000) for value in port.center))


def part(mesh: gf.Component, name: str) -> gf.Component:
    cell = next(i.cell for i in mesh.insts if i.cell.name.startswith(name))
    return gf.kcl.get_cell(cell.cell_index(), gf.Component)


@pytest.mark.parametrize(("modes", "mzis", "idle"), [(2, 1, 0), (3, 3, 3), (4, 6, 4), (5, 10, 5)])
def test_every_mode_leads_from_an_input_to_the_output_of_the_same_row(modes: int, mzis: int, idle: int) -> None:
    mesh = foreign_mesh(modes)
    drawn = {name: 0 for name in ("mzi", "idle")}
    for instance in mesh.insts:
        drawn[instance.cell.name.split("_")[0]] += max(instance.na, 1) * max(instance.nb, 1)
    assert drawn == {"mzi": mzis, "idle": idle}
    assert mesh.info["mzis"] == mzis
    # directional couplers leave a gap: every mode is one piece of silicon, and there is no other silicon
    guides = list(silicon(mesh).each())
    assert len(guides) == modes
    for row in range(modes):
        ends = [nm(mesh.ports[f"{side}_r{row}"]) for side in ("in", "out")]
        assert [sum(guide.inside(end) for end in ends) for guide in guides].count(2) == 1
        assert ends[0].y == ends[1].y == -round(row * mesh.info["mode_pitch_um"] * 1000)
        assert [mesh.ports[f"{side}_r{row}"].orientation for side in ("in", "out")] == [180, 0]


@pytest.mark.parametrize("modes", [4, 5])
def test_gdsfactorys_netlist_has_every_joint_without_warnings(modes: int) -> None:
    mesh = foreign_mesh(modes)
    netlist = mesh.get_netlist()
    # between two columns every mode has one joint
    assert len(netlist["nets"]) == modes * (modes - 1)
    heaters = {
        f"{which}_c{c}_r{r}" for which in ("phi", "theta") for c in range(modes) for r in range(c % 2, modes - 1, 2)
    }
    assert {name.rsplit("_", 2)[0] for name in netlist["ports"] if name[:2] in ("ph", "th")} == heaters
    assert set(netlist["ports"]) == {str(port.name) for port in mesh.ports}
    inside = part(mesh, "mzi").get_netlist()
    digest = mesh.name.partition("_")[2]
    kinds = [i["component"].removesuffix(f"_{digest}") for i in inside["instances"].values()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "coupler": 2,
        "straight_heater_metal_undercut": 2,
        "arm": 2,
        "bend_s": 8,
    }
    assert len(inside["nets"]) == 14


def test_both_arms_have_the_same_length() -> None:
    mesh = foreign_mesh(4)
    mzi, middle = part(mesh, "mzi"), round(-mesh.info["mode_pitch_um"] * 500)
    drawn = silicon(mzi)
    upper, lower = drawn.bbox(), drawn.bbox()
    upper.bottom, lower.top = middle, middle
    areas = [(drawn & kdb.Region(half)).area() * 1e-6 for half in (upper, lower)]
    assert areas[0] / WIDTH_UM == pytest.approx(areas[1] / WIDTH_UM, abs=0.001)
    # the path of a mode without a partner is shorter only by the bends inside the couplers
    path = silicon(part(mesh, "idle")).area() * 1e-6
    coupler = silicon(gf.get_component("coupler")).area() * 1e-6 / 2
    straight = (
        gf.get_component("coupler").ports["o3"].center[0] - gf.get_component("coupler").ports["o2"].center[0]
    ) / 2
    assert (areas[0] - path) / WIDTH_UM == pytest.approx(2 * (coupler / WIDTH_UM - 2 * straight), abs=0.01)


def test_bends_keep_the_cross_sections_radius_and_clear_the_heaters() -> None:
    mzi = part(foreign_mesh(4), "mzi")
    bend = next(i.cell for i in mzi.insts if i.cell.name.startswith("bend_s"))
    # 9 µm high: two arcs of radius 10 µm, then straight to the next whole µm
    assert bend.info["length"] == pytest.approx(2 * 10 * np.arccos(1 - 9 / 20) + 17 - np.sqrt(9 * 31), abs=0.01)
    boxes = {name: [i.dbbox() for i in mzi.insts if i.cell.name.startswith(name)] for name in ("coupler", "straight_h")}
    assert not any(a.touches(b) for a in boxes["coupler"] for b in boxes["straight_h"])


def test_cells_may_be_functions_and_the_mode_pitch_may_be_given() -> None:
    mesh = foreign_mesh(5, coupler=gf.components.mmi2x2, mode_pitch_um=41.25)
    assert mesh.info["mode_pitch_um"] == 41.25
    assert mesh.ports["in_r4"].center[1] == -165.0
    assert foreign_mesh(5, coupler=gf.components.mmi2x2, mode_pitch_um=41.25) == mesh
    assert foreign_mesh(5, coupler="mmi2x2").name != mesh.name
    assert len(mesh.name) <= 32


def test_a_mesh_of_our_own_cells() -> None:
    gf.clear_cache()
    get_pdk().activate()
    mesh = foreign_mesh(3, coupler="mmi2x2", heater="phase_shifter", guide="strip")
    assert mesh.info["mzis"] == 3
    assert {str(p.name) for p in mesh.ports if str(p.name).startswith("phi_c0_r0")} == {"phi_c0_r0_e1", "phi_c0_r0_e2"}


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ({"coupler": "mmi1x2"}, r"coupler 'mmi1x2.*': .*2×2.* o1 at"),
        ({"coupler": "coupler_ring"}, r"coupler 'coupler_ring.*': .*2×2"),
        ({"coupler": "coupler_straight_asymmetric"}, r"port o. is 1 µm .*guide 0.5"),
        ({"coupler": lambda: askew()}, r"o2 and o3 differ in y"),
        ({"heater": "straight_heater_meander"}, r"heater 'straight_heater_meander.*': .* o1 at .* o2 at"),
        ({"heater": "straight"}, r"heater 'straight.*' .*fewer than 2 electrical"),
        ({"heater": "ring_double_heater"}, r"heater 'ring_double_heater.*': .*one guide.* o4 at"),
        ({"heater": lambda: winding()}, r"heater 'winding.*': .*from o1 to o2, .* µm"),
        ({"guide": "nitride"}, r"port o1 is 0.5 µm .*guide 1;"),
        ({"guide": gf.cross_section.cross_section(width=0.5, layer="WGN")}, r"port o1 is on WG .*guide on WGN"),
        (
            {"guide": gf.cross_section.cross_section(width=0.5, layer="WG", radius=None)},
            r"guide .*no bend radius",
        ),
        ({"modes": 1}, r"modes is 1;"),
        ({"modes": 2.5}, r"modes is 2.5"),
        ({"mode_pitch_um": 10.0}, r"mode_pitch_um is 10; .* 11 µm"),
        ({"mode_pitch_um": 40.0005}, r"1 nm grid; .*mode_pitch_um"),
        ({"mode_pitch_um": float("nan")}, r"is nan µm.*1 nm grid"),
    ],
)
def test_cells_unfit_for_a_mesh_raise(arguments: dict[str, object], values: str) -> None:
    with pytest.raises(ValueError, match=values):
        foreign_mesh(**({"modes": 4} | arguments))  # type: ignore[arg-type]


@gf.cell
def askew() -> gf.Component:
    """Coupler whose upper right port is 1 µm too high."""
    c = gf.Component()
    coupler = c << gf.get_component("coupler")
    for name in ("o1", "o2"):
        c.add_port(name, port=coupler.ports[name])
    bend = c << gf.components.bend_s(size=(20, 1))
    bend.connect("o1", coupler.ports["o3"])
    back = c << gf.components.straight(length=20)
    back.connect("o1", coupler.ports["o4"])
    c.add_port("o3", port=bend.ports["o2"])
    c.add_port("o4", port=back.ports["o2"])
    return c


@gf.cell
def winding() -> gf.Component:
    """Heater whose guide has bends between two ends that are in line."""
    c = gf.Component()
    out, back = c << gf.components.bend_s(size=(20, 2)), c << gf.components.bend_s(size=(20, 2))
    back.connect("o1", out.ports["o2"], mirror=True)
    c.add_port("o1", port=out.ports["o1"])
    c.add_port("o2", port=back.ports["o2"])
    pad = c << gf.components.rectangle(size=(5, 5), layer="MTOP", port_type="electrical")
    c.add_ports([port for port in pad.ports if port.port_type == "electrical"])
    return c
