"""The gdsfactory PDK: layers, cross sections, stack, views, cells; beside other PDKs and without SAX."""

import subprocess
import sys
from pathlib import Path

import gdsfactory as gf
import pytest

import optinc_pdk
from optinc_pdk.assemble import assemble
from optinc_pdk.cards import CardError, load_process
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.circuit import write_netlist
from optinc_pdk.extract import extract
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.pdk import get_pdk
from optinc_pdk.tech import layer_enum

ROOT = Path(__file__).parent.parent
PROCESS = load_process()
NETWORK = ROOT / "optinc_pdk" / "networks" / "bundled" / "average_4bit_4servers.npz"


@pytest.fixture(autouse=True)
def _pdk() -> None:
    optinc_pdk.PDK.activate()


def python(code: str) -> None:
    """Run `code` in a separate interpreter."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_activating_sets_the_active_pdk() -> None:
    assert gf.get_active_pdk() is optinc_pdk.PDK
    assert gf.get_active_pdk().name == PROCESS.name
    assert get_pdk() is get_pdk("soi220")


def test_layers_are_the_cards() -> None:
    for name, layer in PROCESS.layers.items():
        assert gf.get_layer_tuple(name) == layer.gds
        assert tuple(getattr(optinc_pdk.PDK.layers, name)) == layer.gds


def test_names_of_instances_have_a_layer_that_the_process_does_not_have() -> None:
    assert gf.get_layer_tuple("LABEL_INSTANCE") == (206, 0)
    assert (206, 0) not in PROCESS.gds_layers.values()
    core = PROCESS.layers["core"].model_copy(update={"gds": (206, 0)})
    taken = PROCESS.model_copy(update={"layers": {**PROCESS.layers, "core": core}})
    assert tuple(layer_enum(taken).LABEL_INSTANCE) == (206, 1)


@pytest.mark.full
def test_layers_are_the_cards_after_other_processes_were_active() -> None:
    """The layers of a process are empty when it is left, so those of the third process take their indices."""
    python(
        """
import gdsfactory as gf
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.pdk import get_pdk

names = ("soi220", "soi220_two_metal", "cornerstone220")
for name in names:
    get_pdk(name).activate()
for name in cells_of(get_pdk("cornerstone220").process):
    CELLS[name]()
for name in (*names, *reversed(names)):
    pdk = get_pdk(name)
    pdk.activate()
    for layer, card in pdk.process.layers.items():
        assert gf.get_layer_tuple(layer) == card.gds == tuple(getattr(pdk.layers, layer)), (name, layer)
        drawn = gf.Component()
        drawn.add_polygon([(0, 0), (1, 0), (1, 1)], layer=layer)
        assert drawn.layers == [card.gds], (name, layer, drawn.layers)
"""
    )


def test_layer_views_are_the_cards() -> None:
    views = optinc_pdk.PDK.layer_views
    assert views is not None
    for name, layer in PROCESS.layers.items():
        view = views.layer_views[name]
        assert view.layer == layer.gds
        assert view.fill_color is not None
        assert view.fill_color.as_hex(format="long") == layer.color


def test_layer_stack_has_the_layers_with_a_thickness() -> None:
    stack = optinc_pdk.PDK.layer_stack
    assert stack is not None
    assert set(stack.layers) == {"core", "heater", "metal"}
    core = stack.layers["core"]
    assert (core.zmin, core.thickness, core.material) == (0.0, 0.22, "si")
    heater, metal = stack.layers["heater"], stack.layers["metal"]
    assert heater.zmin + heater.thickness == pytest.approx(metal.zmin)


def test_gdsfactorys_own_cells_take_the_cross_sections_by_name() -> None:
    strip = gf.components.straight(length=10, cross_section="strip")
    assert strip.ports["o1"].width == PROCESS.guide.width_um
    assert strip.area(layer="core") == pytest.approx(10 * PROCESS.guide.width_um)
    wire = gf.components.straight(length=10, cross_section="wire")
    assert wire.ports["e1"].port_type == "electrical"
    assert wire.area(layer="metal") == pytest.approx(10 * PROCESS.metal.wire_width_um)
    bend = gf.components.bend_circular(cross_section="strip")
    assert bend.ports["o2"].center == pytest.approx((PROCESS.guide.radius_um, PROCESS.guide.radius_um))


def test_a_cross_sections_values_can_be_changed() -> None:
    assert gf.get_cross_section("strip", width=0.6).width == 0.6
    assert gf.get_cross_section("strip").radius == PROCESS.guide.radius_um


def test_fields_are_those_that_gdsfactory_users_expect() -> None:
    pdk = optinc_pdk.PDK
    assert optinc_pdk.LAYER is pdk.layers
    assert optinc_pdk.LAYER_STACK is pdk.layer_stack
    assert tuple(optinc_pdk.LAYER.core) == PROCESS.layers["core"].gds
    assert pdk.routing_strategies is not None
    assert {"route_bundle", "route_bundle_electrical"} <= set(pdk.routing_strategies)
    assert set(pdk.cross_sections) == {"strip", "wire", "metal_routing"}
    assert pdk.default_decorator is None
    assert gf.get_cross_section("metal_routing") == gf.get_cross_section("wire")


def test_bends_of_gdsfactory_have_chords_that_the_extractor_reads(tmp_path: Path) -> None:
    assert len(gf.path.arc(radius=float(PROCESS.guide.radius_um)).points) == PROCESS.guide.arc_segments + 1
    c = gf.Component()
    first = c << gf.components.straight(length=5.0)
    last = first
    for bend in (gf.components.bend_circular(), gf.components.bend_euler(p=0.0), gf.components.straight(length=5.0)):
        (piece := c << bend).connect("o1", last.ports["o2"])
        last = piece
    for port in (first.ports["o1"], last.ports["o2"]):
        (c << gf.get_component("terminator")).connect("o1", port)
    c.write_gds(tmp_path / "bends.gds", with_metadata=False)
    assert extract(tmp_path / "bends.gds", PROCESS).faults == ()


@pytest.mark.full
def test_kfactorys_settings_are_not_changed() -> None:
    python(
        """
import gdsfactory  # which has settings of its own
import kfactory as kf
before = kf.config.model_dump()
import optinc_pdk
optinc_pdk.PDK.activate()
optinc_pdk.PDK.get_component("mzi_unit")
assert kf.config.model_dump() == before
"""
    )


@pytest.mark.parametrize("process", ["soi220", "soi220_two_metal"])
def test_netlists_name_the_cells_of_every_process(process: str) -> None:
    with optinc_pdk.active_pdk(process):
        netlist = gf.get_component("mzi", delta_length=20.0, length_x=10.0).get_netlist()
    assert {instance["component"] for instance in netlist["instances"].values()} == {"mmi1x2", "straight", "bend_euler"}


@pytest.mark.parametrize("name", cells_of(PROCESS))
def test_every_cell_is_found_by_name(name: str) -> None:
    assert gf.get_component(name) is CELLS[name]()


@pytest.mark.filterwarnings("ignore:Unconnected ports")
def test_cells_fit_into_gdsfactory_circuits() -> None:
    c = gf.Component()
    first = c << gf.get_component("mmi2x2")
    second = c << gf.get_component("straight", length=20.0)
    second.connect("o1", first.ports["o3"])
    netlist = c.get_netlist()
    assert [{net["p1"].split(",")[1], net["p2"].split(",")[1]} for net in netlist["nets"]] == [{"o1", "o3"}]


def test_gdsfactory_reads_a_written_netlist(tmp_path: Path) -> None:
    circuit = assemble(AveragingNetwork.load(NETWORK), PROCESS, "average_4bit_4servers")
    path = tmp_path / "average_4bit_4servers.pic.yml"
    write_netlist(circuit, path)
    component = gf.read.from_yaml(path)
    assert {i.name for i in component.insts} == set(circuit.instances)
    kinds = {name: circuit.kinds[k].name for name, k in zip(circuit.instances, circuit.kind, strict=True)}
    assert all(i.cell.name == kinds[i.name] for i in component.insts)
    assert {p.name for p in component.ports} == set(circuit.ports)


@pytest.mark.full
def test_cells_refuse_without_an_active_pdk_of_this_package() -> None:
    python(
        """
import gdsfactory as gf
from gdsfactory.gpdk import PDK
from optinc_pdk.cards import CardError
from optinc_pdk.cells import CELLS, cells_of

PDK.activate()
for name, cell in CELLS.items():
    try:
        cell()
    except CardError as error:
        assert "optinc_pdk.PDK.activate()" in str(error), error
    else:
        raise SystemExit(f"{name} was drawn in {gf.get_active_pdk().name}")
"""
    )


@pytest.mark.full
def test_the_pdk_neither_needs_nor_loads_sax() -> None:
    python(
        """
import sys
import gdsfactory as gf
import optinc_pdk

optinc_pdk.PDK.activate()
assert not {"sax", "jax"} & set(sys.modules)
sys.modules["sax"] = sys.modules["jax"] = None  # an import now fails, as if they were not installed
assert gf.get_component("mzi_unit").ports["o3"].center[1] == 0
"""
    )


def test_an_unknown_process_is_refused() -> None:
    with pytest.raises(CardError, match="'gold'"):
        get_pdk("gold")
