"""Compiler from a matrix or a trained network to a silicon-photonic chip, and sign-off of photonic layouts.

Names are imported on first use, so that `import optinc_pdk` is fast and the mathematics needs no layout tools.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdsfactory import LayerEnum, Pdk
    from gdsfactory.technology import LayerStack

    from optinc_pdk import factor, simulate
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.circuit import Circuit
    from optinc_pdk.networks import AveragingNetwork, GeneralNetwork, Network
    from optinc_pdk.options import BuildOptions, CascadeOptions, ProgramOptions
    from optinc_pdk.pdk import active_pdk, get_pdk
    from optinc_pdk.pipeline.building import build
    from optinc_pdk.pipeline.cascade import build_cascade
    from optinc_pdk.pipeline.reprogramming import reprogram

    LAYER: type[LayerEnum]
    LAYER_STACK: LayerStack
    PDK: Pdk
    __version__: str

__all__ = [
    "LAYER",
    "LAYER_STACK",
    "PDK",
    "Averaging",
    "AveragingNetwork",
    "BuildOptions",
    "CascadeOptions",
    "Circuit",
    "GeneralNetwork",
    "Network",
    "ProgramOptions",
    "active_pdk",
    "build",
    "build_cascade",
    "factor",
    "get_pdk",
    "reprogram",
    "simulate",
]

_PACKAGE_OF = {
    "Averaging": "averaging",
    "AveragingNetwork": "networks",
    "BuildOptions": "options",
    "CascadeOptions": "options",
    "Circuit": "circuit",
    "GeneralNetwork": "networks",
    "Network": "networks",
    "ProgramOptions": "options",
    "active_pdk": "pdk",
    "build": "pipeline.building",
    "build_cascade": "pipeline.cascade",
    "get_pdk": "pdk",
    "reprogram": "pipeline.reprogramming",
}

_OF_PDK = {"PDK": "", "LAYER": "layers", "LAYER_STACK": "layer_stack"}
"""Names of the PDK and of its attributes, as in other gdsfactory PDKs."""


def __getattr__(name: str) -> object:
    if name in _PACKAGE_OF:
        return getattr(import_module(f"{__name__}.{_PACKAGE_OF[name]}"), name)
    if name in _OF_PDK:  # of the default process; get_pdk(process) gives another's
        pdk = import_module(f"{__name__}.pdk").get_pdk()
        return pdk if name == "PDK" else getattr(pdk, _OF_PDK[name])
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("optinc-pdk")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
