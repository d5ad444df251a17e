"""Tests of every cell in CELLS: shapes, ports, models and golden polygons. A new cell in the list is tested as well.

``pytest tests/cells --regen-all`` rewrites the snapshots and the reference layouts.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
import pytest
from pytest_regressions.data_regression import DataRegressionFixture

from optinc_pdk.assemble._component_library import composite_circuits
from optinc_pdk.cards import Process, load_process
from optinc_pdk.cards.device_models import SETTINGS
from optinc_pdk.cells import cells_of, interferometers
from optinc_pdk.cells.golden_files import write_golden
from optinc_pdk.circuit import Circuit, flatten, named_nets
from optinc_pdk.layout import write_gds
from optinc_pdk.models import MODELS, device_s, guide, sampled_s

PROCESS = load_process()
CELLS = cells_of(PROCESS)
COMPOSITES = composite_circuits(PROCESS)
REFERENCE = Path(__file__).parent / "reference"
MARKER_NM = 2

# Cells that have no model of their own, each with the reason. Guides are modelled by length, not by a card.
GUIDES = ("bend_circular", "bend_euler", "bend_s", "straight")
# Cells of the guides within composites.
INNER_GUIDES = ("bent_guide", "s_guide", "straight")
WIRES = ("wire_corner", "wire_straight")
# gdsfactory's cells that are drawn with those of the process, with their numbers of optical and electrical ports.
GDSFACTORY = {"mzi": (2, 0), "straight_heater_metal": (2, 2)}
WITHOUT_MODEL = {"pad": "carries no light"} | dict.fromkeys(COMPOSITES, "a circuit of devices that have models")
# Cells that are in no netlist by their name, with their numbers of optical and electrical ports; test_structures.py and
# test_couplers.py extract them.
STRUCTURES = {
    "activation_offchip": (4, 2),
    "activation_onchip": (4, 8),
    "coupler_ring": (4, 0),
    "coupler_ring_bend": (4, 0),
    "coupler_straight": (4, 0),
    "cutback": (6, 0),
    "die_frame": (0, 0),
    "fibre_array": (4, 0),
    "heater_test": (0, 4),
    "homodyne_mixer": (4, 2),
    "mesh": (8, 0),
    "mesh_column": (8, 8),
    "ring_double": (4, 0),
    "ring_single": (2, 0),
    "ring_single_bend_coupler": (2, 0),
    "splitter_tree": (5, 0),
}
STRUCTURES |= GDSFACTORY
WITHOUT_MODEL |= dict.fromkeys((*STRUCTURES, "mzi_unit"), "a structure of devices that have models")
WITHOUT_MODEL |= dict.fromkeys(WIRES, "carries no light")
# Devices that lose light by design, so that not even an ideal one is unitary.
LOSSY = {
    "mmi1x2": "a combiner radiates the odd mode",
    "terminator": "a sink",
    "grating_coupler": "one fibre mode",
    "crossing": "crosstalk into both crossed arms without reflection",
    "photodiode": "a sink",
}


def layout_of(component: gf.Component) -> kdb.Layout:
    """Copy a cell into a new layout."""
    layout = kdb.Layout()
    layout.dbu = component.kcl.dbu
    layout.create_cell(component.name).copy_tree(component.kcl.layout.cell(component.name))
    return layout


def region(component: gf.Component, layer: str, levels: int = 99) -> kdb.Region:
    """Return the merged shapes of a cell on a layer; with ``levels`` 0, without the shapes of its instances."""
    shapes = component.begin_shapes_rec(component.kcl.layer(*PROCESS.gds_layers[layer]))
    shapes.max_depth = levels
    return kdb.Region(shapes).merged()


def nm(port: Any) -> kdb.Point:
    return kdb.Point(*(round(value * 1000) for value in port.center))


@pytest.mark.parametrize("name", CELLS)
def test_shapes_equal_the_reference_layout(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = REFERENCE / f"{name}.gds"
    drawn = layout_of(CELLS[name]())
    if request.config.getoption("regen_all"):
        write_gds(drawn, path)
    reference = kdb.Layout()
    reference.read(str(path))
    assert reference.dbu == pytest.approx(drawn.dbu)
    assert reference.top_cell().name == drawn.top_cell().name
    difference, differences = kdb.Layout(), {}
    difference.dbu = drawn.dbu
    top = difference.create_cell(name)
    for info in {(i.layer, i.datatype) for layout in (drawn, reference) for i in layout.layer_infos()}:
        shapes = [kdb.Region(layout.top_cell().begin_shapes_rec(layout.layer(*info))) for layout in (drawn, reference)]
        xor = shapes[0] ^ shapes[1]
        if not xor.is_empty():
            top.shapes(difference.layer(*info)).insert(xor)
            differences[info] = str(xor.bbox().to_dtype(drawn.dbu))
    if differences:
        difference.write(str(tmp_path / f"{name}_xor.gds"))
    assert not differences, f"see {tmp_path / f'{name}_xor.gds'}, or renew the reference with --regen-all"


def plain_numbers(value: Any) -> Any:
    """Return settings with whole numbers as integers: gdsfactory stores 20.0 as 20 from version 9.51 on."""
    if isinstance(value, dict):
        return {key: plain_numbers(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.parametrize("name", CELLS)
def test_settings_and_ports_equal_the_snapshot(name: str, data_regression: DataRegressionFixture) -> None:
    component = CELLS[name]()
    ports = {
        str(p.name): {
            "center_um": [round(float(v), 3) for v in p.center],
            "angle": round(p.orientation or 0),
            "width_um": round(float(p.width), 3),
            "type": str(p.port_type),
        }
        for p in component.ports
    }
    settings = plain_numbers(component.settings.model_dump())
    data_regression.check({"name": component.name, "settings": settings, "ports": ports}, basename=name)


@pytest.mark.parametrize("name", CELLS)
def test_names_shapes_and_grid_suit_a_mask_shop(name: str) -> None:
    layout = layout_of(CELLS[name]())
    assert layout.dbu == 0.001
    known = set(PROCESS.gds_layers.values())
    for cell in layout.each_cell():
        assert len(cell.name) <= 32
        assert cell.name.replace("_", "").isalnum()
        # no instance is magnified or rotated by other than right angles
        assert not any(instance.is_complex() for instance in cell.each_inst())
        for info in layout.layer_infos():
            shapes = list(cell.shapes(layout.layer(info)).each())
            assert not shapes or (info.layer, info.datatype) in known
            for shape in shapes:
                # integer vertices are on the grid; paths and circles, which are rounded later, are not allowed
                if shape.is_text():
                    assert (info.layer, info.datatype) == PROCESS.gds_layers["label"]
                    continue
                assert shape.is_polygon() or shape.is_box()
                assert shape.polygon.num_points() <= 4000


@pytest.mark.parametrize("name", CELLS)
def test_every_optical_port_lies_on_one_edge_of_its_width(name: str) -> None:
    component = CELLS[name]()
    core = region(component, "core")
    for port in component.ports:
        if port.port_type != "optical":
            continue
        at = nm(port)
        marker = kdb.Region(kdb.Box(at.x - MARKER_NM, at.y - MARKER_NM, at.x + MARKER_NM, at.y + MARKER_NM))
        edges = core.edges().interacting(marker)
        assert edges.count() == 1, f"{name},{port.name}"
        edge = next(edges.each())
        assert edge.length() == round(port.width * 1000)
        middle = kdb.Point((edge.p1.x + edge.p2.x) // 2, (edge.p1.y + edge.p2.y) // 2)
        assert middle.distance(at) <= 1
        # the port faces outwards
        angle = np.radians(port.orientation)
        ahead = kdb.Point(round(at.x + 10 * np.cos(angle)), round(at.y + 10 * np.sin(angle)))
        behind = kdb.Point(round(at.x - 10 * np.cos(angle)), round(at.y - 10 * np.sin(angle)))
        inside = [any(p.inside(point) for p in core.each()) for point in (ahead, behind)]
        assert inside == [False, True]


@pytest.mark.parametrize("name", CELLS)
def test_every_electrical_port_lies_on_metal(name: str) -> None:
    component = CELLS[name]()
    metal = region(component, "metal")
    ports = [port for port in component.ports if port.port_type == "electrical"]
    # a mesh has no heater ports; its columns have them
    assert bool(ports) == (not metal.is_empty()) or name == "mesh"
    for port in ports:
        at = nm(port)
        assert any(p.inside(at) for p in metal.each())


@pytest.mark.parametrize("name", CELLS)
def test_ports_equal_those_of_the_card_or_the_sub_circuit(name: str) -> None:
    ports = {str(port.name) for port in CELLS[name]().ports}
    if name in PROCESS.devices:
        card = PROCESS.device(name).ports
        assert ports == {*card.optical, *card.electrical}
    elif name in COMPOSITES:
        assert ports == set(COMPOSITES[name].ports)
    elif name in STRUCTURES:
        optical, electrical = STRUCTURES[name]
        light = {f"o{i + 1}" for i in range(optical)}
        assert ports == light | {f"e{i + 1}" for i in range(electrical)}
    else:
        assert ports == ({"e1", "e2"} if name in WIRES else {"o1", "o2"})
        assert name in (*WIRES, *GUIDES)


def test_every_device_and_composite_has_a_cell() -> None:
    assert {*PROCESS.devices, *COMPOSITES, *STRUCTURES, *GUIDES, *WIRES} == set(CELLS)


# Composites against their sub-circuits.


def parts_of(component: gf.Component) -> tuple[list[Any], list[Any]]:
    """Return the guides and the devices of a composite."""
    instances = list(component.insts)
    guides = [inst for inst in instances if inst.cell.name.startswith(INNER_GUIDES)]
    return guides, [inst for inst in instances if inst not in guides]


def joints(component: gf.Component) -> dict[frozenset[str], float]:
    """Return the connected ports of a composite with the length of the guide between them in µm, from its shapes.

    Guides are found by the ports of devices on the edges of their silicon, not by their own ports.
    """
    guides, devices = parts_of(component)
    ports = {f"{inst.name},{port.name}": port for inst in devices for port in inst.ports}
    ports |= {f"{port.name}": port for port in component.ports}
    at: dict[tuple[int, int], list[str]] = {}
    for name, port in ports.items():
        if port.port_type == "optical":
            at.setdefault((nm(port).x, nm(port).y), []).append(name)
    lengths: dict[frozenset[str], float] = {}
    for names in at.values():
        if len(names) == 2:
            lengths[frozenset(names)] = 0.0
    silicon = kdb.Region()
    for inst in guides:
        silicon += region(inst.cell, "core").transformed(inst.trans)
    for polygon in silicon.merged().each():
        grown = polygon.sized(1)
        touched = [name for point, names in at.items() if grown.inside(kdb.Point(*point)) for name in names]
        lengths[frozenset(touched)] = polygon.area() * 1e-6 / float(PROCESS.guide.width_um)
    return lengths


def circuit_names(component: gf.Component, circuit: Circuit) -> dict[str, str]:
    """Map a composite's instances to the sub-circuit's: those of one component from left to right, in listed order."""
    renamed = {}
    devices = parts_of(component)[1]
    for kind in circuit.kinds:
        # a mirrored or rotated instance is placed by its origin, so compare boxes
        drawn = sorted((i for i in devices if i.cell.name.startswith(kind.name)), key=lambda i: i.dbbox().left)
        expected = [circuit.instances[i] for i in circuit.instances_of(kind.name)]
        assert len(drawn) == len(expected), f"{len(drawn)} {kind.name} drawn, {len(expected)} in the circuit"
        renamed.update({inst.name: name for inst, name in zip(drawn, expected, strict=True)})
    assert len(renamed) == len(devices)
    return renamed


def named_joints(name: str, **settings: object) -> dict[frozenset[str], float]:
    """Return the joints of a composite with the sub-circuit's instance names."""
    component, circuit = CELLS[name](**settings), COMPOSITES[name]
    renamed = circuit_names(component, circuit)

    def rename(port: str) -> str:
        inst, comma, local = port.rpartition(",")
        return f"{renamed[inst]}{comma}{local}" if comma else port

    return {frozenset(map(rename, pair)): length for pair, length in joints(component).items()}


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_composite_is_drawn_as_its_sub_circuit(name: str) -> None:
    component, circuit = CELLS[name](), COMPOSITES[name]
    expected = {frozenset(pair) for pair in named_nets(circuit)}
    light = circuit.optical_mask()
    expected |= {frozenset((label, circuit.port_name(p))) for label, p in circuit.ports.items() if light[p]}
    assert set(named_joints(name)) == expected
    renamed = circuit_names(component, circuit)
    wires = {
        str(port.name): f"{renamed[inst.name]},{other.name}"
        for port in component.ports
        for inst in parts_of(component)[1]
        for other in inst.ports
        if port.port_type == other.port_type == "electrical" and nm(port) == nm(other)
    }
    assert wires == {label: circuit.port_name(p) for label, p in circuit.ports.items() if not light[p]}


@pytest.mark.parametrize("name", COMPOSITES)
@pytest.mark.filterwarnings("ignore:Unconnected ports")
def test_gdsfactorys_netlist_has_the_instances_of_the_sub_circuit(name: str) -> None:
    circuit = COMPOSITES[name]
    netlist = CELLS[name]().get_netlist()
    drawn = sorted(each["component"] for each in netlist["instances"].values() if each["component"] not in INNER_GUIDES)
    assert drawn == sorted(circuit.kinds[k].name for k in circuit.kind)


# Lengths in interferometers.

SHIFTER = float(
    PROCESS.device("phase_shifter").size("length_um") + 2 * PROCESS.device("phase_shifter").size("contact_width_um")
)
EXACT_UM = 0.005


def path_length(name: str, *ports: str, **settings: object) -> float:
    """Sum the guide lengths along a sequence of ports; two ports of one instance are a path through that device."""
    lengths, total = named_joints(name, **settings), 0.0
    for a, b in pairwise(ports):
        same = "," in a and a.rpartition(",")[0] == b.rpartition(",")[0]
        total += (SHIFTER if "phi" in a or "theta" in a else 0.0) if same else lengths[frozenset((a, b))]
    return total


def test_both_arms_of_an_mzi_have_the_same_length() -> None:
    upper = path_length("mzi_unit", "first,o3", "theta,o2", "theta,o1", "second,o2")
    assert path_length("mzi_unit", "first,o4", "second,o1") == pytest.approx(upper, abs=EXACT_UM)
    phi = path_length("mzi_unit", "o2", "phi,o1", "phi,o2", "first,o2")
    assert path_length("mzi_unit", "o1", "first,o1") == pytest.approx(phi, abs=EXACT_UM)
    assert path_length("mzi_unit", "second,o3", "o3") == pytest.approx(
        path_length("mzi_unit", "second,o4", "o4"), abs=EXACT_UM
    )


@pytest.mark.parametrize("narrow", [False, True])
def test_a_dummy_is_as_long_as_an_mzi(narrow: bool) -> None:
    mzi = path_length("mzi_unit", "o1", "first,o1", "first,o4", "second,o1", "second,o4", "o4")
    upper = path_length("mzi_dummy", "o1", "first,o2", "first,o3", "second,o2", "second,o4", "o2", narrow=narrow)
    lower = path_length("mzi_dummy", "o1", "first,o2", "first,o4", "second,o1", "second,o4", "o2", narrow=narrow)
    assert upper == pytest.approx(mzi, abs=EXACT_UM)
    assert lower == pytest.approx(mzi, abs=EXACT_UM)


@pytest.mark.parametrize("narrow", [False, True])
def test_only_narrow_dummies_of_neighbouring_modes_have_room_for_each_other(narrow: bool) -> None:
    pitch, least = (
        round(1000 * float(um)) for um in (PROCESS.floorplan.mode_pitch_um, PROCESS.floorplan.guide_space_um)
    )
    silicon = region(CELLS["mzi_dummy"](narrow=narrow), "core")
    assert (silicon & silicon.moved(0, pitch)).is_empty() is narrow
    assert not narrow or silicon.separation_check(silicon.moved(0, pitch), least).count() == 0


def test_a_small_mode_pitch_has_no_room_for_narrow_dummies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interferometers, "half_pitches_um", lambda process: (22.0, 1.0))
    with pytest.raises(ValueError, match="would be 2 µm from each other, at least 5 µm is needed"):
        interferometers._narrow_arm_um(PROCESS)


def test_both_arms_of_an_attenuator_have_the_same_length() -> None:
    upper = path_length("attenuator", "first,o3", "theta,o1", "theta,o2", "second,o2")
    assert path_length("attenuator", "first,o4", "second,o1") == pytest.approx(upper, abs=EXACT_UM)


# Models.

WAVELENGTHS_NM = np.array([1530.0, 1550.0, 1570.0])


def s_matrix(name: str, process: Process = PROCESS) -> np.ndarray[Any, np.dtype[np.complex128]]:
    if name in process.devices:
        keys = SETTINGS.get(process.device(name).model.name)
        if keys is None:
            return device_s(process, name, WAVELENGTHS_NM, 1.0)
        settings = {key: np.array([CELLS[name]().info[key]]) for key in keys}
        return sampled_s(process, name, WAVELENGTHS_NM, settings)[:, 0]
    length = region(CELLS[name](), "core").area() * 1e-6 / float(process.guide.width_um)
    strip = process.guide
    return guide(
        length,
        WAVELENGTHS_NM,
        index=strip.index,
        group_index=strip.group_index,
        reference_nm=strip.wavelength_nm,
        loss_db_per_cm=strip.loss_db_per_cm,
    )


MODELLED = [name for name in CELLS if name not in WITHOUT_MODEL]


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_has_a_model_or_a_reason_for_none(name: str) -> None:
    if name in COMPOSITES:
        leaves = {kind.name for kind in flatten(COMPOSITES[name]).kinds}
        assert leaves <= set(MODELLED)
    elif name in PROCESS.devices:
        card = PROCESS.device(name)
        assert (card.model.name in MODELS) == (name in MODELLED)
        assert bool(card.ports.optical) == (name in MODELLED)
    elif name in (*STRUCTURES, *WIRES):
        assert name in WITHOUT_MODEL
    else:
        assert name in GUIDES


@pytest.mark.parametrize("name", MODELLED)
def test_a_model_is_reciprocal_and_passive(name: str) -> None:
    s = s_matrix(name)
    ports = len(PROCESS.device(name).ports.optical) if name in PROCESS.devices else 2
    assert s.shape == (3, ports, ports)
    np.testing.assert_array_equal(s, np.swapaxes(s, 1, 2))
    assert np.linalg.svd(s)[1].max() <= 1 + 1e-12


def lossless() -> Process:
    """Return the process with devices without loss and reflection, but with their imbalance."""
    clean = {"loss_db": 0.0, "reflection_db": -400.0}
    devices = {}
    for name, card in PROCESS.devices.items():
        parameters = {k: clean.get(k, v) for k, v in card.model.parameters.items()}
        devices[name] = card.model_copy(update={"model": card.model.model_copy(update={"parameters": parameters})})
    strip = PROCESS.guide.model_copy(update={"loss_db_per_cm": 0.0})
    return PROCESS.model_copy(update={"devices": devices, "guide": strip})


@pytest.mark.parametrize("name", [name for name in MODELLED if name not in LOSSY])
def test_a_model_without_loss_is_unitary(name: str) -> None:
    s = s_matrix(name, lossless())
    eye = np.broadcast_to(np.eye(s.shape[1]), s.shape)
    np.testing.assert_allclose(s @ np.conj(np.swapaxes(s, 1, 2)), eye, atol=1e-12)


# Golden polygons and names.


def test_write_golden_writes_the_committed_files(tmp_path: Path) -> None:
    write_golden(PROCESS.model_copy(update={"folders": (tmp_path,)}))
    committed = {path.name: path.read_bytes() for path in (PROCESS.folder / "golden").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "golden").iterdir()} == committed


def test_equal_arguments_give_one_cell() -> None:
    assert CELLS["straight"](length=12.5) is CELLS["straight"](length=12.5)
    assert CELLS["straight"](length=12.5).name != CELLS["straight"](length=12.6).name


def test_names_list_the_arguments_that_differ_from_their_defaults() -> None:
    assert CELLS["straight"]().name == "straight"
    assert CELLS["straight"](length=10).name == "straight"
    assert CELLS["straight"](length=20.5).name == "straight_L20p5"
    long = CELLS["bend_euler"](radius=123.456, angle=180, p=0.25, npoints=400, allow_min_radius_violation=True)
    assert len(long.name) == 32


def test_names_of_other_cells_are_not_shortened() -> None:
    @gf.cell
    def a_cell_of_another_pdk(first_parameter_of_the_cell: float = 1.0) -> gf.Component:
        return gf.Component()

    assert len(a_cell_of_another_pdk(first_parameter_of_the_cell=1.23456).name) > 32


def test_long_parameters_give_short_and_distinct_names() -> None:
    names = {CELLS["die_frame"](name="n" * 30 + end).name for end in ("a", "b")}
    names |= {CELLS["cutback"](lengths=(2000.0, 4000.0, 8000.0, last)).name for last in (16000.0, 16001.0)}
    assert len(names) == 4
    assert max(map(len, names)) <= 32
