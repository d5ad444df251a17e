"""Highest symbol rate against the power of local oscillators; writes results/oscillator_power.json.

    python benchmarks/oscillator_power.py

Chips of the bundled networks for 4 servers, with the link and the receivers of their process, are built, extracted from
their GDS, and driven by the codes of their bias files. Gains and offsets of the neurons are set for every power.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from studies import blocks, write_study

from optinc_pdk.cards import load_process
from optinc_pdk.io.formatting import format_si
from optinc_pdk.networks import AveragingNetwork, bundled_weights
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline import building
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.signoff.function import function_inputs, oscillator_powers
from optinc_pdk.simulate import scattering
from optinc_pdk.studies.oscillators import oscillator_light, oscillator_rates

POWERS_W = (1e-3, 3e-3, 1e-2, 1.6e-2)
PROCESSES = ("soi220", "soi220_fast")


def row(process_name: str, bits: int) -> str:
    """Build a chip and return its row of the table."""
    process, weights = load_process(process_name), bundled_weights(bits, 4)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        building.build(weights, folder, BuildOptions(name="chip", process=process_name))
        files = [folder / f"chip{ending}" for ending in (".gds", ".pic.yml", ".bias.yml")]
        chip = read_extracted_chip(*files, process)
    s = scattering(chip.circuit, chip.bias, float(process.guide.wavelength_nm), process, ground=chip.ground)
    start = time.process_time()
    most = () if process.noise is None else (float(process.noise.laser_max_w),)
    powers = np.unique([*POWERS_W, *most]).tolist()
    found = oscillator_rates(
        s, function_inputs(AveragingNetwork.load(weights).task), chip.board, chip.bias, process, powers_w=powers
    )
    rates = {one.oscillator_w: one.symbol_rate_bd for one in found.points}
    shown = [rates[power] for power in POWERS_W] + [rates[max(powers)]]
    print(f"{process_name}, {bits} bits: {time.process_time() - start:.1f} s of CPU, {len(powers)} powers", flush=True)
    light = oscillator_light(chip.board, oscillator_powers(s, chip.board), 0.01)
    mixers = ", ".join(format_si(power, "W") for power in (light.mixer_mean_w, light.mixer_least_w))
    texts = ["none" if rate is None else format_si(rate, "Bd") for rate in shown]
    return (
        f"| {bits} | {process_name} | {light.fibres} | {mixers} | {' | '.join(texts)}, {format_si(max(powers), 'W')} |"
    )


def main() -> None:
    """Write the table."""
    rows = [row(process, bits) for process in PROCESSES for bits in (4, 8)]
    powers = " | ".join(format_si(power, "W") for power in POWERS_W)
    head = f"| bits | process | fibres | at a mixer at 10 mW, mean and least | {powers} | the limit of a guide |"
    networks = [bundled_weights(bits, 4) for bits in (4, 8)]
    write_study("oscillator_power", blocks([head, *rows]), "python benchmarks/oscillator_power.py", PROCESSES, networks)


if __name__ == "__main__":
    main()
