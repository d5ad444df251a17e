"""P, the preprocessing unit: passive combiner trees that average the servers' symbols and weight them base 4.

Input k of the network is the average over the servers of a group of g symbols, weighted 4^(g-1) : … : 4 : 1. Each group
has one tree of 1×2 splitters, used backwards. A splitter passes 1/√2 of a field that enters one of its branches, so a
symbol's weight follows from the number of levels it passes. A factor of 4 would take four lossless levels. A symbol
enters only as many levels below the symbol of the next higher weight as keep it too strong (three, up to a loss of
0.8 dB per splitter). Its trims, one per server, then turn it out of phase until its in-phase part has the exact weight.

Other circuits were compared, for symbols of weights 4 : 1 and an error δ of every heater's phase (no loss but 0.3 dB
per 1×2 splitter):

============================  ================  =======================  ======================================
circuit, per further symbol   heaters           loss of the first symbol  error of the sum, over the first symbol
============================  ================  =======================  ======================================
this one: 3 levels, trims     0                 3.3 dB                    0.20 δ, independent for each server
4 levels; first symbol turned 0                 4.5 dB                    0.57 δ, independent for each server
attenuator, 1×2 combiner      1                 3.3 dB                    0.48 δ, common to all servers
MZI as unequal combiner       2                 0.3 dB and an MZI's       0.48 δ, common to all servers
============================  ================  =======================  ======================================

The loss counts little: the fields of N servers add up in phase, so that the first layer receives 10 log10(N) dB more
light than a hidden layer. Turned fields leave a part in quadrature with the local oscillators, which neurons do not
detect. Another circuit, columns of the first matrix weighted base 4, needs no P but M - K more columns in a mesh.
"""

from __future__ import annotations

import math

from optinc_pdk.assemble._layer_parts import add_fibre
from optinc_pdk.assemble.die_plan import add_pad
from optinc_pdk.cards import Process
from optinc_pdk.circuit import CircuitBuilder
from optinc_pdk.errors import InputError
from optinc_pdk.networks import NetworkTask

SPARE_DB = 0.5
"""Smallest excess of a symbol's transmission over its weight, in dB, that is left to its trims by design."""


def symbol_levels(task: NetworkTask, process: Process) -> tuple[int, ...]:
    """Return how many 1×2 combiners the light of each symbol of a group passes, that of the highest weight first.

    Each combiner passes 1/√2 of the field, less its loss. A symbol of a weight 4 times lower passes l combiners more,
    as many as leave it stronger than its weight; its trims do the rest. For example, 4 servers and groups of 2 symbols
    have (3, 6).

    Returns:
        g numbers d_j = D + j · l for the g symbols of a group. D is the smallest depth at which the inputs of all N
        servers, N · g leaves, fit into a binary tree: Σ N 2^-d_j ≤ 1.

    Raises:
        InputError: The process's splitter loses so much light that one level exceeds a factor of 4 in the field.
    """
    loss_db = process.device("mmi1x2").parameter("loss_db")
    further = range(task.group_symbols)
    step = int((20.0 * math.log10(4.0) - SPARE_DB) / (10.0 * math.log10(2.0) + loss_db))
    if step < 1 and len(further) > 1:
        raise InputError(
            f"mmi1x2.loss_db of process {process.name} is {loss_db:g} dB; symbols of a group need a splitter with less "
            f"than {10 * math.log10(8) - SPARE_DB:.1f} dB; use one group per symbol, groups {task.symbols}"
        )
    # 2^-(j · l) as integers over a common denominator
    widest = step * further[-1]
    leaves = task.servers * sum(1 << (widest - step * j) for j in further)
    depth = (leaves - 1).bit_length() - widest
    return tuple(depth + step * j for j in further)


def preprocessing_loss_db(task: NetworkTask, process: Process) -> tuple[float, ...]:
    """Return the loss in dB of one server's field in the preprocessing unit, by symbol of a group, at ideal splitting.

    It includes the division of light at each level and the splitters' excess loss, but no guides, couplers and trims.
    """
    level_db = 10.0 * math.log10(2.0) + process.device("mmi1x2").parameter("loss_db")
    return tuple(levels * level_db for levels in symbol_levels(task, process))


def add_preprocessing(b: CircuitBuilder, task: NetworkTask, process: Process) -> list[str]:
    """Add P: fibres, a trim phase shifter per server and symbol, and a combiner tree per group.

    Branches of a tree without a symbol end in terminators. The port of each group's sum is returned.
    """
    levels = symbol_levels(task, process)
    sums: list[str] = []
    for group in range(task.groups):
        leaves: list[tuple[int, str]] = []
        for j, depth in enumerate(levels):
            symbol = group * task.group_symbols + j
            for server in range(task.servers):
                row = symbol * task.servers + server
                port, _ = add_fibre(b, process.fibres.coupler, f"in_s{server}_m{symbol}", "p", row)
                trim = b.add(f"trim_s{server}_m{symbol}", "phase_shifter", ("p", 0, row))
                b.connect(port, f"{trim},o1")
                add_pad(b, trim, f"{trim},e2", f"{trim},e1")
                leaves.append((depth, f"{trim},o2"))
        first = group * task.group_symbols
        sums.append(_GroupTree(b, f"p_m{first}", first * task.servers, leaves).branch(0)[0])
    return sums


class _GroupTree:
    """Adds one group's combiner tree: a binary tree with leaves at given depths, in ascending order of depth.

    As in a canonical prefix code, leaves fill the tree from the top. Branches that are left over become terminators,
    each as close to the root as possible.
    """

    def __init__(self, b: CircuitBuilder, name: str, row: int, leaves: list[tuple[int, str]]) -> None:
        """Prepare a tree; ``leaves`` are depths and ports, ``row`` is the row of the first leaf in the floorplan."""
        self.b, self.name, self.row, self.leaves = b, name, row, leaves
        self.used = self.dark = 0

    def branch(self, depth: int) -> tuple[str, int]:
        """Add the branch at a depth below the root; return the port at its end, and its height in levels."""
        start = self.used
        if start == len(self.leaves):
            self.dark += 1
            at = ("p", 0, self.row + start - 1)
            return self.b.add(f"{self.name}_dark_{self.dark - 1}", "terminator", at) + ",o1", 0
        if self.leaves[start][0] == depth:
            self.used += 1
            return self.leaves[start][1], 0
        upper, high = self.branch(depth + 1)
        middle = self.used
        lower, low = self.branch(depth + 1)
        height = max(high, low) + 1
        # a splitter with a terminator and the splitters above it have the same leaves
        name = f"{self.name}_{start}_{self.used - 1}" + (f"_d{depth}" if self.used == middle else "")
        node = self.b.add(name, "mmi1x2", ("p", height, self.row + start))
        self.b.connect(f"{node},o2", upper)
        self.b.connect(f"{node},o3", lower)
        return f"{node},o1", height
