"""Training over the chip: collectives for `torch.distributed`. Needs PyTorch, the extra `train`."""

try:
    import torch  # noqa: F401 - only whether it is there
except ModuleNotFoundError as fault:
    raise ModuleNotFoundError("collectives need PyTorch: pip install 'optinc-pdk[train]'", name=fault.name) from fault

from optinc_pdk.collective.scheme import CommunicationError, Scheme, Traffic

__all__ = ["CommunicationError", "Scheme", "Traffic"]
