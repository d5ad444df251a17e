"""Spectra in the report of a build: against the S-parameters of the circuit, and in page and numbers."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board, Circuit, read_bias, read_netlist
from optinc_pdk.drive import SharedGround
from optinc_pdk.extract import extract
from optinc_pdk.report import spectra as module
from optinc_pdk.report.page import render_page
from optinc_pdk.report.schema import Report, SpectrumNumbers
from optinc_pdk.report.spectra import (
    DPI,
    FONT_PT,
    LOWEST_DB,
    network_sources,
    source_spectra,
    spectrum_png,
    spectrum_rows,
)
from optinc_pdk.signoff.electrical.wiring import wiring_of
from optinc_pdk.simulate import analyse, scattering

PROCESS = load_process("soi220")


@dataclasses.dataclass(frozen=True, eq=False)
class Extracted:
    """A chip as extracted, with its bias, its board and its report."""

    circuit: Circuit
    ground: SharedGround | None
    bias: Bias
    board: Board
    report: Report


@pytest.fixture(scope="module")
def chip(tiny_chip: Path) -> Extracted:
    extraction = extract(tiny_chip, PROCESS)
    board = read_netlist(tiny_chip.with_suffix(".pic.yml")).board
    assert board is not None
    return Extracted(
        extraction.circuit,
        wiring_of(extraction, PROCESS).common_ground,
        read_bias(tiny_chip.with_suffix(".bias.yml")),
        board,
        Report.from_json(tiny_chip.with_suffix(".report.json").read_text()),
    )


def spectrum_of(chip: Extracted) -> SpectrumNumbers:
    return source_spectra(analyse(chip.circuit), network_sources(chip.board), chip.bias, PROCESS, chip.ground)


def test_sources_are_the_carrier_the_inputs_and_the_neurons_of_each_layer(chip: Extracted) -> None:
    groups = network_sources(chip.board)
    assert list(groups) == [
        "carrier",
        "inputs",
        *(f"neurons of layer {layer}" for layer in range(chip.board.layers - 1)),
    ]
    assert groups["carrier"] == chip.board.unmodulated
    labels = [label for group in groups.values() for label in group]
    assert len(labels) == len(set(labels)) and set(labels) <= set(analyse(chip.circuit).labels)


def test_curves_are_the_powers_of_the_s_parameters(chip: Extracted) -> None:
    found = chip.report.spectrum
    assert found is not None and found.left_out is None
    at = [0, found.wavelengths_nm.index(found.carrier_nm), -1]
    wavelengths = [found.wavelengths_nm[place] for place in at]
    assert (wavelengths[0], found.carrier_nm, wavelengths[-1]) == (1500.0, 1550.0, 1600.0)
    light = scattering(chip.circuit, chip.bias, wavelengths, PROCESS, ground=chip.ground)
    groups = network_sources(chip.board)
    assert [(curve.name, curve.sources) for curve in found.curves] == [(n, len(each)) for n, each in groups.items()]
    for curve in found.curves:
        others = [[each for each in light.labels if each != label] for label in groups[curve.name]]
        powers = np.array(
            [
                (np.abs(light.between(outs, [label])) ** 2).sum(axis=(1, 2))
                for label, outs in zip(groups[curve.name], others, strict=True)
            ]
        )
        for values, expected in (
            (curve.mean_db, powers.mean(axis=0)),
            (curve.lowest_db, powers.min(axis=0)),
            (curve.highest_db, powers.max(axis=0)),
        ):
            assert np.allclose([values[place] for place in at], 10.0 * np.log10(expected), atol=1e-3)
        # gratings have their maximum at the carrier's wavelength
        assert int(np.argmax(curve.mean_db)) == at[1]
        assert min(curve.lowest_db) > LOWEST_DB


def test_the_page_has_the_picture_the_table_and_the_assumptions(chip: Extracted) -> None:
    section = section_of(render_page(chip.report))
    assert chip.report.spectrum is not None
    assert "data:image/png;base64," in section and "optinc spectrum" in section
    assert "mean power" in section and "extrapolated" in section
    assert "bias of 1550 nm" in section and "41 wavelengths from 1500 to 1600 nm" in section
    for wavelength, values in spectrum_rows(chip.report.spectrum):
        cells = "".join(f"<td class=value>{value} dB</td>" for value in values)
        assert f"<th scope=row>{wavelength}</th>{cells}" in section


def test_the_text_of_the_picture_is_readable_on_a_telephone(chip: Extracted) -> None:
    assert chip.report.spectrum is not None
    width = int.from_bytes(spectrum_png(chip.report.spectrum)[16:20])
    # a window of 390 px has about 350 px for a picture
    assert FONT_PT / 72.0 * DPI * 350.0 / width >= 8.0


def test_the_table_has_the_carrier_and_steps_of_ten_nanometres() -> None:
    spectrum = SpectrumNumbers(carrier_nm=1553.0, wavelengths_nm=[1540.0, 1545.0, 1550.0, 1553.0, 1555.0, 1563.0])
    assert [row[0] for row in spectrum_rows(spectrum)] == ["1540", "1550", "1553", "1563"]


def test_chips_with_more_devices_have_fewer_wavelengths_or_none(
    chip: Extracted, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(analyse(chip.circuit).circuit.instances)
    monkeypatch.setattr(module, "STEPS", ((count - 1, 40), (count, 10)))
    assert spectrum_of(chip).wavelengths_nm == np.linspace(1500.0, 1600.0, 11).tolist()
    monkeypatch.setattr(module, "STEPS", ((count - 1, 40),))
    found = spectrum_of(chip)
    assert (found.curves, found.wavelengths_nm) == ([], [])
    assert found.left_out is not None and f"{count:,} devices" in found.left_out
    section = section_of(render_page(chip.report.model_copy(update={"spectrum": found})))
    assert found.left_out in section and "optinc simulate" in section and "<img" not in section


def test_reports_of_earlier_versions_have_no_section(chip: Extracted) -> None:
    assert "id=spectra" not in render_page(chip.report.model_copy(update={"spectrum": None}))


def section_of(page: str) -> str:
    found = re.search(r"<section id=spectra.*?</section>", page, re.DOTALL)
    assert found is not None
    return found[0]
