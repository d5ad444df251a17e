"""Schemes by name: constructor, the chip that each needs, and the simulated time of a step on its system."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import optinc_pdk as op
from optinc_collective import schemes as collective
from optinc_collective.interconnect import daso_step_time, load_system, step_time
from optinc_collective.interconnect.training_time import compute_time
from optinc_collective.schemes.optinc import Rounding
from optinc_collective.schemes.scheme import ring_bytes
from optinc_pdk.errors import InputError
from optinc_pdk.networks.weight_files import NETWORKS

SERVERS = 4
NETWORK = NETWORKS / "average_8bit_4servers_relu.npz"
COUPLERS_OFF = 0.15
"""Factor on the couplers' deviations of the process card; chosen so that about one word in a hundred is wrong."""
TABLE_II_ROW = "3-6"
"""Row of Table II of arXiv 2603.28290 with the highest error rate, one word in 9,017."""
WAVELENGTHS = 64
"""Number of wavelengths of WRHT in arXiv 2207.10982."""
RANK = 8
"""Number of directions of rank-dAD."""
DASO_MEMBERS = 2


@dataclass(frozen=True)
class Sizes:
    """Sizes of a training in bytes, for the time model.

    Attributes:
        parameters: Size of all gradients.
        rest: Size of the gradients outside linear layers, which dAD and its variants average exactly.
        payload: Payload bytes that a rank sent per step, mean over ranks.
        side: Additional bytes that a rank sent per step, mean over ranks.
        steps: Number of steps of the training.
    """

    parameters: int
    rest: int
    payload: float
    side: float
    steps: int


@dataclass(frozen=True)
class Entry:
    """A scheme for training.

    Attributes:
        title: Name in tables and plots.
        make: Creates the scheme for one rank, given the number of steps and the folder with chips.
        communication_s: Simulated communication time of a step, given its sizes and its computation time in seconds.
        system: Name of the system card on which it runs.
        chip: The chip that must be built first: "extracted", "imperfect", or "" for none.
    """

    title: str
    make: Callable[[int, Path], collective.Scheme]
    communication_s: Callable[[Sizes, float], float]
    system: str
    chip: str = ""


def chip_file(kind: str, folder: Path) -> Path:
    """Path of the table of a chip."""
    name = NETWORK.stem if kind == "extracted" else f"{kind}_{NETWORK.stem}"
    return folder / f"{name}.function.npz"


def build_chip(kind: str, folder: Path) -> Path:
    """Build the bundled 8-bit chip, extract it from its layout, and write its table of words.

    Args:
        kind: "extracted": as drawn; "imperfect": with coupler deviations.
        folder: Folder for the files; existing files are kept.

    Returns:
        The `.function.npz`.
    """
    # imported here, because ranks only read tables and start faster without these modules
    from optinc_pdk.cards import load_process
    from optinc_pdk.signoff.function import check_scattering, write_function
    from optinc_pdk.studies import draw_sample, imperfections, read_chip, sample_scattering

    path = chip_file(kind, folder)
    if path.is_file():
        return path
    files = [folder / f"{NETWORK.stem}{suffix}" for suffix in (".gds", ".pic.yml", ".bias.yml")]
    if kind == "extracted" or not all(file.is_file() for file in files):
        op.build(NETWORK, folder, op.BuildOptions(accept=("rate",)))
    if kind == "imperfect":
        process = load_process("soi220")
        chip = read_chip(*files, process)
        drawn = imperfections(process).only("coupler").scaled("coupler", COUPLERS_OFF)
        s = sample_scattering(chip, draw_sample(chip, drawn, seed=0), chip.voltage_v)
        temporary = path.with_suffix(f".{os.getpid()}")
        write_function(check_scattering(s, chip.board, chip.bias, op.AveragingNetwork.load(NETWORK).task), temporary)
        temporary.replace(path)
    return path


def words_wrong(path: Path) -> float:
    """Word-error rate of a chip's table.

    Raises:
        InputError: The file is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as table:
            return float((table["words"] != table["ideal"][:, None]).mean())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as fault:
        raise InputError(f"{path}: not a table of a chip ({fault}); delete it, it is built again") from fault


def _ring(sizes: Sizes, _: float) -> float:
    return step_time("ring", load_system("server_switch"), sizes.parameters, SERVERS).communication_s


def _wrht(sizes: Sizes, _: float) -> float:
    return step_time("wrht", load_system("wdm_ring"), sizes.parameters, SERVERS).communication_s


def _optinc(system: str) -> Callable[[Sizes, float], float]:
    def seconds(sizes: Sizes, _: float) -> float:
        words = step_time("optinc", load_system(system), sizes.payload, SERVERS)
        exponents = sizes.side * SERVERS / (2 * (SERVERS - 1))
        shared = step_time("ring", load_system("server_switch"), exponents, SERVERS)
        return words.communication_s + shared.communication_s

    return seconds


def _gathered(sizes: Sizes, _: float) -> float:
    switch = load_system("server_switch")
    contributed = (sizes.payload - ring_bytes(sizes.rest, SERVERS)) / (SERVERS - 1)
    return (
        step_time("all-gather", switch, contributed, SERVERS).communication_s
        + step_time("ring", switch, sizes.rest, SERVERS).communication_s
    )


def daso_plan(steps: int) -> collective.DasoPlan:
    """DASO's plan: a tenth of the steps before cycling, a tenth after it, and 20 windows of the loss."""
    outside = max(1, steps // 10)
    return collective.DasoPlan(
        nodes=SERVERS // DASO_MEMBERS,
        members=DASO_MEMBERS,
        warm_up=outside,
        cycling=max(0, steps - 2 * outside),
        window=max(1, steps // 20),
    )


def _daso(sizes: Sizes, compute_s: float) -> float:
    """Mean over the phases; the number of global exchanges follows from the bytes sent, see `docs/schemes.md`."""
    switch, plan = load_system("server_switch"), daso_plan(sizes.steps)
    nodes, members = plan.nodes, plan.members
    local = ring_bytes(sizes.parameters, members)
    per_exchange = (2 * (nodes - 1) / nodes + members - 1) * sizes.parameters / members
    exchanges = round((sizes.payload - local) * sizes.steps / per_exchange)
    cycling = min(plan.cycling, sizes.steps - plan.warm_up)
    blocking = sizes.steps - cycling

    def mean(every: int, waits: bool) -> float:
        return daso_step_time(
            switch, switch, sizes.parameters, SERVERS, members, every, compute_s, blocking=waits
        ).communication_s

    seconds = blocking * mean(1, True)
    if cycling > 0:
        seconds += cycling * mean(max(1, round(cycling / max(1, exchanges - blocking))), False)
    return seconds / sizes.steps


def _over_chip(kind: str, rounding: Rounding = "nearest") -> Callable[[int, Path], collective.Scheme]:
    return lambda _, folder: collective.Optinc(chip_file(kind, folder), rounding=rounding)


def _over_ideal(bits: int, row: str = "", rounding: Rounding = "nearest") -> Callable[[int, Path], collective.Scheme]:
    errors = collective.TABLE_II[row] if row else None
    return lambda *_: collective.Optinc(collective.ideal_chip(bits, SERVERS, errors), rounding=rounding)


ENTRIES = {
    "torch": Entry("torch all-reduce", lambda *_: collective.AllReduce(), _ring, "server_switch"),
    "ring": Entry("ring", lambda *_: collective.Ring(), _ring, "server_switch"),
    "optinc-16": Entry("OptINC, ideal, 16 bits", _over_ideal(16), _optinc("optinc_star"), "optinc_star"),
    "optinc-8": Entry("OptINC, ideal, 8 bits", _over_ideal(8), _optinc("optinc_star"), "optinc_star"),
    "optinc-extracted": Entry(
        "OptINC, extracted chip, 8 bits", _over_chip("extracted"), _optinc("optinc_star"), "optinc_star", "extracted"
    ),
    "optinc-8-unbiased": Entry(
        "OptINC, ideal, 8 bits, unbiased",
        _over_ideal(8, rounding="unbiased"),
        _optinc("optinc_star"),
        "optinc_star",
    ),
    "optinc-extracted-unbiased": Entry(
        "OptINC, extracted chip, 8 bits, unbiased",
        _over_chip("extracted", "unbiased"),
        _optinc("optinc_star"),
        "optinc_star",
        "extracted",
    ),
    "optinc-imperfect": Entry(
        "OptINC, chip with couplers off, 8 bits",
        _over_chip("imperfect"),
        _optinc("optinc_star"),
        "optinc_star",
        "imperfect",
    ),
    "optinc-table2": Entry(
        f"OptINC, errors of Table II ({TABLE_II_ROW}), 16 bits",
        _over_ideal(16, TABLE_II_ROW),
        _optinc("optinc_star"),
        "optinc_star",
    ),
    "wrht": Entry("WRHT", lambda *_: collective.Wrht(WAVELENGTHS), _wrht, "wdm_ring"),
    "daso": Entry("DASO", lambda steps, _: collective.Daso(daso_plan(steps)), _daso, "server_switch"),
    "dad": Entry("dAD", lambda *_: collective.Dad(), _gathered, "server_switch"),
    "edad": Entry("edAD", lambda *_: collective.Edad(), _gathered, "server_switch"),
    "rank-dad": Entry(f"rank-dAD, {RANK}", lambda *_: collective.RankDad(RANK), _gathered, "server_switch"),
}


def step_s(result: Mapping[str, Any]) -> float:
    """Simulated time of a training step in seconds: computation, then communication.

    Args:
        result: Result of the training, as written by `train.py`.
    """
    computes = _compute_s(result)
    return computes + ENTRIES[result["scheme"]].communication_s(_sizes(result), computes)


def step_at_chip_rate_s(result: Mapping[str, Any]) -> float:
    """Simulated time of a step in seconds with one chip of today's 8-bit network at its highest symbol rate."""
    return _compute_s(result) + _optinc("optinc_star_8bit_soi220")(_sizes(result), 0.0)


def step_on_same_ring_s(result: Mapping[str, Any]) -> float:
    """Simulated time of a step in seconds with a ring all-reduce on the fibre ring of WRHT."""
    ring = step_time("ring", load_system("wdm_ring"), _sizes(result).parameters, SERVERS)
    return _compute_s(result) + ring.communication_s


def _compute_s(result: Mapping[str, Any]) -> float:
    server = load_system("server_switch").server
    if server is None:
        raise ValueError("components/systems/server_switch.yml has no server")
    return compute_time(server, float(result["flop"]))


def _sizes(result: Mapping[str, Any]) -> Sizes:
    return Sizes(**{each.name: result[each.name] for each in fields(Sizes)})
