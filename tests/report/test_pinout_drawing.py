"""The packaging drawing: valid SVG of whole sheets, with every label or a note, and the same bytes every time."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.report.pinout import Pin, Pinout
from optinc_pdk.report.pinout_drawing import MOST_INNER_LABELS, MOST_LETTERS, least_distance_um, pinout_svg, pitch_text

DIE = (0.0, 0.0, 11_470.0, 4_900.0)
PAD = Pin("pad", 1, 1, "heater_a", 5_000.0, 90.0, "bottom", channel=0, function="heater", net="heater_a")
FIBRE = Pin("fibre", 1, 1, "in_s0_m0", 3_000.0, 2_000.0, "left", array=1, channel=0, function="input")


def drawn(*pins: Pin, dies: int = 1, process: str = "soi220") -> ElementTree.Element:
    outlines = tuple((left, DIE[1], left + DIE[2], DIE[3]) for left in (12_000.0 * i for i in range(dies)))
    return ElementTree.fromstring(pinout_svg(Pinout("chip", outlines, pins), load_process(process)))


def texts_of(svg: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()) for element in svg.iter("{http://www.w3.org/2000/svg}text")]


def test_the_sheet_has_format_a3_and_states_die_scale_and_pins() -> None:
    svg = drawn(PAD, FIBRE, replace(PAD, number=2, label="heater_b", x_um=5_100.0))
    assert [round(float(svg.attrib[key].removesuffix("pt")) / 72 * 25.4) for key in ("width", "height")] == [420, 297]
    text = "\n".join(texts_of(svg))
    for fact in ("P1 heater_a", "P2 heater_b", "F1 in_s0_m0", "11.470 mm", "4.900 mm", "heater (2)", "fibre (1)"):
        assert fact in text
    assert "2 pads, at least 100.0 µm apart" in text and ": 1 on A3" in text
    assert "chip.pinout.csv" in text and "die 1 of" not in text


def test_each_die_has_a_sheet() -> None:
    other = replace(PAD, number=2, die=2, label="heater_b", x_um=17_000.0)
    svg = drawn(PAD, other, dies=2)
    assert round(float(svg.attrib["height"].removesuffix("pt")) / 72 * 25.4) == 2 * 297
    text = "\n".join(texts_of(svg))
    assert "die 1 of 2" in text and "die 2 of 2" in text and "P2 heater_b" in text


@pytest.mark.parametrize("label", ["a$b$", "<&>", "a\x01b", "x" * 300, "two\nlines", "\\frac"])
def test_any_label_is_drawn_as_text(label: str) -> None:
    (text,) = [text for text in texts_of(drawn(replace(PAD, label=label))) if text.startswith("P1 ")]
    shown = "".join(letter if letter.isprintable() else "?" for letter in label)
    assert text == f"P1 {shown}" if len(shown) <= MOST_LETTERS else len(text) == 3 + MOST_LETTERS


def test_pins_outside_all_dies_and_layouts_without_dies_are_noted() -> None:
    outside = replace(PAD, die=None, edge="")
    assert any("1 pins are outside all dies" in text for text in texts_of(drawn(outside)))
    assert any("1 pins are outside all dies" in text for text in texts_of(drawn(outside, dies=0)))


def test_labels_without_room_are_in_the_table_or_noted() -> None:
    bumps = [
        Pin("bump", i, 1, f"bump_{i}", 300.0 + 50.0 * (i % 20), 300.0 + 50.0 * (i // 20), "", function="heater")
        for i in range(1, 401)
    ]
    texts = texts_of(drawn(*bumps, process="soi220_flipchip"))
    assert "Not labelled above:" in texts
    lines = [line for text in texts for line in text.split("\n")]
    missing = [bump for bump in bumps if f"B{bump.number} {bump.label}" not in lines]
    (legend,) = [text for text in texts if "chip.pinout.csv" in text]
    assert missing == [] or f"{len(missing)} labels have no room here" in legend


def test_dense_edges_are_labelled_in_part_and_say_so() -> None:
    pads = [replace(PAD, number=i + 1, x_um=100.0 + 20.0 * i, label=f"pad_{i}") for i in range(500)]
    texts = texts_of(drawn(*pads))
    labelled = [text for text in texts if text.startswith("P")]
    (legend,) = [text for text in texts if "chip.pinout.csv" in text]
    assert "bottom edge: one of 3 pins is labelled" in legend and len(labelled) == 167


def test_more_pins_than_the_limit_within_a_die_are_noted() -> None:
    bumps = [
        Pin("bump", i, 1, "", 100.0 + 110.0 * (i % 100), 100.0 + 110.0 * (i // 100), "")
        for i in range(MOST_INNER_LABELS + 50)
    ]
    (legend,) = [t for t in texts_of(drawn(*bumps, process="soi220_flipchip")) if "chip.pinout.csv" in t]
    assert "pins have no number here" in legend


def test_a_drawing_of_a_chip_has_the_same_bytes_again_and_every_label(tiny_chip: Path) -> None:
    svg = tiny_chip.with_suffix(".pinout.svg").read_bytes()
    lines = {line for text in texts_of(ElementTree.fromstring(svg)) for line in text.split("\n")}
    rows = tiny_chip.with_suffix(".pinout.csv").read_text().splitlines()[1:]
    letters = {"pad": "P", "fibre": "F"}
    for kind, number, _, label, *_ in (row.split(",") for row in rows):
        assert f"{letters[kind]}{number} {label}" in lines
    assert b"DejaVu Sans Mono" in svg and b"<dc:date>" not in svg
    pins = Pinout("chip", (DIE,), (PAD, FIBRE))
    assert pinout_svg(pins, load_process()) == pinout_svg(pins, load_process())


def test_the_pitch_of_an_array_is_its_range_where_it_is_not_uniform() -> None:
    fibres = [replace(FIBRE, y_um=y) for y in (0.0, -127.0, -254.01)]
    assert pitch_text(fibres) == "127 µm"
    assert pitch_text([*fibres, replace(FIBRE, y_um=-400.0)]) == "127 to 146 µm"


def test_the_least_distance_is_that_of_the_nearest_two() -> None:
    assert least_distance_um([(0.0, 0.0), (3.0, 4.0), (100.0, 0.0)]) == 5.0
