"""Sampled chips that drift in service, with and without tracking: docs/drift.md.

    python benchmarks/drift.py run BITS HOLDS [--samples N] [--warm M] [--first I]   sample chips, record their words
    python benchmarks/drift.py table                                   write docs/drift.md from the results of all runs

BITS is 4 or 8: the chip is the bundled network for 4 servers on soi220, its outputs end in neurons. HOLDS is what the
heater drive holds, voltage or power. All N chips walk, M of them also become warmer by 10 K. A chip is recorded as
soon as it is finished; runs of one configuration with other chips (--first) may work at the same time.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from optinc_pdk import flow
from optinc_pdk.cards import load_process, with_link
from optinc_pdk.onn import Onn, bundled_weights
from optinc_pdk.tolerance import imperfections, read_chip
from optinc_pdk.tolerance.drift.scenarios import SCENARIOS
from optinc_pdk.tolerance.drift.service import drift_points, start_service
from optinc_pdk.tolerance.montecarlo.study import YieldStudy

ROOT = Path(__file__).parents[1]
CHIPS = ROOT / "gds_out" / "drift"
PAGE = ROOT / "docs" / "drift.md"
RESULTS = ROOT / "docs" / "drift.json"
SEED, EFFECTIVE_BITS = 2603, 12.0
CARD = """schema: 1
name: soi220_power
title: soi220 with heater drives that hold power
base: soi220
drive:
  holds: power
"""


def work_of(bits: int, holds: str) -> tuple[YieldStudy, float]:
    """Build a chip and return the parameters of its samples, and the hours after which the card's walk has its size."""
    name = f"average_{bits}bit_4servers"
    with tempfile.TemporaryDirectory() as folder:
        card = Path(folder) / "soi220_power"
        card.mkdir()
        (card / "process.yml").write_text(CARD)
        process = "soi220" if holds == "voltage" else str(card)
        where = Path(folder) / "chip"
        built = flow.build(bundled_weights(bits, 4), where, name, process, link="neurons")
        if not built.passed:
            raise SystemExit(f"{name}: its build failed: {'; '.join(built.findings)}")
        cards = with_link(load_process(process), "neurons", None)
        files = [where / f"{name}.{ending}" for ending in ("gds", "pic.yml", "bias.yml")]
        chip = read_chip(files[0], files[1], files[2], cards)
    onn, drawn = Onn.load(bundled_weights(bits, 4)), imperfections(cards)
    card_bits = float(drawn.card.dac.effective_bits)
    drawn = drawn.scaled("dac", 2.0 ** (card_bits - EFFECTIVE_BITS)).without("laser", "detector")
    return YieldStudy(chip, onn.task, drawn, SEED, 1.0, None, onn), float(drawn.card.heater.drift_h)


def run(bits: int, holds: str, samples: int, warm: int, first: int) -> None:
    """Sample chips, let them drift, and append the words of each to a file."""
    work, hours = work_of(bits, holds)
    CHIPS.mkdir(parents=True, exist_ok=True)
    for index in range(first, first + samples):
        start = time.process_time()
        service = start_service(work, index)
        for scenario in SCENARIOS:
            if scenario.kelvin and index >= first + warm:
                continue
            for tracked in (False, True):
                if tracked and holds == "power" and not scenario.kelvin:
                    # nothing changes
                    continue
                points, effort = drift_points(service, scenario, hours, tracked)
                row: dict[str, Any] = {"bits": bits, "holds": holds, "sample": index, "scenario": scenario.name}
                row |= {"tracked": tracked, "share": [one.share for one in points]}
                row |= {key: [getattr(one.outcome, key) for one in points] for key in ("accuracy", "wrong", "margin")}
                row |= {"effort": asdict(effort)}
                with (CHIPS / f"{bits}bit_{holds}_{first}.jsonl").open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
                print(bits, holds, index, scenario.name, tracked, row["accuracy"][-1], min(row["margin"]), flush=True)
        print(f"{time.process_time() - start:.0f} s", flush=True)
