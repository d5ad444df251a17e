"""Comparison of soi220, one real platform (cornerstone220) and soi220_fast: results/platforms.json.

    python benchmarks/platforms.py               # all chips, about 10 minutes
    python benchmarks/platforms.py extinction    # prints the chips whose name contains a text

Chips compute with neurons at their outputs (link "neurons"). Variants of a process are folders of cards that the script
writes: they contain what differs.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from studies import blocks, write_study

from optinc_pdk import get_pdk
from optinc_pdk.budgets.light_budget import mzi_loss_db
from optinc_pdk.cards import Process, Receivers, load_process
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.cells.golden_files import write_golden
from optinc_pdk.io.formatting import format_si
from optinc_pdk.models.registry import device_s
from optinc_pdk.networks import AveragingNetwork, bundled_weights
from optinc_pdk.options import BUDGETS, BuildOptions
from optinc_pdk.pipeline import building
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import scattering
from optinc_pdk.studies.error_estimate import error_margins
from optinc_pdk.studies.highest_rates import find_rate_limits

PLATFORM = "cornerstone220"
PROCESSES = ("soi220", PLATFORM, "soi220_fast")
FAST = yaml.safe_load((components_folder() / "soi220_fast" / "process.yml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Chip:
    """One row.

    Attributes:
        text: Description of the process.
        bits: Bits of a word; 4 servers.
        process: Name of the process, or of the base of the variant.
        receivers: How the servers detect the outputs.
        cards: What the variant's process card contains besides the base.
        devices: Model parameters and geometry that differ, by device.
    """

    text: str
    bits: int
    process: str
    receivers: Receivers = "photodiodes"
    cards: Mapping[str, Any] = field(default_factory=dict)
    devices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def modulator(extinction_db: float, receivers: Receivers = "photodiodes") -> Chip:
    """A 4-bit chip with the platform's modulator of 1.8 mm and 5 dB on the chip."""
    return Chip(
        f"cornerstone220, modulators of 1.8 mm on the chip, extinction {extinction_db:g} dB",
        4,
        PLATFORM,
        receivers,
        {"activation": {"realisation": "onchip"}, "link": {"oscillator_w": {"value": 0.01, "source": "default"}}},
        {"modulator": {"extinction_db": extinction_db, "section_length_um": 1800.0}},
    )


ELECTRONICS = {key: FAST[key] for key in ("sources", "activation", "drive", "budget", "noise")} | {
    "link": {"oscillator_w": FAST["link"]["oscillator_w"]}
}
FAST_PARTS = {
    device: {key: float(load_process("soi220_fast").device(device).model.parameters[key]) for key in keys}
    for device, keys in (
        ("modulator", ("bandwidth_hz", "extinction_db")),
        ("photodiode", ("responsivity_a_per_w", "bandwidth_hz")),
    )
}


def chips(bits: int) -> list[Chip]:
    """Chips of all processes for words of one length."""
    return [
        Chip("soi220", bits, "soi220"),
        Chip(PLATFORM, bits, PLATFORM),
        Chip("soi220_fast", bits, "soi220_fast", "coherent"),
        Chip("cornerstone220, electronics of soi220_fast", bits, PLATFORM, "coherent", ELECTRONICS, FAST_PARTS),
    ]


CHIPS = [
    *chips(4),
    *chips(8),
    Chip("cornerstone220, heaters of 100 µm", 8, PLATFORM, devices={"phase_shifter": {"length_um": 100.0}}),
    *(modulator(3.0, receivers) for receivers in ("photodiodes", "coherent")),
    *(modulator(extinction) for extinction in (10.0, 20.0)),
]


def variant(chip: Chip, folder: Path) -> str:
    """Write the cards of a variant; returns its folder, or the name of a process that is used as it is."""
    if not (chip.cards or chip.devices):
        return chip.process
    folder.mkdir()
    card = {"schema": 1, "name": folder.name, "title": chip.text, "base": chip.process, **chip.cards}
    (folder / "process.yml").write_text(yaml.safe_dump(card, allow_unicode=True), encoding="utf-8")
    (folder / "devices").mkdir()
    for name, numbers in chip.devices.items():
        (path,) = load_process(chip.process).files(f"devices/{name}.yml")
        device = yaml.safe_load(path.read_text(encoding="utf-8"))
        for key, value in numbers.items():
            place = device["geometry"] if key in device["geometry"] else device["model"]["parameters"]
            place[key] = {"value": value, "source": "default"}
        (folder / "devices" / path.name).write_text(yaml.safe_dump(device, allow_unicode=True), encoding="utf-8")
    get_pdk(str(folder)).activate()
    write_golden(load_process(folder))
    return str(folder)


def measure(chip: Chip, folder: Path) -> str:
    """Build a chip and find its highest rate; returns a row of the table."""
    # cells of two processes of one name would have the same names
    name = variant(chip, folder / f"variant_{CHIPS.index(chip)}")
    process, weights = load_process(name), bundled_weights(chip.bits, 4)
    built = building.build(
        weights,
        folder,
        BuildOptions(name="chip", process=name, link="neurons", receivers=chip.receivers, accept=BUDGETS),
    )
    size, function = built.report.chip, built.report.function
    rate = "none: words are wrong"
    if built.report.verdict == "pass":
        extracted = read_extracted_chip(*(folder / f"chip{end}" for end in (".gds", ".pic.yml", ".bias.yml")), process)
        wavelength = float(process.guide.wavelength_nm)
        s = scattering(extracted.circuit, extracted.bias, wavelength, process, ground=extracted.ground)
        inputs = function_inputs(AveragingNetwork.load(weights).task)
        found = find_rate_limits(error_margins(s, inputs, extracted.board, extracted.bias), process).to_json()
        highest = found["symbol_rate_bd"]
        rate = "none" if highest is None else f"{format_si(highest, 'Bd')}, {limit(found)}"
    return (
        f"| {chip.text} | {chip.bits} | {chip.receivers} | {size.width_um / 1e3:.2f} × {size.height_um / 1e3:.2f} mm, "
        f"{size.fit} | {size.power_w:.2f} W | {size.limits['loss'].value:.1f} dB | "
        f"{function.exact:,} of {function.inputs:,}, {function.margin:.3f} | {rate} |"
    )


def limit(found: Mapping[str, Any]) -> str:
    """What limits the rate most, and where most errors arise at the highest rate."""
    if found["symbol_rate_bd"] >= found["highest_bd"] * (1.0 - 1e-9):
        return "the limit of the process"
    place = "receivers" if found["receivers"] >= max(found["layers"]) else "neurons"
    return f"{found['main_limit'] or 'several causes together'}, {place}"


def numbers(process: Process) -> dict[str, str]:
    """The numbers of a process card, by row of the table."""

    def of(device: str, parameter: str) -> float:
        return float(process.device(device).model.parameters[parameter])

    wavelength = float(process.guide.wavelength_nm)
    fibre = -20.0 * math.log10(abs(device_s(process, process.fibres.coupler, wavelength)[..., 1, 0].item()))
    extinction = process.device("modulator").model.parameters.get("extinction_db")
    heater, diode = process.device("phase_shifter"), process.device("photodiode")
    die = process.dies[-1]
    return {
        "column of MZIs": f"{mzi_loss_db(process):.2f} dB",
        "2×2, 1×2 coupler": f"{of('mmi2x2', 'loss_db'):g}, {of('mmi1x2', 'loss_db'):g} dB",
        "guides": f"{float(process.guide.loss_db_per_cm):g} dB/cm",
        "crossing": f"{of('crossing', 'loss_db'):g} dB",
        "fibre coupler at the carrier": f"{fibre:.2f} dB",
        "heater": f"{1e3 * of('phase_shifter', 'power_pi_w'):g} mW/π, {heater.size('length_um'):g} µm",
        "modulator": f"{of('modulator', 'loss_db'):g} dB, {of('modulator', 'bandwidth_hz') / 1e9:g} GHz, "
        f"extinction {'not stated' if extinction is None else f'{float(extinction):g} dB'}",
        "photodiode": f"{of(diode.name, 'responsivity_a_per_w'):g} A/W, {of(diode.name, 'bandwidth_hz') / 1e9:g} GHz",
        "fastest amplifier": f"{float(process.noise.amplifiers[-1].bandwidth_hz) / 1e9:g} GHz",
        "neurons": {"offchip": "off the chip", "onchip": "on the chip"}[process.activation.realisation],
        "largest die": f"{float(die.width_um) / 1e3:g} × {float(die.height_um) / 1e3:g} mm",
    }


def main() -> None:
    """Write the tables of all chips, or print the rows of those that are named."""
    part = "".join(sys.argv[1:2])
    columns = [numbers(load_process(name)) for name in PROCESSES]
    lines = ["### Numbers of the cards", "", f"| number of the card | {' | '.join(PROCESSES)} |", "|---|---|---|---|"]
    lines += [f"| {row} | {' | '.join(column[row] for column in columns)} |" for row in columns[0]]
    lines += ["", "### Chips", ""]
    lines.append(
        "| process | bits | receivers | size | heaters | loss of a layer | words exact, margin | rate at 1e-9 |"
    )
    lines.append("|---|---|---|---|---|---|---|---|")
    for chip in CHIPS:
        if part in chip.text:
            with tempfile.TemporaryDirectory() as folder:
                lines.append(measure(chip, Path(folder)))
                print(lines[-1], flush=True)
    if not part:
        networks = [bundled_weights(bits, 4) for bits in (4, 8)]
        write_study("platforms", blocks(lines), "python benchmarks/platforms.py", PROCESSES, networks)


if __name__ == "__main__":
    main()
