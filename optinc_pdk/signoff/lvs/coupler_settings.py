"""Comparison of couplers of any gap and length: gap, coupled length, path difference and lengths of both guides."""

from __future__ import annotations

import math
from collections.abc import Iterator

from optinc_pdk.cards import DeviceCard, Process
from optinc_pdk.cards.device_models import PATH_DIFFERENCE, SETTINGS
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.signoff.lvs.device_matching import Permutation
from optinc_pdk.signoff.lvs.differences import Difference, MatchedCircuits
from optinc_pdk.signoff.lvs.guide_lengths import ComparedLengths, compared_lengths

MODEL = "coupled_guides"
# Ports o1 … o4 are numbered clockwise. Two coupled guides are the same device if the ends of both are exchanged, if the
# guides are exchanged, or both; the lengths of the guides are compared by their ports.
EXCHANGES: tuple[Permutation, ...] = ((0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1))
GUIDES = ("guide_1_um", "guide_2_um")
STATED_UM = 0.000501
"""Largest rounding of a setting in a netlist, in µm: gdsfactory states whole nanometres. The rest is that of floats."""
KINDS = {
    "gap_um": "gap",
    "coupled_length_um": "coupled_length",
    PATH_DIFFERENCE: "path_difference",
    **dict.fromkeys(GUIDES, "guide_length"),
}
"""Kind of the difference of each setting."""


def coupler_symmetries(process: Process) -> dict[str, tuple[Permutation, ...]]:
    """Return the permutations of the ports of couplers of any gap and length that map them onto themselves."""
    return {card.name: EXCHANGES for card in _cards(process)}


def couplers(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each setting of a matched coupler that differs from the reference's.

    Settings that the reference does not state are not compared. The card of the coupler states the tolerances.
    """
    for card, i, j in _matched(pair):
        yield from _differences(pair, card, i, j)


def coupler_lengths(pair: MatchedCircuits) -> ComparedLengths | None:
    """Summarise the lengths of both guides of all matched couplers; None if the reference states none."""
    found = [
        (_found(pair, key, i, j) - expected, _tolerance(card, key, expected), i)
        for card, i, j in _matched(pair)
        for key in GUIDES
        if not math.isnan(expected := _expected(pair, key, i))
    ]
    deviation, tolerance = ([each[column] for each in found] for column in (0, 1))
    return compared_lengths(
        "guides of couplers",
        deviation,
        tolerance,
        lambda number: pair.ref.circuit.instances[found[number][2]],
        pair.process,
    )


def unstated_settings(pair: MatchedCircuits) -> int:
    """Count the settings of matched couplers that the reference does not state."""
    return sum(math.isnan(_expected(pair, key, i)) for _, i, _ in _matched(pair) for key in SETTINGS[MODEL])


def _matched(pair: MatchedCircuits) -> Iterator[tuple[DeviceCard, int, int]]:
    """Yield the card, the reference instance and the extracted instance of each matched coupler."""
    for card in _cards(pair.process):
        for i, kind in enumerate(pair.ref.kind):
            j = int(pair.map.device[i])
            if kind == card.name and j != UNCONNECTED:
                yield card, i, j


def _expected(pair: MatchedCircuits, key: str, i: int) -> float:
    """Return a setting of the reference, NaN if it does not state it."""
    column = pair.ref.circuit.settings.get(key)
    return math.nan if column is None else float(column[i])


def _differences(pair: MatchedCircuits, card: DeviceCard, i: int, j: int) -> Iterator[Difference]:
    names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
    for key in SETTINGS[MODEL]:
        expected, found = _expected(pair, key, i), _found(pair, key, i, j)
        tolerance = _tolerance(card, key, expected)
        # a setting that the reference does not state is NaN
        if abs(found - expected) > tolerance:
            text = f"{key} is {found:.4f}, in the reference {expected:.4f}, allowed are ±{tolerance:.4f}"
            yield Difference(KINDS[key], text, *names, pair.position(j))


def _found(pair: MatchedCircuits, key: str, i: int, j: int) -> float:
    """Return an extracted setting: guides have other numbers if port o1 is mapped to the other guide."""
    image = int(pair.map.port[pair.ref.starts[i]]) - pair.ext.starts[j]
    exchanged = image in (1, 2)
    other = {"guide_1_um": "guide_2_um", "guide_2_um": "guide_1_um"}
    found = float(pair.ext.circuit.settings[other.get(key, key) if exchanged else key][j])
    return -found if exchanged and key == PATH_DIFFERENCE else found


def _tolerance(card: DeviceCard, key: str, expected: float) -> float:
    if key == "gap_um":
        return card.size("gap_tolerance_um")
    if key == "coupled_length_um":
        return card.size("coupled_length_tolerance") * abs(expected) + STATED_UM
    if key == PATH_DIFFERENCE:
        return card.size("path_difference_tolerance_um")
    return card.size("guide_tolerance_um")


def _cards(process: Process) -> list[DeviceCard]:
    return [card for card in process.devices.values() if card.model.name == MODEL]
