"""Warnings about symbol rates that commands are given."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optinc_pdk.cards import Process


def warn_of_rates(process: Process, rates_bd: Iterable[float]) -> None:
    """Warn on stderr of symbol rates above the limit that a process states.

    Args:
        process: Process of the cards.
        rates_bd: Symbols per second that the user asked for.

    Raises:
        InputError: The process has no noise or no budget section.
    """
    from optinc_pdk.io.formatting import format_si
    from optinc_pdk.simulate.transmission.noise import stated_rate_limit

    limit = stated_rate_limit(process)
    above = sorted({rate for rate in rates_bd if rate > limit})
    if above:
        print(
            f"optinc: {', '.join(format_si(rate, 'Bd') for rate in above)}: above {format_si(limit, 'Bd')}, the limit "
            f"of budget.symbol_rate_max_bd of process {process.name!r}; calculated with the bandwidths of the cards",
            file=sys.stderr,
        )
