"""Scenes of the electrical rules, and the bias that sets the current that the limit allows."""

from __future__ import annotations

from collections.abc import Iterator

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import CurrentRule, IrDropRule
from optinc_pdk.circuit import Bias
from optinc_pdk.signoff.electrical.wiring import Wiring
from rule_cases.case import LIMIT, Case, Scene
from rule_cases.drawing import Shape, box
from rule_cases.lines import nm
from rule_cases.photonic import guide_nm
from rule_cases.registry import scenes

# Current of a heater's wire; its voltage is below the full scale.
CURRENT_A = 6e-3
# The last digit of a bias with this many bits is smaller than any step.
BITS, BELOW, STEP = 32, 1e-9, 1e-6


def board(process: Process, layer: str, wire: int, trunk: tuple[int, int]) -> list[Shape]:
    """A heater between the wire of its pad to the left and a ground that goes down to its pad; lengths in nm.

    Args:
        process: Process.
        layer: The metal of the wire.
        wire: Its width.
        trunk: Width and length of the ground.
    """
    stack = process.contact.layers
    top, size = stack[-1], nm(float(process.pads.size_um)) + 10_000

    def contact(left: int) -> list[Shape]:
        vias = [box(via, left + 4_000, -1_500, left + 7_000, 1_500) for via in stack[1::2]]
        return [*vias, *(box(metal, left, -6_000, left + 12_000, 6_000) for metal in stack[::2])]

    width, length = trunk
    return [
        box("core", -20_000, -guide_nm(process) // 2, 144_000, guide_nm(process) // 2),
        box("heater", 1_000, -1_500, 123_000, 1_500),
        *contact(0),
        *contact(112_000),
        *(contact(-212_000) if layer != top else ()),
        box(layer, -205_000, 0, 2_000, wire),
        box(top, -200_000 - size, -size // 2, -200_000, size // 2),
        Shape("label", kdb.Text("h0", -200_000 - size // 2, 0)),
        box(top, 112_000, -length, 112_000 + width, 0),
        box(top, 112_000, -length - size, 112_000 + size, -length),
        Shape("label", kdb.Text("GND0", 112_000 + size // 2, -length - size // 2)),
    ]


@scenes("current")
def current(rule: CurrentRule, process: Process) -> Iterator[Scene]:
    """A wire as wide as its heater's current needs."""
    width = round(1e6 * CURRENT_A / rule.value_ma_per_um)
    for layer in rule.layers:

        def wire(delta: int, layer: str = layer) -> list[Shape]:
            return board(process, layer, width + delta, (12_000, 20_000))

        yield Scene(f"wire of {layer}", wire, LIMIT, alone=True)


@scenes("ir_drop")
def ir_drop(rule: IrDropRule, process: Process) -> Iterator[Scene]:
    """A ground whose rise is at the limit; a step is a millionth of the current."""
    width = 4_000
    squares = rule.value_mv / 1e3 / (CURRENT_A * float(process.metal.sheet_ohm))
    shapes = board(process, rule.layers[0], 10_000, (width, round(squares * width)))
    yield Scene("long trunk", lambda _: shapes, LIMIT, alone=True)


def bias_of(case: Case, wiring: Wiring, process: Process) -> Bias:
    """The bias that sets the current of a case's only heater according to its rule."""
    ampere = CURRENT_A * (1 - BELOW)
    if isinstance(case.rule, IrDropRule):
        per_ampere = wiring.rise_v(np.array([1.0]))[0]
        # half a step avoids the limit itself
        ampere = case.rule.value_mv / 1e3 / per_ampere * (1 - STEP * (case.delta_nm + 0.5))
    flowing = np.array([ampere])
    volts = flowing * (wiring.resistance_ohm + wiring.wire_ohm) + wiring.rise_v(flowing)
    code = np.rint(volts / (float(process.drive.full_scale_v) / (2**BITS - 1))).astype(np.int64)
    return Bias(process.name, "board", BITS, wiring.labels, np.zeros(1), np.zeros(1), volts, code)
