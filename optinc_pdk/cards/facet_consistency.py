"""Check of a process's edge couplers against its rules of silicon at the edge of a die."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optinc_pdk.cards.errors import CardError
from optinc_pdk.cards.rules import EdgeRule, FacetRule

if TYPE_CHECKING:
    from optinc_pdk.cards.process import Process

ROUNDING_UM = 1e-6


def check_facets(process: Process) -> None:
    """Check that silicon at the edge of a die is checked, and that the rules allow a card's edge couplers.

    Args:
        process: Process with its rules.

    Raises:
        CardError: A layer is exempt from the keep-out and no rule checks it; or edge couplers have no rule, or violate
            it. The message names the file, key, value, rule and limit.
    """
    facets = [rule for rule in process.rules if isinstance(rule, FacetRule)]
    checked = {rule.layers[0] for rule in facets}
    for rule in process.rules:
        if isinstance(rule, EdgeRule) and (left_out := set(rule.layers[1:]) - checked):
            raise CardError(
                f"{process.folder / 'rules.yml'}: rule {rule.id!r} leaves out layer {left_out.pop()!r}, and no rule of "
                "kind facet checks it; add one, or remove the layer"
            )
    if process.fibres.coupler == "edge_coupler":
        _check_couplers(process, facets)


def _check_couplers(process: Process, facets: Sequence[FacetRule]) -> None:
    path = process.folder / "process.yml"
    if not facets:
        raise CardError(
            f"{path}: fibres.coupler is edge_coupler, and no rule of kind facet allows silicon at the edge of a die; "
            "add one to rules.yml, or take grating_coupler"
        )
    facet, pitch = float(process.fibres.facet_um or 0.0), float(process.floorplan.fibre_pitch_um)
    for rule in facets:
        if not rule.value_um - ROUNDING_UM <= facet <= rule.most_um + ROUNDING_UM:
            raise CardError(
                f"{path}: fibres.facet_um is {facet:g} µm, rule {rule.id!r} needs {rule.value_um:g} to "
                f"{rule.most_um:g} µm; correct the value or the rule"
            )
        if pitch < rule.pitch_um - ROUNDING_UM:
            raise CardError(
                f"{path}: floorplan.fibre_pitch_um is {pitch:g} µm, rule {rule.id!r} needs at least "
                f"{rule.pitch_um:g} µm; correct the value or the rule"
            )
