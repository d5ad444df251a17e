"""Simulate all-reduces on every system and compare with published figures: results/interconnect.json.

    python benchmarks/interconnect.py [--chips DIR]

DIR/<process> contains the bundled 4-bit and 8-bit chips with output neurons, as written by `optinc build`; missing
chips are built.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from studies import blocks, read_data, write_study

from optinc_collective.interconnect import (
    ExchangeEnergy,
    System,
    binary_tree,
    exchange_energy,
    hierarchical_ring,
    load_system,
    recursive_doubling,
    ring,
    schedule_of,
    simulate,
    step_time,
    system_names,
    with_rate,
    wrht,
)
from optinc_collective.interconnect.exchange_simulation import OPTICS
from optinc_collective.interconnect.training_time import Workload, compute_time, llama, resnet50
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, Receivers, load_process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.io.formatting import format_short, format_si
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.networks.weight_files import NETWORKS
from optinc_pdk.options import BUDGETS, BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import Scattering, scattering
from optinc_pdk.simulate.transmission.noise import noise_choices, rate_limits
from optinc_pdk.studies.error_estimate import error_margins
from optinc_pdk.studies.highest_rates import RATE_PRECISION, best_noise, highest_rate
from optinc_pdk.studies.link_energy import LinkEnergy, link_energy

DOCS = Path(__file__).parent.parent / "docs"
GROUP = 5
"""Nodes of the hierarchical ring's groups: m = 5 in arXiv 2207.10982."""
WORD_ERROR_RATE = 1e-9
"""Word-error rate for which the chips' cards in components/systems give the symbol rates."""
SERVERS = 4
LINE_BIT_PER_S = 6.4e12
"""Rate of all transceivers of a server in arXiv 2603.28290."""
CHIPS: tuple[tuple[str, Receivers], ...] = (("soi220", "photodiodes"), ("soi220_fast", "coherent"))
RIVALS = (
    ("ring between neighbours", "ring", "ring_800g"),
    ("ring through a switch", "ring", "switch_800g"),
    ("recursive doubling through a switch", "recursive-doubling", "switch_800g"),
    ("SHARP", "sharp", "sharp"),
)
OPTICS_TEXT = {"pluggable": "pluggable", "linear": "linear pluggable", "copackaged": "co-packaged"}
FAST_PARTS = ("modulator drivers", "amplifiers")
"""Parts of a chip's power that take most of it."""
SYMBOL_PARTS = ("decisions", "converters", "SerDes")
"""Parts that take their energy for every symbol."""
PARAMETERS = {"GoogLeNet": 6_624_904, "ResNet-50": 25_557_032, "AlexNet": 61_100_840, "VGG-16": 138_357_544}
"""Numbers of parameters in PyTorch's model zoo, with 1000 classes."""
PUBLISHED = (0.7559, 0.4925, 0.701)
"""Savings of WRHT against ring, hierarchical ring and binary tree, arXiv 2207.10982 version 1."""
SIZE = 100e6
CASES = (
    ("ring", "wdm_ring"),
    ("hierarchical-ring", "wdm_ring"),
    ("binary-tree", "wdm_ring"),
    ("wrht", "wdm_ring"),
    ("ring", "fat_tree"),
    ("recursive-doubling", "fat_tree"),
    ("ring", "switch_800g"),
    ("sharp", "sharp"),
    ("optinc", "optinc_cascade_40g"),
    ("optinc", "optinc_cascade"),
)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def percent(share: float) -> str:
    """Format a share as a percentage."""
    return f"{100 * share:.1f} %".replace("-", "−")


def rate_text(bit_per_s: float) -> str:
    """Format a rate; rates of servers need the prefix tera."""
    return f"{bit_per_s / 1e12:.3g} Tb/s" if bit_per_s >= 1e12 else format_si(bit_per_s, "b/s")


def systems() -> list[str]:
    """Section with the system cards."""
    rows = []
    for name in system_names():
        system = load_system(name)
        per = {"wdm_ring": "per wavelength", "fat_tree": "per link"}.get(system.kind, "per server")
        rows.append(
            (name, system.kind, f"{rate_text(float(system.bit_per_s))} {per}", format_si(system.overhead_s, "s"))
        )
    return ["## Systems", "", *table(("card", "kind", "rate", "overhead per step"), rows)]


def step_counts() -> list[str]:
    """Section with the step counts of executed schedules."""
    schedules = (
        ("Ring", ring(1024), 2046),
        (f"H-Ring, m = {GROUP}", hierarchical_ring(1024, GROUP), 417),
        ("Binary tree", binary_tree(1024), 20),
        ("WRHT, w = 64", wrht(1024, 64), 3),
        ("Recursive doubling", recursive_doubling(1024), "–"),
    )
    rows = [
        (name, schedule.count, published, schedule.wavelengths, f"{schedule.sent.max():.3g}")
        for name, schedule, published in schedules
    ]
    head = ("all-reduce", "steps", "published", "wavelengths", "buffers sent by the busiest node")
    return ["## Steps at 1024 nodes", "", *table(head, rows)]


def wrht_savings(rate: float, nodes: int = 1024) -> tuple[float, float, float]:
    """Mean saving of WRHT over the networks against ring, hierarchical ring and binary tree."""
    system = with_rate(load_system("wdm_ring"), rate)
    rivals = (ring(nodes), hierarchical_ring(nodes, GROUP), binary_tree(nodes))
    saved = [
        [
            1 - simulate(wrht(nodes, 64), system, 4 * size).seconds / simulate(rival, system, 4 * size).seconds
            for rival in rivals
        ]
        for size in PARAMETERS.values()
    ]
    ring_, hierarchical, tree = np.mean(saved, axis=0).tolist()
    return ring_, hierarchical, tree


def fitted_rate(saving: float) -> float:
    """Rate of a wavelength at which WRHT has a given saving compared with the ring."""
    low, high = 1e9, 1e13
    while high > 1.001 * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if wrht_savings(middle)[0] < saving else (low, middle)
    return low


def optical() -> list[str]:
    """Section comparing WRHT with all-reduces on the optical ring."""
    fitted = fitted_rate(PUBLISHED[0])
    rates = sorted((40e9, 100e9, 200e9, fitted, 1e12))
    rows: list[tuple[str, ...]] = [(rate_text(rate), *map(percent, wrht_savings(rate))) for rate in rates]
    rows.append(("published, version 1", *(f"{100 * share:.4g} %" for share in PUBLISHED)))
    rows.append(("published, version 2", "80.81 %", "64.36 %", "82.12 %"))
    return [
        "## WRHT against three all-reduces on the optical ring",
        "",
        "1024 nodes, 64 wavelengths, 25 µs per step; 32-bit gradients, mean over GoogLeNet, ResNet-50, AlexNet and "
        f"VGG-16. At {rate_text(fitted)} the saving compared with the ring is that of version 1.",
        "",
        *table(("rate of a wavelength", "less time than ring", "than H-Ring", "than binary tree"), rows),
    ]


def electrical() -> list[str]:
    """Section comparing WRHT with two all-reduces on the fat tree."""
    optics = load_system("wdm_ring")
    rows: list[tuple[str, ...]] = []
    for rate in (5e9, 10e9, 20e9, 40e9):
        tree = with_rate(load_system("fat_tree"), rate)
        saved = [
            [
                1 - simulate(wrht(1024, 64), optics, 4 * size).seconds / simulate(rival, tree, 4 * size).seconds
                for rival in (ring(1024), recursive_doubling(1024))
            ]
            for size in PARAMETERS.values()
        ]
        rows.append((rate_text(rate), *map(percent, np.mean(saved, axis=0))))
    rows.append(("published, version 1", "86.69 %", "84.71 %"))
    rows.append(("published, version 2", "92.42 %", "91.31 %"))
    return [
        "## WRHT on the optical ring against two all-reduces on the fat tree",
        "",
        "The ring has 40 Gb/s per wavelength; the links of the tree have several rates.",
        "",
        *table(("rate of a link", "less time than ring", "than recursive doubling"), rows),
    ]


def latencies() -> list[str]:
    """Section with OptINC's saving per training step."""
    star, switch = load_system("optinc_star"), load_system("server_switch")
    rows = []
    image, token = resnet50(32, 100, small_stem=False), llama(8, 384, 1024, 32_000, 512)
    cases: tuple[tuple[Workload, str, tuple[int, ...]], ...] = (
        (image, "images", (4, 32, 128)),
        (resnet50(32, 100, small_stem=True), "images, 3 × 3 stem", (4, 32)),
        (token, "tokens", (64, 512, 4096)),
    )
    for workload, what, batches in cases:
        for batch in batches:
            compute = compute_time(star.server, batch * workload.flop)
            row = [workload.name, f"{batch} {what}", f"{workload.parameters / 1e6:.1f} M", format_si(compute, "s")]
            for rate in (6.4e12, 800e9):
                both = [
                    step_time(scheme, with_rate(system, rate), 4 * workload.parameters, 4, compute).total_s
                    for scheme, system in (("ring", switch), ("optinc", star))
                ]
                row.append(percent(1 - both[1] / both[0]))
            rows.append(row)
    head = (
        "network",
        "batch per server",
        "gradients",
        "compute",
        "saved at 6.4 Tb/s per server",
        "saved at 800 Gb/s per server",
    )
    return [
        "## OptINC: time per training step, 4 servers",
        "",
        "Ring on a switch and OptINC at the same rate, 60 TFLOP/s × 0.6, 32-bit gradients, without overlap.",
        "",
        *table(head, rows),
    ]


def traffic() -> list[str]:
    """Section with the amount of data that a server sends."""
    rows = []
    for servers, published in ((4, "1.5"), (8, "1.75"), (16, "1.875")):
        sent = [
            step_time(scheme, load_system(name), SIZE, servers).sent_bytes / SIZE
            for scheme, name in (("ring", "server_switch"), ("optinc", "optinc_star"))
        ]
        rows.append((servers, f"{sent[0]:g}", published, f"{sent[1]:g}"))
    head = ("servers", "ring", "published", "OptINC")
    return ["## Traffic: buffers that a server sends", "", *table(head, rows)]


@dataclass(frozen=True)
class MeasuredChip:
    """A chip that is extracted from its layout, at its highest symbol rate.

    Attributes:
        bits: Bits of a word.
        process: Process name.
        energy: Power by part at this rate.
        area_mm2: Area of the die.
        reticle_mm2: Largest area of a die.
        symbols: Fibres from every server to the chip, and back.
    """

    bits: int
    process: str
    energy: LinkEnergy
    area_mm2: float
    reticle_mm2: float
    symbols: int

    @property
    def label(self) -> str:
        """Name in tables."""
        return f"{self.bits} bits, {self.process}"

    @property
    def card(self) -> System:
        """System card with one such chip."""
        return load_system(f"optinc_star_{self.bits}bit_{self.process}")

    @property
    def bit_per_s(self) -> float:
        """Rate of a server, bit/s."""
        return self.bits * self.energy.symbol_rate_bd

    @property
    def side_by_side(self) -> int:
        """Number of chips in parallel that take in the rate of all transceivers of a server."""
        return math.ceil(LINE_BIT_PER_S / self.bit_per_s)


def max_symbol_rate(
    s: Scattering,
    board: Board,
    bias: Bias,
    task: Averaging,
    process: Process,
    word_error_rate: float,
) -> float:
    """Compute the largest symbol rate in Bd at which noise and bandwidths cause an acceptable word-error rate.

    The word-error rate is estimated, see `optinc_pdk.studies.error_estimate`, at the power of the card. The rate is
    that of the process if that is acceptable.

    Raises:
        InputError: The word-error rate is too high even at the lowest useful rate of the process.
    """
    margins = error_margins(s, function_inputs(task), board, bias)
    rate = highest_rate(margins, process, word_error_rate, None)
    if rate is None:
        raise InputError(
            f"word-error rate {word_error_rate}: not reached at {rate_limits(process)[0]:g} Bd, the lowest useful "
            "rate; accept a higher one or use more light"
        )
    return rate


def measure(bits: int, process_name: str, receivers: Receivers, folder: Path) -> MeasuredChip:
    """Find the highest symbol rate of a bundled chip with output neurons, and its power at this rate.

    Raises:
        InputError: The rate is not the one that is recorded in results/symbol_rates.json.
    """
    name, place = f"average_{bits}bit_{SERVERS}servers", folder / process_name
    weights, process = NETWORKS / f"{name}.npz", load_process(process_name)
    files = [place / f"{name}{ending}" for ending in (".gds", ".pic.yml", ".bias.yml")]
    if not files[0].is_file():
        build(weights, place, BuildOptions(process=process_name, link="neurons", receivers=receivers, accept=BUDGETS))
    chip = read_extracted_chip(*files, process)
    s = scattering(chip.circuit, chip.bias, float(process.guide.wavelength_nm), process, ground=chip.ground)
    task = AveragingNetwork.load(weights).task
    found = max_symbol_rate(s, chip.board, chip.bias, task, process, WORD_ERROR_RATE)
    recorded = read_data("symbol_rates", {})[f"{bits}bit {process_name} neurons {receivers}"]["limits"]
    # the search ends within its precision: the page has the number that results/symbol_rates.json has
    rate = float(recorded["symbol_rate_bd"])
    if not math.isclose(found, rate, rel_tol=RATE_PRECISION - 1.0):
        raise InputError(
            f"{files[0]}: a rate of {format_si(found, 'Bd')}, results/symbol_rates.json has "
            f"{format_si(rate, 'Bd')}; delete the folder, so that the chip is built with output "
            "neurons, or run benchmarks/symbol_rates.py"
        )
    report = json.loads((place / f"{name}.report.json").read_text(encoding="utf-8"))["chip"]
    margins = error_margins(s, function_inputs(task), chip.board, chip.bias)
    noise = best_noise(margins, noise_choices(process, None, rate))
    return MeasuredChip(
        bits,
        process_name,
        link_energy(chip.board, chip.bias, task, process, noise),
        report["area_mm2"],
        report["limits"]["size"]["limit"],
        task.bits // 2,
    )


def words_of(bits: int) -> float:
    """Bytes of ResNet-50's gradients as words of so many bits."""
    return bits / 8 * PARAMETERS["ResNet-50"]


def seconds_of_four(scheme: str, system: System, size: float) -> float:
    """Time of an all-reduce of four servers."""
    return step_time(scheme, system, size, SERVERS).communication_s


def side_by_side(chips: Sequence[MeasuredChip]) -> list[str]:
    """Section with the numbers of chips that replace a server's transceivers."""
    rows = []
    for chip in chips:
        count = chip.side_by_side
        area = count * chip.area_mm2
        rows.append(
            (
                chip.label,
                format_si(chip.energy.symbol_rate_bd, "Bd"),
                rate_text(chip.bit_per_s),
                f"{count:,}",
                f"{chip.area_mm2:.0f} mm²",
                f"{area:,.0f} mm²",
                format_short(area / chip.reticle_mm2),
                f"{count * chip.symbols:,}",
                ("at least " if chip.energy.missing else "")
                + format_si(count * sum(chip.energy.power_w.values()), "W"),
            )
        )
    head = (
        "chip",
        "symbol rate",
        "rate per server",
        "chips for 6.4 Tb/s",
        "a die",
        "all dies",
        "in reticles",
        "fibres per server, each way",
        "power of all",
    )
    return [
        "## Chips side by side",
        "",
        f"{SERVERS} servers, output neurons, 10 mW into every guide; `soi220` with photodiodes as receivers, "
        "`soi220_fast` with coherent ones. The symbol rate is that of an estimated word-error rate of "
        "1e-9, computed from the extracted layout and equal to that of "
        "[symbol rates](../results/symbol_rates.json), where at a somewhat lower rate none of a million words was "
        "wrong. Chips side by side share the words of an all-reduce, to take in 6.4 Tb/s from every server: 6.4 Tb/s / "
        "(bits × symbol rate), rounded up. The power includes the servers' optical interfaces. *At least*: the cards "
        "of `soi220` state only the power of heaters and amplifiers, those of `soi220_fast` all but that of "
        "linearisers.",
        "",
        *table(head, rows),
    ]


def times_of_four(chips: Sequence[MeasuredChip]) -> list[str]:
    """Section with times of an all-reduce of four servers."""
    sizes = (("4 KiB", 4096.0, 8), ("1 MB", 1e6, 8), ("ResNet-50, 8 bits", words_of(8), 8))
    sizes = (*sizes, ("ResNet-50, 4 bits", words_of(4), 4))
    of_bits = {(chip.process, chip.bits): chip.card for chip in chips}
    rows = [
        (
            f"{scheme}, {name}",
            *(format_si(seconds_of_four(scheme, load_system(name), size), "s") for _, size, _ in sizes),
        )
        for scheme, name in (("ring", "server_switch"), *((scheme, name) for _, scheme, name in RIVALS))
    ]
    star = load_system("optinc_star")
    rows.append(
        ("optinc, as published", *(format_si(seconds_of_four("optinc", star, size), "s") for _, size, _ in sizes))
    )
    for label, process, rate in (
        ("one chip, soi220", "soi220", None),
        ("one chip, soi220_fast", "soi220_fast", None),
        ("chips side by side, soi220_fast", "soi220_fast", LINE_BIT_PER_S),
    ):
        cells = []
        for _, size, bits in sizes:
            card = of_bits[process, bits]
            cells.append(
                format_si(seconds_of_four("optinc", with_rate(card, rate) if rate is not None else card, size), "s")
            )
        rows.append((f"optinc, {label}", *cells))
    return [
        "## Time of an all-reduce of four servers",
        "",
        "All at 6.4 Tb/s per server, except single chips. `server_switch` and OptINC as published have no overhead or "
        "delay; the others have the same ends, cables and switches. 4 KiB and 1 MB go through the 8-bit chip.",
        "",
        *table(("all-reduce", *(label for label, _, _ in sizes)), rows),
    ]


def rival_j(scheme: str, name: str, bits: int, optics: str) -> ExchangeEnergy:
    """Energy of an electrical all-reduce for one gradient of all four servers."""
    system = load_system(name)
    return exchange_energy(schedule_of(scheme, system, SERVERS), system, bits / 8, optics)


def energies(fast: Sequence[MeasuredChip]) -> list[str]:
    """Section with the energy for a gradient."""
    by_part = [
        (part, *(cell for chip in fast for cell in _part_cells(chip, chip.energy.power_w[part])))
        for part in fast[0].energy.power_w
    ]
    totals = [_part_cells(chip, sum(chip.energy.power_w.values())) for chip in fast]
    by_part.append(("together", *(cell for cells in totals for cell in cells)))
    rows = []
    for label, scheme, name in RIVALS:
        for optics in OPTICS:
            # of all bits of the words of four servers, whatever the length of a word
            each = rival_j(scheme, name, 8, optics)
            joules = (
                each.transceivers_j,
                each.serdes_j,
                each.corrections_j,
                each.switches_j,
                each.additions_j,
                each.total_j,
            )
            ratios = [chip.energy.word_j / rival_j(scheme, name, chip.bits, optics).total_j for chip in fast]
            rows.append(
                (
                    label,
                    OPTICS_TEXT[optics],
                    *(f"{1e12 * part / (8 * SERVERS):.3g} pJ" for part in joules),
                    *(f"{ratio:.3g}" for ratio in ratios),
                )
            )
    gradients = [f"{format_si(chip.energy.word_j, 'J')} at {chip.bits} bits" for chip in fast]
    head = ("all-reduce", "optics", "transceivers", "SerDes", "error correction", "switches", "additions", "together")
    return [
        "## Energy",
        "",
        "Power of one chip with the optical interfaces of its four servers, at its symbol rate, by the cards of "
        "`soi220_fast`, and the energy for every bit of a word of one server:",
        "",
        *table(("part", *(f"{chip.bits} bits: {what}" for chip in fast for what in ("power", "a bit"))), by_part),
        f"The sum is a lower bound, because the cards do not state: {', '.join(fast[0].energy.missing)}. The energy "
        f"for a gradient, which is a word of every server, is {' and '.join(gradients)}.",
        "",
        f"Energy of all-reduces of {SERVERS} servers for every bit of a word of one server, and how many times as much "
        "OptINC takes at least for words of the same length. With four servers, the cards `switch_800g`, "
        "`server_switch` and `fat_tree` have one switch and take the same energy:",
        "",
        *table((*head, *(f"OptINC, {chip.bits} bits" for chip in fast)), rows),
    ]


def _part_cells(chip: MeasuredChip, watts: float) -> tuple[str, str]:
    return f"{watts:.3g} W", f"{watts / chip.energy.symbol_rate_bd / chip.energy.bits * 1e12:.3g} pJ"


def missing(fast: Sequence[MeasuredChip]) -> list[str]:
    """Section with the factors by which chips win or lose."""
    times, powers = [], []
    for chip in fast:
        together = with_rate(chip.card, LINE_BIT_PER_S)
        one, several = (seconds_of_four("optinc", system, words_of(chip.bits)) for system in (chip.card, together))
        for label, scheme, name in RIVALS:
            seconds = seconds_of_four(scheme, load_system(name), words_of(chip.bits))
            times.append((chip.label, label, f"{one / seconds:.3g}", f"{several / seconds:.3g}"))
            for optics in OPTICS:
                joules = rival_j(scheme, name, chip.bits, optics).total_j
                allowed, rate = equal_energy(chip.energy, joules)
                powers.append(
                    (
                        chip.label,
                        f"{label}, {OPTICS_TEXT[optics]}",
                        f"{chip.energy.word_j / joules:.3g}",
                        f"{sum(chip.energy.power_w[part] for part in FAST_PARTS):.3g} W",
                        f"{allowed:.3g} W" if allowed > 0 else "not enough",
                        format_si(rate, "Bd") if math.isfinite(rate) else "none",
                    )
                )
    return [
        "## What is missing to win",
        "",
        "Time of OptINC for ResNet-50's gradients, as a multiple of that of the others; below 1, OptINC wins:",
        "",
        *table(("chip", "against", "one chip", "chips side by side"), times),
        "Energy in the same way; what modulator drivers and amplifiers take today, and what they may take for the "
        "energy to be equal at today's symbol rate (*not enough*: the other parts already take more); and the symbol "
        "rate at which the energy would be equal with today's power:",
        "",
        *table(
            ("chip", "against", "energy", "drivers and amplifiers", "may take", "or symbol rate"),
            powers,
        ),
    ]


def equal_energy(energy: LinkEnergy, word_j: float) -> tuple[float, float]:
    """Compute what would make the energy of a chip for a word of every server equal to another.

    `SYMBOL_PARTS` take their energy for every symbol; all other parts take their power at any rate.

    Args:
        energy: Power of the chip by part.
        word_j: The other energy, J.

    Returns:
        Power of `FAST_PARTS` together at the same symbol rate, W, not above 0 if the other parts take too much; and the
        symbol rate at the same power, Bd, infinite if the parts of a symbol alone take too much.
    """
    total, of_symbols = sum(energy.power_w.values()), sum(energy.power_w.get(part, 0.0) for part in SYMBOL_PARTS)
    electronics = sum(energy.power_w[part] for part in FAST_PARTS)
    left_j = word_j - of_symbols / energy.symbol_rate_bd
    rate = (total - of_symbols) / left_j if left_j > 0 else math.inf
    return word_j * energy.symbol_rate_bd - (total - electronics), rate


def fastest(nodes: Sequence[int]) -> list[str]:
    """Section with times by number of nodes, and the CPU time of simulating the largest."""
    rows = []
    for scheme, name in CASES:
        row, spent = [f"{scheme}, {name}"], 0.0
        for count in nodes:
            begun = time.process_time()
            timing = simulate(
                schedule_of(scheme, load_system(name), _servers(name, count), GROUP), load_system(name), SIZE
            )
            spent = time.process_time() - begun
            row.append(format_si(timing.seconds, "s"))
        rows.append([*row, f"{timing.steps:,}", f"{spent:.1f} s"])
    head = ("all-reduce", *(f"{count:,} nodes" for count in nodes), "steps of the largest", "CPU time of simulating it")
    squares = ", ".join(f"{_servers('optinc_cascade', count):,}" for count in nodes)
    note = f"100 MB. OptINC's cascade has the next lower square number of servers: {squares}."
    return ["## Time against nodes", "", note, "", *table(head, rows)]


def _servers(name: str, nodes: int) -> int:
    return int(np.sqrt(nodes)) ** 2 if name.startswith("optinc_cascade") else nodes


def picture(path: Path) -> None:
    """Plot time against the number of nodes and against the buffer size."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
    nodes = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384]
    sizes = np.geomspace(1e4, 1e10, 13)
    for scheme, name in CASES:
        label, system = f"{scheme}, {name}", load_system(name)
        left.loglog(
            [_servers(name, n) for n in nodes], [_seconds(scheme, system, n, SIZE) for n in nodes], ".-", label=label
        )
        right.loglog(sizes, [_seconds(scheme, system, 1024, size) for size in sizes], ".-", label=label)
    for process, _ in CHIPS:
        name = f"optinc_star_8bit_{process}"
        system = load_system(name)
        right.loglog(sizes, [_seconds("optinc", system, 4, size) for size in sizes], "--", label=f"{name}, 4 servers")
    left.set(xlabel="nodes", ylabel="time of an all-reduce in s", title="100 MB")
    right.set(xlabel="bytes", ylabel="time of an all-reduce in s", title="1024 nodes; dashed: one chip, 4 servers")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _seconds(scheme: str, system: System, nodes: int, size: float) -> float:
    return simulate(schedule_of(scheme, system, _servers(system.name, nodes), min(GROUP, nodes)), system, size).seconds


def main() -> int:
    """Write the results and their picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chips", type=Path, default=Path("gds_out"), help="folder of the built chips")
    chosen = parser.parse_args()
    try:  # first, because the rest takes minutes
        chips = [measure(bits, process, receivers, chosen.chips) for process, receivers in CHIPS for bits in (4, 8)]
    except InputError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    except OSError as fault:
        print(f"error: {chosen.chips}: {fault.strerror}; give a folder that can be written to", file=sys.stderr)
        return 2
    fast = [chip for chip in chips if chip.process == "soi220_fast"]
    lines = [
        *systems(),
        *step_counts(),
        *optical(),
        *electrical(),
        *traffic(),
        *latencies(),
        *side_by_side(chips),
        *times_of_four(chips),
        *energies(fast),
        *missing(fast),
        *fastest((64, 1024, 16_384, 100_000)),
    ]
    picture(DOCS / "interconnect.png")
    networks = [NETWORKS / f"average_{bits}bit_{SERVERS}servers.npz" for bits in (4, 8)]
    files = [*networks, *sorted((DOCS.parent / "components" / "systems").glob("*.yml"))]
    write_study("interconnect", blocks(lines), "make interconnect", [process for process, _ in CHIPS], files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
