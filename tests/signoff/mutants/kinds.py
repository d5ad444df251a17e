"""The kinds of faults, by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mutants.draft import Draft, Mutation

# None where the chip has nothing of that kind to spoil.
Kind = Callable[[Draft, np.random.Generator], Mutation | None]
KINDS: dict[str, Kind] = {}


def kind(name: str) -> Callable[[Kind], Kind]:
    """Register a fault under its name."""

    def register(function: Kind) -> Kind:
        if name in KINDS:
            raise ValueError(f"{name!r} is registered twice")
        KINDS[name] = function
        return function

    return register
