"""Choice of a network of comparators for `optinc synth`, by size, field noise or symbol rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from optinc_pdk.cli.app import progress_counter
from optinc_pdk.cli.options import DEFAULT

if TYPE_CHECKING:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.networks import AveragingNetwork
    from optinc_pdk.report.tables import CandidateRow

Goal = Literal["size", "noise", "rate"]


def chosen_network(
    task: Averaging, goal: Goal, mzis: int | None, gain: float | None, process: str | None
) -> tuple[AveragingNetwork, list[CandidateRow]]:
    """Choose a network of comparators, under a progress bar.

    Args:
        task: The averaging task.
        goal: What it is chosen for.
        mzis: Largest number of MZIs; None for none.
        gain: Slope of the comparators; None for the default.
        process: Process of the rates; None for the default.

    Returns:
        The network, and the networks among which it was chosen; none for its size.

    Raises:
        ValueError: The slope or the limit is out of range.
        InputError: No network is within the limit, or no chip has an acceptable rate.
    """
    from optinc_pdk.networks import comparator_network
    from optinc_pdk.networks.closed_form.comparator_layers import GAIN
    from optinc_pdk.networks.closed_form.comparators import candidate_network, check_choices

    slope = GAIN if gain is None else gain
    check_choices(mzis, slope)
    with progress_counter() as report:
        if goal == "size":
            return comparator_network(task, mzis, slope, lambda tried: report("networks", tried, None)), []
        from optinc_pdk.report.tables import rated_rows, tolerant_rows

        if goal == "noise":
            from optinc_pdk.networks.closed_form.comparator_search import candidates

            found = candidates(task, slope, mzis, lambda tried: report("networks", tried, None), "noise")
            return candidate_network(task, found[0]), tolerant_rows(task, found)
        from optinc_pdk.cards import load_process
        from optinc_pdk.studies.rate_search import networks_by_rate

        card = load_process(DEFAULT if process is None else process)
        rated = networks_by_rate(task, card, slope, mzis, lambda what, done: report(what, done, None))
        return rated[0].onn, rated_rows(rated)
