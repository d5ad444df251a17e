"""Simulate all-reduces on every system and compare with published figures: writes docs/interconnect.md and .png.

    python benchmarks/interconnect.py [--chips DIR]

DIR contains the bundled 4-bit and 8-bit chips as written by `optinc build`; missing chips are built.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_bias, read_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.file_writing import write_atomic
from optinc_pdk.flow import build
from optinc_pdk.interconnect import (
    System,
    binary_tree,
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
from optinc_pdk.interconnect.noise_limited_rate import max_symbol_rate
from optinc_pdk.interconnect.training_time import compute_time
from optinc_pdk.interconnect.workloads import Workload, llama, resnet50
from optinc_pdk.onn import Onn
from optinc_pdk.onn.weight_files import NETWORKS
from optinc_pdk.report.formatting import format_si
from optinc_pdk.signoff.electrical.wiring import read_wiring
from optinc_pdk.simulate import scattering

DOCS = Path(__file__).parent.parent / "docs"
GROUP = 5
"""Nodes of the hierarchical ring's groups: m = 5 in arXiv 2207.10982."""
WORD_ERROR_RATE = 1e-5
"""Word-error rate for which the chips' cards in components/systems give the symbol rates."""
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
        per = {"wdm_ring": "per wavelength", "fat_tree": "per link", "in_network": "per server"}[system.kind]
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


def chip_rate(bits: int, folder: Path) -> float:
    """Noise-limited symbol rate of a bundled chip, extracted from its layout."""
    name = f"average_{bits}bit_4servers"
    weights, gds = NETWORKS / f"{name}.npz", folder / f"{name}.gds"
    if not gds.is_file():
        build(weights, folder)
    card = load_process()
    bias, board = read_bias(folder / f"{name}.bias.yml"), read_netlist(folder / f"{name}.pic.yml").board
    circuit, ground = extract(gds, card).circuit, read_wiring(gds, card).common_ground
    s = scattering(circuit, bias, float(card.guide.wavelength_nm), card, ground=ground)
    return max_symbol_rate(s, board, bias, Onn.load(weights).task, card, WORD_ERROR_RATE)


def chips(folder: Path) -> list[str]:
    """Section comparing the chips' rates with the transceivers'."""
    rows = []
    line = load_system("optinc_star")
    for bits in (4, 8):
        system = load_system(f"optinc_star_{bits}bit_chip")
        rate = chip_rate(bits, folder)
        size = bits / 8 * PARAMETERS["ResNet-50"]
        times = [step_time("optinc", on, size, 4).communication_s for on in (line, system)]
        rows.append(
            (
                f"{bits} bits, 4 servers",
                format_si(rate, "Bd"),
                format_si(float(system.chip.symbol_rate_bd), "Bd"),
                format_si(bits * rate, "b/s"),
                f"{line.bit_per_s / (bits * rate):.2g}",
                format_si(step_time("ring", load_system("server_switch"), size, 4).communication_s, "s"),
                format_si(times[0], "s"),
                format_si(times[1], "s"),
            )
        )
    head = (
        "chip",
        "symbol rate",
        "in the card",
        "words per server",
        "parallel chips for 6.4 Tb/s",
        "ring at 6.4 Tb/s",
        "OptINC as published",
        "through one chip",
    )
    return [
        "## Noise-limited rate of the chip",
        "",
        f"Symbol rate at an estimated word-error rate of {WORD_ERROR_RATE:.0e}, 10 mW per waveguide, of the chip "
        "extracted from its layout (see [noise](noise.md)); and the all-reduce of ResNet-50's gradients as words of "
        "that many bits.",
        "",
        *table(head, rows),
    ]


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
    for bits in (4, 8):
        name = f"optinc_star_{bits}bit_chip"
        system = load_system(name)
        right.loglog(sizes, [_seconds("optinc", system, 4, size) for size in sizes], "--", label=f"{name}, 4 servers")
    left.set(xlabel="nodes", ylabel="time of an all-reduce in s", title="100 MB")
    right.set(xlabel="bytes", ylabel="time of an all-reduce in s", title="1024 nodes")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _seconds(scheme: str, system: System, nodes: int, size: float) -> float:
    return simulate(schedule_of(scheme, system, _servers(system.name, nodes), min(GROUP, nodes)), system, size).seconds


def main() -> int:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chips", type=Path, default=Path("gds_out"), help="folder of the built chips")
    chosen = parser.parse_args()
    try:  # first, because the rest takes minutes
        of_chips = chips(chosen.chips)
    except InputError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    except OSError as fault:
        print(f"error: {chosen.chips}: {fault.strerror}; give a folder that can be written to", file=sys.stderr)
        return 2
    remarks = (Path(__file__).parent / "interconnect_remarks.md").read_text(encoding="utf-8")
    # the links of the remarks start at this folder, those of the page at docs/
    remarks = remarks.replace("](../docs/", "](")
    before, _, after = remarks.partition("<!-- tables -->\n")
    lines = [
        *systems(),
        *step_counts(),
        *optical(),
        *electrical(),
        *traffic(),
        *latencies(),
        *of_chips,
        *fastest((64, 1024, 16_384, 100_000)),
    ]
    picture(DOCS / "interconnect.png")
    write_atomic(DOCS / "interconnect.md", (before + "\n".join(lines) + "\n" + after).encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
