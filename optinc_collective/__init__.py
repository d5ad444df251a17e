"""All-reduces over the chip and beside it: averaging schemes for PyTorch, and models of the systems that run them.

- :mod:`optinc_collective.schemes`: collectives for ``torch.distributed``; needs the extra ``train``.
- :mod:`optinc_collective.interconnect`: how long an all-reduce takes, and its energy, on simulated systems.

Both are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optinc_collective import interconnect as interconnect
    from optinc_collective import schemes as schemes

_PACKAGES = ("interconnect", "schemes")


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(_PACKAGES)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES})
