"""Estimated sizes of the paper's and of the bundled 8-bit networks: results/size.json.

    python benchmarks/chip_sizes.py      # 10 s

The tables are those of `optinc size`.
"""

from __future__ import annotations

from pathlib import Path

from studies import blocks, write_study

import optinc_pdk.networks
from optinc_pdk.averaging import Averaging
from optinc_pdk.budgets.chip_size import NetworkSize, onn_size, paper_sizes
from optinc_pdk.cards import load_process
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.report.tables import size_markdown

FOLDER = Path(optinc_pdk.networks.__file__).with_name("bundled")
NETWORKS = [FOLDER / f"average_8bit_4servers{kind}.npz" for kind in ("", "_relu", "_robust", "_unary")]
PROCESSES = {"soi220": "One metal, bond pads at the edges", "soi220_flipchip": "Flip-chip bumps over the mesh"}
"""Headings by process."""


def sizes(process: str) -> list[NetworkSize]:
    """Return the sizes of all networks on a process."""
    card = load_process(process)
    return [
        *paper_sizes(Averaging(8, 4, 4), card),
        *(onn_size(path.stem, AveragingNetwork.load(path), card) for path in NETWORKS),
    ]


def main() -> None:
    """Write the tables that `optinc size` prints; assumptions that both processes have in common once."""
    lines: list[str] = []
    for process, heading in PROCESSES.items():
        printed = size_markdown(sizes(process), load_process(process)).splitlines()
        lines += [f"### {heading}", "", *(line for line in printed if not line.startswith("- ") or line not in lines)]
        lines.append("")
    write_study("size", blocks(lines), "python benchmarks/chip_sizes.py", PROCESSES, NETWORKS)


if __name__ == "__main__":
    main()
