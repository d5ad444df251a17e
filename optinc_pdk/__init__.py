"""From trained weights to a signed-off silicon-photonic chip that computes a quantized average.

Names are resolved when they are first used, so that `import optinc_pdk` costs nothing and the mathematics
starts without the layout tools.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdsfactory import Pdk

    from optinc_pdk import collective as collective
    from optinc_pdk import factor, simulate
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.circuit import Circuit
    from optinc_pdk.flow import build
    from optinc_pdk.onn import Onn
    from optinc_pdk.pdk import get_pdk

    PDK: Pdk
    __version__: str

__all__ = ["PDK", "Averaging", "Circuit", "Onn", "build", "factor", "get_pdk", "simulate"]

_ROOM_OF = {
    "Averaging": "averaging",
    "Circuit": "circuit",
    "Onn": "onn",
    "build": "flow",
    "get_pdk": "pdk",
}

_OPTIONAL = ("collective",)
"""Rooms that need an extra: `from optinc_pdk import *` leaves them out."""


def __getattr__(name: str) -> object:
    if name in _ROOM_OF:
        return getattr(import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    if name == "PDK":  # of the default process; get_pdk(process) gives another's
        return import_module(f"{__name__}.pdk").get_pdk()
    if name in __all__ or name in _OPTIONAL:
        return import_module(f"{__name__}.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("optinc-pdk")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {', '.join((*__all__, *_OPTIONAL))}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_OPTIONAL, "__version__"})
