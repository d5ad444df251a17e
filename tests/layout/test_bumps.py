"""Flip-chip wiring: a bump on every contact, one ground per strip, and LVS reports mutants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.layout.canvas import Canvas, CellFrames
from optinc_pdk.layout.chip_layout import PlacementView
from optinc_pdk.layout.flipchip import bump_wiring
from optinc_pdk.layout.strips import StripBuilder

Point = tuple[float, float]
NETWORK = ("soi220_flipchip", (2, 4, 2))
FIRST, SECOND = "l0_u_c0_r0_phi", "l0_u_c0_r2_phi"


def positions(chip: Any) -> dict[str, Point]:
    return {text: (x, y) for text, x, y in chip.chip.canvas.texts}


def drawn_metal(canvas: Canvas, landing: float) -> kdb.Region:
    """Plates, bars and landings, as squares, merged."""
    half = landing / 2
    boxes = [*canvas.metal, *((x - half, y - half, x + half, y + half) for x, y in canvas.bumps)]
    return kdb.Region([kdb.Box(*(round(v * 1000) for v in box)) for box in boxes]).merged()


# with one server there is no tree between a trim and the first column
@pytest.mark.parametrize(("widths", "servers"), [(NETWORK[1], 2), ((2, 3, 2), 1)])
@pytest.mark.parametrize("process", ["soi220_flipchip", "soi220_flipchip_onchip"])
def test_every_pad_is_one_bump_at_its_label_and_bumps_keep_their_pitch(
    process: str, widths: tuple[int, ...], servers: int, built: Callable[..., Any]
) -> None:
    chip = built(process, widths, servers=servers)
    bumps, at = chip.chip.canvas.bumps, positions(chip)
    kinds = [chip.circuit.kinds[k].name for k in chip.circuit.kind.tolist()]
    pads = {name.removeprefix("pad_") for name, k in zip(chip.circuit.instances, kinds, strict=True) if k == "pad"}
    assert len({at[label] for label in pads}) == len(pads)
    assert {at[label] for label in pads} <= set(bumps)
    assert len(set(bumps)) == len(bumps)
    middle = np.array(bumps)
    apart = np.hypot(*(middle[:, None] - middle[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(middle))
    assert apart.min() >= float(chip.process.pads.pitch_um) - 1e-6


def test_landing_of_a_signal_touches_only_its_contact(built: Callable[..., Any]) -> None:
    chip = built(*NETWORK)
    canvas, at, process = chip.chip.canvas, positions(chip), chip.process
    netlist = PlacementView(chip.circuit)
    metal = drawn_metal(canvas, float(process.pads.size_um))
    size, space = float(process.pads.size_um), float(process.metal.space_um)
    contact = process.device("phase_shifter").size("contact_width_um")
    count = 0
    for instance, heaters in netlist.heaters.items():
        for label, signal, _ in heaters:
            x, y = at[label]
            port = canvas.port(f"{instance},{signal}")
            inner = port.x + (contact if port.angle == 180 else -contact)
            # the landing ends where the contact does, away from the heater
            assert (abs(inner - x), y) == (pytest.approx(size / 2), port.y)
            box = kdb.Box(*(round(v * 1000) for v in (x - size / 2, y - size / 2, x + size / 2, y + size / 2)))
            around = metal & kdb.Region(box.enlarged(round(space * 1000) - 1))
            assert around.area() == box.area()
            count += 1
    assert count == 40


def test_grounds_of_a_strip_are_one_piece_of_metal(built: Callable[..., Any]) -> None:
    chip = built(*NETWORK)
    canvas, at = chip.chip.canvas, positions(chip)
    landing = float(chip.process.pads.size_um)
    pieces = [p for p in drawn_metal(canvas, landing).each() if p.bbox().width() > landing * 1000]
    labels = [
        sorted(label for label, (x, y) in at.items() if piece.inside(kdb.Point(round(x * 1000), round(y * 1000))))
        for piece in pieces
    ]
    assert sorted(labels) == [["GND_l0_0", "GND_l0_1"], ["GND_l1_0", "GND_l1_1"]]
    # a bump next to every heater's ground takes its current
    grounds = [
        PlacementView(chip.circuit).heaters[name]
        for name in canvas.placed
        if name in PlacementView(chip.circuit).heaters
    ]
    rows = {y for x, y in canvas.bumps if any(p.inside(kdb.Point(round(x * 1000), round(y * 1000))) for p in pieces)}
    heights = {
        canvas.port(f"{name},{ground}").y
        for name, heaters in PlacementView(chip.circuit).heaters.items()
        for _, _, ground in heaters
    }
    assert grounds and heights <= rows


def test_chip_matches_its_circuit_and_keeps_every_rule(built: Callable[..., Any]) -> None:
    chip = built(*NETWORK)
    assert chip.differences() == []
    assert chip.rules_broken() == {}


def off_contact(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """One bump is 40 µm further out, its label with it."""
    x, y = at[FIRST]
    texts = [(text, x - 40 if text == FIRST else left, low) for text, left, low in canvas.texts]
    return replace(canvas, bumps=[(x - 40, y) if bump == (x, y) else bump for bump in canvas.bumps], texts=texts)


def bridged(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """Metal joins two landings of one column."""
    (x, upper), (_, lower) = at[FIRST], at[SECOND]
    return replace(canvas, metal=[*canvas.metal, (x - 2, lower, x + 2, upper)])


def swapped(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """The labels of two signals are exchanged."""
    other = {FIRST: SECOND, SECOND: FIRST}
    return replace(canvas, texts=[(other.get(text, text), x, y) for text, x, y in canvas.texts])


def without_bar(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """The bar with a strip's ground bumps is missing, so that they are separate landings."""
    x, y = at["GND_l0_0"]
    bar = max((b for b in canvas.metal if b[0] < x < b[2] and b[1] < y < b[3]), key=lambda b: b[2] - b[0])
    return replace(canvas, metal=[box for box in canvas.metal if box != bar])


def without_bump(canvas: Canvas, at: dict[str, Point]) -> Canvas:
    """A contact without a bump; its label stays."""
    return replace(canvas, bumps=[bump for bump in canvas.bumps if bump != at[FIRST]])


MUTANTS = {
    "a bump off its contact": (off_contact, FIRST),
    "two landings bridged": (bridged, SECOND),
    "two labels swapped": (swapped, FIRST),
    "no bar over the grounds": (without_bar, "GND_l0_"),
    "no bump": (without_bump, FIRST),
}


@pytest.mark.parametrize(("mutate", "label"), MUTANTS.values(), ids=MUTANTS)
def test_lvs_reports_mutants(
    mutate: Callable[[Canvas, dict[str, Point]], Canvas],
    label: str,
    built: Callable[..., Any],
    written: Callable[..., Any],
) -> None:
    chip = built(*NETWORK)
    canvas = mutate(chip.chip.canvas, positions(chip))
    differences = written(chip.process, chip.circuit, replace(chip.chip, canvas=canvas)).differences()
    assert any(label in message for message in differences)


def test_strip_without_a_ground_pad_is_refused(built: Callable[..., Any], process_of: Callable[..., Any]) -> None:
    process = process_of("soi220_flipchip")
    netlist = PlacementView(built(*NETWORK).circuit)
    strip = StripBuilder(netlist, process, "l0", ["l0"], CellFrames()).build()
    with pytest.raises(InputError, match="'l0'"):
        bump_wiring(strip, netlist, process, [])
