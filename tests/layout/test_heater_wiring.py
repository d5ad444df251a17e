"""Wiring on one metal: grounds wide enough for their current, MZIs lengthened for them, pads within their edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import unwrap
from typing import Any

import numpy as np
import pytest

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import Process, Quantity, load_process
from optinc_pdk.cards.rules import PadSizeRule
from optinc_pdk.circuit import NetlistError
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, floorplan, lay_out_network, to_layout, write_gds
from optinc_pdk.layout._heater_wiring import SignalWire, full_current_a, stretch_um, trunk_width
from optinc_pdk.layout._perimeter import pad_rows, pad_targets
from optinc_pdk.layout.canvas import Canvas, CellFrames
from optinc_pdk.layout.chip_layout import PlacementView

STRETCH = 78.0


def limited(process: Process, current_ma_per_um: float) -> Process:
    """The process with another current limit of its metal."""
    metal = process.metal.model_copy(update={"current_ma_per_um": Quantity(current_ma_per_um, "test")})
    return process.model_copy(update={"metal": metal})


@pytest.mark.parametrize("name", ["soi220", "soi220_two_metal"])
def test_trunk_carries_all_its_heaters_and_is_not_mistaken_for_a_pad(name: str) -> None:
    process = load_process(name)
    contact, carries = process.device("phase_shifter").size("contact_width_um"), process.metal.current_ma_per_um
    pads = [rule for rule in process.rules if isinstance(rule, PadSizeRule)]
    assert pads
    widths = [trunk_width(process, heaters) for heaters in range(200)]
    assert widths == sorted(widths)
    assert widths[0] == contact
    for heaters, width in enumerate(widths):
        assert width * float(carries) >= 1e3 * full_current_a(process) * heaters
        # the pad rules recognise wide metal as a pad
        assert not any(rule.recognize_um < width < rule.value_um for rule in pads)


def test_mzis_are_stretched_for_wide_grounds_only(process_of: Callable[..., Any]) -> None:
    process = process_of("soi220")
    stretch = [stretch_um(PlacementView(mesh_chip(modes, process, "mesh")), process) for modes in (2, 24, 48)]
    assert stretch[:2] == [0.0, 0.0]
    assert stretch[2] > 0
    # half the current per micrometre has the effect of twice as many heaters in a column
    half = limited(process, float(process.metal.current_ma_per_um) / 2)
    assert stretch_um(PlacementView(mesh_chip(24, half, "mesh")), half) == pytest.approx(stretch[2], abs=1)


def test_a_stretched_mesh_is_the_circuit_its_trunks_between_the_heaters(
    process_of: Callable[..., Any], written: Callable[..., Any]
) -> None:
    process = limited(process_of("soi220"), 0.12)
    circuit = mesh_chip(4, process, "mesh")
    netlist = PlacementView(circuit)
    assert stretch_um(netlist, process) == STRETCH
    chip = floorplan(circuit, process)
    assert chip.canvas.frames.stretch_um == STRETCH
    assert written(process, circuit, chip).differences() == []
    contact, checked = process.device("phase_shifter").size("contact_width_um"), 0
    for name, kind in netlist.component.items():
        if kind != "mzi_unit":
            continue
        left, right = (chip.canvas.port(f"{name},{port}").x for port in ("e2", "e4"))
        count = 2 * sum(netlist.grid[other][:2] == netlist.grid[name][:2] for other in netlist.heaters)
        (trunk,) = [
            b for b in chip.canvas.metal if left - contact < (b[0] + b[2]) / 2 < right + contact and b[3] - b[1] > 1000
        ][:1]
        assert trunk[2] - trunk[0] == trunk_width(process, count)
        assert left - contact <= trunk[0] and trunk[2] <= right + contact
        checked += 1
    assert checked == 6


def test_lvs_reports_a_mesh_that_is_not_stretched(
    process_of: Callable[..., Any], written: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = limited(process_of("soi220"), 0.12)
    circuit = mesh_chip(3, process, "mesh")
    # the width for a column of two
    monkeypatch.setattr("optinc_pdk.layout._heater_wiring.trunk_width", lambda *_: 224.0)
    monkeypatch.setitem(unwrap(floorplan).__globals__, "stretch_um", lambda *_: 0.0)
    differences = written(process, circuit, floorplan(circuit, process)).differences()
    assert any(all(part in m for part in ("length_um", "61.250", "100.000")) for m in differences)


def test_arms_of_stretched_mzis_and_dummies_have_equal_length(process_of: Callable[..., Any], tmp_path: Any) -> None:
    process = process_of("soi220")
    # contacts lie on guides, whose length nets include
    heated = process.device("phase_shifter").size("length_um")
    first: dict[str, float] = {}
    for stretch in (0.0, STRETCH):
        canvas = Canvas(CellFrames(stretch))
        canvas.place("m", "mzi_unit", 500.0, 500.0)
        canvas.place("d", "mzi_dummy", 500.0, 1000.0)
        for port in ("m,o1", "m,o2", "m,o3", "m,o4", "d,o1", "d,o2"):
            at = canvas.port(port)
            away = 40.0 if at.angle == 0 else -40.0
            # apart by more than the pitch of gratings
            canvas.place(port.replace(",", "_"), "grating_coupler", at.x + away, at.y, rotation=at.angle)
            canvas.guide((at.x, at.y), (at.x + away, at.y))
            fibre = canvas.port(f"{port.replace(',', '_')},o2")
            canvas.texts.append((port.replace(",", "_"), fibre.x, fibre.y))
        write_gds(
            to_layout(ChipLayout(canvas, ((0.0, 0.0, 2000.0, 2000.0),), (), ""), process, "arms"), tmp_path / "a.gds"
        )
        circuit = extract(tmp_path / "a.gds", process).circuit
        length, partner = np.zeros(int(circuit.offset[-1])), circuit.partners()
        length[circuit.nets] = circuit.net_length_um[:, None]
        owner = np.repeat(np.arange(len(circuit.instances)), np.diff(circuit.offset))
        outer = {label: float(length[port - 1]) for label, port in circuit.ports.items()}
        kind = {label: circuit.kinds[circuit.kind[owner[partner[p - 1]]]].name for label, p in circuit.ports.items()}
        assert kind == {"m_o1": "mmi2x2", "m_o2": "phase_shifter", "m_o3": "mmi2x2", "m_o4": "mmi2x2"} | dict.fromkeys(
            ("d_o1", "d_o2"), "mmi2x2"
        )
        # the guide after the shifter of the upper arm is the longest of those between shifters and couplers
        ends = [{circuit.kinds[circuit.kind[owner[p]]].name for p in net} for net in circuit.nets.tolist()]
        behind = max(x for x, e in zip(circuit.net_length_um, ends, strict=True) if e == {"phase_shifter", "mmi2x2"})
        assert outer["m_o1"] == pytest.approx(outer["m_o2"] + heated + behind, abs=1e-3)
        assert outer["m_o3"] == pytest.approx(outer["m_o4"], abs=1e-3)
        # a dummy is as long as an MZI, before its first coupler and after its second
        assert outer["d_o1"] + outer["d_o2"] == pytest.approx(outer["m_o1"] + outer["m_o4"], abs=1e-2)
        if first:
            assert {label: outer[label] - first[label] for label in outer} == pytest.approx(
                dict.fromkeys(outer, 0.0) | {"m_o1": STRETCH, "d_o1": STRETCH}, abs=1e-3
            )
        first = outer


def test_pads_are_in_the_fewest_rows_that_fit() -> None:
    process = load_process()
    size, pitch = float(process.pads.size_um), float(process.pads.pitch_um)
    for count in (1, 10, 100):
        assert next(pad_rows(process, count, 1e6)) == 1
    assert process.pad_pitch_um(1) >= max(size, pitch)
    deepest = int(process.pads.rows_max)
    depths = []
    for width in range(100, 12_000, 50):
        offered = list(pad_rows(process, 100, width))
        depths.append(min(offered, default=deepest + 1))
        assert offered == list(range(depths[-1], deepest + 1))
        for rows in offered:
            assert -(-100 // rows) * process.pad_pitch_um(rows) <= width
            # outer rows' wires pass between the inner pads
            wires = (rows - 1) * float(process.metal.wire_width_um + process.metal.space_um)
            assert process.pad_pitch_um(rows) - size - wires >= float(process.metal.space_um) - 1e-9
    assert depths == sorted(depths, reverse=True)
    assert set(depths) == set(range(1, deepest + 2))


def test_pads_of_a_row_keep_their_pitch_to_the_nanometre() -> None:
    process = load_process("soi220_two_metal")
    pitch = round(process.pad_pitch_um(2) * 1e3)
    rng = np.random.default_rng(0)
    for _ in range(200):
        # on the grid, so that means of columns side by side often end in half a nanometre
        places = np.sort(rng.integers(200_000, 2_000_000, 40)) / 1e3
        wires = [SignalWire(f"w{i}", ((x, 0.0),)) for i, x in enumerate(places.tolist())]
        targets = pad_targets(process, wires, 2, 100.0, 2900.0)
        for row in (0, 1):
            assert np.diff([round(x * 1e3) for x in targets[row::2]]).min() >= pitch


def test_blocks_of_a_strip_share_a_trunk_and_stretch_for_it(
    process_of: Callable[..., Any], network: Callable[..., Any], written: Callable[..., Any]
) -> None:
    process = limited(process_of("soi220"), 0.16)
    circuit, chip = lay_out_network(network((2, 8, 2), (2, 2)), process, "chip")
    # four blocks of one MZI each are below each other in the first strip
    assert chip.canvas.frames.stretch_um > stretch_um(PlacementView(mesh_chip(2, process, "mesh")), process)
    assert written(process, circuit, chip).differences() == []


def test_an_unknown_section_is_refused(process_of: Callable[..., Any]) -> None:
    circuit = mesh_chip(4, process_of("soi220"), "mesh")
    odd = replace(circuit, sections=tuple("elsewhere" if name == "l0" else name for name in circuit.sections))
    with pytest.raises(NetlistError, match=r"mesh: .*'"):
        floorplan(odd, process_of("soi220"))
