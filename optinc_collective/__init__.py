"""All-reduces over the chip and beside it: averaging schemes for PyTorch, and models of the systems that run them.

- :mod:`optinc_collective.schemes`: collectives for ``torch.distributed``; needs the extra ``train``.
- :mod:`optinc_collective.interconnect`: how long an all-reduce takes, and its energy, on simulated systems.
"""
